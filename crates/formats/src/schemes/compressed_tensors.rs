//! compressed-tensors, what llm-compressor and vLLM use.
//!
//! | `format` | tensors of a module |
//! |---|---|
//! | `pack-quantized` | `weight_packed` I32 `[out, in * bits / 32]` (codes packed along the inputs, `2^(bits - 1)` added), `weight_scale` `[out, groups]`, `weight_shape`; `weight_zero_point` I32 `[out * bits / 32, groups]` packed along the outputs; `weight_g_idx` I32 `[in]` |
//! | `int-quantized`, `naive-quantized` | `weight` I8 `[out, in]`, `weight_scale` `[out, groups]` or one, `weight_zero_point` I8 likewise |
//! | `float-quantized`, `naive-quantized` | `weight` E4M3, `weight_scale`: one, `[out, 1]`, `[out, groups]` or blocks |
//! | `nvfp4-pack-quantized` | `weight_packed` U8 `[out, in / 2]`, `weight_scale` E4M3 `[out, in / 16]`, `weight_global_scale` (which divides) |
//! | `mxfp4-pack-quantized` | `weight_packed` U8 `[out, in / 2]`, `weight_scale` U8 `[out, in / 32]`: exponents |
//! | `mxfp8-quantized` | `weight` E4M3, `weight_scale` U8 `[out, in / 32]`: exponents |
//!
//! `w = scale * (code - zero)`. Which modules are quantized how is told by lists of names and regular expressions; the tensors themselves
//! tell it too, by their names, types and shapes, so those are believed, and each module must be as one of the `config_groups` describes
//! it. Layout: `compressors` of the package compressed-tensors.

use super::{
    bits::{one, words, words_for},
    fields::Fields,
    fp8::{FLOATS8, SCALES, scaled},
    gptq::{listed, middle, signed},
    matrix::{Codes, Groups, Made},
    modelopt::nvfp4,
    mxfp4::{self, microscaled},
    reader::{Reader, fault, matrix, shaped},
    scalars::{FLOATS, Scalars},
};
use crate::{Result, Tensor};
use onebit_quants::{F8_E4M3, F8_E8M0, F32, I8, I32, I64, U8};

const FORMATS: &[&str] = &[
    "pack-quantized",
    "int-quantized",
    "float-quantized",
    "naive-quantized",
    "nvfp4-pack-quantized",
    "mxfp4-pack-quantized",
    "mxfp8-quantized",
    "mixed-precision",
    "dense",
];

pub(super) fn read(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    if let Some(sparsity) = fields.object("sparsity_config")? {
        sparsity.word("format", &["dense"], "dense")?;
    }
    fields.nothing("transform_config")?;
    fields.word("quantization_status", &["compressed", "frozen"], "compressed")?;
    fields.word("format", FORMATS, "dense")?;
    let groups = groups(fields)?;
    reader.forget(&[".input_scale", ".input_zero_point", ".input_global_scale", ".output_scale", ".k_scale", ".v_scale", ".q_scale"]);
    for module in reader.before(".weight_packed") {
        let tensor = packed(reader, &module, &groups)?;
        reader.put(tensor)?;
    }
    for module in reader.before(".weight_scale") {
        let tensor = unpacked(reader, &module, &groups)?;
        reader.put(tensor)?;
    }
    Ok(())
}

/// One of the `config_groups`: how weights are stored.
#[derive(Clone, Copy, PartialEq)]
struct Kind {
    bits: u32,
    float: bool,
    strategy: &'static str,
    group: Option<usize>,
    block: Option<[usize; 2]>,
    symmetric: bool,
    /// Whether inputs were taken out of order, so that `weight_g_idx` must tell their groups.
    ordered: bool,
}

fn groups(fields: &Fields<'_>) -> Result<Vec<Kind>> {
    let Some(all) = fields.object("config_groups")? else { return Err(fields.wrong("config_groups", "is missing")) };
    let mut kinds = vec![];
    for key in all.keys() {
        let Some(group) = all.object(key)? else { continue };
        group.word("format", FORMATS, "dense")?;
        let Some(weights) = group.object("weights")? else { continue };
        let order =
            weights.word("actorder", &["group", "weight", "static", "dynamic"], "weight").or_else(|e| match weights.flag("actorder") {
                Ok(Some(false)) => Ok("weight"),
                _ => Err(e),
            })?;
        weights.nothing("dynamic")?;
        let float = weights.word("type", &["int", "float"], "int")? == "float";
        let known: &[&'static str] = &["tensor", "channel", "group", "block", "tensor_group"];
        let group = if weights.has("group_size") { weights.group("group_size")? } else { None };
        let strategy = weights.word("strategy", known, if group.is_some() { "group" } else { "tensor" })?;
        let block = weights.pair("block_structure")?;
        if strategy == "block" && block.is_none() {
            return Err(weights.wrong("block_structure", "is missing"));
        }
        kinds.push(Kind {
            bits: weights.bits("num_bits", if float { &[4, 8] } else { &[1, 2, 3, 4, 5, 6, 7, 8] })?,
            float,
            strategy,
            group,
            block,
            ordered: ["group", "dynamic"].contains(&order),
            symmetric: weights.flag("symmetric")?.unwrap_or(true),
        });
    }
    if kinds.is_empty() {
        return Err(fields.wrong("config_groups", "quantizes no weights"));
    }
    Ok(kinds)
}

/// The error of a module that is as no group describes it.
fn undescribed(tensor: &Tensor, found: &str) -> crate::Error {
    fault(tensor, &format!("holds {found}, which no group of `quantization_config.config_groups` describes"))
}

/// Checks that a group describes integers of so many bits with so many scales in a row, and zero points as they are.
fn described(kinds: &[Kind], tensor: &Tensor, bits: u32, columns: usize, groups: usize, zero: Option<&Tensor>) -> Result<()> {
    let fits = |k: &&Kind| {
        let scales = match k.strategy {
            "group" => k.group.map(|g| columns.div_ceil(g)),
            "channel" | "tensor" => Some(1),
            _ => None,
        };
        !k.float && k.bits == bits && scales == Some(groups)
    };
    let mut fitting = kinds.iter().filter(fits).peekable();
    if fitting.peek().is_none() {
        return Err(undescribed(tensor, &format!("integers of {bits} bits with {groups} scales in a row of {columns}")));
    }
    if zero.is_none() && fitting.all(|k| !k.symmetric) {
        return Err(fault(tensor, "needs `weight_zero_point`, which is missing: its group is not symmetric"));
    }
    Ok(())
}

fn packed(reader: &mut Reader<'_>, module: &str, kinds: &[Kind]) -> Result<Tensor> {
    let Some(weight) = reader.optional(&format!("{module}.weight_packed"), &[I32, U8])? else { unreachable!("it was listed") };
    if weight.ty() == U8 { fp4(reader, module, weight, kinds) } else { integers(reader, module, weight, kinds) }
}

fn fp4(reader: &mut Reader<'_>, module: &str, weight: Tensor, kinds: &[Kind]) -> Result<Tensor> {
    let name = format!("{module}.weight");
    let scale = reader.need(&format!("{module}.weight_scale"), &[F8_E4M3, U8, F8_E8M0], &weight)?;
    let four = |group: usize| kinds.iter().any(|k| k.float && k.bits == 4 && k.group == Some(group));
    if scale.ty() == F8_E4M3 {
        let global = reader.need(&format!("{module}.weight_global_scale"), &[F32], &weight)?;
        if !four(16) {
            return Err(undescribed(&weight, "floats of 4 bits in groups of 16"));
        }
        return nvfp4(name, weight, scale, global, true);
    }
    if !four(mxfp4::GROUP) {
        return Err(undescribed(&weight, "floats of 4 bits in groups of 32"));
    }
    let [rows, bytes] = matrix(&weight)?;
    let columns = bytes * 2;
    if !columns.is_multiple_of(mxfp4::GROUP) {
        return Err(fault(&weight, &format!("has rows of {columns} values, which groups of 32 do not divide")));
    }
    shaped(&scale, &[rows, columns / mxfp4::GROUP], &format!("{rows} rows of {columns} values in groups of 32"))?;
    Ok(microscaled(name, vec![rows], columns, weight, scale))
}

/// The shape that `weight_shape` tells.
fn told(tensor: &Tensor) -> Result<[usize; 2]> {
    let n = tensor.ty().block_bytes();
    let numbers: Vec<u64> = tensor
        .in_file()
        .unwrap_or(&[])
        .chunks_exact(n)
        .map(|bytes| {
            let mut number = [0; 8];
            number[..n].copy_from_slice(bytes);
            u64::from_le_bytes(number)
        })
        .collect();
    match numbers[..] {
        [rows, columns] if [rows, columns].iter().all(|n| (1..=1 << 32).contains(n)) => Ok([rows as usize, columns as usize]),
        _ => Err(fault(tensor, &format!("tells the shape {numbers:?}, but should tell two positive dimensions"))),
    }
}

fn integers(reader: &mut Reader<'_>, module: &str, weight: Tensor, kinds: &[Kind]) -> Result<Tensor> {
    let shape = reader.need(&format!("{module}.weight_shape"), &[I64, I32], &weight)?;
    let [rows, columns] = told(&shape)?;
    let scale = reader.need(&format!("{module}.weight_scale"), FLOATS, &weight)?;
    let zero = reader.optional(&format!("{module}.weight_zero_point"), &[I32])?;
    let g_idx = reader.optional(&format!("{module}.weight_g_idx"), &[I32, I64])?;
    let [packed_rows, row] = matrix(&weight)?;
    let bits = kinds.iter().map(|k| k.bits).find(|b| words_for(columns, *b) == Some(row));
    let Some(bits) = bits.filter(|_| packed_rows == rows) else {
        let what = format!("has shape {:?}, which no group of the configuration makes of {rows} x {columns}", weight.shape());
        return Err(fault(&weight, &what));
    };
    let (groups, whole) = scales_in_row(&scale, rows)?;
    described(kinds, &weight, bits, columns, groups, zero.as_ref())?;
    if let Some(zero) = &zero {
        let why = format!("{groups} groups of {rows} rows with {bits} bits");
        shaped(zero, &[words_for(rows, bits).unwrap_or(0), groups], &why)?;
    }
    let group = kinds.iter().find_map(|k| k.group.filter(|g| columns.div_ceil(*g) == groups)).unwrap_or(columns);
    let order = match &g_idx {
        Some(g_idx) if g_idx.values() == columns => listed(g_idx, groups, group)?,
        Some(g_idx) => return Err(fault(g_idx, &format!("has {} numbers for {columns} columns", g_idx.values()))),
        None if groups > 1 && kinds.iter().filter(|k| !k.float && k.bits == bits).all(|k| k.ordered) => {
            return Err(fault(&weight, "needs `weight_g_idx`, which is missing: `actorder` says that inputs are out of order"));
        }
        None => Groups::Even(group),
    };
    let stored = [&weight, &scale, &shape].into_iter().chain(&zero).chain(&g_idx).cloned().collect();
    let scheme = format!("compressed-tensors, {bits} bits in groups of {group}");
    let made = Made { name: format!("{module}.weight"), shape: vec![rows, columns], stored, scheme };
    let offsets = zero.is_some();
    let codes = Packed { weight: Scalars::new(weight), scale: Scalars::new(scale), zero: zero.map(Scalars::new), bits, row, groups, whole };
    Ok(made.codes(codes, order, offsets))
}

/// Scales in a row, and whether one serves all rows.
fn scales_in_row(scale: &Tensor, rows: usize) -> Result<(usize, bool)> {
    match *scale.shape() {
        [] | [1] => Ok((1, true)),
        [n] if n == rows => Ok((1, false)),
        [n, groups] if n == rows && groups > 0 => Ok((groups, false)),
        _ => Err(fault(scale, &format!("has shape {:?}, but should have a row of scales for each of {rows} rows", scale.shape()))),
    }
}

#[derive(Debug)]
struct Packed {
    weight: Scalars,
    scale: Scalars,
    zero: Option<Scalars>,
    bits: u32,
    /// Words in a row.
    row: usize,
    groups: usize,
    /// One scale for all.
    whole: bool,
}

impl Codes for Packed {
    fn codes(&self, row: usize, out: &mut [i8]) {
        signed(words(&self.weight.bytes()[row * self.row * 4..][..self.row * 4]), self.bits, out);
    }
    fn line(&self, row: usize, group: usize) -> (f32, f32) {
        let scale = self.scale.get(if self.whole { 0 } else { row * self.groups + group });
        let zero = |zero: &Scalars| one(|w| zero.word(w * self.groups + group), self.bits, row) as f32 - middle(self.bits);
        (scale, self.zero.as_ref().map_or(0.0, |z| -scale * zero(z)))
    }
}

/// A module whose codes have a byte each.
fn unpacked(reader: &mut Reader<'_>, module: &str, kinds: &[Kind]) -> Result<Tensor> {
    let Some(scale) = reader.take(&format!("{module}.weight_scale")) else { unreachable!("it was listed") };
    let weight = reader.need(&format!("{module}.weight"), &[I8, F8_E4M3], &scale)?;
    let [rows, columns] = matrix(&weight)?;
    if FLOATS8.contains(&weight.ty()) {
        let Some(kind) = kinds.iter().find(|k| k.float && k.bits == 8) else { return Err(undescribed(&weight, "floats of 8 bits")) };
        // Exponents of MXFP8 are bytes; what they mean is F8_E8M0.
        let scale = if scale.ty() == U8 { scale.seen_as(F8_E8M0) } else { scale };
        if !SCALES.contains(&scale.ty()) {
            return Err(fault(&scale, &format!("is of type {}, which no scale has", scale.ty())));
        }
        let block = kind.block.or_else(|| kind.group.map(|g| [1, g]));
        return scaled(weight, scale, block, "compressed-tensors FP8");
    }
    if !FLOATS.contains(&scale.ty()) {
        return Err(fault(&scale, &format!("is of type {}, which no scale has", scale.ty())));
    }
    let zero = reader.optional(&format!("{module}.weight_zero_point"), &[I8])?;
    let (groups, whole) = scales_in_row(&scale, rows)?;
    // Codes of fewer bits may stand in bytes too.
    let bits = if kinds.iter().any(|k| !k.float && k.bits == 8) { None } else { kinds.iter().find(|k| !k.float).map(|k| k.bits) };
    described(kinds, &weight, bits.unwrap_or(8), columns, groups, zero.as_ref())?;
    if let Some(zero) = &zero {
        shaped(zero, scale.shape(), "the scales' shape")?;
    }
    let group = kinds.iter().find_map(|k| k.group.filter(|g| columns.div_ceil(*g) == groups)).unwrap_or(columns);
    let stored = [&weight, &scale].into_iter().chain(&zero).cloned().collect();
    let scheme = format!("compressed-tensors, int8 in groups of {group}");
    let made = Made { name: format!("{module}.weight"), shape: vec![rows, columns], stored, scheme };
    let offsets = zero.is_some();
    let codes = Bytes { weight: Scalars::new(weight), scale: Scalars::new(scale), zero: zero.map(Scalars::new), columns, groups, whole };
    Ok(made.codes(codes, Groups::Even(group), offsets))
}

#[derive(Debug)]
struct Bytes {
    weight: Scalars,
    scale: Scalars,
    zero: Option<Scalars>,
    columns: usize,
    groups: usize,
    whole: bool,
}

impl Codes for Bytes {
    fn codes(&self, row: usize, out: &mut [i8]) {
        let bytes = &self.weight.bytes()[row * self.columns..][..self.columns];
        out.iter_mut().zip(bytes).for_each(|(q, b)| *q = *b as i8);
    }
    fn line(&self, row: usize, group: usize) -> (f32, f32) {
        let at = if self.whole { 0 } else { row * self.groups + group };
        let scale = self.scale.get(at);
        (scale, self.zero.as_ref().map_or(0.0, |z| -scale * z.get(at)))
    }
}
