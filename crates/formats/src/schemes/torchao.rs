//! TorchAO's tensor subclasses in safetensors.
//!
//! The `__metadata__` of the files says what each weight is, as JSON under its name: `_type` and `_data`. Its parts are tensors named
//! `MODULE._weight_PART`:
//!
//! | `_type` | parts | |
//! |---|---|---|
//! | `Int8Tensor` | `qdata` I8 `[out, in]`, `scale`, `zero_point` | `w = (code - zero) * scale` |
//! | `IntxUnpackedToInt8Tensor` | as above | |
//! | `Int4Tensor` | `qdata` `[out, in / 2]`, the first code in the low half, signed; `scale`, `zero_point` `[in / group, out]` | `w = code * scale + zero` |
//! | `Float8Tensor` | `qdata` E4M3, `scale` | `w = value * scale` |
//!
//! `block_size` is `[1, group]`, or the whole row, or all. Layout: `quantization/quantize_/workflows` and `prototype/safetensors` of torchao.

use super::{
    fields::Fields,
    fp8::{SCALES, scaled},
    matrix::{Codes, Groups, Made},
    reader::{Reader, fault, matrix, shaped},
    scalars::{FLOATS, Scalars},
};
use crate::{Result, Tensor, json};
use onebit_quants::{F8_E4M3, I8, I32, I64, U8, WeightType};

pub(super) fn read(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    for module in reader.before("._weight_qdata") {
        let name = format!("{module}.weight");
        let Some(said) = reader.text(&name) else {
            return Err(fields.wrong("quant_method", &format!("is torchao, but no file says in its `__metadata__` what `{name}` is")));
        };
        let Some(qdata) = reader.take(&format!("{module}._weight_qdata")) else { unreachable!("it was listed") };
        let text = json::object(qdata.path(), said)?;
        let value = serde_json::Value::Object(text);
        let fields = Fields::new(qdata.path(), &format!("__metadata__.{name}"), &value)?;
        let kinds = ["Int8Tensor", "IntxUnpackedToInt8Tensor", "Int4Tensor", "Float8Tensor"];
        let kind = fields.word("_type", &kinds, "")?;
        let Some(data) = fields.object("_data")? else { return Err(fields.wrong("_data", "is missing")) };
        let block = data.pair("block_size")?;
        let mut parts = Parts { module: &module, reader, qdata: qdata.clone() };
        parts.refuse("act_pre_scale")?;
        let tensor = match kind {
            "Float8Tensor" => float8(&mut parts, block)?,
            "Int4Tensor" => int4(&mut parts, block)?,
            "" => return Err(fields.wrong("_type", "is missing")),
            _ => int8(&mut parts, block)?,
        };
        for part in ["act_quant_scale", "act_quant_zero_point"] {
            parts.reader.take(&format!("{module}._weight_{part}"));
        }
        reader.put(tensor)?;
    }
    Ok(())
}

/// The parts of one weight.
struct Parts<'a, 'b> {
    module: &'a str,
    reader: &'a mut Reader<'b>,
    qdata: Tensor,
}

impl Parts<'_, '_> {
    fn name(&self, part: &str) -> String {
        format!("{}._weight_{part}", self.module)
    }
    fn need(&mut self, part: &str, types: &[WeightType]) -> Result<Tensor> {
        self.reader.need(&self.name(part), types, &self.qdata)
    }
    fn optional(&mut self, part: &str, types: &[WeightType]) -> Result<Option<Tensor>> {
        self.reader.optional(&self.name(part), types)
    }
    fn refuse(&self, part: &str) -> Result<()> {
        match self.reader.see(&self.name(part)) {
            Some(tensor) => Err(fault(tensor, "changes activations, which is not known how to do")),
            None => Ok(()),
        }
    }
    fn typed(&self, types: &[WeightType]) -> Result<()> {
        let known = types.iter().map(|t| t.name()).collect::<Vec<_>>().join(" or ");
        if types.contains(&self.qdata.ty()) {
            Ok(())
        } else {
            Err(fault(&self.qdata, &format!("is of type {}, but the scheme has {known}", self.qdata.ty())))
        }
    }
    fn made(&self, shape: [usize; 2], stored: Vec<Tensor>, scheme: String) -> Made {
        Made { name: format!("{}.weight", self.module), shape: shape.to_vec(), stored, scheme }
    }
}

fn float8(parts: &mut Parts<'_, '_>, block: Option<[usize; 2]>) -> Result<Tensor> {
    parts.typed(&[F8_E4M3])?;
    let scale = parts.need("scale", SCALES)?;
    let module = parts.module;
    let tensor = scaled(parts.qdata.clone(), scale, block, "TorchAO FP8")?;
    Ok(tensor.renamed(format!("{module}.weight")))
}

fn int8(parts: &mut Parts<'_, '_>, block: Option<[usize; 2]>) -> Result<Tensor> {
    parts.typed(&[I8])?;
    let [rows, columns] = matrix(&parts.qdata)?;
    let scale = parts.need("scale", FLOATS)?;
    let zero = parts.optional("zero_point", &[I8, I32, I64, FLOATS[0], FLOATS[1], FLOATS[2]])?;
    let Some([high, group]) = block else { return Err(fault(&parts.qdata, "needs `block_size` in `__metadata__`")) };
    let group = group.min(columns);
    let whole = high >= rows && rows > 1 && group == columns;
    if !whole && high != 1 {
        return Err(fault(&parts.qdata, &format!("has blocks of {high} x {group}, which is not known how to read")));
    }
    let groups = columns.div_ceil(group);
    let want = if whole { 1 } else { rows * groups };
    for tensor in [Some(&scale), zero.as_ref()].into_iter().flatten() {
        if tensor.values() != want {
            let what = format!("has {} numbers, but {rows} x {columns} in blocks of {high} x {group} ask for {want}", tensor.values());
            return Err(fault(tensor, &what));
        }
    }
    let stored = [&parts.qdata, &scale].into_iter().chain(&zero).cloned().collect();
    let made = parts.made([rows, columns], stored, format!("TorchAO, int8 in groups of {group}"));
    let offsets = zero.is_some();
    let codes =
        Int8 { qdata: Scalars::new(parts.qdata.clone()), scale: Scalars::new(scale), zero: zero.map(Scalars::new), columns, groups, whole };
    Ok(made.codes(codes, Groups::Even(group), offsets))
}

#[derive(Debug)]
struct Int8 {
    qdata: Scalars,
    scale: Scalars,
    zero: Option<Scalars>,
    columns: usize,
    groups: usize,
    whole: bool,
}

impl Codes for Int8 {
    fn codes(&self, row: usize, out: &mut [i8]) {
        let bytes = &self.qdata.bytes()[row * self.columns..][..self.columns];
        out.iter_mut().zip(bytes).for_each(|(q, b)| *q = *b as i8);
    }
    fn line(&self, row: usize, group: usize) -> (f32, f32) {
        let at = if self.whole { 0 } else { row * self.groups + group };
        let scale = self.scale.get(at);
        (scale, self.zero.as_ref().map_or(0.0, |z| -scale * z.get(at)))
    }
}

fn int4(parts: &mut Parts<'_, '_>, block: Option<[usize; 2]>) -> Result<Tensor> {
    parts.typed(&[I8, U8])?;
    let [rows, bytes] = matrix(&parts.qdata)?;
    let columns = bytes * 2;
    let scale = parts.need("scale", FLOATS)?;
    let zero = parts.need("zero_point", FLOATS)?;
    let Some([1, group]) = block else {
        return Err(fault(&parts.qdata, &format!("has blocks of {block:?}, which is not known how to read")));
    };
    for tensor in [&scale, &zero] {
        shaped(tensor, &[columns.div_ceil(group), rows], &format!("{rows} x {columns} in groups of {group}"))?;
    }
    let stored = vec![parts.qdata.clone(), scale.clone(), zero.clone()];
    let made = parts.made([rows, columns], stored, format!("TorchAO, int4 in groups of {group}"));
    let codes = Int4 { qdata: Scalars::new(parts.qdata.clone()), scale: Scalars::new(scale), zero: Scalars::new(zero), rows, bytes };
    Ok(made.codes(codes, Groups::Even(group), true))
}

#[derive(Debug)]
struct Int4 {
    qdata: Scalars,
    scale: Scalars,
    zero: Scalars,
    rows: usize,
    /// In a row.
    bytes: usize,
}

impl Codes for Int4 {
    fn codes(&self, row: usize, out: &mut [i8]) {
        let bytes = &self.qdata.bytes()[row * self.bytes..][..self.bytes];
        for (pair, b) in out.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
            // Shifts of signed numbers keep the sign.
            *pair = [(b << 4) as i8 >> 4, *b as i8 >> 4];
        }
    }
    fn line(&self, row: usize, group: usize) -> (f32, f32) {
        let at = group * self.rows + row;
        (self.scale.get(at), self.zero.get(at))
    }
}
