#!/usr/bin/env python3
"""Tiny random models that score pairs of texts, with the scores of transformers 5.24.

    rankers.py OUT [NAME ...]

Each becomes OUT/NAME/ with config.json, model.safetensors (bfloat16), meta.json and expected.safetensors: ids i64[tokens] of a pair, start i64[1]
where its second text begins, score f32[1]. Computed in float32.
"""
import json, os, sys
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

SMALL = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, vocab_size=32, max_position_embeddings=32, num_labels=1)
MODELS = {
    "bert": dict(SMALL),
    "roberta": dict(SMALL, type_vocab_size=1, pad_token_id=1),
    "xlm-roberta": dict(SMALL, type_vocab_size=1, pad_token_id=1),
    "electra": dict(SMALL, embedding_size=12),
    "distilbert": dict(dim=16, hidden_dim=24, n_layers=1, n_heads=2, vocab_size=32, max_position_embeddings=32, num_labels=1),
    "mpnet": dict(SMALL),
    "deberta-v2": dict(SMALL, relative_attention=True, position_biased_input=False, type_vocab_size=0, pos_att_type="p2c|c2p"),
    "modernbert": dict(SMALL, pad_token_id=0, classifier_pooling="mean"),
}
START, TOKENS = 6, 13
QWEN3 = dict(SMALL, head_dim=8, num_key_value_heads=1, pad_token_id=0)
# By words: the two tokens, and the head that has their difference.
YES, NO = 9, 5


def make(name, out):
    config = AutoConfig.for_model(name, **MODELS[name])
    torch.manual_seed(len(name))
    model = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for key, p in sorted(model.named_parameters()):
            norm = "norm" in key.lower() and key.endswith("weight")
            p.copy_(torch.randn_like(p) * (0.1 if norm or p.ndim == 1 else p.shape[-1] ** -0.5) + float(norm))
            p.copy_(p.bfloat16().float())
        ids = torch.randint(4, 32, (1, TOKENS))
        more = {}
        if MODELS[name].get("type_vocab_size", 2) > 1 and name in ("bert", "electra"):
            more["token_type_ids"] = (torch.arange(TOKENS) >= START).long()[None]
        score = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more).logits[0]
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    save_file({"ids": ids[0].contiguous(), "start": torch.tensor([START]), "score": score.contiguous()}, os.path.join(folder, "expected.safetensors"))
    with open(os.path.join(folder, "meta.json"), "w") as meta:
        meta.write(json.dumps({"transformers": transformers.__version__}) + "\n")


def judge(out):
    """As the model card of Qwen3-Reranker has it: the share of `yes` in the softmax over `no` and `yes` behind the last token."""
    config = AutoConfig.for_model("qwen3", **{k: v for k, v in QWEN3.items() if k != "num_labels"}, tie_word_embeddings=False)
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for key, p in sorted(model.named_parameters()):
            norm = "norm" in key.lower()
            p.copy_(torch.randn_like(p) * (0.1 if norm else p.shape[-1] ** -0.5) + float(norm))
            p.copy_(p.bfloat16().float())
        ids = torch.randint(4, 32, (1, TOKENS))
        logits = model(input_ids=ids).logits[0, -1]
        score = torch.stack([logits[NO], logits[YES]]).log_softmax(0)[1:].exp()
    folder = os.path.join(out, "qwen3")
    os.makedirs(folder, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    words = {f"w{i}": i for i in range(32) if i not in (YES, NO)} | {"yes": YES, "no": NO}
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump({"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}}, file)
    save_file({"ids": ids[0].contiguous(), "start": torch.tensor([TOKENS]), "score": score.contiguous()}, os.path.join(folder, "expected.safetensors"))
    with open(os.path.join(folder, "meta.json"), "w") as meta:
        meta.write(json.dumps({"transformers": transformers.__version__}) + "\n")


for name in sys.argv[2:] or [*MODELS, "qwen3"]:
    judge(sys.argv[1]) if name == "qwen3" else make(name, sys.argv[1])
