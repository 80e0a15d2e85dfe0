//! GPTQ (Frantar et al. 2022, arXiv:2210.17323) as AutoGPTQ and GPTQModel store it.
//!
//! A module of `in` inputs and `out` outputs has
//!
//! | tensor | shape | holds |
//! |---|---|---|
//! | `qweight` I32 | `[in * bits / 32, out]` | codes, packed along the inputs |
//! | `qzeros` I32 | `[groups, out * bits / 32]` | zero points, packed along the outputs; less one in version 1 |
//! | `scales` F16 | `[groups, out]` | |
//! | `g_idx` I32 | `[in]` | the group of each input; where it is missing, they are in order |
//!
//! `w[o][i] = scales[g][o] * (code - zero)`, `g` being the group of `i`. Version 1 (`checkpoint_format` `gptq`) stores the zero point
//! less one, so that one of zero wraps around; version 2 (`gptq_v2`) as it is. Layout: `nn_modules/qlinear` of GPTQModel.

use super::{
    bits::{one, unpack, words_for},
    fields::Fields,
    matrix::{Codes, Groups, Made},
    reader::{Reader, fault, matrix, shaped},
    scalars::{FLOATS, Scalars},
};
use crate::{Result, Tensor};
use onebit_quants::{I32, I64};

/// Bits that codes may have.
const BITS: &[u32] = &[2, 3, 4, 8];

/// What the configuration says of all modules.
pub(super) struct Settings {
    pub(super) bits: u32,
    /// `None`: the whole row.
    pub(super) group: Option<usize>,
    /// Whether zero points are stored less one.
    pub(super) less_one: bool,
    /// Whether inputs were taken out of order, so that `g_idx` must tell their groups.
    pub(super) ordered: bool,
    /// Whether single modules may have other bits and groups than these.
    pub(super) mixed: bool,
    /// For people.
    pub(super) name: &'static str,
}

pub(super) fn read(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    for key in ["is_marlin_format", "use_marlin"] {
        fields.nothing(key)?;
    }
    fields.word("pack_dtype", &["int32"], "int32")?;
    let format = if fields.has("checkpoint_format") { "checkpoint_format" } else { "format" };
    let version = fields.word(format, &["gptq", "gptq_v2"], "gptq")?;
    let settings = Settings {
        bits: fields.bits("bits", BITS)?,
        group: fields.group("group_size")?,
        less_one: version == "gptq",
        ordered: fields.flag("desc_act")?.unwrap_or(false),
        mixed: fields.filled("dynamic"),
        name: "GPTQ",
    };
    modules(&settings, reader)
}

/// Brings all modules together.
pub(super) fn modules(settings: &Settings, reader: &mut Reader<'_>) -> Result<()> {
    for module in reader.before(".qweight") {
        let tensor = one_module(settings, reader, &module)?;
        reader.put(tensor)?;
    }
    Ok(())
}

fn one_module(settings: &Settings, reader: &mut Reader<'_>, module: &str) -> Result<Tensor> {
    let Some(qweight) = reader.optional(&format!("{module}.qweight"), &[I32])? else { unreachable!("it was listed") };
    let [words, out] = matrix(&qweight)?;
    let scales = reader.need(&format!("{module}.scales"), FLOATS, &qweight)?;
    let qzeros = reader.need(&format!("{module}.qzeros"), &[I32], &qweight)?;
    let g_idx = reader.optional(&format!("{module}.g_idx"), &[I32, I64])?;
    if g_idx.is_none() && settings.ordered && settings.group.is_some() {
        return Err(fault(&qweight, "needs `g_idx`, which is missing: `desc_act` says that inputs are out of order"));
    }
    let mut bits = settings.bits;
    let inputs = match &g_idx {
        Some(g_idx) => g_idx.values(),
        None => words * 32 / bits as usize,
    };
    if settings.mixed && words_for(inputs, bits) != Some(words) {
        bits = BITS.iter().copied().find(|b| words_for(inputs, *b) == Some(words)).unwrap_or(bits);
    }
    if inputs == 0 || words_for(inputs, bits) != Some(words) {
        let what = format!("has {words} rows of words, which are not {inputs} inputs of {bits} bits");
        return Err(fault(&qweight, &what));
    }
    let [groups, _] = matrix(&scales)?;
    let mut group = settings.group.unwrap_or(inputs);
    if settings.mixed && groups != inputs.div_ceil(group) {
        group = inputs.div_ceil(groups);
    }
    shaped(&scales, &[inputs.div_ceil(group), out], &format!("{inputs} inputs in groups of {group} and {out} outputs"))?;
    let zero_words = words_for(out, bits).unwrap_or(0);
    shaped(&qzeros, &[groups, zero_words], &format!("{groups} groups of {out} outputs with {bits} bits"))?;
    let order = match &g_idx {
        Some(g_idx) => listed(g_idx, groups, group)?,
        None => Groups::Even(group),
    };
    let stored: Vec<Tensor> = [&qweight, &qzeros, &scales].into_iter().chain(&g_idx).cloned().collect();
    let scheme = format!(
        "{}, {bits} bits in groups of {group}{}",
        settings.name,
        if matches!(order, Groups::Listed(_)) { ", by activation" } else { "" }
    );
    let made = Made { name: format!("{module}.weight"), shape: vec![out, inputs], stored, scheme };
    let codes = Gptq {
        qweight: Scalars::new(qweight),
        qzeros: Scalars::new(qzeros),
        scales: Scalars::new(scales),
        bits,
        words,
        out,
        zero_words,
        less_one: settings.less_one,
    };
    Ok(made.codes(codes, order, true))
}

/// The groups of `g_idx`: most are in order.
pub(super) fn listed(g_idx: &Tensor, groups: usize, group: usize) -> Result<Groups> {
    let n = g_idx.ty().block_bytes();
    let list: Option<Box<[u32]>> = g_idx
        .in_file()
        .unwrap_or(&[])
        .chunks_exact(n)
        .map(|bytes| {
            let mut number = [0; 8];
            number[..n].copy_from_slice(bytes);
            u32::try_from(u64::from_le_bytes(number)).ok().filter(|g| (*g as usize) < groups)
        })
        .collect();
    let Some(list) = list else { return Err(fault(g_idx, &format!("names a group that is not there; there are {groups}"))) };
    let in_order = list.iter().enumerate().all(|(i, g)| *g as usize == i / group);
    Ok(if in_order { Groups::Even(group) } else { Groups::Listed(list) })
}

#[derive(Debug)]
struct Gptq {
    qweight: Scalars,
    qzeros: Scalars,
    scales: Scalars,
    bits: u32,
    /// Rows of `qweight`.
    words: usize,
    out: usize,
    zero_words: usize,
    less_one: bool,
}

impl Codes for Gptq {
    fn codes(&self, row: usize, out: &mut [i8]) {
        let words = (0..self.words).map(|w| self.qweight.word(w * self.out + row));
        signed(words, self.bits, out);
    }
    fn line(&self, row: usize, group: usize) -> (f32, f32) {
        let stored = one(|w| self.qzeros.word(group * self.zero_words + w), self.bits, row);
        let zero = (stored + u32::from(self.less_one)) & ((1 << self.bits) - 1);
        let scale = self.scales.get(group * self.out + row);
        // Both exact where scales are of 16 bits: codes and zero points have at most 8.
        (scale, -scale * (zero as f32 - middle(self.bits)))
    }
}

/// What unsigned codes of so many bits are less by as they are handed out, so that those of 8 bits fit an i8, and symmetric ones
/// have no offset.
pub(super) fn middle(bits: u32) -> f32 {
    (1u32 << (bits - 1)) as f32
}

/// Unpacks unsigned codes less [`middle`].
pub(super) fn signed(words: impl Iterator<Item = u32>, bits: u32, out: &mut [i8]) {
    let mut codes = vec![0; out.len()];
    unpack(words, bits, &mut codes);
    let middle = 1u8 << (bits - 1);
    for (q, code) in out.iter_mut().zip(codes) {
        *q = code.wrapping_sub(middle) as i8;
    }
}
