//! FP8: matrices of 8-bit floats with scales for the whole, for rows, or for blocks.
//!
//! | names | who | scales |
//! |---|---|---|
//! | `weight`, `weight_scale_inv` | DeepSeek-V3 (arXiv:2412.19437), Qwen, MiniMax (`fp8`) | `[out / b, in / a]` for blocks of `weight_block_size`, or one |
//! | `weight`, `weight_scale` | AutoFP8 (`fp8`), FBGEMM (`fbgemm_fp8`) | one, or `[out, 1]` |
//!
//! In spite of the name, `weight_scale_inv` multiplies: `w = value * scale`. Stacks of experts are `gate_up_proj` with
//! `gate_up_proj_scale_inv`, one more dimension each.

use super::{
    fields::Fields,
    matrix::{Made, Numbers},
    reader::{Reader, fault},
    scalars::Scalars,
};
use crate::{Result, Tensor};
use onebit_quants::{BF16, F8_E4M3, F8_E5M2, F8_E8M0, F16, F32, WeightType};

/// What matrices are stored as.
pub(super) const FLOATS8: &[WeightType] = &[F8_E4M3, F8_E5M2];

pub(super) fn read(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    fields.word("fmt", &["e4m3", "float8_e4m3fn"], "e4m3")?;
    fields.word("activation_scheme", &["dynamic", "static"], "dynamic")?;
    fields.word("scale_fmt", &["float", "ue8m0"], "float")?;
    let block = fields.pair("weight_block_size")?;
    reader.forget(&[".input_scale", ".activation_scale", ".input_scale_ub", ".k_scale", ".v_scale"]);
    for suffix in ["_scale_inv", "_scale"] {
        for name in reader.before(suffix) {
            // A scale of something else stays, and is reported as unknown.
            let Some(weight) = reader.see(&name).filter(|t| FLOATS8.contains(&t.ty())).cloned() else { continue };
            reader.take(&name);
            let scale = reader.need(&format!("{name}{suffix}"), SCALES, &weight)?;
            let tensor = scaled(weight, scale, block, "FP8")?;
            reader.put(tensor)?;
        }
    }
    Ok(())
}

/// What scales are stored as.
pub(super) const SCALES: &[WeightType] = &[F32, BF16, F16, F8_E8M0];

/// A tensor of 8-bit floats with its scales, whose shape tells what they are for: one for each row and run of columns where `block`
/// (rows, columns) is given, else one for each row, or one for all.
pub(super) fn scaled(weight: Tensor, scale: Tensor, block: Option<[usize; 2]>, name: &str) -> Result<Tensor> {
    let [matrices @ .., rows, columns] = weight.shape() else {
        return Err(fault(&weight, &format!("has shape {:?}, but should be a matrix", weight.shape())));
    };
    let (rows, columns) = (*rows, *columns);
    if rows == 0 || columns == 0 {
        return Err(fault(&weight, "is empty"));
    }
    let with = |tail: &[usize]| [matrices, tail].concat();
    let one = scale.values() == 1 && matrices.iter().all(|n| *n == 1);
    let blocks = block.map(|[a, b]| (a, b, with(&[rows.div_ceil(a), columns.div_ceil(b)])));
    let shape = scale.shape();
    let (block, what) = match blocks {
        Some((a, b, want)) if shape == want => ([a, b], format!("in blocks of {a} x {b}")),
        _ if one => ([rows, columns], "with one scale".into()),
        _ if shape == with(&[rows, 1]) || matrices.is_empty() && shape == [rows] => ([1, columns], "with a scale for each row".into()),
        _ if !matrices.is_empty() && (shape == with(&[1, 1]) || shape == matrices) => {
            ([rows, columns], "with one scale for each matrix".into())
        }
        Some((a, b, want)) => {
            return Err(fault(&scale, &format!("has shape {shape:?}, but blocks of {a} x {b} of {rows} x {columns} ask for {want:?}")));
        }
        None => return Err(fault(&scale, &format!("has shape {shape:?}, which is neither one scale nor one for each of {rows} rows"))),
    };
    let made = Made {
        name: weight.name().to_string(),
        shape: weight.shape().to_vec(),
        stored: vec![weight.clone(), scale.clone()],
        scheme: format!("{name} {what}"),
    };
    let ty = weight.ty();
    let numbers = Scaled { weight: Scalars::new(weight), ty, scale: Scalars::new(scale), rows, columns, block };
    Ok(made.numbers(numbers))
}

#[derive(Debug)]
struct Scaled {
    weight: Scalars,
    ty: WeightType,
    scale: Scalars,
    /// Of one matrix.
    rows: usize,
    columns: usize,
    /// Rows and columns that share a scale.
    block: [usize; 2],
}

impl Numbers for Scaled {
    fn numbers(&self, row: usize, out: &mut [f32]) {
        self.ty.decode(&self.weight.bytes()[row * self.columns..][..self.columns], out);
        let [a, b] = self.block;
        let (matrix, row) = (row / self.rows, row % self.rows);
        let first = (matrix * self.rows.div_ceil(a) + row / a) * self.columns.div_ceil(b);
        for (i, out) in out.chunks_mut(b).enumerate() {
            let scale = self.scale.get(first + i);
            out.iter_mut().for_each(|v| *v *= scale);
        }
    }
}
