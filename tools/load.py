#!/usr/bin/env python3
"""Puts 1bit's server and llama-server under the same load, in turn, and tells how long clients wait.

    tools/load.py MODEL.gguf [--streams 1,2,4,8,16,32] [--prompt 128] [--gen 64] [--rounds 3] [--threads N] [--peer llama-server|none]
                  [--scenarios open,burst,join,turn,idle,overhead] [--smoke] [--binary target/release/1bit] [--python PYTHON] [--json FILE] [--plot FILE.svg] [--anyway]

Both run at once in processes of their own, for as many sequences as the most streams, and are asked one after the other, never together;
each round begins with the other one. llama-server is the one in the package xllamacpp, which --python has to have. A second process of 1bit
takes part as a control: what it differs by is the machine's noise. Where the two are more than a tenth apart in tokens per second, the
run is refused: the exit code is 1, and nothing is written unless --anyway.

Scenarios; all prompts are new to the caches unless said otherwise, and answers have exactly --gen tokens:

    open    an open loop: requests come at times that were drawn beforehand (exponential gaps, a fixed seed), whether or not earlier ones are
            done, at N times the rate at which 1bit answers one after the other. Waits count from the time at which a request was due, so
            that a server that falls behind does not hide it. N is each of --streams; 4 N requests each.
    burst   N requests at once: tokens per second of all, from the first request to the last answer.
    join    four streams run, and a prompt of 2,000 tokens joins: the gaps between the tokens of the four, before and while it is read.
    turn    a chat of 1,000 tokens, and its second turn: seconds to the first token of each.
    idle    resident memory for 1,000 connections that do nothing, and for each of them.
    overhead  (1bit only) one stream after a prompt of --prompt: the time between its tokens at the client, beside the time of the same steps
            without any server (`1bit bench`, in turn with it: what choosing, writing and sending a token adds), and the share of
            that time in which the server's other threads than those that compute had a core.

--smoke asks for little (streams 1 and 2, short answers, one round, a prompt of 300 tokens in place of 2,000), to see that all of it runs.

Told are the medians over the rounds of: seconds to the first token (p50, p99), seconds between tokens (p50, p99), tokens per second.
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOISE = 1.10
IDLE = 1000
SCENARIOS = ("open", "burst", "join", "turn", "idle", "overhead")
# The engine's thread, and those that share its work.
COMPUTING = re.compile(r"1bit-engine|onebit-\d+")

LLAMA = """
import sys, time, xllamacpp
model, slots, context, threads = sys.argv[1], *map(int, sys.argv[2:])
p = xllamacpp.CommonParams()
p.model.path, p.n_parallel, p.n_ctx, p.verbosity, p.port = model, slots, context * slots, -1, 0
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(p)
print("LISTENING", server.listening_address, flush=True)
sys.stdin.read()
"""


def ids(count, salt):
    """Tokens that no cache of prompts can know."""
    return [(i * 7919 + salt * 104729) % 40000 + 100 for i in range(count)]


class Program:
    """A server in a process."""

    def __init__(self, a, name, context):
        self.name = name
        slots = max([4 + 1, *a.streams])
        if name == "llama-server":
            command = [a.python, "-c", LLAMA, a.model, str(slots), str(context), str(a.threads)]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            line = next((line for line in self.process.stdout if line.startswith("LISTENING")), None)
            if line is None:
                raise RuntimeError(f"{name} did not start: exit code {self.process.wait()}")
            found = re.search(r"([\w.]+):(\d+)/?$", line.split()[1])
            self.host, self.port = found[1], int(found[2])
        else:
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                self.host, self.port = s.getsockname()
            command = [a.binary, "serve", "-q", "-m", a.model, "--port", str(self.port), "--threads", str(a.threads)]
            command += ["--ctx-size", str(context), "--parallel", str(slots)]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.wait()

    def wait(self):
        while True:
            try:
                with urllib.request.urlopen(f"http://{self.host}:{self.port}/health", timeout=5):
                    return
            except (urllib.error.HTTPError, OSError):
                if self.process.poll() is not None:
                    said = self.process.stderr.read().strip() if self.process.stderr else ""
                    raise RuntimeError(f"{self.name} ended with exit code {self.process.returncode}: {said}") from None
                time.sleep(0.05)

    def resident(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024

    def server_seconds(self):
        """How long threads other than those that compute have had a core; the kernel counts in hundredths of a second."""
        ticks = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            name, rest = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            if not COMPUTING.match(name):
                ticks += sum(map(int, rest.split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait(timeout=60)


class Answer:
    """The times of one request, in seconds since the run began."""

    def __init__(self, due):
        self.due, self.tokens = due, []

    def first(self):
        return self.tokens[0] - self.due

    def gaps(self):
        return [b - a for a, b in zip(self.tokens, self.tokens[1:])]


async def ask(program, prompt, count, due=None, keep=False):
    """Streams an answer, and notes when each token came."""
    answer = Answer(time.perf_counter() if due is None else due)
    body = {"prompt": prompt, "n_predict": count, "temperature": 0, "cache_prompt": keep, "ignore_eos": True, "stream": True}
    body = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(program.host, program.port, limit=1 << 22)
    try:
        head = f"POST /completion HTTP/1.1\r\nHost: {program.host}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        status = (await reader.readline()).decode()
        if " 200 " not in status:
            raise RuntimeError(f"{program.name}: {status.strip()} {(await reader.read()).decode(errors='replace')[-300:]}")
        async for line in reader:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(f"{program.name}: {event['error']}")
            # llama-server sends no event for a token that ends within a character, but counts it in the next one.
            answer.tokens.extend([time.perf_counter()] * (event["tokens_predicted"] - len(answer.tokens)))
            if event.get("stop"):
                break
    finally:
        writer.close()
    if len(answer.tokens) != count:
        raise RuntimeError(f"{program.name}: {len(answer.tokens)} tokens came of {count}")
    return answer


def percentile(values, p):
    """By nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-p * len(ordered) // 100) - 1))]


def waits(answers):
    begin, end = min(x.due for x in answers), max(x.tokens[-1] for x in answers)
    first, gaps = [x.first() for x in answers], [g for x in answers for g in x.gaps()]
    return {
        "first_p50": percentile(first, 50), "first_p99": percentile(first, 99),
        "gap_p50": percentile(gaps, 50), "gap_p99": percentile(gaps, 99),
        "tokens_per_second": sum(len(x.tokens) for x in answers) / (end - begin),
    }


class Scenarios:
    def __init__(self, a, service):
        self.a, self.service, self.salt = a, service, 0

    def prompt(self, count=None):
        self.salt += 1
        return ids(self.a.prompt if count is None else count, self.salt)

    async def open(self, program, streams, number):
        """The same times of arrival for all programs in a round."""
        source = random.Random(1000 * number + streams)
        start, due, tasks = time.perf_counter(), 0.0, []
        for _ in range(4 * streams):
            due += source.expovariate(streams / self.service)
            await asyncio.sleep(max(0.0, start + due - time.perf_counter()))
            tasks.append(asyncio.create_task(ask(program, self.prompt(), self.a.gen, start + due)))
        return waits(await asyncio.gather(*tasks))

    async def burst(self, program, streams, _):
        return waits(await asyncio.gather(*[ask(program, self.prompt(), self.a.gen) for _ in range(streams)]))

    async def join(self, program, _streams, _number):
        count = 3 * self.a.gen
        streams = [asyncio.create_task(ask(program, self.prompt(32), count)) for _ in range(4)]
        # They are well under way.
        await asyncio.sleep(self.service)
        begin = time.perf_counter()
        long = await ask(program, self.prompt(self.a.long), 1)
        end = long.tokens[0]
        answers = await asyncio.gather(*streams)
        pairs = [(a, b) for x in answers for a, b in zip(x.tokens, x.tokens[1:])]
        alone = [b - a for a, b in pairs if b < begin or a > end] or [0.0]
        during = [b - a for a, b in pairs if b >= begin and a <= end] or [0.0]
        told = {"gap_alone_p50": statistics.median(alone), "gap_joined_p50": statistics.median(during), "gap_joined_p99": percentile(during, 99)}
        over = {f"p99_over_{when}_p50": told["gap_joined_p99"] / max(told[f"gap_{when}_p50"], 1e-9) for when in ("joined", "alone")}
        return {**told, **over, "first_of_long": long.first()}

    async def turn(self, program, _streams, _number):
        prompt = self.prompt(self.a.chat)
        first = await ask(program, prompt, self.a.gen, keep=True)
        # What was answered is not known here as tokens that come again; the prompt is most of it.
        second = await ask(program, [*prompt, *self.prompt(32)], self.a.gen, keep=True)
        return {"first_turn": first.first(), "second_turn": second.first(), "ratio": first.first() / second.first()}

    async def idle(self, program, _streams, _number):
        before = program.resident()
        connections = []
        for _ in range(IDLE):
            reader, writer = await asyncio.open_connection(program.host, program.port)
            writer.write(f"GET /health HTTP/1.1\r\nHost: {program.host}\r\n\r\n".encode())
            connections.append((reader, writer))
        for reader, _ in connections:
            while (await reader.readline()).strip():
                pass
        after = program.resident()
        [writer.close() for _, writer in connections]
        return {"bytes": after - before, "bytes_each": (after - before) / IDLE}

    async def overhead(self, program, _streams, _number):
        # Long enough for what is counted in hundredths of a second.
        count = 4 * self.a.gen
        before = program.server_seconds()
        answer = await ask(program, self.prompt(), count)
        server = program.server_seconds() - before
        command = [self.a.binary, "bench", self.a.model, "-q", "-o", "json", "-p", "0", "-n", str(count), "-d", str(self.a.prompt), "-r", "1"]
        said = subprocess.run([*command, "--threads", str(self.a.threads)], capture_output=True, text=True, check=True).stdout
        bare = 1 / json.loads(said)["tests"][0]["tokens_per_second"]
        gap = (answer.tokens[-1] - answer.tokens[0]) / (count - 1)
        return {"gap": gap, "gap_without_server": bare, "more": gap / bare - 1, "server_threads": server / (answer.tokens[-1] - answer.due)}


async def measure(a, programs):
    # How long 1bit takes for one request, when nothing else is asked.
    times = []
    for number in range(3):
        answer = await ask(programs[0], ids(a.prompt, 900 + number), a.gen)
        times.append(answer.tokens[-1] - answer.due)
    service = statistics.median(times)
    scenarios = Scenarios(a, service)
    levels = [(s, n) for s in a.scenarios for n in (a.streams if s in ("open", "burst") else [1])]
    figures = {}
    for number in range(a.rounds):
        for scenario, streams in levels:
            order = programs[number % len(programs):] + programs[: number % len(programs)]
            for program in order:
                if scenario == "overhead" and program.name == "llama-server":
                    continue
                print(f"\r\033[Kround {number + 1} of {a.rounds}: {scenario} {streams}, {program.name}", end="", file=sys.stderr, flush=True)
                said = await getattr(scenarios, scenario)(program, streams, number)
                name = f"{scenario} {streams}" if scenario in ("open", "burst") else scenario
                for what, value in said.items():
                    figures.setdefault(name, {}).setdefault(program.name, {}).setdefault(what, []).append(value)
    print("\r\033[K", end="", file=sys.stderr)
    return service, figures


def medians(figures):
    return {t: {p: {w: statistics.median(v) for w, v in said.items()} for p, said in by.items()} for t, by in figures.items()}


def noisy(rows):
    apart = {}
    for test, by in rows.items():
        pair = [by.get(name, {}).get("tokens_per_second") for name in ("1bit", "control")]
        if all(pair) and max(pair) / min(pair) > NOISE:
            apart[test] = round(pair[0] / pair[1], 3)
    return apart


def table(rows):
    lines = []
    waits_of = {t: by for t, by in rows.items() if "first_p50" in next(iter(by.values()))}
    if waits_of:
        lines += ["| load | server | first token p50 | p99 | between tokens p50 | p99 | tokens/s |", "|---|---|---:|---:|---:|---:|---:|"]
        for test, by in waits_of.items():
            for name, x in by.items():
                ms = [f"{1e3 * x[w]:.1f} ms" for w in ("first_p50", "first_p99", "gap_p50", "gap_p99")]
                lines.append(f"| {test} | {name} | {' | '.join(ms)} | {x['tokens_per_second']:.1f} |")
    for test, by in rows.items():
        if test not in waits_of:
            for name, x in by.items():
                lines.append(f"\n{test}, {name}: " + ", ".join(f"{w} {v:.4g}" for w, v in x.items()))
    return "\n".join(lines)


def plot(result, path):
    """Lines of waits over the load, drawn here so that nothing has to be installed."""
    panels = [("first_p50", "first token, p50 (s)"), ("first_p99", "first token, p99 (s)"), ("gap_p99", "between tokens, p99 (s)"), ("tokens_per_second", "tokens per second")]
    kinds = [k for k in ("open", "burst") if any(t.startswith(k) for t in result["tests"])]
    colours = {"1bit": "#1f6feb", "llama-server": "#d1242f"}
    width, height, left, top = 250, 170, 60, 46
    parts = []
    for row, kind in enumerate(kinds):
        tests = [(int(t.split()[1]), by) for t, by in result["tests"].items() if t.startswith(kind + " ")]
        for column, (what, title) in enumerate(panels):
            x0, y0 = left + column * (width + 70), top + row * (height + 70)
            most = max(by[name][what] for _, by in tests for name in colours if name in by) or 1
            steps = max(len(tests) - 1, 1)
            parts.append(f'<text x="{x0}" y="{y0 - 10}" font-weight="bold">{kind}: {title}</text>')
            parts.append(f'<path d="M{x0} {y0}V{y0 + height}H{x0 + width}" fill="none" stroke="#888"/>')
            for share in (0, 0.5, 1):
                y = y0 + height * (1 - share)
                parts.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{share * most:.3g}</text>')
            for i, (streams, _) in enumerate(tests):
                parts.append(f'<text x="{x0 + width * i / steps:.1f}" y="{y0 + height + 16}" text-anchor="middle">{streams}</text>')
            for name, colour in colours.items():
                points = [(x0 + width * i / steps, y0 + height * (1 - by[name][what] / most)) for i, (_, by) in enumerate(tests) if name in by]
                if points:
                    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
                    parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
                    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    legend = "".join(f'<text x="{left + 130 * i}" y="16" fill="{c}">{n}</text>' for i, (n, c) in enumerate(colours.items()))
    said = f"{result['model']} · {result['processor']}, {result['threads']} threads · streams, or times the rate of one request after the other"
    total = (left + len(panels) * (width + 70), top + len(kinds) * (height + 70))
    text = f'<svg xmlns="http://www.w3.org/2000/svg" width="{total[0]}" height="{total[1]}" font-family="sans-serif" font-size="11">'
    text += f'<rect width="100%" height="100%" fill="#fff"/>{legend}<text x="{left + 280}" y="16">{said}</text>{"".join(parts)}</svg>\n'
    path.write_text(text)


def processor():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else "unknown processor"


def numbers(text):
    return [int(n) for n in text.split(",") if n and int(n) > 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=os.path.abspath)
    parser.add_argument("--binary", default=str(ROOT / "target/release/1bit"), type=os.path.abspath)
    parser.add_argument("--python", default=os.environ.get("ONEBIT_PEERS", sys.executable))
    parser.add_argument("--peer", default="llama-server", choices=["llama-server", "none"])
    parser.add_argument("--streams", default="1,2,4,8,16,32", type=numbers)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), type=lambda t: t.split(","))
    parser.add_argument("--smoke", action="store_true")
    for name, default in (("prompt", 128), ("gen", 64), ("rounds", 3), ("threads", os.cpu_count())):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--anyway", action="store_true")
    a = parser.parse_args()
    a.long, a.chat = 2000, 1000
    if a.smoke:
        a.streams, a.prompt, a.gen, a.rounds, a.long, a.chat = [1, 2], 16, 8, 1, 300, 100
    unknown = set(a.scenarios) - set(SCENARIOS)
    if unknown or not a.streams or a.gen < 2:
        parser.error(f"--scenarios {', '.join(sorted(unknown))} are not known, or --streams is empty, or --gen is below 2")
    longest = a.long + 64 if "join" in a.scenarios else 0
    context = max(a.prompt + 4 * a.gen, 32 + 3 * a.gen, longest, a.chat + 64 + a.gen if "turn" in a.scenarios else 0) + 16
    names = ["1bit", *([] if a.peer == "none" else [a.peer]), "control"]
    programs = []
    try:
        for name in names:
            programs.append(Program(a, name, context))
        service, figures = asyncio.run(measure(a, programs))
    finally:
        [program.stop() for program in programs]
    rows = medians(figures)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    command = " ".join(["tools/load.py", *[os.path.basename(x) if x.startswith("/") else x for x in sys.argv[1:]]])
    result = {
        "model": os.path.basename(a.model), "processor": processor(), "threads": a.threads, "rounds": a.rounds, "prompt": a.prompt, "gen": a.gen,
        "seconds_for_one": service, "commit": commit, "command": command, "programs": names, "too_noisy": noisy(rows), "tests": rows, "all": figures,
    }
    if result["too_noisy"]:
        print(f"refused: the two processes of 1bit are more than a tenth apart: {result['too_noisy']}", file=sys.stderr)
        if not a.anyway:
            sys.exit(1)
    print(f"{result['model']}, {result['processor']}, {a.threads} threads, at {commit}: `{command}`\n")
    print(table(rows))
    if a.json:
        a.json.write_text(json.dumps(result, indent=1) + "\n")
    if a.plot:
        plot(result, a.plot)


if __name__ == "__main__":
    main()
