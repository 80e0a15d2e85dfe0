"""What the end-to-end checks share. Each check is a program: exit code 0 passed, 1 failed, 77 skipped."""

import argparse
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77


def arguments(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/release/1bit"), help="the program to check")
    parser.add_argument("--full", action="store_true", help="also what takes long")
    args = parser.parse_args()
    args.binary = os.path.abspath(args.binary)
    return args


def shared(name):
    """A folder of reference data beside the repository, or None."""
    folder = pathlib.Path(os.environ.get("ONEBIT_SHARED", ROOT.parent / "shared")) / name
    return folder if folder.exists() else None


def skip(why):
    print(f"SKIPPED: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


def run(binary, *args, timeout=300, stdin="", env=None):
    """Runs the program; gives (exit code, stdout, stderr)."""
    full = dict(os.environ, **(env or {}))
    r = subprocess.run([binary, *map(str, args)], capture_output=True, text=True, timeout=timeout, input=stdin, env=full)
    return r.returncode, r.stdout, r.stderr


def evidence(family, form, against, worst):
    """Notes what a check has shown, as the tests in Rust do (`onebit_reference::evidence`)."""
    file = os.environ.get("ONEBIT_EVIDENCE")
    if file:
        line = {"family": family.removesuffix("_in_gguf"), "form": form, "against": against, "worst": worst, "test": pathlib.Path(sys.argv[0]).stem}
        with open(file, "a") as out:
            out.write(json.dumps(line) + "\n")


class Tally:
    """Counts checks, prints each that fails, and ends the program."""

    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, name, ok, detail=""):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {name} {detail}", flush=True)
        return ok

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed or not self.passed else 0)


TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"


def tokenizer(folder, pieces=(), special=()):
    """Writes `tokenizer.json` with a token for each byte, and behind them tokens for `pieces` and special ones, and the chat template."""
    # Byte-level BPE writes a byte as a character that can be printed: itself, or one of those from 256 on.
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    written = [chr(b if b in printable else next(others)) for b in range(256)]
    vocabulary = {text: b for b, text in enumerate(written)}
    for piece in pieces:
        vocabulary["".join(written[b] for b in piece.encode())] = len(vocabulary)
    assert len(vocabulary) == 256 + len(pieces), "pieces have to differ"
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    bpe = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": len(vocabulary) + i, "content": text} | plain for i, text in enumerate(special)]
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": level}
    whole |= {"post_processor": None, "decoder": level, "model": bpe | {"byte_fallback": False, "vocab": vocabulary, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def byte_model(folder):
    """A tiny model of random weights, whose tokens are bytes."""
    for file in ("config.json", "model.safetensors"):
        shutil.copy(ROOT / "crates/models/tests/data/llama" / file, folder)
    tokenizer(folder)
    return folder


def script_model(folder, pieces, loops=False, context=4096):
    """A model of the shape of Llama that answers each chat with the same text: one piece after the other, which have to differ, and then
    its end, or the first piece again. No token looks at others: what comes after one is told by its embedding alone."""
    import numpy
    from safetensors.numpy import save_file

    end, width, count = 256 + len(pieces), 128, 256 + len(pieces) + 1
    tokenizer(folder, pieces, ["<end>"])
    random = numpy.random.default_rng(7)
    embedding = random.choice([-1.0, 1.0], (count, width)).astype(numpy.float32)
    after = numpy.full(count, ord("?"))
    after[ord(":")] = 256
    after[256:end] = range(257, end + 1)
    if loops:
        after[end - 1] = 256
    head = numpy.zeros((count, width), numpy.float32)
    for token, following in enumerate(after):
        if token == ord(":") or token >= 256:
            head[following] += embedding[token]
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width, "intermediate_size": width}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": count, "rms_norm_eps": 1e-6}
    config |= {"max_position_embeddings": context, "rope_theta": 10000.0, "tie_word_embeddings": False, "eos_token_id": end, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config))
    zeros = lambda *shape: numpy.zeros(shape, numpy.float32)
    ones = numpy.ones(width, numpy.float32)
    layer = "model.layers.0."
    tensors = {"model.embed_tokens.weight": embedding, "lm_head.weight": head, "model.norm.weight": ones}
    tensors |= {layer + "input_layernorm.weight": ones, layer + "post_attention_layernorm.weight": ones}
    for name, shape in {"q": (width, width), "k": (width // 2, width), "v": (width // 2, width), "o": (width, width)}.items():
        tensors[layer + f"self_attn.{name}_proj.weight"] = zeros(*shape)
    for name in ("gate", "up", "down"):
        tensors[layer + f"mlp.{name}_proj.weight"] = zeros(width, width)
    save_file(tensors, folder / "model.safetensors")
    return folder


def write_gguf(path, metadata, tensors):
    """A GGUF v3 file. metadata: {key: str | int | float | bool | list of str}; tensors: {name: (shape outermost first, type id, bytes)}."""
    def text(s):
        b = s.encode()
        return struct.pack("<Q", len(b)) + b

    def value(v):
        if isinstance(v, bool):
            return struct.pack("<I?", 7, v)
        if isinstance(v, int):
            return struct.pack("<II", 4, v)
        if isinstance(v, float):
            return struct.pack("<If", 6, v)
        if isinstance(v, str):
            return struct.pack("<I", 8) + text(v)
        return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(text, v))

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(text(k) + value(v) for k, v in metadata.items())
    offset = 0
    for name, (shape, kind, raw) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, offset)
        offset += -(-len(raw) // 32) * 32
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32))
        for _, _, raw in tensors.values():
            f.write(raw + b"\0" * (-len(raw) % 32))
