#!/usr/bin/env python3
"""Makes the files of this folder with the packages `gguf` (0.19) and `safetensors` (0.8), which know nothing of 1bit.

    pip install gguf==0.19.0 safetensors==0.8.0 numpy && python3 make.py SmolLM2-135M-Instruct.Q4_1.gguf FIXTURES/llama

`expected.json` holds, for every tensor of every file, its type, shape and values as those packages decode them.
"""
import json
import os
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from safetensors import TensorSpec, serialize_file

os.chdir(Path(__file__).parent)
for old in [*Path(".").glob("*.gguf"), *Path(".").glob("*.safetensors")]:
    old.unlink()
rng = np.random.default_rng(7)
expected = {}


def spec(kind, array):
    """What the safetensors package writes; the array must stay alive until then."""
    keep.append(np.ascontiguousarray(array))
    return TensorSpec(dtype=kind, shape=array.shape, data_ptr=keep[-1].ctypes.data, data_len=array.nbytes)


keep = []


def values(array):
    return [float(v) for v in np.asarray(array, dtype=np.float64).reshape(-1)]


# Every kind of metadata value, arrays of each, and tensors of one to four dimensions, plain and in blocks.
w = gguf.GGUFWriter("kinds.gguf", "llama")
w.add_uint8("a.u8", 255)
w.add_int8("a.i8", -128)
w.add_uint16("a.u16", 65535)
w.add_int16("a.i16", -32768)
w.add_uint32("a.u32", 2**32 - 1)
w.add_int32("a.i32", -(2**31))
w.add_float32("a.f32", 0.1)
w.add_uint64("a.u64", 2**64 - 1)
w.add_int64("a.i64", -(2**63))
w.add_float64("a.f64", 0.1)
w.add_bool("a.true", True)
w.add_bool("a.false", False)
w.add_string("a.text", "grüße, 世界 🙂")
w.add_string("a.long", "long " * 1000)
w.add_array("a.texts", ["", "one", "zwei", "三"])
w.add_array("a.bytes", [b"\xff\xfe", b"ok", b"\xe4\xb8"])
w.add_array("a.floats", [0.5, -1.25, 3e38])
w.add_array("a.bools", [True, False, True])
for name, kind in {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "u64": 10, "i64": 11}.items():
    bits = int(name[1:])
    low, high = (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    high = min(high, 2**63 - 1)
    w.add_key_value(f"a.array_{name}", [low, 1, high], gguf.GGUFValueType.ARRAY, sub_type=gguf.GGUFValueType(kind))
w.add_key_value("a.array_f64", [0.1, -2.0], gguf.GGUFValueType.ARRAY, sub_type=gguf.GGUFValueType.FLOAT64)
expected["kinds.gguf"] = {}


def add(writer, file, name, array, kind):
    raw = gguf.quants.quantize(array, kind) if kind not in PLAIN else array.astype(PLAIN[kind])
    back = gguf.quants.dequantize(raw, kind) if kind not in PLAIN else raw
    writer.add_tensor(name, raw, raw_dtype=kind)
    expected.setdefault(file, {})[name] = {"type": kind.name, "shape": list(array.shape), "values": values(back)}


PLAIN = {T.F32: "<f4", T.F16: "<f2", T.F64: "<f8", T.I8: "i1", T.I16: "<i2", T.I32: "<i4", T.I64: "<i8"}
for kind in [T.F32, T.F16, T.BF16, T.F64]:
    add(w, "kinds.gguf", f"{kind.name}.1", rng.standard_normal(5).astype(np.float32), kind)
for kind in [T.I8, T.I16, T.I32, T.I64]:
    add(w, "kinds.gguf", f"{kind.name}.1", rng.integers(-100, 100, 7), kind)
add(w, "kinds.gguf", "F32.2", rng.standard_normal((3, 4)).astype(np.float32), T.F32)
add(w, "kinds.gguf", "F32.3", rng.standard_normal((2, 3, 4)).astype(np.float32), T.F32)
add(w, "kinds.gguf", "F16.4", rng.standard_normal((2, 1, 3, 2)).astype(np.float32), T.F16)
for kind in [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0]:
    add(w, "kinds.gguf", f"{kind.name}.2", rng.standard_normal((3, 64)).astype(np.float32), kind)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

# A small one, for tests that try every byte; another alignment.
w = gguf.GGUFWriter("small.gguf", "llama")
w.add_custom_alignment(64)
w.add_uint32("llama.block_count", 1)
w.add_token_list([b"a", b"\xff", b"ab"])
w.add_token_types([1, 6, 1])
add(w, "small.gguf", "token_embd.weight", rng.standard_normal((3, 4)).astype(np.float32), T.F32)
add(w, "small.gguf", "output_norm.weight", rng.standard_normal(4).astype(np.float32), T.F32)
add(w, "small.gguf", "blk.0.attn_q.weight", rng.standard_normal((2, 32)).astype(np.float32), T.Q8_0)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

# Big endian.
w = gguf.GGUFWriter("big.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
w.add_tensor("x", np.ones(4, np.float32))
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

# In three parts.
w = gguf.GGUFWriter("split", "llama", split_max_tensors=2)
w.add_uint32("llama.block_count", 2)
for i in range(5):
    add(w, "split", f"t{i}", rng.standard_normal((2, 3)).astype(np.float32) + i, T.F32)
w.write_header_to_file(Path("split.gguf"))
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

# Every type of safetensors that is read. numpy has no bfloat16 or float8: their bytes are given.
tensors = {}
for name, kind, array in [
    ("F64", "float64", rng.standard_normal(3)),
    ("F32", "float32", rng.standard_normal((2, 3)).astype("<f4")),
    ("F16", "float16", rng.standard_normal((2, 2, 2)).astype("<f2")),
    ("I64", "int64", rng.integers(-(2**20), 2**20, 4)),
    ("I32", "int32", rng.integers(-(2**20), 2**20, (1, 4)).astype("<i4")),
    ("I16", "int16", rng.integers(-(2**15), 2**15, 3).astype("<i2")),
    ("I8", "int8", rng.integers(-128, 128, 5).astype("i1")),
    ("U64", "uint64", rng.integers(0, 2**20, 2).astype("<u8")),
    ("U32", "uint32", rng.integers(0, 2**20, 2).astype("<u4")),
    ("U16", "uint16", rng.integers(0, 2**16, 2).astype("<u2")),
    ("U8", "uint8", rng.integers(0, 256, (2, 2)).astype("u1")),
    ("BOOL", "bool", np.array([True, False, True])),
    ("empty", "float32", np.zeros((0, 4), "<f4")),
    ("scalar", "float32", np.array(2.5, "<f4")),
]:
    tensors[name] = spec(kind, array)
    real = name if name not in ("empty", "scalar") else "F32"
    expected.setdefault("kinds.safetensors", {})[name] = {"type": real, "shape": list(array.shape), "values": values(array)}
bf16 = rng.standard_normal((2, 4)).astype("<f4").view("<u4") & 0xFFFF0000
tensors["BF16"] = spec("bfloat16", (bf16 >> 16).astype("<u2"))
expected["kinds.safetensors"]["BF16"] = {"type": "BF16", "shape": [2, 4], "values": values(bf16.astype("<u4").view("<f4"))}
for name, kind in [("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2")]:
    tensors[name] = spec(kind, np.array([0x38, 0xBC], "u1"))
    # 0x38 = 0 0111 000 and 0 01110 00; 0xbc = 1 0111 100 and 1 01111 00.
    want = [1.0, -1.5] if name == "F8_E4M3" else [0.5, -1.0]
    expected["kinds.safetensors"][name] = {"type": name, "shape": [2], "values": want}
tensors["F8_E8M0"] = spec("float8_e8m0fnu", np.array([0, 1, 127, 130, 254], "u1"))
scales = [2.0**-127, 2.0**-126, 1.0, 8.0, 2.0**127]
expected["kinds.safetensors"]["F8_E8M0"] = {"type": "F8_E8M0", "shape": [5], "values": scales}
serialize_file(tensors, "kinds.safetensors", {"format": "pt", "note": "ein \"Text\"\n"})

small = {"a": spec("float32", np.array([1, 2], "<f4")), "b": spec("int8", np.array([1, 2, 3], "i1"))}
serialize_file(small, "small.safetensors")
expected["small.safetensors"] = {
    "a": {"type": "F32", "shape": [2], "values": [1.0, 2.0]},
    "b": {"type": "I8", "shape": [3], "values": [1.0, 2.0, 3.0]},
}
Path("expected.json").write_text(json.dumps(expected, indent=None, separators=(",", ":")) + "\n")

# A real file made small: SmolLM2's GGUF (its path is the first argument) with arrays cut to 48 elements and tensors to 2 rows.
if len(sys.argv) > 1:
    r = gguf.GGUFReader(sys.argv[1])
    w = gguf.GGUFWriter("smollm2-cut.gguf", "llama")
    for field in r.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        value = field.contents()
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            value = value[:48]
            w.add_key_value(field.name, value, field.types[0], sub_type=field.types[1])
        else:
            w.add_key_value(field.name, value, field.types[0])
    for t in r.tensors:
        if t.name.startswith("blk.") and not t.name.startswith("blk.0."):
            continue
        w.add_tensor(t.name, t.data[:2] if t.data.ndim == 2 else t.data, raw_dtype=t.tensor_type)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()

# A real folder made small: the second argument is a folder with config.json and model.safetensors. Two shards, rows cut.
if len(sys.argv) > 2:
    source, to = Path(sys.argv[2]), Path("llama-cut")
    to.mkdir(exist_ok=True)
    shutil.copy(source / "config.json", to)
    json_bytes, data = (source / "model.safetensors").read_bytes(), None
    length = int.from_bytes(json_bytes[:8], "little")
    header, data = json.loads(json_bytes[8 : 8 + length]), json_bytes[8 + length :]
    header.pop("__metadata__", None)
    names = sorted(header)
    weight_map = {}
    for i, part in enumerate([names[: len(names) // 2], names[len(names) // 2 :]]):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        tensors = {}
        for name in part:
            info = header[name]
            begin, _ = info["data_offsets"]
            shape = [2, 4] if len(info["shape"]) == 2 else [4]
            raw = np.frombuffer(data[begin : begin + 2 * int(np.prod(shape))], "<u2").reshape(shape)
            assert info["dtype"] == "BF16"
            tensors[name] = spec("bfloat16", raw)
            weight_map[name] = file
        serialize_file(tensors, str(to / file), {"format": "pt"})
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (to / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
