//! Every architecture against the logits that transformers computed, from safetensors and from the GGUF file made of them.

use onebit_formats::Checkpoint;
use onebit_models::{Options, convert, load};
use onebit_reference::{
    Reference,
    check::{self, Expected},
};
use std::{error::Error, path::Path};

type Outcome = Result<(), Box<dyn Error>>;

/// Runs the checkpoint at `path` against the expected values in `folder`.
fn agrees(path: &Path, folder: &Path) -> Outcome {
    let model = load(&Checkpoint::open(path)?)?;
    let report = check::fixture(&Reference, model, &Expected::open(folder)?, &check::limits())?;
    eprintln!("{}\n{report}", path.display());
    report.hold(check::BAR)?;
    let differ: Vec<_> = report.cases.iter().filter(|c| !c.identical && !c.name.ends_with("short")).collect();
    assert!(differ.is_empty(), "the reference computes each row by itself, but {differ:?}");
    Ok(())
}

fn fixture(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    agrees(&folder, &folder)
}

fn converted(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    let temporary = tempfile::tempdir()?;
    let file = temporary.path().join("model.gguf");
    let made = convert(&Checkpoint::open(&folder)?, &file, &Options::default(), &mut |_| {})?;
    assert_eq!(made.bytes, std::fs::metadata(&file)?.len());
    agrees(&file, &folder)
}

macro_rules! fixtures {
    ($run:ident: $($name:ident)*) => {
        mod $run { $(#[test] fn $name() -> super::Outcome { super::$run(stringify!($name)) })* }
    };
}
fixtures! { fixture: llama mistral ministral mixtral cwm internlm3 arcee smollm3 olmo2 qwen2 qwen2_moe qwen3 qwen3_moe qwen3_5_text qwen3_5_moe_text }
fixtures! { converted: llama mistral mixtral internlm3 arcee olmo2 qwen2 qwen3 qwen3_moe qwen3_5_text qwen3_5_moe_text }
