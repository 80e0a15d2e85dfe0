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
        limits.check()?;
        if let Some(available) = memory::available() {
            self.memory(&model, limits).fits(available)?;
        }
        Ok(Box::new(executable::load(&self.host, model, limits, progress)?))
    }
}
