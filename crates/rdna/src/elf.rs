//! The parts of ELF64 that AMD's code objects use (System V gABI; LLVM's "User Guide for AMDGPU Backend", section ELF Code Object).

use crate::{LoadError, bytes};

/// `e_machine` of AMD GPUs.
const EM_AMDGPU: u16 = 224;
/// `EI_OSABI` of HSA.
const ELFOSABI_AMDGPU_HSA: u8 = 64;
/// `EI_ABIVERSION` of code objects version 4, 5 and 6. Version 4 has the kernarg of version 5 without the new hidden arguments.
const ABI_VERSIONS: [(u8, u8); 3] = [(2, 4), (3, 5), (4, 6)];
/// `EF_AMDGPU_MACH` of gfx1151.
const MACH_GFX1151: u32 = 0x4a;
const MACH_MASK: u32 = 0xff;
/// No file of ours has more; a count beyond it is a broken file.
const MAX_ENTRIES: u64 = 100_000;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const SHT_RELA: u32 = 4;
const R_AMDGPU_RELATIVE64: u32 = 13;

/// A symbol with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) value: u64,
    pub(crate) size: u64,
    /// `STT_*`: 1 is an object, 2 a function.
    pub(crate) kind: u8,
}

/// Bytes that are mapped at a virtual address.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) executable: bool,
}

/// A 64-bit word that holds the load address plus a number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Relocation {
    pub(crate) at: u64,
    pub(crate) addend: i64,
}

/// What a code object consists of.
#[derive(Debug)]
pub(crate) struct Elf {
    pub(crate) abi: u8,
    pub(crate) segments: Vec<Segment>,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) relocations: Vec<Relocation>,
    /// Contents of the note `NT_AMDGPU_METADATA` of owner `AMDGPU`.
    pub(crate) metadata: Vec<u8>,
}

impl Elf {
    pub(crate) fn read(file: &[u8]) -> Result<Self, LoadError> {
        let ident = bytes::slice(file, 0, 16, "ELF header")?;
        if &ident[..4] != b"\x7fELF" {
            return Err(LoadError::Malformed("this is no ELF file (its first bytes are not 7f 45 4c 46)".into()));
        }
        if ident[4] != 2 || ident[5] != 1 {
            return Err(LoadError::Unsupported(format!("class {} and data {}: wanted 64 bits, little endian (2, 1)", ident[4], ident[5])));
        }
        let machine = bytes::u16(file, 18, "e_machine")?;
        if machine != EM_AMDGPU {
            return Err(LoadError::Unsupported(format!("machine {machine}: wanted AMD GPU ({EM_AMDGPU})")));
        }
        if ident[7] != ELFOSABI_AMDGPU_HSA {
            return Err(LoadError::Unsupported(format!("OS ABI {}: wanted AMD HSA ({ELFOSABI_AMDGPU_HSA})", ident[7])));
        }
        let abi = ABI_VERSIONS.iter().find(|(id, _)| *id == ident[8]).map(|(_, version)| *version);
        let abi = abi
            .ok_or_else(|| LoadError::Unsupported(format!("ABI version {}: wanted 2, 3 or 4 (code object version 4, 5 or 6)", ident[8])))?;
        let flags = bytes::u32(file, 48, "e_flags")?;
        if flags & MACH_MASK != MACH_GFX1151 {
            return Err(LoadError::Unsupported(format!(
                "architecture {:#04x} ({}): wanted gfx1151 ({MACH_GFX1151:#04x})",
                flags & MACH_MASK,
                architecture(flags & MACH_MASK)
            )));
        }
        let (segments, metadata) = program_headers(file)?;
        let relocations = relocations(file)?;
        Ok(Self { abi, segments, symbols: symbols(file)?, relocations, metadata })
    }
}

/// Names of architectures that one meets instead of the wanted one.
fn architecture(mach: u32) -> &'static str {
    const NAMES: [(u32, &str); 12] = [
        (0x2f, "gfx906"),
        (0x30, "gfx908"),
        (0x3f, "gfx90a"),
        (0x4c, "gfx942"),
        (0x36, "gfx1030"),
        (0x41, "gfx1100"),
        (0x46, "gfx1101"),
        (0x47, "gfx1102"),
        (0x44, "gfx1103"),
        (0x43, "gfx1150"),
        (0x48, "gfx1200"),
        (0x4e, "gfx1201"),
    ];
    NAMES.iter().find(|(id, _)| *id == mach).map_or("unknown", |(_, name)| name)
}

fn program_headers(file: &[u8]) -> Result<(Vec<Segment>, Vec<u8>), LoadError> {
    let offset = bytes::u64(file, 32, "e_phoff")?;
    let entry = u64::from(bytes::u16(file, 54, "e_phentsize")?);
    let count = u64::from(bytes::u16(file, 56, "e_phnum")?);
    if count > 0 && entry < 56 {
        return Err(LoadError::Malformed(format!("program headers of {entry} bytes: an ELF64 one has 56")));
    }
    let (mut segments, mut metadata) = (Vec::new(), Vec::new());
    for i in 0..count {
        let at = offset.saturating_add(i * entry);
        let what = format!("program header {i}");
        let header = bytes::slice(file, at, 56, &what)?;
        let field = |at| bytes::u64(header, at, &what);
        let (kind, flags) = (bytes::u32(header, 0, &what)?, bytes::u32(header, 4, &what)?);
        let (start, address, in_file, in_memory) = (field(8)?, field(16)?, field(32)?, field(40)?);
        match kind {
            PT_LOAD => {
                let contents = bytes::slice(file, start, in_file, &format!("segment {i}"))?;
                // Zeroed memory beyond the file's bytes is bounded, so that a broken size takes no memory.
                if in_memory < in_file || in_memory - in_file > 1 << 30 || address.checked_add(in_memory).is_none() {
                    return Err(LoadError::Malformed(format!("segment {i}: {in_memory} bytes of memory for {in_file} of the file")));
                }
                let mut contents = contents.to_vec();
                contents.resize(in_memory as usize, 0);
                segments.push(Segment { address, bytes: contents, executable: flags & 1 != 0 });
            }
            PT_NOTE => {
                if let Some(note) = amdgpu_note(bytes::slice(file, start, in_file, &format!("note segment {i}"))?)? {
                    metadata = note;
                }
            }
            _ => {}
        }
    }
    segments.sort_by_key(|s| s.address);
    Ok((segments, metadata))
}

/// The description of the note with owner `AMDGPU` and type 32 (`NT_AMDGPU_METADATA`).
fn amdgpu_note(notes: &[u8]) -> Result<Option<Vec<u8>>, LoadError> {
    let mut at = 0u64;
    while at + 12 <= notes.len() as u64 {
        let name = u64::from(bytes::u32(notes, at, "note")?);
        let description = u64::from(bytes::u32(notes, at + 4, "note")?);
        let kind = bytes::u32(notes, at + 8, "note")?;
        let owner = bytes::slice(notes, at + 12, name, "note's owner")?;
        let start = at + 12 + name.next_multiple_of(4);
        let contents = bytes::slice(notes, start, description, "note's description")?;
        if kind == 32 && owner.strip_suffix(b"\0") == Some(b"AMDGPU") {
            return Ok(Some(contents.to_vec()));
        }
        at = start + description.next_multiple_of(4);
    }
    Ok(None)
}

/// The section headers, 64 bytes each.
fn sections(file: &[u8]) -> Result<Vec<&[u8]>, LoadError> {
    let offset = bytes::u64(file, 40, "e_shoff")?;
    let entry = u64::from(bytes::u16(file, 58, "e_shentsize")?);
    let count = u64::from(bytes::u16(file, 60, "e_shnum")?);
    if count > 0 && entry < 64 {
        return Err(LoadError::Malformed(format!("section headers of {entry} bytes: an ELF64 one has 64")));
    }
    (0..count).map(|i| bytes::slice(file, offset.saturating_add(i * entry), 64, &format!("section header {i}"))).collect()
}

fn contents<'a>(file: &'a [u8], header: &[u8], what: &str) -> Result<&'a [u8], LoadError> {
    bytes::slice(file, bytes::u64(header, 24, "sh_offset")?, bytes::u64(header, 32, "sh_size")?, what)
}

/// Relocations with explicit addends; only those against the load address exist in linked code objects.
fn relocations(file: &[u8]) -> Result<Vec<Relocation>, LoadError> {
    let mut relocations = Vec::new();
    for header in sections(file)? {
        if bytes::u32(header, 4, "sh_type")? != SHT_RELA {
            continue;
        }
        for entry in contents(file, header, "relocations")?.chunks_exact(24) {
            let (at, info, addend) =
                (bytes::u64(entry, 0, "r_offset")?, bytes::u64(entry, 8, "r_info")?, bytes::u64(entry, 16, "r_addend")?);
            if info as u32 != R_AMDGPU_RELATIVE64 {
                return Err(LoadError::Unsupported(format!(
                    "relocation type {} at {at:#x}: only {R_AMDGPU_RELATIVE64} is known",
                    info as u32
                )));
            }
            relocations.push(Relocation { at, addend: addend as i64 });
        }
    }
    Ok(relocations)
}

fn symbols(file: &[u8]) -> Result<Vec<Symbol>, LoadError> {
    let sections = sections(file)?;
    let mut symbols: Vec<Symbol> = Vec::new();
    for header in &sections {
        if ![SHT_SYMTAB, SHT_DYNSYM].contains(&bytes::u32(header, 4, "sh_type")?) {
            continue;
        }
        let table = contents(file, header, "symbol table")?;
        if table.len() as u64 / 24 > MAX_ENTRIES {
            return Err(LoadError::Malformed(format!("{} symbols: at most {MAX_ENTRIES} are read", table.len() / 24)));
        }
        let link = bytes::u32(header, 40, "sh_link")?;
        let strings = sections.get(link as usize).ok_or_else(|| LoadError::Malformed(format!("sh_link {link} is no section")))?;
        let strings = contents(file, strings, "string table")?;
        for symbol in table.chunks_exact(24) {
            let name = bytes::text(strings, u64::from(bytes::u32(symbol, 0, "symbol")?), "symbol's name")?;
            let symbol = Symbol {
                name: name.to_string(),
                value: bytes::u64(symbol, 8, "symbol")?,
                size: bytes::u64(symbol, 16, "symbol")?,
                kind: symbol[4] & 15,
            };
            if !symbol.name.is_empty() && !symbols.contains(&symbol) {
                symbols.push(symbol);
            }
        }
    }
    Ok(symbols)
}
