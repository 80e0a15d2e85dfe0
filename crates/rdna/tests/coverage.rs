//! The table of operations in the README: which test shows what each does.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod common;

use common::coverage::tested_by;
use rdna::isa::{ENCODINGS, Encoding, Isa, Level, Op};
use std::collections::BTreeMap;

const BEGIN: &str = "<!-- coverage: made by `RDNA_WRITE=1 cargo test -p rdna --test coverage` -->\n";
const END: &str = "<!-- /coverage -->\n";

fn operations() -> impl Iterator<Item = (Encoding, &'static Op)> {
    let isa = Isa::of(Level::detect());
    ENCODINGS.into_iter().flat_map(move |encoding| isa.operations(encoding).map(move |op| (encoding, op)))
}

/// Encoding and test, how many operations, their names.
fn table() -> String {
    let mut rows: BTreeMap<(usize, &str), Vec<&str>> = BTreeMap::new();
    for (encoding, op) in operations() {
        rows.entry((encoding as usize, tested_by(encoding, op).unwrap_or("none"))).or_default().push(op.name);
    }
    let mut out = String::from("| encoding | semantics tested by | operations | |\n|---|---|---:|---|\n");
    for ((encoding, test), names) in rows {
        let name = format!("{:?}", ENCODINGS[encoding]).to_uppercase();
        out += &format!("| {name} | {test} | {} | {} |\n", names.len(), shortened(&names).join(" "));
    }
    out
}

/// Names with what they share written once: `v_cmp_{eq,lt}_f32`-like lists would hide codes, so only the encoding's prefix is cut.
fn shortened(names: &[&str]) -> Vec<String> {
    let prefix = ["v_cmpx_", "v_cmp_", "v_", "s_", "ds_", "flat_", "global_", "scratch_"];
    let common = prefix.iter().find(|p| names.iter().all(|n| n.starts_with(**p)));
    let rest: Vec<&str> = names.iter().map(|n| common.map_or(*n, |p| &n[p.len()..])).collect();
    let mut out: Vec<String> = common.map(|p| format!("`{p}`:")).into_iter().collect();
    out.push(if rest.len() > 60 { format!("{} … {}", rest[..6].join(" "), rest[rest.len() - 3..].join(" ")) } else { rest.join(" ") });
    out
}

#[test]
fn each_operation_has_a_test() {
    let without: Vec<_> = operations().filter(|(encoding, op)| tested_by(*encoding, op).is_none()).map(|(e, op)| (e, op.name)).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn the_table_in_the_readme_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (stored, after) = rest.split_once(END).unwrap();
    let table = table();
    if std::env::var_os("RDNA_WRITE").is_some() {
        std::fs::write(path, [before, BEGIN, &table, END, after].concat()).unwrap();
        return;
    }
    assert!(
        stored == table,
        "the table in README.md is not what the tests cover: RDNA_WRITE=1 cargo test -p rdna --test coverage\n{table}"
    );
}
