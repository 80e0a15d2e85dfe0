//! Brings a weight from its file's layout into panels.

use super::{
    Matrix,
    codes::{BLOCK, Levels},
    form::{FORM_BF16, FORM_F16, FORM_F32, Form, Holds},
    kernel::Geometry,
    memory::Memory,
    scales::Source,
    simd::ROWS,
};
use crate::{isa::Isa, pool::Pool};
use onebit_plan::{ActivationKind, DeviceError, Edit, Part, Weight};
use onebit_quants::{Codes, Split, WeightType};
use std::{ops::Range, sync::Mutex};

/// Where a matrix's rows come from.
trait Stored: Sync {
    /// The bytes of a row, perhaps put together in `room`.
    fn row<'a>(&'a self, row: usize, room: &'a mut Vec<u8>) -> &'a [u8];
}

/// A run of the rows of a weight.
struct PartOf<'a> {
    parts: &'a [Part],
    /// The weight's row with which each part begins.
    first: Vec<usize>,
    start: usize,
}

impl<'w> PartOf<'w> {
    fn new(weight: &'w Weight, start: usize) -> Self {
        let before = |next: &mut usize, p: &Part| {
            *next += p.rows.len();
            Some(*next - p.rows.len())
        };
        let first = weight.parts.iter().scan(0, before).collect();
        Self { parts: &weight.parts, first, start }
    }
}

impl Stored for PartOf<'_> {
    fn row<'a>(&'a self, row: usize, room: &'a mut Vec<u8>) -> &'a [u8] {
        let row = self.start + row;
        let i = self.first.partition_point(|first| *first <= row) - 1;
        let part = &self.parts[i];
        part.tensor.row(part.rows.start + row - self.first[i], room)
    }
}

/// Rows of so many bytes, one after the other.
struct Bytes<'a>(&'a [u8], usize);

impl Stored for Bytes<'_> {
    fn row<'a>(&'a self, row: usize, _: &'a mut Vec<u8>) -> &'a [u8] {
        &self.0[row * self.1..][..self.1]
    }
}

/// Rows of a weight, as stored.
pub(super) struct Rows<'a> {
    name: &'a str,
    ty: WeightType,
    columns: usize,
    rows: usize,
    stored: &'a dyn Stored,
    edit: Edit,
}

impl Matrix {
    /// Packs the flattened rows `rows` of a weight, for example one expert's of a stack; for columns rounded as `kind` says.
    ///
    /// The weight's mapped pages are not needed afterwards; see [`Weight::release`].
    pub fn pack(weight: &Weight, rows: Range<usize>, isa: &Isa, kind: ActivationKind, pool: &Pool) -> Result<Self, DeviceError> {
        if rows.start > rows.end || rows.end > weight.rows() || weight.row_bytes() == 0 {
            let (ty, shape) = (weight.ty, &weight.shape);
            let what = format!("rows {rows:?} of `{}` ({ty}, {shape:?}) cannot be packed: blocks do not divide its rows", weight.name);
            return Err(DeviceError::Unsupported(what));
        }
        let stored = PartOf::new(weight, rows.start);
        let from =
            Rows { name: &weight.name, ty: weight.ty, columns: weight.columns(), rows: rows.len(), stored: &stored, edit: weight.edit };
        from.pack(*isa, kind, pool)
    }
}

impl Matrix {
    /// About the bytes of a packed row of a weight: which form it gets is seen from its first rows alone.
    pub(crate) fn packed_row(weight: &Weight) -> usize {
        let stored = PartOf::new(weight, 0);
        let (columns, rows) = (weight.columns(), weight.rows().min(ROWS));
        let from = Rows { name: &weight.name, ty: weight.ty, columns, rows, stored: &stored, edit: weight.edit };
        let form = from.form(|split| from.look(split, 0..rows));
        form.map_or(0, |(form, way, _)| form.geometry(columns, way.span()).panel.div_ceil(ROWS))
    }

    /// Packs a matrix from its stored bytes, row by row, as [`Matrix::pack`] does with a weight's.
    pub fn from_bytes(
        ty: WeightType,
        columns: usize,
        bytes: &[u8],
        isa: &Isa,
        kind: ActivationKind,
        pool: &Pool,
    ) -> Result<Self, DeviceError> {
        let len = ty.row_bytes(columns).filter(|len| *len > 0 && bytes.len().is_multiple_of(*len));
        let Some(len) = len else {
            return Err(DeviceError::Unsupported(format!("{} bytes are no rows of {columns} values ({ty})", bytes.len())));
        };
        let from = Rows { name: "matrix", ty, columns, rows: bytes.len() / len, stored: &Bytes(bytes, len), edit: Edit::None };
        from.pack(*isa, kind, pool)
    }
}

/// How values get into a form.
enum Way {
    /// Values of so many bytes, as they are.
    Copy(usize),
    /// Decoded to f32.
    Decode,
    /// Split into codes and scales, which share a scale in `2^span` blocks, or in each.
    Split { split: Split, span: u32, store: Store },
}

impl Way {
    fn span(&self) -> u32 {
        if let Self::Split { span, .. } = self { *span } else { 0 }
    }
}

/// How codes are stored.
enum Store {
    /// With so much added.
    Add(i32),
    /// As their places among the levels, by code.
    Place(Box<[u8; 256]>),
}

impl Store {
    fn stored(&self, codes: &[i8; BLOCK]) -> [u8; BLOCK] {
        match self {
            Self::Add(zero) => codes.map(|q| (i32::from(q) + zero) as u8),
            Self::Place(places) => codes.map(|q| places[usize::from(q as u8)]),
        }
    }
    /// For a form, and the codes that there are, in ascending order; with the levels for its kernels.
    fn new(form: &Form, codes: &[i8]) -> (Self, Levels) {
        let mut levels = Levels::default();
        let store = match form.codes {
            Some(Holds::Levels(_)) => {
                let mut places = Box::new([0; 256]);
                for (place, code) in codes.iter().enumerate() {
                    places[usize::from(*code as u8)] = place as u8;
                    levels[place] = (i32::from(*code) + 128) as u8;
                }
                Self::Place(places)
            }
            Some(Holds::Range { zero, .. }) => Self::Add(zero),
            None => Self::Add(0),
        };
        (store, levels)
    }
}

/// Exclusive use of one panel's bytes at a time, by several threads.
struct Panels<'a> {
    memory: &'a Memory,
    geometry: Geometry,
}

impl Panels<'_> {
    /// # Safety
    /// No other thread uses the panel.
    #[allow(clippy::mut_from_ref)] // what the type is for
    unsafe fn get(&self, panel: usize) -> (&mut [u8], &mut [u8]) {
        let g = self.geometry;
        assert!((panel + 1) * g.panel <= self.memory.len());
        // SAFETY: within the memory, and the caller promises that nobody else uses it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(panel * g.panel), g.panel) };
        bytes.split_at_mut(g.plane)
    }
}

impl Rows<'_> {
    pub(super) fn pack(&self, isa: Isa, kind: ActivationKind, pool: &Pool) -> Result<Matrix, DeviceError> {
        let unsupported = || {
            let what = format!("`{}`: {} rows of {} values ({}) cannot be packed", self.name, self.rows, self.columns, self.ty);
            DeviceError::Unsupported(what)
        };
        let (form, way, levels) = self.form(|split| self.survey(split, pool)).ok_or_else(unsupported)?;
        let geometry = Geometry { levels, ..form.geometry(self.columns, way.span()) };
        let panels = self.rows.div_ceil(ROWS);
        let bytes = panels.checked_mul(geometry.panel).ok_or_else(unsupported)?;
        let memory = Memory::zeroed(bytes, || format!("weight `{}`", self.name))?;
        let places = Panels { memory: &memory, geometry };
        pool.run(&|w| {
            let mut scratch = Scratch::default();
            for panel in w.chunk(panels, 1) {
                // SAFETY: threads have disjoint panels.
                let (codes, plane) = unsafe { places.get(panel) };
                for row in panel * ROWS..(panel * ROWS + ROWS).min(self.rows) {
                    self.put(&form, &way, row, codes, plane, &mut scratch);
                }
            }
        });
        Ok(Matrix {
            rows: self.rows,
            columns: self.columns,
            activation: form.activation(kind),
            kernels: form.kernels(isa, kind),
            geometry,
            memory,
        })
    }
    /// The form, how values get into it, and levels for its kernels.
    fn form(&self, survey: impl FnOnce(Split) -> Survey) -> Option<(Form, Way, Levels)> {
        let plain = |form, way| Some((form, way, Levels::default()));
        if self.columns == 0 {
            return None;
        }
        if self.edit != Edit::None {
            return plain(FORM_F32, Way::Decode);
        }
        if self.ty == onebit_quants::F16 {
            return plain(FORM_F16, Way::Copy(2));
        }
        if self.ty == onebit_quants::BF16 {
            return plain(FORM_BF16, Way::Copy(2));
        }
        let Some(split) = self.ty.info().codes else { return plain(FORM_F32, Way::Decode) };
        if let Some(form) = Form::of(self.ty) {
            let (store, levels) = Store::new(&form, &[]);
            return Some((form, Way::Split { split, span: 0, store }, levels));
        }
        let seen = survey(split);
        let codes: Vec<i8> = (i8::MIN..=i8::MAX).filter(|q| seen.codes[usize::from(*q as u8)]).collect();
        let form = Form::general(&codes, seen.group, seen.offsets)?;
        let (store, levels) = Store::new(&form, &codes);
        let span = (seen.group / BLOCK).max(1).ilog2();
        Some((form, Way::Split { split, span, store }, levels))
    }
    /// Looks through all codes, so that the smallest general form that holds them can be chosen.
    fn survey(&self, split: Split, pool: &Pool) -> Survey {
        let all = Mutex::new(Survey::NOTHING);
        pool.run(&|w| {
            let seen = self.look(split, w.chunk(self.rows, 1));
            let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all.codes.iter_mut().zip(seen.codes).for_each(|(all, seen)| *all |= seen);
            all.group = all.group.max(seen.group);
            all.offsets |= seen.offsets;
        });
        all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    /// The part of [`Rows::survey`] that some rows tell.
    fn look(&self, split: Split, rows: Range<usize>) -> Survey {
        let (mut seen, mut codes, mut room) = (Survey::NOTHING, Codes::default(), vec![]);
        for row in rows {
            let (header, blocks) = self.stored.row(row, &mut room).split_at(self.ty.header_bytes());
            for block in blocks.chunks_exact(self.ty.block_bytes()) {
                split(header, block, &mut codes);
                let values = &codes.codes[..self.ty.block_values()];
                values.iter().for_each(|q| seen.codes[usize::from(*q as u8)] = true);
                seen.offsets |= codes.offsets[..values.len() / codes.group].iter().any(|o| *o != 0.0);
                seen.group = codes.group;
            }
        }
        seen
    }
    /// Writes one row.
    fn put(&self, form: &Form, way: &Way, row: usize, codes: &mut [u8], plane: &mut [u8], scratch: &mut Scratch) {
        let Scratch { codes: split_codes, floats, room } = scratch;
        let (bytes, lane) = (self.stored.row(row, room), row % ROWS);
        match way {
            Way::Copy(size) => spread(bytes, *size, lane, codes),
            Way::Decode => {
                floats.resize(self.columns, 0.0);
                self.ty.decode(bytes, floats);
                self.edit.apply(floats);
                for (column, v) in floats.iter().enumerate() {
                    codes[(column * ROWS + lane) * 4..][..4].copy_from_slice(&v.to_le_bytes());
                }
            }
            Way::Split { split, span, store } => {
                let values = self.ty.block_values();
                let (header, blocks) = bytes.split_at(self.ty.header_bytes());
                for (i, bytes) in blocks.chunks_exact(self.ty.block_bytes()).enumerate() {
                    split(header, bytes, split_codes);
                    let block = i * values / BLOCK;
                    for (b, q) in split_codes.codes[..values].as_chunks::<BLOCK>().0.iter().enumerate() {
                        (form.put_codes)(&mut codes[(block + b) * form.block..][..form.block], lane, &store.stored(q));
                    }
                    (form.put_scales)(plane, *span, lane, block, &Source { bytes, codes: split_codes, values });
                }
            }
        }
    }
}

/// Puts values of `size` bytes side by side with those of other rows.
fn spread(bytes: &[u8], size: usize, lane: usize, out: &mut [u8]) {
    for (column, v) in bytes.chunks_exact(size).enumerate() {
        out[(column * ROWS + lane) * size..][..size].copy_from_slice(v);
    }
}

#[derive(Default)]
struct Scratch {
    codes: Codes,
    floats: Vec<f32>,
    room: Vec<u8>,
}

/// What codes and scales of a matrix are like.
struct Survey {
    /// Codes that there are, by their byte.
    codes: [bool; 256],
    group: usize,
    offsets: bool,
}

impl Survey {
    const NOTHING: Self = Self { codes: [false; 256], group: 0, offsets: false };
}
