//! Loads, stores and atomics: scalar, local, and those of lanes.

use super::{Exec, Flow, wave};
use crate::{
    check::{Access, Space},
    decode::{Inst, operand},
    fault::Kind,
    isa::{Encoding, Half, LANES, Lanes, Memory, Run},
};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Up to four words that a lane loads or stores.
type Words = [u32; 4];

fn operation(inst: &Inst) -> Option<Memory> {
    match inst.op.run {
        Run::Memory(memory) => Some(memory),
        _ => None,
    }
}

fn register(number: u16) -> usize {
    usize::from(number.wrapping_sub(operand::VGPR)) & 255
}

/// `s_load_*`: the address' low two bits are ignored.
pub(crate) fn scalar_load(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let Some(Memory::Load { bytes, .. }) = operation(inst) else { return Flow::Next };
    let wave = &*exec.wave;
    let offset = wave.s[usize::from(inst.saddr) & 127];
    let base = wave.s64(inst.src[0].into()).wrapping_add(offset.into()).wrapping_add_signed(inst.offset.into());
    let address = base & !3;
    let mut addresses = [0; LANES];
    addresses[0] = address;
    let access =
        Access { space: Space::Global, addresses: &addresses, lanes: 1, bytes: bytes.into(), reads: true, writes: false, atomic: false };
    let (region, at) = match exec.memory.locate(address, bytes.into()) {
        Ok(found) => found,
        Err(error) => return exec.fail(inst, Kind::OutOfBounds, 0, Some(address), error.to_string()),
    };
    if base & 3 != 0 && exec.checker.is_some() {
        return exec.fail(inst, Kind::Misaligned, 0, Some(base), "scalar loads are of aligned words");
    }
    for i in 0..bytes / 4 {
        let value = region.load32(at + u64::from(i) * 4);
        exec.wave.set_s(usize::from(inst.dst + i), value);
    }
    if exec.checked(inst, access) { Flow::Next } else { Flow::Fault }
}

/// The addresses of an operation of lanes, and the space they are in.
#[inline(always)]
fn addresses(exec: &Exec<'_>, inst: &Inst) -> [u64; LANES] {
    let wave = &*exec.wave;
    let first = register(inst.src[0]);
    let low = &wave.v[first];
    let scalar = u16::from(inst.saddr) != operand::NULL;
    let mut out = [0u64; LANES];
    if inst.op.name.ends_with("addtid_b32") {
        let base = if scalar { wave.s64(inst.saddr.into()) } else { 0 };
        for (l, address) in out.iter_mut().enumerate() {
            *address = base.wrapping_add_signed(inst.offset.into()).wrapping_add(4 * l as u64);
        }
    } else if inst.encoding == Encoding::Scratch {
        let base = if scalar { wave.s[usize::from(inst.saddr) & 127] } else { 0 };
        for l in 0..LANES {
            let lane = if inst.vaddr { low[l] } else { 0 };
            out[l] = base.wrapping_add(lane).wrapping_add_signed(inst.offset).into();
        }
    } else if scalar {
        let base = wave.s64(inst.saddr.into()).wrapping_add_signed(inst.offset.into());
        for l in 0..LANES {
            out[l] = base.wrapping_add(low[l].into());
        }
    } else {
        let high = &wave.v[(first + 1) & 255];
        for l in 0..LANES {
            out[l] = (u64::from(low[l]) | u64::from(high[l]) << 32).wrapping_add_signed(inst.offset.into());
        }
    }
    out
}

/// FLAT, SCRATCH and GLOBAL. FLAT addresses may lie in LDS or in private memory, each lane's on its own.
#[inline(always)]
pub(crate) fn lanes(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let Some(memory) = operation(inst) else { return Flow::Next };
    let mut addresses = addresses(exec, inst);
    let mask = exec.wave.exec();
    if inst.encoding != Encoding::Flat {
        let space = if inst.encoding == Encoding::Scratch { Space::Private } else { Space::Global };
        return access(exec, inst, memory, space, &addresses, mask);
    }
    let mut masks = [0u32; 3];
    for l in (0..LANES).filter(|l| mask >> l & 1 == 1) {
        let which = match (addresses[l] >> 32) as u32 {
            wave::SHARED_APERTURE => 1,
            wave::PRIVATE_APERTURE => 2,
            _ => 0,
        };
        masks[which] |= 1 << l;
        if which != 0 {
            addresses[l] &= 0xffff_ffff;
        }
    }
    for (space, mask) in [Space::Global, Space::Local, Space::Private].into_iter().zip(masks) {
        if mask != 0 && access(exec, inst, memory, space, &addresses, mask) == Flow::Fault {
            return Flow::Fault;
        }
    }
    Flow::Next
}

/// DS operations on memory.
#[inline(always)]
pub(crate) fn local(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let Some(memory) = operation(inst) else { return Flow::Next };
    let mask = exec.wave.exec();
    let mut addresses = [0u64; LANES];
    let first = &exec.wave.v[register(inst.src[0])];
    let by_lane = matches!(memory, Memory::LoadLane | Memory::StoreLane);
    let pair = matches!(memory, Memory::Load2 { .. } | Memory::Store2 { .. } | Memory::Exchange2 { .. });
    let m0 = exec.wave.s[usize::from(operand::M0)] & 0xffff;
    let offset = if pair { 0 } else { inst.offset as u32 };
    for l in 0..LANES {
        let base = if by_lane { m0.wrapping_add(4 * l as u32) } else { first[l] };
        addresses[l] = base.wrapping_add(offset).into();
    }
    if !pair {
        return access(exec, inst, memory, Space::Local, &addresses, mask);
    }
    two_addresses(exec, inst, memory, &addresses, mask)
}

/// Two elements of one operation, at offsets counted in elements.
fn two_addresses(exec: &mut Exec<'_>, inst: &Inst, memory: Memory, base: &[u64; LANES], mask: u32) -> Flow {
    let (Memory::Load2 { bytes, stride } | Memory::Store2 { bytes, stride } | Memory::Exchange2 { bytes, stride }) = memory else {
        return Flow::Next;
    };
    let count = usize::from(bytes / 4);
    let mut loaded = [[Lanes([0; LANES]); 4]; 2];
    for (which, loaded) in loaded.iter_mut().enumerate() {
        let offset = u64::from(inst.offset as u32 >> (8 * which) & 255) * u64::from(bytes) * u64::from(stride);
        let at = base.map(|a| (a + offset) & 0xffff_ffff);
        let (reads, writes) = (!matches!(memory, Memory::Store2 { .. }), !matches!(memory, Memory::Load2 { .. }));
        let access = Access { space: Space::Local, addresses: &at, lanes: mask, bytes: bytes.into(), reads, writes, atomic: false };
        if !exec.checked(inst, access) {
            return Flow::Fault;
        }
        if reads && !load(exec, inst, Space::Local, &at, mask, bytes, loaded) {
            return Flow::Fault;
        }
        if writes {
            let data = register(inst.src[1 + which]);
            let words: [Lanes; 4] = std::array::from_fn(|i| exec.wave.v[(data + i.min(count - 1)) & 255]);
            if !store(exec, inst, Space::Local, &at, mask, bytes, &words) {
                return Flow::Fault;
            }
        }
    }
    if !matches!(memory, Memory::Store2 { .. }) {
        for (which, loaded) in loaded.iter().enumerate() {
            for (i, word) in loaded.iter().enumerate().take(count) {
                exec.wave.set_v(usize::from(inst.dst) + which * count + i, word, mask);
            }
        }
    }
    Flow::Next
}

/// One load, store or atomic of the lanes in `mask`.
#[inline(always)]
fn access(exec: &mut Exec<'_>, inst: &Inst, memory: Memory, space: Space, addresses: &[u64; LANES], mask: u32) -> Flow {
    if mask == 0 {
        return Flow::Next;
    }
    let (bytes, reads, writes, at_once) = match memory {
        Memory::Load { bytes, .. } => (bytes, true, false, false),
        Memory::Store { bytes, .. } => (bytes, false, true, false),
        Memory::Atomic { bytes, .. } => (bytes, true, true, true),
        Memory::LoadLane => (4, true, false, false),
        _ => (4, false, true, false),
    };
    if exec.checker.is_some() {
        let access = Access { space, addresses, lanes: mask, bytes: bytes.into(), reads, writes, atomic: at_once };
        if !exec.checked(inst, access) {
            return Flow::Fault;
        }
    }
    let done = match memory {
        Memory::Load { signed, half, .. } => load_into(exec, inst, space, addresses, mask, bytes, signed, half),
        Memory::LoadLane => load_into(exec, inst, space, addresses, mask, 4, false, Half::Whole),
        Memory::Store { half, .. } => {
            let data = register(inst.src[1]);
            let mut words: [Lanes; 4] = std::array::from_fn(|i| exec.wave.v[(data + i) & 255]);
            if half == Half::High {
                words[0].0.iter_mut().for_each(|x| *x >>= 16);
            }
            store(exec, inst, space, addresses, mask, bytes, &words)
        }
        Memory::Atomic { update, operands, returns, .. } => {
            let returns = if space == Space::Local && inst.encoding == Encoding::Ds { returns } else { inst.cache & 1 == 1 };
            atomic(exec, inst, space, addresses, mask, bytes, update, operands, returns)
        }
        _ => {
            let words = [exec.wave.v[register(inst.src[1])]; 4];
            store(exec, inst, space, addresses, mask, 4, &words)
        }
    };
    if done { Flow::Next } else { Flow::Fault }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)] // a load's description, taken apart once
fn load_into(exec: &mut Exec<'_>, inst: &Inst, space: Space, at: &[u64; LANES], mask: u32, bytes: u8, signed: bool, half: Half) -> bool {
    let mut words = [Lanes([0; LANES]); 4];
    if !load(exec, inst, space, at, mask, bytes, &mut words) {
        return false;
    }
    let dst = usize::from(inst.dst);
    if bytes < 4 {
        let old = exec.wave.v[dst & 255];
        for l in 0..LANES {
            let shift = 32 - 8 * u32::from(bytes);
            let value = if signed { ((words[0][l] << shift) as i32 >> shift) as u32 } else { words[0][l] };
            words[0][l] = match half {
                Half::Whole => value,
                Half::Low => old[l] & 0xffff_0000 | value & 0xffff,
                Half::High => old[l] & 0xffff | value << 16,
            };
        }
    }
    for (i, word) in words.iter().enumerate().take(usize::from(bytes).div_ceil(4)) {
        exec.wave.set_v(dst + i, word, mask);
    }
    true
}

/// Loads each lane's words; false if that was a fault.
#[inline(always)]
fn load(exec: &mut Exec<'_>, inst: &Inst, space: Space, at: &[u64; LANES], mask: u32, bytes: u8, out: &mut [Lanes; 4]) -> bool {
    if space == Space::Global {
        return load_global(exec, inst, at, mask, bytes, out);
    }
    for l in (0..LANES).filter(|l| mask >> l & 1 == 1) {
        let Some(slot) = slot(exec, inst, space, l, at[l], bytes) else { return false };
        if let Some(slots) = slot.first_chunk::<4>().filter(|_| bytes == 4) {
            out[0][l] = u32::from_le_bytes(*slots);
            continue;
        }
        for (word, chunk) in out.iter_mut().zip(slot.chunks(4)) {
            word[l] = chunk.iter().rev().fold(0, |n, &b| n << 8 | u32::from(b));
        }
    }
    true
}

#[inline(always)]
fn load_global(exec: &mut Exec<'_>, inst: &Inst, at: &[u64; LANES], mask: u32, bytes: u8, out: &mut [Lanes; 4]) -> bool {
    let (low, high) = range(at, mask);
    let span = (high - low).saturating_add(bytes.into());
    let memory = exec.memory;
    // Usually all lanes are within one allocation, and words are aligned.
    if let Some((region, first)) = memory.locate_near(&mut exec.near, low, span) {
        // Inactive lanes read what the lowest address holds, so that the loop has no branches.
        let mut offsets = [0u64; LANES];
        let mut odd = first;
        for l in 0..LANES {
            offsets[l] = first + if mask >> l & 1 == 1 { at[l] - low } else { 0 };
            odd |= offsets[l];
        }
        if bytes >= 4 && odd % 4 == 0 {
            let words = region.words();
            match bytes {
                4 => gather::<1>(words, &offsets, out),
                8 => gather::<2>(words, &offsets, out),
                12 => gather::<3>(words, &offsets, out),
                _ => gather::<4>(words, &offsets, out),
            }
            return true;
        }
        if bytes < 4 {
            for l in 0..LANES {
                out[0][l] = region.load_bytes(offsets[l], bytes.into());
            }
            return true;
        }
    }
    for l in (0..LANES).filter(|l| mask >> l & 1 == 1) {
        let (region, at) = match memory.locate(at[l], bytes.into()) {
            Ok(found) => found,
            Err(error) => {
                exec.fail(inst, Kind::OutOfBounds, 1 << l, Some(at[l]), error.to_string());
                return false;
            }
        };
        if bytes < 4 {
            out[0][l] = region.load_bytes(at, bytes.into());
        } else {
            for (i, word) in out.iter_mut().enumerate().take(usize::from(bytes / 4)) {
                word[l] = region.load32(at + 4 * i as u64);
            }
        }
    }
    true
}

/// N words at the offset of each lane.
#[inline(always)]
fn gather<const N: usize>(words: &[AtomicU32], offsets: &[u64; LANES], out: &mut [Lanes; 4]) {
    for l in 0..LANES {
        let index = (offsets[l] / 4) as usize;
        let Some(found) = words.get(index..index + N) else { continue };
        for i in 0..N {
            out[i][l] = found[i].load(Relaxed);
        }
    }
}

/// The lowest and highest address of active lanes.
#[inline(always)]
fn range(at: &[u64; LANES], mask: u32) -> (u64, u64) {
    let (mut low, mut high) = (u64::MAX, 0);
    for (l, &a) in at.iter().enumerate() {
        let active = mask >> l & 1 == 1;
        low = if active && a < low { a } else { low };
        high = if active && a > high { a } else { high };
    }
    (low, high)
}

/// Stores each lane's words, the lowest lane first.
fn store(exec: &mut Exec<'_>, inst: &Inst, space: Space, at: &[u64; LANES], mask: u32, bytes: u8, words: &[Lanes; 4]) -> bool {
    for l in (0..LANES).filter(|l| mask >> l & 1 == 1) {
        let values: Words = [words[0][l], words[1][l], words[2][l], words[3][l]];
        if space == Space::Global {
            let (region, at) = match exec.memory.locate(at[l], bytes.into()) {
                Ok(found) => found,
                Err(error) => {
                    exec.fail(inst, Kind::OutOfBounds, 1 << l, Some(at[l]), error.to_string());
                    return false;
                }
            };
            if bytes < 4 {
                region.store_bytes(at, values[0], bytes.into());
            } else {
                for (i, &value) in values.iter().enumerate().take(usize::from(bytes / 4)) {
                    region.store32(at + 4 * i as u64, value);
                }
            }
        } else {
            let Some(slot) = slot(exec, inst, space, l, at[l], bytes) else { return false };
            for (chunk, value) in slot.chunks_mut(4).zip(values) {
                chunk.copy_from_slice(&value.to_le_bytes()[..chunk.len()]);
            }
        }
    }
    true
}

#[allow(clippy::too_many_arguments)] // an atomic's description, taken apart once
fn atomic(
    exec: &mut Exec<'_>,
    inst: &Inst,
    space: Space,
    at: &[u64; LANES],
    mask: u32,
    bytes: u8,
    update: crate::isa::AtomicFn,
    operands: u8,
    returns: bool,
) -> bool {
    let count = usize::from(bytes / 4);
    let data = register(inst.src[1]);
    // DS has the second operand in registers of its own, the others behind the first.
    let second = if inst.encoding == Encoding::Ds { register(inst.src[2]) } else { data + count };
    let value = |exec: &Exec<'_>, first: usize, l: usize| {
        let high = if count == 2 { exec.wave.v[(first + 1) & 255][l] } else { 0 };
        u64::from(exec.wave.v[first & 255][l]) | u64::from(high) << 32
    };
    let mut old = [Lanes([0; LANES]); 2];
    for l in (0..LANES).filter(|l| mask >> l & 1 == 1) {
        let (a, b) = (value(exec, data, l), if operands == 2 { value(exec, second, l) } else { 0 });
        if !at[l].is_multiple_of(bytes.into()) {
            exec.fail(inst, Kind::Misaligned, 1 << l, Some(at[l]), format!("an atomic of {bytes} bytes"));
            return false;
        }
        let before = if space == Space::Global {
            let memory = exec.memory;
            match memory.locate(at[l], bytes.into()) {
                Ok((region, at)) => memory.update(region, at, bytes, |old| update(old, a, b)),
                Err(error) => {
                    exec.fail(inst, Kind::OutOfBounds, 1 << l, Some(at[l]), error.to_string());
                    return false;
                }
            }
        } else {
            let Some(slot) = slot(exec, inst, space, l, at[l], bytes) else { return false };
            let before = slot.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
            slot.copy_from_slice(&update(before, a, b).to_le_bytes()[..usize::from(bytes)]);
            before
        };
        old[0][l] = before as u32;
        old[1][l] = (before >> 32) as u32;
    }
    if returns {
        for (i, word) in old.iter().enumerate().take(count) {
            exec.wave.set_v(usize::from(inst.dst) + i, word, mask);
        }
    }
    true
}

/// Bytes of LDS, or of a lane's private memory.
fn slot<'e>(exec: &'e mut Exec<'_>, inst: &Inst, space: Space, lane: usize, address: u64, bytes: u8) -> Option<&'e mut [u8]> {
    let (size, start) = match space {
        Space::Private => (u64::from(exec.wave.scratch_lane), lane as u64 * u64::from(exec.wave.scratch_lane)),
        _ => (exec.lds.len() as u64, 0),
    };
    if address + u64::from(bytes) > size {
        let what = if space == Space::Private { "a lane's scratch" } else { "the workgroup's LDS" };
        exec.fail(inst, Kind::OutOfBounds, 1 << lane, Some(address), format!("{bytes} bytes of {what}, which has {size}"));
        return None;
    }
    let at = (start + address) as usize..(start + address) as usize + usize::from(bytes);
    match space {
        Space::Private => exec.wave.scratch.get_mut(at),
        _ => exec.lds.get_mut(at),
    }
}
