//! The tensors of a checkpoint, while a scheme brings them together.

use super::Tensors;
use crate::{Error, Result, Tensor};
use onebit_quants::WeightType;
use std::collections::BTreeMap;

/// Tensors that are left, and what has been made.
pub(super) struct Reader<'a> {
    left: Tensors,
    made: Tensors,
    texts: &'a BTreeMap<String, String>,
}

/// An error about a tensor.
pub(super) fn fault(tensor: &Tensor, what: &str) -> Error {
    Error::invalid(tensor.path(), format!("tensor `{}` {what}", tensor.name()))
}

/// Checks the shape of a tensor; `why` tells where `shape` comes from.
pub(super) fn shaped(tensor: &Tensor, shape: &[usize], why: &str) -> Result<()> {
    if tensor.shape() == shape {
        return Ok(());
    }
    Err(fault(tensor, &format!("has shape {:?}, but {why} asks for {shape:?}", tensor.shape())))
}

/// The two dimensions of a matrix, neither of which is zero.
pub(super) fn matrix(tensor: &Tensor) -> Result<[usize; 2]> {
    match *tensor.shape() {
        [rows, columns] if rows > 0 && columns > 0 => Ok([rows, columns]),
        _ => Err(fault(tensor, &format!("has shape {:?}, but should be a matrix", tensor.shape()))),
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(tensors: Tensors, texts: &'a BTreeMap<String, String>) -> Self {
        Self { left: tensors, made: Tensors::new(), texts }
    }
    /// A text of the files' `__metadata__`.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.texts.get(key).map(String::as_str)
    }
    /// What comes before `suffix` in the names of all tensors that are left and have it.
    pub(super) fn before(&self, suffix: &str) -> Vec<String> {
        self.left.keys().filter_map(|name| name.strip_suffix(suffix)).map(str::to_string).collect()
    }
    /// Looks at a tensor that is left.
    pub(super) fn see(&self, name: &str) -> Option<&Tensor> {
        self.left.get(name)
    }
    /// Takes a tensor out.
    pub(super) fn take(&mut self, name: &str) -> Option<Tensor> {
        self.left.remove(name)
    }
    /// Takes a tensor out, which must be of one of the types where it is there.
    pub(super) fn optional(&mut self, name: &str, types: &[WeightType]) -> Result<Option<Tensor>> {
        let Some(tensor) = self.take(name) else { return Ok(None) };
        if types.contains(&tensor.ty()) {
            return Ok(Some(tensor));
        }
        let known: Vec<&str> = types.iter().map(|t| t.name()).collect();
        Err(fault(&tensor, &format!("is of type {}, but the scheme has {}", tensor.ty(), known.join(" or "))))
    }
    /// Takes out a tensor that belongs to `of` and must be there.
    pub(super) fn need(&mut self, name: &str, types: &[WeightType], of: &Tensor) -> Result<Tensor> {
        let missing = || fault(of, &format!("needs `{name}`, which is missing"));
        self.optional(name, types)?.ok_or_else(missing)
    }
    /// Drops tensors that the weights do not need: scales of activations.
    pub(super) fn forget(&mut self, suffixes: &[&str]) {
        self.left.retain(|name, _| !suffixes.iter().any(|s| name.ends_with(s)));
    }
    /// Gives back a tensor that stands for those taken.
    pub(super) fn put(&mut self, tensor: Tensor) -> Result<()> {
        let name = tensor.name().to_string();
        if let Some(other) = self.left.get(&name).or(self.made.get(&name)) {
            return Err(fault(other, &format!("stands beside `{}`, which means the same", tensor.stored_names()[0])));
        }
        self.made.insert(name, tensor);
        Ok(())
    }
    /// All tensors, those made included.
    pub(super) fn into_tensors(self) -> Tensors {
        let mut tensors = self.left;
        tensors.extend(self.made);
        tensors
    }
}
