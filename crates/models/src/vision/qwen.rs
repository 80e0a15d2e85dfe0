//! The towers of Qwen2-VL (Wang et al. 2024, arXiv:2409.12191), Qwen2.5-VL (Bai et al. 2025, arXiv:2502.13923), Qwen3-VL (Bai et al.
//! 2025, arXiv:2511.21631) and Qwen3.5: images of any size, rotation by rows and columns, blocks of patches that become one token.
//! Reference: transformers' `models/qwen2_vl`, `qwen2_5_vl`, `qwen3_vl`, `qwen3_5`.

use super::{
    Vision, named,
    source::{CLIP, Source, layers_of},
    vit::Vit,
};
use crate::{
    Result,
    arch::{Arch, Norm},
    names::{Entry, tensor},
};
use onebit_formats::Meta;
use onebit_plan::{Function, Graph, Rope, RopeStyle, Sight, Value};
use onebit_vision::{Filter, PositionTable, Qwen};

pub(super) static QWEN2: Arch = named(&["qwen2_vl"], &["qwen2vl_merger"], &[BLOCKS, FC, MERGER], &[]);
pub(super) static QWEN2_5: Arch = named(&["qwen2_5_vl"], &["qwen2.5vl_merger"], &[BLOCKS, GATED, MERGER], &[]);
pub(super) static QWEN3: Arch =
    named(&["qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"], &["qwen3vl_merger"], &[BLOCKS, LINEAR_FC, DEEPSTACK], &[]);

const BLOCKS: &[Entry] = &[
    tensor("patch_embd", "visual.patch_embed.proj"),
    tensor("patch_embd.weight.1", ""),
    tensor("position_embd", "visual.pos_embed"),
    tensor("blk.{}.ln1", "visual.blocks.{}.norm1"),
    tensor("blk.{}.ln2", "visual.blocks.{}.norm2"),
    tensor("blk.{}.attn_qkv", "visual.blocks.{}.attn.qkv"),
    tensor("blk.{}.attn_q", ""),
    tensor("blk.{}.attn_k", ""),
    tensor("blk.{}.attn_v", ""),
    tensor("blk.{}.attn_out", "visual.blocks.{}.attn.proj"),
    tensor("blk.{}.attn_q_norm", ""),
    tensor("blk.{}.attn_k_norm", ""),
    tensor("blk.{}.ls1", ""),
    tensor("blk.{}.ls2", ""),
];

const FC: &[Entry] = &[tensor("blk.{}.ffn_up", "visual.blocks.{}.mlp.fc1"), tensor("blk.{}.ffn_down", "visual.blocks.{}.mlp.fc2")];

const LINEAR_FC: &[Entry] =
    &[tensor("blk.{}.ffn_up", "visual.blocks.{}.mlp.linear_fc1"), tensor("blk.{}.ffn_down", "visual.blocks.{}.mlp.linear_fc2")];

const GATED: &[Entry] = &[
    tensor("blk.{}.ffn_gate", "visual.blocks.{}.mlp.gate_proj"),
    tensor("blk.{}.ffn_up", "visual.blocks.{}.mlp.up_proj"),
    tensor("blk.{}.ffn_down", "visual.blocks.{}.mlp.down_proj"),
];

const MERGER: &[Entry] =
    &[tensor("post_ln", "visual.merger.ln_q"), tensor("mm.0", "visual.merger.mlp.0"), tensor("mm.2", "visual.merger.mlp.2")];

/// The merger, and those of the features of earlier layers.
const DEEPSTACK: &[Entry] = &[
    tensor("post_ln", "visual.merger.norm"),
    tensor("mm.0", "visual.merger.linear_fc1"),
    tensor("mm.2", "visual.merger.linear_fc2"),
    tensor("blk.{}.deepstack_norm", "visual.deepstack_merger_list.{}.norm"),
    tensor("blk.{}.deepstack_fc1", "visual.deepstack_merger_list.{}.linear_fc1"),
    tensor("blk.{}.deepstack_fc2", "visual.deepstack_merger_list.{}.linear_fc2"),
];

/// What the settings say.
struct Tower {
    vit: Vit,
    patch: usize,
    merge: usize,
    /// Numbers in a row of the text model.
    out: usize,
    /// Layers whose features are given to the text model, too.
    deepstack: Vec<usize>,
}

/// Qwen2-VL: LayerNorm, no windows.
pub(super) fn qwen2(s: &Source<'_>) -> Result<Vision> {
    let t = &s.settings;
    let width = t.size("embed_dim", "vision.embedding_length")?;
    let inner = match t.is_gguf() {
        true => feed_forward(s, width),
        false => (t.float_or("mlp_ratio", "", 4.0)? * width as f64) as usize,
    };
    t.note("vision.feed_forward_length", Meta::Unsigned(inner as u64));
    let act = s.activation("hidden_act", "quick_gelu")?;
    let out = t.size("hidden_size", "vision.projection_dim")?;
    t.note("vision.image_size", Meta::Unsigned(IMAGE));
    let vit = read(s, width, inner, Norm::Layer, act, false)?;
    Tower { vit, patch: patch(s, 14)?, merge: merge(s)?, out, deepstack: vec![] }.build(s, None, None)
}

/// Qwen2.5-VL: RMSNorm, gates, and windows in all layers but a few.
pub(super) fn qwen2_5(s: &Source<'_>) -> Result<Vision> {
    let t = &s.settings;
    let width = t.size("hidden_size", "vision.embedding_length")?;
    let inner = t.size("intermediate_size", "vision.feed_forward_length")?;
    let act = s.activation("hidden_act", "silu")?;
    let mut vit = read(s, width, inner, Norm::Rms, act, true)?;
    let layers = vit.windows.len();
    let full: Vec<usize> = match t.json("fullatt_block_indexes").map(|v| v.as_array()) {
        Some(Some(list)) => list.iter().filter_map(|i| i.as_u64()).map(|i| i as usize).collect(),
        Some(None) => return Err(t.wrong("fullatt_block_indexes", "", "should be a list of layers")),
        None if !t.is_gguf() => vec![7, 15, 23, 31],
        None => match layers_of(t.gguf_value("vision.wa_layer_indexes")) {
            Some(list) => list,
            None => {
                let each = t.size_or("", "vision.n_wa_pattern", 8)?;
                (0..layers).filter(|i| (i + 1) % each == 0).collect()
            }
        },
    };
    vit.windows = (0..layers).map(|i| !full.contains(&i)).collect();
    note_full(s, &vit.windows);
    t.note("vision.image_size", Meta::Unsigned(IMAGE));
    let (patch, merge) = (patch(s, 14)?, merge(s)?);
    let window = t.size_or("window_size", "vision.window_size", 112)?;
    t.unread_by_llama_cpp(window != 112, "its windows are not of 112 pixels");
    let window = window / merge / patch;
    let out = t.size("out_hidden_size", "vision.projection_dim")?;
    Tower { vit, patch, merge, out, deepstack: vec![] }.build(s, Some(window.max(1)), None)
}

/// Qwen3-VL and Qwen3.5: LayerNorm, learned positions besides the rotation, features of earlier layers.
pub(super) fn qwen3(s: &Source<'_>) -> Result<Vision> {
    let t = &s.settings;
    let width = t.size("hidden_size", "vision.embedding_length")?;
    let inner = t.size("intermediate_size", "vision.feed_forward_length")?;
    let act = s.activation("hidden_act", "gelu_pytorch_tanh")?;
    let vit = read(s, width, inner, Norm::Layer, act, false)?;
    let deepstack = match t.is_gguf() {
        true => layers_of(t.gguf_value("vision.is_deepstack_layers")).unwrap_or_default(),
        false => match t.json("deepstack_visual_indexes").map(|v| v.as_array()) {
            None => vec![],
            Some(list) => list
                .and_then(|list| list.iter().map(|i| i.as_u64().map(|i| i as usize)).collect())
                .ok_or_else(|| t.wrong("deepstack_visual_indexes", "", "should be a list of layers"))?,
        },
    };
    t.note("vision.is_deepstack_layers", Meta::Bools((0..vit.windows.len()).map(|layer| deepstack.contains(&layer)).collect()));
    s.note_mergers(&deepstack);
    if let Some(layer) = deepstack.iter().find(|layer| **layer >= vit.windows.len()) {
        return Err(t.wrong("deepstack_visual_indexes", "vision.is_deepstack_layers", format!("names layer {layer}, which is not there")));
    }
    let count = match t.is_gguf() {
        true => s.rows("position_embd.weight").unwrap_or(0),
        false => t.size("num_position_embeddings", "")?,
    };
    let side = count.isqrt();
    if side == 0 || side * side != count {
        return Err(t.wrong("num_position_embeddings", "vision.image_size", format!("is {count}, which is no square")));
    }
    let rows = s.needed("position_embd.weight", &[count, width])?;
    let positions = PositionTable { rows, side, width };
    let out = t.size("out_hidden_size", "vision.projection_dim")?;
    let patch = patch(s, 16)?;
    t.note("vision.image_size", Meta::Unsigned((side * patch) as u64));
    Tower { vit, patch, merge: merge(s)?, out, deepstack }.build(s, None, Some(positions))
}

/// What llama.cpp's converter writes for the size of pictures, which can be any.
const IMAGE: u64 = 560;

/// Notes which layers have no windows: each so many, or a list, which llama.cpp does not read.
fn note_full(s: &Source<'_>, windows: &[bool]) {
    let t = &s.settings;
    match (1..=windows.len()).find(|each| windows.iter().enumerate().all(|(i, window)| *window != (i + 1).is_multiple_of(*each))) {
        Some(each) => t.note("vision.n_wa_pattern", Meta::Unsigned(each as u64)),
        None => {
            let full = (0..windows.len()).filter(|layer| !windows[*layer]);
            t.note("vision.wa_layer_indexes", Meta::Integers(full.map(|layer| layer as i64).collect()));
            t.unread_by_llama_cpp(true, "its layers without windows do not come at a period");
        }
    }
}

/// The width of feed-forward layers in a GGUF file of Qwen2-VL, which llama.cpp's converter states as that of the text model: that of the
/// matrices, of which some files call the first the second.
fn feed_forward(s: &Source<'_>, width: usize) -> usize {
    let rows = ["blk.0.ffn_up.weight", "blk.0.ffn_down.weight"].map(|name| s.rows(name));
    rows.into_iter().flatten().find(|rows| *rows != width).unwrap_or(width)
}

fn patch(s: &Source<'_>, usual: usize) -> Result<usize> {
    let t = &s.settings;
    let patch = t.size_or("patch_size", "vision.patch_size", usual)?;
    for (key, stated, needed) in [("in_channels|in_chans", 3, 3), ("temporal_patch_size", 2, 2)] {
        let found = t.size_or(key, "", stated)?;
        if found != needed {
            return Err(t.wrong(key, "", format!("is {found}; {needed} is supported")));
        }
    }
    Ok(patch)
}

fn merge(s: &Source<'_>) -> Result<usize> {
    s.settings.size_or("spatial_merge_size", "vision.spatial_merge_size", 2)
}

/// Heads and layers, and the rotation: half of a head's pairs by rows, half by columns.
fn read(s: &Source<'_>, width: usize, inner: usize, norm: Norm, act: Function, gated: bool) -> Result<Vit> {
    let t = &s.settings;
    const HEADS: (&str, &str) = ("num_heads|num_attention_heads", "vision.attention.head_count");
    let heads = t.size(HEADS.0, HEADS.1)?;
    if !width.is_multiple_of(heads * 4) {
        return Err(t.wrong(HEADS.0, HEADS.1, format!("is {heads}, of which the width {width} makes no heads of a multiple of 4")));
    }
    let layers = t.size_to("depth|num_hidden_layers", "vision.block_count", 1 << 10)?;
    let theta = t.float_or("rope_parameters.rope_theta", "", 10_000.0)?;
    t.hf_only(theta != 10_000.0, "the base of its rotation is not 10000, as GGUF files mean");
    let of_axis = Rope::frequencies(theta as f32, width / heads / 2);
    let axes = [vec![1; of_axis.len()], vec![2; of_axis.len()]].concat();
    let rope = Rope { axes, ..Rope::new(RopeStyle::Halves, of_axis.repeat(2)) };
    let eps = t.epsilon_or("rms_norm_eps|layer_norm_eps", "vision.attention.layer_norm_epsilon", 1e-6)?;
    Ok(Vit { width, heads, inner, norm, eps, act, gated, rope: Some(rope), windows: vec![false; layers] })
}

impl Tower {
    fn build(&self, s: &Source<'_>, window: Option<usize>, positions: Option<PositionTable>) -> Result<Vision> {
        let &Self { ref vit, patch, merge, out, ref deepstack } = self;
        let (width, parts) = (vit.width, 1 + deepstack.len());
        let processor = self.processor(s, window, positions)?;
        let most = onebit_vision::Processor::most_patches(&processor);
        let positions = processor.positions.is_some();
        let encoder = s.plan("encoder", parts * width, most, |g| {
            let mut x = self.patches(g);
            if positions {
                let at = g.given(3 * patch * patch, width);
                x = g.add(x, at);
            }
            let mut features = vec![];
            let x = vit.build(g, x, |_, layer, x| {
                if deepstack.contains(&layer) {
                    features.push(x);
                }
            });
            features.iter().fold(x, |all, more| g.concat(all, *more, 1))
        })?;
        let unit = merge * merge;
        let projector = s.plan("projector", parts * out, most / unit, |g| {
            let all = g.given(0, unit * parts * width);
            let x = g.slice(all, unit, 0, width);
            let x = match vit.norm {
                Norm::Rms => g.head_norm(x, "post_ln", width, 1e-6),
                Norm::Layer | Norm::PlainLayer => g.head_layer_norm(x, "post_ln", width, 1e-6),
            };
            let x = mlp(g, x, ["mm.0", "mm.2"], out);
            deepstack.iter().enumerate().fold(x, |rows, (i, layer)| {
                let x = g.slice(all, unit, (i + 1) * width, width);
                // GGUF files name them by the layer, directories by their order.
                let x = g.weights_of(Some(if s.settings.is_gguf() { *layer } else { i }), |g| {
                    let x = g.layer_norm(x, "deepstack_norm", 1e-6);
                    mlp(g, x, ["deepstack_fc1", "deepstack_fc2"], out)
                });
                g.concat(rows, x, 1)
            })
        })?;
        let sight = Sight { deepstack: deepstack.len(), ..Sight::default() };
        Ok(Vision { encoder, projector, processor: Box::new(processor), newline: None, sight })
    }

    /// Patches of pixels as rows. A picture is two equal frames of a film.
    fn patches(&self, g: &mut Graph<'_>) -> Value {
        let pixels = 3 * self.patch * self.patch;
        let x = g.given(0, pixels);
        let width = self.vit.width;
        if g.has("patch_embd.weight.1", &[width, pixels]) {
            let first = g.linear(x, "patch_embd", width);
            let second = g.linear_of(x, "patch_embd.weight.1", width);
            return g.add(first, second);
        }
        let frames = g.repeat(x, 3, 2);
        g.linear(frames, "patch_embd", width)
    }

    fn processor(&self, s: &Source<'_>, window: Option<usize>, positions: Option<PositionTable>) -> Result<Qwen> {
        let (pictures, t) = (&s.pictures, &s.settings);
        const LARGEST: usize = 1 << 28;
        for (key, needed) in [("patch_size", self.patch), ("merge_size", self.merge)] {
            if let Some(found) = pictures.size(key, LARGEST)?.filter(|found| *found != needed) {
                return Err(pictures.wrong(key, format!("is {found}, but the tower has {needed}")));
            }
        }
        let block = (self.patch * self.merge).pow(2);
        let [min, max] = match t.is_gguf() {
            // As llama.cpp has it where files do not say.
            true => [t.size_or("", "vision.image_min_pixels", 8 * block)?, t.size_or("", "vision.image_max_pixels", 4096 * block)?],
            false => [
                pictures.size("min_pixels|size.shortest_edge", LARGEST)?.unwrap_or(56 * 56),
                pictures.size("max_pixels|size.longest_edge", LARGEST)?.unwrap_or(28 * 28 * 1280),
            ],
        };
        t.note("vision.image_min_pixels", Meta::Unsigned(min as u64));
        t.note("vision.image_max_pixels", Meta::Unsigned(max as u64));
        Ok(Qwen {
            patch: self.patch,
            merge: self.merge,
            min_pixels: min,
            max_pixels: max,
            filter: pictures.filter(Filter::Bicubic)?,
            normalize: pictures.normalize(CLIP)?,
            window,
            positions,
            token: "<|image_pad|>".into(),
            bare: "<|vision_start|><|image_pad|><|vision_end|>".into(),
        })
    }
}

/// Two matrices with GELU between them.
fn mlp(g: &mut Graph<'_>, x: Value, [first, second]: [&str; 2], out: usize) -> Value {
    let y = g.linear(x, first, g.width(x));
    let y = g.apply(y, Function::Gelu);
    g.linear(y, second, out)
}
