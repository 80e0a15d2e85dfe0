#!/usr/bin/env python3
"""Small matrices in every quantization scheme of Hugging Face directories, and the values that each scheme's own package decodes.

    scheme_references.py GPTQMODEL AUTOAWQ MODELOPT

(folders of sources, see schemes.py) writes `crates/formats/tests/data/schemes/NAME/{config.json, model.safetensors}`,
`.../values.safetensors` (NAME -> f32), and `.../packages.json` (versions).
"""

import importlib.metadata
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file
from schemes import schemes

OUT = pathlib.Path(__file__).resolve().parents[2] / "crates/formats/tests/data/schemes"


def weight(seed, rows=32, columns=64):
    """Normal numbers with an outlier in each row, as weights have."""
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(rows, columns, generator=g) * 0.05
    w[:, seed % columns] *= 6
    return w


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    values = {}
    for seed, scheme in enumerate(schemes(*sys.argv[1:])):
        # Blocks of 64 values are counted through the whole matrix.
        tall = (48, 128) if scheme.name.startswith("bnb") else (32, 64)
        tensors, expected, *metadata = scheme.quantize(weight(seed, *tall), seed)
        folder = OUT / scheme.name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({scheme.key: scheme.config}, indent=1))
        tensors = {k: v.detach().clone().contiguous() for k, v in tensors.items()}
        save_file(tensors, folder / "model.safetensors", metadata={"m.weight": metadata[0]} if metadata else None)
        values[f"{scheme.name}/{scheme.tensor}"] = expected.detach().float().clone().contiguous()
        print(scheme.name, tuple(expected.shape))
    save_file(values, OUT / "values.safetensors")
    packages = ["torch", "transformers", "compressed-tensors", "bitsandbytes", "hqq", "torchao", "mlx"]
    versions = {p: importlib.metadata.version(p) for p in packages} | {pathlib.Path(s).name: "source" for s in sys.argv[1:]}
    (OUT / "packages.json").write_text(json.dumps(versions, indent=1))


if __name__ == "__main__":
    main()
