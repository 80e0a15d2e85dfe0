//! The GPU as a device of the engine.

use crate::{
    compile::{self, NARROW, Shape, Work},
    driver::{Driver, DriverError, Sim, SimOptions, hip, hrx, library::Environment},
    executable::{GpuExecutable, PATIENCE},
};
use onebit_plan::{Device, DeviceError, Executable, Limits, Memory, Model, Progress, Refused};
use std::{path::PathBuf, time::Duration};

type Open = Box<dyn Fn() -> Result<Box<dyn Driver>, DriverError> + Send + Sync>;

/// A GPU, by its driver. Each model that is loaded opens it anew.
pub struct Gpu {
    name: &'static str,
    open: Open,
    fuse: bool,
    narrow: usize,
    patience: Duration,
}

/// What the kernels are made for.
pub const ARCHITECTURE: &str = "gfx1151";

/// The process's environment.
pub(crate) const ENVIRONMENT: Environment<'static> = &|name| std::env::var_os(name);

impl Gpu {
    /// The device in software, for development: exact, and some ten thousand times slower than the real one.
    #[must_use]
    pub fn sim(options: SimOptions) -> Self {
        Self::new("sim", Box::new(move || Ok(Box::new(Sim::new(options)))))
    }

    fn new(name: &'static str, open: Open) -> Self {
        Self { name, open, fuse: true, narrow: NARROW, patience: PATIENCE }
    }

    /// The device that AMD's HIP runtime reaches; `library` is the runtime's file or folder, which is looked for otherwise.
    #[must_use]
    pub fn hip(library: Option<PathBuf>) -> Self {
        let search = hip::search(library, ENVIRONMENT);
        Self::new(hip::NAME, Box::new(move || hip::Hip::open(&search)?.session(ARCHITECTURE)))
    }

    /// The device that AMD's HRX runtime reaches; as [`hip`](Self::hip).
    #[must_use]
    pub fn hrx(library: Option<PathBuf>) -> Self {
        let search = hrx::search(library, ENVIRONMENT);
        Self::new(hrx::NAME, Box::new(move || hrx::Hrx::open(&search)?.session(ARCHITECTURE)))
    }

    /// An NVIDIA GPU, for development, with the PTX that `kernels/build.sh --ptx` has put into a folder.
    #[cfg(feature = "cuda-dev")]
    #[must_use]
    pub fn cuda(ptx: PathBuf) -> Self {
        use crate::driver::cuda;
        Self::new(cuda::NAME, Box::new(move || cuda::session(ptx.clone(), ENVIRONMENT)))
    }

    /// The same device, given up when a step takes longer.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same device with a packet for each op, to compare with.
    #[must_use]
    pub fn without_fusion(mut self) -> Self {
        self.fuse = false;
        self
    }

    /// The same device without matrix instructions: all ways of feeding a model give the same bits.
    #[must_use]
    pub fn without_matrices(mut self) -> Self {
        self.narrow = usize::MAX;
        self
    }

    /// What no kernel serves of a model; nothing where it can be run.
    #[must_use]
    pub fn refusals(model: &Model, limits: &Limits) -> Vec<Refused> {
        compile::lower(model, limits, true).err().unwrap_or_default()
    }

    /// The dispatches of a step of this shape, each with its op, code object, kernel, and what it moves and computes.
    ///
    /// # Errors
    /// What no kernel serves.
    pub fn dispatches(model: &Model, limits: &Limits, shape: &Shape) -> Result<Vec<DispatchInfo>, Vec<Refused>> {
        Ok(compile::lower(model, limits, true)?.dispatches(shape))
    }
}

/// A dispatch of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchInfo {
    /// The op that it does, or begins.
    pub op: &'static str,
    /// Layer of the op.
    pub layer: Option<usize>,
    /// Its code object and kernel: `linear_q4_k/matvec_1`.
    pub kernel: String,
    /// Workgroups.
    pub grid: [u32; 3],
    /// What it moves and computes.
    pub work: Work,
}

impl From<DriverError> for DeviceError {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::OutOfMemory { what, needed, available } => Self::Memory { what, needed, available, flag: "--ctx-size" },
            DriverError::Unavailable { .. } | DriverError::Architecture { .. } => Self::Unsupported(error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl Device for Gpu {
    fn name(&self) -> &str {
        self.name
    }

    fn memory(&self, model: &Model, limits: &Limits) -> Memory {
        compile::lower(model, limits, self.fuse).map_or_else(|_| Memory::default(), |p| p.memory(&model.plan, &model.weights, limits))
    }

    fn load(&self, model: Model, limits: &Limits, progress: &mut dyn FnMut(Progress)) -> Result<Box<dyn Executable>, DeviceError> {
        limits.check()?;
        let program = compile::lower(&model, limits, self.fuse).map_err(|ops| {
            let (device, plan) = (self.name.to_string(), model.plan.name.clone());
            DeviceError::Refused { device, plan, ops }
        })?;
        let driver = (self.open)()?;
        program.memory(&model.plan, &model.weights, limits).fits(driver.available())?;
        Ok(Box::new(GpuExecutable::load(driver, model, program, (limits, self.narrow, self.patience), progress)?))
    }
}
