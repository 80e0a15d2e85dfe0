//! A code object: kernels with their descriptors, metadata and code.

use crate::{LoadError, bytes, elf, msgpack};
use serde::Serialize;
use serde_json::Value;

/// A loaded code object.
#[derive(Debug)]
pub struct CodeObject {
    /// Code object version: 4, 5 or 6.
    pub version: u8,
    /// Its kernels, in the order of the metadata.
    pub kernels: Vec<Kernel>,
    pub(crate) segments: Vec<elf::Segment>,
    pub(crate) symbols: Vec<elf::Symbol>,
    pub(crate) relocations: Vec<elf::Relocation>,
}

/// A kernel of a code object.
#[derive(Debug, Clone, Serialize)]
pub struct Kernel {
    /// The name it is launched by.
    pub name: String,
    /// Virtual address of its first instruction within the code object.
    pub entry: u64,
    /// Bytes of code, as its symbol says.
    pub code_bytes: u64,
    /// Arguments, hidden ones included.
    pub arguments: Vec<Argument>,
    /// Bytes of the kernarg segment.
    pub kernarg_bytes: u32,
    /// LDS bytes of a workgroup, without what a launch adds.
    pub lds_bytes: u32,
    /// Scratch bytes of a lane.
    pub scratch_bytes: u32,
    /// SGPRs that the compiler says are used.
    pub sgprs: u32,
    /// VGPRs that the compiler says are used.
    pub vgprs: u32,
    /// SGPRs and VGPRs that were spilled.
    pub spills: [u32; 2],
    /// Largest workgroup that the compiler allowed for.
    pub max_workgroup: u32,
    /// The kernel descriptor.
    pub descriptor: Descriptor,
}

/// One argument of a kernel (metadata `.args`).
#[derive(Debug, Clone, Serialize)]
pub struct Argument {
    /// Its name, where the compiler kept it.
    pub name: String,
    /// `.value_kind`: `by_value`, `global_buffer`, `dynamic_shared_pointer`, `hidden_...`.
    pub kind: String,
    /// Byte offset within the kernarg segment.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
}

/// What the 64 bytes of a kernel descriptor say (AMDGPUUsage, "Kernel Descriptor").
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Descriptor {
    /// VGPRs that a wave is given.
    pub vgprs: u32,
    /// `FLOAT_MODE` and the bits after it: the initial MODE register.
    pub mode: u32,
    /// User SGPRs in all.
    pub user_sgprs: u32,
    /// Which user SGPRs are set up, in order.
    pub user: UserSgprs,
    /// Whether workgroup numbers x, y, z follow the user SGPRs.
    pub workgroup_id: [bool; 3],
    /// Whether a word with the count of waves follows.
    pub workgroup_info: bool,
    /// Dimensions of the work-item number in v0, less one.
    pub workitem_id: u32,
    /// Wave size 32 (else 64).
    pub wave32: bool,
    /// Whether scratch is used.
    pub scratch: bool,
}

/// User SGPRs that the descriptor asks for, in the order in which they are given.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct UserSgprs {
    /// A pointer to the dispatch packet.
    pub dispatch_pointer: bool,
    /// A pointer to the queue.
    pub queue_pointer: bool,
    /// A pointer to the arguments.
    pub kernarg_pointer: bool,
    /// The number of the dispatch.
    pub dispatch_id: bool,
    /// Scratch bytes of a lane.
    pub private_segment_size: bool,
}

impl CodeObject {
    /// Reads a code object for gfx1151.
    ///
    /// # Errors
    /// If the file is cut short or malformed, or made for another architecture, ABI or wave size.
    pub fn read(file: &[u8]) -> Result<Self, LoadError> {
        let elf = elf::Elf::read(file)?;
        if elf.metadata.is_empty() {
            return Err(LoadError::Malformed("no note with kernel metadata (owner AMDGPU, type 32)".into()));
        }
        let metadata = msgpack::read(&elf.metadata)?;
        if let Some(target) = metadata.get("amdhsa.target").and_then(Value::as_str)
            && !target.contains("gfx1151")
        {
            return Err(LoadError::Unsupported(format!("target {target}: wanted gfx1151")));
        }
        let kernels = metadata.get("amdhsa.kernels").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let kernels = kernels.iter().map(|k| Kernel::read(k, &elf)).collect::<Result<_, _>>()?;
        Ok(Self { version: elf.abi, kernels, segments: elf.segments, symbols: elf.symbols, relocations: elf.relocations })
    }

    /// The kernel of that name.
    ///
    /// # Errors
    /// If there is none; the error lists those there are.
    pub fn kernel(&self, name: &str) -> Result<&Kernel, LoadError> {
        self.kernels.iter().find(|k| k.name == name).ok_or_else(|| LoadError::NoKernel {
            name: name.to_string(),
            known: self.kernels.iter().map(|k| k.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// The functions of the code object: name, address, bytes; ordered by address.
    #[must_use]
    pub fn functions(&self) -> Vec<(&str, u64, u64)> {
        let mut functions: Vec<_> =
            self.symbols.iter().filter(|s| s.kind == 2 && s.size > 0).map(|s| (s.name.as_str(), s.value, s.size)).collect();
        functions.sort_by_key(|f| f.1);
        functions.dedup_by_key(|f| f.1);
        functions
    }

    /// The mapped bytes from `address` on.
    pub(crate) fn mapped(&self, address: u64, length: u64, what: &str) -> Result<&[u8], LoadError> {
        mapped(&self.segments, address, length, what)
    }
}

fn mapped<'a>(segments: &'a [elf::Segment], address: u64, length: u64, what: &str) -> Result<&'a [u8], LoadError> {
    let holds = |s: &&elf::Segment| address >= s.address && address - s.address < s.bytes.len() as u64;
    let segment = segments.iter().find(holds).ok_or_else(|| LoadError::Malformed(format!("{what} at {address:#x} is in no segment")))?;
    bytes::slice(&segment.bytes, address - segment.address, length, what)
}

/// Field `key` of the metadata as a number; 0 if it is absent.
fn number(map: &Value, key: &str) -> Result<u32, LoadError> {
    match map.get(key) {
        None => Ok(0),
        Some(value) => value
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(|| LoadError::Malformed(format!("metadata: {key} is {value}, which is no u32"))),
    }
}

fn text(map: &Value, key: &str) -> String {
    map.get(key).and_then(Value::as_str).unwrap_or_default().to_string()
}

impl Kernel {
    fn read(metadata: &Value, elf: &elf::Elf) -> Result<Self, LoadError> {
        let name = text(metadata, ".name");
        let symbol = text(metadata, ".symbol");
        let find = |name: &str| elf.symbols.iter().find(|s| s.name == name);
        let at = find(&symbol).ok_or_else(|| LoadError::Malformed(format!("kernel {name}: no symbol {symbol:?} for its descriptor")))?;
        let descriptor = mapped(&elf.segments, at.value, 64, &format!("descriptor of kernel {name}"))?;
        let offset = bytes::u64(descriptor, 16, "kernel_code_entry_byte_offset")?;
        let entry = at.value.wrapping_add(offset);
        let code_bytes = elf.symbols.iter().find(|s| s.kind == 2 && s.value == entry).map_or(0, |s| s.size);
        let end = entry.checked_add(code_bytes).ok_or_else(|| LoadError::Malformed(format!("kernel {name}: code wraps around")))?;
        let segment = elf.segments.iter().find(|s| s.executable && entry >= s.address && end - s.address <= s.bytes.len() as u64);
        if segment.is_none() || entry % 4 != 0 {
            return Err(LoadError::Malformed(format!("kernel {name}: its code {entry:#x}..{end:#x} is in no executable segment")));
        }
        let arguments = metadata.get(".args").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let arguments = arguments.iter().map(Argument::read).collect::<Result<Vec<_>, _>>()?;
        let kernarg_bytes = number(metadata, ".kernarg_segment_size")?;
        if let Some(a) = arguments.iter().find(|a| u64::from(a.offset) + u64::from(a.size) > u64::from(kernarg_bytes)) {
            return Err(LoadError::Malformed(format!(
                "kernel {name}: argument {:?} at {}..{} of a kernarg segment of {kernarg_bytes} bytes",
                a.name,
                a.offset,
                u64::from(a.offset) + u64::from(a.size)
            )));
        }
        if kernarg_bytes > 1 << 20 {
            return Err(LoadError::Malformed(format!("kernel {name}: {kernarg_bytes} bytes of arguments: at most 1 MiB is read")));
        }
        let kernel = Self {
            entry,
            code_bytes,
            arguments,
            kernarg_bytes,
            lds_bytes: bytes::u32(descriptor, 0, "group_segment_fixed_size")?,
            scratch_bytes: bytes::u32(descriptor, 4, "private_segment_fixed_size")?,
            sgprs: number(metadata, ".sgpr_count")?,
            vgprs: number(metadata, ".vgpr_count")?,
            spills: [number(metadata, ".sgpr_spill_count")?, number(metadata, ".vgpr_spill_count")?],
            max_workgroup: number(metadata, ".max_flat_workgroup_size")?,
            descriptor: Descriptor::read(descriptor)?,
            name,
        };
        kernel.check_limits()?;
        Ok(kernel)
    }

    fn check_limits(&self) -> Result<(), LoadError> {
        let refuse = |why: String| Err(LoadError::Unsupported(format!("kernel {}: {why}", self.name)));
        if !self.descriptor.wave32 {
            return refuse("made for wave size 64: only 32 is executed".into());
        }
        if self.lds_bytes > 65536 {
            return refuse(format!("{} bytes of LDS: a workgroup has at most 65536", self.lds_bytes));
        }
        if self.scratch_bytes > 1 << 20 {
            return refuse(format!("{} bytes of scratch a lane: at most 1 MiB is given", self.scratch_bytes));
        }
        Ok(())
    }
}

impl Argument {
    fn read(map: &Value) -> Result<Self, LoadError> {
        Ok(Self { name: text(map, ".name"), kind: text(map, ".value_kind"), offset: number(map, ".offset")?, size: number(map, ".size")? })
    }

    /// Whether the run time fills it in rather than the caller.
    #[must_use]
    pub fn hidden(&self) -> bool {
        self.kind.starts_with("hidden_")
    }
}

impl Descriptor {
    fn read(d: &[u8]) -> Result<Self, LoadError> {
        let rsrc1 = bytes::u32(d, 48, "compute_pgm_rsrc1")?;
        let rsrc2 = bytes::u32(d, 52, "compute_pgm_rsrc2")?;
        let properties = u32::from(bytes::u16(d, 56, "kernel_code_properties")?);
        let bit = |word: u32, at: u32| word >> at & 1 == 1;
        let wave32 = bit(properties, 10);
        Ok(Self {
            // Granules of 8 registers for wave size 32 (RDNA 3: of 1536 registers per lane, gfx1151 gives granules of 24 at run time).
            vgprs: ((rsrc1 & 63) + 1) * if wave32 { 8 } else { 4 },
            mode: (rsrc1 >> 12 & 0xff) | u32::from(bit(rsrc1, 21)) << 8 | u32::from(bit(rsrc1, 23)) << 9,
            user_sgprs: rsrc2 >> 1 & 31,
            user: UserSgprs {
                dispatch_pointer: bit(properties, 1),
                queue_pointer: bit(properties, 2),
                kernarg_pointer: bit(properties, 3),
                dispatch_id: bit(properties, 4),
                private_segment_size: bit(properties, 6),
            },
            workgroup_id: [bit(rsrc2, 7), bit(rsrc2, 8), bit(rsrc2, 9)],
            workgroup_info: bit(rsrc2, 10),
            workitem_id: rsrc2 >> 11 & 3,
            wave32,
            scratch: bit(rsrc2, 0),
        })
    }
}
