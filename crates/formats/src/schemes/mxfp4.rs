//! MXFP4 as gpt-oss stores its experts: E2M1 floats in groups of 32 with a power of two as the scale.
//!
//! | tensor | shape | holds |
//! |---|---|---|
//! | `gate_up_proj_blocks` U8 | `[experts, out, in / 32, 16]` | two codes to a byte, the first in the low half |
//! | `gate_up_proj_scales` U8 | `[experts, out, in / 32]` | exponents, 127 added |
//!
//! They stand for `gate_up_proj`. Layout: OCP Microscaling Formats 1.0; `integrations/mxfp4.py` of transformers.

use super::{
    fields::Fields,
    matrix::{Fill, Made},
    reader::{Reader, fault, shaped},
    scalars::Scalars,
};
use crate::{Result, Tensor};
use onebit_quants::{F8_E8M0, MXFP4, U8};

/// Values in a group.
pub(super) const GROUP: usize = 32;

pub(super) fn read(_: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    for name in reader.before("_blocks") {
        let Some(blocks) = reader.optional(&format!("{name}_blocks"), &[U8])? else { unreachable!("it was listed") };
        let scales = reader.need(&format!("{name}_scales"), &[U8, F8_E8M0], &blocks)?;
        let [rows @ .., groups, 16] = blocks.shape() else {
            return Err(fault(&blocks, &format!("has shape {:?}, but should end with 16 bytes for each group", blocks.shape())));
        };
        let (rows, groups) = (rows.to_vec(), *groups);
        shaped(&scales, &[&rows[..], &[groups]].concat(), "one scale for each group")?;
        let tensor = microscaled(name, rows, groups * GROUP, blocks, scales);
        reader.put(tensor)?;
    }
    Ok(())
}

/// The tensor of these codes, two to a byte, with their scales; `columns` are groups of 32, and shapes have been checked.
pub(super) fn microscaled(name: String, rows: Vec<usize>, columns: usize, codes: Tensor, scales: Tensor) -> Tensor {
    let stored = vec![codes.clone(), scales.clone()];
    let made = Made { name, shape: [&rows[..], &[columns]].concat(), stored, scheme: "MXFP4".into() };
    made.tensor(MXFP4, Microscaled { codes: Scalars::new(codes), scales: Scalars::new(scales), columns })
}

#[derive(Debug)]
struct Microscaled {
    codes: Scalars,
    scales: Scalars,
    columns: usize,
}

impl Fill for Microscaled {
    /// In ggml's blocks: the scale, then values 0 to 15 in the low halves and 16 to 31 in the high ones.
    fn row(&self, row: usize, out: &mut [u8]) {
        let codes = &self.codes.bytes()[row * self.columns / 2..][..self.columns / 2];
        let scales = &self.scales.bytes()[row * self.columns / GROUP..][..self.columns / GROUP];
        for ((codes, scale), out) in codes.as_chunks::<16>().0.iter().zip(scales).zip(out.as_chunks_mut::<17>().0) {
            out[0] = *scale;
            for j in 0..16 {
                let value = |i: usize| codes[i / 2] >> (4 * (i % 2)) & 15;
                out[1 + j] = value(j) | value(j + 16) << 4;
            }
        }
    }
}
