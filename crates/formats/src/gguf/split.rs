//! A GGUF model in one file, or split into `NAME-00001-of-0000N.gguf`, as `llama-gguf-split` does.
//!
//! The first part has the metadata; every part says which it is (`split.no`, from 0), how many there are (`split.count`),
//! and how many tensors all of them have (`split.tensors.count`).

use super::read::{Header, header};
use crate::{Checkpoint, Error, Mapping, Result, Source, Tensor, folder::Folder};
use std::{
    collections::{BTreeMap, btree_map},
    path::Path,
    sync::Arc,
};

/// The parts of a split file's name.
#[derive(Debug, PartialEq, Eq)]
struct PartName<'a> {
    stem: &'a str,
    /// From 1.
    number: u32,
    count: u32,
}

impl<'a> PartName<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let rest = name.strip_suffix(".gguf")?;
        let (rest, count) = rest.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let five = |s: &str| (s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok()).flatten();
        Some(Self { stem, number: five(number)?, count: five(count)? })
    }
    fn of(stem: &str, number: u32, count: u32) -> String {
        format!("{stem}-{number:05}-of-{count:05}.gguf")
    }
}

/// The GGUF models among the files `names` of a folder: single files, and one part of each split model. Projectors
/// (`mmproj*`), which only go with a model, are left out.
pub(crate) fn sets(names: &[String]) -> Vec<&String> {
    let mut seen = Vec::new();
    let models = names.iter().filter(|n| n.ends_with(".gguf") && !n.starts_with("mmproj"));
    models
        .filter(|n| match PartName::parse(n) {
            Some(part) => {
                let set = (part.stem, part.count);
                let new = !seen.contains(&set);
                seen.push(set);
                new
            }
            None => true,
        })
        .collect()
}

/// Opens the file `path`, and the other parts when it is one of several.
pub(crate) fn open(path: &Path) -> Result<Checkpoint> {
    let file = Arc::new(Mapping::open(path)?);
    let head = header(path, file.bytes())?;
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let said = head.metadata.unsigned("split.count")?.unwrap_or(0);
    let part = match (said, PartName::parse(name)) {
        (0 | 1, None) | (1, Some(PartName { count: 1, .. })) => {
            let mut tensors = BTreeMap::new();
            add(&mut tensors, head.tensors.into_iter().map(|e| e.tensor(&file)))?;
            return Ok(checkpoint(path, head.metadata, tensors));
        }
        (0, Some(p)) => {
            let advice = "join the parts if a tool cut the file by bytes, or rename it if it is whole";
            let text = format!("is named as part {} of {}, but its metadata has no `split.count`; {advice}", p.number, p.count);
            return Err(Error::invalid(path, text));
        }
        (n, None) => {
            let text = format!(
                "is one part of a model in {n} files (`split.count`), but is not named NAME-00001-of-{n:05}.gguf; give all parts their names back"
            );
            return Err(Error::invalid(path, text));
        }
        (_, Some(p)) => p,
    };
    if part.number == 0 || part.number > part.count {
        return Err(Error::invalid(path, format!("is named as part {} of {}", part.number, part.count)));
    }
    whole(path, &part, (file, head))
}

/// Opens all parts of the model that the file `path`, opened as `own`, is a `part` of.
fn whole(path: &Path, part: &PartName<'_>, own: (Arc<Mapping>, Header)) -> Result<Checkpoint> {
    let folder = Folder::of(path)?;
    let mut paths = Vec::new();
    let mut missing = Vec::new();
    for number in 1..=part.count {
        let name = PartName::of(part.stem, number, part.count);
        match folder.file(&name)? {
            _ if number == part.number => paths.push(path.to_path_buf()),
            Some(p) => paths.push(p),
            None if missing.len() < 8 => missing.push(name),
            None => missing.push("...".into()),
        }
    }
    if !missing.is_empty() {
        missing.dedup();
        let text = format!("is part {} of {}; missing beside it: {}", part.number, part.count, missing.join(", "));
        return Err(Error::invalid(path, text));
    }
    let mut own = Some(own);
    let mut first = None;
    let mut tensors = BTreeMap::new();
    for (number, path) in (1..).zip(&paths) {
        let (file, head) = match own.take_if(|_| number == part.number) {
            Some(own) => own,
            None => {
                let file = Arc::new(Mapping::open(path)?);
                let head = header(path, file.bytes())?;
                (file, head)
            }
        };
        check(path, &head, number, part.count)?;
        add(&mut tensors, head.tensors.into_iter().map(|e| e.tensor(&file)))?;
        match &first {
            Some(first) => same_model(path, first, &head.metadata)?,
            None => first = Some(head.metadata),
        }
    }
    let metadata = first.unwrap_or_default();
    if let Some(total) = metadata.unsigned("split.tensors.count")?
        && total != tensors.len() as u64
    {
        let text = format!("`split.tensors.count` is {total}, but the {} parts have {} tensors", part.count, tensors.len());
        return Err(Error::invalid(&paths[0], text));
    }
    Ok(checkpoint(&paths[0], metadata, tensors))
}

/// Holds a part's own word against its name.
fn check(path: &Path, head: &Header, number: u32, count: u32) -> Result<()> {
    let said = head.metadata.unsigned("split.count")?.unwrap_or(0);
    if said != u64::from(count) {
        return Err(Error::invalid(path, format!("`split.count` is {said}, but the name says {count}")));
    }
    let no = head.metadata.unsigned("split.no")?;
    if no != Some(u64::from(number - 1)) {
        let no = no.map_or("absent".into(), |n| n.to_string());
        return Err(Error::invalid(path, format!("`split.no` is {no}, but by its name it should be {}; were files renamed?", number - 1)));
    }
    Ok(())
}

/// Refuses a part that says of the model what the first part does not.
fn same_model(path: &Path, first: &crate::Metadata, other: &crate::Metadata) -> Result<()> {
    let own = |key: &str| matches!(key, "split.no" | "general.alignment");
    for (key, value) in other.pairs.iter().filter(|(k, _)| !own(k)) {
        if first.get(key) != Some(value) {
            let name = first.path.file_name().unwrap_or_default().display();
            return Err(Error::invalid(path, format!("is not of the same model as {name}: they differ in metadata `{key}`")));
        }
    }
    Ok(())
}

/// Adds a file's tensors, refusing a name that is there already.
fn add(all: &mut BTreeMap<String, Tensor>, tensors: impl Iterator<Item = Tensor>) -> Result<()> {
    for tensor in tensors {
        match all.entry(tensor.name().to_owned()) {
            btree_map::Entry::Occupied(old) => {
                let other = old.get().path().file_name().unwrap_or_default().display();
                let text = format!("tensor `{}` is also in {other}", tensor.name());
                return Err(Error::invalid(tensor.path(), text));
            }
            btree_map::Entry::Vacant(slot) => {
                slot.insert(tensor);
            }
        }
    }
    Ok(())
}

fn checkpoint(path: &Path, metadata: crate::Metadata, tensors: BTreeMap<String, Tensor>) -> Checkpoint {
    Checkpoint {
        source: Source::Gguf,
        path: path.to_path_buf(),
        metadata,
        config: Default::default(),
        generation_config: Default::default(),
        tensors,
    }
}
