//! Decodes and executes code objects for gfx1151 (RDNA 3.5) in software.
//!
//! ```no_run
//! use rdna::{Arg, CodeObject, Device, Launch, Options};
//! let object = CodeObject::read(&std::fs::read("kernels.co")?)?;
//! let mut device = Device::new(Options::default());
//! let module = device.load(object)?;
//! let x = device.upload(&[0; 1024], "x")?;
//! let args = [Arg::Pointer(x), Arg::U32(256)];
//! let stats = device.launch(&module, "scale", &Launch { grid: [1, 1, 1], block: [256, 1, 1], args: &args, dynamic_lds: 0 })?;
//! println!("{} instructions", stats.instructions);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `isa` holds the instruction set as tables, one file per encoding; `decode` and `text` read them; `exec` runs what they say on the
//! 32 lanes of a wave; `launch` makes workgroups of waves; `check` finds what is wrong although it runs. The names are those of AMD's
//! "RDNA3.5 Instruction Set Architecture" guide and of LLVM's "User Guide for AMDGPU Backend".

#![allow(clippy::needless_range_loop)] // a loop over lanes indexes several registers

mod bytes;
mod check;
mod code_object;
pub mod decode;
mod elf;
mod exec;
mod fault;
mod float;
pub mod isa;
mod kernarg;
mod launch;
mod memory;
mod msgpack;
mod program;
mod stats;
mod text;
mod trace;
mod uses;

pub use check::Checks;
pub use code_object::{Argument, CodeObject, Descriptor, Kernel, UserSgprs};
pub use fault::{Fault, Kind, LoadError};
pub use kernarg::{Arg, ArgumentError};
pub use launch::{Device, Launch, LaunchError, Module, Options};
pub use memory::{Memory, MemoryError};
pub use program::disassemble;
pub use stats::{Bytes, Stats};
