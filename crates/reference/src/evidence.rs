//! What tests have shown, for the table of architectures.
//!
//! Where the environment variable `ONEBIT_EVIDENCE` names a file, each proof appends a line of JSON to it:
//!
//! ```json
//! {"family":"llama","form":"gguf","against":"transformers","worst":3.1e-6,"test":"fixtures::converted::llama"}
//! ```

use serde_json::{Value, json};
use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

/// The form of a checkpoint that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A folder as on the Hugging Face Hub.
    Safetensors,
    /// A GGUF file.
    Gguf,
}

impl Form {
    /// That of the checkpoint at `path`.
    pub fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|e| e == "gguf") { Self::Gguf } else { Self::Safetensors }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Gguf => "gguf",
        }
    }
}

/// Who computed the expected values in the fixture's folder: `transformers`, where its `meta.json` names a version of it, else
/// `own oracle`.
pub fn author(folder: &Path) -> &'static str {
    let meta = std::fs::read(folder.join("meta.json")).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    if meta.is_some_and(|m| m.get("transformers").is_some()) { "transformers" } else { "own oracle" }
}

/// Notes that the running test has found the family in this form to differ from `against` by at most `worst`: standard deviations of
/// the logits, or what the bar of that comparison is measured in. To be called once the comparison has held.
///
/// # Panics
///
/// Where the file that `ONEBIT_EVIDENCE` names cannot be written.
pub fn record(family: &str, form: Form, against: &str, worst: f64) {
    let Some(file) = std::env::var_os("ONEBIT_EVIDENCE").map(PathBuf::from) else { return };
    // Those that differ from others by settings that GGUF files can say.
    let family = family.strip_suffix("_in_gguf").unwrap_or(family);
    let line = json!({ "family": family, "form": form.name(), "against": against, "worst": worst, "test": test() });
    // Whole lines at once, as tests run at the same time.
    let written = OpenOptions::new().create(true).append(true).open(&file).and_then(|mut f| f.write_all(format!("{line}\n").as_bytes()));
    assert!(written.is_ok(), "ONEBIT_EVIDENCE: {} cannot be written: {written:?}", file.display());
}

/// The running test's name: the program's, less the hash that Cargo adds, and that of its thread.
fn test() -> String {
    let program = std::env::current_exe().ok().and_then(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    let program = program.as_deref().and_then(|stem| stem.rsplit_once('-')).map_or("", |(name, _)| name);
    format!("{program}::{}", std::thread::current().name().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_says_its_name() {
        assert_eq!(test(), "onebit_reference::evidence::tests::a_test_says_its_name");
    }

    #[test]
    fn forms_and_authors() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/data");
        assert_eq!((author(&data.join("llama")), author(&data.join("baichuan"))), ("transformers", "own oracle"));
        assert_eq!((Form::of(&data.join("llama")), Form::of(Path::new("a/m.gguf"))), (Form::Safetensors, Form::Gguf));
    }
}
