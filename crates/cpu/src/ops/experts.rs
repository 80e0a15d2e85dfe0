//! A mixture of gated experts.
//!
//! The [`Pairs`] of a batch are columns: `x` is copied to each, the experts' rows are divided among the threads, and at the end
//! each token adds up its choices, best first. A single token goes the same way with `top_k` columns.

use super::{WorkOp, effort::Effort, hadamard, math, pairs::Pairs, route};
use crate::{
    exec::{rows::RowsOf, step::StepView},
    isa::Isa,
    matmul::{ActivationKind, Activations, Matrix, SharedRows, matmul},
    ops::{linear::STEP, watch::Sums},
    pool::{Worker, part},
};
use onebit_plan::{DeviceError, Gating, Rotation, Weigh};
use std::{ops::Range, sync::Arc};

/// The matrices of one expert.
pub(crate) struct Expert {
    pub(crate) gate: Matrix,
    pub(crate) up: Matrix,
    pub(crate) down: Matrix,
}

/// Memory that layers of experts share, as they run one after the other: for `pairs` (token, choice) pairs.
pub(crate) struct Scratch {
    /// `x` of each pair, in the kinds that gate and up want.
    x: [Arc<Activations>; 2],
    /// Weighted inputs.
    weighted: Option<RowsOf>,
    /// What down reads.
    inner: Activations,
    gate: RowsOf,
    up: RowsOf,
    /// `f(gate) * up`.
    act: RowsOf,
    down: RowsOf,
    pairs: Pairs,
}

/// Sizes of a [`Scratch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sizes {
    pub(crate) pairs: usize,
    pub(crate) experts: usize,
    pub(crate) width: usize,
    pub(crate) inner: usize,
    pub(crate) out: usize,
    /// Of gate, up and down.
    pub(crate) kinds: [ActivationKind; 3],
    pub(crate) weigh: Weigh,
}

impl Sizes {
    /// Bytes of a scratch, nearly.
    pub(crate) fn bytes(&self) -> usize {
        let per_pair = 4 * (3 * self.inner + self.out) + 3 * 4 * self.inner.max(self.width);
        self.pairs.saturating_mul(per_pair)
    }
}

impl Scratch {
    pub(crate) fn new(sizes: Sizes, isa: Isa) -> Result<Self, DeviceError> {
        let Sizes { pairs, experts, width, inner, out, kinds, weigh } = sizes;
        let gate_x = Arc::new(Activations::new(kinds[0], pairs, width, isa)?);
        let up_x = if kinds[1] == kinds[0] { gate_x.clone() } else { Arc::new(Activations::new(kinds[1], pairs, width, isa)?) };
        Ok(Self {
            x: [gate_x, up_x],
            weighted: if weigh == Weigh::Input { Some(RowsOf::new(pairs, width)?) } else { None },
            inner: Activations::new(kinds[2], pairs, inner, isa)?,
            gate: RowsOf::new(pairs, inner)?,
            up: RowsOf::new(pairs, inner)?,
            act: RowsOf::new(pairs, inner)?,
            down: RowsOf::new(pairs, out)?,
            pairs: Pairs::new(pairs, experts)?,
        })
    }
}

/// The settings of a mixture that the arithmetic needs.
pub(crate) struct Settings {
    /// Of gate, up and down, all experts' one after the other.
    pub(crate) biases: Option<[Arc<[f32]>; 3]>,
    pub(crate) gating: Gating,
    pub(crate) weigh: Weigh,
    /// What is done to the columns of `down`.
    pub(crate) rotation: Option<Rotation>,
}

pub(crate) struct Experts {
    pub(crate) x: RowsOf,
    pub(crate) route: RowsOf,
    pub(crate) out: RowsOf,
    pub(crate) experts: Vec<Expert>,
    pub(crate) settings: Settings,
    /// What gate and up, and what down is multiplied with, where that is watched.
    pub(crate) watched: Option<[Arc<Sums>; 2]>,
    pub(crate) scratch: Arc<Scratch>,
    pub(crate) isa: Isa,
}

impl Experts {
    /// Choices of a token.
    fn choices(&self) -> usize {
        self.route.width() / 2
    }
    /// Adds an expert's bias to rows of a product (0: gate, 1: up, 2: down).
    fn add_bias(&self, product: usize, expert: usize, rows: Range<usize>, y: &mut [f32]) {
        if let Some(biases) = &self.settings.biases {
            let all = &biases[product];
            let one = all.len() / self.experts.len();
            let bias = &all[expert * one..(expert + 1) * one][rows];
            y.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
        }
    }
    /// Brings a pair's input into the form that the products want.
    ///
    /// # Safety
    /// The pair is this thread's, and pairs were sorted before a barrier.
    unsafe fn fill(&self, pair: usize) {
        let s = &self.scratch;
        // SAFETY: passed on.
        unsafe {
            let choice = s.pairs.choice(pair);
            let (token, choice) = (choice / self.choices(), choice % self.choices());
            let mut x = self.x.row(token);
            if let Some(weighted) = &s.weighted {
                let weight = route::chosen(self.route.row(token)).nth(choice).map_or(0.0, |(_, weight)| weight);
                let row = weighted.part_mut(pair, 0..x.len());
                row.iter_mut().zip(x).for_each(|(w, x)| *w = weight * x);
                x = row;
            }
            s.x[0].fill(pair, x);
            if !Arc::ptr_eq(&s.x[0], &s.x[1]) {
                s.x[1].fill(pair, x);
            }
        }
    }
    /// Adds the rows of each chosen expert's pairs to `sums`.
    ///
    /// # Safety
    /// As for [`Sums::add`].
    unsafe fn watch<'a>(&self, worker: &Worker<'_>, sums: &Sums, row: impl Fn(usize) -> &'a [f32]) {
        // SAFETY: passed on.
        self.each(|e, _, pairs| unsafe { sums.add(worker, e, pairs.map(&row)) });
    }
    /// Runs `work` for each expert that was chosen, with its pairs.
    fn each(&self, mut work: impl FnMut(usize, &Expert, Range<usize>)) {
        for (i, expert) in self.experts.iter().enumerate() {
            // SAFETY: sorted before a barrier.
            let pairs = unsafe { self.scratch.pairs.of_expert(i) };
            if !pairs.is_empty() {
                work(i, expert, pairs);
            }
        }
    }
}

/// # Safety
/// As for [`SharedRows::new`].
unsafe fn shared(rows: &RowsOf) -> SharedRows {
    // SAFETY: passed on.
    unsafe { SharedRows::new(rows.as_ptr(), rows.rows(), rows.width(), rows.stride()) }
}

impl WorkOp for Experts {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let (tokens, top_k) = (view.batch.tokens.len(), self.choices());
        let s = &self.scratch;
        if worker.index == 0 {
            // SAFETY: one thread sorts; the route was written before the barrier in front of this op.
            unsafe { s.pairs.sort(&self.route, tokens) };
        }
        worker.barrier();
        for pair in worker.chunk(tokens * top_k, 1) {
            // SAFETY: sorted before the barrier; each pair's columns have one thread.
            unsafe { self.fill(pair) };
        }
        worker.barrier();
        // SAFETY: threads make disjoint rows, and read others' only behind a barrier.
        let (gate, up, down) = unsafe { (shared(&s.gate), shared(&s.up), shared(&s.down)) };
        let mut turn = 0;
        self.each(|number, expert, pairs| {
            let inner = expert.gate.rows();
            // What does not divide evenly goes to another thread with each expert.
            let rows = part(inner, STEP, (worker.index + turn) % worker.count, worker.count);
            turn += 1;
            matmul(&expert.gate, &s.x[0], pairs.clone(), rows.clone(), &gate);
            matmul(&expert.up, &s.x[1], pairs.clone(), rows.clone(), &up);
            for pair in pairs {
                // SAFETY: these rows are this thread's.
                unsafe {
                    let (gate, up) = (s.gate.part_mut(pair, rows.clone()), s.up.part_mut(pair, rows.clone()));
                    let act = s.act.part_mut(pair, rows.clone());
                    self.add_bias(0, number, rows.clone(), gate);
                    self.add_bias(1, number, rows.clone(), up);
                    math::gate(self.isa, self.settings.gating, gate, up, act);
                    if !rows.is_empty() && self.settings.rotation.is_none() {
                        s.inner.fill_part(pair, rows.start, act);
                    }
                }
            }
        });
        worker.barrier();
        if let Some(rotation) = &self.settings.rotation {
            for pair in worker.chunk(tokens * top_k, 1) {
                // SAFETY: the row was made before the barrier, and is now this thread's; so are the pair's columns.
                unsafe {
                    let act = s.act.row_mut(pair);
                    hadamard::turn(self.isa, rotation, false, act);
                    s.inner.fill(pair, act);
                }
            }
            worker.barrier();
        }
        if let Some([x, inner]) = &self.watched {
            // SAFETY: all of it was made before the last barrier, and is not written to before the next step.
            unsafe {
                self.watch(worker, x, |pair| match &s.weighted {
                    Some(weighted) => weighted.row(pair),
                    None => self.x.row(s.pairs.choice(pair) / top_k),
                });
                self.watch(worker, inner, |pair| s.act.row(pair));
            }
        }
        // The same rows for all experts, so that the sum over them needs no barrier.
        let rows = worker.chunk(self.out.width(), STEP);
        self.each(|_, expert, pairs| matmul(&expert.down, &s.inner, pairs, rows.clone(), &down));
        for token in 0..tokens {
            // SAFETY: these rows are this thread's; the route is older than the barrier in front of this op.
            unsafe {
                let out = self.out.part_mut(token, rows.clone());
                out.fill(0.0);
                let pairs = s.pairs.of_choices(token * top_k..(token + 1) * top_k);
                for (pair, (expert, weight)) in pairs.iter().zip(route::chosen(self.route.row(token))) {
                    let y = match expert < self.experts.len() {
                        true => {
                            let y = s.down.part_mut(*pair as usize, rows.clone());
                            self.add_bias(2, expert, rows.clone(), y);
                            y
                        }
                        false => &self.x.row(token)[rows.clone()],
                    };
                    let weight = if self.settings.weigh == Weigh::Input && expert < self.experts.len() { 1.0 } else { weight };
                    out.iter_mut().zip(y).for_each(|(o, y)| *o += weight * *y);
                }
            }
        }
    }
    fn effort(&self, _: &StepView<'_>) -> Effort {
        let mut sum = Effort::default();
        self.each(|_, expert, pairs| {
            [&expert.gate, &expert.up, &expert.down].into_iter().for_each(|matrix| sum += Effort::product(matrix, pairs.len()));
        });
        sum
    }
}
