//! The device.

use crate::{
    exec::{executable, executable::Host, fuse::Fusions, memory, profile::Profile},
    isa::{Isa, Level},
    pool::Pool,
    roof::Roof,
};
use onebit_plan::{Device, DeviceError, Executable, Limits, Memory, Model, Progress};
use std::sync::Arc;

/// The processor of this machine.
///
/// Its threads are made once and serve every model that is loaded. What a model answers depends neither on their number
/// nor on the instruction set.
pub struct Cpu {
    host: Host,
}

impl Cpu {
    /// A device with so many threads; by default one for each physical core that the process may use.
    pub fn new(threads: Option<usize>) -> Self {
        let pool = Arc::new(Pool::new(threads.unwrap_or_else(Pool::default_threads)));
        Self { host: Host { pool, isa: Isa::detect(), profile: Arc::default(), fusions: Fusions::default(), watch: false } }
    }
    /// The same device, using instructions up to `level` only.
    pub fn at_most(mut self, level: Level) -> Self {
        self.host.isa = self.host.isa.at_most(level);
        self
    }
    /// The same device without fusion, to compare with; slower, and with the same results.
    pub fn without_fusion(mut self) -> Self {
        self.host.fusions = Fusions { shared_input: false, gated: false, residual: false };
        self
    }
    /// The same device, whose executables keep sums of what weights are multiplied with ([`Executable::input_sums`]).
    pub fn watching(mut self) -> Self {
        self.host.watch = true;
        self
    }
    /// Threads that work.
    pub fn threads(&self) -> usize {
        self.host.pool.threads()
    }
    /// Instructions that are used.
    pub fn isa(&self) -> Isa {
        self.host.isa
    }
    /// Measures what the memory and the multipliers can do at most; see [`Roof::measure`].
    pub fn roof(&self) -> Roof {
        Roof::measure(&self.host.pool, self.host.isa)
    }
    /// Measures where the time goes, while it is switched on.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.host.profile
    }
}

impl Device for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }
    fn memory(&self, model: &Model, limits: &Limits) -> Memory {
        executable::memory(&self.host, model, limits)
    }
    fn load(&self, model: Model, limits: &Limits, progress: &mut dyn FnMut(Progress)) -> Result<Box<dyn Executable>, DeviceError> {
        fits(limits, &self.memory(&model, limits), memory::available())?;
        Ok(Box::new(executable::load(&self.host, model, limits, progress)?))
    }
}

/// Refuses limits that make no sense, and what does not fit into `available` bytes.
fn fits(limits: &Limits, memory: &Memory, available: Option<usize>) -> Result<(), DeviceError> {
    let Limits { batch, outputs, page, pages, slots, .. } = *limits;
    if batch == 0
        || page == 0
        || batch > u32::MAX as usize
        || outputs > batch
        || page.checked_mul(pages).is_none_or(|n| n > u32::MAX as usize)
    {
        let what = format!("limits of {batch} tokens, {outputs} outputs and {pages} pages of {page} tokens, {slots} slots");
        return Err(DeviceError::Unsupported(format!("{what} cannot be run")));
    }
    let Some(available) = available else { return Ok(()) };
    let needed = [memory.weights, memory.kv, memory.slots, memory.scratch].into_iter().fold(0, usize::saturating_add);
    if needed <= available {
        return Ok(());
    }
    let rest = needed - memory.weights;
    let (what, flag) = if memory.weights > available {
        ("the model's weights and caches", "the model's size: a smaller one, or fewer bits per weight")
    } else if memory.kv >= rest / 2 {
        ("the model with its key/value cache", "--ctx-size")
    } else if memory.slots >= rest / 2 {
        ("the model with its sequences' states", "--parallel")
    } else {
        ("the model with its scratch memory", "the tokens of one step (--parallel, --chunk)")
    };
    Err(DeviceError::Memory { what: what.into(), needed, available, flag })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_the_flag_that_helps() {
        let limits = Limits { batch: 8, outputs: 8, page: 16, pages: 4, slots: 1, kv: Default::default(), activations: Default::default() };
        let memory = Memory { weights: 100, kv: 50, slots: 10, scratch: 5 };
        assert!(fits(&limits, &memory, Some(165)).is_ok() && fits(&limits, &memory, None).is_ok());
        let flag = |memory: Memory, available| match fits(&limits, &memory, Some(available)) {
            Err(DeviceError::Memory { needed, available: a, flag, .. }) => {
                assert_eq!((needed, a), (memory.total(), available));
                flag
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(flag(memory, 164), "--ctx-size");
        assert!(flag(memory, 99).starts_with("the model's size"));
        assert_eq!(flag(Memory { kv: 1, slots: 90, ..memory }, 120), "--parallel");
        assert_eq!(flag(Memory { kv: 1, scratch: 90, ..memory }, 120), "the tokens of one step (--parallel, --chunk)");
        assert!(fits(&Limits { batch: 0, ..limits.clone() }, &memory, None).is_err());
        assert!(fits(&Limits { pages: usize::MAX, ..limits }, &memory, None).is_err());
    }
}
