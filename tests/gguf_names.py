#!/usr/bin/env python3
"""Holds a GGUF file of a vision tower (mmproj) against the tables of the package gguf: says what tensors and keys it has no names for.

    gguf_names.py FILE
"""

import re
import sys

import gguf

# What llama.cpp reads (tools/mtmd/clip-impl.h), and not every release of the package names.
READ_BY_LLAMA_CPP = {"clip.vision.mm_patch_merge_type", "clip.vision.image_grid_pinpoints", "clip.vision.feature_layer"}


def keys(table):
    """All keys in a class of constants, and in those within it."""
    for name, value in vars(table).items():
        if isinstance(value, str) and not name.startswith("_"):
            yield value
        elif isinstance(value, type):
            yield from keys(value)


def known_tensor(name):
    """Whether a tensor of a tower is called so."""
    for tensor in gguf.MODEL_TENSORS[gguf.MODEL_ARCH.MMPROJ]:
        module = re.escape(gguf.TENSOR_NAMES[tensor]).replace(r"\{bid\}", r"\d+")
        if re.fullmatch(module + r"(\.(weight|bias)(\.\d+)?|\.(input|output)_(min|max))?", name):
            return True
    return False


def main():
    reader = gguf.GGUFReader(sys.argv[1])
    known = set(keys(gguf.Keys)) | READ_BY_LLAMA_CPP
    unknown = [name for name in reader.fields if not name.startswith("GGUF.") and name not in known]
    unknown += [tensor.name for tensor in reader.tensors if not known_tensor(tensor.name)]
    print(*unknown, sep="\n")
    sys.exit(1 if unknown else 0)


if __name__ == "__main__":
    main()
