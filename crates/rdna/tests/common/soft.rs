//! Floating-point numbers as exact integers times powers of two, rounded once to any format in any mode: slow and plain.

/// Bits of exponent and of mantissa.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Format {
    pub(crate) exponent: u32,
    pub(crate) mantissa: u32,
}

pub(crate) const F16: Format = Format { exponent: 5, mantissa: 10 };
pub(crate) const BF16: Format = Format { exponent: 8, mantissa: 7 };
pub(crate) const F32: Format = Format { exponent: 8, mantissa: 23 };
pub(crate) const F64: Format = Format { exponent: 11, mantissa: 52 };

/// Rounding modes as MODE numbers them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Round {
    Nearest,
    Up,
    Down,
    Zero,
}

pub(crate) const ROUNDS: [Round; 4] = [Round::Nearest, Round::Up, Round::Down, Round::Zero];

/// (-1)^negative * mantissa * 2^exponent, a little more in magnitude if `sticky`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Nan,
    Infinite { negative: bool },
    Finite { negative: bool, mantissa: u128, exponent: i32, sticky: bool },
}

use Number::{Finite, Infinite, Nan};

impl Format {
    pub(crate) fn bits(self) -> u32 {
        1 + self.exponent + self.mantissa
    }

    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    fn all_exponents(self) -> u64 {
        (1 << self.exponent) - 1
    }

    pub(crate) fn nan(self) -> u64 {
        self.all_exponents() << self.mantissa | 1 << (self.mantissa - 1)
    }

    pub(crate) fn is_nan(self, bits: u64) -> bool {
        matches!(self.read(bits), Nan)
    }

    pub(crate) fn is_signalling(self, bits: u64) -> bool {
        self.is_nan(bits) && bits >> (self.mantissa - 1) & 1 == 0
    }

    /// A subnormal as a zero of its sign.
    pub(crate) fn flush(self, bits: u64) -> u64 {
        if bits >> self.mantissa & self.all_exponents() == 0 { bits & 1 << (self.bits() - 1) } else { bits }
    }

    pub(crate) fn read(self, bits: u64) -> Number {
        let negative = bits >> (self.bits() - 1) & 1 == 1;
        let exponent = bits >> self.mantissa & self.all_exponents();
        let fraction = u128::from(bits & ((1 << self.mantissa) - 1));
        let low = 1 - self.bias() - self.mantissa as i32;
        match exponent {
            e if e == self.all_exponents() => {
                if fraction != 0 {
                    Nan
                } else {
                    Infinite { negative }
                }
            }
            0 => Finite { negative, mantissa: fraction, exponent: low, sticky: false },
            e => Finite { negative, mantissa: fraction | 1 << self.mantissa, exponent: low + e as i32 - 1, sticky: false },
        }
    }

    pub(crate) fn write(self, number: Number, round: Round) -> u64 {
        let sign = |negative: bool| u64::from(negative) << (self.bits() - 1);
        let infinite = self.all_exponents() << self.mantissa;
        let (negative, mantissa, exponent, sticky) = match number {
            Nan => return self.nan(),
            Infinite { negative } => return sign(negative) | infinite,
            Finite { negative, mantissa: 0, sticky: false, .. } => return sign(negative),
            Finite { negative, mantissa, exponent, sticky } => (negative, mantissa, exponent, sticky),
        };
        // The exponent of the last place: as for a subnormal, or so that the mantissa has its full width.
        let top = 128 - mantissa.leading_zeros() as i32 + exponent;
        let low = (1 - self.bias() - self.mantissa as i32).max(top - 1 - self.mantissa as i32);
        let drop = low - exponent;
        let (kept, half, rest) = if drop <= 0 {
            (mantissa << -drop, false, sticky)
        } else if drop > 127 {
            (0, false, true)
        } else {
            let cut = mantissa & ((1 << drop) - 1);
            (mantissa >> drop, cut >> (drop - 1) == 1, sticky || cut & ((1 << (drop - 1)) - 1) != 0)
        };
        let inexact = half || rest;
        let up = match round {
            Round::Nearest => half && (rest || kept & 1 == 1),
            Round::Up => inexact && !negative,
            Round::Down => inexact && negative,
            Round::Zero => false,
        };
        let kept = (kept + u128::from(up)) as u64;
        let steps = (low - (1 - self.bias() - self.mantissa as i32)) as u64;
        // Adding the mantissa carries into the exponent as it should; what is far too large stays too large.
        let steps = steps.min(self.all_exponents());
        let bits = if kept >> self.mantissa == 0 { kept } else { kept + (steps << self.mantissa) };
        let largest = infinite - 1;
        if bits <= largest {
            return sign(negative) | bits;
        }
        let toward_zero = matches!((round, negative), (Round::Zero, _) | (Round::Up, true) | (Round::Down, false));
        sign(negative) | if toward_zero { largest } else { infinite }
    }
}

pub(crate) fn negated(x: Number) -> Number {
    match x {
        Nan => Nan,
        Infinite { negative } => Infinite { negative: !negative },
        Finite { negative, mantissa, exponent, sticky } => Finite { negative: !negative, mantissa, exponent, sticky },
    }
}

pub(crate) fn product(x: Number, y: Number) -> Number {
    match (x, y) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinite { negative: a }, Infinite { negative: b }) => Infinite { negative: a != b },
        (Infinite { .. }, Finite { mantissa: 0, .. }) | (Finite { mantissa: 0, .. }, Infinite { .. }) => Nan,
        (Infinite { negative: a }, Finite { negative: b, .. }) | (Finite { negative: b, .. }, Infinite { negative: a }) => {
            Infinite { negative: a != b }
        }
        (Finite { negative: a, mantissa: m, exponent: e, .. }, Finite { negative: b, mantissa: n, exponent: f, .. }) => {
            Finite { negative: a != b, mantissa: m * n, exponent: e + f, sticky: false }
        }
    }
}

pub(crate) fn sum(x: Number, y: Number, round: Round) -> Number {
    let (Finite { negative: a, mantissa: m, exponent: e, .. }, Finite { negative: b, mantissa: n, exponent: f, .. }) = (x, y) else {
        return match (x, y) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinite { negative: a }, Infinite { negative: b }) if a != b => Nan,
            (Infinite { .. }, _) => x,
            _ => y,
        };
    };
    if m == 0 && n == 0 {
        return Finite { negative: if a == b { a } else { round == Round::Down }, mantissa: 0, exponent: e, sticky: false };
    }
    if m == 0 {
        return y;
    }
    if n == 0 {
        return x;
    }
    // Both shifted up as far as the one with the higher top allows, the other down to it.
    let widen = |m: u128, e: i32| {
        let shift = m.leading_zeros() as i32 - 2;
        (m << shift, e - shift)
    };
    let ((m, e), (n, f)) = (widen(m, e), widen(n, f));
    let ((a, m, e), (b, n, f)) = if e >= f { ((a, m, e), (b, n, f)) } else { ((b, n, f), (a, m, e)) };
    let distance = (e - f).min(127);
    let (n, lost) = if distance == 127 { (0, true) } else { (n >> distance, n & ((1 << distance) - 1) != 0) };
    let (m, n) = (m as i128, n as i128);
    let signed = if a { -m } else { m } + if b { -n } else { n };
    if signed == 0 && !lost {
        return Finite { negative: round == Round::Down, mantissa: 0, exponent: e, sticky: false };
    }
    // What was lost belongs to the smaller term: of the other sign it makes the sum a little less.
    let magnitude = signed.unsigned_abs() - u128::from(lost && a != b);
    Finite { negative: signed < 0, mantissa: magnitude, exponent: e, sticky: lost }
}
