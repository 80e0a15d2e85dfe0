#!/usr/bin/env python3
"""A small SentencePiece BPE model, as a GGUF file would hold it, and what the package `sentencepiece` does with it.

    pip install sentencepiece==0.2.3
    make_sentencepiece.py sentencepiece.json

{"pieces", "scores", "kinds" (tokenizer.ggml.token_type), "rows": [{"text", "ids", "decoded"}]}: ids of encode(text), without special tokens.
"""
import io, json, os, sys
import sentencepiece as spm
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tokenizer_texts import texts
from make_tokenizers import CORPUS

out = io.BytesIO()
spm.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=out, model_type="bpe", vocab_size=700, byte_fallback=True, character_coverage=0.98,
    normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, minloglevel=2)
p = spm.SentencePieceProcessor(model_proto=out.getvalue())
n = p.get_piece_size()
kind = lambda i: 2 if p.is_unknown(i) else 3 if p.is_control(i) else 6 if p.is_byte(i) else 1
rows = [{"text": t, "ids": p.encode(t), "decoded": p.decode(p.encode(t))} for t in texts() if "\0" not in t and "▁" not in t]
json.dump({"pieces": [p.id_to_piece(i) for i in range(n)], "scores": [p.get_score(i) for i in range(n)], "kinds": [kind(i) for i in range(n)], "rows": rows}, open(sys.argv[1], "w"), ensure_ascii=False, separators=(",", ":"))
print(n, len(rows), file=sys.stderr)
