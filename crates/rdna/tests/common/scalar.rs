//! What each scalar operation should give, by its name: bits one by one, integers wide enough not to overflow, numbers rounded once.

use super::{
    oracle::{self, In as Lane},
    soft::{F16, F32, Format, Number, Round, product, sum},
};

/// What an operation finds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct In {
    pub(crate) a: u64,
    pub(crate) b: u64,
    /// The destination's old value; of operations with a literal, the literal.
    pub(crate) old: u64,
    pub(crate) scc: bool,
    pub(crate) exec: u32,
    /// Rounding of f32 and of f16.
    pub(crate) rounds: [Round; 2],
}

/// What it leaves: a result of one or two registers, SCC and EXEC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Out {
    pub(crate) value: Option<u64>,
    pub(crate) scc: bool,
    pub(crate) exec: u32,
}

/// Bits of the type at the end of a name.
fn width(name: &str) -> u32 {
    name.rsplit(['b', 'u', 'i', 'f']).next().and_then(|digits| digits.parse().ok()).unwrap_or(32)
}

fn mask(bits: u32) -> u64 {
    (0..bits).fold(0, |mask, bit| mask | 1 << bit)
}

fn signed(x: u64, bits: u32) -> i128 {
    let x = i128::from(x & mask(bits));
    if x >> (bits - 1) == 1 { x - (1 << bits) } else { x }
}

fn unsigned(x: u64, bits: u32) -> i128 {
    i128::from(x & mask(bits))
}

/// The function of two bits that a name's middle says.
fn logic(name: &str) -> Option<fn(bool, bool) -> bool> {
    Some(match name {
        "and" => |a, b| a && b,
        "or" => |a, b| a || b,
        "xor" => |a, b| a != b,
        "nand" => |a, b| !(a && b),
        "nor" => |a, b| !(a || b),
        "xnor" => |a, b| a == b,
        "and_not0" => |a, b| !a && b,
        "or_not0" => |a, b| !a || b,
        "and_not1" => |a, b| a && !b,
        "or_not1" => |a, b| a || !b,
        _ => return None,
    })
}

fn bitwise(function: fn(bool, bool) -> bool, a: u64, b: u64, bits: u32) -> u64 {
    (0..bits).fold(0, |out, i| out | u64::from(function(a >> i & 1 == 1, b >> i & 1 == 1)) << i)
}

fn logical(name: &str, i: &In) -> Option<Out> {
    let bits = width(name);
    let middle = name.strip_prefix("s_")?.rsplit_once('_')?.0;
    if let Some(which) = middle.strip_suffix("_saveexec") {
        let new = bitwise(logic(which)?, i.a, i.exec.into(), 32) as u32;
        return Some(Out { value: Some(i.exec.into()), scc: new != 0, exec: new });
    }
    if let Some(which) = middle.strip_suffix("_wrexec") {
        let new = bitwise(logic(which)?, i.a, i.exec.into(), 32) as u32;
        return Some(Out { value: Some(new.into()), scc: new != 0, exec: new });
    }
    let value = bitwise(logic(middle)?, i.a, i.b, bits);
    Some(Out { value: Some(value), scc: value != 0, exec: i.exec })
}

/// A sum or the like: the exact value, and whether it is too large for the type becomes SCC.
fn arithmetic(name: &str, i: &In) -> Option<(i128, bool)> {
    let fits = |x: i128, signed: bool| if signed { i128::from(x as i32) == x } else { i128::from(x as u32) == x };
    let (ua, ub, sa, sb) = (unsigned(i.a, 32), unsigned(i.b, 32), signed(i.a, 32), signed(i.b, 32));
    let with = |x, signed| (x, !fits(x, signed));
    Some(match name {
        "s_add_u32" => with(ua + ub, false),
        "s_sub_u32" => with(ua - ub, false),
        "s_add_i32" => with(sa + sb, true),
        "s_addk_i32" => with(signed(i.old, 32) + sb, true),
        "s_sub_i32" => with(sa - sb, true),
        "s_addc_u32" => with(ua + ub + i128::from(i.scc), false),
        "s_subb_u32" => with(ua - ub - i128::from(i.scc), false),
        "s_lshl1_add_u32" => with(ua * 2 + ub, false),
        "s_lshl2_add_u32" => with(ua * 4 + ub, false),
        "s_lshl3_add_u32" => with(ua * 8 + ub, false),
        "s_lshl4_add_u32" => with(ua * 16 + ub, false),
        "s_min_i32" => (if sa < sb { sa } else { sb }, sa < sb),
        "s_min_u32" => (if ua < ub { ua } else { ub }, ua < ub),
        "s_max_i32" => (if sa >= sb { sa } else { sb }, sa >= sb),
        "s_max_u32" => (if ua >= ub { ua } else { ub }, ua >= ub),
        "s_absdiff_i32" => (i128::from((sa - sb) as i32).abs(), sa as i32 != sb as i32),
        "s_abs_i32" => (sa.abs(), sa != 0),
        "s_mul_i32" => (sa * sb, i.scc),
        "s_mulk_i32" => (signed(i.old, 32) * sb, i.scc),
        "s_mul_hi_u32" => ((ua * ub) >> 32, i.scc),
        "s_mul_hi_i32" => ((sa * sb) >> 32, i.scc),
        _ => return None,
    })
}

/// Counts, fields, shifts and moves of bits; SCC says whether the result is not zero for those where `sets`.
fn bits(name: &str, i: &In) -> Option<(u64, bool)> {
    let bits = if name.contains("b64") || name.contains("64") && !name.contains("replicate") { 64 } else { 32 };
    let bit = |x: u64, at: u32| x >> at & 1;
    let a = i.a & mask(bits);
    let none = u64::from(u32::MAX);
    let first =
        |mut order: Box<dyn Iterator<Item = u32>>, wanted: u64| order.position(|at| bit(a, at) == wanted).map_or(none, |n| n as u64);
    let shift = (i.b % u64::from(bits)) as u32;
    let (offset, length) = ((i.b % u64::from(bits)) as u32, (i.b >> 16 & 127) as u32);
    let field = (0..length.min(bits)).filter(|k| offset + k < bits).fold(0, |out, k| out | bit(a, offset + k) << k);
    let quad = |k: u32| (0..4).any(|j| bit(a, 4 * k + j) == 1);
    Some(match name {
        "s_mov_b32" | "s_mov_b64" => (a, false),
        "s_cmov_b32" | "s_cmov_b64" => (if i.scc { a } else { i.old & mask(bits) }, false),
        "s_cselect_b32" | "s_cselect_b64" => (if i.scc { a } else { i.b & mask(bits) }, false),
        "s_movk_i32" => (i.b & mask(32), false),
        "s_cmovk_i32" => (if i.scc { i.b } else { i.old } & mask(32), false),
        "s_brev_b32" | "s_brev_b64" => ((0..bits).fold(0, |out, k| out | bit(a, k) << (bits - 1 - k)), false),
        "s_ctz_i32_b32" | "s_ctz_i32_b64" => (first(Box::new(0..bits), 1), false),
        "s_clz_i32_u32" | "s_clz_i32_u64" => (first(Box::new((0..bits).rev()), 1), false),
        "s_cls_i32" | "s_cls_i32_i64" => (first(Box::new((0..bits).rev()), 1 - bit(a, bits - 1)), false),
        "s_sext_i32_i8" => (signed(a, 8) as u64 & mask(32), false),
        "s_sext_i32_i16" => (signed(a, 16) as u64 & mask(32), false),
        "s_bitset0_b32" => (i.old & mask(32) & !(1 << (a % 32)), false),
        "s_bitset1_b32" => (i.old & mask(32) | 1 << (a % 32), false),
        "s_bitset0_b64" => (i.old & !(1 << (a % 64)), false),
        "s_bitset1_b64" => (i.old | 1 << (a % 64), false),
        "s_bitreplicate_b64_b32" => ((0..64).fold(0, |out, k| out | bit(i.a, k / 2) << k), false),
        "s_bcnt0_i32_b32" | "s_bcnt0_i32_b64" => ((0..bits).filter(|&k| bit(a, k) == 0).count() as u64, true),
        "s_bcnt1_i32_b32" | "s_bcnt1_i32_b64" => ((0..bits).filter(|&k| bit(a, k) == 1).count() as u64, true),
        "s_quadmask_b32" | "s_quadmask_b64" => ((0..bits / 4).fold(0, |out, k| out | u64::from(quad(k)) << k), true),
        "s_wqm_b32" | "s_wqm_b64" => ((0..bits).fold(0, |out, k| out | u64::from(quad(k / 4)) << k), true),
        "s_not_b32" | "s_not_b64" => (a ^ mask(bits), true),
        "s_lshl_b32" | "s_lshl_b64" => ((0..bits).filter(|&k| k >= shift).fold(0, |out, k| out | bit(a, k - shift) << k), true),
        "s_lshr_b32" | "s_lshr_b64" => ((0..bits - shift).fold(0, |out, k| out | bit(a, k + shift) << k), true),
        "s_ashr_i32" | "s_ashr_i64" => ((signed(a, bits) >> shift) as u64 & mask(bits), true),
        "s_bfe_u32" | "s_bfe_u64" => (field, true),
        "s_bfe_i32" | "s_bfe_i64" => {
            // The field's highest bit goes on upwards; beyond the operand there are copies of its sign.
            let at = |k: u32| bit(a, (offset + k.min(length.saturating_sub(1))).min(bits - 1));
            (if length == 0 { 0 } else { (0..bits).fold(0, |out, k| out | at(k) << k) }, true)
        }
        "s_bfm_b32" => ((0..a % 32).fold(0, |out, k| out | 1 << k) << (i.b % 32) & mask(32), false),
        "s_bfm_b64" => ((0..i.a % 64).fold(0, |out, k| out | 1 << k) << (i.b % 64), false),
        "s_pack_ll_b32_b16" => (i.a & 0xffff | (i.b & 0xffff) << 16, false),
        "s_pack_lh_b32_b16" => (i.a & 0xffff | i.b & 0xffff_0000, false),
        "s_pack_hh_b32_b16" => (i.a >> 16 & 0xffff | i.b & 0xffff_0000, false),
        "s_pack_hl_b32_b16" => (i.a >> 16 & 0xffff | (i.b & 0xffff) << 16, false),
        _ => return None,
    })
}

/// Comparisons: only SCC.
fn comparison(name: &str, i: &In) -> Option<bool> {
    if let Some(rest) = name.strip_prefix("s_bitcmp") {
        let bits = width(name);
        return Some((i.a >> (i.b % u64::from(bits)) & 1 == 1) == rest.starts_with('1'));
    }
    if let Some(rest) = name.strip_prefix("s_cmpk_") {
        let (d, k) = if rest.ends_with("u32") { (unsigned(i.old, 32), unsigned(i.b, 16)) } else { (signed(i.old, 32), signed(i.b, 32)) };
        return ordering(rest.split_once('_')?.0, d.cmp(&k));
    }
    let (condition, ty) = name.strip_prefix("s_cmp_")?.split_once('_')?;
    match ty {
        // The vector comparisons of these are tested on their own.
        "f32" | "f16" => {
            let bits = mask(width(name));
            let vector = oracle::oracle(&format!("v_cmp_{condition}_{ty}"))?;
            Some(vector(&Lane { a: i.a & bits, b: i.b & bits, c: 0, bit: false, lane: 0, rounds: i.rounds }).1)
        }
        "i32" => ordering(condition, signed(i.a, 32).cmp(&signed(i.b, 32))),
        "u32" => ordering(condition, unsigned(i.a, 32).cmp(&unsigned(i.b, 32))),
        "u64" => ordering(condition, i.a.cmp(&i.b)),
        _ => None,
    }
}

fn ordering(condition: &str, order: std::cmp::Ordering) -> Option<bool> {
    Some(match condition {
        "eq" => order.is_eq(),
        "lg" => order.is_ne(),
        "gt" => order.is_gt(),
        "ge" => order.is_ge(),
        "lt" => order.is_lt(),
        "le" => order.is_le(),
        _ => return None,
    })
}

/// Arithmetic on numbers: what the vector operation of that name gives, or a fused sum.
fn float(name: &str, i: &In) -> Option<u64> {
    let lane = |name: &str, a: u64, b: u64| {
        let function = oracle::oracle(name)?;
        Some(function(&Lane { a, b, c: 0, bit: false, lane: 0, rounds: i.rounds }).0)
    };
    let fused = |format: Format, a: u64, b: u64, c: u64, round: Round| {
        let number = |x: u64| format.read(x & mask(format.bits()));
        let exact: Number = product(number(a), number(b));
        format.write(sum(exact, number(c), round), round)
    };
    Some(match name {
        "s_fmac_f32" => fused(F32, i.a, i.b, i.old, i.rounds[0]),
        "s_fmaak_f32" => fused(F32, i.a, i.b, i.old, i.rounds[0]),
        "s_fmamk_f32" => fused(F32, i.a, i.old, i.b, i.rounds[0]),
        "s_fmac_f16" => fused(F16, i.a, i.b, i.old, i.rounds[1]),
        "s_cvt_hi_f32_f16" => lane("v_cvt_f32_f16", i.a >> 16 & 0xffff, 0)?,
        "s_cvt_pk_rtz_f16_f32" => lane("v_cvt_pk_rtz_f16_f32", i.a & mask(32), i.b & mask(32))?,
        _ => {
            let vector = format!("v_{}", name.strip_prefix("s_")?);
            let from_half = vector.ends_with("f16") && !vector.contains("f16_f32");
            let bits = mask(if from_half { 16 } else { 32 });
            lane(&vector, i.a & bits, i.b & bits)?
        }
    })
}

/// What an operation should leave; `None` for those that no row here describes.
pub(crate) fn scalar(name: &str, i: &In) -> Option<Out> {
    let keep = |value| Out { value, scc: i.scc, exec: i.exec };
    if let Some(out) = logical(name, i) {
        return Some(out);
    }
    if let Some((value, scc)) = arithmetic(name, i) {
        return Some(Out { value: Some(value as u64 & mask(32)), scc, exec: i.exec });
    }
    if let Some((value, sets)) = bits(name, i) {
        return Some(Out { value: Some(value), scc: if sets { value != 0 } else { i.scc }, exec: i.exec });
    }
    if let Some(scc) = comparison(name, i) {
        return Some(Out { value: None, scc, exec: i.exec });
    }
    float(name, i).map(|value| keep(Some(value)))
}
