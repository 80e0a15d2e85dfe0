#!/usr/bin/env python3
"""Small vocabularies of every kind that is read, and what the Python package `tokenizers` does with them.

    pip install tokenizers==0.23.3
    make_tokenizers.py tokenizers.json
    make_tokenizers.py tokenizers_more.json more    # needs sentencepiece and protobuf, too

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
KIMI = r"""[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
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

UNK = ["<unk>"]
UNIGRAM = T.UnigramTrainer(vocab_size=300, special_tokens=UNK, unk_token="<unk>", show_progress=False)
def few_replacements():
    """A small table, for the tests: made by SentencePiece from rules given as a file."""
    import io, tempfile, sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
        for source, target in [("ﬁ", "fi"), ("\u2126", "\u03a9"), ("½", "1⁄2"), ("²", "2"), ("e\u0301", "é"), ("A\u030a", "Å"), ("\u00a0", " "), ("\u3000", " "), ("\u2003", " "), ("\t", " "), ("\n", " "), ("\u200b", " "), ("\ufeff", ""), ("\u200d", ""), ("か", "カ"), ("İ", "i\u0307"), ("ǅ", "dž"), ("カ\u3099", "ガ")]:
            f.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
        f.flush()
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=out, vocab_size=300, hard_vocab_limit=False, normalization_rule_tsv=f.name, minloglevel=2)
    return pb.ModelProto.FromString(out.getvalue()).normalizer_spec.precompiled_charsmap
def unigram(*rest, byte_fallback=False, size=300):
    t = train(M.Unigram(), T.UnigramTrainer(vocab_size=size, special_tokens=UNK + (BYTES if byte_fallback else []), unk_token="<unk>", show_progress=False), *rest)
    spec = json.loads(t.to_str())
    spec["model"]["byte_fallback"] = byte_fallback
    return Tokenizer.from_str(json.dumps(spec))
def bert(**options):
    return train(M.WordPiece(unk_token="[UNK]"), T.WordPieceTrainer(vocab_size=360, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], limit_alphabet=120, show_progress=False), N.BertNormalizer(**options), P.BertPreTokenizer(),
        lambda t: X.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]"))), D.WordPiece(), added=False)
def words(pre, decoder=None, normalizer=None):
    return train(M.WordLevel(unk_token="<unk>"), T.WordLevelTrainer(vocab_size=150, special_tokens=UNK, show_progress=False), normalizer, pre, None, decoder)

def more():
    few = N.Precompiled(few_replacements())
    yield "t5", unigram(N.Sequence([few, N.Replace(Regex(" {2,}"), " ")]), P.Sequence([P.WhitespaceSplit(), P.Metaspace("▁", "always")]), template, D.Metaspace("▁", "always"))
    yield "unigram to bytes", unigram(N.Nmt(), P.Metaspace("▁", "first", False), None, D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]), byte_fallback=True, size=560)
    yield "unigram, whole text", unigram(few, None, None, D.Sequence([D.Fuse(), D.Replace("th", "<th>"), D.Strip("▁", 1, 0)]))
    yield "bert, lower case", bert(lowercase=True)
    yield "bert, as written", bert(lowercase=False, handle_chinese_chars=False, clean_text=False)
    yield "bert, accents kept", bert(lowercase=True, strip_accents=False)
    yield "clip", train(M.BPE(unk_token="<|im_end|>", end_of_word_suffix="</w>"), T.BpeTrainer(vocab_size=640, special_tokens=["<|im_end|>"], initial_alphabet=P.ByteLevel.alphabet(), end_of_word_suffix="</w>", show_progress=False),
        N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]), P.Sequence([split(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "removed", True), P.ByteLevel(add_prefix_space=False)]), None, D.BPEDecoder("</w>"))
    yield "falcon", train(M.BPE(), T.BpeTrainer(vocab_size=420, initial_alphabet=P.ByteLevel.alphabet(), show_progress=False), None, P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False), P.Digits(False), split("[0-9][0-9][0-9]")]), None, D.ByteLevel())
    yield "bytes as a normalizer", train(M.BPE(), T.BpeTrainer(vocab_size=420, initial_alphabet=P.ByteLevel.alphabet(), show_progress=False), N.ByteLevel(), P.Split(Regex("Ġ?[a-z]+"), "isolated"), None, D.ByteLevel())
    yield "scripts", words(P.Sequence([P.UnicodeScripts(), P.WhitespaceSplit()]))
    yield "fixed length", words(P.FixedLength(3), D.Fuse())
    yield "ctc", words(split(""), D.CTC("e", "|", True))
    yield "word pieces of bytes", train(M.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20), T.WordPieceTrainer(vocab_size=420, special_tokens=["[UNK]"], initial_alphabet=P.ByteLevel.alphabet(), show_progress=False), None, P.ByteLevel(add_prefix_space=False), None, D.WordPiece("##", False))

def main():
    out = []
    chosen = more if sys.argv[2:] == ["more"] else all
    for name, t in chosen():
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
