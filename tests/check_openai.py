#!/usr/bin/env python3
"""`1bit serve` with SmolLM2, driven by the real `openai` package, and stopped by SIGTERM."""

import importlib.util
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import common

SCRIPT = common.ROOT / "crates/server/tests/openai_client.py"
MODEL = "smollm2"


class Server:
    """A running server; `log` gathers what it says."""

    def __init__(self, binary, *args):
        command = [binary, "serve", "-m", MODEL, "--port", "0", *args]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.log, self.base = [], None
        self.listening = threading.Event()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"http://[\w.:\[\]]+/v1", line)
            if found and not self.base:
                self.base = found.group()
                self.listening.set()
        self.listening.set()

    def get(self, path):
        """(status, JSON) of a path without /v1."""
        try:
            with urllib.request.urlopen(self.base.removesuffix("/v1") + path, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def wait_until_ready(self, seconds=120):
        deadline, seen = time.monotonic() + seconds, set()
        while time.monotonic() < deadline and self.process.poll() is None:
            status, body = self.get("/health")
            seen.add((status, body.get("error", body).get("message", "ok")))
            if status == 200:
                return seen
            time.sleep(0.02)
        raise SystemExit(f"not ready: {seen} {self.log}")


def main():
    args = common.arguments(__doc__)
    if not importlib.util.find_spec("openai"):
        common.skip("the `openai` package is not installed")
    code, _, said = common.run(args.binary, "pull", MODEL, timeout=900)
    if code:
        print(said)
        common.skip("no source of the model can be reached from here")
    tally = common.Tally()
    server = Server(args.binary, "--alias", "smollm2-test", "--api-key", "secret", "--drain", "300")
    try:
        server.listening.wait(60)
        if not tally.check("it tells its address", server.base is not None, server.log):
            tally.end()
        seen = server.wait_until_ready()
        tally.check("503 while loading, then 200", seen <= {(503, "Loading model"), (200, "ok")}, seen)
        tally.check("a key is asked for", server.get("/v1/models")[0] == 401)
        command = [sys.executable, SCRIPT, "--base-url", server.base, "--model", "smollm2-test", "--api-key", "secret"]
        client = subprocess.run(command, timeout=900)
        tally.check("the openai package", client.returncode == 0)

        # A stream that is being made when the signal comes ends whole.
        request = json.dumps({"messages": [{"role": "user", "content": "Tell a story."}], "max_tokens": 100, "stream": True})
        headers = {"Content-Type": "application/json", "Authorization": "Bearer secret"}
        stream = urllib.request.urlopen(urllib.request.Request(server.base + "/chat/completions", request.encode(), headers), timeout=300)
        first = stream.readline()
        server.process.send_signal(signal.SIGTERM)
        rest = stream.read().decode()
        tally.check("the stream was running", first.startswith(b"data: {"), first)
        tally.check("it ended whole", rest.endswith("data: [DONE]\n\n"), rest[-300:])
        code = server.process.wait(timeout=300)
        tally.check("exit code 0 after SIGTERM", code == 0, f"{code} {server.log}")
        tally.check("no text of prompts in the log", "story" not in "".join(server.log))
    finally:
        server.process.kill()
    tally.end()


if __name__ == "__main__":
    main()
