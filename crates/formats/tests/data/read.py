#!/usr/bin/env python3
"""Reads what `tests/write.rs` wrote in the folder of the first argument; the originals lie in that of the second. Fails if they differ."""
import sys
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file

ours, original = (Path(a) for a in sys.argv[1:])
a, b = gguf.GGUFReader(ours / "x.gguf"), gguf.GGUFReader(original / "kinds.gguf")
want = {t.name: t for t in b.tensors}
assert len(a.tensors) == len(want)
for t in a.tensors:
    o = want[t.name]
    assert t.tensor_type == o.tensor_type and list(t.shape) == list(o.shape), t.name
    assert t.data.dtype == o.data.dtype and (t.data == o.data).all(), t.name
for name, field in b.fields.items():
    if name.startswith("GGUF."):
        continue
    both = a.fields[name], field
    if name == "a.bytes":  # not text
        mine, theirs = ([bytes(f.parts[i]) for i in f.data] for f in both)
    else:
        mine, theirs = (f.contents() for f in both)
    if name in ("a.f64", "a.array_f64"):  # the writer has only f32
        mine, theirs = np.float32(mine).tolist(), np.float32(theirs).tolist()
    assert mine == theirs, (name, mine, theirs)
V = gguf.GGUFValueType
kinds = {"a.u8": [V.UINT32], "a.i8": [V.INT32], "a.f64": [V.FLOAT32], "a.u64": [V.UINT64], "a.array_u8": [V.ARRAY, V.INT32], "b": [V.ARRAY, V.UINT8]}
for name, kind in kinds.items():
    assert a.fields[name].types == kind, (name, a.fields[name].types)
assert a.fields["b"].contents() == [1, 255]

a, b = load_file(ours / "x.safetensors"), original / "kinds.safetensors"
from safetensors import safe_open

with safe_open(b, "np") as f:
    for name in a:
        o = f.get_tensor(name)
        assert a[name].dtype == o.dtype and a[name].shape == o.shape and (a[name] == o).all(), name
    assert set(a) | {"BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0"} == set(f.keys())
with safe_open(ours / "x.safetensors", "np") as f:
    assert f.metadata() == {"format": "pt"}

x = np.load(ours / "x.npy")
assert x.dtype == np.float32 and x.tolist() == [[0.5, 1.0, -2.0], [3.0, 4.0, 5.0]]
