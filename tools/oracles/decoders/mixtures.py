"""Decoders with mixtures of experts. Each after the `modeling_*.py` of the checkpoint that its comment names."""
import torch
import torch.nn.functional as F

from harness import attend, family, gated, heads, mixture, turn

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=40, moe_intermediate_size=12, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, rms_norm_eps=1e-6, max_position_embeddings=256, tie_word_embeddings=False, hidden_act="silu",
             num_experts_per_tok=2, norm_topk_prob=True)


def mlp(w, x, at, inner):
    return gated(w, x, f"{at}.gate_proj", f"{at}.up_proj", f"{at}.down_proj", inner)


def experts(w, x, at, inner, count):
    """All are drawn, whether or not a token asks them."""
    for e in range(count):
        mlp(w, x[:1], f"{at}.experts.{e}", inner)
    return lambda e, row: mlp(w, row, f"{at}.experts.{e}", inner)


# deepseek-ai/deepseek-moe-16b-base
@family("deepseek", model_type="deepseek", architectures=["DeepseekForCausalLM"], n_routed_experts=5, n_shared_experts=2,
        first_k_dense_replace=1, moe_layer_freq=1, scoring_func="softmax", rope_theta=10000.0, **{**SIZES, "norm_topk_prob": False})
def deepseek(c, w, ids):
    n, kv, width, eps, inner = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"], c["rms_norm_eps"], c["moe_intermediate_size"]
    head = width // n
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        h = w.rms_norm(x, f"{at}.input_layernorm", eps)
        q, k, v = (heads(w.linear(h, f"{at}.self_attn.{p}_proj", m * head), m) for p, m in (("q", n), ("k", kv), ("v", kv)))
        x = x + w.linear(attend(turn(q, head), turn(k, head), v), f"{at}.self_attn.o_proj", width)
        h = w.rms_norm(x, f"{at}.post_attention_layernorm", eps)
        if i < c["first_k_dense_replace"]:
            x = x + mlp(w, h, f"{at}.mlp", c["intermediate_size"])
            continue
        by, chosen = w.linear(h, f"{at}.mlp.gate", c["n_routed_experts"]).softmax(-1).topk(c["num_experts_per_tok"])
        y = mixture(h, chosen, by, experts(w, h, f"{at}.mlp", inner, c["n_routed_experts"]))
        x = x + y + mlp(w, h, f"{at}.mlp.shared_experts", inner * c["n_shared_experts"])
    return w.linear(w.rms_norm(x, "model.norm", eps), "lm_head", c["vocab_size"])


def bailing(c, w, ids, route, normed, part, shared):
    n, kv, width, eps, inner = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"], c["rms_norm_eps"], c["moe_intermediate_size"]
    head = c.get("head_dim") or width // n
    dims = int(head * part)
    x = w.embed(ids, "model.word_embeddings", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        h = w.rms_norm(x, f"{at}.input_layernorm", eps)
        qkv = w.linear(h, f"{at}.attention.query_key_value", (n + 2 * kv) * head, c["use_qkv_bias"])
        q, k, v = heads(qkv, n + 2 * kv).split([n, kv, kv], 1)
        if normed:
            q, k = w.rms_norm(q, f"{at}.attention.query_layernorm", eps), w.rms_norm(k, f"{at}.attention.key_layernorm", eps)
        y = attend(turn(q, dims, c["rope_theta"]), turn(k, dims, c["rope_theta"]), v)
        x = x + w.linear(y, f"{at}.attention.dense", width, c["use_bias"])
        h = w.rms_norm(x, f"{at}.post_attention_layernorm", eps)
        if i < c["first_k_dense_replace"]:
            x = x + mlp(w, h, f"{at}.mlp", c["intermediate_size"])
            continue
        by, chosen = route(c, w, h, f"{at}.mlp.gate")
        y = mixture(h, chosen, by, experts(w, h, f"{at}.mlp", inner, c["num_experts"]))
        x = x + y + mlp(w, h, f"{at}.mlp.shared_experts", shared)
    x = w.rms_norm(x, "model.norm", eps)
    head_weight = w("lm_head.weight", c["vocab_size"], width)
    return F.linear(x, F.normalize(head_weight, p=2.0, dim=1) if c.get("norm_head") else head_weight)


def softmax_route(c, w, h, gate):
    by, chosen = w.linear(h, gate, c["num_experts"]).softmax(-1).topk(c["num_experts_per_tok"])
    return (by / by.sum(-1, keepdim=True) if c["norm_topk_prob"] else by), chosen


# inclusionAI/Ling-lite, Ling-plus
@family("bailing_moe", model_type="bailing_moe", architectures=["BailingMoeForCausalLM"], num_experts=5, num_shared_experts=2,
        first_k_dense_replace=0, use_qkv_bias=False, use_bias=False, norm_head=True, rope_theta=600000, head_dim=8, norm_softmax=False, **SIZES)
def bailing_moe(c, w, ids):
    return bailing(c, w, ids, softmax_route, normed=False, part=1.0, shared=c["moe_intermediate_size"] * c["num_shared_experts"])


def grouped_route(c, w, h, gate):
    """`group_limited_topk` with sigmoid scores, corrected for the choice."""
    scores = w.linear(h, gate, c["num_experts"]).sigmoid()
    corrected = scores + w(f"{gate}.expert_bias", c["num_experts"])
    groups = corrected.unflatten(-1, (c["n_group"], -1))
    best = groups.topk(2, -1).values.sum(-1).topk(c["topk_group"], -1).indices
    open_ = torch.zeros(groups.shape[:2]).scatter(1, best, 1.0).bool()[..., None].expand_as(groups)
    chosen = groups.masked_fill(~open_, -torch.inf).flatten(1).topk(c["num_experts_per_tok"]).indices
    by = scores.gather(1, chosen)
    return by / (by.sum(-1, keepdim=True) + 1e-20) * c["routed_scaling_factor"], chosen


# inclusionAI/Ling-mini-2.0, Ring-mini-2.0
@family("bailing_moe_v2", model_type="bailing_moe", architectures=["BailingMoeV2ForCausalLM"], num_experts=8, num_shared_experts=1,
        moe_shared_expert_intermediate_size=12, first_k_dense_replace=1, use_qkv_bias=False, use_bias=False, use_qk_norm=True, head_dim=8,
        rope_theta=600000, partial_rotary_factor=0.5, n_group=4, topk_group=2, routed_scaling_factor=2.5, score_function="sigmoid",
        moe_router_enable_expert_bias=True, norm_head=False, num_nextn_predict_layers=0, router_dtype="fp32", **SIZES)
def bailing_moe_v2(c, w, ids):
    return bailing(c, w, ids, grouped_route, normed=True, part=c["partial_rotary_factor"], shared=c["moe_shared_expert_intermediate_size"])


# Snowflake/snowflake-arctic-base: a small feed-forward layer beside attention's output, and a mixture beside both.
@family("arctic", model_type="arctic", architectures=["ArcticForCausalLM"], num_local_experts=4, moe_layer_frequency=1, parallel_attn_mlp_res=True,
        moe_train_capacity_factor=1, use_residual=True, rope_theta=10000.0,
        **{**{k: v for k, v in SIZES.items() if k not in ("moe_intermediate_size", "norm_topk_prob")}, "intermediate_size": 24})
def arctic(c, w, ids):
    n, kv, width, eps = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"], c["rms_norm_eps"]
    head = width // n
    three = lambda x, at, inner: gated(w, x, f"{at}.w1", f"{at}.w3", f"{at}.w2", inner)
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        h = w.rms_norm(x, f"{at}.input_layernorm", eps)
        q, k, v = (heads(w.linear(h, f"{at}.self_attn.{p}_proj", m * head), m) for p, m in (("q", n), ("k", kv), ("v", kv)))
        y = x + w.linear(attend(turn(q, head), turn(k, head), v), f"{at}.self_attn.o_proj", width)
        y = y + three(w.rms_norm(y, f"{at}.residual_layernorm", eps), f"{at}.residual_mlp", width)
        h = w.rms_norm(x, f"{at}.post_attention_layernorm", eps)
        by, chosen = w.linear(h, f"{at}.block_sparse_moe.gate", c["num_local_experts"]).softmax(-1).topk(c["num_experts_per_tok"])
        for e in range(c["num_local_experts"]):
            three(h[:1], f"{at}.block_sparse_moe.experts.{e}", c["intermediate_size"])
        expert = lambda e, row: three(row, f"{at}.block_sparse_moe.experts.{e}", c["intermediate_size"])
        x = y + mixture(h, chosen, by / by.sum(-1, keepdim=True), expert)
    return w.linear(w.rms_norm(x, "model.norm", eps), "lm_head", c["vocab_size"])
