//! Opens the shared fixtures: real folders of many architectures, and one real GGUF file where there is one.

use onebit_formats::{Checkpoint, Source};
use std::path::PathBuf;

/// The folder `shared` beside the repository, or where `ONEBIT_SHARED` says.
fn shared() -> Option<PathBuf> {
    let dir = std::env::var_os("ONEBIT_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")), PathBuf::from);
    let found = dir.join("fixtures/data").is_dir();
    if !found {
        eprintln!("SKIPPED: no fixtures in {}", dir.display());
    }
    found.then_some(dir)
}

#[test]
fn every_fixture_opens() {
    let Some(shared) = shared() else { return };
    let mut n = 0;
    for entry in std::fs::read_dir(shared.join("fixtures/data")).unwrap() {
        let path = entry.unwrap().path();
        let c = Checkpoint::open(&path).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(c.source, Source::HuggingFace);
        assert!(c.config.contains_key("model_type"), "{}", path.display());
        assert!(!c.tensors.is_empty());
        assert!(c.sidecar("meta.json").unwrap().is_some());
        assert!(c.sidecar("tokenizer.json").unwrap().is_none());
        let e = Checkpoint::open(path.join("expected.safetensors")).unwrap();
        assert!(e.tensors.values().any(|t| t.ty().name() == "I64"), "token ids");
        assert!(e.tensors.values().any(|t| t.ty().name() == "F32"), "logits");
        n += 1;
    }
    assert!(n > 100, "{n} fixtures");
}
