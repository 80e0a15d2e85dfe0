"""Quantization schemes of Hugging Face directories: matrices quantized and decoded by each scheme's own package.

A scheme gives `config`, what `config.json` holds under `key`, and `quantize(weight, seed)`, which returns the tensors of a module `m`
(`m.qweight`, ...), the values that the package decodes, and what a file's `__metadata__` says of `m` (where it does).

Needs torch, transformers, safetensors, compressed-tensors, bitsandbytes, hqq, torchao, mlx[cpu], and the sources of gptqmodel, autoawq
and nvidia-modelopt (unpacked from PyPI: they do not install without a GPU's tools).
"""

import dataclasses
import importlib.util
import json
import sys
from collections.abc import Callable

import torch


@dataclasses.dataclass
class Scheme:
    name: str
    config: dict
    quantize: Callable
    key: str = "quantization_config"
    # What the model's tensor is called, where not a module's weight.
    tensor: str = "m.weight"
    # Whether models are made in it too (see scheme_models.py).
    models: bool = True


def gptq(source):
    sys.path.insert(0, source)
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.quantization.config import FORMAT

    def quantize(w, seed, bits, group, sym, order, version):
        rows, columns = w.shape
        size = columns if group == -1 else group
        g_idx = torch.arange(columns, dtype=torch.int32) // size
        if order:
            g_idx = g_idx[torch.randperm(columns, generator=torch.Generator().manual_seed(seed))]
        groups, top = columns // size, 2**bits - 1
        scales, zeros = torch.zeros(rows, groups), torch.zeros(rows, groups)
        for k in range(groups):
            part = w[:, g_idx == k]
            low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
            if sym:
                high = torch.maximum(-low, high)
                scales[:, k], zeros[:, k] = 2 * high / top, 2 ** (bits - 1)
            else:
                scales[:, k] = (high - low) / top
                # Version 1 cannot say zero.
                zeros[:, k] = (-low / scales[:, k]).round().clamp(1 if version == 1 else 0, top)
        scales = scales.half().float()

        def layer(zeros):
            layer = TorchLinear(bits=bits, group_size=group, sym=sym, desc_act=order, in_features=columns, out_features=rows, format=FORMAT.GPTQ_V2)
            linear = torch.nn.Linear(columns, rows, bias=False)
            linear.weight.data = w.clone()
            layer.pack_original(linear, scales, zeros, g_idx)
            return layer

        right = layer(zeros)
        # Version 1 has zero points less one, in the same packing.
        qzeros = (layer(zeros - 1) if version == 1 else right).qzeros.clone()
        right.post_init()
        expected = right.dequantize_weight().T
        return {"m.qweight": right.qweight, "m.qzeros": qzeros, "m.scales": right.scales, "m.g_idx": right.g_idx}, expected

    for bits, group, sym, order, version, models in [
        (4, 32, True, False, 1, True), (4, 32, False, True, 2, True), (2, 32, False, False, 2, True), (3, 32, False, False, 2, True),
        (8, 64, True, False, 1, False), (4, -1, True, False, 2, False), (3, 32, True, True, 1, False), (4, 16, False, False, 1, False),
        (8, -1, True, False, 1, True),
    ]:  # fmt: skip
        config = dict(quant_method="gptq", bits=bits, group_size=group, sym=sym, desc_act=order, checkpoint_format="gptq" if version == 1 else "gptq_v2")
        name = f"gptq-{bits}-{'row' if group == -1 else group}{'' if sym else '-asym'}{'-act' if order else ''}-v{version}"
        run = lambda w, seed, a=(bits, group, sym, order, version): quantize(w, seed, *a)
        yield Scheme(name, config, run, models=models)
        if name == "gptq-4-32-v1":
            auto = dict(quant_method="auto-round", bits=4, group_size=32, sym=True, data_type="int", packing_format="auto_round:auto_gptq")
            yield Scheme("auto-round-gptq", auto, run)


def awq(source):
    spec = importlib.util.spec_from_file_location("packing_utils", f"{source}/awq/utils/packing_utils.py")
    packing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(packing)

    def pack(numbers):
        out = torch.zeros(numbers.shape[0], numbers.shape[1] // 8, dtype=torch.int32)
        for place, column in enumerate(packing.AWQ_ORDER):
            out |= numbers[:, column::8] << (4 * place)
        return out

    def quantize(w, _):
        rows, columns = w.shape
        groups = w.reshape(rows, columns // 32, 32)
        low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
        scales = ((high - low) / 15).half()
        zeros = (-low / scales.float()).round().clamp(0, 15)
        codes = (groups / scales.float()[..., None] + zeros[..., None]).round().clamp(0, 15).reshape(rows, columns)
        qweight, qzeros = pack(codes.T.int()), pack(zeros.T.int())
        scales = scales.T.contiguous()
        expected = packing.dequantize_gemm(qweight, qzeros, scales, 4, 32).T
        return {"m.qweight": qweight, "m.qzeros": qzeros, "m.scales": scales}, expected

    yield Scheme("awq", dict(quant_method="awq", bits=4, group_size=32, version="gemm", zero_point=True), quantize)
    auto = dict(quant_method="auto-round", bits=4, group_size=32, sym=False, packing_format="auto_round:auto_awq")
    yield Scheme("auto-round-awq", auto, quantize)


def compressed_tensors():
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    def quantize(w, _, args, format):
        rows, columns = w.shape
        if args.strategy == "block":
            h, k = args.block_structure
            blocks = w.reshape(rows // h, h, columns // k, k)
            low, high = blocks.amin((1, 3)), blocks.amax((1, 3))
        else:
            size = {"tensor": None, "channel": columns}.get(args.strategy, args.group_size)
            groups = w.reshape(1, 1, -1) if size is None else w.reshape(rows, columns // size, size)
            low, high = groups.amin(-1), groups.amax(-1)
        state = {"weight": w}
        if format == "nvfp4-pack-quantized":
            state["weight_global_scale"] = (448 * 6 / w.abs().max()).float().reshape(1)
            scale = (torch.maximum(-low, high) / 6 * state["weight_global_scale"]).to(torch.float8_e4m3fn).float()
            zero = torch.zeros_like(scale)
        elif format in ("mxfp4-pack-quantized", "mxfp8-quantized"):
            top = 4 if args.num_bits == 4 else 256
            scale = 2.0 ** torch.floor(torch.log2(torch.maximum(-low, high) / top))
            zero = torch.zeros_like(scale)
        else:
            scale, zero = calculate_qparams(low, high, args)
        if args.strategy == "tensor":
            scale, zero = scale.reshape(1), zero.reshape(1)
        # Symmetric or not, scales are stored in the model's type.
        if format in ("pack-quantized", "int-quantized", "float-quantized"):
            scale = scale.bfloat16()
        state["weight_scale"] = scale
        state["weight_zero_point"] = zero
        scheme = QuantizationScheme(targets=["Linear"], weights=args, format=format)
        compressor = BaseCompressor.get_value_from_registry(format)
        packed = dict(compressor.compress(state, scheme))
        # In f32, so that values are not rounded to the model's type.
        again = {k: v.float() if k == "weight_scale" and v.dtype == torch.bfloat16 else v for k, v in packed.items()}
        expected = compressor.decompress(again, scheme)["weight"]
        return {f"m.{k}": v for k, v in packed.items()}, expected

    cases = [
        ("pack-quantized", dict(num_bits=4, type="int", symmetric=True, strategy="group", group_size=32), "w4"),
        ("pack-quantized", dict(num_bits=4, type="int", symmetric=False, strategy="group", group_size=16), "w4-asym"),
        ("pack-quantized", dict(num_bits=3, type="int", symmetric=False, strategy="group", group_size=32), "w3-asym"),
        ("pack-quantized", dict(num_bits=8, type="int", symmetric=True, strategy="channel"), "w8"),
        ("pack-quantized", dict(num_bits=5, type="int", symmetric=False, strategy="channel"), "w5-asym"),
        ("int-quantized", dict(num_bits=8, type="int", symmetric=True, strategy="channel"), "int8"),
        ("int-quantized", dict(num_bits=8, type="int", symmetric=False, strategy="channel"), "int8-asym"),
        ("float-quantized", dict(num_bits=8, type="float", symmetric=True, strategy="tensor"), "fp8"),
        ("float-quantized", dict(num_bits=8, type="float", symmetric=True, strategy="channel"), "fp8-row"),
        ("float-quantized", dict(num_bits=8, type="float", symmetric=True, strategy="block", block_structure=[16, 32]), "fp8-block"),
        ("nvfp4-pack-quantized", dict(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16), "nvfp4"),
        ("mxfp4-pack-quantized", dict(num_bits=4, type="float", symmetric=True, strategy="group", group_size=32), "mxfp4"),
        ("mxfp8-quantized", dict(num_bits=8, type="float", symmetric=True, strategy="group", group_size=32), "mxfp8"),
    ]
    for format, options, name in cases:
        if format == "mxfp8-quantized":
            options = dict(options, scale_dtype=torch.uint8)
        args = QuantizationArgs(**options)
        weights = json.loads(args.model_dump_json()) if format != "mxfp8-quantized" else dict(options, scale_dtype="torch.uint8")
        group = dict(targets=["Linear"], weights=weights, input_activations=None, output_activations=None, format=format)
        config = dict(quant_method="compressed-tensors", format=format, quantization_status="compressed", config_groups={"group_0": group}, ignore=["lm_head"], kv_cache_scheme=None)
        yield Scheme(f"ct-{name}", config, lambda w, seed, a=args, f=format: quantize(w, seed, a, f))


def float8(w, scale):
    return (w / scale).to(torch.float8_e4m3fn)


def fp8():
    from transformers.integrations.finegrained_fp8 import _dequantize_fp8_weight

    h, k = block = [16, 32]

    def tiles(w, power=False):
        rows, columns = w.shape
        parts = w.reshape(rows // h, h, columns // k, k)
        scale = parts.abs().amax((1, 3)) / 448
        if power:
            scale = 2.0 ** torch.ceil(torch.log2(scale))
        q = float8(parts, scale[:, None, :, None]).reshape(w.shape)
        return q, scale, _dequantize_fp8_weight(q, scale, block, torch.float32)

    def blocks(w, _):
        q, scale, expected = tiles(w)
        return {"m.weight": q, "m.weight_scale_inv": scale}, expected

    def ragged(w, _):
        q, scale, expected = tiles(w)
        return {"m.weight": q[:30, :40], "m.weight_scale_inv": scale}, expected[:30, :40]

    def stack(w, _):
        q, scale, expected = tiles(w, power=True)
        both = torch.stack([q.float(), -q.float()]).to(torch.float8_e4m3fn)
        tensors = {"m.experts.gate_up_proj": both, "m.experts.gate_up_proj_scale_inv": torch.stack([scale, scale]).to(torch.float8_e8m0fnu)}
        return tensors, torch.stack([expected, -expected])

    def whole(w, _):
        one = (w.abs().max() / 448).reshape(())
        q = float8(w, one)
        return {"m.weight": q, "m.weight_scale": one, "m.input_scale": one}, q.float() * one

    def rows(w, _):
        scale = w.abs().amax(1, keepdim=True) / 448
        q = float8(w, scale)
        return {"m.weight": q, "m.weight_scale": scale}, q.float() * scale

    config = dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=block)
    yield Scheme("fp8-block", config, blocks)
    yield Scheme("fp8-ragged", config, ragged, models=False)
    yield Scheme("fp8-experts", dict(config, scale_fmt="ue8m0"), stack, tensor="m.experts.gate_up_proj", models=False)
    yield Scheme("fp8-tensor", dict(quant_method="fp8", activation_scheme="static"), whole)
    yield Scheme("fp8-fbgemm", dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0), rows)
    yield Scheme("modelopt-fp8", dict(quant_method="modelopt", quant_algo="FP8"), whole)


def bitsandbytes():
    import bitsandbytes.functional as F

    def four(w, _, kind, nested):
        q, state = F.quantize_4bit(w, blocksize=64, compress_statistics=nested, quant_type=kind)
        return {"m.weight": q} | {f"m.weight.{k}": v for k, v in state.as_dict(packed=True).items()}, F.dequantize_4bit(q, state)

    def eight(w, _):
        q, scale, _ = F.int8_vectorwise_quant(w.half())
        return {"m.weight": q, "m.SCB": scale, "m.weight_format": torch.tensor(0, dtype=torch.uint8)}, F.int8_vectorwise_dequant(q, scale)

    for kind, nested in [("nf4", False), ("nf4", True), ("fp4", False)]:
        config = dict(quant_method="bitsandbytes", load_in_4bit=True, load_in_8bit=False, bnb_4bit_quant_type=kind, bnb_4bit_use_double_quant=nested, bnb_4bit_quant_storage="uint8", bnb_4bit_compute_dtype="bfloat16")
        yield Scheme(f"bnb-{kind}{'-nested' if nested else ''}", config, lambda w, seed, a=(kind, nested): four(w, seed, *a))
    yield Scheme("bnb-int8", dict(quant_method="bitsandbytes", load_in_8bit=True, load_in_4bit=False), eight)


def hqq():
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear

    def quantize(w, _, bits, group, axis):
        linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
        linear.weight.data = w.clone()
        layer = HQQLinear(linear, BaseQuantizeConfig(nbits=bits, group_size=group, axis=axis), compute_dtype=torch.float32, device="cpu")
        expected = layer.dequantize()
        return {f"m.{k}": torch.as_tensor(v) for k, v in layer.state_dict().items() if v is not None}, expected

    for bits, group, axis in [(4, 32, 1), (8, 64, 1), (3, 32, 1), (2, 16, 1), (1, 32, 1), (4, 32, 0), (3, 64, 0)]:
        config = dict(quant_method="hqq", quant_config=dict(weight_quant_params=dict(nbits=bits, group_size=group, axis=axis)))
        yield Scheme(f"hqq-{bits}-axis{axis}", config, lambda w, seed, a=(bits, group, axis): quantize(w, seed, *a))


def torchao():
    from torchao.prototype.gptq.api import _int4_row_dequantize_zp, _int4_row_quantize_zp_precomputed_qparams
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Float8Tensor, Int4Tensor, Int8Tensor, IntxUnpackedToInt8Tensor, PerGroup, PerRow, PerTensor

    config = dict(quant_method="torchao", quant_type={"default": {"_type": "(see __metadata__)"}})

    def flat(tensor, expected):
        data, metadata = flatten_tensor_state_dict({"m.weight": tensor})
        return data, expected, metadata["m.weight"]

    def decoded(make):
        def quantize(w, _):
            tensor = make(w)
            return flat(tensor, tensor.dequantize())

        return quantize

    def int4(w, _):
        rows, columns = w.shape
        parts = w.reshape(rows, columns // 32, 32)
        low, high = parts.amin(-1), parts.amax(-1)
        scale = (high - low) / 15
        zero = low + scale * 8
        scale, zero = scale.T.contiguous().bfloat16().float(), zero.T.contiguous().bfloat16().float()
        codes = _int4_row_quantize_zp_precomputed_qparams(w, scale, zero, 32)
        packed = ((codes[:, 1::2] << 4) | (codes[:, ::2] & 15)).to(torch.int8)
        tensor = Int4Tensor(packed, scale.bfloat16(), zero.bfloat16(), [1, 32], w.shape)
        return flat(tensor, _int4_row_dequantize_zp(codes, scale, zero, 32))

    for name, granularity in [("row", PerRow()), ("tensor", PerTensor()), ("group", PerGroup(32))]:
        yield Scheme(f"torchao-int8-{name}", config, decoded(lambda w, g=granularity: Int8Tensor.from_hp(w, g)))
    yield Scheme("torchao-intx", config, decoded(lambda w: IntxUnpackedToInt8Tensor.from_hp(w, (1, 32), torch.int4)))
    for name, granularity in [("row", PerRow()), ("tensor", PerTensor())]:
        yield Scheme(f"torchao-fp8-{name}", config, decoded(lambda w, g=granularity: Float8Tensor.from_hp(w, granularity=g)))
    yield Scheme("torchao-int4", config, int4)


def mlx():
    import mlx.core as mx
    import numpy as np

    def quantize(w, _, bits, group, offset):
        q, scales, biases = mx.quantize(mx.array(w.numpy()), group_size=group, bits=bits)
        expected = torch.from_numpy(np.array(mx.dequantize(q, scales, biases, group_size=group, bits=bits)))
        return {f"m.{k}": torch.from_numpy(np.array(v)) for k, v in {"weight": q, "scales": scales, offset: biases}.items()}, expected

    for bits, group, models in [(4, 32, True), (2, 64, False), (3, 64, False), (5, 32, True), (6, 64, False), (8, 32, True), (2, 32, True), (3, 32, True), (6, 32, True)]:
        run = lambda w, seed, a=(bits, group): quantize(w, seed, *a, "biases")
        name = f"mlx-{bits}-{group}"
        yield Scheme(name, dict(group_size=group, bits=bits), run, key="quantization", models=models)
        if bits == 4:
            own = dict(group_size=64, bits=2, **{"m": dict(group_size=group, bits=bits)})
            yield Scheme("mlx-own", own, run, key="quantization", models=False)
            metal = lambda w, seed, a=(bits, group): quantize(w, seed, *a, "qbiases")
            yield Scheme("metal", dict(quant_method="metal", group_size=group, bits=bits), metal)


def mxfp4():
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    def quantize(_, seed):
        g = torch.Generator().manual_seed(seed)
        blocks = torch.randint(0, 256, (2, 32, 2, 16), generator=g, dtype=torch.uint8)
        scales = torch.randint(110, 130, (2, 32, 2), generator=g, dtype=torch.uint8)
        expected = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).transpose(1, 2)
        return {"m.experts.gate_up_proj_blocks": blocks, "m.experts.gate_up_proj_scales": scales}, expected

    config = dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"])
    yield Scheme("mxfp4", config, quantize, tensor="m.experts.gate_up_proj", models=False)


def modelopt(source):
    sys.path.insert(0, source)
    from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor

    def quantize(w, _):
        tensor, scale, scale_2 = NVFP4QTensor.quantize(w, 16)
        expected = tensor.dequantize(torch.float32, scale=scale, double_scale=scale_2, block_sizes={-1: 16})
        return {"m.weight": tensor._quantized_data, "m.weight_scale": scale, "m.weight_scale_2": scale_2, "m.input_scale": torch.tensor(0.5)}, expected

    yield Scheme("modelopt-nvfp4", dict(quant_method="modelopt", quant_algo="NVFP4", ignore=["lm_head"]), quantize)


def bitnet():
    from transformers.integrations.bitnet import pack_weights

    def quantize(w, _, divided):
        mean = w.abs().mean()
        trits = (w / mean).round().clamp(-1, 1).to(torch.int8)
        scale = (1 / mean if divided else mean).reshape(1).bfloat16()
        expected = trits.float() / scale.float() if divided else trits.float() * scale.float()
        return {"m.weight": pack_weights(trits), "m.weight_scale": scale}, expected

    base = dict(quant_method="bitnet", quantization_mode="offline")
    # Models are made in scheme_bitnet.py: they round activations as well.
    for name, divided in [("autobitlinear", False), ("bitlinear", True)]:
        scheme = "bitnet-auto" if name == "autobitlinear" else "bitnet"
        yield Scheme(scheme, dict(base, linear_class=name), lambda w, seed, d=divided: quantize(w, seed, d), models=False)


def schemes(gptqmodel, autoawq, nvidia_modelopt):
    """All of them; the arguments are folders of sources."""
    for some in [gptq(gptqmodel), awq(autoawq), compressed_tensors(), fp8(), bitsandbytes(), hqq(), torchao(), mlx(), mxfp4(), modelopt(nvidia_modelopt), bitnet()]:
        yield from some
