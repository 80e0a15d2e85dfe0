//! DS: local memory, and exchange between lanes (ISA guide, 15.4). GDS does not exist here.

use super::{
    AtomicFn, Half, Memory, Op, Run, Ty,
    flat::{ty, update},
};
use crate::exec::{exchange, flow};

/// Rows of atomics: code without return, code with return, name without `rtn`, operands, new value. 64-bit ones are 0x40 above.
#[rustfmt::skip]
const ATOMICS: [(Option<u16>, Option<u16>, &str, &str, u8, AtomicFn); 15] = [
    (Some(0x00), Some(0x20), "ds_add", "u", 1, update::add),
    (Some(0x01), Some(0x21), "ds_sub", "u", 1, update::sub),
    (Some(0x02), Some(0x22), "ds_rsub", "u", 1, update::reverse_sub),
    (Some(0x03), Some(0x23), "ds_inc", "u", 1, update::increment),
    (Some(0x04), Some(0x24), "ds_dec", "u", 1, update::decrement),
    (Some(0x05), Some(0x25), "ds_min", "i", 1, update::min_i32),
    (Some(0x06), Some(0x26), "ds_max", "i", 1, update::max_i32),
    (Some(0x07), Some(0x27), "ds_min", "u", 1, update::min),
    (Some(0x08), Some(0x28), "ds_max", "u", 1, update::max),
    (Some(0x09), Some(0x29), "ds_and", "b", 1, update::and),
    (Some(0x0a), Some(0x2a), "ds_or", "b", 1, update::or),
    (Some(0x0b), Some(0x2b), "ds_xor", "b", 1, update::xor),
    (Some(0x0c), Some(0x2c), "ds_mskor", "b", 2, update::mask_or),
    (None, Some(0x2d), "ds_storexchg", "b", 1, update::swap),
    (Some(0x10), Some(0x30), "ds_cmpstore", "b", 2, update::compare_swap),
];

/// Atomics on floats: code without return, code with return, name, bits, operands, new value.
const FLOAT_ATOMICS: [(Option<u16>, Option<u16>, &str, u8, u8, AtomicFn); 7] = [
    (Some(0x11), Some(0x31), "ds_cmpstore", 32, 2, update::compare_swap_f32),
    (Some(0x12), Some(0x32), "ds_min", 32, 1, update::min_f32),
    (Some(0x13), Some(0x33), "ds_max", 32, 1, update::max_f32),
    (Some(0x15), Some(0x79), "ds_add", 32, 1, update::add_f32),
    (Some(0x51), Some(0x71), "ds_cmpstore", 64, 2, update::compare_swap_f64),
    (Some(0x52), Some(0x72), "ds_min", 64, 1, update::min_f64),
    (Some(0x53), Some(0x73), "ds_max", 64, 1, update::max_f64),
];

/// Rows of loads: code, name, bytes, sign-extended, half.
const LOADS: [(u16, &str, u8, bool, Half); 14] = [
    (0x36, "ds_load_b32", 4, false, Half::Whole),
    (0x39, "ds_load_i8", 1, true, Half::Whole),
    (0x3a, "ds_load_u8", 1, false, Half::Whole),
    (0x3b, "ds_load_i16", 2, true, Half::Whole),
    (0x3c, "ds_load_u16", 2, false, Half::Whole),
    (0x76, "ds_load_b64", 8, false, Half::Whole),
    (0xa2, "ds_load_u8_d16", 1, false, Half::Low),
    (0xa3, "ds_load_u8_d16_hi", 1, false, Half::High),
    (0xa4, "ds_load_i8_d16", 1, true, Half::Low),
    (0xa5, "ds_load_i8_d16_hi", 1, true, Half::High),
    (0xa6, "ds_load_u16_d16", 2, false, Half::Low),
    (0xa7, "ds_load_u16_d16_hi", 2, false, Half::High),
    (0xfe, "ds_load_b96", 12, false, Half::Whole),
    (0xff, "ds_load_b128", 16, false, Half::Whole),
];

/// Rows of stores: code, name, bytes, half.
const STORES: [(u16, &str, u8, Half); 8] = [
    (0x0d, "ds_store_b32", 4, Half::Whole),
    (0x1e, "ds_store_b8", 1, Half::Low),
    (0x1f, "ds_store_b16", 2, Half::Low),
    (0x4d, "ds_store_b64", 8, Half::Whole),
    (0xa0, "ds_store_b8_d16_hi", 1, Half::High),
    (0xa1, "ds_store_b16_d16_hi", 2, Half::High),
    (0xde, "ds_store_b96", 12, Half::Whole),
    (0xdf, "ds_store_b128", 16, Half::Whole),
];

/// The signed comparisons differ with the width.
fn widened(update: AtomicFn, name: &str, kind: &str) -> AtomicFn {
    match (name, kind) {
        ("ds_min", "i") => update::min_i64,
        ("ds_max", "i") => update::max_i64,
        _ => update,
    }
}

fn atomics(ops: &mut Vec<Op>) {
    let mut add = |code: Option<u16>, name: String, bytes: u8, operands: u8, update, returns: bool| {
        let Some(code) = code else { return };
        let dst = returns.then(|| ty(bytes));
        let run = Run::Memory(Memory::Atomic { bytes, update, operands, returns });
        ops.push(Op { code, name: name.leak(), dst, src: vec![ty(bytes); operands.into()], flags: 0, run });
    };
    for (plain, returning, name, kind, operands, update) in ATOMICS {
        for (bits, above) in [(32, 0), (64, 0x40)] {
            let update = if bits == 64 { widened(update, name, kind) } else { update };
            add(plain.map(|c| c + above), format!("{name}_{kind}{bits}"), bits / 8, operands, update, false);
            add(returning.map(|c| c + above), format!("{name}_rtn_{kind}{bits}"), bits / 8, operands, update, true);
        }
    }
    for (plain, returning, name, bits, operands, update) in FLOAT_ATOMICS {
        add(plain, format!("{name}_f{bits}"), bits / 8, operands, update, false);
        add(returning, format!("{name}_rtn_f{bits}"), bits / 8, operands, update, true);
    }
    add(Some(0x34), "ds_wrap_rtn_b32".into(), 4, 2, update::wrap, true);
}

pub(super) fn table() -> Vec<Op> {
    let memory = |code, name, dst, src, memory| Op { code, name, dst, src, flags: 0, run: Run::Memory(memory) };
    let mut ops = Vec::new();
    for (code, name, bytes, signed, half) in LOADS {
        ops.push(memory(code, name, Some(ty(bytes)), vec![], Memory::Load { bytes, signed, half }));
    }
    for (code, name, bytes, half) in STORES {
        ops.push(memory(code, name, None, vec![ty(bytes)], Memory::Store { bytes, half }));
    }
    let pairs: [(u16, &str, &str, u8, u32); 4] = [
        (0x0e, "2addr", "b32", 4, 1),
        (0x0f, "2addr_stride64", "b32", 4, 64),
        (0x4e, "2addr", "b64", 8, 1),
        (0x4f, "2addr_stride64", "b64", 8, 64),
    ];
    for (code, kind, bits, bytes, stride) in pairs {
        let load = code + 0x29;
        let (one, two) = (ty(bytes), ty(bytes * 2));
        let named = |start: &str, end: &str| -> &'static str { format!("ds_{start}_{kind}_{end}{bits}").leak() };
        ops.push(memory(code, named("store", ""), None, vec![one, one], Memory::Store2 { bytes, stride }));
        ops.push(memory(load, named("load", ""), Some(two), vec![], Memory::Load2 { bytes, stride }));
        ops.push(memory(code + 0x20, named("storexchg", "rtn_"), Some(two), vec![one, one], Memory::Exchange2 { bytes, stride }));
    }
    atomics(&mut ops);
    ops.push(memory(0xb0, "ds_store_addtid_b32", None, vec![Ty::U32], Memory::StoreLane));
    ops.push(memory(0xb1, "ds_load_addtid_b32", Some(Ty::U32), vec![], Memory::LoadLane));
    let step = |code, name, dst: bool, src: u8, step| Op {
        code,
        name,
        dst: dst.then_some(Ty::U32),
        src: vec![Ty::U32; src.into()],
        flags: 0,
        run: Run::Step(step),
    };
    ops.extend([
        step(0x14, "ds_nop", false, 0, flow::nop),
        step(0x35, "ds_swizzle_b32", true, 0, exchange::swizzle),
        step(0x3d, "ds_consume", true, 0, exchange::count),
        step(0x3e, "ds_append", true, 0, exchange::count),
        step(0xb2, "ds_permute_b32", true, 1, exchange::permute),
        step(0xb3, "ds_bpermute_b32", true, 1, exchange::permute),
    ]);
    ops.push(Op {
        code: 0x7e,
        name: "ds_condxchg32_rtn_b64",
        dst: Some(Ty::U64),
        src: vec![Ty::U64],
        flags: 0,
        run: Run::Step(exchange::conditional),
    });
    ops
}
