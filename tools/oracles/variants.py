#!/usr/bin/env python3
"""Tiny models of transformers whose settings GGUF files of their architecture mean, or that have parts which the shared fixtures lack.

    variants.py OUT [NAME ...]     in OUT/NAME; all of them where none is named

Needs PyTorch and transformers 5.24. The folders are as docs/adding-an-architecture.md describes them.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

SIZES = dict(
    vocab_size=48, hidden_size=32, intermediate_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
    max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
EXPERTS = dict(num_experts=5, num_local_experts=5, n_routed_experts=5, num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=1)
THREE_AND_ONE = ["sliding_attention"] * 3 + ["full_attention"]

# By the folder's name: the model's type, and its settings.
VARIANTS = {
    "afmoe_in_gguf": ("afmoe", dict(mup_enabled=True, layer_types=THREE_AND_ONE, sliding_window=6, num_dense_layers=1)),
    "bailing_hybrid_in_gguf": ("bailing_hybrid", dict(
        num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], kv_lora_rank=8, q_lora_rank=12,
        qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=6, n_group=1, topk_group=1, first_k_dense_replace=1, num_key_value_heads=4)),
    "exaone4_in_gguf": ("exaone4", dict(num_hidden_layers=2, sliding_window=None, layer_types=["full_attention"] * 2)),
    "gemma4_moe": ("gemma4_text", dict(
        enable_moe_block=True, top_k_experts=2, layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=6,
        attention_k_eq_v=True, global_head_dim=16, num_global_key_value_heads=1, num_kv_shared_layers=0, hidden_size_per_layer_input=0,
        final_logit_softcapping=5.0)),
    "gemma4_shared": ("gemma4_text", dict(
        layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=6, global_head_dim=16, num_kv_shared_layers=2,
        use_double_wide_mlp=True, hidden_size_per_layer_input=8, vocab_size_per_layer_input=48)),
    "llama4_text_in_gguf": ("llama4_text", dict(
        attention_chunk_size=8192, interleave_moe_layer_step=2, intermediate_size_mlp=24, intermediate_size=16, num_experts_per_tok=1,
        no_rope_layers=[1, 1, 1, 0])),
    "mellum_in_gguf": ("mellum", dict(
        num_hidden_layers=3, layer_types=["full_attention", "sliding_attention", "sliding_attention"], mlp_layer_types=["sparse"] * 3,
        sliding_window=6, tie_word_embeddings=False)),
    "minimax_in_gguf": ("minimax", dict(
        num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], block_size=16, sliding_window=None,
        full_attn_alpha_factor=1.5, linear_attn_alpha_factor=1.5, mlp_alpha_factor=1.5)),
    "mimo_v2_flash_in_gguf": ("mimo_v2_flash", dict(
        num_hidden_layers=3, head_dim=12, v_head_dim=8, layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        sliding_window=6, num_key_value_heads=1)),
    "ministral3_in_gguf": ("ministral3", dict(num_hidden_layers=2, sliding_window=None, rope_parameters=dict(
        rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=8, beta_fast=4.0, beta_slow=1.0, mscale=1.0,
        mscale_all_dim=1.0, llama_4_scaling_beta=0.3))),
    "olmoe_in_gguf": ("olmoe", dict(num_hidden_layers=2, num_key_value_heads=4, clip_qkv=None, intermediate_size=16)),
    "qwen2_moe_in_gguf": ("qwen2_moe", dict(num_hidden_layers=2, mlp_only_layers=[], shared_expert_intermediate_size=24)),
    "qwen4_exp_text_in_gguf": ("qwen4_exp_text", dict(
        layer_types=["linear_attention"] * 2 + ["indexed_attention"] * 2, hc_count=4, hc_lowrank=8, ple_layer_ids=[2], ple_embed_dim=32,
        ngram_size=3, heads_per_ngram=2, ngram_vocab_size_base=20, make_ngram_vocab_size_divisible_by=8, split_ngram_parts=4,
        indexer_n_heads=4, indexer_kv_heads=1, indexer_head_dim=8, indexer_budget=8, indexer_compress_ratio=2, output_gate_type="sigmoid",
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8, linear_conv_kernel_dim=4,
        shared_expert_intermediate_size=16, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "smollm3_in_gguf": ("smollm3", dict(no_rope_layers=[1, 1, 1, 0], layer_types=None, use_sliding_window=False)),
}  # fmt: skip


# What follows from the settings, and is left out of the files.
FOLLOW = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")


def weights(model, seed):
    """Random ones, rounded to bfloat16: around one or zero where a norm's are, and small."""
    draw = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        noise = torch.randn(p.shape, generator=draw)
        if p.ndim == 1:
            p.copy_(p + 0.1 * noise)
        elif "embed" in name:
            p.copy_(0.5 * noise)
        else:
            p.copy_(noise / p.shape[-1] ** 0.5)
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):
            buffer.copy_(1 + 0.1 * torch.randn(buffer.shape, generator=draw))
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not name.endswith(FOLLOW):
            tensor.copy_(tensor.bfloat16().float())


def make(name, out, seed=3, short=6, long=24, steps=12):
    kind, own = VARIANTS[name]
    cls = type(transformers.AutoConfig.for_model(kind))
    known = set(cls().to_dict()) | set(getattr(cls, "attribute_map", {}))
    config = cls(**({key: value for key, value in (SIZES | EXPERTS).items() if key in known} | own))
    config._experts_implementation = "eager"
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    model.tie_weights()
    weights(model, seed)
    draw = torch.Generator().manual_seed(seed + 1)
    first, ids = (torch.randint(3, config.vocab_size, (n,), generator=draw) for n in (short, long))

    def logits(ids):
        return model(input_ids=ids[None], use_cache=False).logits[0].float()

    so_far, greedy, margins = first, [], []
    for _ in range(steps):
        best = logits(so_far)[-1].topk(2)
        greedy.append(best.indices[0])
        margins.append(best.values[0] - best.values[1])
        so_far = torch.cat([so_far, best.indices[:1]])
    folder = pathlib.Path(out) / name
    expected = {
        "ids_short": first, "ids_long": ids, "logits_short": logits(first), "logits_long": logits(ids),
        "greedy": torch.stack(greedy), "greedy_margin": torch.stack(margins),
    }  # fmt: skip
    model.bfloat16().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    saved = load_file(folder / "model.safetensors")
    save_file({key: value for key, value in saved.items() if not key.endswith(FOLLOW)}, folder / "model.safetensors", {"format": "pt"})
    save_file({key: value.contiguous() for key, value in expected.items()}, folder / "expected.safetensors")
    (folder / "meta.json").write_text(json.dumps({"transformers": transformers.__version__}) + "\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{name}: deviation {expected['logits_long'].std():.3f}, least margin {min(margins):.4f}, {size} bytes")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    for name in sys.argv[2:] or VARIANTS:
        make(name, sys.argv[1])
