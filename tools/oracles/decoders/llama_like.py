"""Decoders that are shaped like Llama. Each after the `modeling_*.py` of the checkpoint that its comment names."""
import torch
import torch.nn.functional as F

from harness import attend, causal, family, gated, heads, mixture, rms, turn

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, rms_norm_eps=1e-5,
             max_position_embeddings=256, tie_word_embeddings=False, hidden_act="silu")


def llama(c, w, ids, norm=None, bias=(False, False), base=10000.0, scale=1.0, embed=1.0, logits=1.0, feed_forward=None):
    """`bias`: of queries, keys and values; of the output. `scale`: of what each layer adds."""
    norm = norm or w.rms_norm
    n, kv, width = c["num_attention_heads"], c.get("num_key_value_heads", c["num_attention_heads"]), c["hidden_size"]
    head, eps = width // n, c["rms_norm_eps"]
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width) * embed
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        h = norm(x, f"{at}.input_layernorm", eps)
        q, k, v = (heads(w.linear(h, f"{at}.self_attn.{p}_proj", m * head, bias[0]), m) for p, m in (("q", n), ("k", kv), ("v", kv)))
        y = attend(turn(q, head, base), turn(k, head, base), v)
        x = x + scale * w.linear(y, f"{at}.self_attn.o_proj", width, bias[1])
        h = norm(x, f"{at}.post_attention_layernorm", eps)
        if feed_forward:
            x = x + scale * feed_forward(h, f"{at}.mlp")
        else:
            x = x + scale * gated(w, h, *(f"{at}.mlp.{p}_proj" for p in ("gate", "up", "down")), c["intermediate_size"])
    x = norm(x, "model.norm", eps) * logits
    if c["tie_word_embeddings"]:
        return x @ w("model.embed_tokens.weight", c["vocab_size"], width).T
    return w.linear(x, "lm_head", c["vocab_size"])


# xverse/XVERSE-7B
@family("xverse", model_type="xverse", architectures=["XverseForCausalLM"], **SIZES)
def xverse(c, w, ids):
    return llama(c, w, ids)


# OrionStarAI/Orion-14B-Base: LayerNorm, whose epsilon is called that of RMSNorm.
@family("orion", model_type="orion", architectures=["OrionForCausalLM"], num_key_value_heads=2, rope_theta=10000.0, **SIZES)
def orion(c, w, ids):
    return llama(c, w, ids, norm=w.layer_norm)


# FreedomIntelligence/openPangu-Embedded-7B: biases on all of attention.
@family("pangu_embedded", model_type="PanguEmbedded", architectures=["PanguEmbeddedForCausalLM"], num_key_value_heads=2, bias=True,
        rope_theta=16000000.0, **SIZES)
def pangu(c, w, ids):
    return llama(c, w, ids, bias=(True, True), base=c["rope_theta"])


# internlm/internlm-7b: biases on all of attention.
@family("internlm", model_type="internlm", architectures=["InternLMForCausalLM"], bias=True, **SIZES)
def internlm(c, w, ids):
    return llama(c, w, ids, bias=(True, True))


MINICPM = dict(model_type="minicpm", architectures=["MiniCPMForCausalLM"], scale_emb=12, scale_depth=1.4, dim_model_base=16,
               num_key_value_heads=2, **{**SIZES, "tie_word_embeddings": True})


# openbmb/MiniCPM-2B-sft-bf16
@family("minicpm", **MINICPM)
def minicpm(c, w, ids, feed_forward=None):
    scale = c["scale_depth"] / c["num_hidden_layers"] ** 0.5
    return llama(c, w, ids, scale=scale, embed=c["scale_emb"], logits=c["dim_model_base"] / c["hidden_size"], feed_forward=feed_forward)


# openbmb/MiniCPM-MoE-8x2B
@family("minicpm_moe", num_experts=4, num_experts_per_tok=2, **{**MINICPM, "intermediate_size": 16, "scale_emb": 2})
def minicpm_moe(c, w, ids):
    def feed_forward(h, at):
        expert = lambda e, row: gated(w, row, *(f"{at}.experts.{e}.{p}" for p in ("w1", "w3", "w2")), c["intermediate_size"])
        for e in range(c["num_experts"]):
            expert(e, h[:1])
        by, chosen = w.linear(h, f"{at}.gate", c["num_experts"]).softmax(-1).topk(c["num_experts_per_tok"])
        return mixture(h, chosen, by / by.sum(-1, keepdim=True), expert)

    return minicpm(c, w, ids, feed_forward)


# internlm/internlm2-7b: each group of heads has its queries, its key and its value in a run of rows.
@family("internlm2", model_type="internlm2", architectures=["InternLM2ForCausalLM"], num_key_value_heads=2, rope_theta=1000000,
        rope_scaling={"type": "dynamic", "factor": 2.0}, bias=False, **SIZES)
def internlm2(c, w, ids):
    n, kv, width, eps = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"], c["rms_norm_eps"]
    head, per = width // n, n // kv
    x = w.embed(ids, "model.tok_embeddings", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        h = w.rms_norm(x, f"{at}.attention_norm", eps)
        qkv = w.linear(h, f"{at}.attention.wqkv", (n + 2 * kv) * head).unflatten(-1, (kv, per + 2, head))
        q, k, v = qkv[:, :, :per].flatten(1, 2), qkv[:, :, per], qkv[:, :, per + 1]
        base = c["rope_theta"]
        x = x + w.linear(attend(turn(q, head, base), turn(k, head, base), v), f"{at}.attention.wo", width)
        h = w.rms_norm(x, f"{at}.ffn_norm", eps)
        x = x + gated(w, h, *(f"{at}.feed_forward.{p}" for p in ("w1", "w3", "w2")), c["intermediate_size"])
    return w.linear(w.rms_norm(x, "model.norm", eps), "output", c["vocab_size"])


def slopes(n):
    """`_get_interleave` of modeling_baichuan.py, for a power of two."""
    start = 2.0 ** (-(2.0 ** -(torch.tensor(float(n)).log2() - 3)))
    return torch.tensor([start * start**i for i in range(n)])


def baichuan(c, w, ids, alibi, unit_head):
    n, width, eps = c["num_attention_heads"], c["hidden_size"], c["rms_norm_eps"]
    head, t = width // n, len(ids)
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        h = w.rms_norm(x, f"{at}.input_layernorm", eps)
        q, k, v = heads(w.linear(h, f"{at}.self_attn.W_pack", 3 * width), 3 * n).chunk(3, 1)
        if alibi:
            # `_gen_alibi_mask`: the slope times the key's position; rows of a softmax do not see what is added to all of them.
            y = attend(q, k, v, slopes(n)[:, None, None] * torch.arange(t).float() + causal(t))
        else:
            y = attend(turn(q, head), turn(k, head), v)
        x = x + w.linear(y, f"{at}.self_attn.o_proj", width)
        h = w.rms_norm(x, f"{at}.post_attention_layernorm", eps)
        x = x + gated(w, h, *(f"{at}.mlp.{p}_proj" for p in ("gate", "up", "down")), c["intermediate_size"])
    x = w.rms_norm(x, "model.norm", eps)
    head_weight = w("lm_head.weight", c["vocab_size"], width)
    return F.linear(x, F.normalize(head_weight) if unit_head else head_weight)


BAICHUAN = dict(model_type="baichuan", architectures=["BaichuanForCausalLM"], **SIZES)


# baichuan-inc/Baichuan-7B
@family("baichuan", **BAICHUAN)
def baichuan_7b(c, w, ids):
    return baichuan(c, w, ids, alibi=False, unit_head=False)


# baichuan-inc/Baichuan2-13B-Base: its configuration has no `max_position_embeddings`, and a z-loss; `NormHead`.
@family("baichuan2_13b", model_max_length=256, z_loss_weight=0, **{k: v for k, v in BAICHUAN.items() if k != "max_position_embeddings"})
def baichuan2_13b(c, w, ids):
    return baichuan(c, w, ids, alibi=True, unit_head=True)


# baichuan-inc/Baichuan2-7B-Base
@family("baichuan2", z_loss_weight=0, model_max_length=256, **BAICHUAN)
def baichuan2_7b(c, w, ids):
    return baichuan(c, w, ids, alibi=False, unit_head=True)


# THUDM/chatglm3-6b: half of each head turns, in adjacent pairs; one matrix for all of attention, and one for gate and up.
@family("chatglm", model_type="chatglm", architectures=["ChatGLMModel"], num_layers=2, hidden_size=32, ffn_hidden_size=40, num_attention_heads=4,
        kv_channels=8, multi_query_attention=True, multi_query_group_num=2, padded_vocab_size=64, seq_length=256, layernorm_epsilon=1e-5,
        rmsnorm=True, add_qkv_bias=True, add_bias_linear=False, apply_residual_connection_post_layernorm=False, post_layer_norm=True,
        original_rope=True, rope_ratio=2, tie_word_embeddings=False, apply_query_key_layer_scaling=True, attention_softmax_in_fp32=True)
def chatglm(c, w, ids):
    n, kv, head, width, inner = (c[k] for k in ("num_attention_heads", "multi_query_group_num", "kv_channels", "hidden_size", "ffn_hidden_size"))
    x = w.embed(ids, "transformer.embedding.word_embeddings", c["padded_vocab_size"], width)
    for i in range(c["num_layers"]):
        at = f"transformer.encoder.layers.{i}"
        h = w.rms_norm(x, f"{at}.input_layernorm", c["layernorm_epsilon"])
        q, k, v = w.linear(h, f"{at}.self_attention.query_key_value", (n + 2 * kv) * head, bias=True).split([n * head, kv * head, kv * head], -1)
        q, k = (turn(heads(y, m), head // 2, 10000.0 * c["rope_ratio"], pairs=True) for y, m in ((q, n), (k, kv)))
        x = x + w.linear(attend(q, k, heads(v, kv)), f"{at}.self_attention.dense", width)
        h = w.rms_norm(x, f"{at}.post_attention_layernorm", c["layernorm_epsilon"])
        gate, up = w.linear(h, f"{at}.mlp.dense_h_to_4h", 2 * inner).chunk(2, -1)
        x = x + w.linear(F.silu(gate) * up, f"{at}.mlp.dense_4h_to_h", width)
    x = w.rms_norm(x, "transformer.encoder.final_layernorm", c["layernorm_epsilon"])
    return w.linear(x, "transformer.output_layer", c["padded_vocab_size"])


# apple/OpenELM-270M: layers of different sizes.
@family("openelm", model_type="openelm", architectures=["OpenELMForCausalLM"], vocab_size=64, model_dim=32, num_transformer_layers=3, head_dim=8,
        num_query_heads=[2, 4, 6], num_kv_heads=[1, 2, 2], num_gqa_groups=2, ffn_multipliers=[0.6, 1.0, 1.3], ffn_dim_divisor=8, ffn_with_glu=True,
        activation_fn_name="swish", normalize_qk_projections=True, normalization_layer_name="rms_norm", rope_freq_constant=10000,
        rope_max_length=512, max_context_length=256, share_input_output_layers=True)
def openelm(c, w, ids):
    width, head, eps = c["model_dim"], c["head_dim"], 1e-6
    x = w.embed(ids, "transformer.token_embeddings", c["vocab_size"], width)
    for i, (n, kv, by) in enumerate(zip(c["num_query_heads"], c["num_kv_heads"], c["ffn_multipliers"])):
        at, divisor = f"transformer.layers.{i}", c["ffn_dim_divisor"]
        inner = max(divisor, int(by * width + divisor / 2) // divisor * divisor)
        inner += divisor if inner < 0.9 * by * width else 0
        qkv = heads(w.linear(w.rms_norm(x, f"{at}.attn_norm", eps), f"{at}.attn.qkv_proj", (n + 2 * kv) * head), n + 2 * kv)
        q, k, v = qkv.split([n, kv, kv], 1)
        q, k = w.rms_norm(q, f"{at}.attn.q_norm", eps), w.rms_norm(k, f"{at}.attn.k_norm", eps)
        x = x + w.linear(attend(turn(q, head), turn(k, head), v), f"{at}.attn.out_proj", width)
        gate, up = w.linear(w.rms_norm(x, f"{at}.ffn_norm", eps), f"{at}.ffn.proj_1", 2 * inner).chunk(2, -1)
        x = x + w.linear(F.silu(gate) * up, f"{at}.ffn.proj_2", width)
    return w.rms_norm(x, "transformer.norm", eps) @ w("transformer.token_embeddings.weight", c["vocab_size"], width).T


# Qwen/Qwen-7B: c_attn with biases, halves that turn, a feed-forward layer whose second half is the gate.
@family("qwen", model_type="qwen", architectures=["QWenLMHeadModel"], vocab_size=64, hidden_size=32, intermediate_size=80, num_hidden_layers=2,
        num_attention_heads=4, kv_channels=8, layer_norm_epsilon=1e-6, max_position_embeddings=256, seq_length=128, rotary_emb_base=10000,
        rotary_pct=1.0, no_bias=True, scale_attn_weights=True, use_dynamic_ntk=True, use_logn_attn=True, tie_word_embeddings=False)
def qwen(c, w, ids):
    n, head, width, eps = c["num_attention_heads"], c["kv_channels"], c["hidden_size"], c["layer_norm_epsilon"]
    x = w.embed(ids, "transformer.wte", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"transformer.h.{i}"
        q, k, v = heads(w.linear(w.rms_norm(x, f"{at}.ln_1", eps), f"{at}.attn.c_attn", 3 * width, bias=True), 3 * n).chunk(3, 1)
        x = x + w.linear(attend(turn(q, head), turn(k, head), v), f"{at}.attn.c_proj", width)
        h = w.rms_norm(x, f"{at}.ln_2", eps)
        x = x + gated(w, h, f"{at}.mlp.w2", f"{at}.mlp.w1", f"{at}.mlp.c_proj", c["intermediate_size"] // 2)
    return w.linear(w.rms_norm(x, "transformer.ln_f", eps), "lm_head", c["vocab_size"])


# pfnet/plamo-3-nict-8b-base: norms before and behind, the latter around small factors; every few layers see all, and turn by another base.
@family("plamo3", model_type="plamo3", architectures=["Plamo3ForCausalLM"], head_dim=8, num_key_value_heads=2, window_size=8, sliding_window_pattern=2,
        rope_theta=1000000.0, rope_local_theta=10000.0, attention_bias=False, **{**SIZES, "num_hidden_layers": 3, "tie_word_embeddings": True})
def plamo3(c, w, ids):
    n, kv, head, width, eps, inner = (c[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size", "rms_norm_eps", "intermediate_size"))
    t = len(ids)

    def norm(x, name, offset=1.0):
        return rms(x, eps) * (w(f"{name}.weight", x.shape[-1]) + offset)

    far = torch.arange(t)[:, None] - torch.arange(t)[None] >= c["window_size"]
    x = w.embed(ids, "model.embed_tokens", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.layers.{i}"
        sliding = (i + 1) % c["sliding_window_pattern"] != 0
        qkv = heads(w.linear(norm(x, f"{at}.pre_mixer_norm"), f"{at}.mixer.qkv_proj", (n + 2 * kv) * head), n + 2 * kv)
        q, k, v = qkv.split([n, kv, kv], 1)
        q, k = norm(q, f"{at}.mixer.q_norm"), norm(k, f"{at}.mixer.k_norm")
        base = c["rope_local_theta"] if sliding else c["rope_theta"]
        bias = causal(t).masked_fill(far, -torch.inf) if sliding else causal(t)
        y = w.linear(attend(turn(q, head, base), turn(k, head, base), v, bias), f"{at}.mixer.o_proj", width)
        x = x + norm(y, f"{at}.post_mixer_norm", 1 / 5)
        gate, up = w.linear(norm(x, f"{at}.pre_mlp_norm"), f"{at}.mlp.gate_up_proj", 2 * inner).chunk(2, -1)
        x = x + norm(w.linear(F.silu(gate) * up, f"{at}.mlp.down_proj", width), f"{at}.post_mlp_norm", 1 / 5**1.5)
    return norm(x, "model.norm") @ w("model.embed_tokens.weight", c["vocab_size"], width).T
