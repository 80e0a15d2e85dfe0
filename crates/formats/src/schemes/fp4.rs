//! Rows of 4-bit floats (E2M1), two to a byte, the first in the low half.

/// Twice the value of each code: whole numbers.
pub(super) const TWICE: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Twice the values of a row.
pub(super) fn twice(bytes: &[u8], out: &mut [i8]) {
    for (pair, byte) in out.chunks_mut(2).zip(bytes) {
        for (q, code) in pair.iter_mut().zip([byte & 15, byte >> 4]) {
            *q = TWICE[usize::from(code)];
        }
    }
}
