//! NVIDIA's ModelOpt: NVFP4 and FP8.
//!
//! | `quant_algo` | tensors |
//! |---|---|
//! | `NVFP4`, `NVFP4_AWQ`, `W4A16_NVFP4` | `weight` U8 `[out, in / 2]`, `weight_scale` E4M3 `[out, in / 16]`, `weight_scale_2` F32: `w = value * scale * scale_2` |
//! | `FP8` | `weight` E4M3, `weight_scale` F32 |
//!
//! E2M1 floats are two to a byte, the first in the low half. `input_scale` is for activations only, which are not rounded here.
//! Layout: `torch/quantization/qtensor/nvfp4_tensor.py` of ModelOpt.

use super::{
    fields::Fields,
    fp4::twice,
    fp8::{FLOATS8, SCALES, scaled},
    matrix::{Codes, Groups, Made},
    reader::{Reader, fault, matrix, shaped},
    scalars::Scalars,
};
use crate::{Result, Tensor};
use onebit_quants::{F8_E4M3, F32, U8};

/// Values in a group.
pub(super) const GROUP: usize = 16;

pub(super) fn read(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    let inner = fields.object("quantization")?;
    let fields = inner.as_ref().unwrap_or(fields);
    let algorithm = fields.word("quant_algo", &["NVFP4", "FP8", "W4A16_NVFP4"], "")?;
    if algorithm.is_empty() {
        return Err(fields.wrong("quant_algo", "is missing; known are NVFP4, W4A16_NVFP4 and FP8"));
    }
    reader.forget(&[".input_scale", ".k_scale", ".v_scale"]);
    // Either may be in a file of the other: embeddings and outputs are sometimes FP8.
    for module in reader.before(".weight_scale_2") {
        let tensor = two_level(reader, &module)?;
        reader.put(tensor)?;
    }
    for name in reader.before("_scale") {
        let Some(weight) = reader.see(&name).filter(|t| FLOATS8.contains(&t.ty())).cloned() else { continue };
        reader.take(&name);
        let scale = reader.need(&format!("{name}_scale"), SCALES, &weight)?;
        let tensor = scaled(weight, scale, None, "FP8")?;
        reader.put(tensor)?;
    }
    Ok(())
}

fn two_level(reader: &mut Reader<'_>, module: &str) -> Result<Tensor> {
    let Some(global) = reader.optional(&format!("{module}.weight_scale_2"), &[F32])? else { unreachable!("it was listed") };
    let weight = reader.need(&format!("{module}.weight"), &[U8], &global)?;
    let scale = reader.need(&format!("{module}.weight_scale"), &[F8_E4M3], &global)?;
    nvfp4(format!("{module}.weight"), weight, scale, global, false)
}

/// The tensor of E2M1 codes with E4M3 scales for groups of 16 and one more scale for all, by which they are multiplied or `divided`.
pub(super) fn nvfp4(name: String, weight: Tensor, scale: Tensor, global: Tensor, divided: bool) -> Result<Tensor> {
    let [rows, bytes] = matrix(&weight)?;
    let columns = bytes * 2;
    if !columns.is_multiple_of(GROUP) {
        return Err(fault(&weight, &format!("has rows of {columns} values, which groups of {GROUP} do not divide")));
    }
    shaped(&scale, &[rows, columns / GROUP], &format!("{rows} rows of {columns} values in groups of {GROUP}"))?;
    if global.values() != 1 {
        return Err(fault(&global, &format!("has shape {:?}, but should be one number", global.shape())));
    }
    let stored = vec![weight.clone(), scale.clone(), global.clone()];
    let made = Made { name, shape: vec![rows, columns], stored, scheme: "NVFP4".into() };
    let codes = Nvfp4 { weight: Scalars::new(weight), scale: Scalars::new(scale), global: Scalars::new(global), divided, columns };
    Ok(made.codes(codes, Groups::Even(GROUP), false))
}

#[derive(Debug)]
struct Nvfp4 {
    weight: Scalars,
    scale: Scalars,
    global: Scalars,
    divided: bool,
    columns: usize,
}

impl Codes for Nvfp4 {
    fn codes(&self, row: usize, out: &mut [i8]) {
        twice(&self.weight.bytes()[row * self.columns / 2..][..self.columns / 2], out);
    }
    fn line(&self, row: usize, group: usize) -> (f32, f32) {
        let (scale, global) = (self.scale.get(row * self.columns / GROUP + group), self.global.get(0));
        (0.5 * if self.divided { scale / global } else { scale * global }, 0.0)
    }
}
