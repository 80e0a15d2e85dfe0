//! AWQ (Lin et al. 2023, arXiv:2306.00978) as AutoAWQ stores it for its GEMM kernels.
//!
//! | tensor | shape | holds |
//! |---|---|---|
//! | `qweight` I32 | `[in, out / 8]` | codes of 4 bits, packed along the outputs |
//! | `qzeros` I32 | `[groups, out / 8]` | zero points, likewise |
//! | `scales` F16 | `[groups, out]` | |
//!
//! The eight outputs of a word are in the order 0, 2, 4, 6, 1, 3, 5, 7 from its lowest bits on. `w[o][i] = scales[g][o] * (code - zero)`.
//! Layout: `utils/packing_utils.py` of AutoAWQ.

use super::{
    fields::Fields,
    matrix::{Codes, Groups, Made},
    reader::{Reader, fault, matrix, shaped},
    scalars::{FLOATS, Scalars},
};
use crate::{Result, Tensor};
use onebit_quants::I32;

/// Codes in a word.
const EACH: usize = 8;
/// The place in its word of each output.
const PLACE: [usize; EACH] = [0, 4, 1, 5, 2, 6, 3, 7];

pub(super) fn read(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    let bits = if fields.has("w_bit") { "w_bit" } else { "bits" };
    fields.bits(bits, &[4])?;
    // Kernels of other versions want another order, but transformers names them for checkpoints in this one as well.
    let version = if fields.has("version") { "version" } else { "format" };
    fields.word(version, &["gemm", "exllama", "ipex"], "gemm")?;
    let key = if fields.has("q_group_size") { "q_group_size" } else { "group_size" };
    let group = fields.group(key)?;
    modules(group, "AWQ", reader)
}

/// Brings all modules together; a `group` of `None` is the whole row.
pub(super) fn modules(group: Option<usize>, name: &str, reader: &mut Reader<'_>) -> Result<()> {
    for module in reader.before(".qweight") {
        let tensor = one_module(group, name, reader, &module)?;
        reader.put(tensor)?;
    }
    Ok(())
}

fn one_module(group: Option<usize>, name: &str, reader: &mut Reader<'_>, module: &str) -> Result<Tensor> {
    let Some(qweight) = reader.optional(&format!("{module}.qweight"), &[I32])? else { unreachable!("it was listed") };
    let [inputs, words] = matrix(&qweight)?;
    let out = words * EACH;
    let scales = reader.need(&format!("{module}.scales"), FLOATS, &qweight)?;
    let qzeros = reader.need(&format!("{module}.qzeros"), &[I32], &qweight)?;
    let group = group.unwrap_or(inputs);
    if !inputs.is_multiple_of(group) {
        return Err(fault(&qweight, &format!("has {inputs} inputs, which groups of {group} do not divide")));
    }
    let why = format!("{inputs} inputs in groups of {group} and {out} outputs");
    shaped(&scales, &[inputs / group, out], &why)?;
    shaped(&qzeros, &[inputs / group, words], &why)?;
    let stored = vec![qweight.clone(), qzeros.clone(), scales.clone()];
    let made =
        Made { name: format!("{module}.weight"), shape: vec![out, inputs], stored, scheme: format!("{name}, 4 bits in groups of {group}") };
    let codes = Awq { qweight: Scalars::new(qweight), qzeros: Scalars::new(qzeros), scales: Scalars::new(scales), words };
    Ok(made.codes(codes, Groups::Even(group), true))
}

#[derive(Debug)]
struct Awq {
    qweight: Scalars,
    qzeros: Scalars,
    scales: Scalars,
    /// In a row of `qweight`.
    words: usize,
}

impl Awq {
    fn number(&self, of: &Scalars, input: usize, row: usize) -> i8 {
        (of.word(input * self.words + row / EACH) >> (4 * PLACE[row % EACH]) & 15) as i8
    }
}

impl Codes for Awq {
    fn codes(&self, row: usize, out: &mut [i8]) {
        for (input, q) in out.iter_mut().enumerate() {
            *q = self.number(&self.qweight, input, row) - 8;
        }
    }
    fn line(&self, row: usize, group: usize) -> (f32, f32) {
        let scale = self.scales.get(group * self.words * EACH + row);
        (scale, -scale * f32::from(self.number(&self.qzeros, group, row) - 8))
    }
}
