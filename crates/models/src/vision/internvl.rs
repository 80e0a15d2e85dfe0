//! InternVL (Chen et al. 2024, arXiv:2404.16821; 3: Zhu et al. 2025, arXiv:2504.10479): InternViT, blocks of whose patches become tokens.
//! Reference: transformers' `models/internvl`.

use super::{
    Vision, named,
    source::{CLIP, Source},
    tiled::{self, Tiled, Usual},
};
use crate::{
    Result,
    arch::{Arch, Norm},
    names::{Entry, tensor},
};
use onebit_formats::Meta;
use onebit_plan::Sight;
use onebit_vision::{Filter, Grid, Processor};

pub(super) static INTERNVL: Arch = named(&["internvl"], &["internvl"], &[tiled::INTERN, PROJECTOR], &["*.embeddings.mask_token"]);

const PROJECTOR: &[Entry] = &[
    tensor("mm.model.mlp.0", "multi_modal_projector.layer_norm"),
    tensor("mm.model.mlp.1", "multi_modal_projector.linear_1"),
    tensor("mm.model.mlp.3", "multi_modal_projector.linear_2"),
];

/// PyTorch's own for a LayerNorm.
const EPSILON: f32 = 1e-5;

pub(super) fn load(s: &Source<'_>) -> Result<Vision> {
    let t = &s.settings;
    let norm = match t.text_or("norm_type", "", "layer_norm")?.as_str() {
        "layer_norm" if t.is_gguf() && s.rows("blk.0.ln1.bias").is_none() => Norm::Rms,
        "layer_norm" => Norm::Layer,
        "rms_norm" => Norm::Rms,
        other => return Err(t.wrong("norm_type", "", format!("is `{other}`; layer_norm and rms_norm are known"))),
    };
    let mut tiled = Tiled::read(s, Usual::INTERN, norm)?;
    // llama.cpp normalises queries and keys as it does the stream.
    let normed = s.rows("blk.0.attn_q_norm.weight").is_some();
    t.unread_by_llama_cpp(normed && norm == Norm::Layer, "its queries and keys have RMSNorm, but its stream LayerNorm");
    tiled.post_norm = !t.implied("use_mean_pooling", true)?;
    t.hf_only(tiled.post_norm, "it has a norm behind its last layer, where GGUF files of its family have none");
    if tiled.post_norm && norm == Norm::Rms {
        return Err(t.wrong("use_mean_pooling", "", "is false, which is not supported with RMSNorm"));
    }
    let last = s.outer.json("vision_feature_layer").is_none_or(|layer| layer.as_i64() == Some(-1));
    if !last {
        return Err(s.outer.wrong("vision_feature_layer", "", "should be -1, the last layer"));
    }
    let strategy = s.outer.text_or("vision_feature_select_strategy", "", "default")?;
    if strategy != "default" {
        return Err(s.outer.wrong("vision_feature_select_strategy", "", format!("is `{strategy}`; `default` is supported")));
    }
    let merge = match t.is_gguf() {
        true => t.size_or("", "vision.projector.scale_factor", 2)?,
        false => (1.0 / s.outer.float_or("downsample_ratio", "", 0.5)?.clamp(1.0 / 64.0, 1.0)) as usize,
    };
    t.note("vision.projector.scale_factor", Meta::Unsigned(merge as u64));
    let tiles = tiled.tiles(s, merge, s.pictures.filter(Filter::Bicubic)?, s.pictures.normalize(CLIP)?)?;
    t.unread_by_llama_cpp(tiles.class.is_some(), "it gives the class of its tower the position of a patch");
    s.pictures.squares(&["size"], tiles.side)?;
    const MOST: usize = 256;
    let count = |hf: &str, gguf: &str, usual: usize| match t.is_gguf() {
        true => t.size_or("", gguf, usual).map(|n| n.min(MOST)),
        false => Ok(s.pictures.size(hf, MOST)?.unwrap_or(usual)),
    };
    let counts = [count("min_patches", "vision.preproc_min_tiles", 1)?, count("max_patches", "vision.preproc_max_tiles", 12)?];
    for (key, count) in ["vision.preproc_min_tiles", "vision.preproc_max_tiles"].into_iter().zip(counts) {
        t.note(key, Meta::Unsigned(count as u64));
    }
    let act = s.outer.activation_of("projector_hidden_act", "gelu")?;
    let (inner, out) = (s.rows("mm.model.mlp.1.weight").unwrap_or(0), s.rows("mm.model.mlp.3.weight").unwrap_or(0));
    let encoder = tiled.encoder(s, tiles.rows())?;
    let processor = Grid { tiles, counts };
    let projector = s.plan("projector", out, processor.most_rows(), |g| {
        let all = g.given(0, merge * merge * tiled.vit.width);
        let x = g.layer_norm(all, "mm.model.mlp.0", EPSILON);
        let x = g.linear(x, "mm.model.mlp.1", inner);
        let x = g.apply(x, act);
        g.linear(x, "mm.model.mlp.3", out)
    })?;
    Ok(Vision { encoder, projector, processor: Box::new(processor), newline: None, sight: Sight::default() })
}
