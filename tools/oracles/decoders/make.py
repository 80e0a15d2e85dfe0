#!/usr/bin/env python3
"""Fixtures of decoders and encoders that transformers does not have, by oracles written after the authors' code.

    make.py OUT [NAME ...]     in OUT/NAME; all of them where none is named

Needs PyTorch and safetensors.
"""
import sys

import torch

import encoders  # noqa: F401
import harness
import denoisers  # noqa: F401
import llama_like  # noqa: F401
import mixtures  # noqa: F401
import others  # noqa: F401
import recurrent  # noqa: F401

if __name__ == "__main__":
    torch.set_grad_enabled(False)
    for name in sys.argv[2:] or harness.FAMILIES:
        harness.make(name, sys.argv[1])
