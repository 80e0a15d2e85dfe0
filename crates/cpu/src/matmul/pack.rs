//! Brings a weight from its file's layout into panels.

use super::{
    Matrix,
    codes::BLOCK,
    form::{FORM_BF16, FORM_F16, FORM_F32, Form},
    kernel::Geometry,
    memory::Memory,
    scales::Source,
    simd::ROWS,
};
use crate::{isa::Isa, pool::Pool};
use onebit_plan::{ActivationKind, DeviceError, Edit, Weight};
use onebit_quants::{Codes, WeightType};
use std::{ops::Range, sync::Mutex};

/// Rows of a weight, as stored.
pub(super) struct Rows<'a> {
    pub(super) name: &'a str,
    pub(super) ty: WeightType,
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// The bytes of one row.
    pub(super) row: &'a (dyn Fn(usize) -> &'a [u8] + Sync),
    pub(super) edit: Edit,
}

impl Matrix {
    /// Packs the flattened rows `rows` of a weight, for example one expert's of a stack; for columns rounded as `kind` says.
    ///
    /// The weight's mapped pages are not needed afterwards; see [`Weight::release`].
    pub fn pack(weight: &Weight, rows: Range<usize>, isa: &Isa, kind: ActivationKind, pool: &Pool) -> Result<Self, DeviceError> {
        let bytes = weight.row_bytes();
        if rows.start > rows.end || rows.end > weight.rows() || bytes == 0 {
            let (ty, shape) = (weight.ty, &weight.shape);
            let what = format!("rows {rows:?} of `{}` ({ty}, {shape:?}) cannot be packed: blocks do not divide its rows", weight.name);
            return Err(DeviceError::Unsupported(what));
        }
        // First rows of the runs, so that a row is found by a search.
        let mut first = 0;
        let runs: Vec<(usize, &[u8])> = weight
            .runs()
            .map(|run| {
                first += run.len() / bytes;
                (first - run.len() / bytes, run)
            })
            .collect();
        let row = |row: usize| {
            let row = rows.start + row;
            let (first, run) = runs[runs.partition_point(|r| r.0 <= row) - 1];
            &run[(row - first) * bytes..][..bytes]
        };
        let from = Rows { name: &weight.name, ty: weight.ty, columns: weight.columns(), rows: rows.len(), row: &row, edit: weight.edit };
        from.pack(*isa, kind, pool)
    }
}

impl Matrix {
    /// Packs a matrix from its stored bytes, row by row, as [`Matrix::pack`] does with a weight's.
    pub fn from_bytes(
        ty: WeightType,
        columns: usize,
        bytes: &[u8],
        isa: &Isa,
        kind: ActivationKind,
        pool: &Pool,
    ) -> Result<Self, DeviceError> {
        let len = ty.bytes_for(columns).filter(|len| *len > 0 && bytes.len().is_multiple_of(*len));
        let Some(len) = len else {
            return Err(DeviceError::Unsupported(format!("{} bytes are no rows of {columns} values ({ty})", bytes.len())));
        };
        let row = |row: usize| &bytes[row * len..][..len];
        let from = Rows { name: "matrix", ty, columns, rows: bytes.len() / len, row: &row, edit: Edit::None };
        from.pack(*isa, kind, pool)
    }
}

/// How values get into a form.
#[derive(Clone, Copy)]
enum Way {
    /// Values of so many bytes, as they are.
    Copy(usize),
    /// Decoded to f32.
    Decode,
    /// Split into codes and scales.
    Split(fn(&[u8], &mut Codes)),
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
        let (form, way, span) = self.form(pool).ok_or_else(unsupported)?;
        let geometry = form.geometry(self.columns, span);
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
                    self.put(&form, way, span, row, codes, plane, &mut scratch);
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
    /// The form, how values get into it, and the binary logarithm of how many blocks share a scale.
    fn form(&self, pool: &Pool) -> Option<(Form, Way, u32)> {
        if self.columns == 0 {
            return None;
        }
        if self.edit != Edit::None {
            return Some((FORM_F32, Way::Decode, 0));
        }
        if self.ty == onebit_quants::F16 {
            return Some((FORM_F16, Way::Copy(2), 0));
        }
        if self.ty == onebit_quants::BF16 {
            return Some((FORM_BF16, Way::Copy(2), 0));
        }
        let Some(split) = self.ty.info().codes else { return Some((FORM_F32, Way::Decode, 0)) };
        if let Some(form) = Form::of(self.ty) {
            return Some((form, Way::Split(split), 0));
        }
        let seen = self.survey(split, pool);
        let form = Form::general(seen.least..=seen.most, seen.group, seen.offsets)?;
        let span = (seen.group / BLOCK).max(1).ilog2();
        Some((form, Way::Split(split), span))
    }
    /// Looks through all codes, so that a general form that is wide enough can be chosen.
    fn survey(&self, split: fn(&[u8], &mut Codes), pool: &Pool) -> Survey {
        let all = Mutex::new(Survey { least: 0, most: 0, group: 0, offsets: false });
        pool.run(&|w| {
            let mut seen = Survey { least: 0, most: 0, group: 0, offsets: false };
            let mut codes = Codes::default();
            for row in w.chunk(self.rows, 1) {
                for block in (self.row)(row).chunks_exact(self.ty.block_bytes()) {
                    split(block, &mut codes);
                    let values = &codes.codes[..self.ty.block_values()];
                    seen.least = seen.least.min(values.iter().copied().min().unwrap_or(0).into());
                    seen.most = seen.most.max(values.iter().copied().max().unwrap_or(0).into());
                    seen.offsets |= codes.offsets[..values.len() / codes.group].iter().any(|o| *o != 0.0);
                    seen.group = codes.group;
                }
            }
            let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all.least = all.least.min(seen.least);
            all.most = all.most.max(seen.most);
            all.group = all.group.max(seen.group);
            all.offsets |= seen.offsets;
        });
        all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    /// Writes one row.
    #[allow(clippy::too_many_arguments)]
    fn put(&self, form: &Form, way: Way, span: u32, row: usize, codes: &mut [u8], plane: &mut [u8], scratch: &mut Scratch) {
        let (bytes, lane) = ((self.row)(row), row % ROWS);
        match way {
            Way::Copy(size) => spread(bytes, size, lane, codes),
            Way::Decode => {
                scratch.floats.resize(self.columns, 0.0);
                self.ty.decode(bytes, &mut scratch.floats);
                self.edit.apply(&mut scratch.floats);
                for (column, v) in scratch.floats.iter().enumerate() {
                    codes[(column * ROWS + lane) * 4..][..4].copy_from_slice(&v.to_le_bytes());
                }
            }
            Way::Split(split) => {
                let zero = form.codes.map_or(0, |r| r.zero);
                let values = self.ty.block_values();
                for (i, bytes) in bytes.chunks_exact(self.ty.block_bytes()).enumerate() {
                    split(bytes, &mut scratch.codes);
                    let block = i * values / BLOCK;
                    for (b, q) in scratch.codes.codes[..values].as_chunks::<BLOCK>().0.iter().enumerate() {
                        let stored = q.map(|q| (i32::from(q) + zero) as u8);
                        (form.put_codes)(&mut codes[(block + b) * form.block..][..form.block], lane, &stored);
                    }
                    (form.put_scales)(plane, span, lane, block, &Source { bytes, codes: &scratch.codes, values });
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
}

/// What codes and scales of a matrix are like.
struct Survey {
    least: i32,
    most: i32,
    group: usize,
    offsets: bool,
}
