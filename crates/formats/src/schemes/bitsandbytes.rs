//! bitsandbytes: NF4 and FP4 (Dettmers et al. 2023, arXiv:2305.14314), and LLM.int8() (Dettmers et al. 2022, arXiv:2208.07339).
//!
//! 4 bits: `weight` U8 `[n / 2, 1]` holds the matrix row after row, two codes to a byte, the first in the high half; beside it
//!
//! | tensor | holds |
//! |---|---|
//! | `weight.quant_map` F32 `[16]` | the value of each code |
//! | `weight.absmax` | the scale of each `blocksize` values: F32, or U8 codes where it is quantized too |
//! | `weight.nested_quant_map` F32 `[256]`, `weight.nested_absmax` F32 | the values of those codes, the scale of each `nested_blocksize` of them |
//! | `weight.quant_state.bitsandbytes__nf4` U8 | JSON: `quant_type`, `blocksize`, `shape`, `nested_blocksize`, `nested_offset` |
//!
//! `w = quant_map[code] * absmax`, and `absmax = nested_quant_map[code] * nested_absmax + nested_offset`.
//! 8 bits: `weight` I8 `[out, in]`, `SCB` F32 `[out]`: `w = code * SCB / 127`. Layout: `functional.py` of bitsandbytes.

use super::{
    fields::Fields,
    matrix::{Codes, Groups, Made, Numbers},
    reader::{Reader, fault, matrix, shaped},
    scalars::Scalars,
};
use crate::{Result, Tensor, json};
use onebit_quants::{F32, I8, U8};
use serde_json::Value;

pub(super) fn read(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    let (four, eight) = (fields.flag("load_in_4bit")?.unwrap_or(false), fields.flag("load_in_8bit")?.unwrap_or(false));
    if four == eight {
        return Err(fields.wrong("load_in_4bit", "and `load_in_8bit` must not be alike: one says how many bits codes have"));
    }
    if four {
        fields.word("bnb_4bit_quant_storage", &["uint8"], "uint8")?;
        let kind = fields.word("bnb_4bit_quant_type", &["nf4", "fp4"], "fp4")?;
        for name in reader.before(&format!(".quant_state.bitsandbytes__{kind}")) {
            let tensor = four_bits(reader, name, kind)?;
            reader.put(tensor)?;
        }
    } else {
        reader.forget(&[".weight_format"]);
        for module in reader.before(".SCB") {
            let tensor = eight_bits(reader, &module)?;
            reader.put(tensor)?;
        }
    }
    Ok(())
}

fn eight_bits(reader: &mut Reader<'_>, module: &str) -> Result<Tensor> {
    let Some(scale) = reader.optional(&format!("{module}.SCB"), &[F32])? else { unreachable!("it was listed") };
    let weight = reader.need(&format!("{module}.weight"), &[I8], &scale)?;
    let [rows, columns] = matrix(&weight)?;
    if scale.values() != rows {
        shaped(&scale, &[rows], "one scale for each row")?;
    }
    let stored = vec![weight.clone(), scale.clone()];
    let made = Made { name: format!("{module}.weight"), shape: vec![rows, columns], stored, scheme: "bitsandbytes, int8".into() };
    Ok(made.codes(Int8 { weight: Scalars::new(weight), scale: Scalars::new(scale), columns }, Groups::Even(columns), false))
}

#[derive(Debug)]
struct Int8 {
    weight: Scalars,
    scale: Scalars,
    columns: usize,
}

impl Codes for Int8 {
    fn codes(&self, row: usize, out: &mut [i8]) {
        let bytes = &self.weight.bytes()[row * self.columns..][..self.columns];
        out.iter_mut().zip(bytes).for_each(|(q, b)| *q = *b as i8);
    }
    fn line(&self, row: usize, _: usize) -> (f32, f32) {
        (self.scale.get(row) / 127.0, 0.0)
    }
}

/// What `quant_state` says.
struct State {
    block: usize,
    shape: [usize; 2],
    nested_block: Option<usize>,
    nested_offset: f32,
}

/// Block sizes that bitsandbytes makes.
const BLOCKS: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];

fn state(tensor: &Tensor, kind: &str) -> Result<State> {
    let bytes = tensor.in_file().unwrap_or(&[]);
    let text = std::str::from_utf8(bytes).map_err(|_| fault(tensor, "is not UTF-8 text"))?;
    let object = json::object(tensor.path(), text).map_err(|e| fault(tensor, &format!("is not what it should be: {e}")))?;
    let wrong = |key: &str, what: &str| fault(tensor, &format!("says `{key}` is {}, {what}", object.get(key).unwrap_or(&Value::Null)));
    if object.get("quant_type").and_then(Value::as_str) != Some(kind) {
        return Err(wrong("quant_type", &format!("where the configuration says {kind}")));
    }
    let size = |key: &str| {
        object
            .get(key)
            .filter(|v| !v.is_null())
            .map(|v| v.as_u64().map(|n| n as usize).filter(|n| BLOCKS.contains(n)).ok_or_else(|| wrong(key, "which is not known")))
    };
    let shape: Option<Vec<usize>> = object
        .get("shape")
        .and_then(Value::as_array)
        .map(|a| a.iter().filter_map(Value::as_u64).filter(|n| (1..=1 << 32).contains(n)).map(|n| n as usize).collect());
    let Some(&[rows, columns]) = shape.as_deref() else { return Err(wrong("shape", "but should be two positive numbers")) };
    let Some(block) = size("blocksize").transpose()? else { return Err(wrong("blocksize", "but should be a size")) };
    let offset = object.get("nested_offset").and_then(Value::as_f64).unwrap_or(0.0) as f32;
    Ok(State { block, shape: [rows, columns], nested_block: size("nested_blocksize").transpose()?, nested_offset: offset })
}

/// One number for each of `count` runs of `block`.
fn runs(tensor: &Tensor, count: usize, block: usize) -> Result<()> {
    let want = count.div_ceil(block);
    if tensor.values() == want {
        Ok(())
    } else {
        Err(fault(tensor, &format!("has {} numbers, but {count} in blocks of {block} ask for {want}", tensor.values())))
    }
}

fn four_bits(reader: &mut Reader<'_>, name: String, kind: &str) -> Result<Tensor> {
    let Some(said) = reader.optional(&format!("{name}.quant_state.bitsandbytes__{kind}"), &[U8])? else { unreachable!("it was listed") };
    let weight = reader.need(&name, &[U8], &said)?;
    let map = reader.need(&format!("{name}.quant_map"), &[F32], &weight)?;
    let absmax = reader.need(&format!("{name}.absmax"), &[F32, U8], &weight)?;
    let State { block, shape, nested_block, nested_offset } = state(&said, kind)?;
    let count = shape[0].checked_mul(shape[1]).filter(|n| n.is_multiple_of(2) && weight.values() == n / 2);
    let Some(count) = count else {
        return Err(fault(
            &weight,
            &format!("has {} bytes, but the shape {shape:?} asks for half as many as it has values", weight.values()),
        ));
    };
    shaped(&map, &[16], "a value for each code")?;
    runs(&absmax, count, block)?;
    let mut stored = vec![weight.clone(), absmax.clone(), map.clone(), said];
    let nested = if absmax.ty() == U8 {
        let map = reader.need(&format!("{name}.nested_quant_map"), &[F32], &absmax)?;
        let scale = reader.need(&format!("{name}.nested_absmax"), &[F32], &absmax)?;
        let Some(block) = nested_block else { return Err(fault(&absmax, "holds codes, but `nested_blocksize` is missing")) };
        shaped(&map, &[256], "a value for each code")?;
        runs(&scale, absmax.values(), block)?;
        stored.extend([map.clone(), scale.clone()]);
        Some(Nested { map: Scalars::new(map), scale: Scalars::new(scale), block, offset: nested_offset })
    } else {
        None
    };
    let values = map.to_f32().try_into().unwrap_or([0.0; 16]);
    let scheme = format!("bitsandbytes, {kind} in blocks of {block}{}", if nested.is_some() { ", scales quantized" } else { "" });
    let made = Made { name, shape: shape.to_vec(), stored, scheme };
    Ok(made.numbers(Four { weight: Scalars::new(weight), absmax: Scalars::new(absmax), nested, values, block }))
}

/// Scales that are codes themselves.
#[derive(Debug)]
struct Nested {
    map: Scalars,
    scale: Scalars,
    block: usize,
    offset: f32,
}

#[derive(Debug)]
struct Four {
    weight: Scalars,
    absmax: Scalars,
    nested: Option<Nested>,
    values: [f32; 16],
    block: usize,
}

impl Four {
    fn scale(&self, block: usize) -> f32 {
        match &self.nested {
            None => self.absmax.get(block),
            Some(n) => n.map.get(usize::from(self.absmax.bytes()[block])) * n.scale.get(block / n.block) + n.offset,
        }
    }
}

impl Numbers for Four {
    fn numbers(&self, row: usize, out: &mut [f32]) {
        let (first, bytes) = (row * out.len(), self.weight.bytes());
        let mut held = (usize::MAX, 0.0);
        for (i, v) in out.iter_mut().enumerate() {
            let at = first + i;
            if at / self.block != held.0 {
                held = (at / self.block, self.scale(at / self.block));
            }
            let code = bytes[at / 2] >> (4 * (1 - at % 2)) & 15;
            *v = self.values[usize::from(code)] * held.1;
        }
    }
}
