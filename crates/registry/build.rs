//! Embeds every `registry/*.toml` of the repository, so that a new model is one new file.

use std::{env, error::Error, fmt::Write, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../registry");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<_> =
        fs::read_dir(&folder)?.filter_map(|f| Some(f.ok()?.path())).filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    let mut code = String::from("/// (file name, contents) of every registry entry.\npub(crate) static ENTRIES: &[(&str, &str)] = &[\n");
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.file_name().and_then(|n| n.to_str()).ok_or("a registry file's name is not UTF-8")?;
        writeln!(code, "    ({name:?}, {:?}),", fs::read_to_string(file)?)?;
    }
    code.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("entries.rs"), code)?;
    Ok(())
}
