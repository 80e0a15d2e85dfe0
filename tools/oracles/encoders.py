#!/usr/bin/env python3
"""Tiny random encoders with the hidden states of transformers 5.24, in settings that shared fixtures leave alone.

    encoders.py OUT [NAME ...]

Each becomes OUT/NAME/ with config.json, model.safetensors (bfloat16), meta.json and expected.safetensors: ids_long i64[40], hidden f32[40, width],
embedding f32[width] (the mean). Computed in float32.
"""
import json, os, sys
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel

SMALL = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=64, max_position_embeddings=64)
DEBERTA = dict(SMALL, relative_attention=True, position_biased_input=False, layer_norm_eps=1e-7, type_vocab_size=0)
T5 = dict(d_model=32, d_kv=6, d_ff=48, num_layers=2, num_heads=4, vocab_size=64)
MODELS = {
    # As DeBERTa V3: buckets that grow with the distance, positions through the matrices of contents.
    "deberta_v3": ("deberta-v2", dict(DEBERTA, position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p")),
    # Matrices of their own, kinds of tokens, narrow embeddings, no buckets, one way only.
    "deberta_own": ("deberta-v2", dict(DEBERTA, max_relative_positions=16, pos_att_type=["c2p"], type_vocab_size=2, embedding_size=16,
                                       position_biased_input=True)),
    # Windows that are shorter than the text.
    "modernbert_local": ("modernbert", dict(SMALL, local_attention=10, num_hidden_layers=3, pad_token_id=0)),
    # Layers that are not as wide as all heads together.
    "t5_encoder": ("t5", T5),
    # Gated, with biases of each layer.
    "umt5_encoder": ("umt5", T5),
    "jina_embeddings_v3": ("jina_embeddings_v3", dict(SMALL, type_vocab_size=1, pad_token_id=1)),
    # Fewer heads of keys and values.
    "eurobert": ("eurobert", dict(SMALL, num_key_value_heads=2, pad_token_id=1)),
    # As EmbeddingGemma: windows to both sides, of which each is half of what is stated.
    "gemma_embedding": ("gemma3_text", dict(SMALL, use_bidirectional_attention=True, sliding_window=10, num_hidden_layers=6, head_dim=8, intermediate_size=32,
                                            num_key_value_heads=1, query_pre_attn_scalar=8, pad_token_id=0)),
}
# Encoders of models that have a decoder too.
ALONE = {"t5": "T5EncoderModel", "umt5": "UMT5EncoderModel"}


def make(name, out):
    kind, settings = MODELS[name]
    config = AutoConfig.for_model(kind, **settings)
    torch.manual_seed(len(name))
    if kind in ALONE:
        model = getattr(transformers, ALONE[kind])._from_config(config).float().eval()
    else:
        model = AutoModel.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for key, p in sorted(model.named_parameters()):
            norm = "norm" in key.lower() and key.endswith("weight")
            p.copy_(torch.randn_like(p) * (0.1 if norm or p.ndim == 1 else p.shape[-1] ** -0.5) + float(norm))
            p.copy_(p.bfloat16().float())
        ids = torch.randint(4, config.vocab_size, (1, 40))
        hidden = model(input_ids=ids).last_hidden_state[0]
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    if settings.get("use_bidirectional_attention"):
        # Saved is what was made of the stated one.
        path = os.path.join(folder, "config.json")
        saved = json.load(open(path))
        saved["sliding_window"] = settings["sliding_window"]
        with open(path, "w") as file:
            file.write(json.dumps(saved, indent=2) + "\n")
    expected = {"ids_long": ids[0], "hidden": hidden, "embedding": hidden.mean(0)}
    save_file({k: t.contiguous() for k, t in expected.items()}, os.path.join(folder, "expected.safetensors"))
    with open(os.path.join(folder, "meta.json"), "w") as meta:
        meta.write(json.dumps({"transformers": transformers.__version__}) + "\n")


for name in sys.argv[2:] or MODELS:
    make(name, sys.argv[1])
