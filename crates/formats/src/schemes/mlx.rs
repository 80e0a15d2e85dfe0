//! MLX's affine quantization, and transformers' `metal`, which has the same layout under another name for offsets.
//!
//! | tensor | shape | holds |
//! |---|---|---|
//! | `weight` U32 | `[out, in * bits / 32]` | codes, packed along the inputs |
//! | `scales` | `[out, in / group]` | |
//! | `biases` (`qbiases`) | `[out, in / group]` | offsets |
//!
//! `w = scale * code + offset`. Embeddings may be quantized too; stacks of experts have one more dimension. Single modules may have
//! settings of their own, under their name. Layout: `mlx.core.quantize`.

use super::{
    bits::{unpack, words, words_for},
    fields::Fields,
    gptq::{middle, signed},
    matrix::{Codes, Groups, Made},
    reader::{Reader, fault, shaped},
    scalars::{FLOATS, Scalars},
};
use crate::{Result, Tensor};
use onebit_quants::U32;

const BITS: &[u32] = &[2, 3, 4, 5, 6, 8];

pub(super) fn read(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    modules(fields, ".biases", reader)
}

pub(super) fn read_metal(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    modules(fields, ".qbiases", reader)
}

fn modules(fields: &Fields<'_>, biases: &str, reader: &mut Reader<'_>) -> Result<()> {
    for module in reader.before(".scales") {
        let own = if fields.keys().any(|key| key == module) { fields.object(&module)? } else { None };
        let settings = own.as_ref().unwrap_or(fields);
        settings.word("mode", &["affine"], "affine")?;
        let bits = settings.bits("bits", BITS)?;
        let Some(group) = settings.group("group_size")? else { return Err(settings.wrong("group_size", "is -1, but should be positive")) };
        let tensor = one_module(reader, &module, biases, bits, group)?;
        reader.put(tensor)?;
    }
    Ok(())
}

fn one_module(reader: &mut Reader<'_>, module: &str, biases: &str, bits: u32, group: usize) -> Result<Tensor> {
    let Some(scales) = reader.optional(&format!("{module}.scales"), FLOATS)? else { unreachable!("it was listed") };
    let weight = reader.need(&format!("{module}.weight"), &[U32], &scales)?;
    let biases = reader.need(&format!("{module}{biases}"), FLOATS, &scales)?;
    let Some((groups, matrices)) = scales.shape().split_last().filter(|(n, rest)| **n > 0 && !rest.is_empty()) else {
        return Err(fault(&scales, &format!("has shape {:?}, but should be a matrix", scales.shape())));
    };
    let columns = groups.checked_mul(group).filter(|n| *n <= 1 << 32).ok_or_else(|| fault(&scales, "has too many groups"))?;
    let row = words_for(columns, bits).unwrap_or(0);
    shaped(&weight, &[matrices, &[row]].concat(), &format!("{groups} groups of {group} codes of {bits} bits"))?;
    shaped(&biases, scales.shape(), "the scales' shape")?;
    let made = Made {
        name: format!("{module}.weight"),
        shape: [matrices, &[columns]].concat(),
        stored: vec![weight.clone(), scales.clone(), biases.clone()],
        scheme: format!("MLX, {bits} bits in groups of {group}"),
    };
    let codes = Affine {
        weight: Scalars::new(weight),
        scales: Scalars::new(scales),
        biases: Scalars::new(biases),
        bits,
        row,
        groups: columns / group,
    };
    Ok(made.codes(codes, Groups::Even(group), true))
}

#[derive(Debug)]
struct Affine {
    weight: Scalars,
    scales: Scalars,
    biases: Scalars,
    bits: u32,
    /// Words in a row.
    row: usize,
    groups: usize,
}

impl Codes for Affine {
    fn codes(&self, row: usize, out: &mut [i8]) {
        let words = words(&self.weight.bytes()[row * self.row * 4..][..self.row * 4]);
        if self.bits == 8 {
            return signed(words, 8, out);
        }
        let mut codes = vec![0; out.len()];
        unpack(words, self.bits, &mut codes);
        out.iter_mut().zip(codes).for_each(|(q, code)| *q = code as i8);
    }
    fn line(&self, row: usize, group: usize) -> (f32, f32) {
        let at = row * self.groups + group;
        let (scale, offset) = (self.scales.get(at), self.biases.get(at));
        (scale, if self.bits == 8 { scale.mul_add(middle(8), offset) } else { offset })
    }
}
