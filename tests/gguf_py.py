"""A small converter of Hugging Face directories to GGUF, by the tables of the package gguf: its names of architectures and tensors.

It knows settings and what is done to values from llama.cpp's documentation and reader, not from 1bit's code."""

import json
import re
import struct

import gguf
import numpy as np

KEYS = gguf.Keys
# What GGUF calls a setting, and the names that configurations have for it.
NUMBERS = {
    KEYS.LLM.EMBEDDING_LENGTH: ["hidden_size", "n_embd"],
    KEYS.LLM.FEED_FORWARD_LENGTH: ["intermediate_size", "n_inner"],
    KEYS.LLM.CONTEXT_LENGTH: ["max_position_embeddings", "n_positions"],
    KEYS.LLM.BLOCK_COUNT: ["num_hidden_layers", "n_layer"],
    KEYS.LLM.VOCAB_SIZE: ["vocab_size"],
    KEYS.LLM.EXPERT_COUNT: ["num_local_experts", "num_experts"],
    KEYS.LLM.EXPERT_USED_COUNT: ["num_experts_per_tok"],
    KEYS.LLM.EXPERT_FEED_FORWARD_LENGTH: ["moe_intermediate_size"],
    KEYS.LLM.EMBEDDING_SCALE: ["embedding_multiplier"],
    KEYS.LLM.RESIDUAL_SCALE: ["residual_multiplier"],
    KEYS.LLM.LOGIT_SCALE: ["logits_scaling"],
    KEYS.LLM.USE_PARALLEL_RESIDUAL: ["use_parallel_residual"],
    KEYS.LLM.FINAL_LOGIT_SOFTCAPPING: ["final_logit_softcapping"],
    KEYS.Attention.HEAD_COUNT: ["num_attention_heads", "n_head"],
    KEYS.Attention.HEAD_COUNT_KV: ["num_key_value_heads"],
    KEYS.Attention.KEY_LENGTH: ["head_dim"],
    KEYS.Attention.VALUE_LENGTH: ["head_dim"],
    KEYS.Attention.SCALE: ["attention_multiplier"],
    KEYS.Attention.LAYERNORM_RMS_EPS: ["rms_norm_eps"],
    KEYS.Attention.LAYERNORM_EPS: ["layer_norm_epsilon", "layer_norm_eps", "norm_epsilon", "norm_eps"],
    KEYS.SSM.CONV_KERNEL: ["conv_kernel"],
    KEYS.SSM.STATE_SIZE: ["state_size"],
    KEYS.SSM.TIME_STEP_RANK: ["time_step_rank"],
}


def pairs(heads):
    """Rows of halves of heads as rows of adjacent pairs."""
    return lambda x: x.reshape(heads, 2, -1, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def interleaved(config):
    """llama.cpp turns adjacent dimensions of Llama's heads."""
    heads = config["num_attention_heads"]
    keys = config.get("num_key_value_heads", heads)
    return {r"q_proj\.(weight|bias)$": pairs(heads), r"k_proj\.(weight|bias)$": pairs(keys)}


def centred(_):
    """Gemma's norms are stored less one."""
    return {r"norm\.weight$": lambda x: x + 1}


def transposed(_):
    """GPT-2's matrices have their inputs as rows."""
    return {r"(c_attn|c_proj|c_fc)\.weight$": np.transpose}


def decays(_):
    """Mamba's decays are stored as their logarithm, and its convolution with a dimension of one."""
    return {r"A_log$": lambda x: -np.exp(x), r"conv1d\.weight$": lambda x: x.squeeze(1)}


def mapped(_):
    return {}


# By fixture: the architecture's name in GGUF files, and what is done to values.
FAMILIES = {
    "arcee": ("arcee", interleaved),
    "falcon_mamba": ("mamba", decays),
    "gemma": ("gemma", centred),
    "gpt2": ("gpt2", transposed),
    "granite": ("granite", interleaved),
    "granitemoe": ("granitemoe", interleaved),
    "internlm3": ("llama", interleaved),
    "llama": ("llama", interleaved),
    "mamba": ("mamba", decays),
    "mistral": ("llama", interleaved),
    "mixtral": ("llama", interleaved),
    "nemotron": ("nemotron", centred),
    "olmo2": ("olmo2", mapped),
    "phi3": ("phi3", mapped),
    "qwen2": ("qwen2", mapped),
    "qwen3": ("qwen3", mapped),
    "qwen3_moe": ("qwen3moe", mapped),
    "seed_oss": ("seed_oss", mapped),
    "stablelm": ("stablelm", mapped),
    "starcoder2": ("starcoder2", mapped),
}


def tensors(folder):
    """All tensors of `model.safetensors`, as float32."""
    raw = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            if entry["dtype"] == "BF16":
                flat = (np.frombuffer(raw[begin:end], "<u2").astype("<u4") << 16).view("<f4")
            else:
                flat = np.frombuffer(raw[begin:end], {"F32": "<f4", "F16": "<f2"}[entry["dtype"]]).astype("<f4")
            yield name, flat.reshape(entry["shape"])


def stacked(items):
    """Experts that stand by themselves, as one tensor for each layer and matrix."""
    experts = {}
    for name, value in items:
        one = re.fullmatch(r"(.*\.experts)\.(\d+)(\..*)", name)
        if one:
            experts.setdefault(one[1] + one[3], {})[int(one[2])] = value
        else:
            yield name, value
    for name, parts in experts.items():
        yield name, np.stack([parts[i] for i in range(len(parts))])


def parted(name, value):
    """Matrices of several parts where llama.cpp has one tensor for each (Granite's experts)."""
    if name.endswith("block_sparse_moe.input_linear.weight"):
        gate, up = np.split(value, 2, axis=1)
        return [(name.replace("input_linear", part), x) for part, x in [("experts.w1", gate), ("experts.w3", up)]]
    return [(name.replace("block_sparse_moe.output_linear", "block_sparse_moe.experts.w2").replace("router.layer", "gate"), value)]


def write_settings(writer, arch, config):
    for key, names in NUMBERS.items():
        value = next((config[name] for name in names if config.get(name) is not None), None)
        key = key.format(arch=arch)
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif value is not None:
            writer.add_uint32(key, value)
    if arch == "mamba":
        writer.add_ssm_inner_size(config["intermediate_size"])
        writer.add_ssm_dt_b_c_rms(config["model_type"] == "falcon_mamba")
        writer.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
        writer.add_context_length(2**20)
        writer.add_head_count(0)
        return
    rope = config.get("rope_parameters") or {}
    heads = config.get("num_attention_heads") or config["n_head"]
    width = config.get("hidden_size") or config["n_embd"]
    head = config.get("head_dim") or width // heads
    if rope:
        writer.add_rope_freq_base(rope["rope_theta"])
        writer.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))


def llama3_factors(config):
    """By what the frequencies of Llama 3.1 are divided (its reference code)."""
    rope = config["rope_parameters"]
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    wavelengths = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, head, 2) / head)
    low, high, length = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    smooth = np.clip((length / wavelengths - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).astype("<f4")


def convert(folder, out):
    """Writes the GGUF form of a fixture in the folder to the file `out`; the architecture's name in it."""
    config = json.loads((folder / "config.json").read_text())
    arch, changes = FAMILIES[folder.name]
    writer = gguf.GGUFWriter(out, arch)
    write_settings(writer, arch, config)
    writer.add_tokenizer_model("none")
    kind = next(kind for kind, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(kind, config.get("num_hidden_layers") or config["n_layer"])
    changes = changes(config)
    if (config.get("rope_parameters") or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    for stored, values in stacked(tensors(folder)):
        if config.get("tie_word_embeddings") and stored.endswith("lm_head.weight"):
            continue
        for name, value in parted(stored, values):
            for pattern, change in changes.items():
                value = change(value) if re.search(pattern, name) else value
            found = names.get_name(name, try_suffixes=(".weight", ".bias"))
            assert found, f"gguf has no name for {name}"
            writer.add_tensor(found, np.ascontiguousarray(value, "<f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return arch
