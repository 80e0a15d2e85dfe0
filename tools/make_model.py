#!/usr/bin/env python3
"""Makes a GGUF file of a real model's shape with random weights, for benchmarks: it answers nonsense at the right speed.

    tools/make_model.py OUT.gguf --shape 4b [--type Q4_K] [--seed 1]

Shapes: 135m, 0.6b, 1.5b, 4b, 8b and 27b (dense, as Qwen 3; the smallest is as large as SmolLM2), 8b-a1b and 30b-a3b (mixtures of
experts, as Qwen 3 MoE), hybrid-2b and hybrid-27b (Gated DeltaNet with attention in every fourth layer, as Qwen 3.5). Types: F16, Q8_0,
Q4_0, Q4_K, Q6_K, TQ2_0, whose output matrix is Q6_K. Values lie around zero with a deviation of some hundredths, so that nothing grows or
vanishes. Needs numpy.
"""

import argparse
import dataclasses
import struct
import sys

import numpy as np

ALIGN = 32
# Blocks that are made at once.
CHUNK = 1 << 18


@dataclasses.dataclass
class Shape:
    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    # Experts, those used by a token, their width.
    experts: tuple = None
    # Gated DeltaNet: key heads, value heads, size of both.
    delta: tuple = None


SHAPES = {
    "135m": Shape(30, 576, 1536, 9, 3, 64, 49152),
    "0.6b": Shape(28, 1024, 3072, 16, 8, 128, 151936),
    "1.5b": Shape(28, 1536, 8960, 12, 2, 128, 151936),
    "4b": Shape(36, 2560, 9728, 32, 8, 128, 151936),
    "8b": Shape(32, 4096, 14336, 32, 8, 128, 128256),
    "27b": Shape(64, 5120, 17408, 24, 4, 256, 248320),
    "8b-a1b": Shape(24, 2048, 6144, 32, 8, 64, 65536, experts=(32, 4, 1792)),
    "30b-a3b": Shape(48, 2048, 6144, 32, 4, 128, 151936, experts=(128, 8, 768)),
    "hybrid-2b": Shape(24, 2048, 6144, 8, 2, 256, 248320, delta=(16, 16, 128)),
    "hybrid-27b": Shape(64, 5120, 17408, 24, 4, 256, 248320, delta=(16, 48, 128)),
}


def half(x):
    return np.frombuffer(np.float16(x).tobytes(), np.uint8)


def constant(value):
    return lambda count, r: np.full((count, 1), value, "<f4").view(np.uint8)


def f16(count, r):
    return (r.standard_normal((count, 1), dtype=np.float32) * 0.02).astype("<f2").view(np.uint8)


def scaled(size, fields):
    """Blocks of random codes whose scales, at these bytes, are these."""

    def make(count, r):
        raw = r.integers(0, 256, (count, size), dtype=np.uint8)
        for at, scale in fields.items():
            raw[:, at : at + 2] = half(scale)
        return raw

    return make


def tq2_0(count, r):
    """Four codes of 0, 1 or 2 in each byte."""
    codes = r.integers(0, 3, (count, 64, 4), dtype=np.uint8)
    raw = np.empty((count, 66), np.uint8)
    raw[:, :64] = (codes << np.arange(0, 8, 2, dtype=np.uint8)).sum(axis=2, dtype=np.uint8)
    raw[:, 64:] = half(0.02)
    return raw


# Name: the number in files, values of a block, its bytes, and what makes blocks. In Q4_K, the minimum's scale balances the codes' mean.
TYPES = {
    "F32": (0, 1, 4, constant(1)),
    "F16": (1, 1, 2, f16),
    "Q4_0": (2, 32, 18, scaled(18, {0: 5e-3})),
    "Q8_0": (8, 32, 34, scaled(34, {0: 3e-4})),
    "Q4_K": (12, 256, 144, scaled(144, {0: 1e-4, 2: 7.5e-4})),
    "Q6_K": (14, 256, 210, scaled(210, {208: 1.5e-5})),
    "TQ2_0": (35, 256, 66, tq2_0),
}


def attention(s, gated):
    return {
        "attn_q": (s.width, s.heads * s.head * (2 if gated else 1)),
        "attn_k": (s.width, s.kv_heads * s.head),
        "attn_v": (s.width, s.kv_heads * s.head),
        "attn_output": (s.heads * s.head, s.width),
        "attn_q_norm": (s.head,),
        "attn_k_norm": (s.head,),
    }


def delta_net(s):
    k_heads, v_heads, size = s.delta
    channels = (2 * k_heads + v_heads) * size
    return {
        "attn_qkv": (s.width, channels),
        "attn_gate": (s.width, v_heads * size),
        "ssm_beta": (s.width, v_heads),
        "ssm_alpha": (s.width, v_heads),
        "ssm_conv1d": (4, channels),
        "ssm_dt.bias": (v_heads,),
        "ssm_a": (v_heads,),
        "ssm_norm": (size,),
        "ssm_out": (v_heads * size, s.width),
    }


def feed_forward(s):
    if s.experts is None:
        return {"ffn_gate": (s.width, s.ffn), "ffn_up": (s.width, s.ffn), "ffn_down": (s.ffn, s.width)}
    count, _, inner = s.experts
    return {
        "ffn_gate_inp": (s.width, count),
        "ffn_gate_exps": (s.width, inner, count),
        "ffn_up_exps": (s.width, inner, count),
        "ffn_down_exps": (inner, s.width, count),
    }


# Small, or not the operand of a product: kept whole, as converters do.
WHOLE = ("norm", "ssm_conv1d", "ssm_dt", "ssm_a", "ffn_gate_inp")


def tensors(s, kind):
    """(name, dimensions, type), in the order of the file."""
    whole = lambda name: any(part in name.split(".")[-1] or name.startswith(part) for part in WHOLE)  # noqa: E731
    yield "token_embd.weight", (s.width, s.vocabulary), kind
    for layer in range(s.layers):
        mixer = delta_net(s) if s.delta and layer % 4 != 3 else attention(s, s.delta is not None)
        second = "post_attention_norm" if s.delta else "ffn_norm"
        for name, shape in {"attn_norm": (s.width,), **mixer, second: (s.width,), **feed_forward(s)}.items():
            suffix = "" if name in ("ssm_a", "ssm_dt.bias") else ".weight"
            yield f"blk.{layer}.{name}{suffix}", shape, "F32" if whole(name) or len(shape) == 1 else kind
    yield "output_norm.weight", (s.width,), "F32"
    yield "output.weight", (s.width, s.vocabulary), "Q6_K" if kind == "TQ2_0" else kind


def settings(s, name):
    arch = "qwen35" if s.delta else "qwen3moe" if s.experts else "qwen3"
    pairs = {"general.architecture": arch, "general.name": name, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2"}
    # Something to name tokens by, without which llama.cpp's server does not start: no text of use comes of it.
    pairs |= {"tokenizer.ggml.tokens": ["t", "0", *(f"t{i}" for i in range(s.vocabulary - 2))], "tokenizer.ggml.merges": ["t 0"]}
    pairs |= {"tokenizer.ggml.token_type": [1] * s.vocabulary, "tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.bos_token_id": 0}
    own = {
        "vocab_size": s.vocabulary, "context_length": 32768, "embedding_length": s.width, "block_count": s.layers, "feed_forward_length": s.ffn,
        "attention.head_count": s.heads, "attention.head_count_kv": s.kv_heads, "attention.key_length": s.head,
        "attention.value_length": s.head, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6,
    }
    if s.experts:
        own |= dict(zip(("expert_count", "expert_used_count", "expert_feed_forward_length"), s.experts))
    if s.delta:
        k_heads, v_heads, size = s.delta
        own |= {
            "full_attention_interval": 4, "rope.dimension_count": s.head // 4, "rope.dimension_sections": [s.head // 24 + 1, s.head // 24 + 1, s.head // 24, 0],
            "ssm.conv_kernel": 4, "ssm.group_count": k_heads, "ssm.inner_size": v_heads * size, "ssm.state_size": size, "ssm.time_step_rank": v_heads,
        }
    return pairs | {f"{arch}.{key}": value for key, value in own.items()}


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def typed(value):
    """A value of the metadata, behind its type."""
    match value:
        case str():
            return struct.pack("<I", 8) + text(value)
        case float():
            return struct.pack("<If", 6, value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        case list():
            return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
    return struct.pack("<II", 4, value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--shape", choices=SHAPES, default="4b")
    parser.add_argument("--type", choices=[t for t in TYPES if t != "F32"], default="Q4_K")
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    pairs, listed = settings(SHAPES[a.shape], f"random {a.shape} {a.type}"), list(tensors(SHAPES[a.shape], a.type))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(pairs)) + b"".join(text(k) + typed(v) for k, v in pairs.items())
    offset = 0
    for name, shape, kind in listed:
        number, per_block, size, _ = TYPES[kind]
        if shape[0] % per_block:
            sys.exit(f"{name}: rows of {shape[0]} values are no whole blocks of {kind}")
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
        offset += -(-int(np.prod(shape)) // per_block * size // ALIGN) * ALIGN
    r = np.random.default_rng(a.seed)
    with open(a.out, "wb") as out:
        out.write(head + bytes(-len(head) % ALIGN))
        for i, (name, shape, kind) in enumerate(listed):
            if sys.stderr.isatty():
                print(f"\r{i + 1} of {len(listed)} tensors", end="", file=sys.stderr, flush=True)
            _, per_block, _, make = TYPES[kind]
            # States decay.
            make = constant(-1) if name.endswith("ssm_a") else make
            blocks = int(np.prod(shape)) // per_block
            for start in range(0, blocks, CHUNK):
                out.write(make(min(CHUNK, blocks - start), r).tobytes())
            out.write(bytes(-out.tell() % ALIGN))
    print(f"\r{a.out}: {len(listed)} tensors, {offset / 2**30:.2f} GiB", file=sys.stderr)


if __name__ == "__main__":
    main()
