#!/usr/bin/env python3
"""`1bit perplexity` against llama.cpp on the same file and text: within 0.5%, rounded and exact."""

import json
import math
import os
import pathlib
import pydoc_data.topics
import sys
import tempfile

import common

WINDOW, WINDOWS = 512, 6


def theirs(file, text, windows):
    """Perplexity of the second halves of windows, the beginning token (if any) at the front of each, as llama.cpp's own tool does."""
    import numpy as np

    import llama_cpp

    model = llama_cpp.Model(file, WINDOW)
    ids = model.tokenize(text)
    begins = model.tokenize("")
    sum_, count = 0.0, 0
    for w in range(windows):
        window = ids[w * WINDOW : (w + 1) * WINDOW]
        if begins:
            window[0] = begins[0]
        rows = model.logits(window)
        for i in range(WINDOW // 2, WINDOW - 1):
            row = np.ctypeslib.as_array(rows[i], (model.size,)).astype(np.float64)
            top = row.max()
            sum_ += top + math.log(np.exp(row - top).sum()) - row[window[i + 1]]
            count += 1
    return math.exp(sum_ / count)


def main():
    args = common.arguments(__doc__)
    try:
        import xllamacpp  # noqa: F401
    except ImportError:
        common.skip("xllamacpp cannot be imported")
    code, _, said = common.run(args.binary, "pull", "smollm2", timeout=900)
    if code:
        common.skip(f"smollm2 cannot be fetched: {said}")
    path = json.loads(common.run(args.binary, "show", "smollm2", "--json")[1])["path"]
    tally = common.Tally()
    # English prose that every CPython has.
    text = "\n".join(pydoc_data.topics.topics[k] for k in sorted(pydoc_data.topics.topics))[:40_000]
    with tempfile.TemporaryDirectory() as temporary:
        file = pathlib.Path(temporary) / "text.txt"
        file.write_text(text)
        exact = pathlib.Path(temporary) / "exact.gguf"
        code, _, said = common.run(args.binary, "quantize", path, exact, "F32", timeout=900)
        tally.check("decoded to F32", code == 0, said)
        # Alike: llama.cpp rounds activations to int8 for block types. Attention it computes in f16, which alone makes 0.2%.
        for model, activations, windows, bar in ((path, "int8", WINDOWS, 0.005), (exact, "f32", 2, 0.005)):
            want = theirs(model, text, windows)
            code, out, said = common.run(
                args.binary, "perplexity", model, file, "-c", WINDOW, "--windows", windows, "--json", "--activations", activations,
                timeout=900,
            )  # fmt: skip
            ours = json.loads(out)["perplexity"] if code == 0 else math.nan
            name = pathlib.Path(model).name
            print(f"{name}, {activations}: {ours:.4f}, llama.cpp {want:.4f}, ratio {ours / want:.5f}")
            tally.check(f"{name}: within {bar:.2%} of llama.cpp", abs(ours / want - 1) < bar, said)
    code = 1 if tally.failed else 0
    print(f"{tally.passed} passed, {tally.failed} failed")
    sys.stdout.flush()
    os._exit(code)  # llama.cpp's own end can hang


if __name__ == "__main__":
    main()
