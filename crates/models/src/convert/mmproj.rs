//! Writes the vision tower of a Hugging Face directory as a GGUF file of its own (mmproj), as llama.cpp names and stores things.
//!
//! As with text models, the plans say which weights there are, and the settings that were read while building them noted the metadata.
//! What llama.cpp has otherwise: kernels of the patch embedding keep their dimensions, and one that reads two frames of a film is two
//! kernels; some families have queries, keys and values apart.

use super::{
    Converted, Options,
    tensors::{Stored, squeezed},
};
use crate::{
    Error, Result,
    names::Order,
    vision::{self, Found, source::Source},
};
use onebit_formats::{Checkpoint, Meta, gguf::Writer};
use onebit_plan::{Edit, Progress, Weight};
use onebit_quants::{BF16, F16, F32, WeightType};
use std::{collections::BTreeMap, path::Path};

/// The embedding of patches, in the plan.
const PATCHES: &str = "patch_embd.weight";

/// Tensors that llama.cpp adds to or looks up, and those of which it wants columns.
const ALWAYS_F32: [&str; 3] = ["v.patch_embd.", "v.position_embd.", "mm.patch_merger."];

/// Writes the vision tower of the model in the Hugging Face directory `checkpoint` to the GGUF file `out`, which appears when it is
/// complete.
///
/// # Errors
/// As [`vision::load`]; when the directory has no tower of a family that is known; when GGUF cannot say something that the tower needs;
/// when the file cannot be written.
pub fn convert_vision(checkpoint: &Checkpoint, out: &Path, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Converted> {
    let refuse = super::writable(checkpoint, options)?;
    let Some(Found { vision, source }) = vision::find(checkpoint, None)? else {
        return Err(refuse("it has no vision tower of a family that is known".into()));
    };
    let Some(projector) = source.arch.gguf.first().copied() else {
        return Err(refuse("llama.cpp has no name for its vision tower".into()));
    };
    if let Some(what) = [&source.settings, &source.outer].iter().flat_map(|settings| settings.unsayable()).next() {
        return Err(refuse(what));
    }
    let mut remarks: Vec<String> = source.pictures.unsaid().iter().map(|what| format!("the file cannot say {what}")).collect();
    remarks.extend(source.settings.unread().iter().map(|what| super::not_run(what)));

    let width = vision.projector.plan.vocabulary;
    let weights: Vec<Weight> = [vision.encoder.weights, vision.projector.weights, source.read()].concat();
    let mut tensors: BTreeMap<String, Stored<'_>> = BTreeMap::new();
    for weight in &weights {
        for tensor in stored(&source, weight, options.ty, &mut remarks)? {
            tensors.insert(tensor.name.clone(), tensor);
        }
    }
    let mut writer = Writer::new(out);
    for (key, value) in pairs(checkpoint, &source, projector, width) {
        writer.pair(&key, &value)?;
    }
    super::write(writer, &tensors.into_values().collect::<Vec<_>>(), projector, remarks, progress)
}

/// The metadata.
fn pairs(checkpoint: &Checkpoint, source: &Source<'_>, projector: &str, width: usize) -> BTreeMap<String, Meta> {
    let text = |text: &str| Meta::Text(text.into());
    let mut pairs = BTreeMap::from([
        ("general.architecture".into(), text("clip")),
        ("general.type".into(), text("mmproj")),
        ("general.name".into(), Meta::Text(super::model_name(checkpoint))),
        ("general.quantization_version".into(), Meta::Unsigned(2)),
        ("clip.has_vision_encoder".into(), Meta::Bool(true)),
        ("clip.projector_type".into(), text(projector)),
        ("clip.vision.projection_dim".into(), Meta::Unsigned(width as u64)),
    ]);
    if let Some([mean, deviation]) = source.pictures.noted_colours() {
        let floats = |values: [f64; 3]| Meta::Floats(values.iter().map(|x| *x as f32).collect());
        pairs.extend([("clip.vision.image_mean".into(), floats(mean)), ("clip.vision.image_std".into(), floats(deviation))]);
    }
    // Settings go by the name of the projector.
    for (key, value) in source.settings.noted() {
        let key = key.strip_prefix(projector).map_or(key.clone(), |rest| format!("clip{rest}"));
        pairs.insert(key, value);
    }
    pairs
}

/// The tensors that a weight of the plans becomes.
fn stored<'a>(source: &Source<'_>, weight: &'a Weight, wanted: Option<WeightType>, remarks: &mut Vec<String>) -> Result<Vec<Stored<'a>>> {
    let name = source.gguf_name(&weight.name);
    let entry = source.names.entry(&weight.name).map(|(entry, ..)| entry);
    let own = weight.parts.first().and_then(|part| source.checkpoint.tensor(part.tensor.name()));
    let own = own.map(|tensor| tensor.shape().to_vec()).unwrap_or_default();
    if weight.name == PATCHES {
        return Ok(patches(&name, weight, &own));
    }
    // Tables of several axes are apart.
    let apart = own.len() == 3 && own.iter().product::<usize>() == weight.values();
    let mut shape = squeezed(if apart { &own } else { &weight.shape });
    let transposed = shape.len() == 2 && entry.is_some_and(|entry| entry.is_transposed());
    if transposed {
        shape.reverse();
    }
    let mut ty = match wanted {
        _ if shape.len() <= 1 || ALWAYS_F32.iter().any(|start| name.starts_with(start)) => F32,
        Some(ty) => ty,
        None if weight.ty.info().ggml_id.is_some() && weight.ty.info().encode.is_some() => weight.ty,
        None => BF16,
    };
    let columns = shape.last().copied().unwrap_or(1);
    if !columns.is_multiple_of(ty.block_values()) || transposed && ty.block_values() > 1 {
        remarks.push(format!("`{name}` cannot be cut into blocks of {ty}; it is stored as F16"));
        ty = F16;
    }
    if source.apart
        && let Some((layer, end)) = name.split_once(".attn_qkv.")
    {
        let rows = shape[0] / 3;
        shape[0] = rows;
        let part = |(i, part): (usize, &str)| {
            let order = Order::Rows((i * rows..(i + 1) * rows).collect());
            Stored::of(format!("{layer}.{part}.{end}"), ty, shape.clone(), weight, Some(order))
        };
        return Ok(["attn_q", "attn_k", "attn_v"].into_iter().enumerate().map(part).collect());
    }
    let order = match transposed {
        true => Some(Order::Transposed),
        false => entry.map(|entry| entry.order(&source.settings)).transpose()?.flatten(),
    };
    if let Some(Order::Runs(run)) = &order
        && !shape[0].is_multiple_of(run.len())
    {
        let what = format!("`{name}` has {} rows, which are no heads of {}", shape[0], run.len());
        return Err(Error::Convert { path: source.checkpoint.path.clone(), what });
    }
    debug_assert!(weight.edit != Edit::UnitRow);
    Ok(vec![Stored::of(name, ty, shape, weight, order)])
}

/// The kernels of the patch embedding, `[out, channel, row, column]`: one for each frame where `own`, the shape in the directory, is
/// `[out, channel, frame, row, column]`. Where it is `[out, in]`, the input has the channels of a pixel side by side.
fn patches<'a>(name: &str, weight: &'a Weight, own: &[usize]) -> Vec<Stored<'a>> {
    let kernel = |name: String, side: usize, columns: Vec<usize>| {
        Stored::of(name, F32, vec![weight.shape[0], 3, side, side], weight, Some(Order::Columns(columns)))
    };
    let frames = if let [_, _, frames, _, _] = own { *frames } else { 1 };
    let pixels = weight.columns() / 3 / frames;
    let side = pixels.isqrt();
    let frame = |frame: usize| (0..3 * pixels).map(|i| (i / pixels * frames + frame) * pixels + i % pixels).collect();
    match own.len() {
        2 => vec![kernel(name.into(), side, (0..3 * pixels).map(|i| i % pixels * 3 + i / pixels).collect())],
        _ if frames == 1 => vec![kernel(name.into(), side, frame(0))],
        _ => vec![kernel(name.into(), side, frame(0)), kernel(format!("{name}.1"), side, frame(1))],
    }
}
