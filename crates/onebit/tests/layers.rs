//! Which crate may know which (docs/ARCHITECTURE.md), and where `unsafe` may be.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

use std::{collections::BTreeMap, fs, path::Path};

/// Crate, and the crates of ours that it may depend on.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("quants", &[]),
    ("formats", &["quants"]),
    ("text", &["formats"]),
    ("plan", &["formats", "quants"]),
    ("vision", &["plan", "text"]),
    ("models", &["plan", "formats", "quants", "text", "vision"]),
    ("reference", &["plan", "formats", "quants"]),
    ("cpu", &["plan", "formats", "quants"]),
    ("gpu", &["plan", "quants", "rdna"]),
    ("grammar", &["text"]),
    ("engine", &["plan", "text", "grammar"]),
    ("server", &["engine", "text", "grammar", "vision"]),
    ("registry", &[]),
    ("quantize", &["formats", "quants"]),
    ("rdna", &[]),
    ("standin", &["rdna"]),
];

const UNSAFE: &[&str] = &["formats", "cpu", "gpu", "rdna", "standin"];

fn manifests() -> BTreeMap<String, String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let entries = fs::read_dir(crates).unwrap().map(|e| e.unwrap().path()).filter(|p| p.join("Cargo.toml").exists());
    entries.map(|p| (p.file_name().unwrap().to_str().unwrap().to_string(), fs::read_to_string(p.join("Cargo.toml")).unwrap())).collect()
}

/// The lines of one table of a manifest.
fn table<'a>(manifest: &'a str, name: &str) -> Vec<&'a str> {
    manifest.lines().skip_while(|l| l.trim() != name).skip(1).take_while(|l| !l.starts_with('[')).filter(|l| !l.is_empty()).collect()
}

#[test]
fn dependencies_point_one_way() {
    let manifests = manifests();
    for (name, manifest) in &manifests {
        if name == "onebit" {
            continue;
        }
        let (_, allowed) =
            MAY_KNOW.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("crate `{name}` is not in the table of layers"));
        for line in table(manifest, "[dependencies]") {
            let other = line.split(['.', ' ', '=']).next().unwrap();
            // `rdna` is usable alone, so it has no prefix.
            let Some(other) = other.strip_prefix("onebit-").or((other == "rdna").then_some(other)) else { continue };
            assert!(allowed.contains(&other), "crate `{name}` must not know `{other}`");
        }
    }
    assert_eq!(manifests.len(), MAY_KNOW.len() + 1);
}

#[test]
fn unsafe_code_is_forbidden_where_it_is_not_needed() {
    for (name, manifest) in manifests() {
        let own = table(&manifest, "[lints.rust]");
        if UNSAFE.contains(&name.as_str()) {
            assert!(own.contains(&"unsafe_op_in_unsafe_fn = \"deny\""), "{name}");
        } else {
            assert!(
                own.is_empty() && table(&manifest, "[lints]").contains(&"workspace = true"),
                "crate `{name}` must take the workspace's lints"
            );
        }
    }
}
