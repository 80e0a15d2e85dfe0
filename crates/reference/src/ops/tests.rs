//! Values from PyTorch 2.15 in f64, for inputs `sin(0.7 i + offset)`.

use super::*;
use onebit_plan::{
    AXES, Gating, Mask, Signs, StateId, Value, WeightId,
    ops::{Index, NgramEmbed, NgramHead, SparseAttention},
};

/// The inputs.
fn v(n: usize, offset: f64) -> Vec<f32> {
    (0..n).map(|i| (0.7 * i as f64 + offset).sin() as f32).collect()
}

fn close(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((f64::from(*a) - b).abs() < 1e-6, "{found:?} should be {expected:?}");
    }
}

const NONE: Value = Value(0);

/// From `ActQuant` of transformers 5.24: `ActQuant.forward(None, torch.tensor([0.1, -2.54, 0.03, 1.27, 0.01]))`.
#[test]
fn rows_are_rounded() {
    close(&round_row(&[0.1, -2.54, 0.03, 1.27, 0.01]), &[0.1, -2.54, 0.04, 1.28, 0.0]);
    assert_eq!(round_row(&[0.0; 3]), [0.0; 3]);
}

#[test]
fn norms() {
    let (x, w, b) = (v(4, 1.0), v(4, 2.0), v(4, 3.0));
    close(&layer_norm(&x, Some(&w), Some(&b), 4, 1e-5), &[0.65361918, -0.11154482, -0.97838289, 0.42201513]);
    close(&rms_norm(&x, Some(&w[..2]), 2, 1e-5), &[0.83200333, 0.4608493, 1.2834831, 0.03713539]);
    close(&l2_norm(&x, 2, 1e-6), &[0.64700337, 0.76248675, 0.99810954, 0.061442366]);
    // From NumPy 2.4 in f64.
    close(&layer_norm(&x, Some(&w[..2]), Some(&b[..2]), 2, 1e-5), &[-0.7673723, -0.10283465, 1.05037215, -0.95719472]);
    close(&layer_norm(&x, None, None, 4, 1e-5), &[0.56362097, 0.97873428, 0.10480046, -1.6471557]);
}

/// By hand: matrices `[[1, 2]]`, `[[3, 4]]`, `[[5, 6]]`.
#[test]
fn products_of_chosen_experts() {
    let weight = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let chosen = [(2, 0.25), (0, 0.75)];
    close(&chosen_linear(&weight, 2, 3, false, &[1.0, 10.0], &chosen), &[65.0, 21.0]);
    close(&chosen_linear(&weight, 2, 3, true, &[1.0, 10.0, 2.0, 20.0], &chosen), &[16.25, 31.5]);
}

#[test]
fn rotation_of_part_of_a_head() {
    let x = v(12, 1.0);
    let turn = |style| rope(&x, 6, &Rope { scale: 1.5, ..Rope::new(style, vec![1.0, 0.1]) }, [3; AXES]);
    let pairs = [
        -1.4594906,
        -1.2944885,
        0.94951005,
        0.35900481,
        -0.61185789,
        -0.97753012,
        1.3910624,
        0.36819295,
        0.06945844,
        1.3567799,
        0.98935825,
        0.66296923,
    ];
    let halves = [
        -1.392557,
        1.4026285,
        -0.82493263,
        0.49917077,
        -0.61185789,
        -0.97753012,
        1.2459731,
        -0.91274884,
        -0.64964511,
        1.0529475,
        0.98935825,
        0.66296923,
    ];
    close(&turn(RopeStyle::Pairs), &pairs);
    close(&turn(RopeStyle::Halves), &halves);
}

#[test]
fn rotation_by_two_axes() {
    let axes = Rope { scale: 1.5, axes: vec![2, 0], ..Rope::new(RopeStyle::Halves, vec![1.0, 0.1]) };
    let expected = [
        1.32961732,
        1.4026285,
        -0.922955339,
        0.499170794,
        -0.611857891,
        -0.977530122,
        0.0722128146,
        -0.91274885,
        1.40330796,
        1.05294754,
        0.989358246,
        0.662969232,
    ];
    close(&rope(&v(12, 1.0), 6, &axes, [3, 9, 5, 0]), &expected);
}

#[test]
fn sines_of_positions() {
    // From NumPy 2.4 in f64.
    close(&sinusoid(&[1.0, 0.5, 0.1], 5), &[-0.95892427, 0.59847214, 0.47942554, 0.28366219, -0.80114362, 0.87758256]);
}

/// Keys of two and values of three numbers.
struct Rows(Vec<f32>, Vec<f32>);

impl Past for Rows {
    fn key(&self, t: usize) -> &[f32] {
        &self.0[t * 2..][..2]
    }
    fn value(&self, t: usize) -> &[f32] {
        &self.1[t * 3..][..3]
    }
}

/// Attention of two heads over [`Rows`].
fn plain(mask: Mask) -> Attention {
    Attention {
        q: NONE,
        kv: Some([NONE; 2]),
        state: StateId(0),
        heads: 2,
        kv_heads: 1,
        key: 2,
        value: 3,
        scale: 0.8,
        mask,
        groups: false,
        softcap: None,
        sinks: None,
        alibi: None,
        relative: None,
        out: NONE,
    }
}

#[test]
fn attention_with_window_bound_and_sinks() {
    let past = Rows(v(8, 4.0), v(12, 5.0));
    let (q, sinks) = (v(4, 6.0), v(2, 7.0));
    let plain = plain(Mask::Causal);
    let apart = |_: usize, _: usize| 0.0;
    let expected = [-0.15531953, -0.10123789, 0.00045752263, -0.30248167, -0.38637262, -0.28854649];
    close(&attention(&plain, &q, &past, None, 3, plain.mask.seen(3, 4), &apart), &expected);
    // From NumPy 2.4 in f64.
    let biased = Attention { alibi: Some(vec![0.5, 0.125]), ..plain.clone() };
    let expected = [-0.27399245, -0.23634623, -0.087542685, -0.34214883, -0.40515233, -0.27760636];
    close(&attention(&biased, &q, &past, None, 3, biased.mask.seen(3, 4), &apart), &expected);
    let all = Attention { mask: Mask::Window(3), softcap: Some(1.5), ..plain };
    let expected = [0.034028878, 0.010090635, -0.018593391, -0.1749744, -0.24003828, -0.19220842];
    close(&attention(&all, &q, &past, Some(&sinks), 3, all.mask.seen(3, 4), &apart), &expected);
    // From NumPy 2.4 in f64.
    let chunked = Attention { mask: Mask::Chunked(2), softcap: None, ..all };
    let expected = [-0.29489208, -0.49230829, -0.45818421, -0.36028211, -0.49669965, -0.39951158];
    close(&attention(&chunked, &q, &past, None, 3, chunked.mask.seen(3, 4), &apart), &expected);
    assert_eq!([0, 1, 2, 3].map(|p| Mask::Chunked(2).seen(p, 4)), [0..1, 0..2, 2..3, 2..4]);
    // Position 1, with all of its image from 1 to 3.
    let grouped = Attention { sinks: None, ..chunked };
    let expected = [0.054129690, 0.015904857, -0.029800279, -0.27487797, -0.37946319, -0.30558094];
    close(&attention(&grouped, &q, &past, None, 1, Mask::Window(1).seen_with(1, 4, Some([1, 4])), &apart), &expected);
}

/// From NumPy 2.4 in f64.
#[test]
fn attention_that_looks_ahead() {
    let past = Rows(v(8, 4.0), v(12, 5.0));
    let q = v(4, 6.0);
    let plain = plain(Mask::Full);
    let of = |op: &Attention, apart: &dyn Fn(usize, usize) -> f64| attention(op, &q, &past, None, 1, op.mask.seen(1, 4), apart);
    close(&of(&plain, &|_, _| 0.0), &[-0.155319541, -0.101237892, 0.000457519007, -0.302481679, -0.386372631, -0.288546497]);
    let near = Attention { mask: Mask::Near(1), ..plain.clone() };
    close(&of(&near, &|_, _| 0.0), &[0.083285507, 0.0288149135, -0.0392077909, 0.205779905, -0.269202038, -0.617574075]);
    let biased = Attention { alibi: Some(vec![0.5, 0.125]), ..plain.clone() };
    close(&of(&biased, &|_, _| 0.0), &[0.0542920551, 0.112903614, 0.118414845, -0.256699301, -0.363828608, -0.299843636]);
    let fixed = Some(vec![0.5, -1.0, 0.25, 2.0, 0.75, -0.5]);
    let relative = Relative { buckets: vec![0, 1, 2], count: 3, fixed, of_query: None, of_key: None };
    close(
        &of(&plain, &|h, t| super::relative(&relative, h, (1, t), None, None)),
        &[-0.355554397, -0.384066494, -0.231946126, -0.336638696, -0.461446739, -0.369229169],
    );
    let (of_query, of_key) = ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert!((super::relative(&relative, 1, (3, 1), Some(&of_query), Some(&of_key)) - (-0.5 + 0.6 + 6.0)).abs() < 1e-6);
    assert_eq!([0, 3].map(|p| Mask::Near(1).seen(p, 4)), [0..2, 2..4]);
}

/// The output of the second of two steps.
fn delta(tiled: bool) -> Vec<f32> {
    let op = GatedDelta {
        q: NONE,
        k: NONE,
        v: NONE,
        decay: NONE,
        beta: NONE,
        state: StateId(0),
        k_heads: 2,
        v_heads: 4,
        key: 2,
        value: 3,
        tiled,
        scale: 0.5,
        out: NONE,
    };
    let mut state = vec![0.0; 4 * 2 * 3];
    let mut out = vec![];
    for t in [0.0, 1.0] {
        let decay: Vec<f32> = v(4, 4.0 + t).iter().map(|d| -d.abs()).collect();
        let beta: Vec<f32> = v(4, 5.0 + t).iter().map(|b| Function::Sigmoid.apply(*b)).collect();
        let x = Delta { q: &v(4, 1.0 + t), k: &v(4, 2.0 + t), v: &v(12, 3.0 + t), decay: &decay, beta: &beta };
        out = gated_delta(&op, &x, &mut state);
    }
    out
}

#[test]
fn gated_delta_with_grouped_and_tiled_heads() {
    let first = [0.023521943, -0.0071635343, -0.034479889];
    let last = [-0.27835515, -0.36358578, -0.27781634];
    let grouped = [-0.092603835, -0.063703024, -0.0048416857, 0.33885344, 0.18360757, -0.057991807];
    let tiled = [-0.067767703, 0.14173837, 0.28458267, 0.15455933, 0.21834896, 0.17944567];
    close(&delta(false), &[&first[..], &grouped, &last].concat());
    close(&delta(true), &[&first[..], &tiled, &last].concat());
}

fn negative(n: usize, offset: f64) -> Vec<f32> {
    v(n, offset).iter().map(|x| -x.abs()).collect()
}

#[test]
fn gated_delta_with_decays_of_rows() {
    let op = GatedDelta {
        q: NONE,
        k: NONE,
        v: NONE,
        decay: NONE,
        beta: NONE,
        state: StateId(0),
        k_heads: 2,
        v_heads: 2,
        key: 2,
        value: 3,
        tiled: false,
        scale: 0.5,
        out: NONE,
    };
    let mut state = vec![0.0; 2 * 2 * 3];
    let mut out = vec![];
    for t in [0.0, 1.0] {
        let beta: Vec<f32> = v(2, 5.0 + t).iter().map(|b| Function::Sigmoid.apply(*b)).collect();
        let x = Delta { q: &v(4, 1.0 + t), k: &v(4, 2.0 + t), v: &v(6, 3.0 + t), decay: &negative(4, 4.0 + t), beta: &beta };
        out = gated_delta(&op, &x, &mut state);
    }
    close(&out, &[0.024175924, -0.0096189133, -0.038889828, -0.060063417, 0.14560462, 0.28279252]);
}

/// The output of the second of two steps of linear attention, two heads of 2 x 3. From NumPy 2.4 in f64.
fn recalled(swapped: bool, before: bool) -> Vec<f32> {
    let swap = swapped.then_some([NONE; 2]);
    let (state, out) = (StateId(0), NONE);
    let op = LinearAttention { q: NONE, k: NONE, v: NONE, decay: NONE, swap, state, heads: 2, key: 2, value: 3, before, scale: 0.5, out };
    let mut state = vec![0.0; 2 * 2 * 3];
    let mut out = vec![];
    for t in [0.0, 1.0] {
        let (a, b) = (v(4, 5.0 + t), v(4, 6.0 + t));
        let swap = swapped.then_some([&a[..], &b[..]]);
        let x = Linear { q: &v(4, 1.0 + t), k: &v(4, 2.0 + t), v: &v(6, 3.0 + t), decay: &negative(4, 4.0 + t), swap };
        out = linear_attention(&op, &x, &mut state);
    }
    out
}

#[test]
fn linear_attention_read_before_and_after() {
    close(&recalled(false, false), &[0.0669220768, -0.0628007232, -0.162987373, -0.267575014, 0.158705233, 0.510343914]);
    close(&recalled(false, true), &[0.0712285803, -0.267428246, -0.480309424, -0.340180751, -0.170713122, 0.0790435493]);
    close(&recalled(true, false), &[0.0610906262, -0.0409064978, -0.123664665, -0.494707975, 0.0447229552, 0.563119962]);
}

/// The output of the second of two steps of four heads.
fn scanned(groups: usize, head: usize, rates: usize) -> Vec<f32> {
    let (rate, skip) = (WeightId(0), Some(WeightId(0)));
    let op =
        SelectiveScan { x: NONE, step: NONE, b: NONE, c: NONE, rate, skip, state: StateId(0), heads: 4, groups, head, size: 3, out: NONE };
    let mut state = vec![0.0; 4 * 3 * head];
    let mut out = vec![];
    for t in [0.0, 1.0] {
        let step: Vec<f32> = v(4, 2.0 + t).iter().map(|x| x.abs()).collect();
        let x = Step { x: &v(4 * head, 1.0 + t), step: &step, b: &v(groups * 3, 3.0 + t), c: &v(groups * 3, 4.0 + t) };
        out = selective_scan(&op, &x, &negative(rates, 7.0), Some(&v(4, 8.0)), &mut state);
    }
    out
}

#[test]
fn selective_scan_of_both_kinds() {
    let mamba_2 = [1.0836066, 0.5318086, -0.32224592, -1.0563344, -1.0094668, -0.65533183, 0.48685251, 0.4528253];
    close(&scanned(2, 2, 4), &mamba_2);
    close(&scanned(1, 1, 12), &[1.0764426, 0.57587598, -0.29457987, -0.38745772]);
}

#[test]
fn recurrences_of_single_numbers() {
    let (mut lru, mut average) = (vec![0.0; 3], vec![0.0; 9]);
    let (mut h, mut y) = (vec![], vec![]);
    for t in [0.0, 1.0, 2.0] {
        h = rg_lru(&v(3, 1.0 + t), &negative(3, 2.0 + t), t == 0.0, &mut lru);
        y = wkv(&v(3, 1.0 + t), &v(3, 2.0 + t), &negative(3, 5.0), &v(3, 6.0), &mut average);
    }
    close(&h, &[0.67900437, -0.15079007, -0.83250428]);
    close(&y, &[0.11780918, -0.25958834, -0.55212746]);
}

/// Three tokens in blocks of two.
#[test]
fn lightning_attention_across_blocks() {
    let w = WeightId(0);
    let (heads, dim, block) = (2, 2, 2);
    let op =
        Lightning { q: NONE, k: NONE, v: NONE, rate: w, queries: w, keys: w, inner: w, state: StateId(0), heads, dim, block, out: NONE };
    let rate: Vec<f32> = v(2, 5.0).iter().map(|x| x.abs()).collect();
    let tables = [&rate[..], &v(4, 6.0), &v(4, 7.0), &v(8, 8.0)];
    let mut state = vec![0.0; heads * (dim + 2 * block) * dim];
    let expected = [
        [0.16600119, -0.62325273, -0.19288396, -0.18765701],
        [-0.04288731, -0.074579296, -0.0027354439, 0.18402732],
        [-0.33594013, -0.15699869, -1.2253909, -1.4501055],
    ];
    for (t, expected) in expected.iter().enumerate() {
        let [q, k, v] = [1.0, 2.0, 3.0].map(|offset| v(4, offset + t as f64));
        close(&lightning(&op, [&q, &k, &v], tables, t, &mut state), expected);
    }
}

#[test]
fn blocks_and_groups() {
    close(&block_linear(&v(12, 2.0), Some(&v(4, 3.0)), 2, true, &v(6, 1.0)), &[-0.020016318, -1.4582315, -1.9501445, -1.1881096]);
    close(&rms_norm(&v(4, 1.0), Some(&v(4, 2.0)), 2, 1e-5), &[0.83200329, 0.46084931, -0.36069904, -0.071100771]);
    assert_eq!(concat(&[1.0, 2.0], &[3.0, 4.0, 5.0, 6.0], 2), [1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
    assert_eq!(concat(&[1.0, 2.0], &[3.0], 1), [1.0, 2.0, 3.0]);
    // By hand.
    let matrices = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    assert_eq!(block_linear(&matrices, None, 2, false, &[1.0, -1.0, 2.0, 3.0]), [-1.0, -1.0, 28.0, 38.0]);
    assert_eq!(block_linear(&matrices, None, 2, true, &[1.0, -1.0, 2.0, 3.0]), [-2.0, -2.0, 31.0, 36.0]);
}

/// A convolution of inputs that are as they come.
fn conv(taps: Taps, kernel: usize, dilation: usize) -> CausalConv {
    CausalConv { x: NONE, taps, bias: None, state: StateId(0), kernel, dilation, f: None, out: NONE }
}

/// What `op` makes of 6 tokens of 2 numbers.
fn convolved(op: &CausalConv, weight: Option<&[f32]>) -> Vec<f32> {
    let mut state = vec![0.0; (op.reach() - 1) * 2];
    v(12, 1.0).chunks(2).flat_map(|x| causal_conv(op, x, weight, None, &mut state)).collect()
}

#[test]
fn delay() {
    let op = conv(Taps::Oldest, 3, 1);
    let mut state = vec![0.0; 2];
    let out: Vec<f32> = [1.0, 2.0, 3.0].iter().flat_map(|x| causal_conv(&op, &[*x], None, None, &mut state)).collect();
    assert_eq!(out, [0.0, 0.0, 1.0]);
}

#[test]
fn convolution() {
    let op = CausalConv { f: Some(Function::Silu), ..conv(Taps::Weight(WeightId(0)), 3, 1) };
    let mut state = vec![0.0; 2 * 2];
    let (w, b) = (v(6, 2.0), v(2, 3.0));
    let out: Vec<f32> = v(8, 1.0).chunks(2).flat_map(|x| causal_conv(&op, x, Some(&w), Some(&b), &mut state)).collect();
    let expected = [-0.035590141, -0.27819763, 0.19074945, -0.27152775, 1.0733961, -0.23102751, 0.48392814, 0.44621683];
    close(&out, &expected);
}

/// Values from NumPy 2.4 in f64.
#[test]
fn dilated_convolution_and_mean() {
    let op = conv(Taps::Weight(WeightId(0)), 3, 2);
    close(&convolved(&op, Some(&v(6, 2.0)))[10..], &[-0.016195527, -0.12933331]);
    assert_eq!(op.spread(1, Some(&[1.0, 2.0, 3.0])), [1.0, 0.0, 2.0, 0.0, 3.0]);
    close(&convolved(&conv(Taps::Mean, 4, 1), None)[10..], &[-0.048603244, 0.040499769]);
}

/// Values from NumPy 2.4 in f64.
#[test]
fn sums() {
    close(&sum(&v(12, 3.0), 2, 3), &[-1.2750843, -1.2405308, 0.98404384, 0.16676079]);
    assert_eq!(sum(&[1.0, 2.0, 3.0, 4.0], 2, 2), [3.0, 7.0]);
    let signed: Vec<f32> = [4.0, -0.25, 1e-9, -1e-9, 0.0].map(|x| Function::SignedSqrt.apply(x)).to_vec();
    close(&signed, &[2.0, -0.5, 0.001, -0.001, 0.0]);
}

/// Values from NumPy 2.4 in f64: the weights bring block 2 before block 1.
#[test]
fn attention_to_chosen_tokens() {
    let op = Index { q: NONE, k: NONE, weights: None, state: StateId(0), heads: 2, block: 2, top: 2, out: NONE };
    let (keys, q) = (v(21, 4.0), v(6, 5.0));
    let key = |t: usize| &keys[t * 3..][..3];
    assert_eq!(index(&op, &q, None, key, 6), [0.0, 1.0, 2.0, 3.0, 6.0]);
    assert_eq!(index(&op, &q, Some(&[0.5, 2.0]), key, 6), [0.0, 1.0, 4.0, 5.0, 6.0]);
    assert_eq!(index(&op, &q, None, key, 2), [0.0, 1.0, 2.0, -1.0, -1.0]);
    let op = SparseAttention {
        q: NONE,
        k: NONE,
        v: NONE,
        only: NONE,
        state: StateId(0),
        heads: 2,
        kv_heads: 1,
        key: 2,
        value: 3,
        scale: 0.8,
        out: NONE,
    };
    let out = sparse_attention(&op, &v(4, 6.0), &Rows(v(8, 4.0), v(12, 5.0)), &[0.0, 2.0, 3.0, -1.0]);
    close(&out, &[-0.48306449, -0.50885114, -0.29531717, -0.38640501, -0.49905543, -0.37699229]);
}

/// Values from Python's integers.
#[test]
fn hashes_of_ngrams() {
    let heads = vec![NgramHead { tokens: 2, size: 211, first: 0 }, NgramHead { tokens: 3, size: 227, first: 434 }];
    let multipliers = vec![4295158889762567, 35454616657218897, 19285316470915801];
    let op = NgramEmbed { weight: WeightId(0), heads, multipliers, boundary: 2, state: StateId(0), out: NONE };
    let rows = |before: [u32; 2]| {
        let tokens = op.tokens(7, |i| Some(before[i - 1]));
        [op.row(0, &tokens), op.row(1, &tokens)]
    };
    assert_eq!(rows([9, 11]), [10, 621]);
    // What lies before the end of a text does not count.
    assert_eq!(rows([2, 11]), [76, 455]);
}

#[test]
fn routing() {
    let logits = v(4, 1.0);
    let op = Route { normalize: true, scale: 2.5, ..Route::new(2, Score::Sigmoid) };
    // The bias brings expert 2 to the front, but has no part in its weight.
    let (experts, weights): (Vec<_>, Vec<_>) = route(&op, &logits, Some(&[0.0, 0.0, 0.5, 0.0]), None).into_iter().unzip();
    assert_eq!(experts, [2, 1]);
    close(&weights, &[1.1901181, 1.3098819]);
    let op = Route { top_k: 3, score: Score::Softmax, normalize: false, scale: 1.0, ..op };
    let (experts, weights): (Vec<_>, Vec<_>) = route(&op, &logits, None, None).into_iter().unzip();
    assert_eq!(experts, [1, 0, 2]);
    close(&weights, &[0.3360032, 0.28914459, 0.24491692]);
    // A choice that stands for no expert stays one, but has no weight.
    let (experts, weights): (Vec<_>, Vec<_>) = route(&Route { nothing: 2, ..op.clone() }, &logits, None, None).into_iter().unzip();
    assert_eq!(experts, [1, 0, 2]);
    close(&weights, &[0.3360032, 0.28914459, 0.0]);
    // Factors of experts come last.
    let (experts, weights): (Vec<_>, Vec<_>) = route(&op, &logits, None, Some(&[2.0, 0.5, -1.0, 9.0])).into_iter().unzip();
    assert_eq!(experts, [1, 0, 2]);
    close(&weights, &[0.1680016, 0.57828918, -0.24491692]);
    let tied = route(&op, &[1.0, 2.0, 1.0, 2.0], None, None);
    assert_eq!(tied.iter().map(|c| c.0).collect::<Vec<_>>(), [1, 3, 0]);
}

/// From NumPy 2.4 in f64.
#[test]
fn routing_among_groups() {
    let logits = v(8, 1.0);
    let groups = Groups { count: 4, chosen: 2, best: 2 };
    let op = Route { normalize: true, groups: Some(groups), ..Route::new(3, Score::Sigmoid) };
    let bias = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.9, 0.0];
    let (experts, weights): (Vec<_>, Vec<_>) = route(&op, &logits, Some(&bias), None).into_iter().unzip();
    assert_eq!(experts, [6, 1, 0]);
    close(&weights, &[0.16997165, 0.42391826, 0.40611009]);
    let op = Route { groups: Some(Groups { chosen: 1, best: 1, ..groups }), ..Route::new(2, Score::Softmax) };
    let (experts, weights): (Vec<_>, Vec<_>) = route(&op, &logits, None, None).into_iter().unzip();
    assert_eq!(experts, [1, 0]);
    close(&weights, &[0.26842057, 0.23098695]);
}

#[test]
fn mixture() {
    let op = Experts {
        x: NONE,
        route: NONE,
        gate: WeightId(0),
        up: WeightId(0),
        down: WeightId(0),
        biases: None,
        gating: Function::Silu.into(),
        weigh: Weigh::Output,
        identities: 0,
        rotation: None,
        out: NONE,
    };
    let (gate, up, down) = (v(12, 1.0), v(12, 2.0), v(12, 3.0));
    let (x, chosen, weights) = (v(2, 4.0), [(1, 0.75), (0, 0.25)], [&gate[..], &up, &down]);
    let (mut asked, mut ignore) = (vec![], |_: usize, _: &[f32]| {});
    let y = experts(&op, &x, &chosen, weights, None, 2, &mut |e, h| asked.push((e, h.len())));
    close(&y, &[-0.26152426, -0.18169372]);
    assert_eq!(asked, [(1, 3), (0, 3)]);
    // From NumPy 2.4 in f64.
    let input = Experts { weigh: Weigh::Input, ..op.clone() };
    close(&experts(&input, &x, &chosen, weights, None, 2, &mut ignore), &[0.08898235, -0.21820567]);
    let identity = Experts { identities: 1, ..op.clone() };
    close(&experts(&identity, &x, &[(1, 0.75), (2, 0.25)], weights, None, 2, &mut ignore), &[-0.083918659, -0.47783647]);
    let biased = Experts { gating: Gating { f: Function::QuickGelu, limit: Some(0.5), offset: 1.0 }, ..op };
    let biases = [&v(6, 5.0)[..], &v(6, 6.0), &v(4, 7.0)];
    close(&experts(&biased, &x, &chosen, weights, Some(biases), 2, &mut ignore), &[0.91901112, 0.70095247]);
}

#[test]
fn functions() {
    let of = |f: Function| v(3, 1.0).iter().map(|x| f.apply(*x)).collect::<Vec<_>>();
    close(&of(Function::Gelu), &[0.67314139, 0.83232358, 0.50680626]);
    close(&of(Function::GeluTanh), &[0.67304399, 0.83217376, 0.50675706]);
    // From NumPy 2.4 in f64.
    close(&of(Function::QuickGelu), &[0.67927015, 0.83690203, 0.51297703]);
    close(&of(Function::Softplus), &[1.1998976, 1.307175, 1.0868578]);
    close(&of(Function::Silu), &[0.58799883, 0.7233368, 0.44764659]);
    close(&of(Function::ReluSquared), &[0.70807342, 0.9833991, 0.45625051]);
    close(&of(Function::Tanh), &[0.68658741, 0.75807131, 0.58856207]);
}

#[test]
fn slices_and_gates() {
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    assert_eq!(slice(&x, 2, 1, 2), [2.0, 3.0, 5.0, 6.0]);
    assert_eq!(slice(&x, 1, 4, 2), [5.0, 6.0]);
    assert_eq!(binary(Binary::Mul, &x, &[1.0, -1.0]), [1.0, 2.0, 3.0, -4.0, -5.0, -6.0]);
    assert_eq!(glu(&[-1.0, 2.0], &[3.0, 4.0], Function::Relu), [0.0, 8.0]);
    // By hand.
    assert_eq!(clamp(&[-2.0, -0.5, 0.25, 3.0], -0.5, 0.5), [-0.5, -0.5, 0.25, 0.5]);
    assert_eq!(clamp(&[-2.0, -0.5, 0.25, 3.0], 0.0, f32::INFINITY), [0.0, 0.0, 0.25, 3.0]);
}

/// By hand: H_4 of (1, 2, 3, 4) is (10, -2, -4, 0), and the signs are taken before it, or after it on the way back.
#[test]
fn rotations() {
    let rotation = |block, signs: Option<&[f32]>| Rotation { block, signs: signs.map(|s| Signs::new(s.to_vec()).unwrap()) };
    let x = [1.0, 2.0, 3.0, 4.0];
    assert_eq!(hadamard(&x, &rotation(4, None), false), [5.0, -1.0, -2.0, 0.0]);
    assert_eq!(hadamard(&x, &rotation(1, None), false), x);
    let signed = rotation(4, Some(&[1.0, -1.0, 1.0, 1.0]));
    assert_eq!(hadamard(&x, &signed, false), [3.0, 1.0, -4.0, 2.0]);
    assert_eq!(hadamard(&x, &signed, true), [5.0, 1.0, -2.0, 0.0]);
    assert_eq!(hadamard(&hadamard(&x, &signed, false), &signed, true), x);
    let pairs: Vec<f64> = [3.0, -1.0, 7.0, -1.0].iter().map(|x| x * std::f64::consts::FRAC_1_SQRT_2).collect();
    close(&hadamard(&x, &rotation(2, None), false), &pairs);
    let runs: Vec<f32> = (0..12).map(|x| x as f32).collect();
    assert_eq!(transpose(&runs, 3, 2), [0.0, 1.0, 4.0, 5.0, 8.0, 9.0, 2.0, 3.0, 6.0, 7.0, 10.0, 11.0]);
}

/// transformers' `XIELUActivation` with parameters 0.3 and -0.4.
#[test]
fn xielu_values() {
    let op = Xielu { x: Value(0), alpha_p: 0.854_355_3, alpha_n: 1.013_015_3, beta: 0.5, eps: -1e-6, out: Value(1) };
    let expected = [0.576_465_6, -0.142_082_81, -1.013_014_8e-6, 0.178_397_2, 4.417_421_3];
    for (y, e) in xielu(&[-3.0, -0.5, 0.0, 0.25, 2.0], &op).iter().zip(expected) {
        assert!((y - e).abs() < 1e-6, "{y} is not {e}");
    }
}

/// transformers' `get_llama_4_attn_scale` with 0.1 and 4.
#[test]
fn position_scale_values() {
    let op = PositionScale { x: Value(0), beta: 0.1, every: 4, shift: 0, out: Value(1) };
    for (position, factor) in [(0, 1.0), (3, 1.0), (4, 1.069_314_7), (100, 1.325_809_7)] {
        assert!((position_scale(&[2.0], &op, position)[0] - 2.0 * factor).abs() < 1e-6, "{position}");
    }
}
