//! Runs steps.

use super::{
    compile::{self, Compiled, Parts, Work, compile},
    fuse::Fusions,
    node::{Node, nodes},
    profile::{Profile, Table},
    rows::RowsOf,
    states::States,
    step::StepBuffers,
    weights::{self, Weights},
};
use crate::{isa::Isa, ops::watch::Sums, pool::Pool};
use onebit_plan::{Batch, BatchForm, Cached, DeviceError, Executable, InputSums, Limits, Memory, Model, Progress, Rows};
use std::sync::Arc;

/// What loading needs from the device.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) pool: Arc<Pool>,
    pub(crate) isa: Isa,
    pub(crate) profile: Arc<Profile>,
    pub(crate) fusions: Fusions,
    /// Whether sums of what weights are multiplied with are kept.
    pub(crate) watch: bool,
}

/// The plan's steps after fusion.
fn fused(host: &Host, model: &Model) -> Vec<Node> {
    host.fusions.apply(&model.plan, nodes(&model.plan))
}

/// What [`load`] will take.
pub(crate) fn memory(host: &Host, model: &Model, limits: &Limits) -> Memory {
    let (plan, nodes) = (&model.plan, fused(host, model));
    let (kv, slots) = States::bytes(plan, limits);
    let scratch = [
        compile::layout(plan, &nodes).bytes(plan, limits),
        compile::column_bytes(plan, limits, host.isa),
        compile::attention_sizes(plan, limits).map_or(0, |s| s.bytes(host.pool.threads())),
        compile::expert_sizes(plan, limits).iter().map(|s| s.bytes()).fold(0, usize::saturating_add),
        compile::chosen_linear_bytes(plan, limits),
        compile::chosen_bytes(plan, host.pool.threads()),
        StepBuffers::bytes(limits.batch, limits.outputs),
    ];
    let scratch = scratch.into_iter().fold(0, usize::saturating_add);
    Memory { weights: weights::bytes(model, &nodes), kv, slots, scratch }
}

/// A loaded model.
pub(crate) struct CpuExecutable {
    host: Host,
    limits: Limits,
    form: BatchForm,
    /// What batches of sources are like, where there is an encoder.
    source_form: Option<BatchForm>,
    width: usize,
    stages: Vec<Work>,
    /// Those that read sources.
    reading: Vec<Work>,
    table: Arc<Table>,
    output: RowsOf,
    watched: Vec<Arc<Sums>>,
    states: States,
    buffers: StepBuffers,
}

/// Loads a model.
pub(crate) fn load(host: &Host, model: Model, limits: &Limits, progress: &mut dyn FnMut(Progress)) -> Result<CpuExecutable, DeviceError> {
    let nodes = fused(host, &model);
    let plan = model.plan.clone();
    let states = States::new(&plan, limits)?;
    let weights = Weights::load(model, &nodes, limits.activations, host.isa, &host.pool, progress)?;
    let threads = host.pool.threads();
    let parts = Parts { plan: &plan, limits, weights, states: &states, isa: host.isa, threads, watch: host.watch };
    let Compiled { stages, reading, output, watched } = compile(parts, &nodes)?;
    let table = host.profile.table(reading.iter().chain(&stages).map(Work::name).collect());
    let buffers = StepBuffers::new(limits.batch, limits.outputs);
    let (host, limits, form, source_form) = (host.clone(), limits.clone(), plan.batch_form(), plan.source_form());
    let width = plan.width();
    Ok(CpuExecutable { host, limits, form, source_form, width, stages, reading, table, output, watched, states, buffers })
}

impl CpuExecutable {
    /// Runs the stages of a step, or those that read sources, on a batch that was checked; gives the number of rows of output.
    fn walk(&mut self, batch: &Batch<'_>, reads: bool) -> usize {
        let Self { host, stages, reading, table, buffers, .. } = self;
        let (stages, first) = if reads { (reading, 0) } else { (stages, reading.len()) };
        let view = buffers.view(batch);
        for stage in stages.iter() {
            if let Work::Together(_, op) = stage {
                op.prepare();
            }
        }
        host.pool.run(&|worker| {
            let mut clock = host.profile.clock(table, worker.index);
            for (i, stage) in stages.iter().enumerate() {
                match stage {
                    Work::Rows(rows, steps) => {
                        for index in worker.chunk(view.count(*rows), 1) {
                            let row = view.row(*rows, index);
                            for step in steps {
                                // SAFETY: every stage of row ops gives row `index` to the same thread, and to no other.
                                unsafe { step.run(&view, row) };
                            }
                        }
                    }
                    Work::Together(_, op) => op.run(&view, &worker),
                }
                clock.worked(first + i, || stage.effort(&view));
                if i + 1 < stages.len() {
                    worker.barrier();
                }
                clock.passed(first + i);
            }
        });
        view.count(Rows::Outputs)
    }
}

impl Executable for CpuExecutable {
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
        self.width
    }
    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], DeviceError> {
        batch.check(&self.limits, &self.form)?;
        let outputs = self.walk(batch, false);
        // SAFETY: all threads are done, and the reference borrows `self`, so that no step runs while it lives.
        Ok(unsafe { self.output.first(outputs) })
    }
    fn encode(&mut self, sources: &Batch<'_>) -> Result<(), DeviceError> {
        let form = self.source_form.as_ref();
        let form = form.ok_or_else(|| DeviceError::Batch("the model reads no sources: it has no encoder".into()))?;
        sources.check(&self.limits, form)?;
        self.walk(sources, true);
        Ok(())
    }
    fn input_sums(&self) -> Vec<InputSums> {
        // SAFETY: a step borrows `self` mutably, so that none runs.
        self.watched.iter().flat_map(|sums| unsafe { sums.read() }).collect()
    }
    fn copy_slots(&mut self, pairs: &[(u32, u32)]) {
        self.states.copy_slots(pairs);
    }
    fn copy_pages(&mut self, pairs: &[(u32, u32)]) {
        self.states.copy_pages(pairs);
    }
    fn part_bytes(&self) -> Option<[usize; 2]> {
        Some(self.states.part_bytes())
    }
    fn read_cached(&mut self, part: Cached, out: &mut Vec<u8>) -> Result<(), DeviceError> {
        self.states.show(part, |piece| out.extend_from_slice(piece))
    }
    fn write_cached(&mut self, part: Cached, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut rest = bytes;
        let [page, slot] = self.states.part_bytes();
        let wanted = if matches!(part, Cached::Page(_)) { page } else { slot };
        if bytes.len() != wanted {
            return Err(DeviceError::Batch(format!("{} bytes for {part:?}, which has {wanted}", bytes.len())));
        }
        self.states.show(part, |piece| {
            let (now, later) = rest.split_at(piece.len());
            piece.copy_from_slice(now);
            rest = later;
        })
    }
}
