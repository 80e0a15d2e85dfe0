use crate::{Error, Function, Result};
use onebit_formats::Tensor;
use onebit_quants::WeightType;
use std::ops::Range;

/// What loading does to the values of a (small) tensor to bring them to the form the ops want.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Edit {
    /// Nothing.
    #[default]
    None,
    /// `x + a`: norms whose stored weight is the difference from one (Gemma, Qwen3-Next), or from another number (PLaMo).
    Add(f32),
    /// `-exp(x)`: the decay rates that state-space models store as `A_log`.
    NegExp,
    /// `exp(x)`: such rates where a sigmoid is taken of what they multiply (Ling 3).
    Exp,
    /// `ln(1 + exp(x))`: the decay rates of RG-LRU, which are stored without bounds.
    Softplus,
    /// `x / |x|` of each row: an output matrix whose rows all count alike (Baichuan 2's NormHead).
    UnitRow,
}

impl Edit {
    /// Applies the edit in place, to the values of one row.
    pub fn apply(self, values: &mut [f32]) {
        match self {
            Self::None => {}
            Self::Add(a) => values.iter_mut().for_each(|v| *v += a),
            Self::NegExp => values.iter_mut().for_each(|v| *v = -v.exp()),
            Self::Exp => values.iter_mut().for_each(|v| *v = v.exp()),
            Self::Softplus => values.iter_mut().for_each(|v| *v = Function::Softplus.apply(*v)),
            Self::UnitRow => {
                let length = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt().max(1e-12);
                values.iter_mut().for_each(|v| *v = (f64::from(*v) / length) as f32);
            }
        }
    }
}

/// A run of rows of one tensor of the checkpoint.
#[derive(Clone, Debug)]
pub struct Part {
    /// The tensor.
    pub tensor: Tensor,
    /// Which of its flattened rows.
    pub rows: Range<usize>,
}

/// A weight as the plan names it: rows taken from one or more tensors of the checkpoint, in order, still in the file.
///
/// A stack of expert matrices can be one three-dimensional tensor or one tensor for each expert; a projection can be
/// a range of rows of a fused one. Devices see no difference.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Name in the plan, for messages: `blk.3.attn_q.weight`.
    pub name: String,
    /// Dimensions, outermost first: `[out, in]`, `[experts, out, in]`, or `[n]`.
    pub shape: Vec<usize>,
    /// How all parts are stored.
    pub ty: WeightType,
    /// The rows, in order.
    pub parts: Vec<Part>,
    /// What is done to the values.
    pub edit: Edit,
    /// Whether the model was trained with inputs rounded to 8 bits (see [`RoundRows`](crate::RoundRows)).
    pub rounds_input: bool,
}

impl Weight {
    /// All rows of one tensor, seen with `shape`, which must have as many values, and the same columns or (where each value is stored
    /// by itself) the same dimensions but for those of one. A vector can be seen with any shape, and a convolution's kernel as a matrix of its outputs' rows.
    pub fn whole(name: impl Into<String>, tensor: &Tensor, shape: Vec<usize>, edit: Edit) -> Result<Self> {
        Self::join(name, vec![Part { rows: 0..tensor.rows(), tensor: tensor.clone() }], shape, edit)
    }
    /// The rows of several parts, one after the other.
    pub fn join(name: impl Into<String>, parts: Vec<Part>, shape: Vec<usize>, edit: Edit) -> Result<Self> {
        let name = name.into();
        let Some(first) = parts.first() else { return Err(Error::Missing(name)) };
        let ty = first.tensor.ty();
        if let Some(other) = parts.iter().find(|p| p.tensor.ty() != ty) {
            return Err(Error::invalid(format!("`{name}` is made of tensors of different types: {} and {}", ty, other.tensor.ty())));
        }
        let found: usize = parts.iter().map(|p| p.rows.len() * p.tensor.columns()).sum();
        let columns = shape.last().copied().unwrap_or(1);
        let same_columns = parts.iter().all(|p| p.tensor.columns() == columns);
        let dimensions = |shape: &[usize]| shape.iter().copied().filter(|n| *n != 1).collect::<Vec<_>>();
        let stored = dimensions(first.tensor.shape());
        // A convolution's kernel, `[out, in, taps]`, is a matrix with a row for each output.
        let rows = shape.iter().rev().skip(1).product::<usize>();
        let kernel = first.tensor.shape().len() > 2 && first.tensor.shape()[0] == rows;
        let same_values = parts.len() == 1 && ty.block_values() == 1 && (stored.len() <= 1 || kernel || stored == dimensions(&shape));
        if found != shape.iter().product::<usize>() || !(same_columns || same_values) {
            return Err(Error::Shape { name: first.tensor.name().to_string(), found: first.tensor.shape().to_vec(), expected: shape });
        }
        let rounds_input = parts.iter().any(|p| p.tensor.rounds_input());
        if !same_columns && let Some(tensor) = first.tensor.reshaped(shape.clone()) {
            let parts = vec![Part { rows: 0..tensor.rows(), tensor }];
            return Ok(Self { name, shape, ty, parts, edit, rounds_input });
        }
        Ok(Self { name, shape, ty, parts, edit, rounds_input })
    }
    /// Values in the innermost dimension.
    pub fn columns(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }
    /// Rows when all other dimensions are flattened.
    pub fn rows(&self) -> usize {
        self.shape[..self.shape.len().saturating_sub(1)].iter().product()
    }
    /// Number of values.
    pub fn values(&self) -> usize {
        self.shape.iter().product()
    }
    /// Bytes in the file.
    pub fn bytes(&self) -> usize {
        let of = |p: &Part| p.tensor.stored_bytes() as u128 * p.rows.len() as u128 / p.tensor.rows().max(1) as u128;
        self.parts.iter().map(of).fold(0, |sum, n| sum.saturating_add(usize::try_from(n).unwrap_or(usize::MAX)))
    }
    /// Bytes of one row, as [`Weight::ty`] has it.
    pub fn row_bytes(&self) -> usize {
        self.ty.row_bytes(self.columns()).unwrap_or(0)
    }
    /// Whether rows lie in the file as [`Weight::ty`] has them; else they are put together when they are read.
    pub fn in_file(&self) -> bool {
        self.parts.iter().all(|p| p.tensor.in_file().is_some())
    }
    /// The bytes of row `row`, before any edit: in the file, or put together in `room`. For a vector the row is all of it.
    pub fn row<'a>(&'a self, row: usize, room: &'a mut Vec<u8>) -> &'a [u8] {
        let mut left = row;
        for part in &self.parts {
            if left < part.rows.len() {
                return part.tensor.row(part.rows.start + left, room);
            }
            left -= part.rows.len();
        }
        panic!("row {row} of `{}`, which has {}", self.name, self.rows());
    }
    /// All values, decoded and edited.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.values()];
        let (mut rest, mut room) = (&mut out[..], vec![]);
        for part in &self.parts {
            for row in part.rows.clone() {
                let (now, then) = rest.split_at_mut(part.tensor.columns());
                self.ty.decode(part.tensor.row(row, &mut room), now);
                rest = then;
            }
        }
        out.chunks_mut(self.columns().max(1)).for_each(|row| self.edit.apply(row));
        out
    }
    /// Lets the mapped pages behind the weight go, once a device has its own packed form.
    pub fn release(&self) {
        for part in &self.parts {
            if part.rows == (0..part.tensor.rows()) {
                part.tensor.release();
            }
        }
    }
}
