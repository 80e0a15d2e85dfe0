//! The device: decoded weights, caches held as the batch describes them, and the walk over the plan.

use crate::ops::{self, Choice, Past};
use onebit_plan::{
    AXES, Batch, BatchForm, Binary, Device, DeviceError, Executable, InputSums, KvType, Limits, Mask, Memory, Model, Op, Plan, Progress,
    Rows, State, StateId, Value, WeightId,
};
use std::{collections::BTreeMap, ops::Range};

/// The reference device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Device for Reference {
    fn name(&self) -> &str {
        "reference"
    }

    fn memory(&self, model: &Model, limits: &Limits) -> Memory {
        let plan = &model.plan;
        let f32s = |n: usize| n * size_of::<f32>();
        Memory {
            weights: f32s(plan.weights.iter().map(|w| w.shape.iter().product::<usize>()).sum()),
            kv: f32s(plan.kv_per_token() * limits.page * limits.pages),
            slots: f32s(plan.fixed_state() * limits.slots),
            scratch: f32s(plan.values.iter().map(|v| v.width).sum::<usize>() * limits.batch),
        }
    }

    fn load(&self, model: Model, limits: &Limits, progress: &mut dyn FnMut(Progress)) -> Result<Box<dyn Executable>, DeviceError> {
        let total = model.plan.weight_bytes();
        let mut done = 0;
        let mut weights = Vec::with_capacity(model.weights.len());
        for weight in &model.weights {
            weights.push(weight.to_f32());
            weight.release();
            done += weight.bytes();
            progress(Progress { done, total });
        }
        Ok(Box::new(Interpreter::new(model.plan, weights, limits.clone())))
    }
}

/// A plan with decoded weights and caches.
#[derive(Debug)]
pub struct Interpreter {
    plan: Plan,
    weights: Vec<Vec<f32>>,
    limits: Limits,
    /// By state, `[pages, page, heads * (key + value)]`; empty for fixed states.
    kv: Vec<Vec<f32>>,
    /// By slot and state; empty for caches of keys and values.
    slots: Vec<Vec<Vec<f32>>>,
    form: BatchForm,
    /// Index of the last op that reads a value.
    last_use: Vec<usize>,
    /// What each matrix was multiplied with.
    seen: BTreeMap<WeightId, InputSums>,
    logits: Vec<f32>,
}

/// What a value holds while it is needed, a vector for each row.
#[derive(Clone, Debug)]
enum Held {
    Nothing,
    Numbers(Vec<Vec<f32>>),
    Choices(Vec<Vec<Choice>>),
}

/// A row of the batch.
#[derive(Clone, Copy)]
struct Row<'a> {
    /// Its number in the batch.
    index: usize,
    token: u32,
    position: usize,
    /// Tokens of its sequence, those of the step among them.
    end: usize,
    /// Tokens of the source that its sequence answers to.
    source: usize,
    axes: [i64; AXES],
    pages: &'a [u32],
    slot: usize,
}

impl Interpreter {
    fn new(plan: Plan, weights: Vec<Vec<f32>>, limits: Limits) -> Self {
        let mut last_use = vec![0; plan.values.len()];
        for (i, op) in plan.ops.iter().enumerate() {
            op.inputs().iter().for_each(|v| last_use[v.0 as usize] = i);
        }
        last_use[plan.output.0 as usize] = usize::MAX;
        let tokens = limits.page * limits.pages;
        let kv = plan.states.iter().map(|s| vec![0.0; kv_width(s) * tokens]).collect();
        let fixed = |s: &State| if let State::Fixed { shape } = s { vec![0.0; shape.iter().product()] } else { vec![] };
        let slots = vec![plan.states.iter().map(fixed).collect(); limits.slots];
        let form = plan.batch_form();
        Self { plan, weights, limits, kv, slots, form, last_use, seen: BTreeMap::new(), logits: vec![] }
    }

    fn weight(&self, w: WeightId) -> &[f32] {
        &self.weights[w.0 as usize]
    }

    fn optional(&self, w: Option<WeightId>) -> Option<&[f32]> {
        w.map(|w| self.weight(w))
    }

    /// Where position `position` of a sequence lies in the cache `state`.
    fn place(&self, state: StateId, row: &Row<'_>, position: usize) -> Range<usize> {
        let width = kv_width(self.plan.state(state));
        let page = row.pages[position / self.limits.page] as usize;
        let token = page * self.limits.page + position % self.limits.page;
        token * width..(token + 1) * width
    }

    /// Appends a row's key and value to the cache, rounded as the limits ask.
    fn append(&mut self, state: StateId, row: &Row<'_>, k: &[f32], v: &[f32]) {
        let place = self.place(state, row, row.position);
        let new = &mut self.kv[state.0 as usize][place];
        let (new_k, new_v) = new.split_at_mut(k.len());
        let &State::Kv { heads, .. } = self.plan.state(state) else { return };
        for (new, numbers) in [(new_k, k), (new_v, v)] {
            new.copy_from_slice(numbers);
            if let each @ 1.. = numbers.len() / heads {
                new.chunks_exact_mut(each).for_each(|of_head| store(self.limits.kv, of_head));
            }
        }
    }

    /// Adds a row that a weight, or its expert `expert`, is multiplied with.
    fn see(&mut self, weight: WeightId, expert: usize, x: &[f32]) {
        let info = self.plan.weight(weight);
        let experts = if info.shape.len() > 2 { info.shape[0] } else { 1 };
        let new = || InputSums { weight, squares: vec![0.0; experts * x.len()], counts: vec![0; experts] };
        let sums = self.seen.entry(weight).or_insert_with(new);
        sums.counts[expert] += 1;
        let squares = &mut sums.squares[expert * x.len()..][..x.len()];
        squares.iter_mut().zip(x).for_each(|(s, x)| *s += f64::from(*x) * f64::from(*x));
    }

    /// Takes a fixed state out of its slot, while weights are read beside it.
    fn take(&mut self, state: StateId, row: &Row<'_>) -> Vec<f32> {
        std::mem::take(&mut self.slots[row.slot][state.0 as usize])
    }

    /// Puts it back.
    fn put(&mut self, state: StateId, row: &Row<'_>, numbers: Vec<f32>) {
        self.slots[row.slot][state.0 as usize] = numbers;
    }

    /// Runs a part of the ops on a batch that was checked.
    fn walk(&mut self, part: Range<usize>, batch: &Batch<'_>) -> Vec<Held> {
        let mut rows = Vec::with_capacity(batch.tokens.len());
        for (number, span) in batch.spans.iter().enumerate() {
            if span.start == 0 {
                self.slots[span.slot as usize].iter_mut().for_each(|s| s.fill(0.0));
            }
            for i in 0..span.len {
                let (index, position) = (rows.len(), span.start + i);
                let axes = batch.inputs.axes.get(index).map_or([position as i64; AXES], |axes| axes.map(i64::from));
                rows.push(Row {
                    index,
                    token: batch.tokens[index],
                    position,
                    end: span.start + span.len,
                    source: batch.inputs.source(number),
                    axes,
                    pages: span.pages,
                    slot: span.slot as usize,
                });
            }
        }
        let mut held = vec![Held::Nothing; self.plan.values.len()];
        let ops = std::mem::take(&mut self.plan.ops);
        for (i, op) in ops.iter().enumerate().take(part.end).skip(part.start) {
            held[op.output().0 as usize] = self.run(op, &held, &rows, batch);
            for v in op.inputs() {
                if self.last_use[v.0 as usize] == i {
                    held[v.0 as usize] = Held::Nothing;
                }
            }
        }
        self.plan.ops = ops;
        held
    }

    /// The rows of an op's output.
    fn run(&mut self, op: &Op, held: &[Held], rows: &[Row<'_>], batch: &Batch<'_>) -> Held {
        let of = |v: Value| match &held[v.0 as usize] {
            Held::Numbers(rows) => &rows[..],
            _ => unreachable!("the plan was validated: value {} holds numbers", v.0),
        };
        let choices = |v: Value| match &held[v.0 as usize] {
            Held::Choices(rows) => &rows[..],
            _ => unreachable!("the plan was validated: value {} holds a choice", v.0),
        };
        let each = |x: Value, f: &dyn Fn(&[f32]) -> Vec<f32>| of(x).iter().map(|x| f(x)).collect::<Vec<_>>();
        let both =
            |a: Value, b: Value, f: &dyn Fn(&[f32], &[f32]) -> Vec<f32>| of(a).iter().zip(of(b)).map(|(a, b)| f(a, b)).collect::<Vec<_>>();
        Held::Numbers(match op {
            Op::Embed(e) => {
                let width = self.plan.value(e.out).width;
                let table = self.weight(e.weight);
                let row = |r: &Row<'_>| e.by.row(r.token, r.position, table.len() / width);
                let look_up = |r: &Row<'_>| table[row(r) * width..][..width].iter().map(|x| x * e.scale).collect();
                rows.iter().map(look_up).collect()
            }
            Op::Linear(l) => {
                of(l.x).iter().for_each(|x| self.see(l.weight, 0, x));
                each(l.x, &|x| ops::linear(self.weight(l.weight), self.optional(l.bias), x))
            }
            Op::RmsNorm(n) => each(n.x, &|x| ops::rms_norm(x, self.optional(n.weight), n.dim, n.eps)),
            Op::LayerNorm(n) => each(n.x, &|x| ops::layer_norm(x, self.optional(n.weight), self.optional(n.bias), n.dim, n.eps)),
            Op::L2Norm(n) => each(n.x, &|x| ops::l2_norm(x, n.dim, n.eps)),
            Op::ApplyRope(a) => {
                of(a.x).iter().zip(rows).map(|(x, r)| ops::rope(x, a.head, &a.rope, r.axes.map(|p| p + i64::from(a.shift)))).collect()
            }
            Op::Attention(a) => {
                let mut out = vec![];
                if let Some([k, v]) = a.kv {
                    rows.iter().enumerate().for_each(|(i, row)| self.append(a.state, row, &of(k)[i], &of(v)[i]));
                }
                for (i, row) in rows.iter().enumerate() {
                    let past = Cache { of: self, row, state: a.state, keys: a.kv_heads * a.key };
                    let group = if a.groups { batch.inputs.group(i) } else { None };
                    let end = if a.mask == Mask::Source { row.source } else { row.end };
                    let seen = a.mask.seen_with(row.position, end, group);
                    let of_row = |v: Option<Value>, i: usize| v.map(|v| &of(v)[i][..]);
                    let apart = |h: usize, t: usize| {
                        a.relative.as_ref().map_or(0.0, |r| {
                            // Where it is read, all of the sequence is in the step.
                            let key = r.of_key.map_or(0, |_| i + t - row.position);
                            ops::relative(r, h, (row.position, t), of_row(r.of_query, i), of_row(r.of_key, key))
                        })
                    };
                    out.push(ops::attention(a, &of(a.q)[i], &past, self.optional(a.sinks), row.position, seen, &apart));
                }
                out
            }
            Op::GatedDelta(d) => {
                let mut out = vec![];
                for (i, row) in rows.iter().enumerate() {
                    let x = ops::Delta { q: &of(d.q)[i], k: &of(d.k)[i], v: &of(d.v)[i], decay: &of(d.decay)[i], beta: &of(d.beta)[i] };
                    out.push(ops::gated_delta(d, &x, &mut self.slots[row.slot][d.state.0 as usize]));
                }
                out
            }
            Op::LinearAttention(l) => {
                let mut out = vec![];
                for (i, row) in rows.iter().enumerate() {
                    let swap = l.swap.map(|pair| pair.map(|v| &of(v)[i][..]));
                    let x = ops::Linear { q: &of(l.q)[i], k: &of(l.k)[i], v: &of(l.v)[i], decay: &of(l.decay)[i], swap };
                    out.push(ops::linear_attention(l, &x, &mut self.slots[row.slot][l.state.0 as usize]));
                }
                out
            }
            Op::CausalConv(c) => {
                let mut out = vec![];
                for (x, row) in of(c.x).iter().zip(rows) {
                    let mut state = self.take(c.state, row);
                    out.push(ops::causal_conv(c, x, self.optional(c.weight()), self.optional(c.bias), &mut state));
                    self.put(c.state, row, state);
                }
                out
            }
            Op::SelectiveScan(s) => {
                let mut out = vec![];
                for (i, row) in rows.iter().enumerate() {
                    let x = ops::Step { x: &of(s.x)[i], step: &of(s.step)[i], b: &of(s.b)[i], c: &of(s.c)[i] };
                    let mut state = self.take(s.state, row);
                    out.push(ops::selective_scan(s, &x, self.weight(s.rate), self.optional(s.skip), &mut state));
                    self.put(s.state, row, state);
                }
                out
            }
            Op::Lightning(l) => {
                let mut out = vec![];
                for (i, row) in rows.iter().enumerate() {
                    let mut state = self.take(l.state, row);
                    let tables = [l.rate, l.queries, l.keys, l.inner].map(|w| self.weight(w));
                    out.push(ops::lightning(l, [&of(l.q)[i], &of(l.k)[i], &of(l.v)[i]], tables, row.position, &mut state));
                    self.put(l.state, row, state);
                }
                out
            }
            Op::RgLru(l) => {
                let mut out = vec![];
                for (i, row) in rows.iter().enumerate() {
                    out.push(ops::rg_lru(&of(l.x)[i], &of(l.decay)[i], row.position == 0, &mut self.slots[row.slot][l.state.0 as usize]));
                }
                out
            }
            Op::Wkv(w) => {
                let mut out = vec![];
                for (i, row) in rows.iter().enumerate() {
                    let mut state = self.take(w.state, row);
                    out.push(ops::wkv(&of(w.k)[i], &of(w.v)[i], self.weight(w.decay), self.weight(w.first), &mut state));
                    self.put(w.state, row, state);
                }
                out
            }
            Op::BlockLinear(l) => {
                let runs = self.plan.weight(l.weight).shape[0];
                each(l.x, &|x| ops::block_linear(self.weight(l.weight), self.optional(l.bias), runs, l.transposed, x))
            }
            Op::ChosenLinear(l) => {
                let &[count, _, from] = &self.plan.weight(l.weight).shape[..] else { unreachable!("the plan was validated") };
                let one =
                    |(x, chosen): (&Vec<f32>, &Vec<Choice>)| ops::chosen_linear(self.weight(l.weight), from, count, l.weighted, x, chosen);
                let out = of(l.x).iter().zip(choices(l.route)).map(one).collect();
                for (x, chosen) in of(l.x).iter().zip(choices(l.route)) {
                    for (c, (expert, _)) in chosen.iter().enumerate() {
                        self.see(l.weight, *expert, if x.len() == from { x } else { &x[c * from..(c + 1) * from] });
                    }
                }
                out
            }
            Op::Sum(s) => each(s.x, &|x| ops::sum(x, s.groups, s.count)),
            Op::NgramEmbed(e) => {
                let width = self.plan.value(e.out).width / e.heads.len();
                let mut out = vec![];
                for row in rows {
                    let before = &mut self.slots[row.slot][e.state.0 as usize];
                    let tokens = e.tokens(row.token, |i| (before[i - 1] as u32).checked_sub(1));
                    before.rotate_right(1);
                    before[0] = (row.token + 1) as f32;
                    let of = |head: usize| &self.weight(e.weight)[e.row(head, &tokens) * width..][..width];
                    out.push((0..e.heads.len()).flat_map(of).copied().collect());
                }
                out
            }
            Op::Index(x) => {
                let mut out = vec![];
                for (i, row) in rows.iter().enumerate() {
                    self.append(x.state, row, &[], &of(x.k)[i]);
                    let past = Cache { of: self, row, state: x.state, keys: 0 };
                    out.push(ops::index(x, &of(x.q)[i], x.weights.map(|w| &of(w)[i][..]), |t| past.value(t), row.position));
                }
                out
            }
            Op::SparseAttention(a) => {
                let mut out = vec![];
                for (i, row) in rows.iter().enumerate() {
                    self.append(a.state, row, &of(a.k)[i], &of(a.v)[i]);
                    let past = Cache { of: self, row, state: a.state, keys: a.kv_heads * a.key };
                    out.push(ops::sparse_attention(a, &of(a.q)[i], &past, &of(a.only)[i]));
                }
                out
            }
            Op::Concat(c) => both(c.a, c.b, &|a, b| ops::concat(a, b, c.groups)),
            Op::Elementwise(e) => each(e.x, &|x| x.iter().map(|x| e.f.apply(*x)).collect()),
            Op::Pairwise(p) => both(p.a, p.b, &|a, b| ops::binary(p.f, a, b)),
            Op::WeightedBinary(w) => each(w.x, &|x| ops::binary(w.f, x, self.weight(w.weight))),
            Op::Scale(s) => each(s.x, &|x| x.iter().map(|x| s.by * x).collect()),
            Op::RoundRows(r) => each(r.x, &ops::round_row),
            Op::PositionScale(s) => of(s.x).iter().zip(rows).map(|(x, r)| ops::position_scale(x, s, r.position)).collect(),
            Op::Xielu(f) => each(f.x, &|x| ops::xielu(x, f)),
            Op::Clamp(c) => each(c.x, &|x| ops::clamp(x, c.low, c.high)),
            Op::Given(g) => {
                let (all, width) = (self.form.given, self.plan.value(g.out).width);
                let given = |r: &Row<'_>| batch.inputs.row(r.index, all).map(|row| row[g.start..g.start + width].to_vec());
                let one = |r: &Row<'_>| match (given(r), g.x.map(|x| of(x)[r.index].clone())) {
                    (Some(given), Some(x)) if g.add => ops::binary(Binary::Add, &x, &given),
                    (Some(row), _) | (None, Some(row)) => row,
                    (None, None) => unreachable!("the batch was checked: every token is given a row"),
                };
                rows.iter().map(one).collect()
            }
            Op::Glu(g) => both(g.gate, g.up, &|gate, up| ops::glu(gate, up, g.f)),
            Op::Slice(s) => each(s.x, &|x| ops::slice(x, s.groups, s.start, s.len)),
            Op::Transpose(t) => each(t.x, &|x| ops::transpose(x, t.rows, t.columns)),
            Op::Hadamard(h) => each(h.x, &|x| ops::hadamard(x, &h.rotation, h.inverse)),
            Op::Route(r) => {
                let (bias, factors) = (self.optional(r.bias), self.optional(r.factors));
                return Held::Choices(of(r.logits).iter().map(|l| ops::route(r, l, bias, factors)).collect());
            }
            Op::Experts(e) => {
                let weights = [self.weight(e.gate), self.weight(e.up), self.weight(e.down)];
                let biases = e.biases.map(|b| b.map(|b| self.weight(b)));
                let count = self.plan.weight(e.up).shape[0];
                let (mut out, mut inner) = (vec![], vec![]);
                for (x, chosen) in of(e.x).iter().zip(choices(e.route)) {
                    out.push(ops::experts(e, x, chosen, weights, biases, count, &mut |expert, h| inner.push((expert, h.to_vec()))));
                }
                for (x, chosen) in of(e.x).iter().zip(choices(e.route)) {
                    for (expert, weight) in chosen.iter().filter(|(expert, _)| *expert < count) {
                        let x = ops::given(e, x, *weight);
                        [e.gate, e.up].into_iter().for_each(|w| self.see(w, *expert, &x));
                    }
                }
                inner.iter().for_each(|(expert, h)| self.see(e.down, *expert, h));
                out
            }
            Op::Remember(r) => {
                rows.iter().enumerate().for_each(|(i, row)| self.append(r.state, row, &of(r.k)[i], &of(r.v)[i]));
                vec![vec![]; rows.len()]
            }
            Op::Sinusoid(s) => rows.iter().map(|r| ops::sinusoid(&s.frequencies, r.position + s.offset)).collect(),
            Op::Select(s) => {
                let mut out = vec![];
                let mut end = 0;
                for span in batch.spans {
                    end += span.len;
                    out.extend_from_slice(&of(s.x)[end - span.outputs..end]);
                }
                out
            }
        })
    }
}

/// Rounds a key or value of one head to what a cache of type `kv` gives back.
fn store(kv: KvType, numbers: &mut [f32]) {
    let round: &dyn Fn(f32) -> f32 = match kv {
        KvType::F32 => return,
        KvType::F16 => &|x| half::f16::from_f32(x).to_f32(),
        KvType::Bf16 => &|x| half::bf16::from_f32(x).to_f32(),
        KvType::Q8 => {
            let largest = numbers.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
            let (factor, scale) = if largest > 0.0 { (127.0 / largest, largest / 127.0) } else { (0.0, 0.0) };
            &move |x| (x * factor).round_ties_even() * scale
        }
    };
    numbers.iter_mut().for_each(|x| *x = round(*x));
}

/// Numbers that a token takes in a cache of keys and values; 0 for other states.
fn kv_width(state: &State) -> usize {
    match state {
        State::Kv { heads, key, value, .. } => heads * (key + value),
        State::Fixed { .. } => 0,
    }
}

/// A sequence's keys and values, in its pages.
struct Cache<'a> {
    of: &'a Interpreter,
    row: &'a Row<'a>,
    state: StateId,
    keys: usize,
}

impl Past for Cache<'_> {
    fn key(&self, position: usize) -> &[f32] {
        &self.of.kv[self.state.0 as usize][self.of.place(self.state, self.row, position)][..self.keys]
    }
    fn value(&self, position: usize) -> &[f32] {
        &self.of.kv[self.state.0 as usize][self.of.place(self.state, self.row, position)][self.keys..]
    }
}

impl Executable for Interpreter {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn vocabulary(&self) -> usize {
        self.plan.vocabulary
    }

    fn width(&self) -> usize {
        self.plan.width()
    }

    fn given(&self) -> usize {
        self.form.given
    }

    fn encode(&mut self, sources: &Batch<'_>) -> Result<(), DeviceError> {
        let form = self.plan.source_form().ok_or_else(|| DeviceError::Batch("the model reads no sources: it has no encoder".into()))?;
        sources.check(&self.limits, &form)?;
        self.walk(0..self.plan.encoder(), sources);
        Ok(())
    }

    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], DeviceError> {
        batch.check(&self.limits, &self.form)?;
        let held = self.walk(self.plan.encoder()..self.plan.ops.len(), batch);
        self.logits.clear();
        if let Held::Numbers(rows) = &held[self.plan.output.0 as usize] {
            debug_assert_eq!(self.plan.value(self.plan.output).rows, Rows::Outputs);
            self.logits.extend(rows.iter().flatten());
        }
        Ok(&self.logits)
    }

    fn input_sums(&self) -> Vec<InputSums> {
        self.seen.values().cloned().collect()
    }

    fn copy_slots(&mut self, pairs: &[(u32, u32)]) {
        for (from, to) in pairs {
            self.slots[*to as usize] = self.slots[*from as usize].clone();
        }
    }

    fn copy_pages(&mut self, pairs: &[(u32, u32)]) {
        for (state, kv) in self.plan.states.iter().zip(&mut self.kv) {
            let n = kv_width(state) * self.limits.page;
            for (from, to) in pairs {
                kv.copy_within(*from as usize * n..(*from as usize + 1) * n, *to as usize * n);
            }
        }
    }
}
