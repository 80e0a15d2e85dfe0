//! The few forms that every scheme is read into: codes with scales and offsets by group, or plain numbers.

use crate::{Tensor, tensor::Rows};
use onebit_quants::{CODED_GROUPS, F32, WeightType, coded, put_coded};
use std::{fmt, sync::Arc};

/// A matrix of codes: `w = scale * code + offset`, scale and offset by row and group.
pub(crate) trait Codes: fmt::Debug + Send + Sync + 'static {
    /// The codes of a row, all columns.
    fn codes(&self, row: usize, out: &mut [i8]);
    /// Scale and offset of a group of a row.
    fn line(&self, row: usize, group: usize) -> (f32, f32);
    /// As [`Rows::rounds_input`].
    fn rounds_input(&self) -> bool {
        false
    }
}

/// A matrix of numbers.
pub(crate) trait Numbers: fmt::Debug + Send + Sync + 'static {
    /// The numbers of a row, all columns.
    fn numbers(&self, row: usize, out: &mut [f32]);
}

/// Which group a column belongs to.
#[derive(Debug)]
pub(crate) enum Groups {
    /// Each so many columns (the last may have fewer).
    Even(usize),
    /// One number for each column, below the number of groups.
    Listed(Box<[u32]>),
}

impl Groups {
    fn of(&self, column: usize) -> usize {
        match self {
            Self::Even(size) => column / size,
            Self::Listed(list) => list[column] as usize,
        }
    }
}

/// What a tensor that is put together is called, and what it is made of.
pub(crate) struct Made {
    /// The name that it has without the scheme: `model.layers.0.mlp.up_proj.weight`.
    pub(crate) name: String,
    /// Outermost first.
    pub(crate) shape: Vec<usize>,
    /// The tensors of the file.
    pub(crate) stored: Vec<Tensor>,
    /// How it is stored, for people.
    pub(crate) scheme: String,
}

impl Made {
    fn columns(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }
    /// A tensor of codes. Where groups are a multiple of a size that there is a type for, and its blocks divide rows, it is handed out
    /// so; with groups of other sizes (or columns in any order), as f32.
    pub(crate) fn codes(self, matrix: impl Codes, groups: Groups, offsets: bool) -> Tensor {
        let columns = self.columns();
        let divides = |size: &usize| match &groups {
            // A group that spans the row may be cut anywhere.
            Groups::Even(group) => group.is_multiple_of(*size) || *group >= columns,
            Groups::Listed(_) => false,
        };
        let types = CODED_GROUPS.into_iter().rev().filter(divides).filter_map(|size| Some((size, coded(size, offsets)?)));
        match types.into_iter().find(|(_, ty)| columns.is_multiple_of(ty.block_values())) {
            Some((size, ty)) => self.tensor(ty, Coded { matrix, groups, columns, size, ty, offsets }),
            None => self.tensor(F32, Loose { matrix, groups, columns }),
        }
    }
    /// A tensor of numbers.
    pub(crate) fn numbers(self, matrix: impl Numbers) -> Tensor {
        let columns = self.columns();
        self.tensor(F32, Plain { matrix, columns })
    }
    /// A tensor whose rows `fill` writes as blocks of `ty`, which divide rows.
    pub(crate) fn tensor(self, ty: WeightType, fill: impl Fill) -> Tensor {
        let rows = Put { fill, stored: self.stored, scheme: self.scheme };
        Tensor::made(self.name, ty, self.shape, Arc::new(rows))
    }
}

/// Writes rows as blocks.
pub(crate) trait Fill: fmt::Debug + Send + Sync + 'static {
    /// As [`Rows::row`].
    fn row(&self, row: usize, out: &mut [u8]);
    /// As [`Rows::rounds_input`].
    fn rounds_input(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct Put<F> {
    fill: F,
    stored: Vec<Tensor>,
    scheme: String,
}

impl<F: Fill> Rows for Put<F> {
    fn row(&self, row: usize, out: &mut [u8]) {
        self.fill.row(row, out);
    }
    fn stored(&self) -> &[Tensor] {
        &self.stored
    }
    fn scheme(&self) -> &str {
        &self.scheme
    }
    fn rounds_input(&self) -> bool {
        self.fill.rounds_input()
    }
}

/// Codes in blocks.
#[derive(Debug)]
struct Coded<M> {
    matrix: M,
    groups: Groups,
    columns: usize,
    /// Of the type's groups.
    size: usize,
    ty: WeightType,
    offsets: bool,
}

impl<M: Codes> Fill for Coded<M> {
    fn row(&self, row: usize, out: &mut [u8]) {
        let mut codes = vec![0; self.columns];
        self.matrix.codes(row, &mut codes);
        let block = self.ty.block_values();
        let blocks = codes.chunks_exact(block).zip(out.chunks_exact_mut(self.ty.block_bytes()));
        for (i, (codes, out)) in blocks.enumerate() {
            let line = |group: usize| self.matrix.line(row, self.groups.of(i * block + group * self.size));
            put_coded(codes, self.size, self.offsets, line, out);
        }
    }
    fn rounds_input(&self) -> bool {
        self.matrix.rounds_input()
    }
}

/// Codes in groups that no block fits, as f32.
#[derive(Debug)]
struct Loose<M> {
    matrix: M,
    groups: Groups,
    columns: usize,
}

impl<M: Codes> Fill for Loose<M> {
    fn row(&self, row: usize, out: &mut [u8]) {
        let mut codes = vec![0; self.columns];
        self.matrix.codes(row, &mut codes);
        let (mut group, mut line) = (usize::MAX, (0.0, 0.0));
        for (column, (q, out)) in codes.iter().zip(out.as_chunks_mut::<4>().0).enumerate() {
            let of = self.groups.of(column);
            if of != group {
                (group, line) = (of, self.matrix.line(row, of));
            }
            *out = (f32::from(*q) * line.0 + line.1).to_le_bytes();
        }
    }
    fn rounds_input(&self) -> bool {
        self.matrix.rounds_input()
    }
}

/// Numbers, as f32.
#[derive(Debug)]
struct Plain<M> {
    matrix: M,
    columns: usize,
}

impl<M: Numbers> Fill for Plain<M> {
    fn row(&self, row: usize, out: &mut [u8]) {
        let mut values = vec![0.0; self.columns];
        self.matrix.numbers(row, &mut values);
        for (v, out) in values.iter().zip(out.as_chunks_mut::<4>().0) {
            *out = v.to_le_bytes();
        }
    }
}
