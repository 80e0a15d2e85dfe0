#!/usr/bin/env python3
"""1bit in the place of llama-server, started, polled, asked and stopped as AMD's Lemonade Server does.

Lemonade itself is not here. Each step below does what its source says (lemonade-sdk/lemonade, src/cpp/server): the file and the
function are named. The model is SmolLM2, as a file."""

import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import common

# `terminate` in utils/platform/process_linux.cpp kills after 50 times 100 ms.
PATIENCE = 5


def free_port(start):
    """`find_free_port` in utils/platform/process_unix_base.cpp."""
    for port in range(start, 65535):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    sys.exit("no port is free")


def environment():
    """`build_sanitized_env` in utils/platform/process_linux.cpp."""
    secret = ("API_KEY", "TOKEN", "SECRET", "PASS", "AUTH")
    return {k: v for k, v in os.environ.items() if not k.startswith("LEMONADE_") and not any(s in k for s in secret)}


def arguments(model, port, *more):
    """`LlamaCppServer::load` in backends/llamacpp/llamacpp_server.cpp, for the backend rocm on a machine with an iGPU."""
    reserved = ["-m", model, "--ctx-size", 2048, "--port", port, "--jinja", "--metrics"]
    overridable = ["--context-shift", "--keep", 16, "--reasoning-format", "auto", "--no-ui", "--load-mode", "none"]
    return [str(a) for a in [*reserved, *overridable, *more]]


def spawn(front, arguments):
    """`spawn_process` in utils/platform/process_linux.cpp."""
    die_with_parent = lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # noqa: E731: PR_SET_PDEATHSIG
    return subprocess.Popen(
        [front, *arguments], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent
    )


def terminate(process):
    """`terminate` in utils/platform/process_linux.cpp; whether the process went by itself, and its exit code."""
    process.send_signal(signal.SIGTERM)
    try:
        return True, process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return False, process.wait()


class Child:
    """A server that is started and waited for."""

    def __init__(self, front, *args):
        self.process = spawn(front, args)
        self.base = f"http://127.0.0.1:{args[args.index('--port') + 1]}"

    def reachable(self):
        """`HttpClient::is_reachable` in utils/http_client.cpp: any 200 within a second."""
        try:
            return urllib.request.urlopen(f"{self.base}/health", timeout=1).status == 200
        except OSError:
            return False

    def ready(self, seconds=120):
        """`wait_for_ready` in wrapped_server.cpp, which looks each second."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.reachable():
                return True
            time.sleep(0.1)
        return False

    def forward(self, path, body=None):
        """`forward_request` and `forward_get_request` in wrapped_server.cpp: (status, JSON)."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def stream(self, path, body):
        """`forward_sse_stream` in streaming_proxy.cpp: the events, and whether [DONE] came last."""
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            lines = [line.decode().strip() for line in answer]
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [json.loads(d) for d in data if d != "[DONE]"], data[-1:] == ["[DONE]"]


MESSAGES = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}}


def served(tally, child):
    """What Lemonade's own server tests ask for (test/server_llm.py), as far as SmolLM2 goes."""
    # `JsonUtils::with_legacy_max_tokens_alias` in utils/json_utils.cpp sends both names.
    chat = {"model": "SmolLM2", "messages": MESSAGES, "max_tokens": 16, "max_completion_tokens": 16, "temperature": 0}
    status, models = child.forward("/v1/models")
    tally.check("models", status == 200 and len(models["data"]) >= 1, models)
    status, answer = child.forward("/v1/chat/completions", chat)
    content = answer["choices"][0]["message"]["content"] if status == 200 else ""
    tally.check("chat", "Paris" in content, answer)
    # `normalize_response_model` replaces the model's name where there is one.
    tally.check("the answer names a model", isinstance(answer.get("model"), str), answer)
    events, done = child.stream("/v1/chat/completions", {**chat, "stream": True, "stream_options": {"include_usage": True}})
    text = "".join(c["delta"].get("content") or "" for e in events for c in e["choices"])
    tally.check("chat, streamed", done and text == content, (done, text))
    tally.check("usage at the end", events[-1].get("usage", {}).get("completion_tokens", 0) > 0, events[-1])
    # `StreamingProxy` reads timings for its telemetry.
    tally.check("timings", answer.get("timings", {}).get("predicted_per_second", 0) > 0, answer)
    status, answer = child.forward("/v1/completions", {"prompt": "Paris is the capital of", **{k: v for k, v in chat.items() if k != "messages"}})
    tally.check("completion", status == 200 and answer["choices"][0]["text"], answer)
    status, answer = child.forward("/v1/chat/completions", {**chat, "stop": ["aris"]})
    tally.check("stop", status == 200 and "aris" not in answer["choices"][0]["message"]["content"], answer)
    # SmolLM2's template has no place for them: they are told of in the system's message, and the answer is held to a call.
    status, answer = child.forward("/v1/chat/completions", {**chat, "max_tokens": 200, "max_completion_tokens": 200, "tools": [TOOL], "tool_choice": "required"})
    calls = answer["choices"][0]["message"].get("tool_calls") if status == 200 else None
    tally.check("tools", calls and calls[0]["function"]["name"] == TOOL["function"]["name"], answer)
    status, answer = child.forward("/tokenize", {"content": "Hello"})
    tally.check("tokenize", status == 200 and answer["tokens"], answer)
    status, answer = child.forward("/v1/chat/completions", {"messages": "no list"})
    tally.check("what is wrong is told", status == 400 and answer["error"]["message"], answer)


def killed_parent(tally, front, model, folder):
    """No child survives a Lemonade that is killed; the script goes by Lemonade's name."""
    script = folder / "lemond"
    script.write_text(
        f"#!{sys.executable}\nimport ctypes, signal, subprocess, sys\n"
        "die = (lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM)) if sys.argv[1] == 'while it loads' else None\n"
        "child = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die)\n"
        "print(child.pid, flush=True)\nchild.wait()\n"
    )
    script.chmod(0o755)
    for when in ("while it loads", "when it is ready"):
        port = free_port(8001)
        # Before it can look who has started it, only the system's own signal helps; afterwards it has to watch by itself.
        parent = subprocess.Popen([script, when, front, *arguments(model, port)], stdout=subprocess.PIPE, text=True)
        pid = int(parent.stdout.readline())
        deadline = time.monotonic() + 120
        while when == "when it is ready" and time.monotonic() < deadline:
            try:
                if urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).status == 200:
                    break
            except OSError:
                time.sleep(0.1)
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 2 * PATIENCE
        while pathlib.Path(f"/proc/{pid}/stat").exists() and time.monotonic() < deadline:
            # Orphans of a container may have nobody who reaps them.
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                break
            time.sleep(0.1)
        else:
            tally.check(f"a parent killed {when} leaves no child", not pathlib.Path(f"/proc/{pid}").exists())
            continue
        tally.check(f"a parent killed {when} leaves no child", True)


def main():
    args = common.arguments(__doc__)
    tally = common.Tally()
    common.run(args.binary, "pull", "smollm2", timeout=600)
    listed = json.loads(common.run(args.binary, "list", "--cached", "--json")[1])
    model = next((row["path"] for row in listed if row["name"] == "smollm2"), None)
    if model is None:
        common.skip("SmolLM2 cannot be fetched")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        front = folder / "llama-server"
        shutil.copy(args.binary, front)
        # `system_llamacpp_version` in backends/llamacpp/llamacpp_server.cpp reads the first line of stdout.
        version = subprocess.run([front, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        tally.check("version", re.search(r"version:\s*(\d+)", version.splitlines()[0]), version)
        devices = subprocess.run([front, "--list-devices"], capture_output=True, text=True)
        tally.check("devices", devices.returncode == 0 and devices.stdout.startswith("Available devices:"), devices.stdout)

        child = Child(front, *arguments(model, free_port(8001)))
        tally.check("ready", child.ready(), child.process.poll())
        served(tally, child)
        # `LlamaCppServer::unload`.
        gone, code = terminate(child.process)
        tally.check("unload", gone and code == 0, code)
        said = child.process.stdout.read()
        # `log_process_line` takes every line with this word for an error.
        tally.check("nothing is said to be wrong", "error" not in said.lower(), said)
        tally.check("what is passed over is told", "--context-shift" in said, said)

        # Two models at once are two children (Multi-Model-Spec.md).
        both = [Child(front, *arguments(model, free_port(8001 + 100 * i)), "--alias", f"m{i}") for i in range(2)]
        tally.check("two children", all(c.ready() for c in both))
        for i, c in enumerate(both):
            status, answer = c.forward("/v1/chat/completions", {"model": f"m{i}", "messages": MESSAGES, "max_tokens": 4})
            tally.check(f"child {i} answers", status == 200, answer)
        tally.check("both go", all(terminate(c.process)[0] for c in both))

        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            child = Child(front, *arguments(model, port))
            tally.check("a port that is taken ends it", not child.ready(20) and child.process.wait() not in (0, None))
            said = child.process.stdout.read()
            tally.check("and is named", str(port) in said, said)
        child = Child(front, *arguments(folder / "none.gguf", free_port(8001)))
        tally.check("a model that is not there ends it", not child.ready(20) and child.process.wait() != 0)
        said = child.process.stdout.read()
        tally.check("and is named", "none.gguf" in said, said)
        child = Child(front, *arguments(model, free_port(8001), "--lora", "x"))
        tally.check("a flag that would change answers ends it", child.process.wait(20) == 2)
        said = child.process.stdout.read()
        tally.check("and is named", "--lora" in said, said)
        for delay in (0.0, 0.02, 0.1, 0.3):
            child = Child(front, *arguments(model, free_port(8001)))
            time.sleep(delay)
            gone, _ = terminate(child.process)
            tally.check(f"a load cancelled after {delay} s", gone)
        killed_parent(tally, front, model, folder)
    tally.end()


if __name__ == "__main__":
    main()
