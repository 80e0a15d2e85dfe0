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
    let packer = Packer::new(ty, rows, columns)?;
    if packer.row_bytes.checked_mul(rows) != Some(bytes.len()) {
        return Err(PackError::Size { ty, bytes: bytes.len(), rows, columns });
    }
    let mut out = vec![0; packer.bytes()];
    for (at, part) in packer.rows(0, bytes) {
        out[at..at + part.len()].copy_from_slice(&part);
    }
    Ok(Packed { object: packer.form.object, bytes: out })
}

/// Packs a matrix a few rows at a time, so that there is no second copy of it on the host.
#[derive(Clone, Copy)]
pub struct Packer {
    ty: WeightType,
    form: Form,
    split: Split,
    row_bytes: usize,
    /// Units and blocks of a row.
    each: [usize; 2],
    places: [usize; 4],
}

impl Packer {
    /// For a matrix of so many rows and columns.
    ///
    /// # Errors
    /// If the type has no planes, or its blocks do not divide the columns.
    pub fn new(ty: WeightType, rows: usize, columns: usize) -> Result<Self, PackError> {
        let (Some(form), Some(split)) = (Form::of(ty), ty.info().codes) else { return Err(PackError::Type(ty)) };
        let wrong = || PackError::Size { ty, bytes: 0, rows, columns };
        let row_bytes = ty.row_bytes(columns).ok_or_else(wrong)?;
        packed_bytes(ty, rows, columns).ok_or_else(wrong)?;
        let places = places(&form, rows, columns).ok_or_else(wrong)?;
        Ok(Self { ty, form, split, row_bytes, each: [columns / UNIT, columns / form.block], places })
    }

    /// Bytes of all planes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.places[3]
    }

    /// Packs whole rows, whose first has the number `first`: for each plane where its bytes belong, and these.
    #[must_use]
    pub fn rows(&self, first: usize, rows: &[u8]) -> [(usize, Vec<u8>); 3] {
        let ([lo, hi], head, [units, blocks]) = (self.form.planes, self.form.head_bytes, self.each);
        let row = [units * lo, units * hi, blocks * head];
        let count = rows.len() / self.row_bytes.max(1);
        let mut parts = row.map(|bytes| vec![0; bytes * count]);
        let [lo, hi, head] = &mut parts;
        let mut planes = Planes { form: self.form, lo, hi, head };
        for (i, stored) in rows.chunks_exact(self.row_bytes.max(1)).enumerate() {
            planes.row(self.ty, self.split, i * units, stored);
        }
        let mut at = self.places.into_iter().zip(row).map(|(place, bytes)| place + first * bytes);
        parts.map(|part| (at.next().unwrap_or_default(), part))
    }
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
