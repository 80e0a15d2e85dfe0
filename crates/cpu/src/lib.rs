//! Runs a plan on a CPU.
//!
//! [`Cpu`] is the device. Loading packs the weights for the machine's instructions (`matmul`), rewrites the plan into
//! fewer and larger steps, and gives values places in a few buffers (`exec`); what each step does is in `ops`. A step of
//! the model is one run of the thread pool over the list, with barriers where data crosses threads, and allocates nothing.

mod device;
mod exec;
pub mod isa;
mod machine;
pub mod matmul;
mod ops;
pub mod pool;
mod roof;

pub use device::Cpu;
pub use exec::profile::{Event, Profile, ProfileRow};
pub use machine::{available_memory, processor_name};
pub use ops::effort::Effort;
pub use roof::Roof;
