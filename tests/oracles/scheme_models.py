#!/usr/bin/env python3
"""Tiny models of three families in every quantization scheme, and the logits that transformers computes from the values that each scheme's
own package decodes.

    scheme_models.py GPTQMODEL AUTOAWQ MODELOPT

(folders of sources, see schemes.py) writes to `crates/cpu/tests/data/schemes`

- `FAMILY/config.json`, `FAMILY/model.safetensors` (what is not quantized), `FAMILY/modules.json` (which matrix each module is)
- `SCHEME.safetensors`: the matrices `a`, `b`, `c` as modules, and the embedding `e` where the scheme quantizes it too
- `schemes.json`: what `config.json` says of each scheme, and under which key
- `expected.safetensors`: `ids`, and `SCHEME/FAMILY` -> logits

All modules of a model are among three matrices, so that the files stay small; the test puts the models together.
"""

import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file
from schemes import schemes
from transformers import AutoConfig, AutoModelForCausalLM

OUT = pathlib.Path(__file__).resolve().parents[2] / "crates/cpu/tests/data/schemes"
WIDTH, EXPERTS, VOCABULARY = 64, 3, 32
COMMON = dict(
    vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=WIDTH, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4,
    head_dim=16, max_position_embeddings=64, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
FAMILIES = {
    "llama": {},
    "qwen3": {},
    "qwen3_moe": dict(num_experts=EXPERTS, num_experts_per_tok=2, moe_intermediate_size=WIDTH, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True),
}
LAYER = "model.layers.0"
ATTENTION = {f"{LAYER}.self_attn.{m}_proj": of for m, of in zip("qkvo", "abca")}
DENSE = {f"{LAYER}.mlp.{m}_proj": of for m, of in zip(("gate", "up", "down"), "bca")}
EACH = {f"{LAYER}.mlp.experts.{e}.{m}_proj": "abc"[(e + i) % 3] for e in range(EXPERTS) for i, m in enumerate(("gate", "up", "down"))}


def model(family):
    cls = type(AutoConfig.for_model(family))
    config = cls(**(COMMON | FAMILIES[family]))
    config._experts_implementation = "eager"
    out = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    g = torch.Generator().manual_seed(len(family))
    with torch.no_grad():
        for name, p in sorted(out.named_parameters()):
            normal = torch.randn(p.shape, generator=g)
            p.copy_((1 + 0.1 * normal if "norm" in name else normal * 0.3).bfloat16().float())
    return out


def matrix(seed):
    w = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(seed)) * 1.2 / WIDTH**0.5
    return w.bfloat16().float()


def quantized(scheme):
    """Tensors of the matrices, their `__metadata__`, and their values."""
    if scheme is None:
        values = {m: matrix(i) for i, m in enumerate("abc")}
        return {f"{m}.weight": v.bfloat16() for m, v in values.items()}, None, values
    tensors, metadata, values = {}, {}, {}
    for seed, m in enumerate("abc"):
        parts, expected, *said = scheme.quantize(matrix(seed), seed)
        tensors |= {m + k.removeprefix("m"): v for k, v in parts.items()}
        values[m] = expected.float()
        if said:
            metadata[f"{m}.weight"] = said[0]
    if scheme.name.startswith("mlx"):
        parts, expected = scheme.quantize(model("llama").state_dict()["model.embed_tokens.weight"], 3)
        tensors |= {"e" + k.removeprefix("m"): v for k, v in parts.items()}
        values["e"] = expected
    return tensors, metadata or None, values


def state_of(family, plain, values):
    """The state of transformers with these matrices."""
    state = dict(plain)
    if "e" in values:
        state["model.embed_tokens.weight"] = state["lm_head.weight"] = values["e"]
    for name, m in ATTENTION.items():
        state[f"{name}.weight"] = values[m]
    if family == "qwen3_moe":
        expert = lambda e, part: values[EACH[f"{LAYER}.mlp.experts.{e}.{part}_proj"]]
        both = [torch.cat([expert(e, "gate"), expert(e, "up")]) for e in range(EXPERTS)]
        state[f"{LAYER}.mlp.experts.gate_up_proj"] = torch.stack(both)
        state[f"{LAYER}.mlp.experts.down_proj"] = torch.stack([expert(e, "down") for e in range(EXPERTS)])
    else:
        state |= {f"{name}.weight": values[m] for name, m in DENSE.items()}
    return state


def logits(family, state, ids):
    of = model(family)
    of.load_state_dict(state)
    with torch.no_grad():
        return of(input_ids=ids[None], use_cache=False).logits[0].float().contiguous()


def save(name, tensors, metadata=None):
    save_file({k: v.detach().clone().contiguous() for k, v in tensors.items()}, OUT / f"{name}.safetensors", metadata=metadata)


def family_files(family, state):
    folder = OUT / family
    folder.mkdir(parents=True)
    config = {k: v for k, v in model(family).config.to_dict().items() if v is not None}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "modules.json").write_text(json.dumps(ATTENTION | (EACH if family == "qwen3_moe" else DENSE), indent=1))
    plain = {k: v.bfloat16() for k, v in state.items() if "_proj" not in k and k != "lm_head.weight"}
    save(f"{family}/model", plain)


def gpt_oss_experts(state, ids):
    """MXFP4 as gpt-oss stores it is for stacks of experts only; the rest is plain."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    g = torch.Generator().manual_seed(5)
    tensors, out = {}, state_of("qwen3_moe", state, quantized(None)[2])
    for part in ("gate_up_proj", "down_proj"):
        name = f"{LAYER}.mlp.experts.{part}"
        shape = out[name].shape
        blocks = torch.randint(0, 256, (*shape[:2], shape[2] // 32, 16), generator=g, dtype=torch.uint8)
        scales = torch.randint(122, 126, (*shape[:2], shape[2] // 32), generator=g, dtype=torch.uint8)
        tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        out[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).transpose(1, 2)
    save("mxfp4", tensors)
    return logits("qwen3_moe", out, ids)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    ids = torch.randint(0, VOCABULARY, (8,), generator=torch.Generator().manual_seed(1))
    expected, said = {"ids": ids}, {}
    states = {family: {k: v.clone() for k, v in model(family).state_dict().items()} for family in FAMILIES}
    for family, state in states.items():
        family_files(family, state)
    for scheme in [None, *(s for s in schemes(*sys.argv[1:]) if s.models)]:
        name = scheme.name if scheme else "plain"
        tensors, metadata, values = quantized(scheme)
        save(name, tensors, metadata)
        said[name] = [scheme.key, scheme.config] if scheme else None
        for family, state in states.items():
            expected[f"{name}/{family}"] = logits(family, state_of(family, state, values), ids)
    expected["mxfp4/qwen3_moe"] = gpt_oss_experts(states["qwen3_moe"], ids)
    said["mxfp4"] = ["quantization_config", dict(quant_method="mxfp4")]
    save("expected", expected)
    (OUT / "schemes.json").write_text(json.dumps(said, indent=0))
    print(len(expected) - 1, "models")


if __name__ == "__main__":
    main()
