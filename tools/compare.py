#!/usr/bin/env python3
"""Measures 1bit against llama.cpp (xllamacpp from PyPI) in one run, a request of each in turn.

    tools/compare.py MODEL.gguf [--binary target/release/1bit] [--prompt 512] [--gen 64] [--threads 2] [--rounds 5] [--activations auto]

In each round 1bit, llama.cpp and 1bit again (the control: a second process of the same program) answer the same request; the first
round warms up and is left out. Prints JSON: medians of tokens per second of prompts (`pp`) and of decoding (`tg`), the medians of the
ratios of each round (above 1: 1bit is faster), and the same for the control, whose distance from 1 is the noise of the machine.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request


def tokens(count, salt):
    """Ids that no cache of prompts can know."""
    return [(i * 7919 + salt * 104729) % 40000 + 100 for i in range(count)]


class Ours:
    """`1bit serve`, on a port of its own."""

    def __init__(self, a):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        command = [a.binary, "serve", "-m", a.model, "--port", str(self.port), "--threads", str(a.threads), "--activations", a.activations]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5)
                return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"{' '.join(command)}: exit code {self.process.returncode}")
                time.sleep(0.1)
        sys.exit("1bit serve does not get ready")

    def __call__(self, body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        return json.load(urllib.request.urlopen(request, timeout=600))

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


class LlamaCpp:
    def __init__(self, a):
        import xllamacpp

        p = xllamacpp.CommonParams()
        p.model.path, p.n_parallel, p.verbosity = a.model, 1, -1
        p.n_ctx = a.prompt + a.gen + 64
        p.cpuparams.n_threads = p.cpuparams_batch.n_threads = a.threads
        self.server = xllamacpp.Server(p)

    def __call__(self, body):
        answer = self.server.handle_completions(body)
        return json.loads(answer) if isinstance(answer, (bytes, str)) else answer

    def stop(self):
        pass


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        text = info.read()
    name = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "unknown")
    return name + (" with AVX-512" if "avx512_vnni" in text else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--binary", default="target/release/1bit")
    parser.add_argument("--activations", default="auto")
    for name, default in (("prompt", 512), ("gen", 64), ("threads", 2), ("rounds", 5)):
        parser.add_argument("--" + name, type=int, default=default)
    a = parser.parse_args()
    measured = {"1bit": Ours(a), "llama.cpp": LlamaCpp(a), "control": Ours(a)}
    rates = {name: {"pp": [], "tg": []} for name in measured}
    for round_ in range(a.rounds + 1):
        print(f"\rround {round_} of {a.rounds}", end="", file=sys.stderr, flush=True)
        body = {
            "prompt": tokens(a.prompt, round_), "n_predict": a.gen, "temperature": 0, "cache_prompt": False, "ignore_eos": True,
        }
        for name, call in measured.items():
            timings = call(body)["timings"]
            if round_ > 0:
                rates[name]["pp"].append(timings["prompt_per_second"])
                rates[name]["tg"].append(timings["predicted_per_second"])
    print(file=sys.stderr)
    for one in measured.values():
        one.stop()
    result = {"model": os.path.basename(a.model), "processor": processor(), "prompt": a.prompt, "gen": a.gen, "threads": a.threads,
              "rounds": a.rounds, "activations": a.activations}
    for kind in ("pp", "tg"):
        medians = {name: round(statistics.median(r[kind]), 1) for name, r in rates.items()}
        ratio = {}
        for other in ("llama.cpp", "control"):
            each = [x / y for x, y in zip(rates["1bit"][kind], rates[other][kind])]
            ratio[other] = {"median": round(statistics.median(each), 3), "least": round(min(each), 3), "most": round(max(each), 3)}
        result[kind] = {"tokens_per_second": medians, "ratio_to": ratio}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
