"""Decoders whose attention is a recurrence. Each after the code that its comment names."""
import torch
import torch.nn.functional as F

from harness import family, gated, heads
from llama_like import SIZES


def before(x):
    """The row before each, zeros before the first."""
    return torch.cat([torch.zeros_like(x[:1]), x[:-1]])


def recall(q, k, v, decay, first=None, swap=None, scale=1.0):
    """`S' = diag(decay) S + b (S^T a)^T + k v^T` over heads `[tokens, heads, head]`. With `first`, `S + diag(first) k v^T` is read, else `S'`."""
    state, rows = torch.zeros(q.shape[1], q.shape[2], v.shape[2]), []
    for t in range(len(q)):
        new = k[t][:, :, None] * v[t][:, None]
        if first is not None:
            seen = state + first[..., None] * new
        found = torch.einsum("hkv,hk->hv", state, swap[0][t]) if swap else None
        state = state * decay[t][..., None] + new
        if swap:
            state = state + swap[1][t][..., None] * found[:, None]
        rows.append(torch.einsum("hkv,hk->hv", state if first is None else seen, q[t]) * scale)
    return torch.stack(rows)


def mixes(w, x, at, rank, order):
    """RWKV 6's inputs of its five projections, and the logarithm of minus the logarithm of the decay."""
    width, change = x.shape[-1], before(x) - x
    low = torch.tanh((x + change * w(f"{at}.time_maa_x", 1, 1, width)[0]) @ w(f"{at}.time_maa_w1", width, 5 * rank, std=0.3))
    shares = torch.einsum("tmr,mrd->mtd", heads(low, 5), w(f"{at}.time_maa_w2", 5, rank, width, std=0.3))
    out = {m: x + change * (w(f"{at}.time_maa_{m}", 1, 1, width, around=0.5, std=0.3)[0] + shares[i]) for i, m in enumerate(order)}
    return out


def decays(w, x, at, rank):
    width = x.shape[-1]
    low = torch.tanh(x @ w(f"{at}.time_decay_w1", width, rank, std=0.3)) @ w(f"{at}.time_decay_w2", rank, width, std=0.3)
    return torch.exp(-torch.exp(w(f"{at}.time_decay", 1, 1, width, around=-1.0, std=1.0)[0] + low))


# RWKV/rwkv-6-world-1b6
@family("rwkv6", model_type="rwkv6", architectures=["Rwkv6ForCausalLM"], vocab_size=64, hidden_size=32, num_hidden_layers=2, head_size=8,
        head_size_divisor=8, attention_hidden_size=32, intermediate_size=None, layer_norm_epsilon=1e-5, rescale_every=1, max_context_length=256,
        num_attention_heads=8, tie_word_embeddings=False)
def rwkv6(c, w, ids):
    width, size, eps = c["hidden_size"], c["head_size"], c["layer_norm_epsilon"]
    n, inner = width // size, int(width * 3.5) // 32 * 32
    x = w.layer_norm(w.embed(ids, "rwkv.embeddings", c["vocab_size"], width), "rwkv.blocks.0.pre_ln", eps)
    for i in range(c["num_hidden_layers"]):
        at, share = f"rwkv.blocks.{i}", 2.0 ** -(i // c["rescale_every"])
        h, a = w.layer_norm(x, f"{at}.ln1", eps), f"{at}.attention"
        m = mixes(w, h, a, 32, "wkvrg")
        r, k, v, gate = (w.linear(m[p[0]], f"{a}.{p}", width) for p in ("receptance", "key", "value", "gate"))
        decay = decays(w, m["w"], a, 64)
        y = recall(*(heads(p, n) for p in (r, k, v, decay)), first=w(f"{a}.time_faaaa", n, size, std=0.5)).flatten(1)
        y = F.group_norm(y, n, w(f"{a}.ln_x.weight", width, around=1.0), w(f"{a}.ln_x.bias", width), 1e-5 * c["head_size_divisor"] ** 2)
        x = x + share * w.linear(y * F.silu(gate), f"{a}.output", width)
        h, f = w.layer_norm(x, f"{at}.ln2", eps), f"{at}.feed_forward"
        change = before(h) - h
        k = h + change * w(f"{f}.time_maa_k", 1, 1, width, around=0.5)[0]
        r = h + change * w(f"{f}.time_maa_r", 1, 1, width, around=0.5)[0]
        k = F.relu(w.linear(k, f"{f}.key", inner)) ** 2
        x = x + torch.sigmoid(w.linear(r, f"{f}.receptance", width)) * w.linear(k, f"{f}.value", width) * share
        if (i + 1) % c["rescale_every"] == 0:
            x = x / 2
    return w.linear(w.layer_norm(x, "rwkv.ln_out", 1e-5), "head", c["vocab_size"])


# recursal/QRWKV6-32B-Instruct-Preview-v0.1, after llama.cpp's `models/rwkv6qwen2.cpp`
@family("rwkv6qwen2", model_type="rwkv6qwen2", architectures=["RWKV6Qwen2ForCausalLM"], num_key_value_heads=2, lora_rank_tokenshift=6, lora_rank_decay=10,
        **SIZES)
def rwkv6qwen2(c, w, ids):
    n, kv, width, eps = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"], c["rms_norm_eps"]
    size = width // n
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        h, a = w.rms_norm(x, f"{at}.input_layernorm", eps), f"{at}.self_attn"
        m = mixes(w, h, a, c["lora_rank_tokenshift"], "rkvwg")
        r = heads(w.linear(m["r"], f"{a}.q_proj", width, True), n)
        k, v = (heads(w.linear(m[p], f"{a}.{p}_proj", kv * size, True), kv).repeat_interleave(n // kv, 1) for p in "kv")
        decay = heads(decays(w, m["w"], a, c["lora_rank_decay"]), n)
        y = recall(r, k * (1 - decay), v, decay, scale=size**-0.5).flatten(1)
        x = x + w.linear(y * torch.sigmoid(w.linear(m["g"], f"{a}.gate", width)), f"{a}.o_proj", width)
        h = w.rms_norm(x, f"{at}.post_attention_layernorm", eps)
        x = x + gated(w, h, *(f"{at}.mlp.{p}_proj" for p in ("gate", "up", "down")), c["intermediate_size"])
    return w.linear(w.rms_norm(x, "model.norm", eps), "lm_head", c["vocab_size"])


RWKV7 = dict(model_type="rwkv7", architectures=["RWKV7ForCausalLM"], vocab_size=64, hidden_size=32, num_hidden_layers=3, head_dim=8, num_heads=4,
             decay_low_rank_dim=6, a_low_rank_dim=5, v_low_rank_dim=4, gate_low_rank_dim=7, intermediate_size=48, hidden_act="sqrelu", norm_eps=8e-5,
             norm_first=True, norm_bias=True, attn=None, max_position_embeddings=256, tie_word_embeddings=False)


# fla-hub/rwkv7-0.1B-g1, after flash-linear-attention's `rwkv7`
@family("rwkv7", **RWKV7)
# With a head as wide as published ones: llama.cpp computes others wrongly.
@family("rwkv7_wide", **RWKV7 | dict(hidden_size=64, num_hidden_layers=2, head_dim=64, num_heads=1, norm_eps=1e-5))
def rwkv7(c, w, ids):
    width, n, eps = c["hidden_size"], c["num_heads"], c["norm_eps"]
    ranks = {p: c[f"{name}_low_rank_dim"] for p, name in (("w", "decay"), ("a", "a"), ("v", "v"), ("g", "gate"))}
    x, first = w.embed(ids, "model.embeddings", c["vocab_size"], width), None
    for i in range(c["num_hidden_layers"]):
        at, a = f"model.layers.{i}", f"model.layers.{i}.attn"
        if i == 0:
            x = w.layer_norm(x, f"{at}.pre_norm", eps)
        h = w.layer_norm(x, f"{at}.attn_norm", eps)
        change = before(h) - h
        m = {p: h + change * w(f"{a}.x_{p}", 1, 1, width, around=0.5, std=0.3)[0] for p in "rwkvag"}

        def thin(p, f=lambda x: x):
            low = f(w.linear(m[p], f"{a}.{p}_lora.lora.0", ranks[p]))
            return w.linear(low, f"{a}.{p}_lora.lora.2", width, bias=p != "g")

        r, k, v = (w.linear(m[p], f"{a}.{p}_proj", width) for p in "rkv")
        decay = torch.exp(-0.6065306597126334 * torch.sigmoid(thin("w", torch.tanh)))
        if first is None:
            first = v
        else:
            v = v + (first - v) * torch.sigmoid(thin("v"))
        strength, gate = torch.sigmoid(thin("a")), thin("g", torch.sigmoid)
        found = F.normalize(heads(k * w(f"{a}.k_k", width, around=0.8), n), dim=-1)
        k = k * (1 + (strength - 1) * w(f"{a}.k_a", width, around=1.0))
        r, k, v, decay, strength = (heads(p, n) for p in (r, k, v, decay, strength))
        y = recall(r, k, v, decay, swap=(-found, found * strength)).flatten(1)
        y = F.group_norm(y, n, w(f"{a}.g_norm.weight", width, around=1.0), w(f"{a}.g_norm.bias", width), c["head_dim"] * eps)
        y = y + ((r * k * w(f"{a}.r_k", n, c["head_dim"], std=0.3)).sum(-1, keepdim=True) * v).flatten(1)
        x = x + w.linear(y * gate, f"{a}.o_proj", width)
        h = w.layer_norm(x, f"{at}.ffn_norm", eps)
        k = h + (before(h) - h) * w(f"{at}.ffn.x_k", width, around=0.5)
        x = x + w.linear(F.relu(w.linear(k, f"{at}.ffn.key", c["intermediate_size"])) ** 2, f"{at}.ffn.value", width)
    return w.linear(w.layer_norm(x, "model.norm", eps), "lm_head", c["vocab_size"])
