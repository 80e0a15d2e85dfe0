//! A plan becomes a program: steps in order, and everything that they need of the device, known before any memory is taken.
//!
//! [`lower`] asks each op's file (`ops`) for its step, or for the reason why no kernel serves it; all refusals are gathered, so that one
//! message names them all. [`Program::memory`] tells what the program will take. What depends on the batch is only recorded when a batch
//! of that [`Shape`] comes.

mod fuse;
mod layout;
mod ops;
mod step;

use fuse::Level;
pub(crate) use layout::Layout;
pub(crate) use step::{At, Form, Input, Recorded, Recorder, Scratch, Side, Step, Symbol};
pub use step::{NARROW, Run, Shape, Work};

use crate::{device::DispatchInfo, form::Form as Planes, pack::packed_bytes};
use onebit_plan::{ActivationKind, KvType, Limits, Memory, Model, Op, Plan, Refused, Rows, State, Value, Weight, WeightId};
use onebit_quants::{self as quants, WeightType};
use std::collections::HashMap;

/// What a program needs besides its steps.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Weights by form, in the order of their first use; of several the rows lie one below the other.
    pub(crate) weights: Vec<(Vec<WeightId>, Form)>,
    /// What the host writes for each step.
    pub(crate) inputs: Vec<Input>,
    /// Numbers of the plan.
    pub(crate) constants: Vec<Vec<u32>>,
    /// Bytes to work in.
    pub(crate) scratch: HashMap<Scratch, usize>,
}

/// A step, and the op that it does or begins with.
pub(crate) struct Lowered {
    op: &'static str,
    layer: Option<usize>,
    step: Box<dyn Step>,
}

/// A plan for the device.
pub(crate) struct Program {
    pub(crate) steps: Vec<Lowered>,
    pub(crate) needs: Needs,
    pub(crate) layout: Layout,
}

/// What is known while ops are lowered.
pub(crate) struct Lowering<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) weights: &'a [Weight],
    pub(crate) limits: &'a Limits,
    pub(crate) needs: Needs,
    /// The values whose columns are there, by [`Side`].
    pub(crate) columns: [Option<Value>; 2],
    /// Values of which there are columns only.
    pub(crate) without_numbers: Vec<Value>,
    /// Numbers from one row of a value to the next, where others lie between.
    pub(crate) strides: HashMap<Value, usize>,
}

/// How a matrix is multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Matrix {
    /// Its planes, by this code object; the other operand is rounded.
    Planes(&'static str),
    /// Plain numbers, by the kernels of this name.
    Plain(&'static str, Form),
}

impl Lowering<'_> {
    pub(crate) fn width(&self, v: Value) -> usize {
        self.plan.value(v).width
    }

    /// Rows that a value has at most.
    pub(crate) fn most_rows(&self, rows: Rows) -> usize {
        match rows {
            Rows::Tokens => self.limits.batch,
            Rows::Outputs => self.limits.outputs,
        }
    }

    /// Names a weight in a form.
    pub(crate) fn weight(&mut self, id: WeightId, form: Form) -> Symbol {
        self.stack(vec![id], form)
    }

    /// Names weights of the same kind, whose rows lie one below the other.
    pub(crate) fn stack(&mut self, ids: Vec<WeightId>, form: Form) -> Symbol {
        let needed = (ids, form);
        if !self.needs.weights.contains(&needed) {
            self.needs.weights.push(needed.clone());
        }
        Symbol::Weight(needed.0, form)
    }

    /// Numbers from one row of a value to the next.
    pub(crate) fn stride(&self, v: Value) -> usize {
        self.strides.get(&v).copied().unwrap_or(self.width(v))
    }

    /// Names an input.
    pub(crate) fn input(&mut self, input: Input) -> Input {
        if !self.needs.inputs.contains(&input) {
            self.needs.inputs.push(input);
        }
        input
    }

    /// Names numbers of the plan.
    pub(crate) fn constant(&mut self, numbers: impl IntoIterator<Item = f32>) -> Symbol {
        self.words(numbers.into_iter().map(f32::to_bits).collect())
    }

    /// Names words of the plan.
    pub(crate) fn words(&mut self, bits: Vec<u32>) -> Symbol {
        if !self.needs.constants.contains(&bits) {
            self.needs.constants.push(bits.clone());
        }
        Symbol::Constant(bits)
    }

    /// Asks for memory to work in.
    pub(crate) fn scratch(&mut self, what: Scratch, bytes: usize) {
        let room = self.needs.scratch.entry(what).or_default();
        *room = bytes.max(*room);
    }

    /// How a matrix, or a table, is read.
    pub(crate) fn matrix(&self, id: WeightId) -> Matrix {
        matrix(&self.weights[id.0 as usize])
    }

    /// Whether a product reads the columns of a value.
    pub(crate) fn wants_columns(&self, v: Value) -> bool {
        let reads = |op: &Op| match op {
            Op::Linear(l) => l.x == v && matches!(self.matrix(l.weight), Matrix::Planes(_)),
            Op::Experts(e) => e.x == v && matches!(self.matrix(e.up), Matrix::Planes(_)),
            Op::BlockLinear(b) => b.x == v && !b.transposed && matches!(self.matrix(b.weight), Matrix::Planes(_)),
            Op::ChosenLinear(c) => c.x == v && matches!(self.matrix(c.weight), Matrix::Planes(_)),
            _ => false,
        };
        self.plan.ops.iter().any(reads)
    }

    /// Says that the columns of a value are made now.
    pub(crate) fn make_columns(&mut self, v: Value, side: Side) {
        let numbers = self.most_rows(self.plan.value(v).rows) * self.width(v);
        self.scratch(Scratch::Codes(side), numbers);
        self.scratch(Scratch::Steps(side), numbers / 4);
        self.columns[side as usize] = Some(v);
    }

    /// Where the columns of a value are, if they are there.
    pub(crate) fn columns_of(&self, v: Value) -> Option<Side> {
        [Side::Stream, Side::Inner].into_iter().find(|side| self.columns[*side as usize] == Some(v))
    }
}

/// How a matrix is read: as planes where its type has some that its rows fit, as it is where it is plain numbers, else decoded to f32.
pub(crate) fn matrix(weight: &Weight) -> Matrix {
    let as_stored = weight.edit == onebit_plan::Edit::None;
    let plain = |ty: WeightType| [(quants::F32, "f32"), (quants::F16, "f16"), (quants::BF16, "bf16")].into_iter().find(|(t, _)| *t == ty);
    match (Planes::of(weight.ty), plain(weight.ty)) {
        (Some(planes), _) if as_stored && packed_bytes(weight.ty, weight.rows(), weight.columns()).is_some() => {
            Matrix::Planes(planes.object)
        }
        (_, Some((_, name))) if as_stored => Matrix::Plain(name, Form::Stored),
        _ => Matrix::Plain("f32", Form::Numbers),
    }
}

impl Matrix {
    /// The form that its kernels read.
    pub(crate) fn form(self) -> Form {
        match self {
            Self::Planes(_) => Form::Planes,
            Self::Plain(_, form) => form,
        }
    }
}

/// Bytes that weights of the same kind take in a form, one below the other.
pub(crate) fn weight_bytes<'a>(weights: impl Iterator<Item = &'a Weight> + Clone, form: Form) -> usize {
    let sum = |of: &dyn Fn(&Weight) -> usize| weights.clone().map(of).fold(0, usize::saturating_add);
    match form {
        Form::Numbers | Form::EachNumbers | Form::Turned => sum(&|w| w.values()).saturating_mul(4),
        Form::Stored => sum(&|w| w.row_bytes().saturating_mul(w.rows())),
        Form::Planes | Form::EachPlanes => {
            let first = weights.clone().next().and_then(|w| packed_bytes(w.ty, sum(&Weight::rows), w.columns()));
            first.unwrap_or(usize::MAX)
        }
    }
}

/// Makes a program of a plan, with or without fusion.
pub(crate) fn lower(model: &Model, limits: &Limits, fuse: bool) -> Result<Program, Vec<Refused>> {
    if !fuse {
        return lower_at(model, limits, Level::Nothing);
    }
    // Where columns would be overwritten before they are read, less is fused.
    lower_at(model, limits, Level::All).or_else(|_| lower_at(model, limits, Level::Between))
}

fn lower_at(model: &Model, limits: &Limits, level: Level) -> Result<Program, Vec<Refused>> {
    let plan = &model.plan;
    let mut refused = whole_plan(plan, limits);
    let nodes = fuse::nodes(plan, |id| matrix(&model.weights[id.0 as usize]), level);
    let beside = nodes.iter().flat_map(|(node, _)| node.writes()).filter(|values| values.len() > 1);
    let width = |values: &[Value]| values.iter().map(|v| plan.value(*v).width).sum();
    let strides = beside.flat_map(|values| values.iter().map(|v| (*v, width(&values))).collect::<Vec<_>>()).collect();
    let mut l =
        Lowering { plan, weights: &model.weights, limits, needs: Needs::default(), columns: [None; 2], without_numbers: vec![], strides };
    let (mut steps, mut uses) = (vec![], vec![]);
    for (node, layer) in nodes {
        match ops::lower(&node, &mut l) {
            Ok(step) => steps.push(Lowered { op: node.name(), layer, step }),
            Err(reason) => refused.push(Refused { op: node.name(), layer, reason }),
        }
        uses.push((node.reads(), node.writes()));
    }
    if !refused.is_empty() {
        return Err(refused);
    }
    let layout = Layout::new(plan, limits, &uses, &l.needs.inputs);
    Ok(Program { steps, needs: l.needs, layout })
}

/// What is refused whatever the ops are.
fn whole_plan(plan: &Plan, limits: &Limits) -> Vec<Refused> {
    let mut refused = vec![];
    let mut no = |op: &'static str, reason: &str| refused.push(Refused { op, layer: None, reason: reason.into() });
    if plan.encoder() > 0 {
        no("remember", "encoders are not run yet");
    }
    if limits.kv != KvType::F16 {
        no("attention", "keys and values are kept in f16, not in f32");
    }
    if limits.activations != ActivationKind::Int8 {
        no("linear", "what weights are multiplied with is rounded to int8, not to 16 bits or not at all");
    }
    refused
}

impl Program {
    /// What it takes; `weights` are those of the plan.
    pub(crate) fn memory(&self, plan: &Plan, weights: &[Weight], limits: &Limits) -> Memory {
        let sum = |bytes: &mut dyn Iterator<Item = usize>| bytes.fold(0usize, usize::saturating_add);
        let state = |fixed: bool| {
            sum(&mut plan.states.iter().filter(|s| matches!(s, State::Fixed { .. }) == fixed).map(|s| state_bytes(s, limits).iter().sum()))
        };
        let constants = sum(&mut self.needs.constants.iter().map(|c| 4 * c.len()));
        let scratch = sum(&mut self.needs.scratch.values().copied());
        Memory {
            weights: sum(&mut self
                .needs
                .weights
                .iter()
                .map(|(ids, form)| weight_bytes(ids.iter().map(|id| &weights[id.0 as usize]), *form))),
            kv: state(false),
            slots: state(true),
            scratch: sum(&mut [constants, scratch, self.layout.arena, RING * self.layout.slot_bytes].into_iter()),
        }
    }

    /// The commands for batches of a shape.
    pub(crate) fn record(&self, shape: &Shape) -> Recorder {
        let mut out = Recorder::default();
        for lowered in &self.steps {
            lowered.step.record(shape, &mut out);
        }
        out
    }

    /// The same, for people and the model of time.
    pub(crate) fn dispatches(&self, shape: &Shape) -> Vec<DispatchInfo> {
        let mut all = vec![];
        for Lowered { op, layer, step } in &self.steps {
            let mut out = Recorder::default();
            step.record(shape, &mut out);
            all.extend(out.commands.into_iter().map(|command| match command {
                Recorded::Dispatch(d) => {
                    let kernel = format!("{}/{}", d.object, d.kernel);
                    DispatchInfo { op, layer: *layer, kernel, grid: d.grid, work: d.work }
                }
                Recorded::Copy { bytes, .. } => {
                    let work = Work { bytes: 2 * bytes, ..Work::default() };
                    DispatchInfo { op, layer: *layer, kernel: "copy".into(), grid: [1, 1, 1], work }
                }
            }));
        }
        all
    }
}

/// Argument slots: the host writes one while the device may still read those before.
pub(crate) const RING: usize = 3;

/// Bytes of a state's two parts: keys and values, or what it is.
pub(crate) fn state_bytes(state: &State, limits: &Limits) -> [usize; 2] {
    match state {
        State::Kv { heads, key, value, .. } => {
            let tokens = limits.pages.saturating_mul(limits.page).saturating_mul(*heads);
            [key, value].map(|n| tokens.saturating_mul(2 * n))
        }
        State::Fixed { shape } => [shape.iter().product::<usize>().saturating_mul(4 * limits.slots), 0],
    }
}
