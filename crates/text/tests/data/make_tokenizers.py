#!/usr/bin/env python3
"""Small vocabularies of every kind that is read, and what the Python package `tokenizers` does with them.

    pip install tokenizers==0.23.3
    make_tokenizers.py tokenizers.json

Each entry: {"name", "tokenizer": contents of tokenizer.json, "rows": [{"text", "ids", "special", "plain", "decoded", "skipped"}]}
  ids      encode(text, add_special_tokens=False)        special   with them
  plain    as ids, but special tokens in the text are read as text (encode_special_tokens)
  decoded  decode(special, skip_special_tokens=False)    skipped   with skip_special_tokens=True
"""
import json, os, sys
from tokenizers import AddedToken, Regex, Tokenizer, decoders as D, models as M, normalizers as N, pre_tokenizers as P, processors as X, trainers as T
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tokenizer_texts import texts

CORPUS = """The quick brown fox jumps over the lazy dog. There is nothing that the other weather could bring to them, they thought.
She said that it's what we've known all along; they'd rather not, I'm sure you're right and he'll see.
fn main() { for i in 0..1024 { println!("{}", i * 2); } } // comment    with   spaces
def f(self, x: int = 0) -> dict[str, list[int]]: return {"a": [x ** 2 for _ in range(10)]}
Größe, naïve façade, žluťoučký kůň. Быстрая лиса и ленивая собака бегут. Η γρήγορη αλεπού.
敏捷的棕色狐狸跳过了懒狗。すばやい茶色の狐がのろまな犬を飛び越える。빠른 갈색 여우가 게으른 개를 뛰어넘는다.
तेज़ भूरी लोमड़ी, שועל חום מהיר, الثعلب البني السريع ١٢٣. 👩‍👩‍👧 👍🏽 🤖 1234567 2026-12-02 3.14159
CamelCaseName HTTPServer snake_case SCREAMING \t tab\n\n\nnewlines and and and the the the in in in on on""".split("\n") * 4

GPT = P.ByteLevel(add_prefix_space=False, use_regex=False)
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA = QWEN.replace(r"|\p{N}| ", r"|\p{N}{1,3}| ")
O200K = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK = ["\\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
def split(pattern, behavior="isolated", invert=False): return P.Split(Regex(pattern), behavior, invert)

SPECIAL = [AddedToken("<s>", special=True), AddedToken("</s>", special=True), AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True), AddedToken("<mask>", special=True, lstrip=True, rstrip=True)]
USER = [AddedToken("<tool_call>", special=False, normalized=False), AddedToken("tool", single_word=True, normalized=False), AddedToken("é<acute>", normalized=True)]

def train(model, trainer, normalizer=None, pre=None, post=None, decoder=None, added=True):
    t = Tokenizer(model)
    if normalizer: t.normalizer = normalizer
    if pre: t.pre_tokenizer = pre
    t.train_from_iterator(CORPUS, trainer)
    if added: t.add_special_tokens(SPECIAL); t.add_tokens(USER)
    if post: t.post_processor = post(t)
    if decoder: t.decoder = decoder
    return t

def template(t): return X.TemplateProcessing(single="<s> $A </s>", pair="<s> $A $B </s>", special_tokens=[("<s>", t.token_to_id("<s>")), ("</s>", t.token_to_id("</s>"))])
def level(normalizer=None, pre=None, post=None, size=420, **model):
    return train(M.BPE(**model), T.BpeTrainer(vocab_size=size, initial_alphabet=P.ByteLevel.alphabet(), show_progress=False), normalizer, P.Sequence(pre + [GPT]) if pre else None, post, D.ByteLevel())
BYTES = ["<0x%02X>" % b for b in range(256)]
LLAMA_DECODER = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
def pieces(normalizer, pre, decoder, size=500, **model):
    return train(M.BPE(**model), T.BpeTrainer(vocab_size=size, special_tokens=["<unk>"] + (BYTES if model.get("byte_fallback") else []), limit_alphabet=90, show_progress=False), normalizer, pre, template, decoder)

def all():
    yield "qwen3", level(N.NFC(), [split(QWEN)])
    yield "qwen3.5", level(N.NFC(), [split(QWEN35)])
    yield "llama3", level(None, [split(LLAMA)], lambda t: X.Sequence([X.ByteLevel(trim_offsets=False), template(t)]), ignore_merges=True)
    yield "o200k", level(None, [split(O200K)], size=400)
    yield "deepseek", level(N.Sequence([]), [split(p) for p in DEEPSEEK])
    yield "smollm", train(M.BPE(), T.BpeTrainer(vocab_size=420, initial_alphabet=P.ByteLevel.alphabet(), show_progress=False), None, P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)]), None, D.ByteLevel())
    yield "gpt2 with a space in front", train(M.BPE(), T.BpeTrainer(vocab_size=420, initial_alphabet=P.ByteLevel.alphabet(), show_progress=False), None, P.ByteLevel(add_prefix_space=True),
        lambda t: X.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>"))), D.ByteLevel())
    yield "bytes missing from the alphabet", train(M.BPE(unk_token="<unk>", fuse_unk=True), T.BpeTrainer(vocab_size=300, special_tokens=["<unk>"], limit_alphabet=60, show_progress=False), None, P.ByteLevel(add_prefix_space=False), None, D.ByteLevel())
    yield "no split, no unknown token", train(M.BPE(), T.BpeTrainer(vocab_size=300, limit_alphabet=60, show_progress=False), None, GPT, None, D.ByteLevel())
    yield "other expression", train(M.BPE(), T.BpeTrainer(vocab_size=380, initial_alphabet=P.ByteLevel.alphabet(), show_progress=False), None, P.Sequence([split(r"\p{Lu}?\p{Ll}+(?=\s|$)|\d{1,2}", "merged_with_previous"), split(r"[^aeiou]+", "contiguous", True), P.Punctuation("merged_with_next"), GPT]), None, D.ByteLevel())
    yield "llama2", pieces(N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), None, LLAMA_DECODER, unk_token="<unk>", fuse_unk=True, byte_fallback=True, size=620)
    yield "gemma", pieces(N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"), D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]), unk_token="<unk>", fuse_unk=True, byte_fallback=True, size=620)
    yield "metaspace first", pieces(None, P.Metaspace("▁", "first"), D.Metaspace("▁", "first"), unk_token="<unk>", fuse_unk=False)
    yield "metaspace always, unsplit", pieces(N.Strip(True, True), P.Metaspace("▁", "always", False), D.Metaspace("▁", "always"), unk_token="<unk>", fuse_unk=True)
    yield "metaspace never, no unknown token", pieces(N.NFKC(), P.Metaspace("▁", "never"), D.Metaspace("▁", "never"))
    yield "marked continuations and ends", train(M.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"), T.BpeTrainer(vocab_size=420, special_tokens=["<unk>"], continuing_subword_prefix="##", end_of_word_suffix="</w>", limit_alphabet=60, show_progress=False),
        N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents(), N.Replace(Regex("[0-9]+"), "0")]), P.Sequence([P.WhitespaceSplit(), P.Punctuation()]), template, None)
    yield "words by expression", train(M.BPE(unk_token="<unk>"), T.BpeTrainer(vocab_size=420, special_tokens=["<unk>"], limit_alphabet=60, show_progress=False), N.NFKD(), P.Sequence([P.Whitespace(), P.Digits(False), P.CharDelimiterSplit("e")]), None, D.Fuse())

def main():
    out = []
    for name, t in all():
        rows = []
        for text in texts():
            t.encode_special_tokens = False
            ids, special = t.encode(text, add_special_tokens=False).ids, t.encode(text).ids
            t.encode_special_tokens = True
            plain = t.encode(text, add_special_tokens=False).ids
            t.encode_special_tokens = False
            rows.append({"text": text, "ids": ids, "special": special, "plain": plain, "decoded": t.decode(special, skip_special_tokens=False), "skipped": t.decode(special)})
        spec = json.loads(t.to_str())
        out.append({"name": name, "tokenizer": spec, "rows": rows})
        print(name, len(spec["model"]["vocab"]), sum(len(r["ids"]) for r in rows), file=sys.stderr)
    with open(sys.argv[1], "w") as f:
        f.write("[" + ",\n".join(json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in out) + "]\n")

if __name__ == "__main__": main()
