//! DS operations that exchange values between lanes, or that one lane does for all.

use super::{Exec, Flow};
use crate::{
    check::{Access, Space},
    decode::{Inst, operand},
    fault::Kind,
    isa::{LANES, Lanes},
};

fn register(inst: &Inst, index: usize) -> usize {
    usize::from(inst.src[index].wrapping_sub(operand::VGPR)) & 255
}

/// `ds_swizzle_b32` (ISA guide, `DS_SWIZZLE_B32`).
pub(crate) fn swizzle(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let offset = inst.offset as u32;
    let (source, mask) = (exec.wave.v[register(inst, 0)], exec.wave.exec());
    let mut out = Lanes([0; LANES]);
    for l in 0..LANES {
        let from = swizzle_source(offset, l as u32) as usize;
        out[l] = if mask >> from & 1 == 1 { source[from] } else { 0 };
    }
    exec.wave.set_v(inst.dst.into(), &out, mask);
    Flow::Next
}

fn swizzle_source(offset: u32, lane: u32) -> u32 {
    if offset >= 0xe000 {
        // Decomposition of an FFT: the reversed lane number, shifted by the bits that stay.
        let mask = offset & 31;
        (lane.reverse_bits() >> 27 >> mask.count_ones()) | lane & mask
    } else if offset >= 0xc000 {
        let (mask, count) = (offset & 31, offset >> 5 & 31);
        let turned = if offset >> 10 & 1 == 1 { lane.wrapping_sub(count) } else { lane.wrapping_add(count) };
        lane & mask | turned & !mask & 31
    } else if offset & 0x8000 != 0 {
        lane & !3 | offset >> (2 * (lane & 3)) & 3
    } else {
        ((lane & (offset & 31)) | offset >> 5 & 31) ^ (offset >> 10 & 31)
    }
}

/// `ds_permute_b32` sends to lanes, `ds_bpermute_b32` takes from lanes; the address counts bytes.
pub(crate) fn permute(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let (address, data, mask) = (exec.wave.v[register(inst, 0)], exec.wave.v[register(inst, 1)], exec.wave.exec());
    let other = |l: usize| (address[l].wrapping_add(inst.offset as u32) / 4 % 32) as usize;
    let mut out = Lanes([0; LANES]);
    for l in (0..LANES).filter(|l| mask >> l & 1 == 1) {
        if inst.op.name == "ds_permute_b32" {
            out[other(l)] = data[l];
        } else if mask >> other(l) & 1 == 1 {
            out[l] = data[other(l)];
        }
    }
    exec.wave.set_v(inst.dst.into(), &out, mask);
    Flow::Next
}

/// `ds_append`, `ds_consume`: adds or takes off the count of active lanes, once for the wave.
pub(crate) fn count(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let mask = exec.wave.exec();
    let address = (exec.wave.s[usize::from(operand::M0)] >> 16).wrapping_add(inst.offset as u32);
    let Some(slot) = exec.lds.get(address as usize..).and_then(|rest| rest.first_chunk::<4>().copied()) else {
        return exec.fail(inst, Kind::OutOfBounds, mask, Some(address.into()), format!("LDS has {} bytes", exec.lds.len()));
    };
    let mut addresses = [0; LANES];
    addresses[0] = address.into();
    let access = Access { space: Space::Local, addresses: &addresses, lanes: 1, bytes: 4, reads: true, writes: true, atomic: true };
    if !exec.checked(inst, access) {
        return Flow::Fault;
    }
    let old = u32::from_le_bytes(slot);
    let count = mask.count_ones();
    let new = if inst.op.name == "ds_append" { old.wrapping_add(count) } else { old.wrapping_sub(count) };
    exec.lds[address as usize..address as usize + 4].copy_from_slice(&new.to_le_bytes());
    exec.wave.set_v(inst.dst.into(), &Lanes([old; LANES]), mask);
    Flow::Next
}

/// `ds_condxchg32_rtn_b64`: each 32-bit half is stored, without its top bit, if that bit is set.
pub(crate) fn conditional(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let mask = exec.wave.exec();
    let (data, first) = (register(inst, 1), register(inst, 0));
    let mut old = [Lanes([0; LANES]); 2];
    let mut addresses = [0u64; LANES];
    for l in 0..LANES {
        addresses[l] = (u64::from(exec.wave.v[first][l]) + inst.offset as u64) & 0xfff8;
    }
    let access = Access { space: Space::Local, addresses: &addresses, lanes: mask, bytes: 8, reads: true, writes: true, atomic: true };
    if !exec.checked(inst, access) {
        return Flow::Fault;
    }
    for l in (0..LANES).filter(|l| mask >> l & 1 == 1) {
        for (half, old) in old.iter_mut().enumerate() {
            let at = addresses[l] as usize + 4 * half;
            let Some(slot) = exec.lds.get_mut(at..at + 4) else {
                return exec.fail(inst, Kind::OutOfBounds, 1 << l, Some(at as u64), "beyond the workgroup's LDS");
            };
            old[l] = slot.iter().rev().fold(0, |n, &b| n << 8 | u32::from(b));
            let new = exec.wave.v[(data + half) & 255][l];
            if new >> 31 == 1 {
                slot.copy_from_slice(&(new & 0x7fff_ffff).to_le_bytes());
            }
        }
    }
    exec.wave.set_v(inst.dst.into(), &old[0], mask);
    exec.wave.set_v(usize::from(inst.dst) + 1, &old[1], mask);
    Flow::Next
}
