//! What goes wrong, and how it is told.

use std::fmt::{self, Display, Formatter};
use thiserror::Error;

/// Why a file cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file ends too soon.
    #[error("{what} needs {length} bytes at {at:#x}, but there are {size}")]
    Truncated {
        /// What was to be read.
        what: String,
        /// Where.
        at: u64,
        /// Bytes wanted.
        length: u64,
        /// Bytes there.
        size: u64,
    },
    /// The file contradicts itself or its format.
    #[error("malformed code object: {0}")]
    Malformed(String),
    /// A code object for something else.
    #[error("unsupported code object: {0}")]
    Unsupported(String),
    /// No kernel of that name.
    #[error("no kernel {name:?}; there are: {known}")]
    NoKernel {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: String,
    },
}

/// Kinds of faults of a running kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An access outside of what was allocated.
    OutOfBounds,
    /// An access that is not aligned as its size wants.
    Misaligned,
    /// Two waves touched a byte, one of them writing, with nothing in between that orders them.
    Race,
    /// A register or memory was read before anything wrote it.
    Uninitialized,
    /// An instruction or a feature that is not executed.
    Unsupported,
    /// The kernel trapped.
    Trap,
    /// More instructions than allowed, or waves that wait for each other forever.
    Hang,
}

impl Display for Kind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfBounds => "out of bounds",
            Self::Misaligned => "misaligned",
            Self::Race => "data race",
            Self::Uninitialized => "uninitialized read",
            Self::Unsupported => "unsupported",
            Self::Trap => "trap",
            Self::Hang => "hang",
        })
    }
}

/// A fault of a running kernel, and where it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind of fault.
    pub kind: Kind,
    /// The kernel.
    pub kernel: String,
    /// Address of the instruction within the code object.
    pub pc: u64,
    /// The instruction.
    pub text: String,
    /// Workgroup.
    pub workgroup: [u32; 3],
    /// Wave within the workgroup.
    pub wave: u32,
    /// Lanes concerned.
    pub lanes: u32,
    /// Address concerned.
    pub address: Option<u64>,
    /// What more is known.
    pub detail: String,
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.workgroup;
        write!(
            f,
            "{}: kernel {}, pc {:#x}, `{}`, workgroup ({x}, {y}, {z}), wave {}",
            self.kind, self.kernel, self.pc, self.text, self.wave
        )?;
        if self.lanes != 0 {
            write!(f, ", lanes {:#010x}", self.lanes)?;
        }
        if let Some(address) = self.address {
            write!(f, ", address {address:#x}")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
