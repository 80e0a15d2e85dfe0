//! A reader for the tests' safetensors files, which are small and trusted.

// Each test uses a part of it, and a failure to read is a failed test.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::Path;

/// Tensors by name: shape and bytes.
pub(crate) struct Vectors {
    tensors: HashMap<String, (Vec<usize>, Vec<u8>)>,
}

impl Vectors {
    pub(crate) fn open(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let file = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (head, rest) = file.split_at(8);
        let (header, data) = rest.split_at(u64::from_le_bytes(head.try_into().unwrap()) as usize);
        let mut tensors = HashMap::new();
        // The header is one JSON object whose values are objects without nested objects: `"name":{...}`.
        for entry in std::str::from_utf8(header).unwrap().trim().trim_start_matches('{').split("},") {
            let (name, entry) = entry.split_once(":{").unwrap();
            let list = |key: &str| -> Vec<usize> {
                let (_, after) = entry.split_once(key).unwrap();
                let numbers = after.split(['[', ']']).nth(1).unwrap();
                numbers.split(',').filter(|n| !n.is_empty()).map(|n| n.trim().parse().unwrap()).collect()
            };
            let (shape, place) = (list("\"shape\""), list("\"data_offsets\""));
            tensors.insert(name.trim_matches('"').to_string(), (shape, data[place[0]..place[1]].to_vec()));
        }
        Self { tensors }
    }

    /// Names of the types that have blocks, in order.
    pub(crate) fn types(&self) -> Vec<String> {
        let mut names: Vec<_> = self.tensors.keys().filter_map(|k| k.strip_suffix(".raw")).map(str::to_string).collect();
        names.sort();
        names
    }

    pub(crate) fn bytes(&self, name: &str) -> &[u8] {
        &self.tensors[name].1
    }

    pub(crate) fn shape(&self, name: &str) -> &[usize] {
        &self.tensors[name].0
    }

    pub(crate) fn floats(&self, name: &str) -> Option<Vec<f32>> {
        let (_, bytes) = self.tensors.get(name)?;
        Some(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }
}
