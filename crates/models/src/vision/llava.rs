//! LLaVA (Liu et al. 2023, arXiv:2304.08485; 1.5: arXiv:2310.03744) and LLaVA-NeXT: features of CLIP or SigLIP, and two matrices.
//! Reference: transformers' `models/llava`, `llava_next`.

use super::{
    Vision, named,
    source::{CLIP, Source, layers_of},
    tiled::{self, Tiled, Usual},
};
use crate::{
    Result,
    arch::{Arch, Norm},
    names::{Entry, tensor},
};
use onebit_formats::Meta;
use onebit_plan::Sight;
use onebit_vision::{AnyResolution, Filter, Fit, Processor, Square, Tiles};
use serde_json::Value;

pub(super) static LLAVA: Arch = named(
    &["llava", "llava_next"],
    &["mlp"],
    &[tiled::CLIP, PROJECTOR],
    // Poolers of towers, which are not asked; the norm before them.
    &["*.post_layernorm.*", "*vision_tower.*head.*"],
);

const PROJECTOR: &[Entry] = &[
    tensor("mm.0", "multi_modal_projector.linear_1"),
    tensor("mm.2", "multi_modal_projector.linear_2"),
    tensor("image_newline", "image_newline"),
];

/// How a picture's tiles are brought together, in GGUF files, and the one way that is known.
const MERGE: (&str, &str) = ("vision.mm_patch_merge_type", "spatial_unpad");
const GRIDS: &str = "vision.image_grid_pinpoints";
const FEATURES: &str = "vision.feature_layer";

pub(super) fn load(s: &Source<'_>) -> Result<Vision> {
    let usual = match s.settings.text_or("model_type", "", "clip_vision_model")?.as_str() {
        "clip_vision_model" => Usual::CLIP,
        "siglip_vision_model" => Usual::SIGLIP,
        other => {
            return Err(s.settings.wrong(
                "model_type",
                "",
                format!("is `{other}`; clip_vision_model and siglip_vision_model are supported"),
            ));
        }
    };
    let mut tiled = Tiled::read(s, usual, Norm::Layer)?;
    let layers = tiled.vit.windows.len();
    tiled.features = features(s, layers)?;
    let last = tiled.features.iter().copied().max().unwrap_or(layers);
    s.settings.note("vision.block_count", Meta::Unsigned(last as u64));
    s.settings.note(FEATURES, Meta::Integers(tiled.features.iter().map(|n| *n as i64).collect()));
    // Of SigLIP the last of all is behind its norm.
    if last == layers && usual.act == Usual::SIGLIP.act {
        return Err(s.outer.wrong("vision_feature_layer", "", "names SigLIP's last layer; one before it is supported"));
    }
    tiled.vit.windows.truncate(last);
    s.leave_out_layers_from(last);
    let mut tiles = tiled.tiles(s, 1, s.pictures.filter(Filter::Bicubic)?, s.pictures.normalize(CLIP)?)?;
    tiles.keeps_class = match s.outer.text_or("vision_feature_select_strategy", "", "default")?.as_str() {
        "full" => true,
        // GGUF files do not say it: what has no class keeps all.
        "default" if tiles.class.is_some() || s.settings.is_gguf() => false,
        "default" => {
            return Err(s.outer.wrong("vision_feature_select_strategy", "", "is `default`, which leaves a patch out without a class"));
        }
        other => return Err(s.outer.wrong("vision_feature_select_strategy", "", format!("is `{other}`; default and full are known"))),
    };
    s.settings.unread_by_llama_cpp(tiles.class.is_some(), "it takes the class of CLIP's tower for a patch, and a patch for the class");
    s.outer.hf_only(tiles.keeps_class && tiles.class.is_some(), "it keeps the class among the patches, where GGUF files leave it out");
    let act = s.outer.activation_of("projector_hidden_act", "gelu")?;
    let (inner, out) = (s.rows("mm.0.weight").unwrap_or(0), s.rows("mm.2.weight").unwrap_or(0));
    let next = match s.settings.is_gguf() {
        true => s.settings.text_or("", MERGE.0, "flat")? == MERGE.1,
        false => s.outer.text_or("model_type", "", "llava")? == "llava_next",
    };
    if next {
        s.settings.note(MERGE.0, Meta::Text(MERGE.1.into()));
    }
    let newline = if next { Some(s.needed("image_newline", &[out])?) } else { None };
    let encoder = tiled.encoder(s, tiles.rows())?;
    let processor: Box<dyn Processor> = if next { Box::new(any_resolution(s, tiles)?) } else { Box::new(square(s, tiles)?) };
    let projector = s.plan("projector", out, processor.most_rows(), |g| {
        let x = g.given(0, tiled.given());
        let x = g.linear(x, "mm.0", inner);
        let x = g.apply(x, act);
        g.linear(x, "mm.2", out)
    })?;
    Ok(Vision { encoder, projector, processor, newline, sight: Sight::default() })
}

/// After how many layers features are taken: `vision_feature_layer`, which may count from the end.
fn features(s: &Source<'_>, layers: usize) -> Result<Vec<usize>> {
    let wrong = |what: String| s.outer.wrong("vision_feature_layer", "", what);
    let one = |value: &Value| -> Result<usize> {
        let index = value.as_i64().ok_or_else(|| wrong(format!("should be a layer, but is {value}")))?;
        let from_start = if index < 0 { index + layers as i64 + 1 } else { index };
        usize::try_from(from_start).ok().filter(|n| *n <= layers).ok_or_else(|| wrong(format!("names layer {index} of {layers}")))
    };
    if s.settings.is_gguf() {
        // Files that do not say it were made without the layers behind. llama.cpp leaves out one more, which their maker did not mean.
        return match s.settings.gguf_value(FEATURES) {
            None => Ok(vec![layers]),
            value => {
                let listed = layers_of(value).filter(|list| !list.is_empty() && list.iter().all(|layer| *layer <= layers));
                listed.ok_or_else(|| s.settings.wrong("", FEATURES, format!("should be a list of layers up to {layers}")))
            }
        };
    }
    match s.outer.json("vision_feature_layer") {
        None => one(&(-2).into()).map(|layer| vec![layer]),
        Some(Value::Array(list)) if !list.is_empty() => list.iter().map(one).collect(),
        Some(value) => one(value).map(|layer| vec![layer]),
    }
}

const TOKEN: &str = "<image>";

fn square(s: &Source<'_>, tiles: Tiles) -> Result<Square> {
    let (pictures, side) = (&s.pictures, tiles.side);
    pictures.note_unsaid(true, "how pictures become squares: they are stretched");
    let fit = if pictures.is_of("Llava") && pictures.flag("do_pad", false)? {
        let mean = tiles.normalize.mean();
        Fit::Pad(mean.map(|mean| (mean * 255.0) as u8))
    } else {
        match pictures.size("size.shortest_edge", 1 << 14)? {
            Some(short) if pictures.flag("do_center_crop", true)? => Fit::Middle(short),
            Some(_) => return Err(pictures.wrong("do_center_crop", "is false, which leaves pictures of different sizes")),
            None => Fit::Stretch,
        }
    };
    match fit {
        Fit::Middle(_) => pictures.squares(&["crop_size"], side)?,
        Fit::Pad(_) => pictures.squares(&["size.shortest_edge", "size"], side)?,
        Fit::Stretch => pictures.squares(&["size"], side)?,
    }
    let [mark, token] = [TOKEN, TOKEN].map(String::from);
    Ok(Square { tiles, fit, crops: None, mark, token, around: Default::default() })
}

fn any_resolution(s: &Source<'_>, tiles: Tiles) -> Result<AnyResolution> {
    let (pictures, side) = (&s.pictures, tiles.side);
    pictures.squares(&["size.shortest_edge", "size", "crop_size"], side)?;
    if tiles.keeps_class && tiles.class.is_some() {
        return Err(s.outer.wrong("vision_feature_select_strategy", "", "is `full`, which has a token more than there are patches"));
    }
    let stated = pictures.json("image_grid_pinpoints").or_else(|| s.outer.json("image_grid_pinpoints"));
    let size = |value: &Value| -> Option<[usize; 2]> {
        let [height, width] = value.as_array()?.as_slice() else { return None };
        let part = |value: &Value| value.as_u64().map(|n| n as usize).filter(|n| *n > 0 && n.is_multiple_of(side) && n / side <= 16);
        Some([part(height)?, part(width)?])
    };
    let listed = layers_of(s.settings.gguf_value(GRIDS));
    let in_file: Option<Value> = listed.map(|list| list.chunks_exact(2).map(|size| Value::from(size.to_vec())).collect());
    let sizes = match in_file.as_ref().or(stated).and_then(Value::as_array) {
        Some(list) if !list.is_empty() => list.iter().map(size).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    let needed =
        || pictures.wrong("image_grid_pinpoints", format!("should be a list of heights and widths, multiples of {side} up to 16 times it"));
    let sizes = sizes.ok_or_else(needed)?;
    s.settings.note(GRIDS, Meta::Integers(sizes.iter().flatten().map(|n| *n as i64).collect()));
    Ok(AnyResolution { tiles, sizes, token: TOKEN.into() })
}
