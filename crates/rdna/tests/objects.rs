//! Whole code objects against LLVM's tools: what `llvm-objdump-19` prints for each instruction, and the kernels' descriptions.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

mod common;

use common::kernels;
use rdna::{CodeObject, disassemble, isa};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        println!("SKIPPED: {tool} is not installed (Debian: apt-get install llvm-19 clang-19 lld-19)");
    }
    found
}

/// The stored code objects of this crate.
fn stored() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "co")).collect();
    files.sort();
    assert!(files.len() >= 7, "{files:?}");
    files
}

fn normal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Address and text of each instruction.
fn objdump(file: &Path) -> Vec<(u64, String)> {
    let output = Command::new("llvm-objdump-19").args(["-d", "--mcpu=gfx1151"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (text, rest) = line.strip_prefix('\t')?.split_once("//")?;
        Some((u64::from_str_radix(rest.trim().split(':').next()?, 16).ok()?, normal(text)))
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn instructions_are_objdump_s() {
    if !has("llvm-objdump-19") {
        return;
    }
    let mut compared = 0;
    for file in stored() {
        let object = CodeObject::read(&std::fs::read(&file).unwrap()).unwrap();
        let theirs: std::collections::HashMap<u64, String> = objdump(&file).into_iter().collect();
        for (function, lines) in disassemble(&object, isa::Isa::of(isa::Level::detect())) {
            for (pc, words, ours) in lines {
                // Branches name the label instead of the distance.
                let Some(text) = theirs.get(&pc) else { panic!("{}: {function} {pc:#x} {ours}: no such line", file.display()) };
                let same = normal(&ours) == *text
                    || (ours.contains("branch") || ours.contains("s_call")) && ours.split(' ').next() == text.split(' ').next();
                assert!(same, "{}: {function} {pc:#x} {words:08x?}: ours `{ours}`, LLVM's `{text}`", file.display());
                compared += 1;
            }
        }
    }
    println!("{compared} instructions");
    assert!(compared > 10_000, "{compared}");
}

/// The stored code objects are what the sources give.
#[test]
fn sources_give_the_stored_objects() {
    if !has("clang-19") || !has("ld.lld-19") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("rdna-objects-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/build.sh");
    assert!(Command::new("sh").arg(script).arg(&folder).status().unwrap().success());
    let version = Command::new("clang-19").arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    for file in stored() {
        let fresh = std::fs::read(folder.join(file.file_name().unwrap())).unwrap();
        assert!(fresh == std::fs::read(&file).unwrap(), "{} differs from what this compiler makes: {version}", file.display());
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn registers_lds_and_arguments_are_read() {
    let object = CodeObject::read(kernels::MATVEC).unwrap();
    let kernel = object.kernel("matvec_q4_0").unwrap();
    assert_eq!(kernel.arguments.iter().filter(|a| !a.hidden()).map(|a| a.size).collect::<Vec<_>>(), [8, 8, 8, 8, 8, 4]);
    assert_eq!(kernel.max_workgroup, 256);
    let object = CodeObject::read(kernels::WMMA).unwrap();
    assert_eq!(object.kernel("tree_sum").unwrap().lds_bytes, 1024);
}
