"""Decoders with parts of their own. Each after the authors' code that its comment names."""
import math

import torch
import torch.nn.functional as F

from harness import attend, causal, family, gated, heads, mixture, rms, turn
from llama_like import SIZES, slopes


# pfnet/plamo-13b: keys are repeated round after round; attention and feed-forward layer side by side.
@family("plamo", model_type="plamo", architectures=["PlamoForCausalLM"], n_shared_head=2, **SIZES)
def plamo(c, w, ids):
    n, width, eps = c["num_attention_heads"], c["hidden_size"], c["rms_norm_eps"]
    head, kv = width // n, -(-n // c["n_shared_head"])
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.layers.{i}"
        h = w.rms_norm(x, f"{at}.norm", eps)
        q, k, v = (heads(w.linear(h, f"{at}.self_attn.{p}_proj", m * head), m) for p, m in (("q", n), ("k", kv), ("v", kv)))
        k, v = (t.repeat(1, c["n_shared_head"], 1)[:, :n] for t in (k, v))
        y = w.linear(attend(turn(q, head), turn(k, head), v), f"{at}.self_attn.o_proj", width)
        x = x + y + gated(w, h, *(f"{at}.mlp.{p}_proj" for p in ("gate", "up", "down")), c["intermediate_size"])
    return w.linear(w.rms_norm(x, "model.norm", eps), "lm_head", c["vocab_size"])


# pfnet/plamo-2-8b: layers of Mamba, with one rate for each head, between layers of attention with a window.
@family("plamo2", model_type="plamo2", architectures=["Plamo2ForCausalLM"], hidden_size_per_head=8, num_key_value_heads=2,
        attention_window_size=8, full_attention_idx=[], mamba_d_state=6, mamba_d_conv=4, mamba_num_heads=5, mamba_step=2, mamba_chunk_size=4,
        mamba_enabled=True, **{**SIZES, "num_hidden_layers": 3, "rms_norm_eps": 1e-6, "tie_word_embeddings": True})
def plamo2(c, w, ids):
    n, kv, head, width, eps, inner = (c[k] for k in ("num_attention_heads", "num_key_value_heads", "hidden_size_per_head", "hidden_size", "rms_norm_eps", "intermediate_size"))
    t, size, ssm_heads, rank = len(ids), c["mamba_d_state"], c["mamba_num_heads"], max(64, width // 16)
    wide = ssm_heads * head

    def norm(x, name, offset=1.0):
        return rms(x, eps) * (w(f"{name}.weight", x.shape[-1]) + offset)

    def attention(h, at):
        q, k, v = heads(w.linear(h, f"{at}.qkv_proj", (n + 2 * kv) * head), n + 2 * kv).split([n, kv, kv], 1)
        q, k = rms(q, 1e-6) * w(f"{at}.q_weight", n, head, around=1.0, std=0.1), rms(k, 1e-6) * w(f"{at}.k_weight", kv, head, around=1.0, std=0.1)
        far = torch.arange(t)[:, None] - torch.arange(t)[None] > c["attention_window_size"]
        y = attend(turn(q, head), turn(k, head), v, causal(t).masked_fill(far, -torch.inf))
        return w.linear(y, f"{at}.o_proj", width)

    def mamba(h, at):
        z, x = heads(w.linear(h, f"{at}.in_proj", 2 * wide), ssm_heads).split([head, head], -1)
        z, x = z.flatten(1), x.flatten(1)
        taps = w(f"{at}.conv1d.weight", wide, 1, c["mamba_d_conv"], std=0.5)
        x = F.silu(F.conv1d(F.pad(x.T[None], (c["mamba_d_conv"] - 1, 0)), taps, groups=wide)[0].T)
        b, cc, dt = w.linear(x, f"{at}.bcdt_proj", 2 * size + rank).split([size, size, rank], -1)
        b, cc, dt = (rms(y, eps) * w(f"{at}.{p}_norm_weight", y.shape[-1], around=1.0) for p, y in (("B", b), ("C", cc), ("dt", dt)))
        dt = F.softplus(w.linear(dt, f"{at}.dt_proj", ssm_heads) + w(f"{at}.dt_bias", ssm_heads))
        rate, skip = -torch.exp(w(f"{at}.A_log", ssm_heads, std=0.5)), w(f"{at}.D", ssm_heads, around=1.0)
        state, rows = torch.zeros(ssm_heads, head, size), []
        for xt, bt, ct, step in zip(heads(x, ssm_heads), b, cc, dt):
            state = state * torch.exp(step * rate)[:, None, None] + (step[:, None] * xt)[..., None] * bt
            rows.append((state * ct).sum(-1) + skip[:, None] * xt)
        return w.linear(torch.stack(rows).flatten(1) * F.silu(z), f"{at}.out_proj", width)

    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.layers.{i}"
        mixer = attention if i % c["mamba_step"] == c["mamba_step"] // 2 else mamba
        x = x + norm(mixer(norm(x, f"{at}.pre_mixer_norm"), f"{at}.mixer"), f"{at}.post_mixer_norm", 1 / 5)
        gate, up = w.linear(norm(x, f"{at}.pre_mlp_norm"), f"{at}.mlp.gate_up_proj", 2 * inner).chunk(2, -1)
        x = x + norm(w.linear(F.silu(gate) * up, f"{at}.mlp.down_proj", width), f"{at}.post_mlp_norm", 1 / 5**1.5)
    return norm(x, "model.norm") @ w("model.embed_tokens.weight", c["vocab_size"], width).T


def grok(c, w, ids, names, scale):
    """`names`: of norms, attention, router, experts, and the three matrices of an expert."""
    n, kv, width, eps = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"], c["rms_norm_eps"]
    suffix, attention, router, experts, matrices = names
    head, count = width // n, c.get("num_local_experts") or c["num_experts"]
    inner = c.get("moe_intermediate_size") or c["intermediate_size"]
    gelu = lambda x: F.gelu(x, approximate="tanh")
    norm = lambda x, name: rms(x, eps) * w(f"{name}.{suffix}", width, around=1.0)
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width) * c["embedding_multiplier_scale"]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        h = norm(x, f"{at}.pre_attn_norm")
        q, k, v = (heads(w.linear(h, f"{at}.{attention}.{p}_proj", m * head), m) for p, m in (("q", n), ("k", kv), ("v", kv)))
        y = attend(turn(q, head, c["rope_theta"]), turn(k, head, c["rope_theta"]), v, scale=scale, cap=30.0)
        x = x + norm(w.linear(y, f"{at}.{attention}.o_proj", width), f"{at}.post_attn_norm")
        h = norm(x, f"{at}.pre_moe_norm")
        logits = 30.0 * torch.tanh(w.linear(h, f"{at}.{router}", count) / 30.0)
        by, chosen = logits.softmax(-1).topk(c["num_experts_per_tok"])
        expert = lambda e, row: gated(w, row, *(f"{at}.{experts}.{e}.{m}" for m in matrices), inner, gelu)
        for e in range(count):
            expert(e, h[:1])
        y = mixture(h, chosen, by, expert)
        if c.get("residual_moe"):
            y = (y + gated(w, h, *(f"{at}.mlp.{p}_proj" for p in ("gate", "up", "down")), c["intermediate_size"], gelu)) / math.sqrt(2)
        x = x + norm(y, f"{at}.post_moe_norm")
    logits = w.linear(norm(x, "model.norm"), "lm_head", c["vocab_size"]) * c["output_multiplier_scale"]
    cap = c.get("final_logit_softcapping")
    return cap * torch.tanh(logits / cap) if cap else logits


GROK = {k: v for k, v in SIZES.items() if k not in ("hidden_act", "tie_word_embeddings")} | dict(
    num_key_value_heads=2, num_experts_per_tok=2, rope_theta=10000.0, embedding_multiplier_scale=3.5, output_multiplier_scale=0.6)


# hpcai-tech/grok-1, after SGLang's `models/grok.py`
@family("grok_1", model_type="grok-1", architectures=["Grok1ModelForCausalLM"], num_experts=4, attn_output_multiplier=0.4, max_attn_value=30.0,
        **{**GROK, "intermediate_size": 24})
def grok_1(c, w, ids):
    names = ("scale", "attn", "moe_block.gate", "moe_block.experts", ("linear", "linear_v", "linear_1"))
    return grok(c, w, ids, names, c["attn_output_multiplier"])


# xai-org/grok-2, after SGLang's `models/grok.py`
@family("grok_2", model_type="git", architectures=["Grok1ForCausalLM"], num_local_experts=4, moe_intermediate_size=12, residual_moe=True,
        attn_logit_softcapping=30.0, router_logit_softcapping=30.0, final_logit_softcapping=5, attn_temperature_len=1024, sliding_window_size=-1,
        rope_type="original", **{**GROK, "rope_theta": 208533496})
def grok_2(c, w, ids):
    names = ("weight", "self_attn", "block_sparse_moe.gate", "block_sparse_moe.experts", ("w1", "w3", "w2"))
    return grok(c, w, ids, names, (c["hidden_size"] // c["num_attention_heads"]) ** -0.5)


# Tiiny/SmallThinker-21BA3B-Instruct: the router is asked before attention.
@family("smallthinker", model_type="smallthinker", architectures=["SmallThinkerForCausalLM"], head_dim=8, num_key_value_heads=2, rope_theta=1500000.0,
        rope_layout=[0, 1, 1], sliding_window_layout=[0, 1, 1], sliding_window_size=8, moe_num_primary_experts=4, moe_ffn_hidden_size=12,
        moe_num_active_primary_experts=2, moe_primary_router_apply_softmax=False, moe_enable_early_router=True, moe_layer_layout=[1, 1, 1],
        moe_enable_secondary_experts=False, **{**{k: v for k, v in SIZES.items() if k not in ("hidden_act", "intermediate_size")}, "num_hidden_layers": 3})
def smallthinker(c, w, ids):
    n, kv, head, width, eps = (c[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size", "rms_norm_eps"))
    t, count, inner = len(ids), c["moe_num_primary_experts"], c["moe_ffn_hidden_size"]
    far = torch.arange(t)[:, None] - torch.arange(t)[None] >= c["sliding_window_size"]
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        logits = w.linear(x, f"{at}.block_sparse_moe.primary_router", count)
        h = w.rms_norm(x, f"{at}.input_layernorm", eps)
        q, k, v = (heads(w.linear(h, f"{at}.self_attn.{p}_proj", m * head), m) for p, m in (("q", n), ("k", kv), ("v", kv)))
        if c["rope_layout"][i]:
            q, k = turn(q, head, c["rope_theta"]), turn(k, head, c["rope_theta"])
        y = attend(q, k, v, causal(t).masked_fill(far, -torch.inf) if c["sliding_window_layout"][i] else None)
        x = x + w.linear(y, f"{at}.self_attn.o_proj", width)
        h = w.rms_norm(x, f"{at}.post_attention_layernorm", eps)
        by, chosen = logits.topk(c["moe_num_active_primary_experts"])
        by = by.softmax(-1) if c["moe_primary_router_apply_softmax"] else by.sigmoid() / by.sigmoid().sum(-1, keepdim=True)
        expert = lambda e, row: gated(w, row, *(f"{at}.block_sparse_moe.experts.{e}.{p}" for p in ("gate", "up", "down")), inner, F.relu)
        for e in range(count):
            expert(e, h[:1])
        x = x + mixture(h, chosen, by, expert)
    return w.linear(w.rms_norm(x, "model.norm", eps), "lm_head", c["vocab_size"])


# WisdomShell/CodeShell-7B
@family("codeshell", model_type="codeshell", architectures=["CodeShellForCausalLM"], vocab_size=64, n_embd=32, n_inner=48, n_layer=2, n_head=4,
        n_positions=256, num_query_groups=2, group_query_attention=True, position_embedding_type="rope", layer_norm_epsilon=1e-5,
        activation_function="gelu_pytorch_tanh", tie_word_embeddings=False)
def codeshell(c, w, ids):
    n, kv, width, eps = c["n_head"], c["num_query_groups"], c["n_embd"], c["layer_norm_epsilon"]
    head = width // n
    x = w.embed(ids, "transformer.wte", c["vocab_size"], width)
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}"
        h = w.layer_norm(x, f"{at}.ln_1", eps)
        q, k, v = heads(w.linear(h, f"{at}.attn.c_attn", (n + 2 * kv) * head, True), n + 2 * kv).split([n, kv, kv], 1)
        x = x + w.linear(attend(turn(q, head), turn(k, head), v), f"{at}.attn.c_proj", width, True)
        h = F.gelu(w.linear(w.layer_norm(x, f"{at}.ln_2", eps), f"{at}.mlp.c_fc", c["n_inner"], True), approximate="tanh")
        x = x + w.linear(h, f"{at}.mlp.c_proj", width, True)
    return w.linear(w.layer_norm(x, "transformer.ln_f", eps), "lm_head", c["vocab_size"])


# inceptionai/jais-13b: matrices have their inputs as rows.
@family("jais", model_type="jais", architectures=["JAISLMHeadModel"], vocab_size=64, n_embd=32, n_inner=40, n_layer=2, n_head=4, n_positions=256,
        position_embedding_type="alibi", activation_function="swiglu", layer_norm_epsilon=1e-5, mup_embeddings_scale=2.0, mup_output_alpha=2.5,
        mup_width_scale=0.2, mup_scale_qk_dot_by_d=True, tie_word_embeddings=True)
def jais(c, w, ids):
    n, width, eps, t = c["n_head"], c["n_embd"], c["layer_norm_epsilon"], len(ids)

    def conv(x, name, out):
        return x @ w(f"{name}.weight", x.shape[-1], out, std=1.4 / math.sqrt(x.shape[-1])) + w(f"{name}.bias", out)

    biases = slopes(n)[:, None, None] * (torch.arange(t)[None] - torch.arange(t)[:, None]).float() + causal(t)
    x = w.embed(ids, "transformer.wte", c["vocab_size"], width) * c["mup_embeddings_scale"]
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}"
        q, k, v = heads(conv(w.layer_norm(x, f"{at}.ln_1", eps), f"{at}.attn.c_attn", 3 * width), 3 * n).chunk(3, 1)
        x = x + conv(attend(q, k, v, biases, scale=n / width), f"{at}.attn.c_proj", width)
        h = w.layer_norm(x, f"{at}.ln_2", eps)
        x = x + conv(conv(h, f"{at}.mlp.c_fc", c["n_inner"]) * F.silu(conv(h, f"{at}.mlp.c_fc2", c["n_inner"])), f"{at}.mlp.c_proj", width)
    x = w.layer_norm(x, "transformer.ln_f", eps)
    return x @ w("transformer.wte.weight", c["vocab_size"], width).T * (c["mup_output_alpha"] * c["mup_width_scale"])


def block(keys, ffn, **how):
    attention = dict(n_heads_in_group=keys, no_op=keys is None and "replace_with_linear" not in how, replace_with_linear=False) | how
    return dict(attention=attention, ffn=dict(ffn_mult=ffn, no_op=ffn is None, replace_with_linear=False))


# nvidia/Llama-3_3-Nemotron-Super-49B-v1: no two layers need be alike.
@family("nemotron_nas", model_type="nemotron-nas", architectures=["DeciLMForCausalLM"], rope_theta=500000.0, num_key_value_heads=None,
        block_configs=[block(2, 0.5), block(None, 0.3), block(None, 12.5, replace_with_linear=True), block(4, None), block(None, None)],
        **{**{k: v for k, v in SIZES.items() if k != "intermediate_size"}, "num_hidden_layers": 5, "hidden_size": 16, "num_attention_heads": 4})
def nemotron_nas(c, w, ids):
    n, width, eps = c["num_attention_heads"], c["hidden_size"], c["rms_norm_eps"]
    head = width // n
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i, layer in enumerate(c["block_configs"]):
        at, attention, ffn = f"model.layers.{i}", layer["attention"], layer["ffn"]
        if not attention["no_op"]:
            h = w.rms_norm(x, f"{at}.input_layernorm", eps)
            if attention["replace_with_linear"]:
                x = x + w.linear(h, f"{at}.self_attn.linear_attn", width)
            else:
                kv = n // attention["n_heads_in_group"]
                q, k, v = (heads(w.linear(h, f"{at}.self_attn.{p}_proj", m * head), m) for p, m in (("q", n), ("k", kv), ("v", kv)))
                x = x + w.linear(attend(turn(q, head, c["rope_theta"]), turn(k, head, c["rope_theta"]), v), f"{at}.self_attn.o_proj", width)
        if not ffn["no_op"]:
            inner = -(-int(2 * ffn["ffn_mult"] * width / 3) // 256) * 256
            h = w.rms_norm(x, f"{at}.post_attention_layernorm", eps)
            x = x + gated(w, h, *(f"{at}.mlp.{p}_proj" for p in ("gate", "up", "down")), inner)
    return w.linear(w.rms_norm(x, "model.norm", eps), "lm_head", c["vocab_size"])


# Maincode/Maincoder-1B: adjacent pairs turn, and what has turned is normalised.
@family("maincoder", model_type="maincoder", architectures=["MaincoderForCausalLM"], num_key_value_heads=2, head_dim=8, rope_theta=1000000.0,
        **{**SIZES, "tie_word_embeddings": True})
def maincoder(c, w, ids):
    n, kv, head, width, eps = (c[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size", "rms_norm_eps"))
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        h = w.rms_norm(x, f"{at}.input_layernorm", eps)
        q, k, v = (heads(w.linear(h, f"{at}.self_attn.{p}_proj", m * head), m) for p, m in (("q", n), ("k", kv), ("v", kv)))
        q, k = (w.rms_norm(turn(x, head, c["rope_theta"], pairs=True), f"{at}.self_attn.{p}_norm", eps) for p, x in (("q", q), ("k", k)))
        x = x + w.linear(attend(q, k, v), f"{at}.self_attn.o_proj", width)
        h = w.rms_norm(x, f"{at}.post_attention_layernorm", eps)
        x = x + gated(w, h, *(f"{at}.mlp.{p}_proj" for p in ("gate", "up", "down")), c["intermediate_size"])
    return w.rms_norm(x, "model.norm", eps) @ w("model.embed_tokens.weight", c["vocab_size"], width).T
