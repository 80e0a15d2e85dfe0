//! A folder with safetensors: one file, or shards with an index that says which tensor is in which.

use super::read::{Opened, open_file};
use crate::{
    Error, Result, Tensor,
    bytes::quote,
    folder::{Folder, plain},
    json::{self, Pairs, Text, twice},
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// The most tensors of an index. The largest known has 210,000.
const WEIGHT_LIMIT: usize = 1 << 19;

/// The tensors of the folder's safetensors, `None` where it has none. `names` are the folder's files.
///
/// As the transformers library does: `model.safetensors` first, then `model.safetensors.index.json`, and otherwise the only
/// index or the only file that there is.
pub(crate) fn open_folder(folder: &Folder, names: &[String]) -> Result<Option<Opened>> {
    let has = |name: &str| names.iter().any(|n| n == name);
    let ending = |end: &str| names.iter().filter(|n| n.ends_with(end)).collect::<Vec<_>>();
    if has(SINGLE) {
        return single(folder, SINGLE).map(Some);
    }
    if has(INDEX) {
        return sharded(folder, INDEX).map(Some);
    }
    let (files, indices) = (ending(".safetensors"), ending(".safetensors.index.json"));
    match (files.as_slice(), indices.as_slice()) {
        ([], []) => Ok(None),
        // Beside a GGUF model, a file of another name is not the model.
        (_, []) if !ending(".gguf").is_empty() => Ok(None),
        (_, [index]) => sharded(folder, index).map(Some),
        ([file], []) => single(folder, file).map(Some),
        (_, []) => {
            let text = format!("has {} safetensors files, but no {INDEX} that says what is in which; download it too", files.len());
            Err(Error::invalid(folder.path(), text))
        }
        _ => Err(Error::invalid(folder.path(), format!("has {} indices of safetensors; only one can be meant", indices.len()))),
    }
}

/// The tensors of the file `name`.
fn single(folder: &Folder, name: &str) -> Result<Opened> {
    let path = folder.file(name)?.unwrap_or_else(|| folder.path().join(name));
    open_file(&path)
}

/// The tensors of the shards that the index `name` lists.
fn sharded(folder: &Folder, name: &str) -> Result<Opened> {
    let path = folder.path().join(name);
    let fault = |what: String| Error::invalid(&path, what);
    let text = folder.text(name)?.unwrap_or_default();
    let Index(Some(Pairs(pairs))) = json::typed(&path, &text)? else {
        return Err(fault("has no `weight_map`".into()));
    };
    for (tensor, shard) in &pairs {
        if !plain(shard) || !shard.ends_with(".safetensors") {
            let (tensor, shard) = (quote(tensor.as_bytes()), quote(shard.as_bytes()));
            return Err(fault(format!("`weight_map` puts {tensor} in {shard}, which is not a plain name of a safetensors file")));
        }
    }
    let map: HashMap<&str, &str> = pairs.iter().map(|(t, s)| (&**t, &**s)).collect();
    let shards: BTreeSet<&str> = map.values().copied().collect();
    let mut missing = Vec::new();
    let mut paths = Vec::new();
    for shard in shards {
        match folder.file(shard)? {
            Some(p) => paths.push((shard, p)),
            None => missing.push(shard),
        }
    }
    if !missing.is_empty() {
        let more = missing.len().saturating_sub(8);
        missing.truncate(8);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return Err(fault(format!("names files that are not in the folder: {}{more}; download them", missing.join(", "))));
    }
    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    let mut texts = BTreeMap::new();
    for (shard, path) in paths {
        let opened = open_file(&path)?;
        for (name, text) in opened.texts {
            texts.entry(name).or_insert(text);
        }
        for tensor in opened.tensors.into_values() {
            let listed = map.get(tensor.name());
            // A tensor that the index forgot is still loaded, as transformers does. Where two shards have it, the index decides.
            if listed.is_some_and(|l| *l != shard) {
                continue;
            }
            if let Some(old) = tensors.insert(tensor.name().to_owned(), tensor) {
                let other = old.path().file_name().unwrap_or_default().display();
                return Err(Error::invalid(&path, format!("tensor {} is also in {other}", quote(old.name().as_bytes()))));
            }
        }
    }
    if let Some((tensor, shard)) = pairs.iter().find(|(t, _)| !tensors.contains_key(&**t)) {
        return Err(fault(format!("says that tensor {} is in {shard}, but it is not", quote(tensor.as_bytes()))));
    }
    Ok(Opened { tensors, texts })
}

/// An index: the file of each tensor. Other keys (`metadata`) say nothing that the shards do not.
struct Index<'a>(Option<Pairs<'a, WEIGHT_LIMIT>>);

impl<'de> Deserialize<'de> for Index<'de> {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        struct IndexVisitor;
        impl<'de> Visitor<'de> for IndexVisitor {
            type Value = Index<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Index<'de>, A::Error> {
                let mut index = Index(None);
                while let Some(Text(key)) = map.next_key()? {
                    if key != "weight_map" {
                        map.next_value::<IgnoredAny>()?;
                    } else if index.0.replace(map.next_value()?).is_some() {
                        return Err(twice(&key));
                    }
                }
                Ok(index)
            }
        }
        de.deserialize_map(IndexVisitor)
    }
}
