#!/usr/bin/env python3
"""Logits of tiny models against those that transformers computed, through the program: from safetensors, and from the GGUF
that `1bit convert` makes of them; whole and in chunks of 1, 3 and 16."""

import pathlib
import tempfile

import numpy as np
from safetensors.numpy import load_file

import common

# Worst absolute difference, in standard deviations of the logits.
TOLERANCE = 2e-4
FAMILIES = ["llama", "qwen2", "qwen3", "qwen3_moe", "qwen3_5_text", "smollm3", "mistral"]
# Those that GGUF cannot say: the fixture's layers without positions are not each fourth.
NO_GGUF = ["smollm3"]


def differences(binary, model, expected, folder):
    """(which, worst difference) for each way to compute."""
    for which, extra in [("long", []), ("short", []), ("long", ["--chunk", 1]), ("long", ["--chunk", 3]), ("long", ["--chunk", 16])]:
        out = folder / "logits.npy"
        out.unlink(missing_ok=True)
        ids = ",".join(map(str, expected[f"ids_{which}"]))
        code, _, said = common.run(binary, "logits", model, "--ids", ids, "--exact", "-o", out, *extra)
        if code or not out.exists():
            yield f"{which} {extra}", said.strip() or f"exit code {code}"
            continue
        got, want = np.load(out), expected[f"logits_{which}"]
        yield f"{which} {extra}", float(np.abs(got - want).max() / want.std()) if got.shape == want.shape else f"shape {got.shape}"


def main():
    args = common.arguments(__doc__)
    fixtures = common.shared("fixtures/data")
    if fixtures is None:
        # A clone by itself has the few that its own tests carry.
        fixtures = common.ROOT / "crates/models/tests/data"
    tally = common.Tally()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name in FAMILIES:
            model = fixtures / name
            if not (model / "expected.safetensors").exists():
                print(f"SKIPPED: no fixture {name} in {fixtures}")
                continue
            expected = load_file(model / "expected.safetensors")
            gguf = folder / f"{name}.gguf"
            code, _, said = common.run(args.binary, "convert", model, gguf)
            refused = name in NO_GGUF
            tally.check(f"{name} convert", code == (2 if refused else 0), said)
            for source in [model] if refused else [model, gguf]:
                for which, worst in differences(args.binary, source, expected, folder):
                    ok = isinstance(worst, float) and worst <= TOLERANCE
                    tally.check(f"{name} from {source.suffix or 'safetensors'}, {which}", ok, worst)
    tally.end()


if __name__ == "__main__":
    main()
