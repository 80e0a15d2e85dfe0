//! Places that several types give to small numbers in bytes.

/// The `BITS` bits (1, 2 or 4) of value `i` in a plane: 32 values have that many bits of each of 32 bytes; when the lowest bits are
/// taken the next follow, and when a byte is full the next 32 bytes.
pub(crate) fn plane<const BITS: usize>(bytes: &[u8], i: usize) -> u8 {
    let bit = i / 32 * BITS;
    bytes[bit / 8 * 32 + i % 32] >> (bit % 8) & ((1 << BITS) - 1)
}

/// The 4 bits of value `i` where byte j of each 16 holds value j in its low and value j + 16 in its high nibble.
pub(crate) fn halves(bytes: &[u8], i: usize) -> u8 {
    bytes[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4) & 15
}

/// Number `i` of numbers of 4 bits, the even ones in low nibbles.
pub(crate) fn nibble(bytes: &[u8], i: usize) -> u8 {
    bytes[i / 2] >> (i % 2 * 4) & 15
}

/// Number `i` of numbers of 2 bits, lowest first.
pub(crate) fn crumb(bytes: &[u8], i: usize) -> u8 {
    bytes[i / 4] >> (i % 4 * 2) & 3
}

/// Half `i / n` of byte `i mod n`, where `bytes` are all n.
pub(crate) fn folded(bytes: &[u8], i: usize) -> u8 {
    bytes[i % bytes.len()] >> (i / bytes.len() * 4) & 15
}
