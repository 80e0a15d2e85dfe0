#!/usr/bin/env python3
"""Makes the table of weight types in docs/weights.md.

    tools/weight_table.py [--binary target/release/1bit] [--rounds 7] [--no-speed] [--check] [--json FILE]

For each type: whether `1bit show --tensor` gives the exact values of the reference vectors (`vectors/quants.safetensors`, beside the
repository or where ONEBIT_SHARED says); the error of `1bit quantize` on the vectors' normal matrix over that of llama.cpp's encoder,
without and with importance; and the speed of products on one thread over llama.cpp's (xllamacpp from PyPI), for one column (decoding)
and for 64, in turn, medians of the rounds' ratios. With --check nothing is written: the exit code is 1 where a type does not decode
exactly, or an error is above llama.cpp's.
"""

import argparse
import ctypes
import json
import math
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import numpy as np  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

import common  # noqa: E402
from check_weights import IDS  # noqa: E402

SOURCE = dict(PTQ1_0="PrismML", PQ2_0="PrismML")
NAME = "blk.0.ffn_up.weight"
ROWS, WIDTH = 8192, 1536
BEGIN, END = "<!-- made by tools/weight_table.py -->", "<!-- end of the table -->"


def show(binary, path, out):
    code, _, said = common.run(binary, "show", path, "--tensor", NAME, "--npy", out)
    return np.load(out) if code == 0 else sys.exit(said)


def importance_file(path, importance):
    """The older form of llama-imatrix: entries of name, calls, and mean squares."""
    name = NAME.encode()
    path.write_bytes(struct.pack("<ii", 1, len(name)) + name + struct.pack("<ii", 1, len(importance)) + importance.astype("<f4").tobytes())


def quality(binary, folder, values):
    """{type: (plain ratio, weighted ratio)} of the errors."""
    gauss, importance = values["gauss"].reshape(-1, 1024), values["importance"]
    source, matrix = folder / "gauss.gguf", folder / "importance.dat"
    common.write_gguf(source, {"general.architecture": "llama"}, {NAME: (gauss.shape, 0, gauss.astype("<f4").tobytes())})
    importance_file(matrix, importance)
    ratios = {}
    for name in IDS:
        both = []
        for key, extra, weight in (("rmse", [], None), ("rmse_imatrix", ["--imatrix", matrix], importance)):
            theirs = values.get(f"{name}.{key}")
            if theirs is None:
                both.append(None)
                continue
            out = folder / f"{name}.gguf"
            code, _, said = common.run(binary, "quantize", source, out, "F32", "--type", f"{NAME.removesuffix('.weight')}={name}", *extra)
            if code:
                sys.exit(f"{name}: {said}")
            off = (show(binary, out, folder / "out.npy").astype(np.float64) - gauss) ** 2
            error = math.sqrt(np.average(off, weights=None if weight is None else np.broadcast_to(weight, off.shape)))
            theirs = float(theirs.reshape(-1)[0])
            both.append(error / theirs if theirs else float(error > 0))
        ratios[name] = both
    return ratios


def exact(binary, folder, values):
    """{type: whether it decodes exactly}."""
    result = {}
    for name, kind in IDS.items():
        if f"{name}.raw" in values:
            raw, want = values[f"{name}.raw"], values[f"{name}.f32"]
            path = folder / f"{name}.raw.gguf"
            common.write_gguf(path, {"general.architecture": "nobody"}, {NAME: (want.shape, kind, raw.tobytes())})
            result[name] = np.array_equal(show(binary, path, folder / "out.npy"), want)
    return result


class Ours:
    def __init__(self):
        command = ["cargo", "bench", "--quiet", "-p", "onebit-cpu", "--bench", "matmul", "--", "1", "--serve"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def seconds(self, name, columns):
        print(name, ROWS, columns, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def theirs(name, columns):
    """A product by llama.cpp, or None where it does not know the type or wants importance."""
    import llama_cpp

    lib, kind = llama_cpp.library(), IDS[name]
    if name in SOURCE or name == "NVFP4":
        return None
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((64, WIDTH), np.float32)
    ones = np.ones(WIDTH, np.float32)
    raw = ctypes.create_string_buffer(weight.nbytes)
    size = lib.ggml_quantize_chunk(kind, weight.ctypes.data, raw, 0, 64, WIDTH, ones.ctypes.data)
    x = rng.standard_normal((columns, WIDTH), np.float32)
    return llama_cpp.MatMul(kind, raw.raw[:size] * (ROWS // 64), ROWS, WIDTH, columns, x.ctypes.data)


def speed(rounds):
    """{type: [ratio for 1 column, for 64]}."""
    ours, result = Ours(), {}
    for name in IDS:
        result[name] = []
        for columns in (1, 64):
            peer = theirs(name, columns)
            if peer is None:
                result[name].append(None)
                continue
            ratios = []
            for round_ in range(rounds + 1):
                mine, its = ours.seconds(name, columns), peer.seconds()
                if round_:
                    ratios.append(its / mine)
            peer.close()
            result[name].append(statistics.median(ratios))
            print(f"{name} {columns}: {result[name][-1]:.2f}", file=sys.stderr, flush=True)
    ours.process.stdin.close()
    ours.process.wait()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/release/1bit"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-speed", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json")
    a = parser.parse_args()
    a.binary = str(pathlib.Path(a.binary).resolve())
    vectors = common.shared("vectors/quants.safetensors") or common.skip("there are no reference vectors: set ONEBIT_SHARED")
    values = load_file(vectors)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        decoded, errors = exact(a.binary, folder, values), quality(a.binary, folder, values)
    rates = {} if a.no_speed or a.check else speed(a.rounds)
    rows, bad = [], []
    for name, kind in IDS.items():
        raw = values.get(f"{name}.raw")
        bits = 8 * raw.nbytes / values[f"{name}.f32"].size if raw is not None else None
        row = dict(type=name, id=kind, bits=bits, source=SOURCE.get(name, "ggml"), exact=decoded.get(name), error=errors[name], speed=rates.get(name))
        rows.append(row)
        if row["exact"] is False or any(e is not None and e > 1 + 1e-6 for e in row["error"]):
            bad.append(name)
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(rows, indent=1))
    if a.check:
        print(f"{len(rows)} types, wrong: {bad or 'none'}")
        sys.exit(1 if bad or len(decoded) < 29 else 0)
    number = lambda v: "-" if v is None else f"{v:.3f}" if v < 1.05 else f"{v:.2f}"  # noqa: E731
    lines = ["| type | id | from | bits | decodes exactly | error / llama.cpp's | with importance | speed / llama.cpp's, 1 column | 64 columns |",
             "|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        said = {True: "yes", False: "NO", None: "-"}[r["exact"]]
        bits = "-" if r["bits"] is None else f"{r['bits']:g}"
        cells = [*map(number, r["error"]), *map(number, r["speed"] or (None, None))]
        lines.append(f"| {r['type']} | {r['id']} | {r['source']} | {bits} | {said} | {' | '.join(cells)} |")
    page = ROOT / "docs/weights.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    page.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
