//! VOPC: comparisons (ISA guide, 15.3.3). `v_cmp_*` writes a mask, `v_cmpx_*` (0x80 above it) the EXEC mask.
//! The same operations are VOP3's 0x000..0x0ff.

use super::{Op, rows::*, value::*};

/// Which of ten classes a number is in, as the bit of the operand that asks for it (ISA guide, `V_CMP_CLASS_*`).
macro_rules! class {
    ($name:ident, $bits:ty, $exponent:expr, $quiet:expr) => {
        #[inline(always)]
        fn $name(bits: $bits, asked: u32) -> bool {
            const EXPONENT: $bits = $exponent;
            let sign = bits >> (<$bits>::BITS - 1) != 0;
            let magnitude = bits & (<$bits>::MAX >> 1);
            let class = if magnitude > EXPONENT {
                if magnitude & $quiet == 0 { 0 } else { 1 }
            } else {
                let kind = if magnitude == EXPONENT {
                    0
                } else if magnitude & EXPONENT != 0 {
                    1
                } else if magnitude != 0 {
                    2
                } else {
                    3
                };
                if sign { 2 + kind } else { 9 - kind }
            };
            asked >> class & 1 != 0
        }
    };
}

class!(class16, u16, 0x7c00, 0x200);
class!(class32, u32, 0x7f80_0000, 0x40_0000);
class!(class64, u64, 0x7ff0_0000_0000_0000, 0x8_0000_0000_0000);

/// Comparisons as rows of table macro `$rows`.
macro_rules! compares {
    ($rows:ident: $($code:literal $name:ident ( $a:ident : $ta:ty, $b:ident : $tb:ty ) => $e:expr ;)*) => {
        $rows! { x, l; $($code $name: bool($a: $ta, $b: $tb) => $e;)* }
    };
}

/// The sixteen comparisons of a float type, from code `$base` on, with table macro `$rows`.
macro_rules! float_compares {
    ($rows:ident, $ops:ident, $base:expr, $t:ty, $type:literal) => {{
        let mut ops = compares! { $rows:
            0 f(a: $t, b: $t) => { let _ = (a, b); false };
            15 t(a: $t, b: $t) => { let _ = (a, b); true };
        };
        ops.extend(orders!($t; compares $rows:));
        ops.extend(nan_orders!($t; compares $rows:));
        super::name_compares(&mut ops, $base, "v_cmp", $type);
        $ops.extend(ops);
    }};
}

/// The comparisons of an integer type; 16-bit ones lack `f` and `t`.
macro_rules! int_compares {
    ($rows:ident, $ops:ident, $base:expr, $t:ty, $type:literal) => {{
        let mut ops = compares! { $rows:
            0 f(a: $t, b: $t) => { let _ = (a, b); false };
            5 ne(a: $t, b: $t) => a != b;
            7 t(a: $t, b: $t) => { let _ = (a, b); true };
        };
        ops.extend(orders!($t; compares $rows:));
        if $type.ends_with("16") {
            ops.retain(|op| !["f", "t"].contains(&op.name));
        }
        super::name_compares(&mut ops, $base, "v_cmp", $type);
        $ops.extend(ops);
    }};
}

cloned! {
    #[allow(clippy::eq_op, clippy::neg_cmp_op_on_partial_ord, clippy::double_comparisons)] // NaN
    pub(super) fn table() -> Vec<Op> {
        let mut ops = Vec::new();
        float_compares!(rows, ops, 0x00, F16, "f16");
        float_compares!(rows, ops, 0x10, f32, "f32");
        float_compares!(wide_rows, ops, 0x20, f64, "f64");
        int_compares!(rows, ops, 0x30, i16, "i16");
        int_compares!(rows, ops, 0x38, u16, "u16");
        int_compares!(rows, ops, 0x40, i32, "i32");
        int_compares!(rows, ops, 0x48, u32, "u32");
        int_compares!(wide_rows, ops, 0x50, i64, "i64");
        int_compares!(wide_rows, ops, 0x58, u64, "u64");
        ops.extend(rows! { x, l;
            0x7d v_cmp_class_f16[CLASS]: bool(a: F16Bits, b: u32) => class16(a, b);
            0x7e v_cmp_class_f32[CLASS]: bool(a: F32Bits, b: u32) => class32(a, b);
        });
        ops.extend(wide_rows! { x, l;
            0x7f v_cmp_class_f64[CLASS]: bool(a: f64, b: u32) => class64(a.to_bits(), b);
        });
        ops
    }
}
