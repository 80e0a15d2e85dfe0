//! HQQ (Badri and Shaji 2023, "Half-Quadratic Quantization").
//!
//! The matrix, seen as `[n, group_size]` (`axis` 1) or `[group_size, n]` (`axis` 0), is cut along its first dimension into as many parts
//! as a word holds codes, the first part in the highest bits:
//!
//! | `packing` | words | codes in a word |
//! |---|---|---|
//! | `8bit_u8`, `4bit_u8`, `2bit_u8`, `1bit_u8` | U8 | 1, 2, 4, 8 |
//! | `3bit_32` | I32 | 10, from bit 27 down; the last part may be short |
//!
//! A module has `W_q` (the words), `scale` and `zero` (one for each of the n), and its settings as tensors of one number or letters:
//! `nbits`, `group_size`, `axis`, `shape`, `packing`, ... `w = (code - zero) * scale`. Layout: `core/quantize.py`, `core/bitpack.py`.

use super::{
    fields::Fields,
    matrix::{Codes, Groups, Made, Numbers},
    reader::{Reader, fault},
    scalars::{FLOATS, Scalars},
};
use crate::{Result, Tensor};
use onebit_quants::{F32, I32, I64, U8, WeightType};

pub(super) fn read(_: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    for module in reader.before(".W_q") {
        let tensor = one_module(reader, &module)?;
        reader.put(tensor)?;
    }
    Ok(())
}

/// Settings of a module that say nothing of what its weights are.
const IDLE: [&str; 8] = [
    "compute_dtype",
    "offload_meta",
    "encoded_state_dict",
    "stores_quant_config",
    "channel_wise",
    "optimize",
    "round_zero",
    "unpack_view_dtype",
];

fn one_module(reader: &mut Reader<'_>, module: &str) -> Result<Tensor> {
    let words = reader.optional(&format!("{module}.W_q"), &[U8, I32])?;
    let Some(words) = words else { unreachable!("it was listed") };
    let mut setting = |key: &str, types: &[WeightType]| -> Result<Vec<f32>> {
        let tensor = reader.need(&format!("{module}.{key}"), types, &words)?;
        if tensor.values() > 64 { Err(fault(&tensor, "has more than 64 numbers, too many for a setting")) } else { Ok(tensor.to_f32()) }
    };
    let letters = setting("packing", &[U8])?;
    let packing: String = letters.iter().map(|c| *c as u8 as char).collect();
    let group = setting("group_size", &[I32, I64])?;
    let axis = setting("axis", &[I32, I64])?;
    let shape = setting("shape", &[I32, I64])?;
    let bits = setting("nbits", &[I32, I64, F32])?;
    for key in ["view_as_float", "quant_scale", "quant_zero"] {
        if setting(key, &[U8])? != [0.0] {
            return Err(fault(&words, &format!("has `{key}` set, which is not known how to read")));
        }
    }
    for key in IDLE {
        reader.take(&format!("{module}.{key}"));
    }
    let number = |what: &str, v: &[f32], limit: f32| match v {
        [n] if n.fract() == 0.0 && (0.0..=limit).contains(n) => Ok(*n as usize),
        _ => Err(fault(&words, &format!("has {what} {v:?}, which is not known"))),
    };
    let group = number("group_size", &group, 16_777_216.0)?;
    let axis = number("axis", &axis, 1.0)?;
    let (each, width, ty) = match packing.as_str() {
        "8bit_u8" => (1, 8, U8),
        "4bit_u8" => (2, 4, U8),
        "2bit_u8" => (4, 2, U8),
        "1bit_u8" => (8, 1, U8),
        "3bit_32" => (10, 3, I32),
        other => return Err(fault(&words, &format!("has packing `{}`, which is not known", super::fields::short(other)))),
    };
    let most = bits.first().copied().unwrap_or(0.0);
    if bits.len() != 1 || !(most > 0.0 && most <= width as f32) || words.ty() != ty {
        return Err(fault(&words, &format!("of type {} has nbits {bits:?}, which do not go with packing `{packing}`", words.ty())));
    }
    let &[rows, columns] = &shape[..] else { return Err(fault(&words, &format!("has shape {shape:?}, but should have two dimensions"))) };
    let sizes = [rows, columns].map(|n| if n.fract() == 0.0 && (1.0..=16_777_216.0).contains(&n) { n as usize } else { 0 });
    let values = sizes[0] * sizes[1];
    if values == 0 || group == 0 || !values.is_multiple_of(group) {
        return Err(fault(&words, &format!("has shape {shape:?} and group_size {group}, which do not go together")));
    }
    // Seen as a matrix of `lines` rows: what is cut into parts.
    let (lines, line) = if axis == 1 { (values / group, group) } else { (group, values / group) };
    let step = lines.div_ceil(each);
    if words.values() != step * line || each < 10 && !lines.is_multiple_of(each) {
        let what = format!(
            "has {} words, but {values} values in groups of {group} with packing `{packing}` ask for {}",
            words.values(),
            step * line
        );
        return Err(fault(&words, &what));
    }
    let scale = reader.need(&format!("{module}.scale"), FLOATS, &words)?;
    let zero = reader.need(&format!("{module}.zero"), FLOATS, &words)?;
    for tensor in [&scale, &zero] {
        if tensor.values() != values / group {
            return Err(fault(
                tensor,
                &format!("has {} numbers, but {values} values in groups of {group} ask for {}", tensor.values(), values / group),
            ));
        }
    }
    let made = Made {
        name: format!("{module}.weight"),
        shape: sizes.to_vec(),
        stored: vec![words.clone(), scale.clone(), zero.clone()],
        scheme: format!("HQQ, {most} bits in groups of {group}{}", if axis == 0 { " down the columns" } else { "" }),
    };
    let hqq = Hqq {
        words: Scalars::new(words),
        scale: Scalars::new(scale),
        zero: Scalars::new(zero),
        width,
        step,
        line,
        columns: sizes[1],
        across: axis == 1,
    };
    if axis == 1 && sizes[1].is_multiple_of(group) {
        return Ok(made.codes(hqq, Groups::Even(group), true));
    }
    Ok(made.numbers(hqq))
}

#[derive(Debug)]
struct Hqq {
    words: Scalars,
    scale: Scalars,
    zero: Scalars,
    /// Bits of a code.
    width: usize,
    /// Lines of words.
    step: usize,
    /// Values in a line.
    line: usize,
    /// Of the matrix.
    columns: usize,
    /// Whether groups lie along rows.
    across: bool,
}

impl Hqq {
    /// Value `at` of the matrix, row after row, as it was packed.
    fn code(&self, at: usize) -> u8 {
        let (line, place) = (at / self.line, at % self.line);
        let index = line % self.step * self.line + place;
        let part = line / self.step;
        if self.width == 3 {
            return (self.words.word(index) >> (27 - 3 * part) & 7) as u8;
        }
        let shift = 8 - self.width * (part + 1);
        ((u16::from(self.words.bytes()[index]) >> shift) & ((1 << self.width) - 1)) as u8
    }
    /// What is subtracted from codes so that they fit an i8.
    fn middle(&self) -> u8 {
        if self.width == 8 { 128 } else { 0 }
    }
}

impl Codes for Hqq {
    fn codes(&self, row: usize, out: &mut [i8]) {
        for (i, q) in out.iter_mut().enumerate() {
            *q = self.code(row * self.columns + i).wrapping_sub(self.middle()) as i8;
        }
    }
    fn line(&self, row: usize, group: usize) -> (f32, f32) {
        let at = row * (self.columns / self.line) + group;
        let (scale, zero) = (self.scale.get(at), self.zero.get(at));
        (scale, -scale * (zero - f32::from(self.middle())))
    }
}

impl Numbers for Hqq {
    fn numbers(&self, row: usize, out: &mut [f32]) {
        for (i, v) in out.iter_mut().enumerate() {
            let at = row * self.columns + i;
            let group = if self.across { at / self.line } else { at % self.line };
            *v = (f32::from(self.code(at)) - self.zero.get(group)) * self.scale.get(group);
        }
    }
}
