//! Runs steps: the host writes what a batch is into an argument slot, and has the list for its shape run.

use crate::{
    compile::{At, Input, Program, RING, Recorded, Run, Scratch, Shape, Symbol, state_bytes},
    driver::{Buffer, Command, CommandList, Driver, DriverError, Place, Ticket},
    kernels::object,
    weights::{self, Loaded},
};
use onebit_plan::{Batch, BatchForm, DeviceError, Executable, Limits, Model, Plan, Progress, State};
use std::{collections::HashMap, time::Duration};

/// How long a step may take where nobody says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Lists that are kept.
const LISTS: usize = 64;
/// Keys that a part of attention has: lists differ by the power of two of such parts that the longest sequence needs.
const PART: usize = 512;

/// Queries of a block.
const QUERIES: usize = 64;

/// What the program uses, by what it is to the plan.
struct Places {
    arena: Buffer,
    ring: Buffer,
    weights: Loaded,
    constants: HashMap<Vec<u32>, Buffer>,
    scratch: HashMap<Scratch, Buffer>,
    /// By state: keys and values, or the state itself first.
    states: Vec<[Option<Buffer>; 2]>,
}

/// A loaded model.
pub(crate) struct GpuExecutable {
    driver: Box<dyn Driver>,
    plan: Plan,
    form: BatchForm,
    limits: Limits,
    program: Program,
    places: Places,
    /// Lists by shape, with the step in which each was last used.
    lists: HashMap<Shape, (CommandList, u64)>,
    steps: u64,
    /// Tokens of the longest span without matrix instructions.
    narrow: usize,
    /// How long a step may take.
    patience: Duration,
    /// What was submitted with each slot of the ring.
    submitted: [Option<Ticket>; RING],
    rows: Vec<f32>,
    bytes: Vec<u8>,
    /// Why a copy between steps has failed: told by the next step.
    fault: Option<DriverError>,
}

impl GpuExecutable {
    pub(crate) fn load(
        mut driver: Box<dyn Driver>,
        model: Model,
        program: Program,
        (limits, narrow, patience): (&Limits, usize, Duration),
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, DeviceError> {
        let d = driver.as_mut();
        let mut states = vec![];
        for state in &model.plan.states {
            let mut parts = [None; 2];
            for (part, bytes) in parts.iter_mut().zip(state_bytes(state, limits)) {
                if bytes > 0 {
                    *part = Some(d.allocate(bytes, "states")?);
                }
            }
            states.push(parts);
        }
        let mut constants = HashMap::new();
        for numbers in &program.needs.constants {
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            let buffer = d.allocate(bytes.len(), "numbers of the plan")?;
            d.write(Place { buffer, offset: 0 }, &bytes)?;
            constants.insert(numbers.clone(), buffer);
        }
        let mut scratch = HashMap::new();
        for (what, bytes) in &program.needs.scratch {
            let buffer = d.allocate(*bytes, "scratch memory")?;
            if *what == Scratch::Counters {
                d.write(Place { buffer, offset: 0 }, &vec![0; *bytes])?;
            }
            scratch.insert(*what, buffer);
        }
        let arena = d.allocate(program.layout.arena, "values")?;
        let ring = d.allocate_shared(RING * program.layout.slot_bytes, "arguments")?;
        let weights = weights::load(d, &model, &program.needs.weights, progress)?;
        let places = Places { arena, ring, weights, constants, scratch, states };
        let form = model.plan.batch_form();
        Ok(Self {
            driver,
            form,
            limits: limits.clone(),
            program,
            places,
            lists: HashMap::new(),
            steps: 0,
            narrow,
            patience,
            submitted: [None; RING],
            rows: vec![0.0; limits.outputs * model.plan.width()],
            bytes: vec![],
            fault: None,
            plan: model.plan,
        })
    }

    /// Where something lies while this slot of the ring is used.
    fn place(&self, at: &At, slot: usize) -> Result<Place, DriverError> {
        let nothing = || DriverError::Misuse(format!("nothing was planned for {:?}", at.symbol));
        let (layout, places) = (&self.program.layout, &self.places);
        let state = |state: &onebit_plan::StateId, part: usize| places.states[state.0 as usize][part];
        let (buffer, offset) = match &at.symbol {
            Symbol::Value(v) => (Some(places.arena), layout.values.get(v).copied().ok_or_else(nothing)?),
            Symbol::Input(input) => {
                let offset = layout.inputs.get(input).ok_or_else(nothing)?;
                (Some(places.ring), slot * layout.slot_bytes + offset)
            }
            Symbol::Weight(ids, form) => (places.weights.get(&(ids.clone(), *form)).copied(), 0),
            Symbol::Constant(bits) => (places.constants.get(bits).copied(), 0),
            Symbol::Scratch(what) => (places.scratch.get(what).copied(), 0),
            Symbol::Keys(s) | Symbol::Fixed(s) => (state(s, 0), 0),
            Symbol::Values(s) => (state(s, 1), 0),
        };
        Ok(Place { buffer: buffer.ok_or_else(nothing)?, offset: offset + at.offset })
    }

    /// The list for a shape, recorded now if it is the first of its kind.
    fn list(&mut self, shape: &Shape) -> Result<CommandList, DriverError> {
        if let Some((list, used)) = self.lists.get_mut(shape) {
            *used = self.steps;
            return Ok(*list);
        }
        if self.lists.len() >= LISTS
            && let Some(oldest) = self.lists.iter().min_by_key(|(_, (_, used))| *used).map(|(shape, _)| shape.clone())
            && let Some((list, _)) = self.lists.remove(&oldest)
        {
            // It may still run.
            self.finish()?;
            self.driver.forget(list);
        }
        let mut commands = vec![];
        for recorded in self.program.record(shape).commands {
            commands.push(match recorded {
                Recorded::Copy { from, to, bytes } => {
                    Command::Copy { from: self.place(&from, shape.slot)?, to: self.place(&to, shape.slot)?, bytes }
                }
                Recorded::Dispatch(d) => {
                    let pointers = d.pointers.iter().map(|p| self.place(p, shape.slot)).collect::<Result<_, _>>()?;
                    let code = object(d.object).ok_or_else(|| DriverError::Misuse(format!("there is no code object {}", d.object)))?;
                    let kernel = self.driver.kernel(d.object, code.bytes, &d.kernel)?;
                    Command::Dispatch { kernel, grid: d.grid, pointers, numbers: d.numbers }
                }
            });
        }
        let list = self.driver.record(&commands)?;
        self.lists.insert(shape.clone(), (list, self.steps));
        Ok(list)
    }

    /// Waits for everything that was submitted.
    fn finish(&mut self) -> Result<(), DriverError> {
        for ticket in &mut self.submitted {
            if let Some(ticket) = ticket.take() {
                self.driver.wait(ticket, self.patience)?;
            }
        }
        Ok(())
    }

    /// Writes words to a place of a slot.
    fn write(&mut self, slot: usize, input: Input, first: usize, words: impl IntoIterator<Item = u32>) -> Result<(), DriverError> {
        let place = self.place(&Symbol::Input(input).at(4 * first), slot)?;
        self.bytes.clear();
        self.bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
        if self.bytes.is_empty() { Ok(()) } else { self.driver.write(place, &self.bytes) }
    }

    /// Writes what the batch is into a slot.
    fn write_inputs(&mut self, batch: &Batch<'_>, runs: &[Run], slot: usize) -> Result<(), DriverError> {
        let tokens = || {
            let spans = batch.spans.iter().enumerate();
            let places = spans.flat_map(|(i, s)| (0..s.len).map(move |t| (i as u32, s.start + t, s.start + s.len)));
            batch.tokens.iter().zip(places).enumerate().map(|(at, (id, (span, position, end)))| (at, *id, span, position, end))
        };
        for input in self.program.needs.inputs.clone() {
            match input {
                Input::Position(shift) => self.write(slot, input, 0, tokens().map(|(.., p, _)| (p as i64 + i64::from(shift)) as u32))?,
                Input::Place => self.write(slot, input, 0, tokens().flat_map(|(_, _, span, p, _)| [span, p as u32]))?,
                Input::Block => {
                    let wide = runs.iter().filter(|run| run.wide);
                    let blocks = wide.flat_map(|run| (0..run.len).step_by(QUERIES).map(|at| [run.start + at, QUERIES.min(run.len - at)]));
                    self.write(slot, input, 0, blocks.flatten().map(|n| n as u32))?;
                }
                Input::Sequence => {
                    let mut first = 0;
                    let sequences = batch.spans.iter().flat_map(|s| {
                        first += s.len;
                        [first - s.len, s.len, s.slot as usize, s.start].map(|n| n as u32)
                    });
                    self.write(slot, input, 0, sequences)?;
                }
                Input::Row(by, rows) => self.write(slot, input, 0, tokens().map(|(_, id, _, p, _)| by.row(id, p, rows) as u32))?,
                Input::Seen(mask, groups) => {
                    let seen = tokens().flat_map(|(at, _, _, p, end)| {
                        let group = if groups { batch.inputs.group(at) } else { None };
                        let seen = mask.seen_with(p, end, group);
                        [seen.start as u32, seen.end as u32]
                    });
                    self.write(slot, input, 0, seen)?;
                }
                Input::Factor(beta, every, shift) => {
                    let factor = |p: usize| 1.0 + f32::from_bits(beta) * (((p + shift) / every) as f32).ln_1p();
                    self.write(slot, input, 0, tokens().map(|(.., p, _)| factor(p).to_bits()))?;
                }
                Input::Output => {
                    let mut first = 0;
                    let rows = batch.spans.iter().flat_map(|s| {
                        first += s.len;
                        (first - s.outputs..first).map(|t| t as u32).collect::<Vec<_>>()
                    });
                    self.write(slot, input, 0, rows)?;
                }
                Input::Pages => {
                    for (i, span) in batch.spans.iter().enumerate() {
                        let used = (span.start + span.len).div_ceil(self.limits.page);
                        self.write(slot, input, i * self.limits.pages, span.pages[..used].iter().copied())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies parts of states, each `from` to `to` of equal parts.
    fn copy_parts(&mut self, fixed: bool, count: usize, pairs: &[(u32, u32)]) {
        let mut commands = vec![];
        for (state, buffers) in self.plan.states.iter().zip(&self.places.states) {
            if matches!(state, State::Fixed { .. }) != fixed {
                continue;
            }
            for (buffer, bytes) in buffers.iter().zip(state_bytes(state, &self.limits)) {
                let (Some(buffer), part) = (*buffer, bytes / count.max(1)) else { continue };
                for (from, to) in pairs {
                    assert!((*from.max(to) as usize) < count, "part {from} or {to} of {count} does not exist");
                    if from != to {
                        let place = |n: u32| Place { buffer, offset: n as usize * part };
                        commands.push(Command::Copy { from: place(*from), to: place(*to), bytes: part });
                    }
                }
            }
        }
        if commands.is_empty() {
            return;
        }
        let mut copy = || {
            self.finish()?;
            let list = self.driver.record(&commands)?;
            let ticket = self.driver.submit(list)?;
            self.driver.wait(ticket, self.patience)?;
            self.driver.forget(list);
            Ok(())
        };
        if let Err(fault) = copy() {
            self.fault.get_or_insert(fault);
        }
    }
}

/// The shape of a batch; spans of more than `narrow` tokens are wide.
#[must_use]
pub fn shape(batch: &Batch<'_>, narrow: usize, slot: usize) -> Shape {
    let end = batch.spans.iter().map(|s| s.start + s.len).max().unwrap_or(0);
    let longest = end.div_ceil(PART).next_power_of_two() * PART;
    let runs = |rows: &dyn Fn(&onebit_plan::Span<'_>) -> usize| {
        let (mut runs, mut start): (Vec<Run>, usize) = (vec![], 0);
        for span in batch.spans.iter().filter(|s| rows(s) > 0) {
            let (len, wide) = (rows(span), span.len > narrow);
            match runs.last_mut() {
                Some(run) if !run.wide && !wide => run.len += len,
                _ => runs.push(Run { start, len, wide }),
            }
            start += len;
        }
        runs
    };
    let output_runs = runs(&|s| s.outputs);
    let outputs = output_runs.iter().map(|r| r.len).sum();
    Shape { tokens: batch.tokens.len(), outputs, spans: batch.spans.len(), runs: runs(&|s| s.len), output_runs, longest, slot }
}

impl Executable for GpuExecutable {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn vocabulary(&self) -> usize {
        self.form.vocabulary
    }

    fn given(&self) -> usize {
        self.form.given
    }

    fn width(&self) -> usize {
        self.plan.width()
    }

    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], DeviceError> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone().into());
        }
        batch.check(&self.limits, &self.form)?;
        if !batch.inputs.given.is_empty() || !batch.inputs.axes.is_empty() {
            return Err(DeviceError::Batch("the GPU is given no images yet: run the model with --device cpu".into()));
        }
        self.steps += 1;
        let slot = (self.steps % RING as u64) as usize;
        if let Some(ticket) = self.submitted[slot].take() {
            self.driver.wait(ticket, self.patience)?;
        }
        let shape = shape(batch, self.narrow, slot);
        self.write_inputs(batch, &shape.runs, slot)?;
        let list = self.list(&shape)?;
        self.submitted[slot] = Some(self.driver.submit(list)?);
        self.finish()?;
        let numbers = shape.outputs * self.plan.width();
        let place = self.place(&self.plan.output.into(), slot)?;
        self.bytes.resize(4 * numbers, 0);
        if numbers > 0 {
            self.driver.read(place, &mut self.bytes)?;
        }
        for (number, bytes) in self.rows.iter_mut().zip(self.bytes.as_chunks::<4>().0) {
            *number = f32::from_le_bytes(*bytes);
        }
        Ok(&self.rows[..numbers])
    }

    fn copy_slots(&mut self, pairs: &[(u32, u32)]) {
        self.copy_parts(true, self.limits.slots, pairs);
    }

    fn copy_pages(&mut self, pairs: &[(u32, u32)]) {
        self.copy_parts(false, self.limits.pages, pairs);
    }
}
