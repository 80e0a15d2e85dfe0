#!/usr/bin/env python3
"""How fast texts become ids, against Hugging Face's `tokenizers`, in one run and on one core.

    cargo build --release -p onebit-text --example encode_speed
    tools/tokenizer_speed.py [--folder ~/.cache/1bit-tools/tokenizers] [--names qwen3,llama3,gptoss,deepseek_v3,gemma3] [--rounds 5] [--megabytes 4]

In each round each text is encoded by 1bit, by `tokenizers` and by 1bit again (the control: a second process of the same program). The
first round warms up and is left out. Prints medians in MB/s and the medians of the ratios of each round, as a table; and the times of
1bit for 10 MiB of one letter, of spaces and of random bytes.
"""
import argparse
import os
import pathlib
import pydoc_data.topics
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))


def texts(size):
    """Prose, code and many scripts, of about so many bytes each, of what Python and this repository have; nothing is repeated within 100 kB."""
    from check_tokenizers import SCRIPTS

    r = random.Random(5)
    prose = "\n".join(pydoc_data.topics.topics[k] for k in sorted(pydoc_data.topics.topics))
    files = sorted((ROOT / "crates").rglob("*.rs")) + sorted(pathlib.Path(os.__file__).parent.glob("*.py"))
    code = "".join(file.read_text(errors="replace") for file in files)
    words = [word for line in SCRIPTS for word in line.split()]
    scripts = " ".join(r.choice(words) for _ in range(size // 12))
    fill = lambda text: (text * (size // len(text.encode()) + 1)).encode()[:size].decode(errors="ignore")
    return {"prose": fill(prose), "code": fill(code), "scripts": fill(scripts)}


def extremes():
    r = random.Random(6)
    n = 10 << 20
    return {"one letter": "a" * n, "spaces": " " * n, "random bytes": r.randbytes(n).decode(errors="replace")}


class Ours:
    def __init__(self, binary, folder):
        command = [binary, folder]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, path):
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        seconds, ids = self.process.stdout.readline().split()
        return float(seconds), int(ids)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Theirs:
    def __init__(self, folder):
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        from tokenizers import Tokenizer

        self.tokenizer, self.texts = Tokenizer.from_file(str(folder / "tokenizer.json")), {}
        self.tokenizer.encode_special_tokens = True  # as text, where the text holds some

    def __call__(self, path):
        text = self.texts.setdefault(path, path.read_bytes().decode())
        begin = time.perf_counter()
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        return time.perf_counter() - begin, len(ids)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--folder", default=os.path.expanduser("~/.cache/1bit-tools/tokenizers"))
    p.add_argument("--names", default="qwen3,llama3,gptoss,deepseek_v3,gemma3")
    p.add_argument("--binary", default=str(ROOT / "target/release/examples/encode_speed"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--megabytes", type=float, default=4)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        paths = {}
        for name, text in {**texts(int(a.megabytes * 1e6)), **extremes()}.items():
            paths[name] = temporary / f"{name}.txt"
            paths[name].write_text(text, newline="")
        print("| Vocabulary | Text | 1bit MB/s | tokenizers MB/s | ratio | control | ids equal |\n|---|---|---|---|---|---|---|")
        for name in a.names.split(","):
            folder = pathlib.Path(a.folder) / name
            ours, again, theirs = Ours(a.binary, folder), Ours(a.binary, folder), Theirs(folder)
            for kind in ("prose", "code", "scripts"):
                size = paths[kind].stat().st_size / 1e6
                rounds = [(ours(paths[kind]), theirs(paths[kind]), again(paths[kind])) for _ in range(a.rounds + 1)][1:]
                median = lambda value: statistics.median(map(value, rounds))
                equal = all(o[1] == t[1] for o, t, _ in rounds)
                print(f"| {name} | {kind} | {size / median(lambda r: r[0][0]):.1f} | {size / median(lambda r: r[1][0]):.1f}"
                      f" | {median(lambda r: r[1][0] / r[0][0]):.1f} | {median(lambda r: r[2][0] / r[0][0]):.2f} | {'yes' if equal else 'NO'} |", flush=True)  # fmt: skip
            seconds = {kind: statistics.median(ours(paths[kind])[0] for _ in range(3)) for kind in extremes()}
            print(f"| {name} | " + ", ".join(f"10 MiB of {kind}: {s:.2f} s" for kind, s in seconds.items()) + " | | | | | |", flush=True)
            ours.stop(), again.stop()


if __name__ == "__main__":
    main()
