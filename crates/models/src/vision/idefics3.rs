//! Idefics3 (Laurençon et al. 2024, arXiv:2408.12637) and SmolVLM (Marafioti et al. 2025, arXiv:2504.05299): SigLIP, blocks of whose
//! patches become tokens by one matrix. Reference: transformers' `models/idefics3`, `smolvlm`.

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
use onebit_plan::Sight;
use onebit_vision::{Filter, Processor, Splits};

pub(super) static IDEFICS3: Arch = named(&["idefics3", "smolvlm"], &["idefics3"], &[tiled::CLIP, PROJECTOR], &[]);

const PROJECTOR: &[Entry] = &[tensor("mm.model.fc", "connector.modality_projection.proj")];

pub(super) fn load(s: &Source<'_>) -> Result<Vision> {
    let mut tiled = Tiled::read(s, Usual::IDEFICS3, Norm::Layer)?;
    tiled.post_norm = true;
    let merge = match s.settings.is_gguf() {
        true => s.settings.size_or("", "vision.projector.scale_factor", 2)?,
        false => s.outer.size_or("scale_factor", "", 2)?,
    };
    s.settings.note("vision.projector.scale_factor", Meta::Unsigned(merge as u64));
    let tiles = tiled.tiles(s, merge, s.pictures.filter(Filter::Lanczos)?, s.pictures.normalize(AROUND_ZERO)?)?;
    let side = tiles.side;
    s.pictures.squares(&["max_image_size.longest_edge"], side)?;
    let longest = match s.settings.is_gguf() {
        true => s.settings.size_or("", "vision.preproc_image_size", 4 * side)?,
        false => s.pictures.size("size.longest_edge", 1 << 14)?.unwrap_or(4 * side),
    };
    s.settings.note("vision.preproc_image_size", Meta::Unsigned(longest as u64));
    let split = s.pictures.flag("do_image_splitting", true)?;
    s.pictures.note_unsaid(!split, "that pictures are not shown in tiles");
    let processor = Splits { tiles, longest, split };
    let out = s.rows("mm.model.fc.weight").unwrap_or(0);
    let encoder = tiled.encoder(s, processor.most_patches())?;
    let projector = s.plan("projector", out, processor.most_rows(), |g| {
        let all = g.given(0, merge * merge * tiled.vit.width);
        g.linear(all, "mm.model.fc", out)
    })?;
    Ok(Vision { encoder, projector, processor: Box::new(processor), newline: None, sight: Sight::default() })
}
