"""Decoders of masked diffusion, which see the whole text. Each after the `modeling_*.py` of the checkpoint that its comment names."""
import torch

from harness import attend, family, gated, heads, mixture, turn

EVERYTHING = torch.zeros(1)  # as what is added to scores


# GSAI-ML/LLaDA-8B-Instruct
@family("llada", answers=True, model_type="llada", architectures=["LLaDAModelLM"], vocab_size=64, embedding_size=64, d_model=32, n_heads=4,
        n_kv_heads=2, n_layers=2, mlp_hidden_size=40, rms_norm_eps=1e-5, rope_theta=500000.0, max_sequence_length=256, mask_token_id=2,
        weight_tying=False, activation_type="silu", block_type="llama", layer_norm_type="rms", rope=True, alibi=False,
        attention_layer_norm=False, include_bias=False, include_qkv_bias=False, input_emb_norm=False, scale_logits=False,
        multi_query_attention=None)
def llada(c, w, ids):
    n, kv, width, eps = c["n_heads"], c["n_kv_heads"], c["d_model"], c["rms_norm_eps"]
    head, all_ = width // n, "model.transformer"
    x = w.embed(ids, f"{all_}.wte", c["vocab_size"], width)
    for i in range(c["n_layers"]):
        at = f"{all_}.blocks.{i}"
        h = w.rms_norm(x, f"{at}.attn_norm", eps)
        q, k, v = (heads(w.linear(h, f"{at}.{p}_proj", m * head), m) for p, m in (("q", n), ("k", kv), ("v", kv)))
        y = attend(turn(q, head, c["rope_theta"]), turn(k, head, c["rope_theta"]), v, EVERYTHING)
        x = x + w.linear(y, f"{at}.attn_out", width)
        h = w.rms_norm(x, f"{at}.ff_norm", eps)
        x = x + gated(w, h, f"{at}.ff_proj", f"{at}.up_proj", f"{at}.ff_out", c["mlp_hidden_size"])
    return w.linear(w.rms_norm(x, f"{all_}.ln_f", eps), f"{all_}.ff_out", c["vocab_size"])


MOE = dict(model_type="llada", architectures=["LLaDAMoEModelLM"], vocab_size=64, hidden_size=32, num_attention_heads=4,
           num_key_value_heads=2, num_hidden_layers=2, rms_norm_eps=1e-5, rope_theta=50000, max_position_embeddings=256,
           dense_intermediate_size=40, expert_intermediate_size=12, num_experts=6, num_experts_per_tok=2,
           moe_router_enable_expert_bias=False, moe_router_score_function="softmax", norm_topk_prob=None, attention_bias=False, clip_qkv=None,
           hidden_act="silu", partial_rotary_factor=1, rope_scaling=None, tie_word_embeddings=False, mask_token_id=2)


# inclusionAI/LLaDA-MoE-7B-A1B-Instruct: the weights of the chosen experts are left as the softmax over all has them.
@family("llada_moe", answers=True, moe_layer_freq=[1, 1], shared_expert_intermediate_size=None, qk_layernorm=True, **MOE)
# What its code can do, and no published checkpoint does.
@family("llada_moe_parts", answers=True, moe_layer_freq=[0, 1], shared_expert_intermediate_size=16, qk_layernorm=False, **MOE)
def llada_moe(c, w, ids):
    n, kv, width, eps = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"], c["rms_norm_eps"]
    head = width // n
    mlp = lambda x, at, inner: gated(w, x, *(f"{at}.{p}_proj" for p in ("gate", "up", "down")), inner)
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        h = w.rms_norm(x, f"{at}.input_layernorm", eps)
        q, k, v = (heads(w.linear(h, f"{at}.self_attn.{p}_proj", m * head), m) for p, m in (("q", n), ("k", kv), ("v", kv)))
        if c["qk_layernorm"]:
            q, k = (w.rms_norm(y, f"{at}.self_attn.{p}_norm", eps) for p, y in (("q", q), ("k", k)))
        y = attend(turn(q, head, c["rope_theta"]), turn(k, head, c["rope_theta"]), v, EVERYTHING)
        x = x + w.linear(y, f"{at}.self_attn.o_proj", width)
        h = w.rms_norm(x, f"{at}.post_attention_layernorm", eps)
        if not c["moe_layer_freq"][i]:
            x = x + mlp(h, f"{at}.mlp", c["dense_intermediate_size"])
            continue
        expert = lambda e, row: mlp(row, f"{at}.mlp.experts.{e}", c["expert_intermediate_size"])
        for e in range(c["num_experts"]):
            expert(e, h[:1])
        by, chosen = w.linear(h, f"{at}.mlp.gate", c["num_experts"]).softmax(-1).topk(c["num_experts_per_tok"])
        x = x + mixture(h, chosen, by, expert)
        if c["shared_expert_intermediate_size"]:
            x = x + mlp(h, f"{at}.shared_expert", c["shared_expert_intermediate_size"])
    return w.linear(w.rms_norm(x, "model.norm", eps), "lm_head", c["vocab_size"])


# Dream-org/Dream-v0-Instruct-7B: biases on queries, keys and values.
@family("dream", answers=True, model_type="Dream", architectures=["DreamModel"], vocab_size=64, hidden_size=32, intermediate_size=40,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-6, rope_theta=1000000.0, rope_scaling=None,
        max_position_embeddings=256, use_sliding_window=False, sliding_window=None, max_window_layers=28, hidden_act="silu",
        tie_word_embeddings=False, mask_token_id=2)
def dream(c, w, ids):
    n, kv, width, eps = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"], c["rms_norm_eps"]
    head = width // n
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        h = w.rms_norm(x, f"{at}.input_layernorm", eps)
        q, k, v = (heads(w.linear(h, f"{at}.self_attn.{p}_proj", m * head, True), m) for p, m in (("q", n), ("k", kv), ("v", kv)))
        y = attend(turn(q, head, c["rope_theta"]), turn(k, head, c["rope_theta"]), v, EVERYTHING)
        x = x + w.linear(y, f"{at}.self_attn.o_proj", width)
        h = w.rms_norm(x, f"{at}.post_attention_layernorm", eps)
        x = x + gated(w, h, *(f"{at}.mlp.{p}_proj" for p in ("gate", "up", "down")), c["intermediate_size"])
    return w.linear(w.rms_norm(x, "model.norm", eps), "lm_head", c["vocab_size"])
