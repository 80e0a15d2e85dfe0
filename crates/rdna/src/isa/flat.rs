//! FLAT, SCRATCH and GLOBAL: loads, stores and atomics of lanes (ISA guide, 15.5). The three share their codes.

use super::{AtomicFn, Half, Memory, Op, Run, Ty};

/// Rows of loads: code, name, bytes, sign-extended, half.
pub(super) const LOADS: [(u16, &str, u8, bool, Half); 14] = [
    (0x10, "load_u8", 1, false, Half::Whole),
    (0x11, "load_i8", 1, true, Half::Whole),
    (0x12, "load_u16", 2, false, Half::Whole),
    (0x13, "load_i16", 2, true, Half::Whole),
    (0x14, "load_b32", 4, false, Half::Whole),
    (0x15, "load_b64", 8, false, Half::Whole),
    (0x16, "load_b96", 12, false, Half::Whole),
    (0x17, "load_b128", 16, false, Half::Whole),
    (0x1e, "load_d16_u8", 1, false, Half::Low),
    (0x1f, "load_d16_i8", 1, true, Half::Low),
    (0x20, "load_d16_b16", 2, false, Half::Low),
    (0x21, "load_d16_hi_u8", 1, false, Half::High),
    (0x22, "load_d16_hi_i8", 1, true, Half::High),
    (0x23, "load_d16_hi_b16", 2, false, Half::High),
];

/// Rows of stores: code, name, bytes, half.
const STORES: [(u16, &str, u8, Half); 8] = [
    (0x18, "store_b8", 1, Half::Low),
    (0x19, "store_b16", 2, Half::Low),
    (0x1a, "store_b32", 4, Half::Whole),
    (0x1b, "store_b64", 8, Half::Whole),
    (0x1c, "store_b96", 12, Half::Whole),
    (0x1d, "store_b128", 16, Half::Whole),
    (0x24, "store_d16_hi_b8", 1, Half::High),
    (0x25, "store_d16_hi_b16", 2, Half::High),
];

/// An atomic's arithmetic on the low `bits` bits of its operands.
pub(super) mod update {
    fn f32(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }

    fn f64(bits: u64) -> f64 {
        f64::from_bits(bits)
    }

    pub(in super::super) fn swap(_: u64, data: u64, _: u64) -> u64 {
        data
    }
    /// Data, then what the old value is compared with.
    pub(in super::super) fn compare_swap(old: u64, data: u64, compare: u64) -> u64 {
        if old == compare { data } else { old }
    }
    pub(in super::super) fn compare_swap_f32(old: u64, data: u64, compare: u64) -> u64 {
        if f32(old) == f32(compare) { data } else { old }
    }
    pub(in super::super) fn compare_swap_f64(old: u64, data: u64, compare: u64) -> u64 {
        if f64(old) == f64(compare) { data } else { old }
    }
    pub(in super::super) fn add(old: u64, data: u64, _: u64) -> u64 {
        old.wrapping_add(data)
    }
    pub(in super::super) fn sub(old: u64, data: u64, _: u64) -> u64 {
        old.wrapping_sub(data)
    }
    pub(in super::super) fn reverse_sub(old: u64, data: u64, _: u64) -> u64 {
        data.wrapping_sub(old)
    }
    pub(in super::super) fn sub_clamped(old: u64, data: u64, _: u64) -> u64 {
        old.saturating_sub(data)
    }
    pub(in super::super) fn min_i32(old: u64, data: u64, _: u64) -> u64 {
        (old as i32).min(data as i32) as u32 as u64
    }
    pub(in super::super) fn max_i32(old: u64, data: u64, _: u64) -> u64 {
        (old as i32).max(data as i32) as u32 as u64
    }
    pub(in super::super) fn min_i64(old: u64, data: u64, _: u64) -> u64 {
        (old as i64).min(data as i64) as u64
    }
    pub(in super::super) fn max_i64(old: u64, data: u64, _: u64) -> u64 {
        (old as i64).max(data as i64) as u64
    }
    pub(in super::super) fn min(old: u64, data: u64, _: u64) -> u64 {
        old.min(data)
    }
    pub(in super::super) fn max(old: u64, data: u64, _: u64) -> u64 {
        old.max(data)
    }
    pub(in super::super) fn and(old: u64, data: u64, _: u64) -> u64 {
        old & data
    }
    pub(in super::super) fn or(old: u64, data: u64, _: u64) -> u64 {
        old | data
    }
    pub(in super::super) fn xor(old: u64, data: u64, _: u64) -> u64 {
        old ^ data
    }
    pub(in super::super) fn increment(old: u64, data: u64, _: u64) -> u64 {
        if old >= data { 0 } else { old + 1 }
    }
    pub(in super::super) fn decrement(old: u64, data: u64, _: u64) -> u64 {
        if old == 0 || old > data { data } else { old - 1 }
    }
    /// Clears the bits of the first operand, sets those of the second.
    pub(in super::super) fn mask_or(old: u64, data: u64, second: u64) -> u64 {
        (old & !data) | second
    }
    /// Subtracts the first operand if that is possible, else adds the second.
    pub(in super::super) fn wrap(old: u64, data: u64, second: u64) -> u64 {
        if old >= data { old - data } else { old.wrapping_add(second) }
    }
    pub(in super::super) fn add_f32(old: u64, data: u64, _: u64) -> u64 {
        (f32(old) + f32(data)).to_bits().into()
    }
    pub(in super::super) fn min_f32(old: u64, data: u64, _: u64) -> u64 {
        if f32(data) < f32(old) { data } else { old }
    }
    pub(in super::super) fn max_f32(old: u64, data: u64, _: u64) -> u64 {
        if f32(data) > f32(old) { data } else { old }
    }
    pub(in super::super) fn min_f64(old: u64, data: u64, _: u64) -> u64 {
        if f64(data) < f64(old) { data } else { old }
    }
    pub(in super::super) fn max_f64(old: u64, data: u64, _: u64) -> u64 {
        if f64(data) > f64(old) { data } else { old }
    }
}

/// Rows of atomics: code, name, bytes, operands, new value.
const ATOMICS: [(u16, &str, u8, u8, AtomicFn); 31] = [
    (0x33, "atomic_swap_b32", 4, 1, update::swap),
    (0x34, "atomic_cmpswap_b32", 4, 2, update::compare_swap),
    (0x35, "atomic_add_u32", 4, 1, update::add),
    (0x36, "atomic_sub_u32", 4, 1, update::sub),
    (0x37, "atomic_csub_u32", 4, 1, update::sub_clamped),
    (0x38, "atomic_min_i32", 4, 1, update::min_i32),
    (0x39, "atomic_min_u32", 4, 1, update::min),
    (0x3a, "atomic_max_i32", 4, 1, update::max_i32),
    (0x3b, "atomic_max_u32", 4, 1, update::max),
    (0x3c, "atomic_and_b32", 4, 1, update::and),
    (0x3d, "atomic_or_b32", 4, 1, update::or),
    (0x3e, "atomic_xor_b32", 4, 1, update::xor),
    (0x3f, "atomic_inc_u32", 4, 1, update::increment),
    (0x40, "atomic_dec_u32", 4, 1, update::decrement),
    (0x41, "atomic_swap_b64", 8, 1, update::swap),
    (0x42, "atomic_cmpswap_b64", 8, 2, update::compare_swap),
    (0x43, "atomic_add_u64", 8, 1, update::add),
    (0x44, "atomic_sub_u64", 8, 1, update::sub),
    (0x45, "atomic_min_i64", 8, 1, update::min_i64),
    (0x46, "atomic_min_u64", 8, 1, update::min),
    (0x47, "atomic_max_i64", 8, 1, update::max_i64),
    (0x48, "atomic_max_u64", 8, 1, update::max),
    (0x49, "atomic_and_b64", 8, 1, update::and),
    (0x4a, "atomic_or_b64", 8, 1, update::or),
    (0x4b, "atomic_xor_b64", 8, 1, update::xor),
    (0x4c, "atomic_inc_u64", 8, 1, update::increment),
    (0x4d, "atomic_dec_u64", 8, 1, update::decrement),
    (0x50, "atomic_cmpswap_f32", 4, 2, update::compare_swap_f32),
    (0x51, "atomic_min_f32", 4, 1, update::min_f32),
    (0x52, "atomic_max_f32", 4, 1, update::max_f32),
    (0x56, "atomic_add_f32", 4, 1, update::add_f32),
];

/// The type of a value of so many bytes.
pub(super) fn ty(bytes: u8) -> Ty {
    Ty::Regs(bytes.div_ceil(4))
}

fn table(segment: &str) -> Vec<Op> {
    let name = |rest: &str| -> &'static str { format!("{segment}_{rest}").leak() };
    let op = |code, rest: &str, dst, src, memory| Op { code, name: name(rest), dst, src, flags: 0, run: Run::Memory(memory) };
    let mut ops = Vec::new();
    for (code, rest, bytes, signed, half) in LOADS {
        ops.push(op(code, rest, Some(ty(bytes)), vec![], Memory::Load { bytes, signed, half }));
    }
    for (code, rest, bytes, half) in STORES {
        ops.push(op(code, rest, None, vec![ty(bytes)], Memory::Store { bytes, half }));
    }
    if segment != "scratch" {
        for (code, rest, bytes, operands, update) in ATOMICS {
            if code != 0x37 || segment == "global" {
                let memory = Memory::Atomic { bytes, update, operands, returns: false };
                ops.push(op(code, rest, Some(ty(bytes)), vec![ty(bytes * operands)], memory));
            }
        }
    }
    if segment == "global" {
        ops.push(op(0x28, "load_addtid_b32", Some(Ty::U32), vec![], Memory::LoadLane));
        ops.push(op(0x29, "store_addtid_b32", None, vec![Ty::U32], Memory::StoreLane));
    }
    ops
}

/// FLAT, SCRATCH, GLOBAL.
pub(super) fn tables() -> [Vec<Op>; 3] {
    ["flat", "scratch", "global"].map(table)
}
