//! The ops, one function each: from one row (and what the op keeps between rows) to one row.

mod sparse;

pub(crate) use sparse::{index, sparse_attention};

use std::ops::Range;

use onebit_plan::{
    AXES, Attention, Binary, Experts, Function, GatedDelta, Groups, Rope, RopeStyle, Rotation, Route, Score, Weigh,
    ops::{CausalConv, Lightning, LinearAttention, PositionScale, Relative, SelectiveScan, Taps, Xielu},
};

/// A chosen expert and its weight.
pub(crate) type Choice = (usize, f32);

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

pub(crate) fn linear(weight: &[f32], bias: Option<&[f32]>, x: &[f32]) -> Vec<f32> {
    let product = weight.chunks_exact(x.len()).map(|row| dot(row, x));
    match bias {
        Some(bias) => product.zip(bias).map(|(y, b)| (y + f64::from(*b)) as f32).collect(),
        None => product.map(|y| y as f32).collect(),
    }
}

pub(crate) fn rms_norm(x: &[f32], weight: Option<&[f32]>, dim: usize, eps: f32) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for (n, run) in x.chunks_exact(dim).enumerate() {
        let factor = 1.0 / (dot(run, run) / dim as f64 + f64::from(eps)).sqrt();
        let weight = weight.map(|w| if w.len() > dim { &w[n * dim..] } else { w });
        out.extend(run.iter().enumerate().map(|(i, x)| (f64::from(*x) * factor) as f32 * weight.map_or(1.0, |w| w[i])));
    }
    out
}

pub(crate) fn round_row(x: &[f32]) -> Vec<f32> {
    let largest = x.iter().fold(1e-5f32, |m, v| m.max(v.abs()));
    let scale = 127.0 / largest;
    x.iter().map(|v| (v * scale).round_ties_even().clamp(-128.0, 127.0) / scale).collect()
}

pub(crate) fn l2_norm(x: &[f32], dim: usize, eps: f32) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for run in x.chunks_exact(dim) {
        let factor = 1.0 / (dot(run, run) + f64::from(eps)).sqrt();
        out.extend(run.iter().map(|x| (f64::from(*x) * factor) as f32));
    }
    out
}

pub(crate) fn layer_norm(x: &[f32], weight: Option<&[f32]>, bias: Option<&[f32]>, dim: usize, eps: f32) -> Vec<f32> {
    let of_run = |all: Option<&'_ [f32]>, n: usize| all.map(|w| if w.len() > dim { w[n * dim..][..dim].to_vec() } else { w.to_vec() });
    let one = |(n, run)| layer_norm_of_run(run, of_run(weight, n).as_deref(), of_run(bias, n).as_deref(), eps);
    x.chunks_exact(dim).enumerate().flat_map(one).collect()
}

fn layer_norm_of_run(x: &[f32], weight: Option<&[f32]>, bias: Option<&[f32]>, eps: f32) -> Vec<f32> {
    let n = x.len() as f64;
    let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
    let factor = 1.0 / (variance + f64::from(eps)).sqrt();
    let one = |(i, x): (usize, &f32)| ((f64::from(*x) - mean) * factor) as f32 * weight.map_or(1.0, |w| w[i]) + bias.map_or(0.0, |b| b[i]);
    x.iter().enumerate().map(one).collect()
}

pub(crate) fn rope(x: &[f32], head: usize, rope: &Rope, position: [i64; AXES]) -> Vec<f32> {
    let mut out = x.to_vec();
    for run in out.chunks_exact_mut(head) {
        for (i, angle) in rope.angles(position).enumerate() {
            let (a, b) = match rope.style {
                RopeStyle::Halves => (i, i + rope.frequencies.len()),
                RopeStyle::Pairs => (2 * i, 2 * i + 1),
            };
            let (sin, cos) = f64::from(angle).sin_cos();
            let (x, y, scale) = (f64::from(run[a]), f64::from(run[b]), f64::from(rope.scale));
            run[a] = ((x * cos - y * sin) * scale) as f32;
            run[b] = ((x * sin + y * cos) * scale) as f32;
        }
    }
    out
}

pub(crate) fn sinusoid(frequencies: &[f32], position: usize) -> Vec<f32> {
    let angles = || frequencies.iter().map(|f| f64::from(position as f32 * f));
    angles().map(f64::sin).chain(angles().map(f64::cos)).map(|x| x as f32).collect()
}

/// Keys and values of the sequence so far, the row's own among them: `key(t)` is `[kv_heads, key]` at position `t`.
pub(crate) trait Past {
    fn key(&self, position: usize) -> &[f32];
    fn value(&self, position: usize) -> &[f32];
}

/// `seen`: the positions that the query at `position` sees. `apart(h, t)` is what [`Attention::relative`] adds for head `h` and the key
/// at `t`.
pub(crate) fn attention(
    op: &Attention,
    q: &[f32],
    past: &dyn Past,
    sinks: Option<&[f32]>,
    position: usize,
    seen: Range<usize>,
    apart: &dyn Fn(usize, usize) -> f64,
) -> Vec<f32> {
    let mut out = Vec::with_capacity(op.heads * op.value);
    for (h, q) in q.chunks_exact(op.key).enumerate() {
        let kv_head = h / (op.heads / op.kv_heads);
        let score = |t: usize| {
            let s = dot(q, &past.key(t)[kv_head * op.key..][..op.key]) * f64::from(op.scale);
            let s = op.softcap.map_or(s, |c| f64::from(c) * (s / f64::from(c)).tanh());
            let s = op.alibi.as_ref().map_or(s, |slopes| s - f64::from(slopes[h]) * position.abs_diff(t) as f64);
            s + apart(h, t)
        };
        let scores: Vec<f64> = seen.clone().map(score).collect();
        let sink = sinks.map(|s| f64::from(s[h]));
        let largest = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
        let exp: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
        let sum = exp.iter().sum::<f64>() + sink.map_or(0.0, |s| (s - largest).exp());
        let mut mixed = vec![0.0f64; op.value];
        for (t, e) in seen.clone().zip(exp) {
            let v = &past.value(t)[kv_head * op.value..][..op.value];
            mixed.iter_mut().zip(v).for_each(|(m, v)| *m += e / sum * f64::from(*v));
        }
        out.extend(mixed.iter().map(|m| *m as f32));
    }
    out
}

/// What the head `h` of a query at `i` adds to the score of a key at `j`, whose tokens' operands `of_query` and `of_key` are.
pub(crate) fn relative(op: &Relative, h: usize, (i, j): (usize, usize), of_query: Option<&[f32]>, of_key: Option<&[f32]>) -> f64 {
    let bucket = op.bucket(i, j);
    let of = |x: Option<&[f32]>| x.map_or(0.0, |x| f64::from(x[h * op.count + bucket]));
    f64::from(op.fixed(h, bucket)) + of(of_query) + of(of_key)
}

/// The operands of a gated delta step, in the order of [`GatedDelta`].
pub(crate) struct Delta<'a> {
    pub(crate) q: &'a [f32],
    pub(crate) k: &'a [f32],
    pub(crate) v: &'a [f32],
    pub(crate) decay: &'a [f32],
    pub(crate) beta: &'a [f32],
}

pub(crate) fn gated_delta(op: &GatedDelta, x: &Delta<'_>, state: &mut [f32]) -> Vec<f32> {
    let mut out = Vec::with_capacity(op.v_heads * op.value);
    for (h, s) in state.chunks_exact_mut(op.key * op.value).enumerate() {
        let k_head = if op.tiled { h % op.k_heads } else { h / (op.v_heads / op.k_heads) };
        let (q, k) = (&x.q[k_head * op.key..][..op.key], &x.k[k_head * op.key..][..op.key]);
        let v = &x.v[h * op.value..][..op.value];
        for (i, row) in s.chunks_exact_mut(op.value).enumerate() {
            let decay = if x.decay.len() == op.v_heads { x.decay[h] } else { x.decay[h * op.key + i] }.exp();
            row.iter_mut().for_each(|s| *s *= decay);
        }
        // Column j of S, from top to bottom.
        let column = |s: &[f32], j: usize, by: &[f32]| -> f64 {
            by.iter().enumerate().map(|(i, by)| f64::from(s[i * op.value + j]) * f64::from(*by)).sum()
        };
        let u: Vec<f32> = (0..op.value).map(|j| x.beta[h] * (f64::from(v[j]) - column(s, j, k)) as f32).collect();
        for (row, k) in s.chunks_exact_mut(op.value).zip(k) {
            row.iter_mut().zip(&u).for_each(|(s, u)| *s += k * u);
        }
        out.extend((0..op.value).map(|j| (f64::from(op.scale) * column(s, j, q)) as f32));
    }
    out
}

/// The operands of a step of linear attention, in the order of [`LinearAttention`].
pub(crate) struct Linear<'a> {
    pub(crate) q: &'a [f32],
    pub(crate) k: &'a [f32],
    pub(crate) v: &'a [f32],
    pub(crate) decay: &'a [f32],
    pub(crate) swap: Option<[&'a [f32]; 2]>,
}

pub(crate) fn linear_attention(op: &LinearAttention, x: &Linear<'_>, state: &mut [f32]) -> Vec<f32> {
    let mut out = Vec::with_capacity(op.heads * op.value);
    for (h, s) in state.chunks_exact_mut(op.key * op.value).enumerate() {
        let keys = h * op.key..(h + 1) * op.key;
        let column = |s: &[f32], j: usize, by: &[f32]| -> f64 {
            by[keys.clone()].iter().enumerate().map(|(i, by)| f64::from(s[i * op.value + j]) * f64::from(*by)).sum()
        };
        for j in 0..op.value {
            let early = column(s, j, x.q);
            let found = x.swap.map_or(0.0, |[a, _]| column(s, j, a) as f32);
            for i in 0..op.key {
                let at = keys.start + i;
                let swapped = x.swap.map_or(0.0, |[_, b]| b[at] * found);
                s[i * op.value + j] = x.decay[at].exp() * s[i * op.value + j] + swapped + x.k[at] * x.v[h * op.value + j];
            }
            let y = if op.before { early } else { column(s, j, x.q) };
            out.push((f64::from(op.scale) * y) as f32);
        }
    }
    out
}

pub(crate) fn causal_conv(op: &CausalConv, x: &[f32], weight: Option<&[f32]>, bias: Option<&[f32]>, state: &mut Vec<f32>) -> Vec<f32> {
    let channels = x.len();
    state.extend_from_slice(x);
    let one = |c: usize| {
        let tap = |j: usize| match (op.taps, weight) {
            (Taps::Weight(_), w) => w.map_or(0.0, |w| f64::from(w[c * op.kernel + j])),
            (Taps::Oldest, _) => f64::from(u8::from(j == 0)),
            (Taps::Mean, _) => 1.0 / op.kernel as f64,
        };
        let sum = (0..op.kernel).map(|j| tap(j) * f64::from(state[j * op.dilation * channels + c])).sum::<f64>();
        let y = (sum + bias.map_or(0.0, |b| f64::from(b[c]))) as f32;
        op.f.map_or(y, |f| f.apply(y))
    };
    let out = (0..channels).map(one).collect();
    state.drain(..channels);
    out
}

pub(crate) fn position_scale(x: &[f32], op: &PositionScale, position: usize) -> Vec<f32> {
    let blocks = ((position + op.shift) / op.every) as f64;
    let factor = 1.0 + f64::from(op.beta) * (1.0 + blocks).ln();
    x.iter().map(|x| (f64::from(*x) * factor) as f32).collect()
}

pub(crate) fn xielu(x: &[f32], op: &Xielu) -> Vec<f32> {
    let [alpha_p, alpha_n, beta, eps] = [op.alpha_p, op.alpha_n, op.beta, op.eps].map(f64::from);
    let above = |x: f64| alpha_p * x * x + beta * x;
    let below = |x: f64| alpha_n * (x.min(eps).exp_m1() - x) + beta * x;
    x.iter().map(|x| f64::from(*x)).map(|x| (if x > 0.0 { above(x) } else { below(x) }) as f32).collect()
}

pub(crate) fn clamp(x: &[f32], low: f32, high: f32) -> Vec<f32> {
    x.iter().map(|x| x.clamp(low, high)).collect()
}

/// The operands of a selective scan, in the order of [`SelectiveScan`].
pub(crate) struct Step<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) step: &'a [f32],
    pub(crate) b: &'a [f32],
    pub(crate) c: &'a [f32],
}

pub(crate) fn selective_scan(op: &SelectiveScan, x: &Step<'_>, rate: &[f32], skip: Option<&[f32]>, state: &mut [f32]) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.x.len());
    for (h, s) in state.chunks_exact_mut(op.size * op.head).enumerate() {
        let group = h / (op.heads / op.groups);
        let (b, c) = (&x.b[group * op.size..][..op.size], &x.c[group * op.size..][..op.size]);
        for (i, input) in x.x[h * op.head..][..op.head].iter().enumerate() {
            let mut sum = skip.map_or(0.0, |d| f64::from(d[h]) * f64::from(*input));
            for (n, (b, c)) in b.iter().zip(c).enumerate() {
                let rate = if rate.len() == op.heads { rate[h] } else { rate[h * op.size + n] };
                let s = &mut s[n * op.head + i];
                *s = (x.step[h] * rate).exp() * *s + b * (x.step[h] * input);
                sum += f64::from(*s) * f64::from(*c);
            }
            out.push(sum as f32);
        }
    }
    out
}

/// `qkv` are queries, keys and values; `tables` rate, and the decays of queries, of keys and within a block.
pub(crate) fn lightning(op: &Lightning, qkv: [&[f32]; 3], tables: [&[f32]; 4], position: usize, state: &mut [f32]) -> Vec<f32> {
    let &Lightning { dim, block, .. } = op;
    let [rate, queries, keys, inner] = tables;
    let i = position % block;
    let mut out = Vec::with_capacity(op.heads * dim);
    for (h, state) in state.chunks_exact_mut((dim + 2 * block) * dim).enumerate() {
        let [q, k, v] = qkv.map(|x| &x[h * dim..][..dim]);
        let (matrix, rest) = state.split_at_mut(dim * dim);
        let (past_k, past_v) = rest.split_at_mut(block * dim);
        past_k[i * dim..][..dim].copy_from_slice(k);
        past_v[i * dim..][..dim].copy_from_slice(v);
        let score = |j: usize| f64::from(inner[(h * block + i) * block + j]) * dot(q, &past_k[j * dim..][..dim]);
        let scores: Vec<f64> = (0..=i).map(score).collect();
        out.extend((0..dim).map(|c| {
            let before: f64 = (0..dim).map(|r| f64::from(q[r]) * f64::from(matrix[r * dim + c])).sum();
            let within: f64 = scores.iter().enumerate().map(|(j, s)| s * f64::from(past_v[j * dim + c])).sum();
            (f64::from(queries[h * block + i]) * before + within) as f32
        }));
        if i + 1 == block {
            let whole = f64::from(-rate[h] * block as f32).exp();
            for (n, m) in matrix.iter_mut().enumerate() {
                let (r, c) = (n / dim, n % dim);
                let added = |j: usize| f64::from(keys[h * block + j]) * f64::from(past_k[j * dim + r]) * f64::from(past_v[j * dim + c]);
                *m = (whole * f64::from(*m) + (0..block).map(added).sum::<f64>()) as f32;
            }
        }
    }
    out
}

pub(crate) fn rg_lru(x: &[f32], decay: &[f32], first: bool, state: &mut [f32]) -> Vec<f32> {
    for ((h, x), decay) in state.iter_mut().zip(x).zip(decay) {
        let a = f64::from(*decay).exp();
        *h = if first { *x } else { (a * f64::from(*h) + (1.0 - a * a).sqrt() * f64::from(*x)) as f32 };
    }
    state.to_vec()
}

pub(crate) fn wkv(k: &[f32], v: &[f32], decay: &[f32], first: &[f32], state: &mut [f32]) -> Vec<f32> {
    let width = k.len();
    let one = |i: usize| {
        let [k, v, decay, first] = [k[i], v[i], decay[i], first[i]].map(f64::from);
        let [sum, weight, log] = [0, 1, 2].map(|n| f64::from(state[n * width + i]));
        let log = if weight == 0.0 { f64::NEG_INFINITY } else { log };
        // Weights are kept relative to the largest, as their exponentials may overflow.
        let with = |past: f64, own: f64| {
            let largest = past.max(own);
            let (p, o) = ((past - largest).exp(), (own - largest).exp());
            (p * sum + o * v, p * weight + o, largest)
        };
        let (sum_out, weight_out, _) = with(log, first + k);
        let (sum, weight, log) = with(log + decay, k);
        [sum, weight, log].into_iter().enumerate().for_each(|(n, x)| state[n * width + i] = x as f32);
        (sum_out / weight_out) as f32
    };
    (0..width).map(one).collect()
}

/// `runs` matrices, each `[numbers in a run of x, numbers in a run of the output]`.
pub(crate) fn block_linear(weight: &[f32], bias: Option<&[f32]>, runs: usize, transposed: bool, x: &[f32]) -> Vec<f32> {
    let run = x.len() / runs;
    let out = weight.len() / x.len();
    let one = |o: usize| {
        let (r, o_in_run) = (o / out, o % out);
        let at = |i: usize| if transposed { (r * run + i) * out + o_in_run } else { o * run + i };
        let sum: f64 = (0..run).map(|i| f64::from(x[r * run + i]) * f64::from(weight[at(i)])).sum();
        (sum + bias.map_or(0.0, |b| f64::from(b[o]))) as f32
    };
    (0..runs * out).map(one).collect()
}

/// A product with the matrix of each choice, of `count` experts; `from` numbers go into each.
pub(crate) fn chosen_linear(weight: &[f32], from: usize, count: usize, weighted: bool, x: &[f32], chosen: &[Choice]) -> Vec<f32> {
    let runs = chosen.iter().enumerate().flat_map(|(c, (expert, w))| {
        let own = &weight[expert * weight.len() / count..(expert + 1) * weight.len() / count];
        let x = if x.len() == from { x } else { &x[c * from..(c + 1) * from] };
        let by = if weighted { *w } else { 1.0 };
        linear(own, None, x).into_iter().map(move |y| by * y)
    });
    runs.collect()
}

pub(crate) fn sum(x: &[f32], groups: usize, count: usize) -> Vec<f32> {
    let n = x.len() / (groups * count);
    let one = |i: usize| (0..count).map(|c| f64::from(x[(i / n * count + c) * n + i % n])).sum::<f64>() as f32;
    (0..groups * n).map(one).collect()
}

/// Each number of `b` serves a run of `a`.
pub(crate) fn binary(f: Binary, a: &[f32], b: &[f32]) -> Vec<f32> {
    let run = a.len() / b.len();
    a.iter().enumerate().map(|(i, a)| f.apply(*a, b[i / run])).collect()
}

pub(crate) fn concat(a: &[f32], b: &[f32], groups: usize) -> Vec<f32> {
    let runs = a.chunks_exact(a.len() / groups).zip(b.chunks_exact(b.len() / groups));
    runs.flat_map(|(a, b)| a.iter().chain(b)).copied().collect()
}

pub(crate) fn glu(gate: &[f32], up: &[f32], f: Function) -> Vec<f32> {
    gate.iter().zip(up).map(|(g, u)| f.apply(*g) * u).collect()
}

pub(crate) fn slice(x: &[f32], groups: usize, start: usize, len: usize) -> Vec<f32> {
    x.chunks_exact(x.len() / groups).flat_map(|run| &run[start..start + len]).copied().collect()
}

pub(crate) fn transpose(x: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let run = x.len() / (rows * columns);
    (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c)).flat_map(|i| &x[i * run..(i + 1) * run]).copied().collect()
}

pub(crate) fn hadamard(x: &[f32], rotation: &Rotation, inverse: bool) -> Vec<f32> {
    let sign = |i: usize| rotation.signs.as_ref().map_or(1.0, |s| f64::from(s.factors()[i]));
    let entry = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
    let one = |i: usize| {
        let (start, row) = (i / rotation.block * rotation.block, i % rotation.block);
        let term = |j: usize| entry(row, j) * f64::from(x[start + j]) * if inverse { 1.0 } else { sign(start + j) };
        let sum: f64 = (0..rotation.block).map(term).sum();
        (sum / (rotation.block as f64).sqrt() * if inverse { sign(i) } else { 1.0 }) as f32
    };
    (0..x.len()).map(one).collect()
}

fn sparse_mixer(op: &Route, logits: &[f64], jitter: f64) -> Vec<Choice> {
    let mut left: Vec<usize> = (0..logits.len()).collect();
    let choose = |_| {
        // The first of the largest.
        let best = left.iter().copied().reduce(|a, b| if logits[b] > logits[a] { b } else { a }).unwrap_or(0);
        let most = logits[best];
        let far = |l: f64| (most - l) / l.abs().max(most) > 2.0 * jitter;
        let sum: f64 = left.iter().map(|e| logits[*e]).filter(|l| !far(*l)).map(|l| (l - most).exp()).sum();
        left.retain(|e| *e != best);
        (best, (f64::from(op.scale) / sum) as f32)
    };
    (0..op.top_k).map(choose).collect()
}

pub(crate) fn route(op: &Route, logits: &[f32], bias: Option<&[f32]>, factors: Option<&[f32]>) -> Vec<Choice> {
    let logits: Vec<f64> = logits.iter().map(|l| f64::from(*l)).collect();
    let scores: Vec<f64> = match op.score {
        Score::SparseMixer { jitter } => return sparse_mixer(op, &logits, f64::from(jitter)),
        Score::Sigmoid => logits.iter().map(|l| 1.0 / (1.0 + (-l).exp())).collect(),
        Score::Softmax => {
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let exp: Vec<f64> = logits.iter().map(|l| (l - largest).exp()).collect();
            let sum: f64 = exp.iter().sum();
            exp.iter().map(|e| e / sum).collect()
        }
    };
    let wanted = |e: usize| scores[e] + bias.map_or(0.0, |b| f64::from(b[e]));
    let mut order: Vec<usize> = (0..scores.len()).collect();
    if let Some(Groups { count, chosen, best }) = op.groups {
        let run = scores.len() / count;
        let worth = |group: usize| {
            let mut of_group: Vec<f64> = (group * run..(group + 1) * run).map(wanted).collect();
            of_group.sort_by(|a, b| b.total_cmp(a));
            of_group[..best].iter().sum::<f64>()
        };
        let mut groups: Vec<usize> = (0..count).collect();
        groups.sort_by(|a, b| worth(*b).total_cmp(&worth(*a)));
        groups.truncate(chosen);
        order.retain(|e| groups.contains(&(e / run)));
    }
    order.sort_by(|a, b| wanted(*b).total_cmp(&wanted(*a))); // stable: ties stay in order
    order.truncate(op.top_k);
    let sum: f64 = if op.normalize { order.iter().map(|e| scores[*e]).sum::<f64>() + f64::from(Route::FLOOR) } else { 1.0 };
    let factor = |e: usize| f64::from(op.scale) * factors.map_or(1.0, |by| f64::from(by[e]));
    let weight = |e: usize| if e + op.nothing < scores.len() { (scores[e] / sum * factor(e)) as f32 } else { 0.0 };
    order.iter().map(|e| (*e, weight(*e))).collect()
}

/// What a chosen expert of this weight is given.
pub(crate) fn given(op: &Experts, x: &[f32], weight: f32) -> Vec<f32> {
    match op.weigh {
        Weigh::Output => x.to_vec(),
        Weigh::Input => x.iter().map(|x| weight * x).collect(),
    }
}

/// `weights` and `biases` are those of gate, up and down, of `count` experts; `seen` is told what an expert's `down` is multiplied with.
pub(crate) fn experts(
    op: &Experts,
    x: &[f32],
    chosen: &[Choice],
    weights: [&[f32]; 3],
    biases: Option<[&[f32]; 3]>,
    count: usize,
    seen: &mut dyn FnMut(usize, &[f32]),
) -> Vec<f32> {
    let part = |all: &[f32], e: usize| {
        let n = all.len() / count;
        e * n..(e + 1) * n
    };
    let product = |w: usize, e: usize, x: &[f32]| {
        let bias = biases.map(|b| &b[w][part(b[w], e)]);
        linear(&weights[w][part(weights[w], e)], bias, x)
    };
    let width = weights[2].len() / (weights[1].len() / x.len());
    let mut out = vec![0.0f64; width];
    for (e, w) in chosen {
        let given = given(op, x, *w);
        let w = if op.weigh == Weigh::Input { 1.0 } else { *w };
        let y = if *e < count {
            let (gate, up) = (product(0, *e, &given), product(1, *e, &given));
            let h: Vec<f32> = gate.iter().zip(&up).map(|(g, u)| op.gating.apply(*g, *u)).collect();
            let h = if let Some(r) = &op.rotation { hadamard(&h, r, false) } else { h };
            seen(*e, &h);
            product(2, *e, &h)
        } else {
            given
        };
        out.iter_mut().zip(y).for_each(|(o, y)| *o += f64::from(w) * f64::from(y));
    }
    out.iter().map(|o| *o as f32).collect()
}

#[cfg(test)]
mod tests;
