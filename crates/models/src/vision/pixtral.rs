//! Pixtral (Agrawal et al. 2024, arXiv:2410.07073) and Mistral Small 3.1, which brings blocks of patches together: images of any size,
//! rotation by rows and columns. Reference: transformers' `models/pixtral`, `llava`, `mistral3`.

use super::{
    Vision, named,
    source::{CLIP, Source},
    vit::Vit,
};
use crate::{
    Result,
    arch::{Arch, Norm, paired},
    names::{Entry, Order, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Rope, RopeStyle, Sight};
use onebit_vision::{Filter, Pixtral, Processor};

pub(super) static PIXTRAL: Arch = named(&["pixtral", "mistral3"], &["pixtral"], &[TENSORS], &["v.token_embd.img_break"]);

const TENSORS: &[Entry] = &[
    tensor("patch_embd", "model.patch_conv"),
    tensor("pre_ln", "model.ln_pre"),
    tensor("blk.{}.ln1", "model.transformer.layers.{}.attention_norm"),
    tensor("blk.{}.ln2", "model.transformer.layers.{}.ffn_norm"),
    tensor("blk.{}.attn_qkv", ""),
    tensor("blk.{}.attn_q", "model.transformer.layers.{}.attention.q_proj").ordered(pairs),
    tensor("blk.{}.attn_k", "model.transformer.layers.{}.attention.k_proj").ordered(pairs),
    tensor("blk.{}.attn_v", "model.transformer.layers.{}.attention.v_proj"),
    tensor("blk.{}.attn_out", "model.transformer.layers.{}.attention.o_proj"),
    tensor("blk.{}.attn_q_norm", ""),
    tensor("blk.{}.attn_k_norm", ""),
    tensor("blk.{}.ls1", ""),
    tensor("blk.{}.ls2", ""),
    tensor("blk.{}.ffn_gate", "model.transformer.layers.{}.feed_forward.gate_proj"),
    tensor("blk.{}.ffn_up", "model.transformer.layers.{}.feed_forward.up_proj"),
    tensor("blk.{}.ffn_down", "model.transformer.layers.{}.feed_forward.down_proj"),
    tensor("mm.input_norm", "multi_modal_projector.norm"),
    tensor("mm.patch_merger", "multi_modal_projector.patch_merger.merging_layer"),
    tensor("mm.1", "multi_modal_projector.linear_1"),
    tensor("mm.2", "multi_modal_projector.linear_2"),
];

/// What turns together side by side.
fn pairs(t: &Settings<'_>) -> Result<Order> {
    let (width, heads) = (t.size_or("hidden_size", "", 1024)?, t.size_or(HEADS.0, "", 16)?);
    let head = width / heads;
    Ok(Order::Runs((0..head).map(|i| paired(i, head)).collect()))
}

const HEADS: (&str, &str) = ("num_attention_heads", "vision.attention.head_count");

/// As transformers and llama.cpp have it, whatever the settings say.
const EPSILON: f32 = 1e-5;

pub(super) fn load(s: &Source<'_>) -> Result<Vision> {
    let t = &s.settings;
    let width = t.size_or("hidden_size", "vision.embedding_length", 1024)?;
    let heads = t.size_or(HEADS.0, HEADS.1, 16)?;
    if !width.is_multiple_of(heads * 4) {
        return Err(t.wrong(HEADS.0, HEADS.1, format!("is {heads}, of which the width {width} makes no heads of a multiple of 4")));
    }
    let head = t.size_or("head_dim", "", width / heads)?;
    if head != width / heads {
        return Err(t.wrong("head_dim", "", format!("is {head}; {} is supported, the width {width} over the heads", width / heads)));
    }
    let layers = t.size_or("num_hidden_layers", "vision.block_count", 24)?;
    if layers > s.tensors() {
        return Err(t.wrong("num_hidden_layers", "vision.block_count", format!("is {layers}, more than there are tensors")));
    }
    if s.outer.json("vision_feature_layer").is_some_and(|layer| layer.as_i64() != Some(-1)) {
        return Err(s.outer.wrong("vision_feature_layer", "", "should be -1, the last layer"));
    }
    let base = t.float_or("rope_parameters.rope_theta|rope_theta", "", 10_000.0)?;
    t.hf_only(base != 10_000.0, "the base of its rotation is not 10000, as GGUF files mean");
    t.note("vision.attention.layer_norm_epsilon", Meta::Float(f64::from(EPSILON)));
    let vit = Vit {
        width,
        heads,
        inner: t.size_or("intermediate_size", "vision.feed_forward_length", 4096)?,
        norm: Norm::Rms,
        eps: EPSILON,
        act: s.activation("hidden_act", "gelu")?,
        gated: true,
        rope: Some(rope(base as f32, head, t.is_gguf())),
        windows: vec![false; layers],
    };
    let patch = s.side("patch_size", "vision.patch_size", 16)?;
    let merges = s.rows("mm.patch_merger.weight").is_some();
    let merge = match (merges, t.is_gguf()) {
        (false, _) => 1,
        (true, true) => t.size_or("", "vision.spatial_merge_size", 2)?,
        (true, false) => s.outer.size_or("spatial_merge_size", "", 2)?,
    };
    if merges {
        t.note("vision.spatial_merge_size", Meta::Unsigned(merge as u64));
    }
    t.unread_by_llama_cpp(true, "it looks for the row of [IMG_BREAK], which the text model has, in the file of the tower");
    let image = s.side("image_size", "vision.image_size", 1024)?;
    let longest = match t.is_gguf() {
        true => t.size_or("", LONGEST, image)?,
        false => s.pictures.size("size.longest_edge", 1 << 14)?.unwrap_or(image),
    };
    t.note(LONGEST, Meta::Unsigned(longest as u64));
    for key in ["patch_size.height|patch_size", "patch_size.width|patch_size"] {
        s.pictures.squares(&[key], patch)?;
    }
    let processor = Pixtral { patch, merge, longest, filter: s.pictures.filter(Filter::Bicubic)?, normalize: s.pictures.normalize(CLIP)? };
    let act = s.outer.activation_of("projector_hidden_act", "gelu")?;
    let norm_eps = if merges { s.text.epsilon_or("rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-6)? } else { EPSILON };
    t.unread_by_llama_cpp(norm_eps != EPSILON, "the epsilon of its text model is not 1e-5");
    let (inner, out) = (s.rows("mm.1.weight").unwrap_or(0), s.rows("mm.2.weight").unwrap_or(0));
    let pixels = 3 * patch * patch;
    let encoder = s.plan("encoder", width, processor.most_patches(), |g| {
        let x = g.given(0, pixels);
        let x = g.linear(x, "patch_embd", width);
        let x = vit.normalized(g, x, "pre_ln");
        vit.build(g, x, |_, _, _| {})
    })?;
    let projector = s.plan("projector", out, processor.most_rows(), |g| {
        let unit = merge * merge;
        let mut x = g.given(0, unit * width);
        if merges {
            x = g.head_norm(x, "mm.input_norm", width, norm_eps);
            // The matrix has the patches of a block side by side for each number.
            x = g.transpose(x, unit, width);
            x = g.linear(x, "mm.patch_merger", width);
        }
        let x = g.linear(x, "mm.1", inner);
        let x = g.apply(x, act);
        g.linear(x, "mm.2", out)
    })?;
    Ok(Vision { encoder, projector, processor: Box::new(processor), newline: None, sight: Sight::default() })
}

/// The longest side of a picture.
const LONGEST: &str = "vision.preproc_image_size";

/// Frequencies of a whole head, of which rows and columns of patches have every second. GGUF files hold what turns together side by side.
fn rope(theta: f32, head: usize, gguf: bool) -> Rope {
    let all = Rope::frequencies(theta, head);
    let [rows, columns] = [0, 1].map(|first| all.iter().skip(first).step_by(2).copied().collect::<Vec<_>>());
    let axes = [vec![1; rows.len()], vec![2; columns.len()]].concat();
    Rope { axes, ..Rope::new(if gguf { RopeStyle::Pairs } else { RopeStyle::Halves }, [rows, columns].concat()) }
}
