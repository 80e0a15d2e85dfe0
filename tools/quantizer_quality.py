#!/usr/bin/env python3
"""What `1bit quantize` loses beside llama.cpp's quantizer, on one model and text.

    tools/quantizer_quality.py MODEL.gguf TEXT [RECIPE ...] [--binary target/release/1bit] [--windows 16] [--imatrix FILE]

MODEL is decoded to F32, which is the original. For each recipe `1bit quantize` makes a file, and the same file is made again with every
quantized tensor by llama.cpp's `ggml_quantize_chunk` (xllamacpp from PyPI) in the same type. Both are read by `1bit perplexity --kl`:
perplexity, and mean divergence from the original. Prints a Markdown table, and JSON with --json.
"""

import argparse
import ctypes
import json
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import gguf  # noqa: E402
import numpy as np  # noqa: E402

import common  # noqa: E402
import llama_cpp  # noqa: E402

RECIPES = ["Q4_0", "Q4_K_M", "Q3_K_M", "IQ4_XS", "IQ2_S", "TQ2_0"]


def importances(path):
    """{tensor: mean squares of its inputs} of an imatrix in GGUF form."""
    if path is None:
        return {}
    found = {t.name: t.data for t in gguf.GGUFReader(path).tensors}
    sums = {n.removesuffix(".in_sum2"): v for n, v in found.items() if n.endswith(".in_sum2")}
    return {n: (v / np.maximum(found[f"{n}.counts"], 1)).reshape(-1).astype(np.float32) for n, v in sums.items()}


def by_llama_cpp(exact, ours, theirs, matrix):
    """Copies `ours`, with each tensor's blocks made by llama.cpp."""
    lib = llama_cpp.library()
    shutil.copyfile(ours, theirs)
    originals = {t.name: t.data for t in gguf.GGUFReader(exact).tensors}
    with open(theirs, "r+b") as file:
        for t in gguf.GGUFReader(ours).tensors:
            if t.tensor_type.name in ("F32", "F16", "BF16"):
                continue
            x = np.ascontiguousarray(originals[t.name], np.float32)
            columns = x.shape[-1]
            raw = ctypes.create_string_buffer(t.n_bytes)
            weights = matrix.get(t.name)
            pointer = None if weights is None else weights.ctypes.data
            if lib.ggml_quantize_chunk(int(t.tensor_type), x.ctypes.data, raw, 0, x.size // columns, columns, pointer) != t.n_bytes:
                sys.exit(f"llama.cpp made another size of {t.name}")
            file.seek(t.data_offset)
            file.write(raw.raw)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--binary", default=str(ROOT / "target/release/1bit"))
    parser.add_argument("--windows", default="16")
    parser.add_argument("--imatrix")
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()

    def call(*args):
        code, out, said = common.run(a.binary, *args, timeout=3600)
        return out if code == 0 else sys.exit(said)

    matrix, rows = importances(a.imatrix), []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        exact, ours, theirs = folder / "exact.gguf", folder / "ours.gguf", folder / "theirs.gguf"
        call("quantize", a.model, exact, "F32")
        for recipe in a.recipes:
            call("quantize", exact, ours, recipe, *(["--imatrix", a.imatrix] if a.imatrix else []))
            by_llama_cpp(exact, ours, theirs, matrix)
            row = {"recipe": recipe, "bytes": ours.stat().st_size}
            for who, file in (("1bit", ours), ("llama.cpp", theirs)):
                said = json.loads(call("perplexity", file, a.text, "--windows", a.windows, "--kl", exact, "--json", "--activations", "int16"))
                row[who] = {"perplexity": said["perplexity"], "kl": said["kl"]["mean"]}
                row["original"] = said["kl"]["base_perplexity"]
            rows.append(row)
            print(recipe, file=sys.stderr, flush=True)
    if a.json:
        print(json.dumps(rows))
        return
    print(f"Original: perplexity {rows[0]['original']:.3f}.\n")
    print("| recipe | MB | perplexity, 1bit | llama.cpp | mean KL, 1bit | llama.cpp | ratio |\n|---|---|---|---|---|---|---|")
    for r in rows:
        o, t = r["1bit"], r["llama.cpp"]
        print(f"| {r['recipe']} | {r['bytes'] / 1e6:.1f} | {o['perplexity']:.3f} | {t['perplexity']:.3f} | {o['kl']:.4f} | {t['kl']:.4f} | {o['kl'] / t['kl']:.3f} |")


if __name__ == "__main__":
    main()
