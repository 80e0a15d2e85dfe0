//! Brings a matrix from its file's layout into the planes of its [`Form`].

use crate::form::{Form, Head, Store, UNIT};
use onebit_quants::{Codes, Split, WeightType};
use thiserror::Error;

/// Why a matrix cannot be packed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PackError {
    /// The type holds plain numbers, or codes in groups that no kernel takes.
    #[error("{0} has no planes on the device")]
    Type(WeightType),
    /// The bytes are not that many rows.
    #[error("{bytes} bytes are not {rows} rows of {columns} weights ({ty})")]
    Size {
        /// The type.
        ty: WeightType,
        /// Bytes given.
        bytes: usize,
        /// Rows wanted.
        rows: usize,
        /// Weights of a row.
        columns: usize,
    },
}

/// A matrix as the products read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// The code object whose kernels take it.
    pub object: &'static str,
    /// The planes.
    pub bytes: Vec<u8>,
}

/// Planes begin at multiples of this.
const ALIGN: usize = 128;

/// Where the planes of a matrix begin, and where it ends.
fn places(form: &Form, rows: usize, columns: usize) -> Option<[usize; 4]> {
    let units = rows.checked_mul(columns / UNIT)?;
    let blocks = rows.checked_mul(columns / form.block)?;
    let after = |start: usize, count: usize, each: usize| start.checked_add(count.checked_mul(each)?)?.checked_next_multiple_of(ALIGN);
    let hi = after(0, units, form.planes[0])?;
    let head = after(hi, units, form.planes[1])?;
    Some([0, hi, head, after(head, blocks, form.head_bytes)?])
}

/// Bytes that a matrix takes on the device; `None` if it cannot be packed or the number overflows.
#[must_use]
pub fn packed_bytes(ty: WeightType, rows: usize, columns: usize) -> Option<usize> {
    let form = Form::of(ty).filter(|form| columns.is_multiple_of(form.block.max(ty.block_values())) && columns > 0)?;
    Some(places(&form, rows, columns)?[3])
}

/// Packs `rows` rows of `columns` weights, which `bytes` holds one after the other as the file has them. Nothing is rounded.
///
/// # Errors
/// If the type has no planes, or the bytes are not those of such a matrix.
pub fn pack(ty: WeightType, bytes: &[u8], rows: usize, columns: usize) -> Result<Packed, PackError> {
    let (Some(form), Some(split)) = (Form::of(ty), ty.info().codes) else { return Err(PackError::Type(ty)) };
    let wrong = || PackError::Size { ty, bytes: bytes.len(), rows, columns };
    let row_bytes = ty.row_bytes(columns).filter(|n| n.checked_mul(rows) == Some(bytes.len())).ok_or_else(wrong)?;
    let total = packed_bytes(ty, rows, columns).ok_or_else(wrong)?;
    let [_, hi, head, _] = places(&form, rows, columns).ok_or_else(wrong)?;
    let mut out = vec![0; total];
    let (first, rest) = out.split_at_mut(hi);
    let (second, third) = rest.split_at_mut(head - hi);
    let mut planes = Planes { form, lo: first, hi: second, head: third };
    for (row, stored) in bytes.chunks_exact(row_bytes.max(1)).enumerate() {
        planes.row(ty, split, row * (columns / UNIT), stored);
    }
    Ok(Packed { object: form.object, bytes: out })
}

/// The planes of a matrix while they are written.
struct Planes<'a> {
    form: Form,
    lo: &'a mut [u8],
    hi: &'a mut [u8],
    head: &'a mut [u8],
}

impl Planes<'_> {
    /// A row, whose first unit has the number `unit`.
    fn row(&mut self, ty: WeightType, split: Split, mut unit: usize, row: &[u8]) {
        let mut codes = Codes::default();
        let (header, blocks) = row.split_at(ty.header_bytes());
        for block in blocks.chunks_exact(ty.block_bytes()) {
            split(header, block, &mut codes);
            self.head(block, &codes, ty.block_values(), unit);
            for u in 0..ty.block_values() / UNIT {
                self.unit(block, &codes, u, unit);
                unit += 1;
            }
        }
    }

    /// Unit `u` of a block, which is number `unit` of the matrix.
    fn unit(&mut self, block: &[u8], codes: &Codes, u: usize, unit: usize) {
        let [lo_bytes, hi_bytes] = self.form.planes;
        let lo = &mut self.lo[unit * lo_bytes..][..lo_bytes];
        let hi = &mut self.hi[unit * hi_bytes..][..hi_bytes];
        let codes = &codes.codes[u * UNIT..][..UNIT];
        match self.form.store {
            Store::Bytes => lo.iter_mut().zip(codes).for_each(|(b, q)| *b = *q as u8),
            Store::Levels(levels) => {
                let place = |q: i8| levels.iter().position(|l| *l == q).unwrap_or_default() as u32;
                put_bits(codes.iter().map(|q| place(*q)), 4, lo);
            }
            Store::Bits { bits, bias, mul } => {
                let low = 8 * lo_bytes as u32 / UNIT as u32;
                let number = |q: i8| ((i32::from(q) + bias) / mul) as u32;
                put_bits(codes.iter().map(|q| number(*q)), low, lo);
                if bits > low {
                    put_bits(codes.iter().map(|q| number(*q) >> low), bits - low, hi);
                }
            }
            Store::Stored(put) => put(block, u, lo, hi),
        }
    }

    /// The head, or heads, of a block of so many values, whose first unit is number `unit` of the matrix.
    fn head(&mut self, block: &[u8], codes: &Codes, values: usize, unit: usize) {
        let bytes = self.form.head_bytes;
        let first = unit * UNIT / self.form.block;
        match self.form.head {
            Head::Stored(ranges) => {
                let mut to = &mut self.head[first * bytes..][..bytes];
                for range in ranges {
                    let (here, rest) = to.split_at_mut(range.len());
                    here.copy_from_slice(&block[range.clone()]);
                    to = rest;
                }
            }
            Head::Groups { halves, offsets } => {
                for u in 0..values / UNIT {
                    let groups: &[usize] = if halves { &[2 * u, 2 * u + 1] } else { &[u * UNIT / codes.group] };
                    let lists = [Some(&codes.scales), offsets.then_some(&codes.offsets)];
                    let numbers = lists.into_iter().flatten().flat_map(|list| groups.iter().map(|g| list[*g]));
                    let to = &mut self.head[(first + u) * bytes..][..bytes];
                    for (slot, number) in to.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
                        *slot = number.to_le_bytes();
                    }
                }
            }
        }
    }
}

/// Writes numbers as a plane of bits: word i of `bits` has in bits `bits k` of its byte j the number 4 (bits k + i) + j.
fn put_bits(numbers: impl Iterator<Item = u32>, bits: u32, plane: &mut [u8]) {
    let mask = (1 << bits) - 1;
    for (at, number) in numbers.enumerate() {
        let (words, word, byte) = (bits as usize, at / 4, at % 4);
        let (k, i) = (word / words, word % words);
        plane[4 * i + byte] |= ((number & mask) << (bits * k as u32)) as u8;
    }
}
