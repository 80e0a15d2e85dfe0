//! The kernarg segment: explicit arguments, and the hidden ones that the run time fills in (AMDGPUUsage, "Code Object V5 Metadata").

use crate::{
    code_object::Kernel,
    exec::{PRIVATE_APERTURE, SHARED_APERTURE},
};
use thiserror::Error;

/// The value of an explicit argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// A device address.
    Pointer(u64),
    /// A 32-bit integer.
    U32(u32),
    /// A 64-bit integer.
    U64(u64),
    /// A single-precision number.
    F32(f32),
    /// A double-precision number.
    F64(f64),
    /// Any value, as it lies in memory.
    Bytes(Vec<u8>),
}

impl Arg {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Pointer(x) | Self::U64(x) => x.to_le_bytes().to_vec(),
            Self::U32(x) => x.to_le_bytes().to_vec(),
            Self::F32(x) => x.to_le_bytes().to_vec(),
            Self::F64(x) => x.to_le_bytes().to_vec(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

/// Arguments that do not fit the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArgumentError {
    /// Too few or too many.
    #[error("kernel {kernel} takes {wanted} arguments, {given} were given")]
    Count {
        /// The kernel.
        kernel: String,
        /// How many it takes.
        wanted: usize,
        /// How many there were.
        given: usize,
    },
    /// One of another size.
    #[error("kernel {kernel}: argument {index} ({name:?}, {kind}) has {wanted} bytes, {given} were given")]
    Size {
        /// The kernel.
        kernel: String,
        /// Which argument, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// Its kind.
        kind: String,
        /// Bytes it has.
        wanted: u32,
        /// Bytes there were.
        given: usize,
    },
}

/// What hidden arguments tell of a launch.
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_lds: u32,
}

/// Lays the explicit arguments out.
pub(crate) fn pack(kernel: &Kernel, args: &[Arg]) -> Result<Vec<u8>, ArgumentError> {
    let explicit: Vec<_> = kernel.arguments.iter().filter(|a| !a.hidden()).collect();
    if explicit.len() != args.len() {
        return Err(ArgumentError::Count { kernel: kernel.name.clone(), wanted: explicit.len(), given: args.len() });
    }
    // The segment lies at a multiple of 16, and LLVM reads its end in whole 16 bytes where that is fewer instructions.
    let mut segment = vec![0; (kernel.kernarg_bytes as usize).next_multiple_of(16)];
    for (index, (argument, value)) in explicit.into_iter().zip(args).enumerate() {
        let bytes = value.bytes();
        if bytes.len() != argument.size as usize {
            return Err(ArgumentError::Size {
                kernel: kernel.name.clone(),
                index,
                name: argument.name.clone(),
                kind: argument.kind.clone(),
                wanted: argument.size,
                given: bytes.len(),
            });
        }
        put(&mut segment, argument.offset, &bytes);
    }
    Ok(segment)
}

fn put(segment: &mut [u8], offset: u32, bytes: &[u8]) {
    // `Kernel::read` has checked that arguments lie within the segment.
    if let Some(slot) = segment.get_mut(offset as usize..offset as usize + bytes.len()) {
        slot.copy_from_slice(bytes);
    }
}

/// Fills in the hidden arguments. Those of services that do not exist here (printf, host calls, device enqueue) stay 0.
pub(crate) fn fill_hidden(kernel: &Kernel, shape: &Shape, segment: &mut [u8]) {
    for argument in kernel.arguments.iter().filter(|a| a.hidden()) {
        let (name, axis) = match argument.kind.trim_start_matches("hidden_").rsplit_once('_') {
            Some((name, axis @ ("x" | "y" | "z"))) => (name, usize::from(axis.as_bytes()[0] - b'x')),
            _ => (argument.kind.trim_start_matches("hidden_"), 0),
        };
        let value: u64 = match name {
            "block_count" => shape.grid[axis].into(),
            "group_size" => shape.block[axis].into(),
            "grid_dims" => shape.grid.iter().zip(shape.block).rposition(|(&g, b)| g > 1 || b > 1).unwrap_or(0) as u64 + 1,
            "private_base" => PRIVATE_APERTURE.into(),
            "shared_base" => SHARED_APERTURE.into(),
            "dynamic_lds_size" => shape.dynamic_lds.into(),
            // Whole workgroups only, so there is no remainder and no offset.
            _ => 0,
        };
        put(segment, argument.offset, &value.to_le_bytes()[..(argument.size as usize).min(8)]);
    }
}
