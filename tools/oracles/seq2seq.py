"""Fixtures of encoders with decoders: tiny random models of transformers 5.24, with the logits that it computes in f32.

    python tools/oracles/seq2seq.py crates/models/tests/data [NAME ...]

A folder holds `config.json`, `generation_config.json`, `model.safetensors`, and `expected.safetensors` with `source_short`, `source_long`
(what the encoder reads), `ids_short`, `ids_long` (what the decoder reads) and what `crates/reference/src/check.rs` says of decoders.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

SEED = 3
VOCABULARY = 64

# Encoder and decoder differ in all that can differ.
BART = dict(vocab_size=VOCABULARY, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=2,
            encoder_ffn_dim=24, decoder_ffn_dim=20, max_position_embeddings=64)
# Layers that are not as wide as all heads together.
T5 = dict(vocab_size=VOCABULARY, d_model=16, d_kv=6, d_ff=24, num_layers=3, num_decoder_layers=2, num_heads=2, decoder_start_token_id=0)
OWN_HEAD = dict(T5, tie_word_embeddings=False)
FAMILIES = {
    "t5": ("T5", dict(T5, relative_attention_num_buckets=12), {}),
    "t5_gated": ("T5", dict(OWN_HEAD, feed_forward_proj="gated-gelu"), {}),
    "t5_near": ("T5", dict(OWN_HEAD, feed_forward_proj="gated-silu", relative_attention_num_buckets=8, relative_attention_max_distance=20), {}),
    "umt5": ("UMT5", dict(OWN_HEAD), {}),
    "mt5": ("MT5", dict(OWN_HEAD), {}),
    "bart": ("Bart", dict(BART), dict(forced_bos_token_id=0)),
    "mbart": ("MBart", dict(BART, scale_embedding=True, decoder_start_token_id=5), dict(forced_bos_token_id=7)),
    "plbart": ("PLBart", dict(BART, scale_embedding=True, decoder_start_token_id=6), {}),
    "pegasus": ("Pegasus", dict(BART, scale_embedding=True, activation_function="relu", decoder_start_token_id=0), {}),
    "marian": ("MarianMT", dict(BART, scale_embedding=True, activation_function="swish", pad_token_id=63, eos_token_id=0,
                                decoder_start_token_id=63), dict(bad_words_ids=[[63]])),
    "m2m_100": ("M2M100", dict(BART, scale_embedding=True, activation_function="relu", decoder_start_token_id=2), {}),
    "blenderbot": ("Blenderbot", dict(BART, scale_embedding=True, decoder_start_token_id=1), {}),
    "blenderbot_small": ("BlenderbotSmall", dict(BART, scale_embedding=True, decoder_start_token_id=1), {}),
}


def draw(model, generator):
    """Weights that make differences visible: matrices that keep sizes, norms around one, biases that are not zero."""
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not tensor.requires_grad and "final_logits_bias" not in name:
            continue
        if tensor.dim() > 1 and "final_logits_bias" not in name:
            new = torch.randn(tensor.shape, generator=generator) * (0.5 if "embed" in name or "shared" in name else 1.4 / tensor.shape[-1] ** 0.5)
            if name.endswith("Attention.q.weight"):
                new /= model.config.d_kv**0.5  # T5 does not scale its scores
        else:
            around = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            new = around + 0.1 * torch.randn(tensor.shape, generator=generator)
        tensor.data.copy_(new.bfloat16())


def publish(out, logits, model):
    """Has the configuration say what published checkpoints say, in place of what transformers 5 makes of it."""
    config = json.loads((out / "config.json").read_text())
    config.pop("scale_decoder_outputs", None)
    (out / "config.json").write_text(json.dumps(dict(config, tie_word_embeddings=False), indent=2) + "\n")


def make(folder, name):
    kind, settings, generation = FAMILIES[name]
    config = getattr(transformers, kind.removesuffix("MT") + "Config")(**settings)
    cls = kind + ("Model" if kind == "MarianMT" else "ForConditionalGeneration")
    torch.manual_seed(SEED)
    model = getattr(transformers, cls)(config).eval()
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        draw(model, generator)
        model.tie_weights()
        if settings.get("tie_word_embeddings") is False:
            # transformers ties them, and leaves them apart where a checkpoint has both.
            new = torch.randn(model.lm_head.weight.shape, generator=generator) * 0.4
            model.lm_head.weight = torch.nn.Parameter(new.bfloat16().float())
    tokens = lambda n: torch.randint(3, VOCABULARY - 1, (n,), generator=generator)
    sources = {"short": tokens(5), "long": tokens(43)}
    for key, value in generation.items():
        setattr(model.generation_config, key, value)
    start = [config.decoder_start_token_id] + [generation[key] for key in generation if key == "forced_bos_token_id"]
    answers = {"short": torch.tensor(start), "long": torch.cat([torch.tensor(start), tokens(38)])}

    def logits(source, ids):
        with torch.no_grad():
            return model(input_ids=source[None], decoder_input_ids=ids[None], use_cache=False).logits[0]

    expected = {}
    for size in ["short", "long"]:
        expected[f"source_{size}"], expected[f"ids_{size}"] = sources[size], answers[size]
        expected[f"logits_{size}"] = logits(sources[size], answers[size])
    ids, greedy, margins = answers["short"], [], []
    for _ in range(16):
        top = logits(sources["short"], ids)[-1].topk(2)
        greedy.append(top.indices[0])
        margins.append(top.values[0] - top.values[1])
        ids = torch.cat([ids, greedy[-1:][0][None]])
    expected["greedy"], expected["greedy_margin"] = torch.stack(greedy), torch.stack(margins)
    out = pathlib.Path(folder) / name
    model.bfloat16().save_pretrained(out)
    save_file({k: v.contiguous() for k, v in expected.items()}, out / "expected.safetensors")
    if settings.get("tie_word_embeddings") is False:
        publish(out, logits, model)
    (out / "meta.json").write_text(json.dumps({"transformers": transformers.__version__}) + "\n")
    print(name, sorted(json.loads((out / "config.json").read_text())), (out / "model.safetensors").stat().st_size)


if __name__ == "__main__":
    for name in sys.argv[2:] or FAMILIES:
        make(sys.argv[1], name)
