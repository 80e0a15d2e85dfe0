#!/usr/bin/env python3
"""Small vocabularies in files other than tokenizer.json, and what their own libraries do with them.

    pip install sentencepiece==0.2.3 protobuf tokenizers==0.23.3 transformers==5.24.0 tiktoken==0.14.0 mistral-common
    make_vocabularies.py vocabularies.json

Each entry: {"name", "files": {name: contents}, "binary": {name: contents in base 64}, "rows": [{"text", "ids", "decoded"}]}: ids without
special tokens, and the text that they are decoded to.
"""
import base64, io, json, os, sys, tempfile, unicodedata
import sentencepiece, tiktoken
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tokenizer_texts import texts
from make_tokenizers import CORPUS, KIMI, LLAMA, QWEN

RULES = [("ﬁ", "fi"), ("½", "1⁄2"), ("²", "2"), ("e\u0301", "é"), ("A\u030a", "Å"), ("\u00a0", " "), ("\u3000", " "), ("\u2003", " "), ("\t", " "), ("\n", " "), ("\u200b", " "), ("\ufeff", ""), ("\u200d", ""), ("か", "カ"), ("カ\u3099", "ガ")]


def sentence_piece(rules=RULES, **options):
    out = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
        code = lambda text: " ".join(f"{ord(c):X}" for c in text)
        f.write("".join(f"{code(a)}\t{code(b)}\n" for a, b in rules))
        f.flush()
        name = {"normalization_rule_tsv": f.name} if rules else {"normalization_rule_name": "identity"}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=out, hard_vocab_limit=False, minloglevel=2, **name, **options)
    p = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    rows = [(t, p.encode(t), p.decode(p.encode(t))) for t in texts() if "\0" not in t]
    return {}, {"tokenizer.model": out.getvalue()}, rows


def bert(**options):
    from transformers import BertTokenizer
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(lowercase=options.get("do_lower_case", True)), pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=360, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], limit_alphabet=120, show_progress=False))
    lines = [text for text, _ in sorted(t.get_vocab().items(), key=lambda e: e[1])]
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/vocab.txt", "w") as f:
            f.write("\n".join(lines) + "\n")
        with open(folder + "/tokenizer_config.json", "w") as f:
            json.dump({"tokenizer_class": "BertTokenizer", **options}, f)
        # The class reads the file itself; AutoTokenizer would do the same.
        reference = BertTokenizer.from_pretrained(folder)
    rows = []
    for text in texts():
        if "[" in text:
            continue
        ids = reference.encode(text, add_special_tokens=False)
        rows.append((text, ids, reference.decode(ids, clean_up_tokenization_spaces=False)))
    return {"vocab.txt": "\n".join(lines) + "\n", "tokenizer_config.json": json.dumps({"tokenizer_class": "BertTokenizer", **options})}, {}, rows


def ranks(size=420, step=37):
    """Ranks as tiktoken trains them: 256 bytes, then merges in order."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    visible = {c: b for b, c in byte_alphabet().items()}
    words = [w for w, _ in sorted(t.get_vocab().items(), key=lambda e: e[1]) if len(w) > 1]
    all_bytes = [bytes([b]) for b in sorted(range(256), key=lambda b: (b * step) % 256)]
    return {token: rank for rank, token in enumerate(all_bytes + [bytes(visible[c] for c in w) for w in words])}


def byte_alphabet():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in own]
    return {b: chr(b) for b in own} | {b: chr(256 + i) for i, b in enumerate(others)}


def table(all_ranks):
    return "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in all_ranks.items())


def tiktoken_file(file, pattern, special, config, nfc=False):
    r = ranks()
    encoding = tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=r, special_tokens=special(len(r)))
    rows = []
    for text in texts():
        given = unicodedata.normalize("NFC", text) if nfc else text
        ids = encoding.encode(given, disallowed_special=())
        rows.append((text, ids, encoding.decode(ids)))
    return {file: table(r), "tokenizer_config.json": json.dumps(config)}, {}, rows


def tekken():
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    r = ranks(step=1)  # mistral-common wants the bytes in order
    pattern = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    special = 40
    spec = {"config": {"pattern": pattern, "num_vocab_tokens": len(r), "default_vocab_size": len(r) + special - 10, "default_num_special_tokens": special, "version": "v3"},
        "vocab": [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for token, rank in r.items()]}
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/tekken.json", "w") as f:
            json.dump(spec, f)
        t = Tekkenizer.from_file(folder + "/tekken.json")
    rows = [(text, t.encode(text, bos=False, eos=False), t.decode(t.encode(text, bos=False, eos=False))) for text in texts()]
    return {"tekken.json": json.dumps(spec)}, {}, rows



def all():
    symbols = ["<mask>", "tool", "the other", "漢字"]
    yield "unigram", *sentence_piece(model_type="unigram", vocab_size=400)
    yield "unigram to bytes, user-defined symbols", *sentence_piece(model_type="unigram", vocab_size=700, byte_fallback=True, character_coverage=0.98, user_defined_symbols=symbols, control_symbols=["<|im_start|>"])
    yield "unigram, white space as it is", *sentence_piece([], model_type="unigram", vocab_size=400, remove_extra_whitespaces=False, add_dummy_prefix=False, split_by_whitespace=False, character_coverage=0.98)
    yield "bpe", *sentence_piece(model_type="bpe", vocab_size=500, character_coverage=0.98)
    yield "bpe to bytes", *sentence_piece([], model_type="bpe", vocab_size=750, byte_fallback=True, character_coverage=0.98, remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True)
    yield "bpe, user-defined symbols", *sentence_piece(model_type="bpe", vocab_size=500, character_coverage=0.98, user_defined_symbols=symbols)
    yield "bpe, spaces behind", *sentence_piece(model_type="bpe", vocab_size=500, treat_whitespace_as_suffix=True)
    yield "bert", *bert()
    yield "bert, cased", *bert(do_lower_case=False, tokenize_chinese_chars=False)
    yield "bert, accents kept", *bert(strip_accents=False)
    yield "qwen", *tiktoken_file("qwen.tiktoken", QWEN, lambda n: {"<|endoftext|>": n, "<|im_start|>": n + 1, "<|im_end|>": n + 2}, {"tokenizer_class": "QWenTokenizer"}, nfc=True)
    kimi = {str(420 + i): {"content": c, "special": True} for i, c in enumerate(["[BOS]", "[EOS]", "<|im_end|>"])}
    yield "kimi", *tiktoken_file("tiktoken.model", KIMI, lambda n: {"[BOS]": n, "[EOS]": n + 1, "<|im_end|>": n + 2}, {"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]", "added_tokens_decoder": kimi})
    glm = {str(420 + i): {"content": c, "special": True} for i, c in enumerate(["<|endoftext|>", "[gMASK]", "<sop>"])}
    yield "glm4", *tiktoken_file("tokenizer.model", LLAMA, lambda n: {"<|endoftext|>": n, "[gMASK]": n + 1, "<sop>": n + 2}, {"tokenizer_class": "ChatGLM4Tokenizer", "eos_token": "<|endoftext|>", "added_tokens_decoder": glm})
    yield "tekken", *tekken()


def main():
    out = []
    for name, files, binary, rows in all():
        binary = {file: base64.b64encode(contents).decode() for file, contents in binary.items()}
        out.append({"name": name, "files": files, "binary": binary, "rows": [{"text": t, "ids": i, "decoded": d} for t, i, d in rows]})
        print(name, len(rows), sum(len(r[1]) for r in rows), file=sys.stderr)
    with open(sys.argv[1], "w") as f:
        f.write("[" + ",\n".join(json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in out) + "]\n")


if __name__ == "__main__":
    main()
