//! The models that 1bit knows by name: `registry/*.toml`, embedded in the binary.

use crate::{Error, Result, Source};
use serde::{Deserialize, Serialize};

include!(concat!(env!("OUT_DIR"), "/entries.rs"));

/// One model of the registry.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The name to type.
    pub name: String,
    /// Other names for it.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What people call it.
    pub title: String,
    /// Its architecture, as `1bit show` prints it.
    pub architecture: String,
    /// Numbers in its weights.
    pub parameters: u64,
    /// Tokens of context that it was made for.
    pub context: u64,
    /// SPDX identifier.
    pub licence: String,
    /// Where to read about it.
    pub page: String,
    /// Its quantizations; the first is the one to take.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
}

/// One quantization of a model.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// `q4_1`, typed after a colon: `smollm2:q4_1`.
    pub name: String,
    /// Its files; the first is the one to open.
    #[serde(rename = "file")]
    pub files: Vec<FileEntry>,
}

/// One file of a model.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Its name in the cache.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Its sha256, lower-case hexadecimal.
    pub sha256: String,
    /// Where it can be had, in order of preference.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
}

impl Variant {
    /// Bytes of all files.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }
}

/// All entries, checked.
pub fn entries() -> Result<Vec<Entry>> {
    ENTRIES.iter().map(|(file, text)| parse(file, text)).collect()
}

fn parse(file: &str, text: &str) -> Result<Entry> {
    let fail = |what: String| Error::Entry { file: file.to_string(), what };
    let entry: Entry = toml::from_str(text).map_err(|e| fail(e.to_string()))?;
    if entry.variants.is_empty() || entry.variants.iter().any(|v| v.files.is_empty()) {
        return Err(fail("an entry needs a variant, and a variant a file".into()));
    }
    for f in entry.variants.iter().flat_map(|v| &v.files) {
        if f.sha256.len() != 64 || !f.sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(fail(format!("`{}`: the sha256 is not 64 lower-case hexadecimal digits", f.name)));
        }
        if f.name.is_empty() || f.name.contains(['/', '\\']) || f.name.starts_with('.') {
            return Err(fail(format!("`{}` is not a plain file name", f.name)));
        }
        if f.sources.is_empty() {
            return Err(fail(format!("`{}` has no source", f.name)));
        }
    }
    Ok(entry)
}

/// The entry and variant that `name` or `name:variant` means, ignoring case; `None` when no entry has the name.
pub fn find(name: &str) -> Result<Option<(Entry, Variant)>> {
    let (model, variant) = name.split_once(':').map_or((name, None), |(m, v)| (m, Some(v)));
    let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    let Some(entry) = entries()?.into_iter().find(|e| same(&e.name, model) || e.aliases.iter().any(|a| same(a, model))) else {
        return Ok(None);
    };
    let found = variant.map_or(entry.variants.first(), |v| entry.variants.iter().find(|x| same(&x.name, v))).cloned();
    match found {
        Some(v) => Ok(Some((entry, v))),
        None => {
            let known: Vec<_> = entry.variants.iter().map(|v| v.name.as_str()).collect();
            Err(Error::Reference { reference: name.into(), what: format!("`{}` comes as {}", entry.name, known.join(", ")) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_entries_are_sound_and_their_names_unique() {
        let all = entries().unwrap();
        let mut names: Vec<_> = all.iter().flat_map(|e| e.aliases.iter().chain([&e.name])).map(|n| n.to_ascii_lowercase()).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count > 0);
    }

    #[test]
    fn names_variants_and_case() {
        assert_eq!(find("SmolLM2:Q4_1").unwrap().unwrap().1.name, "q4_1");
        assert!(find("no-such-model").unwrap().is_none());
        assert!(find("smollm2:q9").unwrap_err().to_string().contains("q4_1"));
    }

    #[test]
    fn faulty_entries_are_refused_by_file_and_field() {
        let good = ENTRIES.iter().find(|e| e.0 == "smollm2.toml").unwrap().1;
        for (from, to, word) in [
            ("sha256 = \"b179", "sha256 = \"B179", "sha256"),
            ("size =", "sise =", "sise"),
            ("name = \"SmolLM2-135M", "name = \"../SmolLM2-135M", "plain file name"),
        ] {
            let said = parse("x.toml", &good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(said.starts_with("registry/x.toml") && said.contains(word), "{said}");
        }
    }
}
