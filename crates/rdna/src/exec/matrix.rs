//! WMMA: D = A * B + C on 16x16 matrices (ISA guide, 7.9).
//!
//! Lanes 0..15 hold A's rows and B's columns, 16 elements each; lanes 16..31 hold copies. C and D have their column in the lane: in
//! register i lanes 0..15 hold row 2 i, lanes 16..31 row 2 i + 1.
//!
//! The order in which the hardware sums is not published. Here each sum runs along k in one fused operation per step, in f32 (f16
//! and bf16 results are rounded once at the end); integers are exact.

use super::{Exec, Flow};
use crate::{
    decode::{Inst, operand},
    float,
    isa::{Lanes, cloned},
};

/// 16x16 elements, row by row.
type Matrix<T> = [[T; 16]; 16];

/// The products, compiled for the host's level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernels {
    f32: fn(&Matrix<f32>, &Matrix<f32>, &mut Matrix<f32>),
    i32: fn(&Matrix<i32>, &Matrix<i32>, &mut Matrix<i32>),
}

cloned! {
    /// The kernels of a level: A (row by row), B (row by row), C and D.
    pub(crate) fn kernels() -> Kernels {
        Kernels {
            f32: |a, b, d| {
                for (row, sums) in a.iter().zip(d) {
                    for (factor, elements) in row.iter().zip(b) {
                        for (sum, element) in sums.iter_mut().zip(elements) {
                            *sum = factor.mul_add(*element, *sum);
                        }
                    }
                }
            },
            i32: |a, b, d| {
                for (row, sums) in a.iter().zip(d) {
                    for (factor, elements) in row.iter().zip(b) {
                        for (sum, element) in sums.iter_mut().zip(elements) {
                            *sum = sum.wrapping_add(factor.wrapping_mul(*element));
                        }
                    }
                }
            },
        }
    }
}

fn register<'e>(exec: &'e Exec<'_>, number: u16, i: usize) -> &'e Lanes {
    &exec.wave.v[(usize::from(number.wrapping_sub(operand::VGPR)) + i) & 255]
}

/// A's rows, or with `transposed` B's columns made rows: element k of lane m, taken from `bits`-wide fields.
fn factors<T: Copy + Default>(exec: &Exec<'_>, number: u16, bits: usize, transposed: bool, get: impl Fn(u32) -> T) -> Matrix<T> {
    let per_word = 32 / bits;
    let mask = ((1u64 << bits) - 1) as u32;
    let mut out = [[T::default(); 16]; 16];
    for k in 0..16 {
        let words = register(exec, number, k / per_word);
        for lane in 0..16 {
            let element = get(words[lane] >> (k % per_word * bits) & mask);
            *(if transposed { &mut out[k][lane] } else { &mut out[lane][k] }) = element;
        }
    }
    out
}

/// C: a register's 32 bits, an inline constant, or half of a register.
fn addend<T: Copy + Default>(exec: &Exec<'_>, inst: &Inst, get: impl Fn(u32) -> T) -> Matrix<T> {
    let mut out = [[T::default(); 16]; 16];
    for (m, row) in out.iter_mut().enumerate() {
        for (n, element) in row.iter_mut().enumerate() {
            let bits = if inst.src[2] >= operand::VGPR {
                register(exec, inst.src[2], m / 2)[m % 2 * 16 + n]
            } else {
                exec.wave.scalar(inst.src[2], crate::isa::Ty::F32, inst.literal) as u32
            };
            *element = get(bits);
        }
    }
    out
}

/// Writes D; `put` merges an element into what the register held. All lanes take part whatever EXEC says.
fn write<T: Copy>(exec: &mut Exec<'_>, inst: &Inst, d: &Matrix<T>, put: impl Fn(u32, T) -> u32) {
    for (m, row) in d.iter().enumerate() {
        let words = &mut exec.wave.v[(usize::from(inst.dst) + m / 2) & 255];
        for (n, &element) in row.iter().enumerate() {
            let lane = m % 2 * 16 + n;
            words[lane] = put(words[lane], element);
        }
    }
}

/// NEG of A and B for floats: of even elements in NEG_LO, of odd ones in NEG_HI.
fn negate(matrix: &mut Matrix<f32>, inst: &Inst, operand: usize, transposed: bool) {
    let (even, odd) = (inst.neg >> operand & 1 == 1, inst.abs >> operand & 1 == 1);
    for (m, row) in matrix.iter_mut().enumerate() {
        for (n, element) in row.iter_mut().enumerate() {
            let k = if transposed { m } else { n };
            if if k % 2 == 0 { even } else { odd } {
                *element = -*element;
            }
        }
    }
}

fn float_product(exec: &Exec<'_>, inst: &Inst, element: fn(u32) -> f32, sum: impl Fn(u32) -> f32) -> Matrix<f32> {
    let mut a = factors(exec, inst.src[0], 16, false, element);
    let mut b = factors(exec, inst.src[1], 16, true, element);
    negate(&mut a, inst, 0, false);
    negate(&mut b, inst, 1, true);
    let (absolute, negative) = (inst.abs >> 2 & 1 == 1, inst.neg >> 2 & 1 == 1);
    let mut d = addend(exec, inst, |bits| {
        let value = sum(bits);
        let value = if absolute { value.abs() } else { value };
        if negative { -value } else { value }
    });
    (exec.isa.matrix.f32)(&a, &b, &mut d);
    d
}

fn to_f32(exec: &mut Exec<'_>, inst: &Inst, element: fn(u32) -> f32) -> Flow {
    let d = float_product(exec, inst, element, f32::from_bits);
    write(exec, inst, &d, |_, x| x.to_bits());
    Flow::Next
}

/// C and D in the half of each register that OP_SEL's third bit says; the other half stays.
fn to_half(exec: &mut Exec<'_>, inst: &Inst, element: fn(u32) -> f32, put: fn(f32) -> u32) -> Flow {
    let high = inst.op_sel >> 2 & 1 == 1;
    let d = float_product(exec, inst, element, |bits| element(if high { bits >> 16 } else { bits & 0xffff }));
    write(exec, inst, &d, |old, x| if high { old & 0xffff | put(x) << 16 } else { old & 0xffff_0000 | put(x) });
    Flow::Next
}

pub(crate) fn f32_f16(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    to_f32(exec, inst, float::from_f16)
}

pub(crate) fn f32_bf16(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    to_f32(exec, inst, float::from_bf16)
}

pub(crate) fn f16_f16(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    to_half(exec, inst, float::from_f16, float::to_f16)
}

pub(crate) fn bf16_bf16(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    to_half(exec, inst, float::from_bf16, float::to_bf16)
}

fn integer_product(exec: &mut Exec<'_>, inst: &Inst, bits: usize) -> Flow {
    let element = |operand: usize| {
        let sign = u32::from(inst.neg >> operand & 1 == 1) << (bits - 1);
        move |raw: u32| (raw ^ sign).wrapping_sub(sign) as i32
    };
    let a = factors(exec, inst.src[0], bits, false, element(0));
    let b = factors(exec, inst.src[1], bits, true, element(1));
    let integer = exec.wave.scalar(inst.src[2].min(255), crate::isa::Ty::I32, inst.literal) as i32;
    let c = addend(exec, inst, |word| if inst.src[2] >= operand::VGPR { word as i32 } else { integer });
    if !inst.clamp {
        let mut d = c;
        (exec.isa.matrix.i32)(&a, &b, &mut d);
        write(exec, inst, &d, |_, x| x as u32);
        return Flow::Next;
    }
    // The products' sum fits; only adding C can overflow.
    let mut d = [[0; 16]; 16];
    (exec.isa.matrix.i32)(&a, &b, &mut d);
    for (sums, addends) in d.iter_mut().zip(&c) {
        for (sum, addend) in sums.iter_mut().zip(addends) {
            *sum = sum.saturating_add(*addend);
        }
    }
    write(exec, inst, &d, |_, x| x as u32);
    Flow::Next
}

pub(crate) fn i32_iu8(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    integer_product(exec, inst, 8)
}

pub(crate) fn i32_iu4(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    integer_product(exec, inst, 4)
}
