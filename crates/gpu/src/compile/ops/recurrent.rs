//! Layers with a state of fixed size: a packet does all tokens of all spans.

use super::Lowered;
use crate::compile::{At, Form, Input, Lowering, Recorder, Shape, Step, Symbol, Work};
use onebit_plan::{
    GatedDelta, Rows, StateId, Value,
    ops::{self, LinearAttention, SelectiveScan, Taps},
};

/// Columns of a matrix that a workgroup has.
const COLUMNS: usize = 32;
/// Channels that a workgroup has.
const CHANNELS: usize = 128;

struct Recurrent {
    kernel: String,
    operands: Vec<At>,
    state: StateId,
    out: Value,
    /// Workgroups of a span.
    groups: [usize; 2],
    numbers: Vec<u32>,
    /// Bytes of a span's state, and those that a token moves besides.
    bytes: [usize; 2],
}

impl Step for Recurrent {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let ends = [Input::Sequence.into(), Symbol::Fixed(self.state).into(), self.out.into()];
        let pointers = self.operands.iter().cloned().chain(ends).collect();
        let work = Work { bytes: 2 * shape.spans * self.bytes[0] + shape.tokens * self.bytes[1], ..Work::default() };
        let [y, z] = self.groups;
        out.dispatch(("recurrent", self.kernel.clone()), [shape.spans, y, z], pointers, self.numbers.clone(), work);
    }
}

impl Lowering<'_> {
    /// A step over all tokens.
    fn recurrent(&mut self, step: Recurrent) -> Lowered {
        if self.plan.value(step.out).rows != Rows::Tokens {
            return Err("rows of outputs have no states".into());
        }
        self.input(Input::Sequence);
        Ok(Box::new(step))
    }
}

fn sizes<const N: usize>(numbers: [usize; N]) -> Vec<u32> {
    numbers.map(|n| n as u32).to_vec()
}

/// The smallest of the kernels' sizes that is enough.
fn enough(kernels: &[usize], wanted: usize) -> Result<usize, String> {
    kernels.iter().copied().find(|k| *k >= wanted).ok_or_else(|| format!("keys of {wanted} numbers: the kernels take up to {kernels:?}"))
}

pub(crate) fn gated_delta(op: &GatedDelta, l: &mut Lowering<'_>) -> Lowered {
    let GatedDelta { k_heads, v_heads, key, value, .. } = *op;
    let kernel = format!("gated_delta_{}", enough(&[64, 128, 256], key)?);
    let flags = usize::from(op.tiled) | usize::from(l.width(op.decay) != v_heads) << 1;
    let [q, k, v] = [op.q, op.k, op.v].map(|v| l.stride(v));
    let mut numbers = sizes([k_heads, v_heads, key, value, q, k, v, flags]);
    numbers.push(op.scale.to_bits());
    let operands = [op.q, op.k, op.v, op.decay, op.beta].map(At::from).to_vec();
    let bytes = [4 * v_heads * key * value, 4 * (2 * k_heads * key + 2 * v_heads * value)];
    let groups = [v_heads, value.div_ceil(COLUMNS)];
    l.recurrent(Recurrent { kernel, operands, state: op.state, out: op.out, groups, numbers, bytes })
}

pub(crate) fn linear_attention(op: &LinearAttention, l: &mut Lowering<'_>) -> Lowered {
    let LinearAttention { heads, key, value, .. } = *op;
    let kernel = format!("linear_attention_{}", enough(&[64, 128], key)?);
    let flags = usize::from(op.before) | usize::from(op.swap.is_some()) << 1;
    let mut numbers = sizes([heads, key, value, flags]);
    numbers.push(op.scale.to_bits());
    // Never read where nothing is swapped.
    let [a, b] = op.swap.unwrap_or([op.q, op.q]);
    let operands = [op.q, op.k, op.v, op.decay, a, b].map(At::from).to_vec();
    let bytes = [4 * heads * key * value, 4 * heads * (3 * key + 2 * value)];
    let groups = [heads, value.div_ceil(COLUMNS)];
    l.recurrent(Recurrent { kernel, operands, state: op.state, out: op.out, groups, numbers, bytes })
}

pub(crate) fn causal_conv(op: &ops::CausalConv, l: &mut Lowering<'_>) -> Lowered {
    let channels = l.width(op.x);
    let taps = match op.taps {
        Taps::Weight(weight) => l.weight(weight, Form::Numbers),
        Taps::Oldest => l.constant((0..channels * op.kernel).map(|i| if i % op.kernel == 0 { 1.0 } else { 0.0 })),
        Taps::Mean => l.constant((0..channels * op.kernel).map(|_| 1.0 / op.kernel as f32)),
    };
    let bias = op.bias.map_or_else(|| taps.clone(), |w| l.weight(w, Form::Numbers));
    let flags = usize::from(op.bias.is_some()) | usize::from(op.f.is_some()) << 1;
    let function = op.f.map_or(0, |f| f as usize);
    let numbers = sizes([channels, op.kernel, op.dilation, l.stride(op.x), flags, function]);
    let bytes = [4 * (op.reach() - 1) * channels, 8 * channels];
    let (operands, groups) = (vec![op.x.into(), taps.into(), bias.into()], [channels.div_ceil(CHANNELS), 1]);
    l.recurrent(Recurrent { kernel: "causal_conv".into(), operands, state: op.state, out: op.out, groups, numbers, bytes })
}

pub(crate) fn selective_scan(op: &SelectiveScan, l: &mut Lowering<'_>) -> Lowered {
    let SelectiveScan { heads, groups, head, size, .. } = *op;
    if l.stride(op.b) != l.stride(op.c) {
        return Err("what is written to the state and what reads it have rows of different strides".into());
    }
    let kernel = [16, 64].into_iter().find(|kept| *kept >= size).map_or("scan".into(), |kept| format!("scan_{kept}"));
    let rates = l.plan.weight(op.rate).shape.len() > 1;
    let flags = usize::from(rates) | usize::from(op.skip.is_some()) << 1;
    let rate = l.weight(op.rate, Form::Numbers);
    let skip = op.skip.map_or_else(|| rate.clone(), |w| l.weight(w, Form::Numbers));
    let numbers = sizes([heads, groups, head, size, flags, l.stride(op.x), l.stride(op.b)]);
    let values = [op.x, op.step, op.b, op.c].map(At::from);
    let operands = values.into_iter().chain([rate.into(), skip.into()]).collect();
    let bytes = [4 * heads * size * head, 4 * (2 * heads * head + 2 * groups * size)];
    let groups = [(heads * head).div_ceil(CHANNELS), 1];
    l.recurrent(Recurrent { kernel, operands, state: op.state, out: op.out, groups, numbers, bytes })
}

/// A recurrence of each channel by itself: two values, and `weights` of as many numbers.
fn channels(kernel: &str, values: [Value; 2], weights: Vec<At>, state: StateId, kept: usize, out: Value, l: &mut Lowering<'_>) -> Lowered {
    let channels = l.width(out);
    let operands = values.map(At::from).into_iter().chain(weights).collect();
    let (groups, bytes) = ([channels.div_ceil(CHANNELS), 1], [4 * kept * channels, 12 * channels]);
    l.recurrent(Recurrent { kernel: kernel.into(), operands, state, out, groups, numbers: sizes([channels]), bytes })
}

pub(crate) fn rg_lru(op: &ops::RgLru, l: &mut Lowering<'_>) -> Lowered {
    channels("rg_lru", [op.x, op.decay], vec![], op.state, 1, op.out, l)
}

pub(crate) fn wkv(op: &ops::Wkv, l: &mut Lowering<'_>) -> Lowered {
    let weights = [op.decay, op.first].map(|w| l.weight(w, Form::Numbers).into()).to_vec();
    channels("wkv", [op.k, op.v], weights, op.state, 3, op.out, l)
}

/// Tokens of a block that the kernel takes at most.
const BLOCK: usize = 512;

pub(crate) fn lightning(op: &ops::Lightning, l: &mut Lowering<'_>) -> Lowered {
    let ops::Lightning { heads, dim, block, .. } = *op;
    if block > BLOCK {
        return Err(format!("blocks of {block} tokens: the kernel takes up to {BLOCK}"));
    }
    let tables = [op.rate, op.queries, op.keys, op.inner].map(|w| At::from(l.weight(w, Form::Numbers)));
    let operands = [op.q, op.k, op.v].map(At::from).into_iter().chain(tables).collect();
    let bytes = [4 * heads * (dim + 2 * block) * dim, 4 * heads * (4 + block) * dim];
    let numbers = sizes([heads, dim, block]);
    l.recurrent(Recurrent { kernel: "lightning".into(), operands, state: op.state, out: op.out, groups: [heads, 1], numbers, bytes })
}
