use crate::Mapping;
use onebit_quants::WeightType;
use std::sync::Arc;

/// One tensor of a checkpoint: where its bytes are and what they mean. Cheap to clone; the bytes stay in the mapped file.
#[derive(Clone, Debug)]
pub struct Tensor {
    name: String,
    ty: WeightType,
    shape: Vec<usize>,
    file: Arc<Mapping>,
    offset: usize,
    len: usize,
}

impl Tensor {
    /// A tensor over `len` bytes at `offset` of `file`. The caller has checked that they lie in the file and fit type and shape.
    pub(crate) fn new(name: String, ty: WeightType, shape: Vec<usize>, file: Arc<Mapping>, offset: usize, len: usize) -> Self {
        Self { name, ty, shape, file, offset, len }
    }
    /// Its name in the file.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// How the values are stored.
    pub fn ty(&self) -> WeightType {
        self.ty
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
    /// All bytes, as stored.
    pub fn bytes(&self) -> &[u8] {
        &self.file.bytes()[self.offset..self.offset + self.len]
    }
    /// The bytes of one flattened row.
    pub fn row(&self, row: usize) -> &[u8] {
        let n = self.len / self.rows().max(1);
        &self.bytes()[row * n..(row + 1) * n]
    }
    /// All values, decoded.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.values()];
        self.ty.decode(self.bytes(), &mut out);
        out
    }
    /// The file that holds the bytes.
    pub fn file(&self) -> &Arc<Mapping> {
        &self.file
    }
    /// Lets the pages behind the bytes go; see [`Mapping::release`].
    pub fn release(&self) {
        self.file.release(self.offset, self.len);
    }
}
