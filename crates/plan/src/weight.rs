use crate::{Error, Function, Result};
use onebit_formats::Tensor;
use onebit_quants::WeightType;
use std::ops::Range;

/// What loading does to the values of a (small) tensor to bring them to the form the ops want.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Edit {
    /// Nothing.
    #[default]
    None,
    /// `x + 1`: norms whose stored weight is the difference from one (Gemma, Qwen3-Next).
    AddOne,
    /// `-exp(x)`: the decay rates that state-space models store as `A_log`.
    NegExp,
    /// `ln(1 + exp(x))`: the decay rates of RG-LRU, which are stored without bounds.
    Softplus,
}

impl Edit {
    /// Applies the edit in place.
    pub fn apply(self, values: &mut [f32]) {
        match self {
            Self::None => {}
            Self::AddOne => values.iter_mut().for_each(|v| *v += 1.0),
            Self::NegExp => values.iter_mut().for_each(|v| *v = -v.exp()),
            Self::Softplus => values.iter_mut().for_each(|v| *v = Function::Softplus.apply(*v)),
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
}

impl Weight {
    /// All rows of one tensor, seen with `shape`, which must have as many values, and the same columns or (where each value is stored
    /// by itself) the same dimensions but for those of one. A vector can be seen with any shape.
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
        let same_values = parts.len() == 1 && ty.block_values() == 1 && (stored.len() <= 1 || stored == dimensions(&shape));
        if found != shape.iter().product::<usize>() || !(same_columns || same_values) {
            return Err(Error::Shape { name: first.tensor.name().to_string(), found: first.tensor.shape().to_vec(), expected: shape });
        }
        Ok(Self { name, shape, ty, parts, edit })
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
        self.ty.bytes_for(self.values()).unwrap_or(0)
    }
    /// Bytes of one row in the file.
    pub fn row_bytes(&self) -> usize {
        self.ty.bytes_for(self.columns()).unwrap_or(0)
    }
    /// The stored bytes of a run of rows that lies within one part, before any [`Edit`]; walk a weight with [`Weight::runs`].
    fn part_bytes<'a>(&'a self, part: &'a Part) -> &'a [u8] {
        let n = part.tensor.bytes().len() / part.tensor.rows().max(1);
        &part.tensor.bytes()[part.rows.start * n..part.rows.end * n]
    }
    /// The stored bytes, one contiguous run for each part, in order.
    pub fn runs(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|p| self.part_bytes(p))
    }
    /// All stored bytes in place, where they lie in one piece and no edit is needed: a device can use the mapping itself.
    pub fn in_place(&self) -> Option<&[u8]> {
        match (&self.parts[..], self.edit) {
            ([part], Edit::None) => Some(self.part_bytes(part)),
            _ => None,
        }
    }
    /// The stored bytes of row `row`, before any edit.
    pub fn row(&self, row: usize) -> &[u8] {
        let n = self.row_bytes();
        let mut byte = row * n;
        for run in self.runs() {
            if byte < run.len() {
                return &run[byte..byte + n];
            }
            byte -= run.len();
        }
        panic!("row {row} of `{}`, which has {}", self.name, self.rows());
    }
    /// All values, decoded and edited.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.values()];
        let mut rest = &mut out[..];
        for run in self.runs() {
            let n = run.len() / self.ty.block_bytes() * self.ty.block_values();
            let (now, then) = rest.split_at_mut(n);
            self.ty.decode(run, now);
            rest = then;
        }
        self.edit.apply(&mut out);
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
