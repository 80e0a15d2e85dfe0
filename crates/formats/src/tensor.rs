use crate::{Mapping, transposed::Transposed};
use onebit_quants::WeightType;
use std::{borrow::Cow, fmt, path::Path, sync::Arc};

/// A matrix that a checkpoint spreads over several tensors (codes, scales, ...), handed out row by row as blocks of a weight type.
pub trait Rows: fmt::Debug + Send + Sync {
    /// Writes row `row`, whole blocks of the tensor's type. Whatever the stored bytes are, this neither fails nor panics.
    fn row(&self, row: usize, out: &mut [u8]);
    /// The tensors that hold it; the first is the one to name in messages. At least one.
    fn stored(&self) -> &[Tensor];
    /// How it is stored, for people: `GPTQ, 4 bits in groups of 128`.
    fn scheme(&self) -> &str;
    /// As [`Tensor::rounds_input`].
    fn rounds_input(&self) -> bool {
        false
    }
}

/// Where a tensor's bytes come from.
#[derive(Clone, Debug)]
enum Data {
    File { file: Arc<Mapping>, offset: usize, len: usize },
    Rows(Arc<dyn Rows>),
}

/// One tensor of a checkpoint: where its bytes are and what they mean. Cheap to clone; the bytes stay in the mapped file.
#[derive(Clone, Debug)]
pub struct Tensor {
    name: String,
    ty: WeightType,
    shape: Vec<usize>,
    data: Data,
}

impl Tensor {
    /// A tensor over `len` bytes at `offset` of `file`. The caller has checked that they lie in the file and fit type and shape.
    pub(crate) fn new(name: String, ty: WeightType, shape: Vec<usize>, file: Arc<Mapping>, offset: usize, len: usize) -> Self {
        Self { name, ty, shape, data: Data::File { file, offset, len } }
    }
    /// A tensor whose rows are put together from others when they are read. The caller has checked that blocks of `ty` divide rows.
    pub fn made(name: String, ty: WeightType, shape: Vec<usize>, rows: Arc<dyn Rows>) -> Self {
        Self { name, ty, shape, data: Data::Rows(rows) }
    }
    /// The same values in another shape with as many; `None` where that is not possible.
    pub fn reshaped(&self, shape: Vec<usize>) -> Option<Self> {
        let same = shape.iter().product::<usize>() == self.values() && shape.last() == self.shape.last();
        let possible = same || self.in_file().is_some() && self.ty.block_values() == 1 && shape.iter().product::<usize>() == self.values();
        possible.then(|| Self { shape, ..self.clone() })
    }
    /// The transposes of `matrices` matrices that the tensor holds one below the other, made row by row when they are read. `None` where
    /// rows do not divide so, or values are stored in blocks.
    pub fn transposed(&self, matrices: usize) -> Option<Self> {
        let (rows, columns) = (self.rows().checked_div(matrices)?, self.columns());
        let possible = self.rows() == rows * matrices && self.in_file().is_some() && self.ty.block_values() == 1;
        let view = Transposed { of: [self.clone()], columns: rows };
        possible.then(|| Self::made(self.name.clone(), self.ty, vec![matrices, columns, rows], Arc::new(view)))
    }
    /// The same under another name.
    pub(crate) fn renamed(self, name: String) -> Self {
        Self { name, ..self }
    }
    /// The same bytes as values of another type of the same size.
    pub(crate) fn seen_as(self, ty: WeightType) -> Self {
        debug_assert!(self.ty.block_bytes() == ty.block_bytes() && ty.block_values() == 1);
        Self { ty, ..self }
    }
    /// Its name in the file.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// How the values are stored, or (see [`Tensor::scheme`]) handed out.
    pub fn ty(&self) -> WeightType {
        self.ty
    }
    /// How the values are stored, where several tensors of the file hold them: `GPTQ, 4 bits in groups of 128`.
    pub fn scheme(&self) -> Option<&str> {
        match &self.data {
            Data::File { .. } => None,
            Data::Rows(rows) => Some(rows.scheme()),
        }
    }
    /// Whether the way in which it is stored means that the model was trained with inputs of its linear layers rounded to 8 bits.
    pub fn rounds_input(&self) -> bool {
        match &self.data {
            Data::File { .. } => false,
            Data::Rows(rows) => rows.rounds_input(),
        }
    }
    /// The name for people of how the values are stored.
    pub fn stored_as(&self) -> &str {
        self.scheme().unwrap_or(self.ty.name())
    }
    /// Dimensions, outermost first, as NumPy and safetensors order them (GGUF files store them reversed).
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
    /// Number of values.
    pub fn values(&self) -> usize {
        self.shape.iter().product()
    }
    /// Values in the innermost dimension (1 for a scalar).
    pub fn columns(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }
    /// Rows when all dimensions but the innermost are flattened.
    pub fn rows(&self) -> usize {
        self.values().checked_div(self.columns()).unwrap_or(0)
    }
    /// Bytes of one flattened row, as [`Tensor::ty`] has it.
    fn row_bytes(&self) -> usize {
        self.ty.row_bytes(self.columns()).unwrap_or(0)
    }
    /// Bytes that the files hold of it.
    pub fn stored_bytes(&self) -> usize {
        match &self.data {
            Data::File { len, .. } => *len,
            Data::Rows(rows) => rows.stored().iter().map(Self::stored_bytes).sum(),
        }
    }
    /// All bytes where they lie in a file as [`Tensor::ty`] has them.
    pub fn in_file(&self) -> Option<&[u8]> {
        match &self.data {
            Data::File { file, offset, len } => Some(&file.bytes()[*offset..*offset + *len]),
            Data::Rows(_) => None,
        }
    }
    /// All bytes: as stored, or (all rows at once, in memory) put together.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.data {
            Data::File { file, offset, len } => Cow::Borrowed(&file.bytes()[*offset..*offset + *len]),
            Data::Rows(rows) => {
                let n = self.row_bytes();
                let mut bytes = vec![0; n * self.rows()];
                bytes.chunks_exact_mut(n.max(1)).enumerate().for_each(|(i, row)| rows.row(i, row));
                Cow::Owned(bytes)
            }
        }
    }
    /// The bytes of one flattened row: in the file, or put together in `room`.
    pub fn row<'a>(&'a self, row: usize, room: &'a mut Vec<u8>) -> &'a [u8] {
        match &self.data {
            Data::File { file, offset, len } => {
                let n = len / self.rows().max(1);
                &file.bytes()[*offset..*offset + *len][row * n..(row + 1) * n]
            }
            Data::Rows(rows) => {
                room.resize(self.row_bytes(), 0);
                rows.row(row, room);
                room
            }
        }
    }
    /// All values, decoded.
    pub fn to_f32(&self) -> Vec<f32> {
        let (mut out, mut room) = (vec![0.0; self.values()], vec![]);
        for (i, values) in out.chunks_exact_mut(self.columns().max(1)).enumerate() {
            self.ty.decode(self.row(i, &mut room), values);
        }
        out
    }
    /// The file that holds the bytes (the first of several).
    pub fn path(&self) -> &Path {
        match &self.data {
            Data::File { file, .. } => file.path(),
            Data::Rows(rows) => rows.stored().first().map_or(Path::new(""), Self::path),
        }
    }
    /// All files that hold bytes of it.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        match &self.data {
            Data::File { file, .. } => vec![file.path()],
            Data::Rows(rows) => rows.stored().iter().flat_map(Self::paths).collect(),
        }
    }
    /// Names of the tensors of the file that hold it.
    pub fn stored_names(&self) -> Vec<&str> {
        match &self.data {
            Data::File { .. } => vec![&self.name],
            Data::Rows(rows) => rows.stored().iter().map(|t| &*t.name).collect(),
        }
    }
    /// Lets the pages behind the bytes go; see [`Mapping::release`].
    pub fn release(&self) {
        match &self.data {
            Data::File { file, offset, len } => file.release(*offset, *len),
            Data::Rows(rows) => rows.stored().iter().for_each(Self::release),
        }
    }
}
