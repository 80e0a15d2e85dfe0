//! What the engine asks of a GPU's driver, and the drivers that there are.
//!
//! A driver gives memory, loads code objects, and records commands into lists that are submitted as often as wanted. What changes from
//! step to step therefore lies in memory, where the host writes it, and not in the commands. Kernels take pointers first, then 32-bit
//! numbers: HRX passes pointers as bindings and numbers as constants, HIP both as one block of arguments.

#[cfg(feature = "cuda-dev")]
pub mod cuda;
pub mod hip;
pub mod hrx;
pub mod library;
pub mod probe;
mod session;
mod sim;
mod streams;

pub use sim::{Sim, SimOptions};

use std::time::Duration;
use thiserror::Error;

/// Why a driver could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DriverError {
    /// There is no such device, or its driver cannot be used.
    #[error("{driver} is not available: {why}")]
    Unavailable {
        /// The driver.
        driver: &'static str,
        /// What is missing, and where it was looked for.
        why: String,
    },
    /// The code is for another device.
    #[error("{object} is made for {made_for}, but the device is {device}")]
    Architecture {
        /// The code object.
        object: String,
        /// What it is for.
        made_for: String,
        /// What is there.
        device: String,
    },
    /// The code object is broken, or has no such kernel.
    #[error("{object}: {why}")]
    Code {
        /// The code object.
        object: String,
        /// What is wrong.
        why: String,
    },
    /// More memory was asked for than is left.
    #[error("{what} needs {needed} bytes of device memory, but {available} are left")]
    OutOfMemory {
        /// What it is for.
        what: String,
        /// Bytes asked for.
        needed: usize,
        /// Bytes left.
        available: usize,
    },
    /// A call of the driver's library has failed.
    #[error("{0}")]
    Failed(String),
    /// The device has not finished in time.
    #[error("the device has not finished: {0}")]
    Timeout(String),
    /// The device has broken down; nothing that is asked of it will succeed any more.
    #[error("the device is lost: {0}")]
    Lost(String),
    /// The caller's fault: an id that was never given, a place outside of its buffer.
    #[error("{0}")]
    Misuse(String),
}

/// A device, as its driver describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// A name for people.
    pub name: String,
    /// What code has to be made for: `gfx1151`.
    pub architecture: String,
    /// Bytes of memory in all.
    pub memory: usize,
    /// What drives it: version and file of the library, or nothing where there is none.
    pub driver: String,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $($(#[$doc])* #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)] pub struct $name(pub u32);)*
    };
}

ids! {
    /// Memory of the device.
    Buffer
    /// A kernel of a loaded code object.
    Kernel
    /// Recorded commands.
    CommandList
    /// A submission.
    Ticket
}

/// A place in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The buffer.
    pub buffer: Buffer,
    /// Bytes from its start.
    pub offset: usize,
}

/// Something for the device to do, after all commands before it in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Runs a kernel.
    Dispatch {
        /// Which.
        kernel: Kernel,
        /// Workgroups along x, y and z.
        grid: [u32; 3],
        /// The kernel's first arguments.
        pointers: Vec<Place>,
        /// Its other arguments.
        numbers: Vec<u32>,
    },
    /// Copies bytes; the two runs do not overlap.
    Copy {
        /// Where from.
        from: Place,
        /// Where to.
        to: Place,
        /// How many.
        bytes: usize,
    },
}

/// When a submission ran, by the device's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When it began.
    pub began: Duration,
    /// When it was done.
    pub ended: Duration,
}

/// A device and its driver.
pub trait Driver: Send {
    /// The driver's name: `sim`, `hip`.
    fn name(&self) -> &'static str;
    /// The device.
    fn device(&self) -> &DeviceInfo;
    /// Bytes that can still be had.
    fn available(&self) -> usize;
    /// Gives memory, whose start is a multiple of 256 and whose contents are not defined; `what` is for messages.
    fn allocate(&mut self, bytes: usize, what: &str) -> Result<Buffer, DriverError>;
    /// As [`allocate`](Self::allocate), for what the host writes often and the device reads once: without a copy, where their memory is
    /// one.
    fn allocate_shared(&mut self, bytes: usize, what: &str) -> Result<Buffer, DriverError> {
        self.allocate(bytes, what)
    }
    /// Gives memory back. No submission uses it any more.
    fn free(&mut self, buffer: Buffer);
    /// Copies to the device; done when it returns. No submission uses the place meanwhile.
    fn write(&mut self, to: Place, bytes: &[u8]) -> Result<(), DriverError>;
    /// Copies from the device; no submission writes to the place meanwhile.
    fn read(&mut self, from: Place, bytes: &mut [u8]) -> Result<(), DriverError>;
    /// A kernel of a code object, which is loaded when it is first asked for; `object` names it.
    fn kernel(&mut self, object: &str, code: &[u8], kernel: &str) -> Result<Kernel, DriverError>;
    /// Records commands.
    fn record(&mut self, commands: &[Command]) -> Result<CommandList, DriverError>;
    /// Gives a list back that no submission uses any more.
    fn forget(&mut self, list: CommandList);
    /// Has a list run, after everything that was submitted before.
    fn submit(&mut self, list: CommandList) -> Result<Ticket, DriverError>;
    /// Waits until a submission is done, for so long at most.
    fn wait(&mut self, ticket: Ticket, most: Duration) -> Result<Times, DriverError>;
}
