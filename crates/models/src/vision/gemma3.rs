//! Gemma 3 (Gemma Team 2025, arXiv:2503.19786): SigLIP, whose features are averaged over blocks of patches; images whose tokens see each
//! other. Reference: transformers' `models/gemma3`.

use super::{
    Vision, named,
    source::{AROUND_ZERO, Source},
    tiled::{self, Tiled, Usual},
};
use crate::{
    Result,
    arch::{Arch, Norm},
    names::{Entry, tensor},
};
use onebit_formats::Meta;
use onebit_plan::{Sight, Together};
use onebit_vision::{Crops, Filter, Fit, Processor, Square};

pub(super) static GEMMA3: Arch = named(&["gemma3"], &["gemma3"], &[tiled::CLIP, PROJECTOR], &["*vision_tower.*head.*"]);

const PROJECTOR: &[Entry] = &[
    tensor("mm.soft_emb_norm", "multi_modal_projector.mm_soft_emb_norm").add_one(),
    tensor("mm.input_projection.weight", "multi_modal_projector.mm_input_projection_weight").transposed(),
];

pub(super) fn load(s: &Source<'_>) -> Result<Vision> {
    let mut tiled = Tiled::read(s, Usual::SIGLIP, Norm::Layer)?;
    tiled.post_norm = true;
    let (width, eps, grid) = (tiled.vit.width, tiled.vit.eps, tiled.image / tiled.patch);
    let merge = match s.settings.is_gguf() {
        true => s.settings.size_or("", "vision.projector.scale_factor", 4)?,
        false => grid / s.outer.size_or("mm_tokens_per_image", "", 256)?.isqrt().clamp(1, grid),
    };
    s.settings.note("vision.projector.scale_factor", Meta::Unsigned(merge as u64));
    let out = match s.settings.is_gguf() {
        true => s.settings.size("", "vision.projection_dim")?,
        false => s.text.size("hidden_size", "")?,
    };
    let tiles = tiled.tiles(s, merge, s.pictures.filter(Filter::Bilinear)?, s.pictures.normalize(AROUND_ZERO)?)?;
    s.pictures.squares(&["size"], tiles.side)?;
    let crops = match s.pictures.flag("do_pan_and_scan", false)? {
        false => None,
        true => Some(Crops {
            min_side: s.pictures.size("pan_and_scan_min_crop_size", 1 << 14)?.unwrap_or(256),
            most: s.pictures.size("pan_and_scan_max_num_crops", 64)?.unwrap_or(4),
            from_ratio: s.pictures.number("pan_and_scan_min_ratio_to_activate")?.unwrap_or(1.2),
        }),
    };
    s.pictures.note_unsaid(crops.is_some(), "that crops of pictures are shown too");
    let encoder = tiled.encoder(s, tiles.rows())?;
    let around = ["\n\n<start_of_image>", "<end_of_image>\n\n"].map(String::from);
    let [mark, token] = ["<start_of_image>", "<image_soft_token>"].map(String::from);
    let processor = Square { tiles, fit: Fit::Stretch, crops, mark, token, around };
    let unit = merge * merge;
    let projector = s.plan("projector", out, processor.most_rows(), |g| {
        let all = g.given(0, unit * width);
        let sum = g.sum(all, 1, unit);
        let mean = g.scale(sum, 1.0 / unit as f32);
        let x = g.rms_norm(mean, "mm.soft_emb_norm", eps);
        g.linear_of(x, "mm.input_projection.weight", out)
    })?;
    let sight = Sight { together: Together::Everywhere, ..Sight::default() };
    Ok(Vision { encoder, projector, processor: Box::new(processor), newline: None, sight })
}
