//! Makes the stages of a step.
//!
//! A stage is either a run of row ops, which each thread does for its own rows, or one op that all threads do together.
//! Between stages is a barrier; within a stage of row ops none is needed, as a row and all that is made of it stay with one
//! thread.

use super::{
    node::{Group, Node, Part, Product},
    rows::{Layout, RowsOf},
    states::{Kv, States, with_cache},
    step::StepView,
    weights::Weights,
};
use crate::{
    isa::Isa,
    matmul::{ActivationKind, Activations, Matrix},
    ops::{
        Row, RowOp, WorkOp,
        attention::{self, Append, Attend, Bias, Cache, Cell, Settings},
        binary::{Pairwise, Scale, Weighted},
        block_linear::{BlockLinear, FillBlocks, Transposed},
        causal_conv::{self, CausalConv},
        chosen_linear::{self, ChosenLinear},
        clamp::Clamp,
        concat::Concat,
        effort::Effort,
        elementwise::Elementwise,
        embed::Embed,
        experts::{self, Experts},
        gated_delta::GatedDelta,
        given::Given,
        glu::Glu,
        hadamard::Hadamard,
        lightning::{self, Lightning},
        linear::{self, Fill, Linears},
        linear_attention::LinearAttention,
        ngram_embed::NgramEmbed,
        norm::{L2, Layer, Rms},
        rope,
        round_rows::RoundRows,
        route::Route,
        scan::{self, Recurrence, Scan},
        select::Select,
        selective_scan::{self, SelectiveScan},
        sinusoid::Sinusoid,
        slice::Slice,
        sum::Sum,
        transpose::Transpose,
        watch::{Sums, Watch},
    },
    pool::Counter,
};
use onebit_plan::{
    Attention, DeviceError, Limits, Op, Plan, Rope, Rows, Value, WeightId,
    ops::{self, ApplyRope},
};
use std::{collections::HashMap, sync::Arc};

/// A row op and its operands.
pub(crate) struct RowStep {
    name: &'static str,
    op: Box<dyn RowOp>,
    inputs: Vec<RowsOf>,
    out: Option<RowsOf>,
}

/// Most inputs of a row op.
const INPUTS: usize = 2;

impl RowStep {
    /// Runs the op on a row.
    ///
    /// # Safety
    /// The row belongs to this thread: nobody else uses row `row.index` of the op's values before the next barrier.
    pub(crate) unsafe fn run(&self, view: &StepView<'_>, row: Row) {
        let mut inputs: [&[f32]; INPUTS] = [&[]; INPUTS];
        for (to, from) in inputs.iter_mut().zip(&self.inputs) {
            // SAFETY: passed on; buffers of inputs and output differ (see `Layout`).
            *to = unsafe { from.row(row.index) };
        }
        // SAFETY: passed on.
        let out = self.out.as_ref().map_or(&mut [][..], |o| unsafe { o.row_mut(row.index) });
        self.op.run(view, row, &inputs[..self.inputs.len()], out);
    }
}

/// What a stage does.
pub(crate) enum Work {
    /// Each thread does all of these for its rows.
    Rows(Rows, Vec<RowStep>),
    /// All threads together.
    Together(&'static str, Box<dyn WorkOp>),
}

impl Work {
    /// A name for the profile.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Rows(_, steps) => {
                let mut names: Vec<&str> = steps.iter().map(|s| s.name).collect();
                names.dedup();
                names.join("+")
            }
            Self::Together(name, _) => (*name).to_string(),
        }
    }
    /// What a step asks of it, as far as it is counted.
    pub(crate) fn effort(&self, view: &StepView<'_>) -> Effort {
        match self {
            Self::Rows(..) => Effort::default(),
            Self::Together(_, op) => op.effort(view),
        }
    }
}

/// What the ops of a plan work on.
pub(crate) struct Parts<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) limits: &'a Limits,
    pub(crate) weights: Weights,
    pub(crate) states: &'a States,
    pub(crate) isa: Isa,
    pub(crate) threads: usize,
    /// Whether sums of what weights are multiplied with are kept.
    pub(crate) watch: bool,
}

/// What a plan was made into.
pub(crate) struct Compiled {
    pub(crate) stages: Vec<Work>,
    /// Those that read a source, where there is an encoder.
    pub(crate) reading: Vec<Work>,
    /// Where the logits are.
    pub(crate) output: RowsOf,
    /// Of all products, where they are watched.
    pub(crate) watched: Vec<Arc<Sums>>,
}

/// Lists what each node reads and writes, for the layout.
pub(crate) fn layout(plan: &Plan, nodes: &[Node]) -> Layout {
    let steps: Vec<_> = nodes.iter().map(|n| (n.reads(), n.writes())).collect();
    Layout::new(plan, &steps, plan.output)
}

/// Makes the stages.
pub(crate) fn compile(parts: Parts<'_>, nodes: &[Node]) -> Result<Compiled, DeviceError> {
    let values = layout(parts.plan, nodes).allocate(parts.plan, parts.limits)?;
    let output = values[parts.plan.output.0 as usize].clone();
    let mut compiler = Compiler {
        values,
        attention: None,
        sizes: attention_sizes(parts.plan, parts.limits),
        activations: HashMap::new(),
        blocks: HashMap::new(),
        experts: HashMap::new(),
        tables: vec![],
        filled: vec![],
        stages: vec![],
        watched: vec![],
        parts,
    };
    let mut reading = vec![];
    let last = nodes.iter().rposition(|node| matches!(node, Node::Op(Op::Remember(_))));
    for (i, node) in nodes.iter().enumerate() {
        match node {
            Node::Op(op) => compiler.op(op)?,
            Node::Group(group) => {
                let next = nodes[i + 1..].iter().find_map(|n| if let Node::Group(g) = n { Some(g) } else { None });
                compiler.group(group, next)?;
            }
        }
        if last == Some(i) {
            reading = compiler.end_part();
        }
    }
    let output = output.ok_or_else(|| DeviceError::Failed("nothing makes the logits".into()))?;
    Ok(Compiled { stages: compiler.stages, reading, output, watched: compiler.watched })
}

/// The largest sizes among the attention ops.
pub(crate) fn attention_sizes(plan: &Plan, limits: &Limits) -> Option<attention::Sizes> {
    let ops = plan.ops.iter().filter_map(|o| if let Op::Attention(a) = o { Some(a) } else { None });
    ops.fold(None, |sizes: Option<attention::Sizes>, a| {
        let s = sizes.unwrap_or_default();
        Some(attention::Sizes {
            heads: s.heads.max(a.heads),
            key: s.key.max(a.key),
            value: s.value.max(a.value.next_multiple_of(16)),
            groups: limits.pages.saturating_mul(limits.page.div_ceil(16)),
        })
    })
}

/// Bytes that attention over chosen positions works in.
pub(crate) fn chosen_bytes(plan: &Plan, threads: usize) -> usize {
    let bytes = |op: &Op| if let Op::SparseAttention(a) = op { attention::Room::bytes(threads, a, plan.value(a.only).width) } else { 0 };
    plan.ops.iter().map(bytes).fold(0, usize::saturating_add)
}

/// Bytes that products with chosen experts work in.
pub(crate) fn chosen_linear_bytes(plan: &Plan, limits: &Limits) -> usize {
    let bytes = |op: &Op| match op {
        Op::ChosenLinear(l) => {
            let (pairs, shape) = (limits.batch.saturating_mul(plan.value(l.route).width), &plan.weight(l.weight).shape);
            chosen_linear::Scratch::bytes(pairs, shape[2], shape[1])
        }
        _ => 0,
    };
    plan.ops.iter().map(bytes).fold(0, usize::saturating_add)
}

/// Sizes of the mixtures of experts, as far as the plan tells them.
pub(crate) fn expert_sizes(plan: &Plan, limits: &Limits) -> Vec<experts::Sizes> {
    let ops = plan.ops.iter().filter_map(|o| if let Op::Experts(e) = o { Some(e) } else { None });
    let mut all: Vec<_> = ops
        .map(|e| experts::Sizes {
            pairs: limits.batch.saturating_mul(plan.value(e.route).width),
            experts: plan.weight(e.up).shape[0] + e.identities,
            width: plan.value(e.x).width,
            inner: plan.weight(e.up).shape[1],
            out: plan.value(e.out).width,
            kinds: [ActivationKind::F32; 3],
            weigh: e.weigh,
        })
        .collect();
    all.dedup();
    all
}

struct Compiler<'a> {
    parts: Parts<'a>,
    values: Vec<Option<RowsOf>>,
    sizes: Option<attention::Sizes>,
    attention: Option<Arc<attention::Scratch>>,
    /// Columns, shared by all products of a width; filled before each.
    activations: HashMap<(ActivationKind, usize, bool), Arc<Activations>>,
    experts: HashMap<experts::Sizes, Arc<experts::Scratch>>,
    /// Columns for each run, shared by all block-diagonal products of runs of a width; filled before each.
    blocks: HashMap<(Vec<ActivationKind>, usize, bool), Arc<Vec<Activations>>>,
    /// Cosines and sines.
    tables: Vec<(Rope, i32, Rows, RowsOf)>,
    /// Columns that already hold a value.
    filled: Vec<(Value, Arc<Activations>)>,
    stages: Vec<Work>,
    watched: Vec<Arc<Sums>>,
}

impl Compiler<'_> {
    /// The stages so far, which others will not follow in the same step: what they filled is not there for those.
    fn end_part(&mut self) -> Vec<Work> {
        self.tables.clear();
        self.filled.clear();
        std::mem::take(&mut self.stages)
    }
    fn value(&self, v: Value) -> Result<RowsOf, DeviceError> {
        self.values[v.0 as usize].clone().ok_or_else(|| DeviceError::Failed(format!("nothing makes value {}", v.0)))
    }
    fn rows_of(&self, v: Value) -> Rows {
        self.parts.plan.value(v).rows
    }
    /// Adds a row op, to the stage that is open where that has the same rows.
    fn row(&mut self, rows: Rows, step: RowStep) {
        debug_assert!(step.inputs.len() <= INPUTS);
        match self.stages.last_mut() {
            Some(Work::Rows(of, steps)) if *of == rows => steps.push(step),
            _ => self.stages.push(Work::Rows(rows, vec![step])),
        }
    }
    /// Adds an op that is a row op of the plan.
    fn row_op(&mut self, op: &Op, inputs: Vec<RowsOf>, with: impl RowOp + 'static) -> Result<(), DeviceError> {
        let out = Some(self.value(op.output())?);
        self.row(self.rows_of(op.output()), RowStep { name: op.name(), op: Box::new(with), inputs, out });
        Ok(())
    }
    fn together(&mut self, name: &'static str, op: impl WorkOp + 'static) {
        self.stages.push(Work::Together(name, Box::new(op)));
    }

    fn op(&mut self, op: &Op) -> Result<(), DeviceError> {
        let isa = self.parts.isa;
        let inputs = op.inputs().into_iter().map(|v| self.value(v)).collect::<Result<Vec<_>, _>>()?;
        match op {
            Op::Linear(_) => unreachable!("products are in groups"),
            Op::Embed(e) => {
                let table = self.parts.weights.table(e.weight)?;
                self.row_op(op, inputs, Embed { table, by: e.by, scale: e.scale })
            }
            Op::RmsNorm(n) => {
                let weight = self.parts.weights.some_vector(n.weight)?;
                self.row_op(op, inputs, Rms { weight, dim: n.dim, eps: n.eps, isa })
            }
            Op::LayerNorm(n) => {
                let (weight, bias) = (self.parts.weights.some_vector(n.weight)?, self.parts.weights.some_vector(n.bias)?);
                self.row_op(op, inputs, Layer { weight, bias, dim: n.dim, eps: n.eps, isa })
            }
            Op::L2Norm(n) => self.row_op(op, inputs, L2 { dim: n.dim, eps: n.eps, isa }),
            Op::ApplyRope(r) => self.rope(op, inputs, r),
            Op::Attention(a) => self.attend(a),
            Op::Remember(r) => self.remember(r, inputs),
            Op::LinearAttention(l) => {
                let Some(state) = self.parts.states.fixed(l.state).cloned() else { return Err(wrong_state(op)) };
                let [q, k, v, decay] = [l.q, l.k, l.v, l.decay].map(|v| self.value(v));
                let swap = match l.swap {
                    Some([a, b]) => Some([self.value(a)?, self.value(b)?]),
                    None => None,
                };
                let (out, &ops::LinearAttention { heads, key, value, before, scale, .. }) = (self.value(l.out)?, l);
                let op = LinearAttention { q: q?, k: k?, v: v?, decay: decay?, swap, out, state, heads, key, value, before, scale, isa };
                self.together("linear_attention", op);
                Ok(())
            }
            Op::GatedDelta(d) => {
                let Some(state) = self.parts.states.fixed(d.state).cloned() else { return Err(wrong_state(op)) };
                let [q, k, v, decay, beta] = [d.q, d.k, d.v, d.decay, d.beta].map(|v| self.value(v));
                let op = GatedDelta {
                    q: q?,
                    k: k?,
                    v: v?,
                    decay: decay?,
                    beta: beta?,
                    out: self.value(d.out)?,
                    state,
                    k_heads: d.k_heads,
                    v_heads: d.v_heads,
                    key: d.key,
                    value: d.value,
                    tiled: d.tiled,
                    scale: d.scale,
                    isa,
                };
                self.together("gated_delta", op);
                Ok(())
            }
            Op::CausalConv(c) => {
                let Some(state) = self.parts.states.fixed(c.state).cloned() else { return Err(wrong_state(op)) };
                let op = CausalConv {
                    x: self.value(c.x)?,
                    out: self.value(c.out)?,
                    taps: {
                        let weight = self.parts.weights.some_vector(c.weight())?;
                        causal_conv::transposed(&c.spread(self.value(c.x)?.width(), weight.as_deref()), c.reach())
                    },
                    bias: self.parts.weights.some_vector(c.bias)?,
                    kernel: c.reach(),
                    f: c.f,
                    state,
                    isa,
                };
                self.together("causal_conv", op);
                Ok(())
            }
            Op::SelectiveScan(s) => {
                let Some(state) = self.parts.states.fixed(s.state).cloned() else { return Err(wrong_state(op)) };
                let (rate, skip) = (self.parts.weights.vector(s.rate)?, self.parts.weights.some_vector(s.skip)?);
                let op = SelectiveScan {
                    x: self.value(s.x)?,
                    step: self.value(s.step)?,
                    b: self.value(s.b)?,
                    c: self.value(s.c)?,
                    out: self.value(s.out)?,
                    state,
                    weights: selective_scan::Weights::new(s, &rate, skip.as_deref()),
                    layout: selective_scan::Layout::new(s),
                    isa,
                };
                self.together("selective_scan", op);
                Ok(())
            }
            Op::Lightning(l) => {
                let Some(state) = self.parts.states.fixed(l.state).cloned() else { return Err(wrong_state(op)) };
                let rate = self.parts.weights.vector(l.rate)?;
                let [queries, keys, inner] = [l.queries, l.keys, l.inner].map(|w| self.parts.weights.vector(w));
                let op = Lightning {
                    inputs: [self.value(l.q)?, self.value(l.k)?, self.value(l.v)?],
                    out: self.value(l.out)?,
                    state,
                    tables: lightning::Tables::new(l, &rate, [queries?, keys?, inner?]),
                    heads: l.heads,
                    dim: l.dim,
                    block: l.block,
                };
                self.together("lightning", op);
                Ok(())
            }
            Op::RgLru(l) => self.scan(op, [l.x, l.decay], scan::RgLru),
            Op::Wkv(w) => {
                let (decay, first) = (self.parts.weights.vector(w.decay)?, self.parts.weights.vector(w.first)?);
                self.scan(op, [w.k, w.v], scan::Wkv { decay, first })
            }
            Op::BlockLinear(l) => self.block_linear(op, inputs, l),
            Op::ChosenLinear(l) => self.chosen_linear(l),
            Op::Sum(s) => self.row_op(op, inputs, Sum { groups: s.groups, count: s.count }),
            Op::NgramEmbed(e) => {
                let Some(state) = self.parts.states.fixed(e.state).cloned() else { return Err(wrong_state(op)) };
                let (table, out) = (self.parts.weights.table(e.weight)?, self.value(e.out)?);
                self.together(op.name(), NgramEmbed { op: e.clone(), table, out, state });
                Ok(())
            }
            Op::Index(x) => self.index(x),
            Op::SparseAttention(a) => self.attend_chosen(a),
            Op::Concat(c) => self.row_op(op, inputs, Concat { groups: c.groups }),
            Op::Elementwise(e) => self.row_op(op, inputs, Elementwise { f: e.f, isa }),
            Op::Pairwise(p) => self.row_op(op, inputs, Pairwise(p.f)),
            Op::WeightedBinary(w) => {
                let weight = self.parts.weights.vector(w.weight)?;
                self.row_op(op, inputs, Weighted { f: w.f, weight })
            }
            Op::Scale(s) => self.row_op(op, inputs, Scale(s.by)),
            Op::PositionScale(s) => self.row_op(op, inputs, s.clone()),
            Op::Xielu(f) => self.row_op(op, inputs, f.clone()),
            Op::Clamp(c) => self.row_op(op, inputs, Clamp { low: c.low, high: c.high }),
            Op::RoundRows(_) => self.row_op(op, inputs, RoundRows),
            Op::Given(g) => {
                let width = self.parts.plan.batch_form().given;
                self.row_op(op, inputs, Given { width, start: g.start, add: g.add })
            }
            Op::Glu(g) => self.row_op(op, inputs, Glu { f: g.f, isa }),
            Op::Slice(s) => self.row_op(op, inputs, Slice { groups: s.groups, start: s.start, len: s.len }),
            Op::Transpose(t) => self.row_op(op, inputs, Transpose { rows: t.rows, columns: t.columns }),
            Op::Hadamard(h) => self.row_op(op, inputs, Hadamard { rotation: h.rotation.clone(), inverse: h.inverse, isa }),
            Op::Route(r) => {
                let vector = |id| self.parts.weights.some_vector(id);
                let (bias, factors) = (vector(r.bias)?, vector(r.factors)?);
                let ops::Route { score, normalize, groups, nothing, scale, .. } = *r;
                self.row_op(op, inputs, Route { score, normalize, bias, groups, nothing, scale, factors })
            }
            Op::Experts(e) => self.mixture(e),
            Op::Sinusoid(s) => self.row_op(op, inputs, Sinusoid { frequencies: s.frequencies.clone(), offset: s.offset }),
            Op::Select(s) => {
                let (x, out) = (self.value(s.x)?, self.value(s.out)?);
                self.together("select", Select { x, out });
                Ok(())
            }
        }
    }

    fn block_linear(&mut self, op: &Op, inputs: Vec<RowsOf>, l: &ops::BlockLinear) -> Result<(), DeviceError> {
        let isa = self.parts.isa;
        let (runs, bias) = (self.parts.plan.weight(l.weight).shape[0], self.parts.weights.some_vector(l.bias)?);
        if l.transposed {
            let weight = self.parts.weights.vector(l.weight)?;
            return self.row_op(op, inputs, Transposed { weight, bias, runs, isa });
        }
        let matrices = self.parts.weights.matrices(l.weight)?;
        let (rows, width) = (self.rows_of(l.out), self.parts.plan.value(l.x).width / runs);
        let kinds: Vec<ActivationKind> = matrices.iter().map(Matrix::activation).collect();
        let key = (kinds.clone(), width, rows == Rows::Outputs);
        let x = match self.blocks.get(&key) {
            Some(x) => x.clone(),
            None => {
                let count = if rows == Rows::Tokens { self.parts.limits.batch } else { self.parts.limits.outputs };
                let new = kinds.iter().map(|kind| Activations::new(*kind, count, width, isa)).collect::<Result<Vec<_>, _>>()?;
                self.blocks.entry(key).or_insert(Arc::new(new)).clone()
            }
        };
        self.row(rows, RowStep { name: "fill", op: Box::new(FillBlocks(x.clone())), inputs, out: None });
        let out = self.value(l.out)?;
        self.together("block_linear", BlockLinear { matrices, bias, x, out, rows });
        Ok(())
    }

    fn chosen_linear(&mut self, l: &ops::ChosenLinear) -> Result<(), DeviceError> {
        let (matrices, isa) = (self.parts.weights.matrices(l.weight)?, self.parts.isa);
        let Some(first) = matrices.first() else { return Err(DeviceError::Unsupported("a choice among no experts".into())) };
        if matrices.iter().any(|m| m.activation() != first.activation()) {
            return Err(experts_differ());
        }
        let pairs = self.parts.limits.batch * self.parts.plan.value(l.route).width;
        let scratch = chosen_linear::Scratch::new(pairs, matrices.len(), first, isa)?;
        let watched = if self.parts.watch { Some(self.sums(vec![l.weight], matrices.len(), first.columns())?) } else { None };
        let (x, route, out) = (self.value(l.x)?, self.value(l.route)?, self.value(l.out)?);
        self.together("chosen_linear", ChosenLinear { x, route, out, matrices, weighted: l.weighted, scratch, watched });
        Ok(())
    }

    fn rope(&mut self, op: &Op, mut inputs: Vec<RowsOf>, r: &ApplyRope) -> Result<(), DeviceError> {
        let (rope, shift) = (&r.rope, r.shift);
        let rows = self.rows_of(op.output());
        let table = match self.tables.iter().find(|(r, by, of, _)| r == rope && *by == shift && *of == rows) {
            Some((.., table)) => table.clone(),
            None => {
                let count = if rows == Rows::Tokens { self.parts.limits.batch } else { self.parts.limits.outputs };
                let table = RowsOf::new(count, rope::Table::width(rope))?;
                let make = Box::new(rope::Table { rope: rope.clone(), shift });
                self.row(rows, RowStep { name: "rope_table", op: make, inputs: vec![], out: Some(table.clone()) });
                self.tables.push((rope.clone(), shift, rows, table.clone()));
                table
            }
        };
        inputs.push(table);
        self.row_op(op, inputs, rope::Turn { head: r.head, style: rope.style, isa: self.parts.isa })
    }

    fn scan(&mut self, op: &Op, [a, b]: [Value; 2], recurrence: impl Recurrence + 'static) -> Result<(), DeviceError> {
        let Some(state) = op.state().and_then(|s| self.parts.states.fixed(s).cloned()) else { return Err(wrong_state(op)) };
        let scan = Scan { inputs: [self.value(a)?, self.value(b)?], out: self.value(op.output())?, state, recurrence };
        self.together(op.name(), scan);
        Ok(())
    }

    fn index(&mut self, x: &ops::Index) -> Result<(), DeviceError> {
        let states = self.parts.states;
        match states.kv(x.state) {
            Some(kv) => with_cache!(kv, cache => self.index_in(x, cache.clone())),
            None => Err(wrong_state(&Op::Index(x.clone()))),
        }
    }
    fn index_in<C: Cell>(&mut self, x: &ops::Index, cache: Arc<Cache<C>>) -> Result<(), DeviceError> {
        let k = self.value(x.k)?;
        self.append(&cache, vec![k.first_numbers(0), k]);
        let (q, weights, out) = (self.value(x.q)?, x.weights.map(|w| self.value(w)).transpose()?, self.value(x.out)?);
        let isa = self.parts.isa;
        self.together("index", attention::Index { op: x.clone(), cache, q, weights, out, counter: Counter::new(), isa });
        Ok(())
    }
    fn attend_chosen(&mut self, a: &ops::SparseAttention) -> Result<(), DeviceError> {
        let states = self.parts.states;
        match states.kv(a.state) {
            Some(kv) => with_cache!(kv, cache => self.attend_chosen_in(a, cache.clone())),
            None => Err(wrong_state(&Op::SparseAttention(a.clone()))),
        }
    }
    fn attend_chosen_in<C: Cell>(&mut self, a: &ops::SparseAttention, cache: Arc<Cache<C>>) -> Result<(), DeviceError> {
        let inputs = vec![self.value(a.k)?, self.value(a.v)?];
        self.append(&cache, inputs);
        let (q, only, out) = (self.value(a.q)?, self.value(a.only)?, self.value(a.out)?);
        let room = attention::Room::new(self.parts.threads, a, only.width())?;
        let isa = self.parts.isa;
        self.together(
            "sparse_attention",
            attention::AttendChosen { op: a.clone(), cache, q, only, out, room, counter: Counter::new(), isa },
        );
        Ok(())
    }
    /// Adds the storing of keys and values.
    fn append<C: Cell>(&mut self, cache: &Arc<Cache<C>>, inputs: Vec<RowsOf>) {
        let append = Box::new(Append { cache: cache.clone(), isa: self.parts.isa });
        self.row(Rows::Tokens, RowStep { name: "append", op: append, inputs, out: None });
    }

    fn remember(&mut self, r: &ops::Remember, inputs: Vec<RowsOf>) -> Result<(), DeviceError> {
        let states = self.parts.states;
        match states.kv(r.state) {
            Some(kv) => with_cache!(kv, cache => self.append(cache, inputs)),
            None => return Err(wrong_state(&Op::Remember(r.clone()))),
        }
        Ok(())
    }

    fn attend(&mut self, a: &Attention) -> Result<(), DeviceError> {
        let states = self.parts.states;
        match states.kv(a.state) {
            Some(kv) => with_cache!(kv, cache => self.attend_to(a, cache.clone())),
            None => Err(wrong_state(&Op::Attention(a.clone()))),
        }
    }
    fn attend_to<C: Cell>(&mut self, a: &Attention, cache: Arc<Cache<C>>) -> Result<(), DeviceError> {
        let isa = self.parts.isa;
        let scratch = match &self.attention {
            Some(scratch) => scratch.clone(),
            None => {
                let sizes = self.sizes.unwrap_or_default();
                self.attention.insert(Arc::new(attention::Scratch::new(self.parts.threads, sizes)?)).clone()
            }
        };
        if let Some([k, v]) = a.kv {
            let inputs = vec![self.value(k)?, self.value(v)?];
            self.append(&cache, inputs);
        }
        let sinks = self.parts.weights.some_vector(a.sinks)?;
        let of = |v: Option<Value>| v.map(|v| self.value(v)).transpose();
        let relative = match &a.relative {
            Some(r) => Some(Bias { relative: r.clone(), of_query: of(r.of_query)?, of_key: of(r.of_key)? }),
            None => None,
        };
        let &Attention { heads, scale, mask, groups, softcap, .. } = a;
        let settings = Settings { heads, scale, mask, groups, softcap, sinks, alibi: a.alibi.clone(), relative };
        let (q, out) = (self.value(a.q)?, self.value(a.out)?);
        self.together("attention", Attend { cache, settings, q, out, scratch, counter: Counter::new(), isa });
        Ok(())
    }

    fn mixture(&mut self, e: &onebit_plan::Experts) -> Result<(), DeviceError> {
        let isa = self.parts.isa;
        let experts = self.parts.weights.experts(e.gate, e.up, e.down)?;
        let kinds_of = |x: &experts::Expert| [x.gate.activation(), x.up.activation(), x.down.activation()];
        let kinds = experts.first().map_or([ActivationKind::F32; 3], kinds_of);
        if experts.iter().any(|x| kinds_of(x) != kinds) {
            return Err(experts_differ());
        }
        let plan = self.parts.plan;
        let sizes = experts::Sizes {
            pairs: self.parts.limits.batch * plan.value(e.route).width,
            experts: experts.len() + e.identities,
            width: plan.value(e.x).width,
            inner: plan.weight(e.up).shape[1],
            out: plan.value(e.out).width,
            kinds,
            weigh: e.weigh,
        };
        let scratch = match self.experts.get(&sizes) {
            Some(scratch) => scratch.clone(),
            None => self.experts.entry(sizes).or_insert(Arc::new(experts::Scratch::new(sizes, isa)?)).clone(),
        };
        let (x, route, out) = (self.value(e.x)?, self.value(e.route)?, self.value(e.out)?);
        let mut watched = None;
        if self.parts.watch {
            let sums = [(vec![e.gate, e.up], sizes.width), (vec![e.down], sizes.inner)];
            let [x, inner] = sums.map(|(weights, width)| self.sums(weights, experts.len(), width));
            watched = Some([x?, inner?]);
        }
        let [gate, up, down] = e.biases.map_or([None; 3], |b| b.map(Some)).map(|b| self.parts.weights.some_vector(b));
        let biases = gate?.zip(up?).zip(down?).map(|((gate, up), down)| [gate, up, down]);
        let settings = experts::Settings { biases, gating: e.gating, weigh: e.weigh, rotation: e.rotation.clone() };
        self.together("experts", Experts { x, route, out, experts, settings, watched, scratch, isa });
        Ok(())
    }

    /// Sums that the executable tells of.
    fn sums(&mut self, weights: Vec<WeightId>, experts: usize, width: usize) -> Result<Arc<Sums>, DeviceError> {
        let sums = Sums::new(weights, experts, width)?;
        self.watched.push(sums.clone());
        Ok(sums)
    }
    /// The columns for products of values of this width.
    fn columns(&mut self, kind: ActivationKind, width: usize, rows: Rows) -> Result<Arc<Activations>, DeviceError> {
        let key = (kind, width, rows == Rows::Outputs);
        if let Some(found) = self.activations.get(&key) {
            return Ok(found.clone());
        }
        let limits = self.parts.limits;
        let count = if rows == Rows::Tokens { limits.batch } else { limits.outputs };
        let new = Arc::new(Activations::new(kind, count, width, self.parts.isa)?);
        Ok(self.activations.entry(key).or_insert(new).clone())
    }
    fn kind(&self, weight: WeightId) -> Result<ActivationKind, DeviceError> {
        Ok(self.parts.weights.matrix(weight)?.activation())
    }
    fn product(&mut self, x: Value, p: &Product) -> Result<linear::Product, DeviceError> {
        let matrix = self.parts.weights.matrix(p.weight)?;
        let x = self.columns(matrix.activation(), matrix.columns(), self.rows_of(x))?;
        Ok(linear::Product { matrix, bias: self.parts.weights.some_vector(p.bias)?, x, out: self.value(p.out)? })
    }
    /// Brings `x` into every form that the group wants, unless that is done, and adds the group. `next` is the group after it.
    fn group(&mut self, group: &Group, next: Option<&Group>) -> Result<(), DeviceError> {
        let rows = self.rows_of(group.x);
        if self.parts.watch {
            let weights = group.parts.iter().flat_map(Part::products).map(|p| p.weight).collect();
            let sums = self.sums(weights, 1, self.parts.plan.value(group.x).width)?;
            let x = self.value(group.x)?;
            self.together("watch", Watch { x, rows, sums });
        }
        let mut used: Vec<Arc<Activations>> = vec![];
        let mut parts = vec![];
        let filled = std::mem::take(&mut self.filled);
        for part in &group.parts {
            for product in part.products() {
                let x = self.product(group.x, product)?.x;
                if !used.iter().any(|u| Arc::ptr_eq(u, &x)) {
                    used.push(x);
                }
            }
        }
        for x in &used {
            if !filled.iter().any(|(v, a)| *v == group.x && Arc::ptr_eq(a, x)) {
                let inputs = vec![self.value(group.x)?];
                self.row(rows, RowStep { name: "fill", op: Box::new(Fill(x.clone())), inputs, out: None });
            }
        }
        for part in &group.parts {
            parts.push(match part {
                Part::Plain { product, add } => {
                    let add = add.map(|v| self.value(v)).transpose()?;
                    linear::Part::Plain { product: self.product(group.x, product)?, add }
                }
                Part::Gated { gate, up, f, out } => {
                    // What comes next may read the result: it is brought into its form at once, where that memory is not in use now.
                    let mut fill: Vec<Arc<Activations>> = vec![];
                    if let Some(next) = next.filter(|n| n.x == *out) {
                        for product in next.parts.iter().flat_map(Part::products) {
                            let columns = self.columns(self.kind(product.weight)?, self.parts.plan.value(*out).width, rows)?;
                            let taken =
                                used.iter().chain(&fill).chain(self.filled.iter().map(|(_, a)| a)).any(|u| Arc::ptr_eq(u, &columns));
                            if !taken {
                                fill.push(columns.clone());
                            }
                        }
                        self.filled.extend(fill.iter().map(|a| (*out, a.clone())));
                    }
                    let (gate, up) = (self.product(group.x, gate)?, self.product(group.x, up)?);
                    linear::Part::Gated { gate, up, f: *f, out: self.value(*out)?, fill }
                }
            });
        }
        self.together(
            if matches!(group.parts[..], [Part::Gated { .. }]) { "gated_linear" } else { "linear" },
            Linears { parts, rows, isa: self.parts.isa },
        );
        Ok(())
    }
}

fn experts_differ() -> DeviceError {
    DeviceError::Unsupported("experts of one layer are stored in different ways".into())
}

fn wrong_state(op: &Op) -> DeviceError {
    DeviceError::Failed(format!("the state of op `{}` is of another kind", op.name()))
}

/// Bytes of the buffers for columns that the plan's products share, at most.
pub(crate) fn column_bytes(plan: &Plan, limits: &Limits, isa: Isa) -> usize {
    let mut widths: Vec<(usize, bool)> = plan
        .ops
        .iter()
        .filter_map(|o| match o {
            Op::Linear(l) => Some(l.x),
            Op::BlockLinear(l) if !l.transposed => Some(l.x),
            _ => None,
        })
        .map(|x| (plan.value(x).width, plan.value(x).rows == Rows::Outputs))
        .collect();
    widths.sort_unstable();
    widths.dedup();
    let value = Activations::value_bytes(isa);
    let bytes =
        |(width, outputs): &(usize, bool)| width.saturating_mul(value).saturating_mul(if *outputs { limits.outputs } else { limits.batch });
    widths.iter().map(bytes).fold(0, usize::saturating_add)
}
