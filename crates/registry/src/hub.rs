//! Whole models from a repository on the Hugging Face Hub.

use crate::{
    Cache, Error, HuggingFace, Observer, Result, Settings,
    cache::{Wanted, hub_id},
    download,
};
use serde::Deserialize;
use std::{fs, path::PathBuf};

/// The most bytes of a repository's description that are read.
const MOST_DESCRIPTION: u64 = 32 << 20;

/// Quantizations in the order in which one is taken when the person names none.
const PREFERRED: &[&str] = &["Q4_K_M", "Q4_K_S", "Q4_0", "Q4_1", "Q5_K_M", "Q8_0", "F16", "BF16"];

/// `GET /api/models/OWNER/NAME/revision/REVISION?blobs=true`.
#[derive(Deserialize)]
struct Description {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Clone, Deserialize)]
struct Sibling {
    #[serde(rename = "rfilename")]
    name: String,
    #[serde(default)]
    size: u64,
    lfs: Option<Lfs>,
}

#[derive(Clone, Deserialize)]
struct Lfs {
    sha256: String,
    size: u64,
}

/// Fetches a model of the Hub: the GGUF file that `choice` names (a file name, or a quantization in it), or the safetensors
/// directory. Gives the path to open. When the Hub cannot be reached, what was fetched before is used.
pub fn pull_repository(
    repo: &str,
    revision: &str,
    choice: Option<&str>,
    settings: &Settings,
    cache: &Cache,
    observer: &dyn Observer,
) -> Result<PathBuf> {
    let id = hub_id(repo);
    let memory = cache.model(&id).join("refs").join(format!("{}.json", revision.replace('/', "--")));
    let text = match describe(repo, revision, settings) {
        Ok(text) => {
            let folder = cache.model(&id).join("refs");
            fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
            fs::write(&memory, &text).map_err(Error::io(&memory))?;
            text
        }
        Err(error) => {
            let Ok(text) = fs::read_to_string(&memory) else { return Err(error) };
            observer.note(&format!("{error}; using what was fetched before"));
            text
        }
    };
    let description: Description = serde_json::from_str(&text)
        .map_err(|e| Error::Fetch(format!("{} described {repo} in a form that is not understood: {e}", settings.endpoint)))?;
    if !description.sha.bytes().all(|b| b.is_ascii_alphanumeric()) || description.sha.is_empty() {
        return Err(Error::Fetch(format!("{} named the commit of {repo} `{}`", settings.endpoint, description.sha)));
    }
    let files = choose(repo, &description.siblings, choice, observer)?;
    let mut first = None;
    for file in &files {
        let (size, sha256) = file.lfs.as_ref().map_or((file.size, None), |l| (l.size, Some(l.sha256.as_str())));
        let wanted = Wanted { name: &file.name, size, sha256 };
        let source = HuggingFace { repo: repo.into(), revision: description.sha.clone(), path: file.name.clone() };
        let path = cache.obtain(&id, &description.sha, &wanted, observer, &mut |part, observer| {
            source.fetch(part, settings, observer)?;
            Ok(None)
        })?;
        first.get_or_insert(path);
    }
    match first {
        Some(gguf) if files.iter().any(|f| f.name.ends_with(".gguf")) => Ok(gguf),
        _ => Ok(cache.model(&id).join("snapshots").join(&description.sha)),
    }
}

fn describe(repo: &str, revision: &str, settings: &Settings) -> Result<String> {
    if settings.offline {
        return Err(Error::Fetch(format!("{repo} was not looked up: HF_HUB_OFFLINE or ONEBIT_OFFLINE is set")));
    }
    let url = format!("{}/api/models/{repo}/revision/{}?blobs=true", settings.endpoint, revision.replace('/', "%2F"));
    let mut answer = download::get(&download::client(settings.stall), &url, settings.token.as_deref(), 0)?;
    answer
        .body_mut()
        .with_config()
        .limit(MOST_DESCRIPTION)
        .read_to_string()
        .map_err(|e| Error::Fetch(format!("{}: {e}", settings.endpoint)))
}

/// The files to fetch, the one to open first.
fn choose(repo: &str, all: &[Sibling], choice: Option<&str>, observer: &dyn Observer) -> Result<Vec<Sibling>> {
    let fail = |what: String| Err(Error::Reference { reference: format!("hf:{repo}"), what });
    let safe = |s: &&Sibling| !s.name.contains('\\') && s.name.split('/').all(|c| !c.is_empty() && !c.starts_with('.'));
    let ends = |s: &Sibling, e: &[&str]| e.iter().any(|e| s.name.ends_with(e));
    let ggufs: Vec<&Sibling> = all.iter().filter(safe).filter(|s| s.name.ends_with(".gguf") && !s.name.contains("mmproj")).collect();
    let names = || ggufs.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ");
    let whole = |file: &Sibling| -> Vec<Sibling> {
        // `model-00002-of-00005.gguf` is a fifth of a model.
        let Some((stem, count)) = split_of(&file.name) else { return vec![file.clone()] };
        ggufs.iter().filter(|s| split_of(&s.name) == Some((stem, count))).map(|s| (*s).clone()).collect()
    };
    if let Some(choice) = choice {
        if let Some(file) = all.iter().filter(safe).find(|s| s.name == choice) {
            return Ok(whole(file));
        }
        let found: Vec<_> = ggufs.iter().filter(|s| names_quantization(&s.name, choice)).collect();
        return match found.first() {
            Some(file) => Ok(whole(file)),
            None => fail(format!("no file is, or is quantized as, `{choice}`; it has: {}", names())),
        };
    }
    let tensors = all.iter().filter(safe).any(|s| s.name.ends_with(".safetensors") && !s.name.contains('/'));
    if tensors {
        let keep = |s: &&Sibling| {
            !s.name.contains('/') && ends(s, &[".safetensors", ".json", ".jinja", ".model", ".tiktoken", "vocab.txt", "merges.txt"])
        };
        return Ok(all.iter().filter(safe).filter(keep).cloned().collect());
    }
    if ggufs.is_empty() {
        return fail("it has neither safetensors nor GGUF files".into());
    }
    let best = PREFERRED.iter().find_map(|q| ggufs.iter().find(|s| names_quantization(&s.name, q))).unwrap_or(&ggufs[0]);
    if ggufs.len() > 1 {
        observer.note(&format!("taking {}; others: {}", best.name, names()));
    }
    Ok(whole(best))
}

/// Whether a file's name has the quantization as a word: `Q4_K` is not in `x-Q4_K_M.gguf`.
fn names_quantization(file: &str, quantization: &str) -> bool {
    let (file, quantization) = (file.to_ascii_lowercase(), quantization.to_ascii_lowercase());
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_');
    file.match_indices(&quantization)
        .any(|(i, _)| edge(file[..i].chars().next_back()) && edge(file[i + quantization.len()..].chars().next()))
}

/// (stem, count) of a part of a split file.
fn split_of(name: &str) -> Option<(&str, &str)> {
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits = |s: &str| s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit());
    (digits(number) && digits(count)).then_some((stem, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    fn files(names: &[&str]) -> Vec<Sibling> {
        names.iter().map(|n| Sibling { name: (*n).into(), size: 1, lfs: None }).collect()
    }

    fn chosen(names: &[&str], choice: Option<&str>) -> Vec<String> {
        choose("a/b", &files(names), choice, &Silent).unwrap().into_iter().map(|s| s.name).collect()
    }

    #[test]
    fn quantizations_are_words() {
        assert!(names_quantization("m-Q4_K_M.gguf", "q4_k_m"));
        assert!(names_quantization("m.Q4_K_M-00001-of-00002.gguf", "Q4_K_M"));
        assert!(!names_quantization("m-Q4_K_M.gguf", "Q4_K"));
        assert!(!names_quantization("m-IQ4_XS.gguf", "Q4_XS"));
    }

    #[test]
    fn choices() {
        let many = ["m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-F16.gguf"];
        assert_eq!(chosen(&many, None), ["m-Q4_K_M.gguf"]);
        assert_eq!(chosen(&many, Some("q8_0")), ["m-Q8_0.gguf"]);
        assert!(choose("a/b", &files(&many), Some("F16"), &Silent).is_err());
        let split = ["m-Q4_0-00001-of-00002.gguf", "m-Q4_0-00002-of-00002.gguf", "m-Q8_0-00001-of-00002.gguf"];
        assert_eq!(chosen(&split, Some("Q4_0")), split[..2]);
        let folder = ["model.safetensors", "config.json", "tokenizer.json", "README.md", "onnx/model.onnx", "../x.json", ".git/x.json"];
        assert_eq!(chosen(&folder, None), folder[..3]);
        assert!(choose("a/b", &files(&["pytorch_model.bin"]), None, &Silent).is_err());
    }
}
