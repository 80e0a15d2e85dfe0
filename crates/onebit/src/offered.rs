//! Which models a server offers, and by which names: models by themselves, and folders that hold several.

use crate::{Loudness, failure::Usage, open};
use anyhow::Context;
use onebit_registry::Reference;
use std::path::{Path, PathBuf};

/// A model to be served.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offered {
    pub(crate) path: PathBuf,
    /// Its own name, and those that were given.
    pub(crate) name: String,
    pub(crate) aliases: Vec<String>,
}

/// What was asked for by `--model` and `--alias`.
#[derive(Debug, PartialEq)]
pub(crate) enum Offers {
    /// One model, which is loaded at the start; the first alias is its name.
    One(Offered),
    /// Several, each loaded when it is asked for.
    Several(Vec<Offered>),
}

impl Offers {
    /// Finds the models, and fetches those that are not here yet.
    pub(crate) fn find(models: &[String], aliases: &[String], loudness: Loudness) -> anyhow::Result<Self> {
        let mut found = vec![];
        for model in models {
            match held(model)? {
                Some(paths) => found.extend(paths.into_iter().map(|path| (own_name(&path), path))),
                None => {
                    let path = open::obtain(model, loudness)?;
                    found.push((open::display_name(model, &path), path));
                }
            }
        }
        Self::named(found, aliases)
    }

    fn named(found: Vec<(String, PathBuf)>, aliases: &[String]) -> anyhow::Result<Self> {
        let mut offered: Vec<Offered> = vec![];
        for (name, path) in found {
            if let Some(other) = offered.iter().find(|other| other.name == name) {
                let (one, two) = (other.path.display(), path.display());
                return Err(Usage(format!("--model: {one} and {two} are both called `{name}`; give one of them another file name")).into());
            }
            offered.push(Offered { path, name, aliases: vec![] });
        }
        if let [only] = offered.as_mut_slice() {
            let mut names = aliases.iter().cloned().chain([only.name.clone()]);
            only.name = names.next().unwrap_or_default();
            only.aliases = names.collect();
            return Ok(Self::One(offered.remove(0)));
        }
        for alias in aliases {
            let Some((alias, name)) = alias.split_once('=') else {
                return Err(Usage(format!("--alias {alias}: with several models, ALIAS=NAME tells which one is meant")).into());
            };
            if let Some(other) = offered.iter().find(|other| other.name == alias || other.aliases.iter().any(|a| a == alias)) {
                return Err(Usage(format!("--alias {alias}={name}: `{alias}` is a name of {} already", other.path.display())).into());
            }
            let known = || offered.iter().map(|offered| offered.name.as_str()).collect::<Vec<_>>().join(", ");
            let Some(at) = offered.iter().position(|offered| offered.name == name) else {
                return Err(Usage(format!("--alias {alias}={name}: no model is called `{name}`; there are {}", known())).into());
            };
            offered[at].aliases.push(alias.to_string());
        }
        Ok(Self::Several(offered))
    }
}

/// The models in a folder that holds several; `None` for everything else. A folder in it is one if it has `config.json`, or one GGUF model.
fn held(model: &str) -> anyhow::Result<Option<Vec<PathBuf>>> {
    let Reference::Path(folder) = Reference::parse(model)? else { return Ok(None) };
    if !folder.is_dir() || is_checkpoint(&folder)? {
        return Ok(None);
    }
    let mut found = ggufs(&folder)?;
    for inner in entries(&folder)?.into_iter().filter(|path| path.is_dir()) {
        if is_checkpoint(&inner)? {
            found.push(inner);
        } else if let [only] = ggufs(&inner)?.as_slice() {
            found.push(only.clone());
        }
    }
    found.sort();
    // One file may lie in a folder for itself; of none, opening the folder tells best what is wrong.
    let is_one = found.is_empty() || found.len() == 1 && found[0].is_file() && found[0].parent() == Some(&folder);
    Ok((!is_one).then_some(found))
}

fn is_checkpoint(folder: &Path) -> anyhow::Result<bool> {
    let is_weights = |path: &PathBuf| path.extension().is_some_and(|end| end == "safetensors");
    Ok(folder.join("config.json").exists() || entries(folder)?.iter().any(is_weights))
}

/// The GGUF models in a folder: of split ones the first part, and no vision towers.
fn ggufs(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let is_model = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_later_part = part(&name).is_some_and(|number| number != "00001");
        name.ends_with(".gguf") && !name.starts_with('.') && !name.to_lowercase().contains("mmproj") && !is_later_part && path.is_file()
    };
    Ok(entries(folder)?.into_iter().filter(is_model).collect())
}

/// The number in `NAME-00001-of-00002.gguf`.
fn part(name: &str) -> Option<&str> {
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (_, number) = rest.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(number) && is_number(count)).then_some(number)
}

fn own_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = match part(&name) {
        Some(_) => name.rsplitn(4, '-').nth(3).unwrap_or_default().to_string(),
        None => name,
    };
    name.strip_suffix(".gguf").map_or(name.clone(), str::to_string)
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let all = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> = all.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(offers: Offers) -> Vec<(String, Vec<String>)> {
        match offers {
            Offers::One(one) => vec![(one.name, one.aliases)],
            Offers::Several(all) => all.into_iter().map(|one| (one.name, one.aliases)).collect(),
        }
    }

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_string()).collect()
    }

    #[test]
    fn a_folder_of_several_is_told_from_a_model() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let touch = |name: &str| {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), "").unwrap();
        };
        let whole = folder.path().to_str().unwrap();
        assert_eq!(held(whole).unwrap(), None, "nothing is in it");
        touch("a.gguf");
        assert_eq!(held(whole).unwrap(), None, "one file is one model");
        for name in ["mmproj-a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf", ".hidden.gguf", "notes.txt"] {
            touch(name);
        }
        for name in ["c/config.json", "d/d.gguf", "d/mmproj.gguf", "e/one.gguf", "e/two.gguf", "empty/x.txt"] {
            touch(name);
        }
        let found = held(whole).unwrap().unwrap();
        assert_eq!(found, ["a.gguf", "b-00001-of-00002.gguf", "c", "d/d.gguf"].map(at));
        assert_eq!(found.iter().map(|path| own_name(path)).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(held(at("c").to_str().unwrap()).unwrap(), None);
        touch("config.json");
        assert_eq!(held(whole).unwrap(), None, "it is a model itself");
        assert_eq!(held("smollm2").unwrap(), None);
    }

    #[test]
    fn names_and_aliases() {
        let found =
            |names: &[&str]| names.iter().map(|name| ((*name).to_string(), PathBuf::from(format!("/m/{name}.gguf")))).collect::<Vec<_>>();
        let one = Offers::named(found(&["a"]), &texts(&["x", "y=z"])).unwrap();
        assert_eq!(names(one), [("x".to_string(), texts(&["y=z", "a"]))], "one model takes all aliases as they are");
        let two = Offers::named(found(&["a", "b"]), &texts(&["x=b", "y=b", "z=a"])).unwrap();
        assert_eq!(names(two), [("a".to_string(), texts(&["z"])), ("b".to_string(), texts(&["x", "y"]))]);
        for (names, aliases, word) in [
            (vec!["a", "a"], vec![], "both called `a`"),
            (vec!["a", "b"], vec!["x"], "--alias x: with several models"),
            (vec!["a", "b"], vec!["x=c"], "no model is called `c`; there are a, b"),
            (vec!["a", "b"], vec!["a=b"], "`a` is a name of /m/a.gguf already"),
            (vec!["a", "b"], vec!["x=a", "x=b"], "`x` is a name of /m/a.gguf already"),
        ] {
            let error = Offers::named(found(&names), &texts(&aliases)).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
