#!/usr/bin/env python3
"""One small BitNet b1.58 model in four files, and the logits that transformers computes with its int8 activations.

    bitnet_models.py

writes to `crates/cpu/tests/data/bitnet`

- `packed/`: as microsoft/bitnet-b1.58-2B-4T: config.json, model.safetensors with transformers' `pack_weights`
- `i2_s.gguf`: as bitnet.cpp writes them (type 36, `quantize_i2_s` of its `ggml-bitnet-mad.cpp` for x86)
- `tq1_0.gguf`, `tq2_0.gguf`: with the quantizer of the `gguf` package
- `expected.safetensors`: `ids`; `logits` (int8 activations); `plain` (without)
- `llama/`: a llama in `linear_class` `bitlinear`, as HF1BitLLM's, with its `expected.safetensors`

Needs torch, transformers, safetensors, gguf. Scales are powers of two, so that binary16 holds them.
"""

import json
import pathlib
import shutil

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations import bitnet

OUT = pathlib.Path(__file__).resolve().parents[2] / "crates/cpu/tests/data/bitnet"
CONFIG = dict(
    vocab_size=48, hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.attn_sub_norm": "attn_sub_norm", "mlp.ffn_sub_norm": "ffn_sub_norm"}  # fmt: skip


def model(family, **more):
    cls = type(AutoConfig.for_model(family))
    return AutoModelForCausalLM.from_config(cls(**(CONFIG | more)), attn_implementation="eager").float().eval()


def ternary(family, of):
    """Plain tensors, and trits with their scales, of a model whose linear layers they become."""
    g = torch.Generator().manual_seed(len(family))
    plain, trits = {}, {}
    for name, p in sorted(of.state_dict().items()):
        if name.endswith("proj.weight"):
            scale = 2.0 ** -int(torch.randint(3, 5, (1,), generator=g))
            trits[name.removesuffix(".weight")] = (torch.randint(-1, 2, p.shape, generator=g).to(torch.int8), scale)
        elif name != "lm_head.weight":
            normal = torch.randn(p.shape, generator=g)
            plain[name] = (1 + 0.1 * normal if "norm" in name else normal * 0.3).bfloat16().float()
    return plain, trits


def logits(of, plain, trits, ids, rounded):
    of.load_state_dict({**plain, "lm_head.weight": plain["model.embed_tokens.weight"], **{f"{k}.weight": t.float() * s for k, (t, s) in trits.items()}})
    for name, module in of.named_modules():
        if name in trits and rounded:
            module.register_forward_pre_hook(lambda _, x: (bitnet.ActQuant.forward(None, x[0]),))
    with torch.no_grad():
        return of(input_ids=ids[None], use_cache=False).logits[0].float().contiguous()


def directory(folder, config, linear_class, plain, trits):
    folder.mkdir(parents=True)
    quantization = dict(quant_method="bitnet", linear_class=linear_class, quantization_mode="offline")
    text = {k: v for k, v in config.to_dict().items() if v is not None} | dict(quantization_config=quantization)
    (folder / "config.json").write_text(json.dumps(text, indent=1))
    tensors = {k: v.bfloat16() for k, v in plain.items()}
    for name, (t, scale) in trits.items():
        tensors[f"{name}.weight"] = bitnet.pack_weights(t.clone())
        tensors[f"{name}.weight_scale"] = torch.tensor([scale if linear_class == "autobitlinear" else 1 / scale]).bfloat16()
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors")


def i2_s(t, scale):
    """Four runs of 32 of each 128 values share the bytes, the first in the highest bits; then the scale, in 32 bytes."""
    parts = (t.numpy() + 1).astype(np.uint8).reshape(-1, 4, 32)
    codes = parts[:, 0] << 6 | parts[:, 1] << 4 | parts[:, 2] << 2 | parts[:, 3]
    return np.concatenate([codes.reshape(-1), np.full(8, scale, dtype=np.float32).view(np.uint8)])


def gguf_file(path, plain, trits, kind):
    writer = gguf.GGUFWriter(path, "bitnet-b1.58")
    writer.add_block_count(CONFIG["num_hidden_layers"])
    writer.add_context_length(CONFIG["max_position_embeddings"])
    writer.add_embedding_length(CONFIG["hidden_size"])
    writer.add_feed_forward_length(CONFIG["intermediate_size"])
    writer.add_head_count(CONFIG["num_attention_heads"])
    writer.add_head_count_kv(CONFIG["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(CONFIG["rms_norm_eps"])
    writer.add_rope_dimension_count(CONFIG["hidden_size"] // CONFIG["num_attention_heads"])
    writer.add_rope_freq_base(500000.0)
    writer.add_vocab_size(CONFIG["vocab_size"])
    top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}

    def renamed(name):
        module = name.removesuffix(".weight")
        return (top[module] if module in top else f"blk.{module.split('.')[2]}.{NAMES[module.split('.', 3)[3]]}") + ".weight"

    for name, v in plain.items():
        v = v.numpy()
        writer.add_tensor(renamed(name), v.astype(np.float16) if v.ndim == 2 else v)
    for name, (t, scale) in trits.items():
        if kind is None:
            # The package does not know the type; of bytes with a sign it asks no block size.
            writer.add_tensor(renamed(name), i2_s(t, scale).view(np.int8), raw_shape=t.shape, raw_dtype=36)
        else:
            data = gguf.quantize((t.float() * scale).numpy(), kind)
            assert np.array_equal(gguf.dequantize(data, kind), (t.float() * scale).numpy())
            writer.add_tensor(renamed(name), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    ids = torch.randint(0, CONFIG["vocab_size"], (8,), generator=torch.Generator().manual_seed(1))
    of = model("bitnet")
    assert of.config.hidden_act == "relu2"
    plain, trits = ternary("bitnet", of)
    directory(OUT / "packed", of.config, "autobitlinear", plain, trits)
    expected = {"ids": ids, "logits": logits(model("bitnet"), plain, trits, ids, True), "plain": logits(model("bitnet"), plain, trits, ids, False)}
    save_file(expected, OUT / "expected.safetensors")
    gguf_file(OUT / "tq1_0.gguf", plain, trits, gguf.GGMLQuantizationType.TQ1_0)
    gguf_file(OUT / "tq2_0.gguf", plain, trits, gguf.GGMLQuantizationType.TQ2_0)
    gguf_file(OUT / "i2_s.gguf", plain, trits, None)
    of = model("llama", hidden_size=64, intermediate_size=64)
    plain, trits = ternary("llama", of)
    directory(OUT / "llama", of.config, "bitlinear", plain, trits)
    expected = {"ids": ids, "logits": logits(of, plain, trits, ids, True)}
    save_file(expected, OUT / "llama/expected.safetensors")


if __name__ == "__main__":
    main()
