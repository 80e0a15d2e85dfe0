//! One GGUF file to another.

use crate::{
    Error, Importance, Override, Recipe, Result,
    recipe::{Model, fallback, is_weight, writable},
    rotate::Rotation,
};
use onebit_formats::{Checkpoint, DataWriter, Meta, Source, Tensor, gguf::Writer};
use onebit_quants::{F16, WeightType};
use std::{collections::BTreeMap, path::Path};

/// What to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// How types are chosen.
    pub recipe: &'static Recipe,
    /// Tensors that get another type than the recipe's; the last that matches counts.
    pub overrides: Vec<Override>,
    /// How much inputs matter.
    pub importance: Option<Importance>,
    /// Rotate the weights first, as `prism.hadamard.*` says in the file that is made.
    pub rotate: Option<Rotate>,
    /// Threads that encode.
    pub threads: usize,
}

/// How weights are rotated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotate {
    /// Inputs that are mixed, a power of two; `None` for as many as all widths allow, at most 1024.
    pub block: Option<usize>,
}

/// How far it has come, in bytes of the original.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// What was made.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Bytes of the file.
    pub bytes: u64,
    /// Tensors, and bytes, of each type.
    pub types: BTreeMap<&'static str, (usize, usize)>,
    /// Mean bits per weight.
    pub bits: f64,
    /// What the person should know.
    pub remarks: Vec<String>,
}

/// Values that are encoded between two writes: rows of about a million.
const PIECE: usize = 1 << 20;

/// Writes `checkpoint`, a GGUF file, in the types that `options` ask for to `out`, which appears when it is complete.
///
/// # Errors
/// When the original is no GGUF file; when a weight holds a NaN or an infinity; when the importance is another model's, or
/// missing for a type that is of no use without it; when the file cannot be written.
pub fn quantize(checkpoint: &Checkpoint, out: &Path, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    if checkpoint.source != Source::Gguf {
        return Err(Error::Asked(format!("{} is no GGUF file: `1bit convert` makes one of it", checkpoint.path.display())));
    }
    if let Some(key) = checkpoint.metadata.pairs.keys().find(|k| k.starts_with("onebit.hadamard")) {
        let what = format!("{}: `{key}` ties the rotation of its weights to their type, which would change", checkpoint.path.display());
        return Err(Error::Asked(what));
    }
    let mut report = Report::default();
    let plan = choose(checkpoint, options, &mut report)?;
    let rotation = options.rotate.map(|r| Rotation::of(checkpoint, r.block)).transpose()?;
    let mut writer = Writer::new(out);
    for (key, value) in checkpoint.metadata.pairs.iter().filter(|(k, _)| !k.starts_with("split.") && *k != "general.file_type") {
        writer.pair(key, value)?;
    }
    if let Some(id) = options.recipe.file_type {
        writer.pair("general.file_type", &Meta::Unsigned(u64::from(id)))?;
    }
    if !checkpoint.metadata.pairs.contains_key("general.quantization_version") {
        writer.pair("general.quantization_version", &Meta::Unsigned(2))?;
    }
    if let Some(rotation) = &rotation {
        rotation.pairs().iter().try_for_each(|(key, value)| writer.pair(key, value))?;
    }
    for (tensor, ty) in &plan {
        writer.tensor(tensor.name(), *ty, tensor.shape())?;
    }
    report.bytes = writer.size();
    let total = plan.iter().map(|(t, _)| t.stored_bytes() as u64).sum();
    let mut data = writer.begin()?;
    let mut done = 0;
    let (mut bits, mut values) = (0.0, 0.0);
    for (tensor, ty) in &plan {
        let rotation = rotation.as_ref().filter(|r| r.has(tensor.name()));
        if *ty == tensor.ty() && rotation.is_none() {
            data.write(tensor.name(), &tensor.bytes())?;
            done += tensor.stored_bytes() as u64;
            progress(Progress { done, total });
        } else {
            encode(tensor, *ty, options, rotation, &mut data, &mut |bytes| {
                done += bytes as u64;
                progress(Progress { done, total });
            })?;
        }
        tensor.release();
        let bytes = ty.bytes_for(tensor.shape()).unwrap_or(0);
        let entry = report.types.entry(ty.name()).or_default();
        *entry = (entry.0 + 1, entry.1 + bytes);
        bits += bytes as f64 * 8.0;
        values += tensor.values() as f64;
    }
    data.finish()?;
    report.bits = bits / f64::max(values, 1.0);
    Ok(report)
}

/// The type of each tensor.
fn choose<'a>(checkpoint: &'a Checkpoint, options: &Options, report: &mut Report) -> Result<Vec<(&'a Tensor, WeightType)>> {
    let settings = &checkpoint.metadata;
    let architecture = settings.text("general.architecture")?.unwrap_or_default().to_string();
    let number = |key: &str| -> Result<usize> { Ok(settings.unsigned(&format!("{architecture}.{key}"))?.unwrap_or(0) as usize) };
    let layer_of = |name: &str| -> Option<usize> { name.strip_prefix("blk.")?.split('.').next()?.parse().ok() };
    let counted = checkpoint.tensors.keys().filter_map(|n| layer_of(n)).max().map_or(0, |n| n.saturating_add(1));
    // Some architectures have these for each layer; then sharing is not known, and not assumed.
    let heads = number("attention.head_count").unwrap_or(0);
    let kv_heads = number("attention.head_count_kv").unwrap_or(0);
    let model = Model {
        layers: number("block_count")?.clamp(1, 1 << 16).min(counted.max(1)),
        group: heads / kv_heads.max(1),
        untied: checkpoint.tensor("output.weight").is_some(),
        importance: options.importance.is_some(),
    };
    let (mut plan, mut gave_way, mut kept, mut unknown) = (vec![], 0, 0, 0);
    for tensor in checkpoint.tensors.values() {
        let name = tensor.name();
        let matched = options.overrides.iter().rev().find(|o| o.matches(name));
        let mut ty = match matched {
            Some(o) => o.ty,
            None if is_weight(name, tensor.shape()) => options.recipe.choose(name, layer_of(name), &model),
            None => tensor.ty(),
        };
        if ty != tensor.ty() && !tensor.columns().is_multiple_of(ty.block_values()) {
            if matched.is_some() {
                let what = format!("blocks of {ty} ({}) do not divide its rows of {}", ty.block_values(), tensor.columns());
                return Err(Error::Tensor { tensor: name.into(), what });
            }
            gave_way += 1;
            ty = Some(fallback(ty)).filter(|t| tensor.columns().is_multiple_of(t.block_values())).unwrap_or(F16);
        }
        let blocks = |t: WeightType| t.info().codes.is_some();
        if ty != tensor.ty()
            && matched.is_none()
            && blocks(tensor.ty())
            && blocks(ty)
            && tensor.ty().bits_per_value() <= ty.bits_per_value()
        {
            // More bits bring back nothing that fewer have lost. Floats, and what is asked for by name, are meant.
            kept += 1;
            ty = tensor.ty();
        }
        if ty != tensor.ty() && !writable(ty) {
            return Err(Error::Tensor { tensor: name.into(), what: format!("1bit does not write {ty}") });
        }
        if let Some(importance) = options.importance.as_ref().filter(|_| ty.info().codes.is_some()) {
            unknown += usize::from(importance.of(name, 0, tensor.rows(), tensor.columns())?.is_none());
        }
        plan.push((tensor, ty));
    }
    let mut remark = |count: usize, what: &str| {
        if count > 0 {
            report.remarks.push(format!("{count} tensors {what}"));
        }
    };
    remark(gave_way, "have rows that the blocks of their type do not divide, and got the next type up");
    remark(kept, "were stored in as few bits already, and stay as they are");
    remark(unknown, "are not in the file of importance; they are encoded without");
    Ok(plan)
}

/// Decodes a tensor and encodes it again, piece by piece, each piece on all threads.
fn encode(
    tensor: &Tensor,
    ty: WeightType,
    options: &Options,
    rotation: Option<&Rotation>,
    data: &mut DataWriter,
    progress: &mut dyn FnMut(usize),
) -> Result<()> {
    let (rows, columns) = (tensor.rows(), tensor.columns());
    let (Some(to), Some(encode)) = (ty.row_bytes(columns), ty.info().encode) else {
        return Err(Error::Tensor { tensor: tensor.name().into(), what: format!("it cannot be stored as {ty}") });
    };
    let each = (PIECE / columns.max(1)).clamp(1, rows.max(1));
    let mut out = vec![0; each * to];
    for first in (0..rows).step_by(each) {
        let count = each.min(rows - first);
        let out = &mut out[..count * to];
        let share = count.div_ceil(options.threads.max(1));
        let work = |start: usize, out: &mut [u8]| -> Result<()> {
            let (mut row, mut room) = (vec![0.0; columns], vec![]);
            for (i, out) in out.chunks_exact_mut(to).enumerate() {
                let at = start + i;
                tensor.ty().decode(tensor.row(at, &mut room), &mut row);
                if let Some(column) = row.iter().position(|v| !v.is_finite()) {
                    let what = format!("row {at}, column {column} is {}: the original is broken (`1bit show --check`)", row[column]);
                    return Err(Error::Tensor { tensor: tensor.name().into(), what });
                }
                let importance = match &options.importance {
                    Some(i) => i.of(tensor.name(), at, rows, columns)?,
                    None => None,
                };
                match rotation {
                    None => encode(&row, importance, out),
                    Some(rotation) => {
                        rotation.turn(&mut row);
                        encode(&row, importance.map(|i| rotation.spread(i)).as_deref(), out);
                    }
                }
            }
            Ok(())
        };
        let work = &work;
        std::thread::scope(|scope| {
            let parts = out.chunks_mut(share * to).enumerate();
            let threads: Vec<_> = parts.map(|(i, out)| scope.spawn(move || work(first + i * share, out))).collect();
            threads.into_iter().try_for_each(|t| {
                t.join().unwrap_or_else(|_| Err(Error::Tensor { tensor: tensor.name().into(), what: "encoding it failed".into() }))
            })
        })?;
        data.write(tensor.name(), out)?;
        progress(tensor.stored_bytes() / rows.max(1) * count);
    }
    Ok(())
}
