#!/usr/bin/env python3
"""Writes forks.safetensors: random rows of the weight types of forks, and what the forks' own code decodes them to.

    pip install numpy
    make_forks.py IK UNSLOTH forks.safetensors

IK is a checkout of github.com/ikawrakow/ik_llama.cpp (made with commit 8337e4cd3), UNSLOTH one of the branch iq1-narrow of
github.com/unslothai/llama.cpp (36fe8e1cc). Needs gcc and g++ for x86-64 with AVX2.

Three types are not taken as the decoders leave them. Those of IQ1_BN and IQ2_BN are for blocks, without the row's scale, which
ik_llama.cpp's products multiply with. That of IQ6_K takes its levels from a polynomial; products (and the quantizer) take the
nearest whole numbers, the table `iq6nl_values`, and so does this.
"""
import ctypes, json, struct, subprocess, sys, tempfile
from pathlib import Path
import numpy as np

ROWS = 2
# Name, values and bytes of a block, values of a row, bytes before a row's blocks, what is in a block's first two bytes.
IK = [
    ("Q6_0", 32, 26, 128, "", "f16"), ("IQ1_BN", 64, 13, 256, "f16", ""), ("IQ2_BN", 64, 16, 256, "f32", ""),
    ("IQ2_K", 256, 76, 512, "", "f16"), ("IQ3_K", 256, 110, 512, "", "f16"), ("IQ4_K", 256, 144, 512, "", "f16"),
    ("IQ5_K", 256, 176, 512, "", "f16"), ("IQ6_K", 256, 212, 512, "", "f16"),
    ("IQ4_KS", 256, 136, 512, "f32", ""), ("IQ2_KS", 256, 70, 512, "f16", ""), ("IQ4_KSS", 256, 128, 512, "f32", ""),
    ("Q8_KV", 32, 32, 128, "f32+4", ""), ("IQ5_KS", 256, 168, 512, "f32", ""), ("IQ2_KT", 256, 68, 512, "f32", ""),
    ("IQ3_KT", 256, 100, 512, "f32", ""), ("IQ4_KT", 256, 128, 512, "f32", ""), ("IQ3_KS", 256, 102, 512, "f16", ""),
    ("IQ2_KL", 256, 86, 512, "f16", ""), ("IQ1_KT", 256, 56, 512, "f32", ""),
]
UNSLOTH = [("IQ1_XS", 256, 46, 512, "", "f16"), ("IQ1_XXS", 256, 42, 512, "", "f16"), ("IQ1_XXXS", 256, 38, 512, "", "f16")]

def library(checkout, sources, folder):
    """The sources, alone: what they need of the rest is not called."""
    source, objects, table = Path(checkout) / "ggml/src", [], Path(folder) / "table.c"
    table.write_text("float ggml_table_f32_f16[1 << 16];")
    for name in [*sources, table]:
        objects.append(f"{folder}/{Path(name).stem}.o")
        flags = ["g++", "-std=c++17"] if str(name).endswith(".cpp") else ["gcc", "-std=gnu11"]
        flags += ["-O1", "-w", "-fPIC", "-mavx2", "-mfma", "-mf16c", "-D_GNU_SOURCE", f"-I{source}/../include", f"-I{source}", f"-I{source}/iqk"]
        subprocess.run([*flags, "-c", source / name, "-o", objects[-1]], check=True)
    out = f"{folder}/{Path(checkout).name}.so"
    subprocess.run(["g++", "-shared", *objects, "-Wl,--unresolved-symbols=ignore-all", "-Wl,-z,lazy", "-o", out], check=True)
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.restype, dlopen.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int]
    lib = ctypes.CDLL(out, handle=dlopen(out.encode(), 1))  # RTLD_LAZY
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    ctypes.memmove(ctypes.byref(ctypes.c_float.in_dll(lib, "ggml_table_f32_f16")), halves.ctypes.data, halves.nbytes)
    return lib

def scale(rng, kind):
    v = rng.normal() * 0.01
    return np.float16(v).tobytes() if kind == "f16" else np.float32(v).tobytes() + rng.bytes(4 * (kind == "f32+4"))

def rows(rng, values, size, columns, header, first):
    for _ in range(ROWS):
        row = scale(rng, header) if header else b""
        for _ in range(columns // values):
            block = rng.bytes(size)
            row += scale(rng, first) + block[2:] if first else block
        yield row

def decode(lib, name, row, columns):
    out = np.full(columns, np.nan, np.float32)
    def call(data):
        lib[f"dequantize_row_{name.lower().replace('_kv', '_KV')}"](
            ctypes.create_string_buffer(data, len(data) + 64), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(columns))
        return out
    if name in ("IQ1_BN", "IQ2_BN"):
        kind, n = (np.float16, 2) if name == "IQ1_BN" else (np.float32, 4)
        return call(row[n:]) * np.frombuffer(row[:n], kind).astype(np.float32)[0]
    if name == "IQ6_K":
        blocks = np.frombuffer(row, np.uint8).reshape(-1, 212)
        d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        steps = (d * blocks[:, 4:20].view(np.int8).astype(np.float32)).astype(np.float32).reshape(-1, 1)
        # With scales of one, the decoder gives the levels.
        ones = blocks.copy()
        ones[:, :2], ones[:, 4:20] = np.frombuffer(np.float16(1).tobytes(), np.uint8), 1
        return (np.rint(call(ones.tobytes())).reshape(-1, 16) * steps).astype(np.float32).reshape(-1)
    return call(row)

def main(ik, unsloth, path):
    rng, tensors = np.random.default_rng(133), {}
    with tempfile.TemporaryDirectory() as folder:
        for checkout, sources, types in [(ik, ["iqk/iqk_quantize.cpp", "ggml-quants.c"], IK), (unsloth, ["ggml-quants.c"], UNSLOTH)]:
            lib = library(checkout, sources, folder)
            for name, values, size, columns, header, first in types:
                raw = list(rows(rng, values, size, columns, header, first))
                tensors[f"{name}.raw"] = np.frombuffer(b"".join(raw), np.uint8).reshape(ROWS, -1)
                tensors[f"{name}.f32"] = np.stack([decode(lib, name, row, columns) for row in raw])
    header, data = {}, b""
    for name, t in tensors.items():
        assert t.dtype == np.uint8 or np.isfinite(t).all(), name
        dtype = "U8" if t.dtype == np.uint8 else "F32"
        header[name] = {"dtype": dtype, "shape": list(t.shape), "data_offsets": [len(data), len(data) + t.nbytes]}
        data += t.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)

if __name__ == "__main__":
    main(*sys.argv[1:])
