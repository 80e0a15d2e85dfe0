"""Vocabularies in GGUF files against what llama.cpp does with the same files; part of check_tokenizers.py."""

import ctypes
import json
import os
import pathlib
import re
import tempfile
import unicodedata

import common
import llama_cpp

# Each name once: what llama.cpp knows by several names is one kind.
NAMES = """default minicpm5 llama-bpe deepseek-llm deepseek-coder deepseek-v3 spark2_5 youtu falcon mpt starcoder gpt-2 jais-2 qwen2 qwen35 stablelm2 olmo
dbrx smaug-bpe poro-chat chatglm-bpe viking jais tekken smollm codeshell bloom gpt3-finnish exaone exaone4 exaone-moe chameleon minerva-7b megrez gpt-4o
llama4 kanana2 talkie granite-embed-multi-97m tiny_aya cohere2moe superbpe trillion granite-docling bailingmoe bailingmoe2 llada-moe seed-coder hunyuan
hunyuan-dense hy_v4 joyai-llm kimi-k2 ufakzeka grok-2 afmoe laguna minimax-m2 solar-open mellum2 llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2
jina-v5-nano phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jina-v1-en jina-v2-code roberta-bpe refact command-r
deepseek-r1-qwen kormo f2llmv2 glm4""".split()


class Theirs:
    """A vocabulary in llama.cpp."""

    def __init__(self, path):
        self.lib = llama_cpp.library()
        params = self.lib.llama_model_default_params()
        raw = (ctypes.c_uint8 * 1024).from_buffer(params)
        # `vocab_only` is the first of the booleans, which come after the pointers.
        at = next(i for i in range(48, 128, 8) if any(raw[i : i + 8]))
        if any(b > 1 for b in raw[at : at + 8]):
            common.skip("llama.cpp's model parameters are not as expected")
        raw[at] = 1
        self.model = self.lib.llama_model_load_from_file(os.fsencode(path), params)
        self.vocab = self.model and self.lib.llama_model_get_vocab(self.model)

    def __bool__(self):
        return bool(self.model)

    def __call__(self, text, special=False):
        data = text.encode()
        tokens = (ctypes.c_int32 * (len(data) + 16))()
        count = self.lib.llama_tokenize(self.vocab, data, len(data), tokens, len(tokens), special, False)
        return list(tokens[:count])


def write(path, model, tokens, kinds=None, **more):
    """A GGUF file that holds a vocabulary, and a weight that nobody needs."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    if kinds:
        writer.add_token_types(kinds)
    for key, value in more.items():
        key = "tokenizer.ggml." + key.replace("__", ".")
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_array(key, value)  # of bytes, too
    writer.add_tensor("x", np.zeros(4, np.float32))
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file()
    writer.close()


def published():
    base = pathlib.Path(os.environ.get("ONEBIT_TOKENIZERS", common.ROOT / "target/tokenizers")) / "qwen3/tokenizer.json"
    return json.loads(base.read_text()) if base.exists() else None


def usual(text):
    """What llama.cpp's classes of characters agree on: no rare spaces, no characters that its tables lack, composed."""
    return all(unicodedata.category(c) not in ("Cn", "Co", "Cf", "Cc", "Zl", "Zp") or c in "\n\t\r" for c in text) and unicodedata.is_normalized("NFC", text)


def names(check, folder):
    spec = published()
    if spec is None:
        print("SKIPPED: no published vocabulary for the names of pre-tokenizers")
        return
    tokens = [text for text, _ in sorted(spec["model"]["vocab"].items(), key=lambda e: e[1])]
    merges = [m if isinstance(m, str) else " ".join(m) for m in spec["model"]["merges"]]
    given = [text for text in check.texts if usual(text) and len(text) < 3000]
    for name in NAMES:
        path = folder / "names.gguf"
        write(path, "gpt2", tokens, pre=name, merges=merges, bos_token_id=0, eos_token_id=0, seperator_token_id=0, add_bos_token=False)
        theirs = Theirs(path)
        if not theirs:
            print(f"SKIPPED: this llama.cpp does not know {name}")
            continue
        check.compare(f"gguf {name}", path, theirs, given=[text for text in given if not KNOWN.get(name, lambda _: False)(text)])


def marked(text):
    return any(unicodedata.category(c)[0] == "M" for c in text)


def cased(text):
    """Letters where a small one is followed by a capital, or by one without case."""
    kinds = "".join({"Lu": "U", "Lt": "U", "Ll": "l", "Lm": "o", "Lo": "o"}.get(unicodedata.category(c), "-") for c in text)
    return marked(text) or re.search("lU|Ul*o|oU|UUl|lo|ol", kinds)


# Where llama.cpp, which has no classes of letters by case, is known not to do what the models' own tokenizers do.
KNOWN = {
    **dict.fromkeys(["tekken", "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], marked),
    **dict.fromkeys(["youtu", "tiny_aya", "cohere2moe", "kimi-k2"], cased),
    # Its range of compatibility ideographs starts at U+8C48 instead of U+F900, and it does not cut before numbers.
    "afmoe": lambda text: re.search(r"[\ua000-\uabff\ud7b0-\uf8ff]|\s\s\d", text),
}


def scored(check, folder):
    import sentencepiece
    from check_tokenizers import sentence_piece_models
    from sentencepiece import sentencepiece_model_pb2 as pb

    for name, model in sentence_piece_models():
        kind = name.split()[0]
        if (kind == "bpe") != ("byte_fallback" in name) or "user" in name and kind == "unigram" or (kind == "bpe" and "identity" not in name):
            continue
        proto = pb.ModelProto.FromString(model)
        spec = proto.normalizer_spec
        path = folder / "scored.gguf"
        more = {"scores": [p.score for p in proto.pieces], "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "add_space_prefix": spec.add_dummy_prefix}
        if kind == "unigram":
            more |= {"remove_extra_whitespaces": spec.remove_extra_whitespaces}
            more |= {"precompiled_charsmap": spec.precompiled_charsmap} if spec.precompiled_charsmap else {}
        write(path, "t5" if kind == "unigram" else "llama", [p.piece for p in proto.pieces], [p.type for p in proto.pieces], **more)
        given = [text for text in check.texts if "\0" not in text and len(text) < 3000]
        given = [text for text in given if not text.rstrip().endswith("▁")]  # taken for a space, and removed, by sentencepiece only
        if kind == "unigram" and not spec.add_dummy_prefix:
            given = [text for text in given if text.strip() == text]
        theirs = Theirs(path)
        if not check.tally.check(f"llama.cpp reads {name}", theirs):
            continue
        check.compare(f"gguf {name}", path, theirs, given=given)
        check.compare(f"gguf {name}, with special tokens", path, lambda text: theirs(text, True), "--special", given=given)


def bert(check, folder, lines):
    tokens = [t[2:] if t.startswith("##") else t if t.startswith("[") and t.endswith("]") else "▁" + t for t in lines]
    kinds = [3 if t.startswith("[") and t.endswith("]") else 1 for t in lines]
    ids = {t: i for i, t in enumerate(lines)}
    path = folder / "bert.gguf"
    write(path, "bert", tokens, kinds, bos_token_id=ids["[CLS]"], seperator_token_id=ids["[SEP]"], unknown_token_id=ids["[UNK]"], padding_token_id=0)
    theirs = Theirs(path)
    given = [text for text in check.texts if usual(text) and "[" not in text and all(len(word) <= 100 for word in text.split())]
    # llama.cpp removes all marks, not only those that take no space, and does not take syllables of Hangul apart.
    given = [text for text in given if not re.search("[\uac00-\ud7a3]", text) and all(unicodedata.category(c)[0] != "M" for c in text)]
    check.compare("gguf bert", path, lambda text: theirs(text, True), "--special", given=given)


def greedy(check, folder):
    """A vocabulary as RWKV's: literals of Python, bytes where they are not UTF-8."""
    spec = published()
    if spec is None:
        print("SKIPPED: no published vocabulary for RWKV's kind")
        return
    from make_vocabularies import byte_alphabet

    visible = {c: b for b, c in byte_alphabet().items()}
    words = [bytes(visible[c] for c in text) for text, _ in sorted(spec["model"]["vocab"].items(), key=lambda e: e[1])[:20000]]

    def literal(word):
        try:
            return word.decode().translate({92: "\\\\", 10: "\\n", 9: "\\t", 13: "\\r"}) if b"\0" not in word else "\\x00"
        except UnicodeDecodeError:
            return "".join(f"\\x{b:02x}" for b in word)

    path = folder / "rwkv.gguf"
    tokens = ["<s>", *dict.fromkeys(map(literal, words))]
    write(path, "rwkv", tokens, [3] + [1] * (len(tokens) - 1))
    theirs = Theirs(path)
    check.compare("gguf rwkv", path, theirs, given=[text for text in check.texts if "<s>" not in text])


def lattice(check, folder):
    from check_tokenizers import sentence_piece_models
    from sentencepiece import sentencepiece_model_pb2 as pb

    name, model = next((n, m) for n, m in sentence_piece_models() if n.startswith("unigram identity byte_fallback"))
    pieces = pb.ModelProto.FromString(model).pieces
    tokens = [p.piece.replace("▁", " ") for p in pieces]
    kinds = [1 if p.type == 4 else p.type for p in pieces]
    path = folder / "plamo2.gguf"
    write(path, "plamo2", tokens, kinds, scores=[p.score for p in pieces], bos_token_id=1, eos_token_id=2, unknown_token_id=0, add_bos_token=False)
    given = [text for text in check.texts if len(text) < 3000 and not re.search("<s>|</s>|<unk>", text)]
    check.compare("gguf plamo2", path, Theirs(path), given=given)


def run(check, lines):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        bert(check, folder, lines)
        greedy(check, folder)
        lattice(check, folder)
        scored(check, folder)
        names(check, folder)
