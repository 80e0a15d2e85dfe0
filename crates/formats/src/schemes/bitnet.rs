//! BitNet b1.58 (Ma et al. 2024, arXiv:2402.17764) as Microsoft and transformers pack it.
//!
//! | tensor | shape | holds |
//! |---|---|---|
//! | `weight` U8 | `[out / 4, in]` | four trits to a byte: bits 2 k and 2 k + 1 of row r are row `k * out / 4 + r`, one added |
//! | `weight_scale` | `[1]` | |
//!
//! Inputs are rounded to 8 bits, token by token. `w = trit * scale` (`linear_class` `autobitlinear`) or `trit / scale` (`bitlinear`). Layout: `integrations/bitnet.py` of transformers.

use super::{
    fields::Fields,
    matrix::{Codes, Groups, Made},
    reader::{Reader, fault, matrix},
    scalars::{FLOATS, Scalars},
};
use crate::{Result, Tensor};
use onebit_quants::U8;

/// Trits in a byte.
const EACH: usize = 4;

pub(super) fn read(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    let class = fields.word("linear_class", &["bitlinear", "autobitlinear"], "bitlinear")?;
    fields.word("quantization_mode", &["offline"], "offline")?;
    fields.nothing("use_rms_norm")?;
    for module in reader.before(".weight_scale") {
        let tensor = one_module(reader, &module, class == "bitlinear")?;
        reader.put(tensor)?;
    }
    Ok(())
}

fn one_module(reader: &mut Reader<'_>, module: &str, divided: bool) -> Result<Tensor> {
    let Some(scale) = reader.optional(&format!("{module}.weight_scale"), FLOATS)? else { unreachable!("it was listed") };
    let weight = reader.need(&format!("{module}.weight"), &[U8], &scale)?;
    let [packed, columns] = matrix(&weight)?;
    if scale.values() != 1 {
        return Err(fault(&scale, &format!("has shape {:?}, but should be one number", scale.shape())));
    }
    let number = Scalars::new(scale.clone()).get(0);
    if !number.is_finite() || number == 0.0 {
        return Err(fault(&scale, &format!("is {number}, which cannot be a scale")));
    }
    let made = Made {
        name: format!("{module}.weight"),
        shape: vec![packed * EACH, columns],
        stored: vec![weight.clone(), scale],
        scheme: "BitNet, ternary".into(),
    };
    let codes = Ternary { weight: Scalars::new(weight), packed, columns, scale: if divided { 1.0 / number } else { number } };
    Ok(made.codes(codes, Groups::Even(columns), false))
}

#[derive(Debug)]
struct Ternary {
    weight: Scalars,
    /// Rows of bytes.
    packed: usize,
    columns: usize,
    scale: f32,
}

impl Codes for Ternary {
    fn codes(&self, row: usize, out: &mut [i8]) {
        let bytes = &self.weight.bytes()[row % self.packed * self.columns..][..self.columns];
        let shift = 2 * (row / self.packed);
        out.iter_mut().zip(bytes).for_each(|(q, b)| *q = (b >> shift & 3) as i8 - 1);
    }
    fn line(&self, _: usize, _: usize) -> (f32, f32) {
        (self.scale, 0.0)
    }
    fn rounds_input(&self) -> bool {
        true
    }
}
