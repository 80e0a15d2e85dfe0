"""Values for crates/models/tests/vision.rs and crates/vision/tests/processors.rs, from transformers 5.24 and Pillow.

    python tools/oracles/vision.py FOLDER [--seed N] [FAMILY ...]

Models are tiny and random: their weights are drawn from the tensors' names, here and in the test, so that no weights need to be kept.
Pictures are made of a formula. Of pixel values, [pieces, channels, height, width], every 37th is kept, and their sum.
"""

import argparse
import json
import pathlib
import re
import types

import numpy as np
import torch
import transformers
from PIL import Image

torch.set_grad_enabled(False)
MASK = (1 << 64) - 1


def numbers(seed, count, spread):
    """Knuth's MMIX generator from a hash (FNV-1a) of `seed`: numbers within `spread` of zero."""
    state = 0xCBF29CE484222325
    for b in seed.encode():
        state = ((state ^ b) * 0x100000001B3) & MASK
    out = np.empty(count, np.float32)
    for i in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        out[i] = np.float32((state >> 40) / (1 << 23) - 1.0) * np.float32(spread)
    return out


def fill(model, seed):
    """Weights from names; the list of names and shapes, and how each is drawn: around which number, and how far from it."""
    made, seen = {}, set()
    state = model.state_dict()
    for name, tensor in state.items():
        if not tensor.is_floating_point() or tensor.data_ptr() in seen:
            continue
        seen.add(tensor.data_ptr())
        norm = "norm" in name or "ln_" in name or name.endswith((".ls1", ".ls2")) or "layer_scale" in name or "lambda" in name
        base = 1.0 if norm and not name.endswith("bias") else 0.0
        if name.endswith(("put_min", "put_max")):
            base = 1.5 if name.endswith("max") else -1.5
        columns = int(np.prod(tensor.shape[1:])) if tensor.ndim > 1 else 0
        spread = 1.7 / columns**0.5 if columns else 0.3
        if "embed_tokens" in name or "position_embedding" in name or "pos_embed" in name:
            spread = 0.7
        made[name] = [list(tensor.shape), base, spread]
        values = base + numbers(f"{seed} {name}", tensor.numel(), spread)
        tensor.copy_(torch.from_numpy(values.astype(np.float32)).reshape(tensor.shape))
    return made


def picture(height, width, salt=0):
    y, x, c = np.mgrid[0:height, 0:width, 0:3]
    values = 128 + 90 * (((x * (3 + c) + y * 2 + salt * 7) % 61) - 30) // 30 + ((x * 5 + y * 11 * (c + 1) + x * y) % 37) - 18
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8), "RGB")


def floats(array):
    return [float(f"{x:.9g}") for x in np.asarray(array, dtype=np.float64).reshape(-1)]


def samples(array):
    flat = np.asarray(array, dtype=np.float64).reshape(-1)
    return {"count": int(flat.size), "sum": float(flat.sum()), "every": floats(flat[::37])}


QWEN_PROCESSOR = {"patch_size": 4, "temporal_patch_size": 2, "merge_size": 2, "size": {"shortest_edge": 1024, "longest_edge": 4096}}


def qwen_processor(config):
    return transformers.models.qwen2_vl.image_processing_pil_qwen2_vl.Qwen2VLImageProcessorPil(**config)


def qwen(model_type, config, picture_size):
    """Of Qwen's models, which have positions of three axes."""
    processor = qwen_processor(QWEN_PROCESSOR)
    images = processor(picture(*picture_size), return_tensors="pt")
    grid = images["image_grid_thw"]
    count = int(grid.prod()) // 4
    ids = [3, 4, 5] + [60] * count + [6, 7, 8, 9]
    kinds = [1 if i == 60 else 0 for i in ids]
    inputs = {"input_ids": torch.tensor([ids]), "mm_token_type_ids": torch.tensor([kinds]), **images}
    _, height, width = grid[0].tolist()
    patches = images["pixel_values"].reshape(height // 2, width // 2, 2, 2, 3, 2, 4, 4)[:, :, :, :, :, 0]
    image = patches.permute(4, 0, 2, 5, 1, 3, 6).reshape(1, 3, height * 4, width * 4)
    rows = lambda m, _: m.model.get_image_features(**images).pooler_output[0]
    return {"processor": QWEN_PROCESSOR, "inputs": inputs, "rows": rows, "image": image, "patch": 4, "size": picture_size, "text": "<|image_pad|>" * count}


TEXT = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "tie_word_embeddings": False,
}
TIED = {**TEXT, "tie_word_embeddings": True}
QWEN_VISION = {"depth": 3, "hidden_size": 32, "num_heads": 2, "patch_size": 4, "out_hidden_size": 32, "intermediate_size": 40}


def qwen2_vl(variant):
    text = {**TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 2, 1]}}
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "patch_size": 4, "mlp_ratio": 2}
    config = {"text_config": text, "vision_config": vision, "image_token_id": 60, "vision_start_token_id": 5, "vision_end_token_id": 6}
    config = transformers.Qwen2VLConfig(**config)
    return transformers.Qwen2VLForConditionalGeneration(config), qwen("qwen2_vl", config, (70, 44))


def qwen2_5_vl(variant):
    text = {**TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}}
    vision = {**QWEN_VISION, "window_size": 16, "fullatt_block_indexes": [1]}
    config = {"text_config": text, "vision_config": vision, "image_token_id": 60, "vision_start_token_id": 5, "vision_end_token_id": 6}
    config = transformers.Qwen2_5_VLConfig(**config)
    return transformers.Qwen2_5_VLForConditionalGeneration(config), qwen("qwen2_5_vl", config, (50, 75))


def qwen3_vl(variant):
    text = {**TEXT, "head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2], "mrope_interleaved": True}}
    vision = {**QWEN_VISION, "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 36}
    config = {"text_config": text, "vision_config": vision, "image_token_id": 60, "vision_start_token_id": 5, "vision_end_token_id": 6}
    config = transformers.Qwen3VLConfig(**config)
    return transformers.Qwen3VLForConditionalGeneration(config), qwen("qwen3_vl", config, (70, 44))


def qwen3_5(variant):
    text = {
        **TEXT, "num_hidden_layers": 4, "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
        "linear_value_head_dim": 8, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [4, 2, 2], "mrope_interleaved": True},
    }
    vision = {**QWEN_VISION, "num_position_embeddings": 49}
    config = {"text_config": text, "vision_config": vision, "image_token_id": 60, "vision_start_token_id": 5, "vision_end_token_id": 6}
    config = transformers.Qwen3_5Config(**config)
    return transformers.Qwen3_5ForConditionalGeneration(config), qwen("qwen3_5", config, (50, 75))


def ids_of(text, token):
    """The image's tokens as 60, whatever stands between them as one token each."""
    parts = re.split(f"({re.escape(token)})", text)
    inside = [60 if part == token else 10 + len(part) % 40 for part in parts if part]
    return [3, 4, 5] + inside + [6, 7, 8, 9]


def made(processor, images, text, token, size, rows, **more):
    """Of families whose positions count on."""
    ids = ids_of(text, token)
    inputs = {"input_ids": torch.tensor([ids]), **{k: v for k, v in images.items() if k in ["pixel_values", "image_sizes", "pixel_attention_mask"]}, **more}
    pixels = images["pixel_values"].reshape(-1, *images["pixel_values"].shape[-3:])
    return {"processor": processor, "inputs": inputs, "rows": rows, "image": pixels, "patch": 4, "size": size, "text": text}


def stand_in(**attributes):
    """For a processor, of which only what it writes around images is wanted."""
    return types.SimpleNamespace(**attributes)


def features(*keys):
    def rows(model, inputs):
        got = model.model.get_image_features(**{k: inputs[k] for k in keys if k in inputs}).pooler_output
        return torch.cat([part.reshape(-1, part.shape[-1]) for part in got])

    return rows


SQUARE = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": 4, "image_size": 16}
LLAVA_PROCESSOR = {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}


def llava(variant):
    config = transformers.LlavaConfig(text_config=transformers.LlamaConfig(**TEXT), vision_config=transformers.CLIPVisionConfig(**SQUARE), image_token_index=60)
    images = transformers.models.clip.image_processing_pil_clip.CLIPImageProcessorPil(**LLAVA_PROCESSOR)(picture(30, 41), return_tensors="pt")
    made_of = made(LLAVA_PROCESSOR, images, "<image>" * 16, "<image>", (30, 41), features("pixel_values"))
    return transformers.LlavaForConditionalGeneration(config), made_of


def llava_siglip(variant):
    """Padded to a square; features of two layers, the tower without a class."""
    tower = transformers.SiglipVisionConfig(**SQUARE)
    strategy = {"vision_feature_select_strategy": "full", "vision_feature_layer": [-3, -2]}
    config = transformers.LlavaConfig(text_config=transformers.LlamaConfig(**TEXT), vision_config=tower, image_token_index=60, **strategy)
    processor = {"image_processor_type": "LlavaImageProcessor", "do_pad": True, "size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}
    images = transformers.models.llava.image_processing_pil_llava.LlavaImageProcessorPil(**processor)(picture(41, 30), return_tensors="pt")
    made_of = made(processor, images, "<image>" * 16, "<image>", (41, 30), features("pixel_values"))
    return transformers.LlavaForConditionalGeneration(config), made_of


def llava_next(variant):
    points = [[16, 32], [32, 16], [32, 32], [48, 16], [16, 48]]
    config = transformers.LlavaNextConfig(text_config=transformers.LlamaConfig(**TEXT), vision_config=transformers.CLIPVisionConfig(**SQUARE), image_token_index=60, image_grid_pinpoints=points)
    processor = {**LLAVA_PROCESSOR, "image_grid_pinpoints": points}
    images = transformers.models.llava_next.image_processing_pil_llava_next.LlavaNextImageProcessorPil(**processor)(picture(50, 81), return_tensors="pt")
    kind = transformers.LlavaNextProcessor
    writer = stand_in(image_processor=stand_in(image_grid_pinpoints=points), patch_size=4, num_additional_image_tokens=1, vision_feature_select_strategy="default", image_token="<image>")
    writer._get_number_of_features = lambda *a: kind._get_number_of_features(writer, *a)
    writer._get_unpadded_features = lambda *a: kind._get_unpadded_features(writer, *a)
    text = kind.replace_image_token(writer, images, 0)
    made_of = made(processor, images, text, "<image>", (50, 81), features("pixel_values", "image_sizes"))
    return transformers.LlavaNextForConditionalGeneration(config), made_of


PIXTRAL = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 2, "head_dim": 16, "patch_size": 4, "image_size": 32}


def pixtral_like(config, kind, merge, size):
    processor = {"size": {"longest_edge": 32}, "patch_size": {"height": 4, "width": 4}}
    pil = transformers.models.pixtral.image_processing_pil_pixtral.PixtralImageProcessorPil(**processor)
    images = pil(picture(*size), patch_size={"height": 4 * merge, "width": 4 * merge}, return_tensors="pt")
    writer = stand_in(patch_size=4, spatial_merge_size=merge, image_token="[IMG]", image_break_token="[IMG_BREAK]", image_end_token="[IMG_END]")
    text = transformers.PixtralProcessor.replace_image_token(writer, images, 0)
    made_of = made(processor, images, text, "[IMG]", size, features("pixel_values", "image_sizes"))
    return kind(config), made_of


def pixtral(variant):
    tower = transformers.PixtralVisionConfig(**PIXTRAL)
    config = transformers.LlavaConfig(text_config=transformers.MistralConfig(**TEXT), vision_config=tower, image_token_index=60, vision_feature_layer=-1, vision_feature_select_strategy="full")
    return pixtral_like(config, transformers.LlavaForConditionalGeneration, 1, (40, 57))


def mistral3(variant):
    tower = transformers.PixtralVisionConfig(**PIXTRAL)
    config = transformers.Mistral3Config(text_config=transformers.MistralConfig(**TEXT), vision_config=tower, image_token_index=60, tie_word_embeddings=False)
    return pixtral_like(config, transformers.Mistral3ForConditionalGeneration, 2, (57, 33))


def gemma3(variant):
    text = transformers.Gemma3TextConfig(**TIED, head_dim=8, sliding_window=16)
    config = transformers.Gemma3Config(text_config=text, vision_config=transformers.SiglipVisionConfig(**SQUARE), image_token_index=60, boi_token_index=5, eoi_token_index=6, mm_tokens_per_image=4)
    processor = {"size": {"height": 16, "width": 16}, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "do_pan_and_scan": True, "pan_and_scan_min_crop_size": 10, "pan_and_scan_max_num_crops": 4, "pan_and_scan_min_ratio_to_activate": 1.2}
    images = transformers.models.gemma3.image_processing_pil_gemma3.Gemma3ImageProcessorPil(**processor)(picture(24, 70), return_tensors="pt")
    writer = stand_in(full_image_sequence="\n\n<start_of_image>" + "<image_soft_token>" * 4 + "<end_of_image>\n\n")
    text = transformers.Gemma3Processor.replace_image_token(writer, images, 0)
    ids = ids_of(text, "<image_soft_token>")
    kinds = torch.tensor([[1 if i == 60 else 0 for i in ids]])
    made_of = made(processor, images, text, "<image_soft_token>", (24, 70), features("pixel_values"), token_type_ids=kinds)
    return transformers.Gemma3ForConditionalGeneration(config), made_of


def splits_like(module, config, kind, writes, size, **processor):
    processor = {"size": {"longest_edge": 48}, "max_image_size": {"longest_edge": 16}, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], **processor}
    images = module(**processor)(picture(*size), return_tensors="pt", return_row_col_info=True)
    text = writes(images)
    made_of = made(processor, images, text, "<image>", size, features("pixel_values", "pixel_attention_mask"))
    made_of["rows"] = features("pixel_values", "pixel_attention_mask")
    return kind(config), made_of


def idefics3(variant):
    config = transformers.Idefics3Config(text_config=transformers.LlamaConfig(**TEXT).to_dict(), vision_config=SQUARE, image_token_id=60, scale_factor=2, pad_token_id=0)
    module = transformers.models.idefics3.image_processing_pil_idefics3.Idefics3ImageProcessorPil
    # Idefics3 writes what SmolVLM writes.
    return splits_like(module, config, transformers.Idefics3ForConditionalGeneration, smolvlm_text, (30, 30), do_image_splitting=False)


def smolvlm_text(images):
    writer = stand_in(image_seq_len=4, fake_image_token="<fake_token_around_image>", image_token="<image>", global_image_token="<global-img>")
    return transformers.SmolVLMProcessor.replace_image_token(writer, images, 0)


def smolvlm(variant):
    config = transformers.SmolVLMConfig(text_config=transformers.LlamaConfig(**TEXT).to_dict(), vision_config=SQUARE, image_token_id=60, scale_factor=2, pad_token_id=0)
    module = transformers.models.smolvlm.image_processing_pil_smolvlm.SmolVLMImageProcessorPil
    return splits_like(module, config, transformers.SmolVLMForConditionalGeneration, smolvlm_text, (33, 57))


def internvl(variant):
    tower = transformers.InternVLVisionConfig(**{**SQUARE, "image_size": [16, 16], "patch_size": [4, 4]}, use_qk_norm=True, attention_bias=True)
    config = transformers.InternVLConfig(text_config=transformers.Qwen2Config(**TEXT), vision_config=tower, image_token_id=60, tie_word_embeddings=False)
    processor = {"size": {"height": 16, "width": 16}, "min_patches": 1, "max_patches": 6, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    pil = transformers.models.got_ocr2.image_processing_pil_got_ocr2.GotOcr2ImageProcessorPil(**processor, crop_to_patches=True)
    images = pil(picture(37, 75), return_tensors="pt")
    writer = stand_in(start_image_token="<img>", end_image_token="</img>", image_token="<IMG_CONTEXT>", image_seq_length=4)
    text = transformers.InternVLProcessor.replace_image_token(writer, images, 0)
    made_of = made(processor, images, text, "<IMG_CONTEXT>", (37, 75), features("pixel_values"))
    return transformers.InternVLForConditionalGeneration(config), made_of


def gemma4(variant):
    text = transformers.Gemma4TextConfig(
        **TIED, head_dim=8, global_head_dim=8, sliding_window=128, layer_types=["sliding_attention", "sliding_attention", "full_attention"], hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=64, pad_token_id=0, num_kv_shared_layers=0, use_bidirectional_attention="vision",
    )
    tower = transformers.Gemma4VisionConfig(
        hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=16, patch_size=4, pooling_kernel_size=2,
        position_embedding_size=300, standardize=True, use_clipped_linears=True,
    )
    config = transformers.Gemma4Config(text_config=text, vision_config=tower, audio_config=None, image_token_id=60, boi_token_id=5, eoi_token_id=6, video_token_id=61, audio_token_id=62)
    processor = {"patch_size": 4, "max_soft_tokens": 70, "pooling_kernel_size": 2, "do_normalize": False}
    pil = transformers.models.gemma4.image_processing_pil_gemma4.Gemma4ImageProcessorPil(**processor)
    size = (50, 33)
    images = pil(picture(*size), return_tensors="pt")
    writer = stand_in(boi_token="<|image>", image_token="<|image|>", eoi_token="<image|>")
    text = transformers.Gemma4Processor.replace_image_token(writer, images, 0)
    ids = ids_of(text, "<|image|>")
    kinds = torch.tensor([[1 if i == 60 else 0 for i in ids]])
    inputs = {"input_ids": torch.tensor([ids]), "mm_token_type_ids": kinds, "pixel_values": images["pixel_values"], "image_position_ids": images["image_position_ids"]}
    places = images["image_position_ids"][0]
    columns, rows = (places.max(0).values + 1).tolist()
    patches = images["pixel_values"][0][: rows * columns].reshape(rows, columns, 4, 4, 3)
    image = 2 * (patches.permute(4, 0, 2, 1, 3).reshape(1, 3, rows * 4, columns * 4) - 0.5)
    made_of = {"processor": processor, "inputs": inputs, "rows": features("pixel_values", "image_position_ids"), "image": image, "patch": 4, "size": size, "text": text}
    return transformers.Gemma4ForConditionalGeneration(config), made_of


FAMILIES = {
    f.__name__: f
    for f in [qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_5, llava, llava_siglip, llava_next, pixtral, mistral3, gemma3, gemma4, idefics3, smolvlm, internvl]
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", default="a")
    parser.add_argument("families", nargs="*")
    args = parser.parse_args()
    for name in args.families or FAMILIES:
        model, made = FAMILIES[name](args.seed)
        model = model.float().eval()
        tensors = fill(model, args.seed)
        inputs = made["inputs"]
        rows = made["rows"](model, inputs)
        logits = model(**inputs).logits[0]
        ids = inputs["input_ids"][0].tolist()
        first = next(i for i, id in enumerate(ids) if id == 60)
        config = json.loads(model.config.to_json_string(use_diff=False))
        kept = {
            "seed": args.seed, "config": config, "processor": made["processor"], "tensors": tensors, "ids": ids,
            "size": made["size"], "patch": made["patch"], "text": made["text"], "pixels": samples(made["image"]), "row_deviation": float(rows.std()), "rows": floats(rows[:: max(1, len(rows) // 6)]),
            "row_step": max(1, len(rows) // 6), "row_count": len(rows), "positions": [first - 1, first, len(ids) // 2, len(ids) - 4, len(ids) - 1],
        }
        kept["logits"] = floats(logits[kept["positions"]])
        kept["deviation"] = float(logits.std())
        path = args.folder / f"{name}.json"
        path.write_text(json.dumps(kept, separators=(",", ":")) + "\n")
        print(name, path.stat().st_size, "bytes", tuple(rows.shape), "rows", rows.std(), "logits", logits.std())


if __name__ == "__main__":
    main()
