#!/usr/bin/env python3
"""Measures 1bit and its peers on one model in one run, a request of each in turn.

    tools/bench.py MODEL.gguf [--peers llama.cpp,openvino] [--prompt 512] [--gen 64] [--depths 4096] [--streams 8] [--rounds 7]
                   [--threads N] [--activations auto] [--binary target/release/1bit] [--json FILE] [--plot FILE.svg] [--anyway]

Peers are installed from PyPI into target/bench-venv:

    llama.cpp        xllamacpp: llama.cpp built for any processor with AVX2
    llama.cpp-native llama-cpp-python from source for this processor (GGML_NATIVE=ON), which takes ten minutes once
    openvino         openvino-genai, which reads some GGUF types of some architectures
    mistral.rs       mistralrs

What is measured, each in every round and of every program, one after the other:

    pp N      tokens of prompt per second, N of them at once
    tg N @D   tokens of an answer per second, N of them behind D tokens of context
    tg N xS   tokens per second of S answers at once, all together, from the first request to the last answer
    load      seconds from the start of the program (of loading, where Python carries it) to the first token, files cached
    memory    the most that the process has had, MiB, of which Python and its libraries are a part in the peers'

1bit takes part twice, as two processes: what the second differs by is what the machine's noise can do. Where the medians of the two
differ by more than a tenth in any measurement, the run is refused: the exit code is 1, and nothing is written unless --anyway.
Figures are medians of the rounds; ratios are medians of each round's ratio. Shares of the roof are of what `1bit bench` finds that this
machine reads. Prints a Markdown table; --json and --plot write files.
"""

import argparse
import json
import os
import pathlib
import queue
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / "target/bench-venv"
# How far the two processes of 1bit may be apart.
NOISE = 1.10
PACKAGES = {
    "llama.cpp": ["xllamacpp"],
    "llama.cpp-native": ["llama-cpp-python"],
    "openvino": ["openvino-genai", "openvino-tokenizers"],
    "mistral.rs": ["mistralrs"],
}


def ids(count, salt):
    """Tokens that no cache of prompts can know."""
    return [(i * 7919 + salt * 104729) % 40000 + 100 for i in range(count)]


# --- The programs. Each is made in a process of its own, and answers `answer(prompt, count)` with (prompt rate, answer rate). ---


class Server:
    """1bit, through its server."""

    def __init__(self, a, model, context, streams):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [a.binary, "serve", "-m", model, "--port", str(port), "--threads", str(a.threads), "--activations", a.activations]
        command += ["--ctx-size", str(context), "--parallel", str(streams)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5)
                return
            except (urllib.error.HTTPError, OSError):
                if self.process.poll() is not None:
                    raise RuntimeError(f"{' '.join(command)}: {self.process.stderr.read().strip()}") from None
                time.sleep(0.002)

    def answer(self, prompt, count):
        body = {"prompt": prompt, "n_predict": count, "temperature": 0, "cache_prompt": False, "ignore_eos": True}
        request = urllib.request.Request(f"{self.url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
        timings = json.load(urllib.request.urlopen(request, timeout=1800))["timings"]
        return timings["prompt_per_second"], timings["predicted_per_second"]

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


class LlamaCpp:
    """llama.cpp's server in this process."""

    def __init__(self, a, model, context, streams):
        import xllamacpp

        p = xllamacpp.CommonParams()
        p.model.path, p.n_parallel, p.verbosity, p.n_ctx = model, streams, -1, context * streams
        p.cpuparams.n_threads = p.cpuparams_batch.n_threads = a.threads
        self.server = xllamacpp.Server(p)
        self.pid = os.getpid()

    def answer(self, prompt, count):
        body = {"prompt": prompt, "n_predict": count, "temperature": 0, "cache_prompt": False, "ignore_eos": True}
        said = self.server.handle_completions(body)
        timings = (json.loads(said) if isinstance(said, (bytes, str)) else said)["timings"]
        return timings["prompt_per_second"], timings["predicted_per_second"]

    def stop(self):
        pass


class LlamaCppNative:
    """llama.cpp for this very processor, one sequence at a time."""

    def __init__(self, a, model, context, streams):
        from llama_cpp import Llama

        if streams > 1:
            raise RuntimeError("its Python interface has one sequence")
        self.model = Llama(model, n_ctx=context, n_threads=a.threads, n_threads_batch=a.threads, n_batch=512, verbose=False)
        self.pid = os.getpid()

    def answer(self, prompt, count):
        self.model.reset()
        start = time.perf_counter()
        self.model.eval(prompt)
        read = time.perf_counter()
        # The first token falls out of the prompt.
        for _ in range(count - 1):
            self.model.eval([self.model.sample(temp=0.0)])
        return len(prompt) / (read - start), (count - 1) / max(time.perf_counter() - read, 1e-9)

    def stop(self):
        pass


class OpenVino:
    """OpenVINO GenAI's pipeline on the processor."""

    def __init__(self, a, model, context, streams):
        import numpy
        import openvino
        import openvino_genai as genai

        if streams > 1:
            raise RuntimeError("one pipeline answers one request")
        self.numpy, self.openvino, self.genai = numpy, openvino, genai
        self.pipe = genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=a.threads)
        self.pid = os.getpid()

    def answer(self, prompt, count):
        config = self.genai.GenerationConfig(max_new_tokens=count, min_new_tokens=count, ignore_eos=True, do_sample=False)
        tokens = self.openvino.Tensor(self.numpy.array([prompt], dtype=self.numpy.int64))
        metrics = self.pipe.generate(tokens, config).perf_metrics
        return len(prompt) / (metrics.get_ttft().mean / 1e3), 1e3 / metrics.get_tpot().mean if count > 1 else 0.0

    def stop(self):
        pass


class MistralRs:
    """mistral.rs through its Python package; it takes text, whose tokens it counts itself."""

    def __init__(self, a, model, context, streams):
        import mistralrs

        if streams > 1:
            raise RuntimeError("its Python interface blocks")
        os.environ["RAYON_NUM_THREADS"] = str(a.threads)
        path = pathlib.Path(model)
        which = mistralrs.Which.GGUF(quantized_model_id=str(path.parent), quantized_filename=path.name)
        self.mistralrs, self.runner, self.salt = mistralrs, mistralrs.Runner(which=which), 0
        self.pid = os.getpid()

    def answer(self, prompt, count):
        self.salt += 1
        # Numbers of one digit are mostly tokens of their own.
        text = " ".join(str((i * self.salt) % 10) for i in range(len(prompt) // 2))
        request = self.mistralrs.CompletionRequest(model="default", prompt=text, max_tokens=count, temperature=0.0)
        usage = self.runner.send_completion_request(request).usage
        return usage.avg_prompt_tok_per_sec, usage.avg_compl_tok_per_sec

    def stop(self):
        pass


PROGRAMS = {"1bit": Server, "control": Server, "llama.cpp": LlamaCpp, "llama.cpp-native": LlamaCppNative, "openvino": OpenVino, "mistral.rs": MistralRs}


# --- A program's process: reads a line of JSON, does it, writes a line. ---


def peak_mib(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) / 1024


def at_once(program, prompts, count):
    """Seconds that all answers take together."""
    results = queue.Queue()

    def one(prompt):
        try:
            results.put(program.answer(prompt, count))
        except Exception as e:  # noqa: BLE001: told to whoever waits
            results.put(e)

    start = time.perf_counter()
    threads = [threading.Thread(target=one, args=(p,)) for p in prompts]
    [t.start() for t in threads]
    [t.join() for t in threads]
    seconds = time.perf_counter() - start
    for _ in prompts:
        result = results.get()
        if isinstance(result, Exception):
            raise result
    return seconds


def worker(a):
    """Loads the program, says how long that and its first token took, and does what is asked."""
    # What libraries print must not get between the lines.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(value):
        print(json.dumps(value), file=out, flush=True)

    try:
        start = time.perf_counter()
        program = PROGRAMS[a.worker](a, a.model, a.context, a.slots)
        program.answer(ids(8, 1), 1)
        say({"load": time.perf_counter() - start})
        for line in sys.stdin:
            asked = json.loads(line)
            if "prompts" in asked:
                seconds = at_once(program, asked["prompts"], asked["count"])
                say({"rate": len(asked["prompts"]) * asked["count"] / seconds})
            elif "prompt" in asked:
                pp, tg = program.answer(asked["prompt"], asked["count"])
                say({"pp": pp, "tg": tg})
            else:
                say({"memory": peak_mib(program.pid)})
        program.stop()
    except Exception as e:  # noqa: BLE001: whatever a peer does, the others go on
        say({"error": f"{type(e).__name__}: {e}"})
        sys.exit(1)


class Worker:
    """A program in a process, seen from here."""

    def __init__(self, a, name, context, slots):
        self.name = name
        command = [sys.executable, __file__, a.model, "--worker", name, "--context", str(context), "--slots", str(slots)]
        command += ["--threads", str(a.threads), "--activations", a.activations, "--binary", a.binary]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.load = self.hear()["load"]

    def hear(self):
        line = self.process.stdout.readline()
        said = json.loads(line) if line else {"error": f"ended with exit code {self.process.wait()}"}
        if "error" in said:
            raise RuntimeError(f"{self.name}: {said['error']}")
        return said

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self.hear()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=120)


# --- The run. ---


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", text)
    features = [shown for flag, shown in (("avx2", "AVX2"), ("avx512_vnni", "AVX-512 VNNI"), ("amx_int8", "AMX")) if re.search(rf"\b{flag}\b", text)]
    return (name[1] if name else "unknown processor") + (f" ({', '.join(features)})" if features else "")


def install(peers):
    """A Python that has the peers."""
    if not (VENV / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    for peer in [*peers, None]:
        packages = PACKAGES[peer] if peer else ["matplotlib"]
        environment = dict(os.environ, CMAKE_ARGS="-DGGML_NATIVE=ON") if peer == "llama.cpp-native" else None
        print(f"installing {' '.join(packages)}", file=sys.stderr)
        subprocess.run([VENV / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True, env=environment)
    os.execv(VENV / "bin/python", [str(VENV / "bin/python"), *sys.argv, "--installed"])


def measure(a, names):
    """{measurement: {program: [a figure each round]}}, and why programs are missing."""
    deepest = max([0, *a.depths])
    context = max(a.prompt, deepest) + a.gen + 64
    figures, missing = {}, {}

    def note(test, name, value):
        figures.setdefault(test, {}).setdefault(name, []).append(value)

    def start(name, *size):
        try:
            return Worker(a, name, *size)
        except RuntimeError as e:
            missing[f"{name} with {size[1]} streams" if size[1] > 1 else name] = str(e)
            return None

    def rounds(workers, tests):
        """All tests of all programs, round by round; the first round warms up, and each begins with another program."""
        for number in range(a.rounds + 1):
            for test, run in tests:
                order = list(workers)
                order = order[number % len(order):] + order[: number % len(order)]
                for name in order:
                    print(f"\r\033[Kround {number} of {a.rounds}: {test}, {name}", end="", file=sys.stderr, flush=True)
                    try:
                        for test_name, value in run(workers[name], number).items():
                            if number > 0:
                                note(test_name, name, value)
                    except RuntimeError as e:
                        missing[name] = str(e)
                        del workers[name]

    workers = {name: w for name in names if (w := start(name, context, 1))}

    def single(depth, prompt_too):
        def run(worker, number):
            said = worker.ask(prompt=ids(depth, number), count=a.gen)
            answer = {f"tg{a.gen} @{depth}": said["tg"]}
            return {f"pp{depth}": said["pp"], **answer} if prompt_too else answer

        return run

    tests = [(f"{a.prompt} tokens", single(a.prompt, True))]
    tests += [(f"{depth} tokens", single(depth, True)) for depth in a.depths]
    rounds(workers, tests)
    for name, worker in workers.items():
        note("memory", name, worker.ask()["memory"])
        worker.stop()
    for streams in a.streams:
        crowd = {name: w for name in names if (w := start(name, a.gen + 128, streams))}

        def together(worker, number, streams=streams):
            prompts = [ids(32, number * streams + s) for s in range(streams)]
            return {f"tg{a.gen} x{streams}": worker.ask(prompts=prompts, count=a.gen)["rate"]}

        rounds(crowd, [(f"{streams} at once", together)])
        [w.stop() for w in crowd.values()]
    for number in range(a.rounds + 1):
        for name in [n for n in names if n in workers]:
            print(f"\r\033[Kround {number} of {a.rounds}: loading, {name}", end="", file=sys.stderr, flush=True)
            worker = start(name, 512, 1)
            if worker and number > 0:
                note("load", name, worker.load)
            if worker:
                worker.stop()
    print("\r\033[K", end="", file=sys.stderr)
    return figures, missing


def roof(a):
    """What `1bit bench` says of the machine, and of bytes for a token by depth."""
    depths = ",".join(map(str, [a.prompt, *a.depths]))
    command = [a.binary, "bench", a.model, "-p", "0", "-n", "4", "-d", depths, "-r", "1", "-t", str(a.threads), "-o", "json"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    bytes_at = {f"tg{a.gen} @{d}": t["bytes_per_token"] for d, t in zip([a.prompt, *a.depths], said["tests"])}
    return said["roof"], bytes_at


def better_is_less(test):
    return test in ("load", "memory")


def summary(figures, roof_rates, bytes_at):
    """A row for each measurement."""
    rows = {}
    for test, by_name in figures.items():
        medians = {name: statistics.median(values) for name, values in by_name.items()}
        row = {"median": medians, "rounds": by_name, "ratio": {}}
        for name, values in by_name.items():
            if name != "1bit" and "1bit" in by_name:
                pairs = list(zip(by_name["1bit"], values))
                each = [y / x if better_is_less(test) else x / y for x, y in pairs]
                row["ratio"][name] = {"median": statistics.median(each), "least": min(each), "most": max(each)}
        if test in bytes_at:
            row["share_of_reading"] = {n: m * bytes_at[test] / roof_rates["read_bytes_per_second"] for n, m in medians.items()}
        rows[test] = row
    return rows


def noisy(rows):
    """Measurements in which the two processes of 1bit are too far apart."""
    apart = {t: r["median"]["1bit"] / r["median"]["control"] for t, r in rows.items() if {"1bit", "control"} <= set(r["median"])}
    return {test: round(ratio, 3) for test, ratio in apart.items() if max(ratio, 1 / ratio) > NOISE}


def table(result):
    peers = [n for n in result["programs"] if n not in ("1bit", "control")]
    others = [*peers, "control"]
    lines = ["| | 1bit | share of the reading | " + " | ".join(f"{n} | 1bit is ahead by" for n in others) + " |"]
    lines.append("|---|---:|---:|" + "---:|---:|" * len(others))
    for test, row in result["tests"].items():
        share = row.get("share_of_reading", {}).get("1bit")
        cells = [test, f"{row['median']['1bit']:.4g}", f"{100 * share:.0f}%" if share else "-"]
        for name in others:
            ratio = row["ratio"].get(name)
            cells += [f"{row['median'][name]:.4g}", f"{ratio['median']:.2f} ({ratio['least']:.2f}-{ratio['most']:.2f})"] if ratio else ["-", "-"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(result, path):
    import matplotlib

    matplotlib.use("svg")
    # The same numbers make the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "1bit", "svg.fonttype": "none"})
    from matplotlib import pyplot

    rates = {t: r for t, r in result["tests"].items() if not better_is_less(t)}
    groups = [("prompts", [t for t in rates if t.startswith("pp")]), ("answers", [t for t in rates if t.startswith("tg")])]
    groups = [g for g in groups if g[1]]
    figure, axes = pyplot.subplots(1, len(groups), figsize=(5 * len(groups), 3.6), squeeze=False)
    programs = [n for n in result["programs"] if n != "control"]
    for axis, (title, tests) in zip(axes[0], groups):
        width = 0.8 / len(programs)
        for i, name in enumerate(programs):
            at = [t + (i - (len(programs) - 1) / 2) * width for t in range(len(tests))]
            medians = [rates[t]["median"].get(name, 0) for t in tests]
            spread = [rates[t]["rounds"].get(name, [0]) for t in tests]
            errors = [[m - min(s) for m, s in zip(medians, spread)], [max(s) - m for m, s in zip(medians, spread)]]
            axis.bar(at, medians, width, yerr=errors, label=name, error_kw={"linewidth": 0.8})
        axis.set_xticks(range(len(tests)), tests, fontsize=8)
        axis.set_ylabel("tokens per second")
        axis.set_title(title)
    axes[0][0].legend(fontsize=8)
    figure.suptitle(f"{result['model']} · {result['processor']}, {result['threads']} threads", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def numbers(text):
    return [int(n) for n in text.split(",") if n and int(n) > 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--peers", default="llama.cpp", type=lambda t: [p for p in t.split(",") if p])
    parser.add_argument("--binary", default=str(ROOT / "target/release/1bit"), type=os.path.abspath)
    parser.add_argument("--activations", default="auto")
    parser.add_argument("--depths", default="", type=numbers)
    parser.add_argument("--streams", default="", type=numbers)
    for name, default in (("prompt", 512), ("gen", 64), ("threads", os.cpu_count()), ("rounds", 7)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--anyway", action="store_true")
    for name in ("--worker", "--context", "--slots"):
        parser.add_argument(name, help=argparse.SUPPRESS, type=None if name == "--worker" else int)
    parser.add_argument("--installed", help=argparse.SUPPRESS, action="store_true")
    a = parser.parse_args()
    a.model = os.path.abspath(a.model)
    if a.worker:
        return worker(a)
    unknown = [p for p in a.peers if p not in PACKAGES]
    if unknown:
        parser.error(f"--peers {','.join(unknown)}: known are {', '.join(PACKAGES)}")
    if not a.installed:
        install(a.peers)
    roof_rates, bytes_at = roof(a)
    figures, missing = measure(a, ["1bit", *a.peers, "control"])
    rows = summary(figures, roof_rates, bytes_at)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    result = {
        "model": os.path.basename(a.model), "bytes": os.path.getsize(a.model), "processor": processor(), "threads": a.threads,
        "activations": a.activations, "rounds": a.rounds, "commit": commit, "roof": roof_rates, "programs": ["1bit", *a.peers, "control"],
        "command": " ".join(["tools/bench.py", *[os.path.basename(x) if x.startswith("/") else x for x in sys.argv[1:] if x != "--installed"]]),
        "missing": missing, "too_noisy": noisy(rows), "tests": rows,
    }
    for name, why in missing.items():
        print(f"{name} is missing: {why}", file=sys.stderr)
    if result["too_noisy"]:
        print(f"refused: the two processes of 1bit are more than a tenth apart: {result['too_noisy']}", file=sys.stderr)
        if not a.anyway:
            sys.exit(1)
    print(f"{result['model']}, {result['processor']}, {a.threads} threads, at {commit}: `{result['command']}`\n")
    print(table(result))
    if a.json:
        a.json.write_text(json.dumps(result, indent=1) + "\n")
    if a.plot:
        plot(result, a.plot)


if __name__ == "__main__":
    main()
