#!/usr/bin/env python3
"""Rotary frequencies of many settings, as transformers computes them.

    rope.py OUT.json LLAMA

Each case: the keys of `config.json` (of a Llama with heads of 16), and for contexts up to a length the frequencies and the factor on
what turns. Cases of mRoPE give the axis that turns each pair. Then, for a setting of each kind, the logits of the last token of a
prompt of the model in the folder LLAMA. Made with transformers 5.24.
"""
import itertools
import json
import sys

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.persimmon.modeling_persimmon import PersimmonRotaryEmbedding
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLRotaryEmbedding
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

HEAD = 16
CONTEXT = 512


def computed(keys, length):
    """What transformers makes of `config.json` for a sequence of `length` tokens."""
    keys = json.loads(json.dumps(keys))
    config = LlamaConfig(**{"head_dim": HEAD, "hidden_size": 4 * HEAD, "num_attention_heads": 4, "max_position_embeddings": CONTEXT, **keys})
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        # Llama itself turns whole heads; Persimmon has the same formula for a part of them.
        return PersimmonRotaryEmbedding.compute_default_rope_parameters(config)
    return ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)


def case(keys, lengths=(64,)):
    at = []
    for length in lengths:
        frequencies, scale = computed(keys, length)
        at.append({"context": length, "frequencies": [float(f"{f:.9g}") for f in frequencies.tolist()], "scale": float(scale)})
    return {"config": keys, "at": at}


def forms(parameters, base=10000.0, **keys):
    """The new form, and the old ones."""
    kind = parameters["rope_type"]
    rest = {k: v for k, v in parameters.items() if k != "rope_type"}
    yield {"rope_parameters": {"rope_type": kind, "rope_theta": base, **rest}, **keys}
    yield {"rope_scaling": {"type": kind, **rest}, "rope_theta": base, **keys}
    yield {"rope_scaling": {"rope_type": kind, "type": kind, **rest}, "rope_theta": base, **keys}


def cases():
    for base in (10000.0, 500000.0, 1e6):
        yield case({"rope_parameters": {"rope_type": "default", "rope_theta": base}})
        yield case({"rope_theta": base})
        yield case({"rope_theta": base, "rope_scaling": None})
    yield case({"rope_parameters": {"rope_theta": 1e6}})
    # Both forms: the old one counts, alone.
    yield case({"rope_theta": 2e4, "rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "default", "rope_theta": 7e5}})
    yield case({"rope_theta": 2e4, "rope_scaling": {}, "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 7e5}})
    for part in (0.25, 0.5, 0.75):
        yield case({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": part}})
        yield case({"rope_theta": 1e4, "partial_rotary_factor": part})
        for kind, more in (("linear", {"factor": 3.0}), ("yarn", {"factor": 4.0, "original_max_position_embeddings": 128}), ("proportional", {})):
            yield case({"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, "partial_rotary_factor": part, **more}})
    for factor in (1.0, 2.5, 8.0):
        yield from (case(form) for form in forms({"rope_type": "linear", "factor": factor}))
        yield from (case(form, (64, 512, 513, 2048)) for form in forms({"rope_type": "dynamic", "factor": factor}))
        yield from (case(form) for form in forms({"rope_type": "proportional", "factor": factor, "partial_rotary_factor": 0.5}))
    for factor, low, high, original in itertools.product((4.0, 32.0), (1.0, 2.0), (4.0, 8.0), (64, 8192)):
        llama3 = {"rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high}
        yield case(next(forms({**llama3, "original_max_position_embeddings": original}, base=500000.0)))
    yield from (case(form) for form in forms({**llama3, "original_max_position_embeddings": 128}))
    yield case(next(forms(llama3)))
    yield case(next(forms(llama3, original_max_position_embeddings=96)))
    yarn = {"rope_type": "yarn", "factor": 4.0}
    options = [
        {}, {"factor": 1.0}, {"factor": 40.0}, {"factor": None}, {"attention_factor": 1.3}, {"attention_factor": None},
        {"beta_fast": 16.0}, {"beta_slow": 2.0}, {"beta_fast": None, "beta_slow": None}, {"beta_fast": 4, "beta_slow": 4},
        {"truncate": False}, {"truncate": True}, {"truncate": False, "beta_fast": 20.0, "beta_slow": 0.5},
        {"mscale": 1.0, "mscale_all_dim": 1.0}, {"mscale": 0.707, "mscale_all_dim": 0.707}, {"mscale": 1.0, "mscale_all_dim": 0.5},
        {"mscale": 1.0, "mscale_all_dim": 0.0}, {"mscale": 1.0}, {"mscale_all_dim": 1.0},
        {"mscale": 1.0, "mscale_all_dim": 0.5, "attention_factor": 0.9},
    ]
    for option, original in itertools.product(options, (32, 128, 4096)):
        yield case(next(forms({**yarn, **option, "original_max_position_embeddings": original})))
    yield from (case(form) for form in forms({**yarn, "original_max_position_embeddings": 128}, base=1e6))
    yield case(next(forms(yarn)))
    short = [1.0, 1.1, 1.2, 1.5, 2.0, 2.5, 3.0, 3.5]
    long = [1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0]
    longrope = {"rope_type": "longrope", "short_factor": short, "long_factor": long}
    for option in ({}, {"factor": 8.0}, {"factor": 0.5}, {"attention_factor": 1.19}, {"factor": None, "attention_factor": None}):
        yield from (case(form, (64, 128, 129, 512)) for form in forms({**longrope, "original_max_position_embeddings": 128, **option}))
    yield case(next(forms(longrope, original_max_position_embeddings=256)), (256, 257))


def logits(folder):
    """The last logits of the fixture's long prompt, with its context stretched in each way."""
    from safetensors.torch import load_file
    from transformers import LlamaForCausalLM

    ids = load_file(f"{folder}/expected.safetensors")["ids_long"][None]
    longrope = {"short_factor": [1.0, 1.1, 1.2, 1.5, 2.0, 2.5, 3.0, 3.5], "long_factor": [1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0]}
    for kind, more in {
        "default": {}, "linear": {"factor": 4.0}, "dynamic": {"factor": 4.0}, "proportional": {"partial_rotary_factor": 0.5},
        "yarn": {"factor": 4.0, "original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 0.5},
        "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
        "longrope": {**longrope, "original_max_position_embeddings": 16},
    }.items():
        keys = {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}, "max_position_embeddings": 16 if kind == "dynamic" else CONTEXT}
        model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **json.loads(json.dumps(keys)))
        with torch.no_grad():
            last = model(ids).logits[0, -1]
        yield {"config": keys, "context": ids.shape[1], "logits": [float(f"{x:.7g}") for x in last.tolist()]}


class Axes:
    """Which axis turns each pair: the positions are so far apart that the angle tells."""

    def __init__(self, make, interleaved):
        self.make, self.interleaved = make, interleaved

    def of(self, sections, pairs):
        module = self.make.__new__(self.make)
        torch.nn.Module.__init__(module)
        module.mrope_section = sections
        rows = torch.arange(3.0)[:, None].expand(3, pairs).clone()
        rows = rows if self.interleaved else torch.cat([rows], dim=-1)
        return [int(axis) for axis in module.recomposition_frequencies(rows)[:pairs]]


def axes():
    for make, interleaved, listed in (
        (Qwen2VLRotaryEmbedding, False, ([2, 3, 3], [4, 2, 2])),
        (Qwen3VLTextRotaryEmbedding, True, ([3, 3, 2], [4, 2, 2])),
    ):
        for sections in listed:
            pairs = sum(sections)
            yield {"sections": sections, "interleaved": interleaved, "axes": Axes(make, interleaved).of(sections, pairs)}


if __name__ == "__main__":
    rows = [json.dumps(c, separators=(",", ":")) for c in cases()]
    models = [json.dumps(c, separators=(",", ":")) for c in logits(sys.argv[2])]
    shared = [json.dumps(c, separators=(",", ":")) for c in axes()]
    with open(sys.argv[1], "w") as out:
        out.write('{"frequencies":[\n' + ",\n".join(rows) + '\n],"axes":[\n' + ",\n".join(shared) + '\n],"logits":[\n' + ",\n".join(models) + "\n]}\n")
    print(len(rows), "settings,", len(shared), "sections,", len(models), "models")
