#!/usr/bin/env python3
"""A tiny random BERT as a folder of sentence-transformers 6.3, with a dense layer behind the pooling, and the vectors that it gives texts.

    sentence_transformer.py OUT

OUT gets modules.json and all that it names, the tokenizer, and expected.json: {text: vector}, in f32, normalized.
"""
import json, os, shutil, sys, tempfile
import torch
from sentence_transformers import SentenceTransformer, models
from tokenizers import Tokenizer, models as words, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat dog sat on mat ran a quick brown fox ##s ##ing ##ed jump over lazy . , ! ? it is un ##known".split()
TEXTS = ["The cat sat on the mat.", "A quick brown fox jumped over the lazy dogs!", "unknown", "zebras, it is", ""]


def main(out):
    torch.manual_seed(7)
    config = BertConfig(vocab_size=len(PIECES), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                        max_position_embeddings=32)
    bert = BertModel(config).eval()
    with torch.no_grad():
        for name, p in bert.named_parameters():
            norm = "LayerNorm.weight" in name
            p.copy_(torch.randn_like(p) * (0.1 if norm or p.ndim == 1 else p.shape[-1] ** -0.5) + float(norm))
    tokenizer = Tokenizer(words.WordPiece({p: i for i, p in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
                                   mask_token="[MASK]", model_max_length=32)
    with tempfile.TemporaryDirectory() as folder:
        bert.save_pretrained(folder), fast.save_pretrained(folder)
        transformer = models.Transformer(folder)
        dense = models.Dense(16, 12, bias=True, activation_function=torch.nn.Tanh())
        model = SentenceTransformer(modules=[transformer, models.Pooling(16, "mean"), dense, models.Normalize()], device="cpu")
        vectors = {text: [float(x) for x in model.encode(text)] for text in TEXTS}
        shutil.rmtree(out, ignore_errors=True)
        model.save(out, create_model_card=False)
    with open(os.path.join(out, "expected.json"), "w") as file:
        json.dump(vectors, file)


main(sys.argv[1])
