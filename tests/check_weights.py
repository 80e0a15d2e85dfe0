#!/usr/bin/env python3
"""`1bit show --tensor` of every weight type against the values of the reference vectors, from GGUF files made here."""

import pathlib
import tempfile

import numpy as np
from safetensors.numpy import load_file

import common

IDS = dict(F32=0, F16=1, Q4_0=2, Q4_1=3, Q5_0=6, Q5_1=7, Q8_0=8, Q2_K=10, Q3_K=11, Q4_K=12, Q5_K=13, Q6_K=14, IQ2_XXS=16, IQ2_XS=17,
           IQ3_XXS=18, IQ1_S=19, IQ4_NL=20, IQ3_S=21, IQ2_S=22, IQ4_XS=23, IQ1_M=29, BF16=30, TQ1_0=34, TQ2_0=35, MXFP4=39, NVFP4=40,
           Q1_0=41, Q2_0=42, PQ2_0=142, PTQ1_0=143)  # fmt: skip
FORKS = dict(IQ1_XS=64, IQ1_XXS=65, IQ1_XXXS=66, Q6_0=133, IQ1_BN=134, IQ2_BN=135, IQ2_K=137, IQ3_K=138, IQ4_K=139, IQ5_K=140, IQ6_K=141,
             IQ4_KS=144, IQ2_KS=145, IQ4_KSS=146, Q8_KV=151, IQ5_KS=152, IQ2_KT=153, IQ3_KT=154, IQ4_KT=155, IQ3_KS=156, IQ2_KL=157,
             IQ1_KT=158)  # fmt: skip


def main():
    args = common.arguments(__doc__)
    vectors = common.shared("vectors/quants.safetensors") or common.ROOT / "crates/quants/tests/data/quants.safetensors"
    if not vectors.exists():
        common.skip(f"there is no {vectors}")
    values = load_file(vectors) | load_file(common.ROOT / "crates/quants/tests/data/forks.safetensors")
    ids = IDS | FORKS
    tally = common.Tally()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for key in [k for k in values if k.endswith(".raw")]:
            name = key.removesuffix(".raw")
            raw, want = values[key], values[f"{name}.f32"]
            path, out = folder / f"{name}.gguf", folder / f"{name}.npy"
            # An architecture that nobody knows: the tensors must be readable all the same.
            common.write_gguf(path, {"general.architecture": "nobody"}, {"blk.0.ffn_up.weight": (want.shape, ids[name], raw.tobytes())})
            code, _, said = common.run(args.binary, "show", path, "--tensor", "blk.0.ffn_up.weight", "--npy", out)
            same = code == 0 and np.array_equal(np.load(out), want)
            tally.check(f"{name} decodes exactly", same, said)
    tally.end()


if __name__ == "__main__":
    main()
