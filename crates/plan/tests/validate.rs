//! What `Plan::validate` refuses: each case is a small valid plan with one thing wrong.

use onebit_plan::{
    Answering, Attention, Binary, Experts, Function, GatedDelta, Groups, Kind, Mask, Op, Plan, Rope, RopeStyle, Rotation, Route, Rows,
    Score, Signs, State, StateId, Value, ValueInfo, Weigh, WeightId, WeightInfo,
    ops::{
        ApplyRope, BlockLinear, CausalConv, ChosenLinear, Clamp, Concat, Elementwise, Embed, Glu, Hadamard, Index, LayerNorm, Lightning,
        Linear, Lookup, NgramEmbed, NgramHead, Pairwise, PositionScale, Relative, Remember, RgLru, RmsNorm, Scale, Select, SelectiveScan,
        Sinusoid, Slice, SparseAttention, Sum, Taps, Transpose, WeightedBinary, Wkv,
    },
};
use onebit_quants::F32;

/// A plan in the making.
struct Build(Plan);

impl Build {
    /// An embedding of 8 numbers (value 0) over a vocabulary of 6.
    fn new() -> Self {
        let mut b = Self(Plan {
            name: "test".into(),
            layers: 1,
            values: vec![],
            ops: vec![],
            op_layers: vec![],
            weights: vec![],
            states: vec![],
            output: Value(0),
            hidden: None,
            vocabulary: 6,
            context: 16,
            denoising: None,
            answering: None,
        });
        let (weight, out) = (b.weight(&[6, 8]), b.value(8));
        b.op(Embed { weight, by: Lookup::Token, scale: 1.0, out });
        b
    }
    fn value(&mut self, width: usize) -> Value {
        self.value_of(width, Rows::Tokens, Kind::Numbers)
    }
    fn value_of(&mut self, width: usize, rows: Rows, kind: Kind) -> Value {
        self.0.values.push(ValueInfo { width, rows, kind });
        Value(self.0.values.len() as u32 - 1)
    }
    fn weight(&mut self, shape: &[usize]) -> WeightId {
        let id = self.0.weights.len();
        self.0.weights.push(WeightInfo { name: format!("w{id}"), shape: shape.to_vec(), ty: F32, bytes: 0 });
        WeightId(id as u32)
    }
    fn state(&mut self, state: State) -> StateId {
        self.0.states.push(state);
        StateId(self.0.states.len() as u32 - 1)
    }
    fn op(&mut self, op: impl Into<Op>) {
        self.0.ops.push(op.into());
        self.0.op_layers.push(None);
    }
    /// Ends the plan with the logits of `x`, and says what is wrong with it.
    fn fault(mut self, x: Value) -> String {
        let width = self.0.values[x.0 as usize].width;
        let selected = self.value_of(width, Rows::Outputs, Kind::Numbers);
        self.op(Select { x, out: selected });
        let (weight, out) = (self.weight(&[6, width]), self.value_of(6, Rows::Outputs, Kind::Numbers));
        self.op(Linear { x: selected, weight, bias: None, out });
        self.0.output = out;
        self.0.validate().err().map(|e| e.to_string()).unwrap_or_default()
    }
    /// The fault of a plan with one more op on the embedding, whose output is `width` wide.
    fn with<O: Into<Op>>(width: usize, make: impl FnOnce(&mut Self, Value) -> O) -> String {
        let mut b = Self::new();
        let out = b.value(width);
        let op = make(&mut b, out);
        b.op(op);
        b.fault(out)
    }
}

const X: Value = Value(0);

#[test]
fn valid() {
    assert_eq!(Build::new().fault(X), "");
}

/// Ops of one row: `(fault expected, fault found)`.
#[test]
fn row_ops() {
    let linear = |shape: &[usize], bias: &[usize]| {
        Build::with(4, |b, out| Linear { x: X, weight: b.weight(shape), bias: Some(b.weight(bias)), out })
    };
    let norm = |dim, shape: &[usize]| Build::with(8, |b, out| RmsNorm { x: X, weight: Some(b.weight(shape)), dim, eps: 0.0, out });
    let layer_norm = |dim, weight: &[usize], bias: &[usize]| {
        Build::with(8, |b, out| LayerNorm { x: X, weight: Some(b.weight(weight)), bias: Some(b.weight(bias)), dim, eps: 0.0, out })
    };
    let position = |offset, shape: &[usize]| {
        Build::with(8, |b, out| Embed { weight: b.weight(shape), by: Lookup::Position { offset }, scale: 1.0, out })
    };
    let first = |shape: &[usize]| Build::with(8, |b, out| Embed { weight: b.weight(shape), by: Lookup::TokenOrFirst, scale: 1.0, out });
    let sinusoid = |n: usize| Build::with(8, |_, out| Sinusoid { frequencies: vec![1.0; n], offset: 0, out });
    let rope = |head, pairs| {
        let rope = Rope::new(RopeStyle::Halves, vec![1.0; pairs]);
        Build::with(8, |_, out| ApplyRope { x: X, head, rope, shift: 0, out })
    };
    let axes = |axes: &[u8]| {
        let rope = Rope { axes: axes.to_vec(), ..Rope::new(RopeStyle::Halves, vec![1.0; 2]) };
        Build::with(8, |_, out| ApplyRope { x: X, head: 4, rope, shift: 0, out })
    };
    let slice = |groups, start, len| Build::with(groups * len, |_, out| Slice { x: X, groups, start, len, out });
    let blocks = |weight: &[usize], bias: &[usize]| {
        Build::with(8, |b, out| BlockLinear { x: X, weight: b.weight(weight), transposed: true, bias: Some(b.weight(bias)), out })
    };
    let sum = |groups, count, width| Build::with(width, |_, out| Sum { x: X, groups, count, out });
    let short = |length| Build::with(8, |b, out| WeightedBinary { x: X, weight: b.weight(&[length]), f: Binary::Mul, out });
    let concat = |groups, width| Build::with(width, |_, out| Concat { a: X, b: X, groups, out });
    let clamp = |n, low, high| Build::with(n, |_, out| Clamp { x: X, low, high, out });
    let transpose = |rows, columns, n| Build::with(n, |_, out| Transpose { x: X, rows, columns, out });
    let hadamard = |block, signs: Option<usize>, n| {
        let rotation = Rotation { block, signs: signs.map(|n| Signs::new(vec![-1.0; n]).unwrap()) };
        Build::with(n, |_, out| Hadamard { x: X, rotation, inverse: false, out })
    };
    let heads =
        |shape: &[usize], transposed| Build::with(4, |b, out| BlockLinear { x: X, weight: b.weight(shape), transposed, bias: None, out });
    let width = |n| Build::with(n, |_, out| Op::Elementwise(Elementwise { x: X, f: Function::Relu, out }));
    let cases = [
        ("", linear(&[4, 8], &[4])),
        ("`w1` has shape [4, 7], but the configuration asks for [4, 8]", linear(&[4, 7], &[4])),
        ("`w2` has shape [5]", linear(&[4, 8], &[5])),
        ("", norm(4, &[4])),
        ("3 does not divide 8", norm(3, &[3])),
        ("0 does not divide 8", norm(0, &[0])),
        ("`w1` has shape [8], but the configuration asks for [4]", norm(4, &[8])),
        ("", norm(4, &[2, 4])),
        ("`w1` has shape [3, 4], but the configuration asks for [2, 4]", norm(4, &[3, 4])),
        ("", blocks(&[2, 4, 4], &[2, 4])),
        ("0 does not divide 8", blocks(&[0, 4, 4], &[0, 4])),
        ("`w1` has shape [2, 4, 3], but the configuration asks for [2, 4, 4]", blocks(&[2, 4, 3], &[2, 4])),
        ("`w2` has shape [8], but the configuration asks for [2, 4]", blocks(&[2, 4, 4], &[8])),
        ("", sum(2, 4, 2)),
        ("9 does not divide 8", sum(3, 3, 2)),
        ("the output is 3 wide, but should be 2", sum(2, 4, 3)),
        ("", short(4)),
        ("3 does not divide 8", short(3)),
        ("", first(&[6, 8])),
        ("", first(&[4, 8])),
        ("asks for [6, 8]", first(&[7, 8])),
        ("asks for [1, 8]", first(&[0, 8])),
        ("", heads(&[2, 2, 4], false)),
        ("", heads(&[2, 4, 2], true)),
        ("asks for [2, 2, 4]", heads(&[2, 4, 2], false)),
        ("", concat(2, 16)),
        ("3 does not divide 8", concat(3, 16)),
        ("the output is 12 wide, but should be 16", concat(1, 12)),
        ("", layer_norm(4, &[4], &[4])),
        ("", layer_norm(4, &[2, 4], &[2, 4])),
        ("`w2` has shape [3, 4], but the configuration asks for [2, 4]", layer_norm(4, &[4], &[3, 4])),
        ("3 does not divide 8", layer_norm(3, &[3], &[3])),
        ("0 does not divide 8", layer_norm(0, &[0], &[0])),
        ("`w1` has shape [8], but the configuration asks for [4]", layer_norm(4, &[8], &[4])),
        ("`w2` has shape [8], but the configuration asks for [4]", layer_norm(4, &[4], &[8])),
        ("", position(2, &[18, 8])),
        ("", position(2, &[20, 8])),
        ("`w1` has shape [17, 8], but the configuration asks for [18, 8]", position(2, &[17, 8])),
        ("`w1` has shape [18, 7], but the configuration asks for [18, 8]", position(2, &[18, 7])),
        ("`w1` has shape [18], but the configuration asks for [18, 8]", position(2, &[18])),
        ("asks for [18446744073709551615, 8]", position(usize::MAX, &[18, 8])),
        ("", sinusoid(4)),
        ("the output is 8 wide, but should be 6", sinusoid(3)),
        ("", rope(4, 2)),
        ("", axes(&[1, 3])),
        ("the axes should be below 4, one for each of 2 pairs", axes(&[1, 4])),
        ("the axes should be below 4, one for each of 2 pairs", axes(&[1])),
        ("rotary dimension 6 is larger than the head, 4", rope(4, 3)),
        ("3 does not divide 8", rope(3, 1)),
        ("", slice(2, 1, 3)),
        ("1 + 4 is beyond a run of 4", slice(2, 1, 4)),
        ("is beyond a run", slice(1, usize::MAX, 1)),
        ("3 does not divide 8", slice(3, 0, 1)),
        ("", Build::with(8, |_, out| PositionScale { x: X, beta: 0.1, every: 4, shift: 0, out })),
        ("no token is as long", Build::with(8, |_, out| PositionScale { x: X, beta: 0.1, every: 0, shift: 0, out })),
        ("", clamp(8, -0.5, 0.5)),
        ("", clamp(8, 0.1, f32::INFINITY)),
        ("the bounds are 0.5 and -0.5", clamp(8, 0.5, -0.5)),
        ("the bounds are -1 and NaN", clamp(8, -1.0, f32::NAN)),
        ("the output is 4 wide, but should be 8", clamp(4, -0.5, 0.5)),
        ("", transpose(2, 4, 8)),
        ("6 does not divide 8", transpose(2, 3, 8)),
        ("0 does not divide 8", transpose(0, 3, 8)),
        ("does not divide 8", transpose(usize::MAX, 2, 8)),
        ("`transpose` making value 1: the output is 7 wide, but should be 8", transpose(2, 2, 7)),
        ("", hadamard(4, None, 8)),
        ("", hadamard(8, Some(8), 8)),
        ("blocks of 16 cannot turn 8 numbers", hadamard(16, None, 8)),
        ("blocks of 6 cannot turn 8 numbers", hadamard(6, None, 8)),
        ("blocks of 0 cannot turn 8 numbers", hadamard(0, None, 8)),
        ("with 4 signs cannot turn 8 numbers", hadamard(4, Some(4), 8)),
        ("`hadamard` making value 1: the output is 9 wide, but should be 8", hadamard(4, None, 9)),
        ("", width(8)),
        ("`relu` making value 1: the output is 7 wide, but should be 8", width(7)),
    ];
    hold(&cases);
}

#[test]
fn pairs() {
    let binary = |n| {
        Build::with(8, |b, out| {
            let (narrow, weight) = (b.value(n), b.weight(&[n, 8]));
            b.op(Linear { x: X, weight, bias: None, out: narrow });
            Pairwise { a: X, b: narrow, f: Binary::Mul, out }
        })
    };
    let glu = |n| {
        Build::with(8, |b, out| {
            let (up, weight) = (b.value(n), b.weight(&[n, 8]));
            b.op(Linear { x: X, weight, bias: None, out: up });
            Glu { gate: X, up, f: Function::Silu, out }
        })
    };
    hold(&[
        ("", binary(2)),
        ("", binary(8)),
        ("3 does not divide 8", binary(3)),
        ("16 does not divide 8", binary(16)),
        ("", glu(8)),
        ("up is 4 wide, but should be 8", glu(4)),
    ]);
}

#[test]
fn attention() {
    let good = Attention {
        q: X,
        kv: Some([X; 2]),
        state: StateId(0),
        heads: 2,
        kv_heads: 2,
        key: 4,
        value: 4,
        scale: 1.0,
        mask: Mask::Causal,
        groups: false,
        softcap: None,
        sinks: None,
        alibi: None,
        relative: None,
        out: X,
    };
    let with = |heads: usize, kv_heads: usize, key: usize, state: State, sinks: Option<&[usize]>| {
        Build::with(heads * 4, |b, out| {
            let (state, sinks) = (b.state(state), sinks.map(|s| b.weight(s)));
            Op::Attention(Attention { heads, kv_heads, key, state, sinks, out, ..good.clone() })
        })
    };
    let kv = |heads| State::Kv { heads, key: 4, value: 4, window: None };
    let again = |appended: bool| {
        Build::with(8, |b, out| {
            let state = b.state(kv(2));
            if appended {
                let out = b.value(8);
                b.op(Attention { state, out, ..good.clone() });
            }
            Attention { state, kv: None, out, ..good.clone() }
        })
    };
    let slopes = |n: usize| Build::with(8, |b, out| Attention { state: b.state(kv(2)), alibi: Some(vec![0.5; n]), out, ..good.clone() });
    hold(&[
        ("", with(2, 2, 4, kv(2), Some(&[2]))),
        ("", slopes(2)),
        ("there are 3 slopes for 2 heads", slopes(3)),
        ("0 does not divide 2", with(2, 0, 4, kv(2), None)),
        ("2 does not divide 3", with(3, 2, 4, kv(2), None)),
        ("q is 8 wide, but should be 16", with(4, 2, 4, kv(2), None)),
        ("k is 8 wide, but should be 4", with(2, 1, 4, kv(1), None)),
        ("q is 8 wide, but should be 6", with(2, 2, 3, kv(2), None)),
        ("the state is Kv", with(2, 2, 4, kv(1), None)),
        ("", again(true)),
        ("no op before it has appended keys and values", again(false)),
        ("the state is Fixed", with(2, 2, 4, State::Fixed { shape: vec![2, 4, 4] }, None)),
        ("`w1` has shape [3], but the configuration asks for [2]", with(2, 2, 4, kv(2), Some(&[3]))),
    ]);
}

/// Biases by distance: how many buckets, what they are made of, and that rows of other tokens are there.
#[test]
fn biases_by_distance() {
    let fault = |mask: Mask, buckets: &[u32], fixed: usize, of_key: Option<usize>| {
        Build::with(8, |b, out| {
            let of_key = of_key.map(|width| {
                let (weight, of_key) = (b.weight(&[width, 8]), b.value(width));
                b.op(Linear { x: X, weight, bias: None, out: of_key });
                of_key
            });
            let relative = Relative { buckets: buckets.to_vec(), count: 3, fixed: Some(vec![0.0; fixed]), of_query: None, of_key };
            let state = b.state(State::Kv { heads: 2, key: 4, value: 4, window: None });
            let (heads, key, scale) = (2, 4, 1.0);
            Attention {
                q: X,
                kv: Some([X; 2]),
                state,
                heads,
                kv_heads: heads,
                key,
                value: key,
                scale,
                mask,
                groups: false,
                softcap: None,
                sinks: None,
                alibi: None,
                relative: Some(relative),
                out,
            }
        })
    };
    hold(&[
        ("", fault(Mask::Causal, &[0, 1, 2], 6, None)),
        ("", fault(Mask::Full, &[0, 1, 2], 6, Some(6))),
        ("2 distances have buckets", fault(Mask::Causal, &[0, 1], 6, None)),
        ("odd and below 3", fault(Mask::Causal, &[0, 1, 3], 6, None)),
        ("there are 5 numbers for 3 buckets of 2 heads", fault(Mask::Causal, &[0, 1, 2], 5, None)),
        ("what positions add is 4 wide, but should be 6", fault(Mask::Full, &[0, 1, 2], 6, Some(4))),
        ("not all of a sequence is in a step", fault(Mask::Causal, &[0, 1, 2], 6, Some(6))),
    ]);
}

/// Attention over chosen positions.
#[test]
fn chosen_positions() {
    let kv = |heads, key, value| State::Kv { heads, key, value, window: None };
    let index = |width: usize, heads: usize, block: usize, state: State| {
        let mut b = Build::new();
        let (k, weight) = (b.value(4), b.weight(&[4, 8]));
        b.op(Linear { x: X, weight, bias: None, out: k });
        let (state, out) = (b.state(state), b.value_of(width, Rows::Tokens, Kind::Positions));
        b.op(Index { q: X, k, weights: None, state, heads, block, top: 3, out });
        b.fault(X)
    };
    let attention = |kind: Kind, state: State| {
        let mut b = Build::new();
        let (keys, only) = (b.state(kv(1, 0, 8)), b.value_of(3, Rows::Tokens, Kind::Positions));
        b.op(Index { q: X, k: X, weights: None, state: keys, heads: 1, block: 1, top: 3, out: only });
        let only = if kind == Kind::Positions { only } else { X };
        let (state, out) = (b.state(state), b.value(8));
        b.op(SparseAttention { q: X, k: X, v: X, only, state, heads: 2, kv_heads: 2, key: 4, value: 4, scale: 1.0, out });
        b.fault(out)
    };
    hold(&[
        ("", index(7, 2, 2, kv(1, 0, 4))),
        ("the choice is 6 wide, but should be 7", index(6, 2, 2, kv(1, 0, 4))),
        ("q is 8 wide, but should be 12", index(7, 3, 2, kv(1, 0, 4))),
        ("should be one at least", index(3, 2, 0, kv(1, 0, 4))),
        ("the state is Kv", index(7, 2, 2, kv(1, 4, 0))),
        ("", attention(Kind::Positions, kv(2, 4, 4))),
        ("holds Numbers, but Positions is needed", attention(Kind::Numbers, kv(2, 4, 4))),
        ("the state is Kv", attention(Kind::Positions, kv(1, 4, 4))),
    ]);
}

#[test]
fn ngrams() {
    let ngrams = |heads: Vec<NgramHead>, tokens: usize, state: usize| {
        Build::with(8, |b, out| {
            let (weight, state) = (b.weight(&[20, 4]), b.state(State::Fixed { shape: vec![state] }));
            NgramEmbed { weight, heads, multipliers: vec![1; tokens], boundary: 0, state, out }
        })
    };
    let head = |tokens, size, first| NgramHead { tokens, size, first };
    hold(&[
        ("", ngrams(vec![head(2, 7, 0), head(3, 13, 7)], 3, 2)),
        ("0 does not divide 8", ngrams(vec![], 3, 2)),
        ("has shape [20, 4], but the configuration asks for [20, 8]", ngrams(vec![head(2, 7, 0)], 3, 2)),
        ("two tokens at least", ngrams(vec![head(1, 7, 0), head(1, 13, 7)], 1, 0)),
        ("a head has 4 tokens, of 3", ngrams(vec![head(2, 7, 0), head(4, 13, 7)], 3, 2)),
        ("a head has rows 8 + 13, of 20", ngrams(vec![head(2, 7, 0), head(3, 13, 8)], 3, 2)),
        ("a head has rows 0 + 0, of 20", ngrams(vec![head(2, 0, 0), head(3, 13, 7)], 3, 2)),
        ("the state is Fixed", ngrams(vec![head(2, 7, 0), head(3, 13, 7)], 3, 3)),
    ]);
}

#[test]
fn recurrences() {
    let delta = |v_heads: usize, decay: usize, shape: &[usize]| {
        Build::with(8, |b, out| {
            let [gate, beta] = [decay, v_heads].map(|width| {
                let (out, weight) = (b.value(width), b.weight(&[width, 8]));
                b.op(Linear { x: X, weight, bias: None, out });
                out
            });
            let state = b.state(State::Fixed { shape: shape.to_vec() });
            Op::GatedDelta(GatedDelta {
                q: X,
                k: X,
                v: X,
                decay: gate,
                beta,
                state,
                k_heads: 2,
                v_heads,
                key: 4,
                value: 8 / v_heads,
                tiled: false,
                scale: 1.0,
                out,
            })
        })
    };
    let conv = |kernel, weight: &[usize], state: &[usize]| {
        Build::with(8, |b, out| {
            let (weight, state) = (b.weight(weight), b.state(State::Fixed { shape: state.to_vec() }));
            Op::CausalConv(CausalConv { x: X, taps: Taps::Weight(weight), bias: None, state, kernel, dilation: 1, f: None, out })
        })
    };
    let scan = |heads: usize, groups: usize, rate: &[usize], shape: &[usize]| {
        Build::with(8, |b, out| {
            let (step, weight) = (b.value(4), b.weight(&[4, 8]));
            b.op(Linear { x: X, weight, bias: None, out: step });
            let (rate, skip, state) = (b.weight(rate), b.weight(&[4]), b.state(State::Fixed { shape: shape.to_vec() }));
            let (head, size) = (8 / heads, 8 / groups);
            SelectiveScan { x: X, step, b: X, c: X, rate, skip: Some(skip), state, heads, groups, head, size, out }
        })
    };
    let lru = |shape: &[usize]| {
        Build::with(8, |b, out| {
            let state = b.state(State::Fixed { shape: shape.to_vec() });
            RgLru { x: X, decay: X, state, out }
        })
    };
    let wkv = |first: &[usize], shape: &[usize]| {
        Build::with(8, |b, out| {
            let (decay, first, state) = (b.weight(&[8]), b.weight(first), b.state(State::Fixed { shape: shape.to_vec() }));
            Wkv { k: X, v: X, decay, first, state, out }
        })
    };
    let lightning = |block: usize, inner: &[usize], state: &[usize]| {
        Build::with(8, |b, out| {
            let (rate, queries, keys, inner) = (b.weight(&[2]), b.weight(&[2, block]), b.weight(&[2, block]), b.weight(inner));
            let state = b.state(State::Fixed { shape: state.to_vec() });
            Lightning { q: X, k: X, v: X, rate, queries, keys, inner, state, heads: 2, dim: 4, block, out }
        })
    };
    hold(&[
        ("", lightning(3, &[2, 3, 3], &[2, 10, 4])),
        ("its blocks have no tokens", lightning(0, &[2, 0, 0], &[2, 4, 4])),
        ("`w4` has shape [2, 3], but the configuration asks for [2, 3, 3]", lightning(3, &[2, 3], &[2, 10, 4])),
        ("the state is Fixed", lightning(3, &[2, 3, 3], &[2, 4, 4])),
        ("", scan(4, 2, &[4], &[4, 4, 2])),
        ("", scan(4, 1, &[4, 8], &[4, 8, 2])),
        ("2 does not divide 1", scan(1, 2, &[1], &[1, 4, 8])),
        ("the step is 4 wide, but should be 8", scan(8, 2, &[8], &[8, 4, 1])),
        ("`w2` has shape [4, 3], but the configuration asks for [4, 4]", scan(4, 2, &[4, 3], &[4, 4, 2])),
        ("`w2` has shape [3], but the configuration asks for [4]", scan(4, 2, &[3], &[4, 4, 2])),
        ("the state is Fixed", scan(4, 2, &[4], &[4, 2, 4])),
        ("", lru(&[8])),
        ("the state is Fixed", lru(&[1, 8])),
        ("", wkv(&[8], &[3, 8])),
        ("`w2` has shape [7]", wkv(&[7], &[3, 8])),
        ("the state is Fixed", wkv(&[8], &[8])),
        ("", delta(4, 16, &[4, 4, 2])),
        ("", delta(4, 4, &[4, 4, 2])),
        ("2 does not divide 1", delta(1, 1, &[1, 4, 8])),
        ("decay is 2 wide, but should be 16", delta(4, 2, &[4, 4, 2])),
        ("the state is Fixed", delta(4, 4, &[4, 2, 4])),
        ("", conv(3, &[8, 3], &[2, 8])),
        ("a kernel of 1 has no past", conv(1, &[8, 1], &[0, 8])),
        ("`w1` has shape [8, 4]", conv(3, &[8, 4], &[2, 8])),
        ("the state is Fixed", conv(3, &[8, 3], &[3, 8])),
    ]);
}

fn experts(route: Value, [gate, up, down]: [WeightId; 3], out: Value) -> Experts {
    let gating = Function::Silu.into();
    Experts { x: X, route, gate, up, down, biases: None, gating, weigh: Weigh::Output, identities: 0, rotation: None, out }
}

#[test]
fn mixtures() {
    let mixture = |top_k: usize, kind: Kind, up: &[usize], down: &[usize]| {
        Build::with(8, |b, out| {
            let (logits, weight) = (b.value(4), b.weight(&[4, 8]));
            b.op(Linear { x: X, weight, bias: None, out: logits });
            let route = b.value_of(top_k, Rows::Tokens, kind);
            b.op(Op::Route(Route { logits, out: route, ..Route::new(top_k, Score::Softmax) }));
            let (gate, up, down) = (b.weight(up), b.weight(up), b.weight(down));
            Op::Experts(experts(route, [gate, up, down], out))
        })
    };
    let grouped = |count, chosen, best| {
        Build::with(8, |b, out| {
            let route = b.value_of(2, Rows::Tokens, Kind::Route);
            let groups = Some(Groups { count, chosen, best });
            b.op(Op::Route(Route { logits: X, out: route, groups, ..Route::new(2, Score::Softmax) }));
            Scale { x: X, by: 1.0, out }
        })
    };
    let varied = |vary: &dyn Fn(&mut Build, &mut Experts)| {
        Build::with(8, |b, out| {
            let (logits, weight) = (b.value(4), b.weight(&[4, 8]));
            b.op(Linear { x: X, weight, bias: None, out: logits });
            let route = b.value_of(2, Rows::Tokens, Kind::Route);
            b.op(Op::Route(Route { logits, out: route, ..Route::new(2, Score::Softmax) }));
            let weights = [&[4, 5, 8], &[4, 5, 8], &[4, 8, 5]].map(|shape| b.weight(shape));
            let mut op = experts(route, weights, out);
            vary(b, &mut op);
            Op::Experts(op)
        })
    };
    hold(&[
        ("", grouped(4, 2, 2)),
        ("groups of experts: 3 does not divide 8", grouped(3, 1, 1)),
        ("of 0 out of 4 groups", grouped(4, 0, 1)),
        ("of 5 out of 4 groups", grouped(4, 5, 1)),
        ("by the 3 best of each", grouped(4, 2, 3)),
        ("2 experts of 1 out of 8 groups of 1", grouped(8, 1, 1)),
        ("", varied(&|b, e| e.biases = Some([[4, 5], [4, 5], [4, 8]].map(|shape| b.weight(&shape))))),
        ("asks for [4, 8]", varied(&|b, e| e.biases = Some([[4, 5], [4, 5], [4, 5]].map(|shape| b.weight(&shape))))),
        ("the limit should be positive", varied(&|_, e| e.gating.limit = Some(0.0))),
        ("among 4 experts, but the weights are of 4 and 1 have none", varied(&|_, e| e.identities = 1)),
    ]);
    let (up, down): (&[usize], &[usize]) = (&[4, 5, 8], &[4, 8, 5]);
    hold(&[
        ("", mixture(2, Kind::Route, up, down)),
        ("0 of 4 experts cannot be chosen", mixture(0, Kind::Route, up, down)),
        ("5 of 4 experts cannot be chosen", mixture(5, Kind::Route, up, down)),
        ("the output holds Numbers, but Route is made", mixture(2, Kind::Numbers, up, down)),
        ("should have three dimensions", mixture(2, Kind::Route, &[20, 8], down)),
        ("asks for [4, 8, 5]", mixture(2, Kind::Route, up, &[4, 8, 4])),
        ("asks for [4, 5, 8]", mixture(2, Kind::Route, &[4, 5, 7], down)),
    ]);
}

#[test]
fn products_of_chosen_experts() {
    let product = |x: usize, shape: &[usize], width: usize| {
        Build::with(width, |b, out| {
            let (logits, weight) = (b.value(4), b.weight(&[4, 8]));
            b.op(Linear { x: X, weight, bias: None, out: logits });
            let route = b.value_of(2, Rows::Tokens, Kind::Route);
            b.op(Op::Route(Route { logits, out: route, ..Route::new(2, Score::Softmax) }));
            let (from, weight) = (b.value(x), b.weight(&[x, 8]));
            b.op(Linear { x: X, weight, bias: None, out: from });
            let weight = b.weight(shape);
            ChosenLinear { x: from, route, weight, weighted: true, out }
        })
    };
    hold(&[
        ("", product(7, &[4, 5, 7], 10)),
        ("", product(14, &[4, 5, 7], 10)),
        ("x is 13 wide, but should be 14", product(13, &[4, 5, 7], 10)),
        ("the output is 9 wide, but should be 10", product(7, &[4, 5, 7], 9)),
        ("should have three dimensions", product(7, &[20, 7], 10)),
        ("among 4 experts, but there are matrices of 3", product(7, &[3, 5, 7], 10)),
    ]);
}

/// The weights of experts must be those of the experts that the router chooses among.
#[test]
fn mixture_of_other_experts() {
    let fault = Build::with(8, |b, out| {
        let (logits, weight) = (b.value(4), b.weight(&[4, 8]));
        b.op(Linear { x: X, weight, bias: None, out: logits });
        let route = b.value_of(2, Rows::Tokens, Kind::Route);
        b.op(Op::Route(Route { logits, out: route, ..Route::new(2, Score::Softmax) }));
        let (up, down) = (b.weight(&[3, 5, 8]), b.weight(&[3, 8, 5]));
        Op::Experts(experts(route, [up, up, down], out))
    });
    hold(&[("chooses among 4 experts, but the weights are of 3", fault)]);
}

#[test]
fn order_and_rows() {
    // A value that is made later.
    let mut b = Build::new();
    let (first, second) = (b.value(8), b.value(8));
    b.op(Scale { x: second, by: 2.0, out: first });
    b.op(Scale { x: X, by: 2.0, out: second });
    hold(&[("value 2 does not exist yet", b.fault(first))]);

    // A choice of experts is no numbers.
    let mut b = Build::new();
    let (chosen, doubled) = (b.value_of(8, Rows::Tokens, Kind::Route), b.value(8));
    b.op(Op::Route(Route { logits: X, out: chosen, ..Route::new(8, Score::Softmax) }));
    b.op(Scale { x: chosen, by: 2.0, out: doubled });
    hold(&[("value 1 holds Route, but Numbers is needed", b.fault(doubled))]);

    // A value is made once.
    let mut b = Build::new();
    b.op(Scale { x: X, by: 2.0, out: X });
    hold(&[("it is made already", b.fault(X))]);

    let mut b = Build::new();
    let selected = b.value_of(8, Rows::Outputs, Kind::Numbers);
    b.op(Select { x: X, out: selected });
    let mixed = b.value(8);
    b.op(Pairwise { a: X, b: selected, f: Binary::Add, out: mixed });
    hold(&[("rows of all tokens and rows of outputs are mixed", b.fault(mixed))]);

    // A state sees every token.
    let mut b = Build::new();
    let selected = b.value_of(8, Rows::Outputs, Kind::Numbers);
    b.op(Select { x: X, out: selected });
    let out = b.value_of(8, Rows::Outputs, Kind::Numbers);
    let (weight, state) = (b.weight(&[8, 2]), b.state(State::Fixed { shape: vec![1, 8] }));
    b.op(CausalConv { x: selected, taps: Taps::Weight(weight), bias: None, state, kernel: 2, dilation: 1, f: None, out });
    b.0.output = out;
    assert!(b.0.validate().is_err_and(|e| e.to_string().contains("mixed")));

    // Not the logits.
    let mut b = Build::new();
    assert!(b.0.validate().is_err_and(|e| e.to_string().contains("does not end in logits")));
    let later = b.value_of(6, Rows::Outputs, Kind::Numbers);
    b.0.output = later;
    assert!(b.0.validate().is_err_and(|e| e.to_string().contains("does not end in logits")));
}

fn cache(b: &mut Build) -> StateId {
    b.state(State::Kv { heads: 2, key: 4, value: 4, window: None })
}

/// An encoder of one op, and a decoder of one that attends to what it left; `change` makes it wrong.
fn seq2seq(change: impl FnOnce(&mut Build, &mut Remember, &mut Attention)) -> String {
    let mut b = Build::new();
    b.0.answering = Some(Answering { start: vec![1], never: vec![2] });
    let state = cache(&mut b);
    let nothing = b.value(0);
    let mut remember = Remember { k: X, v: X, state, out: nothing };
    let (weight, q) = (b.weight(&[6, 8]), b.value(8));
    let out = b.value(8);
    let mut attention = Attention {
        q,
        kv: None,
        state,
        heads: 2,
        kv_heads: 2,
        key: 4,
        value: 4,
        scale: 1.0,
        mask: Mask::Source,
        groups: false,
        softcap: None,
        sinks: None,
        alibi: None,
        relative: None,
        out,
    };
    change(&mut b, &mut remember, &mut attention);
    b.op(remember);
    b.op(Embed { weight, by: Lookup::Token, scale: 1.0, out: q });
    b.op(Op::Attention(attention));
    b.fault(out)
}

#[test]
fn encoders_and_decoders() {
    hold(&[
        ("", seq2seq(|_, _, _| {})),
        ("an encoder needs a decoder with tokens to begin with", seq2seq(|b, _, _| b.0.answering = None)),
        (
            "an encoder needs a decoder with tokens to begin with",
            seq2seq(|b, _, _| b.0.answering = Some(Answering { start: vec![], never: vec![] })),
        ),
        ("token 6 is not in the vocabulary of 6", seq2seq(|b, _, _| b.0.answering = Some(Answering { start: vec![6], never: vec![] }))),
        ("token 7 is not in the vocabulary of 6", seq2seq(|b, _, _| b.0.answering = Some(Answering { start: vec![1], never: vec![7] }))),
        ("value 0 does not exist yet", seq2seq(|_, _, a| a.q = X)),
        ("keys and values of the source come from the encoder", seq2seq(|b, _, a| (a.kv, a.state) = (Some([a.q; 2]), cache(b)))),
        ("used by another op than attention to the source", seq2seq(|_, _, a| a.mask = Mask::Causal)),
        ("used by another op than attention to the source", seq2seq(|_, _, a| a.kv = Some([a.q; 2]))),
        ("the output is 8 wide, but should be 0", seq2seq(|b, r, _| r.out = b.value(8))),
        ("k is 8 wide, but should be 12", seq2seq(|b, r, _| r.state = b.state(State::Kv { heads: 3, key: 4, value: 4, window: None }))),
        ("the state is Fixed", seq2seq(|b, r, _| r.state = b.state(State::Fixed { shape: vec![8] }))),
        ("no op before it has appended keys and values", seq2seq(|b, _, a| a.state = cache(b))),
    ]);
    // A decoder has nobody who leaves keys and values of a source.
    let mut b = Build::new();
    b.0.answering = Some(Answering { start: vec![1], never: vec![] });
    assert!(b.fault(X).contains("an encoder needs a decoder"));
}

fn hold(cases: &[(&str, String)]) {
    for (expected, found) in cases {
        assert!(if expected.is_empty() { found.is_empty() } else { found.contains(expected) }, "expected `{expected}`, found `{found}`");
    }
}
