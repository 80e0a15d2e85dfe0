//! What a person types to name a model.

use crate::{Cache, Error, Observer, Result, Settings, entries, find, pull_repository};
use std::path::PathBuf;

/// A model as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A file or folder on this machine.
    Path(PathBuf),
    /// `hf:owner/name`, `hf:owner/name:Q4_K_M` or `hf:owner/name:file.gguf`, with `@revision` behind the name.
    Hub {
        /// `owner/name`.
        repo: String,
        /// Branch, tag or commit.
        revision: String,
        /// A file, or a quantization in its name.
        choice: Option<String>,
    },
    /// A name of the registry, with `:variant` behind it.
    Name(String),
}

impl Reference {
    /// Reads what was typed. What exists on disk, or looks like a path, is a path.
    pub fn parse(text: &str) -> Result<Self> {
        let fail = |what: &str| Err(Error::Reference { reference: text.into(), what: what.into() });
        if text.is_empty() {
            return fail("a model is a file, a folder, `hf:owner/name`, or a name from `1bit list`");
        }
        if let Some(hub) = text.strip_prefix("hf:").or_else(|| text.strip_prefix("https://huggingface.co/")) {
            let (repo, choice) = hub.split_once(':').map_or((hub, None), |(r, c)| (r, Some(c.to_string())));
            let (repo, revision) = repo.split_once('@').unwrap_or((repo, "main"));
            let plain =
                |s: &str| !s.is_empty() && s != "." && s != ".." && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            let Some((owner, name)) = repo.split_once('/') else { return fail("a Hub model is written `hf:owner/name`") };
            if !plain(owner) || !plain(name) || !revision.split('/').all(plain) || choice.as_deref() == Some("") {
                return fail("a Hub model is written `hf:owner/name`, `hf:owner/name:Q4_K_M` or `hf:owner/name@revision:file.gguf`");
            }
            return Ok(Self::Hub { repo: repo.into(), revision: revision.into(), choice });
        }
        let path = PathBuf::from(text);
        let like_path =
            text.starts_with(['/', '.', '~']) || text.contains('/') || [".gguf", ".safetensors"].iter().any(|e| text.ends_with(e));
        if like_path || path.exists() { Ok(Self::Path(path)) } else { Ok(Self::Name(text.into())) }
    }

    /// The file or folder to open: found on disk or in the cache, or fetched into it.
    pub fn obtain(&self, settings: &Settings, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
        match self {
            Self::Path(path) => match path.try_exists() {
                Ok(true) => Ok(path.clone()),
                Ok(false) => Err(Error::Io { path: path.clone(), source: std::io::ErrorKind::NotFound.into() }),
                Err(source) => Err(Error::Io { path: path.clone(), source }),
            },
            Self::Hub { repo, revision, choice } => pull_repository(repo, revision, choice.as_deref(), settings, cache, observer),
            Self::Name(name) => {
                let Some((entry, variant)) = find(name)? else {
                    let known: Vec<_> = entries()?.into_iter().map(|e| e.name).collect();
                    return Err(Error::Unknown { name: name.clone(), known: known.join(", ") });
                };
                cache.pull_variant(&entry, &variant, settings, observer)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type() {
        let hub = |repo: &str, revision: &str, choice: Option<&str>| Reference::Hub {
            repo: repo.into(),
            revision: revision.into(),
            choice: choice.map(Into::into),
        };
        for (text, want) in [
            ("hf:a/b", hub("a/b", "main", None)),
            ("hf:a/b:Q4_K_M", hub("a/b", "main", Some("Q4_K_M"))),
            ("hf:a/b@v1.0:x.gguf", hub("a/b", "v1.0", Some("x.gguf"))),
            ("https://huggingface.co/a/b", hub("a/b", "main", None)),
            ("./m.gguf", Reference::Path("./m.gguf".into())),
            ("m.gguf", Reference::Path("m.gguf".into())),
            ("smollm2:q4_1", Reference::Name("smollm2:q4_1".into())),
        ] {
            assert_eq!(Reference::parse(text).unwrap(), want, "{text}");
        }
        for text in ["", "hf:", "hf:a", "hf:a/", "hf:../b", "hf:a/..", "hf:a/b c", "hf:a/b:", "hf:a/b@../x", "hf:a/b/c"] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
    }
}
