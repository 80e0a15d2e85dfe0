"""Encoders. Each after the `modeling_*.py` of the checkpoint that its comment names."""
import torch
import torch.nn.functional as F

from harness import attend, family, frequencies, heads, turn
from llama_like import slopes

BERT = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128,
            type_vocab_size=2, layer_norm_eps=1e-12, hidden_act="gelu", pad_token_id=0)


def all_seen(tokens):
    return torch.zeros(tokens, tokens)


def both_ways(q, k, v):
    return attend(q, k, v, all_seen(len(q)))


def with_types(w, x, name, count):
    return x + w(f"{name}.weight", count, x.shape[-1])[0]


def post_norm(w, x, y, name, eps):
    return w.layer_norm(x + y, name, eps)


def jina_v2(c, w, ids, normed):
    """`normed`: with norms of queries and keys, a second norm behind attention, and the gate behind what it gates."""
    n, width, eps, inner = c["num_attention_heads"], c["hidden_size"], c["layer_norm_eps"], c["intermediate_size"]
    at = torch.arange(len(ids)).float()
    bias = -slopes(n)[:, None, None] * (at - at[:, None]).abs()
    x = with_types(w, w.embed(ids, "embeddings.word_embeddings", c["vocab_size"], width), "embeddings.token_type_embeddings", 2)
    x = w.layer_norm(x, "embeddings.LayerNorm", eps)
    for i in range(c["num_hidden_layers"]):
        at = f"encoder.layer.{i}"
        q, k, v = (w.linear(x, f"{at}.attention.self.{p}", width, bias=True) for p in ("query", "key", "value"))
        if normed:
            q, k = (w.layer_norm(y, f"{at}.attention.self.layer_norm_{p}", eps) for y, p in ((q, "q"), (k, "k")))
        y = w.linear(attend(*(heads(y, n) for y in (q, k, v)), bias), f"{at}.attention.output.dense", width, bias=True)
        y = post_norm(w, x, y, f"{at}.attention.output.LayerNorm", eps)
        if normed:
            x = post_norm(w, x, y, f"{at}.layer_norm_1", eps)
            up, gate = w.linear(x, f"{at}.mlp.up_gated_layer", 2 * inner).chunk(2, -1)
            y = w.linear(up * F.gelu(gate), f"{at}.mlp.down_layer", width, bias=True)
            x = post_norm(w, x, y, f"{at}.layer_norm_2", eps)
        else:
            x = y
            gate, up = w.linear(x, f"{at}.mlp.gated_layers", 2 * inner).chunk(2, -1)
            x = post_norm(w, x, w.linear(F.gelu(gate) * up, f"{at}.mlp.wo", width, bias=True), f"{at}.mlp.layernorm", eps)
    return x


JINA = dict(model_type="bert", position_embedding_type="alibi", feed_forward_type="geglu", emb_pooler="mean", **BERT)


# jinaai/jina-embeddings-v2-base-en (jina-bert-implementation)
@family("jina_bert_v2", states=True, architectures=["JinaBertForMaskedLM"],
        auto_map={"AutoModel": "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"}, **JINA)
def jina_bert_v2(c, w, ids):
    return jina_v2(c, w, ids, normed=False)


# jinaai/jina-embeddings-v2-base-code (jina-bert-v2-qk-post-norm)
@family("jina_bert_v2_code", states=True, architectures=["JinaBertForMaskedLM"],
        auto_map={"AutoModel": "jinaai/jina-bert-v2-qk-post-norm--modeling_bert.JinaBertModel"}, **JINA)
def jina_bert_v2_code(c, w, ids):
    return jina_v2(c, w, ids, normed=True)


def rotary_heads(w, x, name, n, base):
    """Queries, keys and values of one matrix; all of a head turns, by halves."""
    q, k, v = heads(w.linear(x, name, 3 * x.shape[-1], bias=True), 3 * n).chunk(3, 1)
    return turn(q, q.shape[-1], base), turn(k, k.shape[-1], base), v


# nomic-ai/nomic-embed-text-v2-moe (nomic-bert-2048): every other layer has a mixture, whose one bias is added to the sum.
@family("nomic_bert_moe", states=True, model_type="nomic_bert", architectures=["NomicBertModel"], activation_function="gelu", vocab_size=64,
        n_embd=32, n_head=4, n_inner=24, n_layer=4, n_positions=128, num_experts=4, moe_top_k=2, moe_every_n_layers=2,
        moe_normalize_expert_weights=False, num_shared_experts=0, expert_choice_router=False, ffn_div=1.0, type_vocab_size=1,
        rotary_emb_base=10000, rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_scaling_factor=None, rotary_emb_scale_base=None,
        prenorm=False, parallel_block=False, causal=False, use_rms_norm=False, qkv_proj_bias=True, mlp_fc1_bias=True, mlp_fc2_bias=True,
        layer_norm_epsilon=1e-5, pad_token_id=1)
def nomic_bert_moe(c, w, ids):
    n, width, inner, eps, count = (c[k] for k in ("n_head", "n_embd", "n_inner", "layer_norm_epsilon", "num_experts"))
    x = with_types(w, w.embed(ids, "embeddings.word_embeddings", c["vocab_size"], width), "embeddings.token_type_embeddings", 1)
    x = w.layer_norm(x, "emb_ln", eps)
    for i in range(c["n_layer"]):
        at = f"encoder.layers.{i}"
        y = both_ways(*rotary_heads(w, x, f"{at}.attn.Wqkv", n, c["rotary_emb_base"]))
        x = post_norm(w, x, w.linear(y, f"{at}.attn.out_proj", width, bias=True), f"{at}.norm1", eps)
        if i % c["moe_every_n_layers"] == 1:
            by, chosen = w.linear(x, f"{at}.mlp.router.layer", count).softmax(-1).topk(c["moe_top_k"])
            first, second = (w(f"{at}.mlp.experts.mlp.{p}", count * inner, width).unflatten(0, (count, inner)) for p in ("w1", "w2"))
            made = torch.einsum("tei,eiw->tew", F.gelu(torch.einsum("tw,eiw->tei", x, first)), second)
            y = (made.gather(1, chosen[..., None].expand(-1, -1, width)) * by[..., None]).sum(1) + w(f"{at}.mlp.experts.bias", width)
        else:
            y = w.linear(F.gelu(w.linear(x, f"{at}.mlp.fc1", inner, bias=True)), f"{at}.mlp.fc2", width, bias=True)
        x = post_norm(w, x, y, f"{at}.norm2", eps)
    return x


# jinaai/jina-embeddings-v3 (xlm-roberta-flash-implementation): without a task its adapters have no part in it. The first table of the
# model and each matrix lie beside adapters for two tasks, of rank 2.
@family("jina_embeddings_v3_lora", states=True, architectures=["XLMRobertaModel"], lora_adaptations=["retrieval.query", "text-matching"],
        lora_alpha=1, lora_rank=2, lora_dropout_p=0.0, lora_main_params_trainable=False, load_trained_adapters=True,
        task_instructions={"retrieval.query": "Represent the query for retrieving evidence documents: ", "text-matching": ""},
        position_embedding_type="rotary", rotary_emb_base=20000.0, emb_pooler=None, use_reentrant=False, truncate_dim=None,
        matryoshka_dimensions=[16, 32], **{**BERT, "model_type": "xlm-roberta", "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1})
def jina_embeddings_v3(c, w, ids):
    n, width, eps, tasks, rank = c["num_attention_heads"], c["hidden_size"], c["layer_norm_eps"], 2, c["lora_rank"]

    def adapted(name, out, inside, table=False):
        weight = w(f"{name}.parametrizations.weight.original", out, inside, std=1.0 if table else None)
        first, second = ((tasks, out, rank), (tasks, rank, inside)) if table else ((tasks, rank, inside), (tasks, out, rank))
        w(f"{name}.parametrizations.weight.0.lora_A", *first), w(f"{name}.parametrizations.weight.0.lora_B", *second)
        return weight

    def linear(x, name, out):
        return F.linear(x, adapted(name, out, x.shape[-1]), w(f"{name}.bias", out))

    x = adapted("roberta.embeddings.word_embeddings", c["vocab_size"], width, True)[ids]
    x = x + adapted("roberta.embeddings.token_type_embeddings", 1, width, True)[0]
    x = w.layer_norm(x, "roberta.emb_ln", eps)
    for i in range(c["num_hidden_layers"]):
        at = f"roberta.encoder.layers.{i}"
        q, k, v = heads(linear(x, f"{at}.mixer.Wqkv", 3 * width), 3 * n).chunk(3, 1)
        q, k = (turn(y, y.shape[-1], c["rotary_emb_base"]) for y in (q, k))
        x = post_norm(w, x, linear(both_ways(q, k, v), f"{at}.mixer.out_proj", width), f"{at}.norm1", eps)
        y = linear(F.gelu(linear(x, f"{at}.mlp.fc1", c["intermediate_size"])), f"{at}.mlp.fc2", width)
        x = post_norm(w, x, y, f"{at}.norm2", eps)
    adapted("roberta.pooler.dense", width, width), w("roberta.pooler.dense.bias", width)
    return x


# chandar-lab/NeoBERT: each head has its query, key and value in a run of rows; adjacent dimensions turn; two thirds of the stated width.
@family("neobert", states=True, model_type="neobert", architectures=["NeoBERTLMHead"], vocab_size=64, hidden_size=32, intermediate_size=48,
        num_hidden_layers=2, num_attention_heads=4, max_length=128, norm_eps=1e-6, pad_token_id=0, hidden_act="swiglu")
def neobert(c, w, ids):
    n, width, eps = c["num_attention_heads"], c["hidden_size"], c["norm_eps"]
    head, inner = width // n, (int(2 * c["intermediate_size"] / 3) + 7) // 8 * 8
    f = torch.polar(torch.ones(len(ids), head // 2), torch.outer(torch.arange(len(ids)).float(), frequencies(head, 10000.0)))[:, None]

    def turned(y):
        return torch.view_as_real(torch.view_as_complex(y.unflatten(-1, (-1, 2)).contiguous()) * f).flatten(-2)

    x = w.embed(ids, "model.encoder", c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        at = f"model.transformer_encoder.{i}"
        qkv = w.linear(w.rms_norm(x, f"{at}.attention_norm", eps), f"{at}.qkv", 3 * width).unflatten(-1, (n, 3 * head))
        q, k, v = qkv.chunk(3, -1)
        x = x + w.linear(both_ways(turned(q), turned(k), v), f"{at}.wo", width)
        gate, up = w.linear(w.rms_norm(x, f"{at}.ffn_norm", eps), f"{at}.ffn.w12", 2 * inner).chunk(2, -1)
        x = x + w.linear(F.silu(gate) * up, f"{at}.ffn.w3", width)
    w("decoder.weight", c["vocab_size"], width), w("decoder.bias", c["vocab_size"])
    return w.rms_norm(x, "model.layer_norm", eps)
