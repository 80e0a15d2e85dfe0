#!/usr/bin/env python3
"""Small vocabularies as GGUF files hold them, of the kinds that only GGUF has, and what llama.cpp does with them.

    pip install xllamacpp gguf sentencepiece protobuf
    make_gguf.py gguf.json    # from vocabularies.json

Each entry: {"name", "model", "tokens", "kinds", "more": {key: value}, "rows": [{"text", "ids"}]}: ids without special tokens in the text.
"""
import base64, json, os, pathlib, sys, tempfile
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent.parent.parent / "tests")]
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizer_texts import texts
from tokenizers_gguf import Theirs, usual, write


def all(vocabularies):
    piece = lambda name: pb.ModelProto.FromString(base64.b64decode(vocabularies[name]["binary"]["tokenizer.model"]))
    t5 = piece("unigram")
    charsmap = list(t5.normalizer_spec.precompiled_charsmap)
    yield "t5", "t5", [p.piece for p in t5.pieces], [p.type for p in t5.pieces], {"scores": [p.score for p in t5.pieces], "unknown_token_id": 0, "eos_token_id": 2,
        "add_space_prefix": True, "remove_extra_whitespaces": True, "precompiled_charsmap": charsmap}, lambda text: "\0" not in text and not text.rstrip().endswith("▁")
    plamo = piece("unigram to bytes, user-defined symbols").pieces
    yield "plamo2", "plamo2", [p.piece.replace("▁", " ") for p in plamo], [1 if p.type == 4 else p.type for p in plamo], {"scores": [p.score for p in plamo], "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}, lambda text: not any(s in text for s in ("<s>", "</s>", "<unk>", "<|im_start|>"))
    lines = vocabularies["bert"]["files"]["vocab.txt"].split("\n")[:-1]
    special = lambda t: t.startswith("[") and t.endswith("]")
    yield "bert", "bert", [t[2:] if t.startswith("##") else t if special(t) else "▁" + t for t in lines], [3 if special(t) else 1 for t in lines], {"bos_token_id": 2, "seperator_token_id": 3, "unknown_token_id": 1, "padding_token_id": 0}, \
        lambda text: usual(text) and "[" not in text and not any("\uac00" <= c <= "\ud7a3" or "\u0900" <= c <= "\u0dff" or "\u0590" <= c <= "\u05ff" for c in text) and max(map(len, text.split() or [""])) <= 100
    words = ["\\x%02x" % b if b >= 128 or b < 32 or b == 127 else "\\\\" if b == 92 else chr(b) for b in range(256)]
    words = [{"\\x0a": "\\n", "\\x09": "\\t", "\\x0d": "\\r"}.get(w, w) for w in words] + ["the", " the", "ther", "ing", "  ", "    ", "\\n\\n", "é", "漢字", "🤖", "12", "=="]
    yield "rwkv", "rwkv", ["<s>", *words], [3] + [1] * len(words), {}, lambda text: "<s>" not in text


def main():
    vocabularies = {entry["name"]: entry for entry in json.load(open(HERE / "vocabularies.json"))}
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for name, model, tokens, kinds, more, wanted in all(vocabularies):
            path = pathlib.Path(folder) / "vocabulary.gguf"
            write(path, model, tokens, kinds, **{k: bytes(v) if k == "precompiled_charsmap" else v for k, v in more.items()})
            theirs = Theirs(path)
            rows = [{"text": text, "ids": theirs(text), "special": theirs(text, True)} for text in texts() if wanted(text)]
            out.append({"name": name, "model": model, "tokens": tokens, "kinds": kinds, "more": more, "rows": rows})
            print(name, len(rows), sum(len(r["ids"]) for r in rows), file=sys.stderr)
    with open(sys.argv[1], "w") as f:
        f.write("[" + ",\n".join(json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in out) + "]\n")
    sys.stdout.flush()
    os._exit(0)  # llama.cpp's own end can hang


if __name__ == "__main__":
    main()
