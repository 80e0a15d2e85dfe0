#!/usr/bin/env python3
"""Fixtures of decoders that transformers has, and that the shared ones leave out: random models of its own classes.

    ready.py OUT [NAME ...]     in OUT/NAME; all of them where none is named

Needs PyTorch, safetensors and transformers 5.24.
"""
import json
import os
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import torch
import transformers
from safetensors.torch import load_file

import harness

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
             max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)
EXPERTS = dict(num_experts=4, num_local_experts=4, num_experts_per_tok=2)
SEED = 3
LATENT = dict(q_lora_rank=12, kv_lora_rank=10, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6)

MODELS = {
    "granitemoeshared": SIZES | EXPERTS | dict(intermediate_size=12, shared_intermediate_size=16, embedding_multiplier=2.0, logits_scaling=3.0,
                                               residual_multiplier=0.5, attention_multiplier=0.3, tie_word_embeddings=True),
    "flex_olmo": SIZES | EXPERTS | dict(intermediate_size=12, norm_topk_prob=False, tie_word_embeddings=False),
    "jais2": SIZES | dict(tie_word_embeddings=False),
    "mellum": SIZES | EXPERTS | dict(
        moe_intermediate_size=12, sliding_window=8, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        mlp_layer_types=["dense", "sparse", "sparse"], tie_word_embeddings=False),
    "cohere2_moe": SIZES | EXPERTS | dict(
        intermediate_size=12, prefix_dense_intermediate_size=40, num_hidden_layers=4, sliding_window=8, sliding_window_pattern=2,
        first_k_dense_replace=1, num_shared_experts=2, expert_selection_fn="sigmoid", logit_scale=0.25, tie_word_embeddings=True),
    "mistral4": SIZES | EXPERTS | LATENT | dict(
        head_dim=12, num_key_value_heads=4, n_routed_experts=4, moe_intermediate_size=12, first_k_dense_replace=1, n_shared_experts=1, tie_word_embeddings=False,
        rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=8, beta_fast=32.0, beta_slow=1.0,
                             mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)),
}


def make(name, out):
    torch.manual_seed(SEED)
    config = transformers.AutoConfig.for_model(name, **MODELS[name])
    kind = getattr(transformers, type(config).__name__.replace("Config", "ForCausalLM"))
    config.architectures = [kind.__name__]
    model = kind._from_config(config, attn_implementation="eager").float().eval()
    for key, p in model.named_parameters():
        around = 1.0 if p.dim() == 1 and "norm" in key and "weight" in key else 0.0
        std = 0.1 if p.dim() == 1 else 1.0 if "embed_tokens" in key else 1.4 / p.shape[-1] ** 0.5
        p.data = (around + std * torch.randn(p.shape)).bfloat16().float()
    model.tie_weights()
    expected = harness.expect(config.vocab_size, lambda ids: model(ids[None]).logits[0].float())
    with tempfile.TemporaryDirectory() as folder:
        # As published: matrices of experts are stacked in memory only.
        model.save_pretrained(folder)
        w = {key: tensor.bfloat16() for key, tensor in load_file(f"{folder}/model.safetensors").items()}
        config = json.loads((harness.pathlib.Path(folder) / "config.json").read_text())
    folder = harness.pathlib.Path(out) / name
    harness.save(folder, config | {"dtype": "bfloat16"}, w, expected)
    meta = dict(kind="causal", model_type=name, seed=SEED, torch=torch.__version__, transformers=transformers.__version__)
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    for name in sys.argv[2:] or MODELS:
        make(name, sys.argv[1])
