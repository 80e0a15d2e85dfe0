//! Every architecture against the logits that transformers computed.

use onebit_formats::Checkpoint;
use onebit_reference::{
    Reference,
    check::{self, Expected},
};

fn agrees(name: &str) {
    let Some(folder) = check::folder(name) else { return };
    let checkpoint = Checkpoint::open(&folder).unwrap();
    let model = onebit_models::load(&checkpoint).unwrap();
    let report = check::fixture(&Reference, model, &Expected::open(&folder).unwrap(), &check::limits()).unwrap();
    eprintln!("{name}\n{report}");
    report.hold(check::BAR).unwrap();
    let differ: Vec<_> = report.cases.iter().filter(|c| !c.identical && !c.name.ends_with("short")).collect();
    assert!(differ.is_empty(), "the reference computes each row by itself, but {differ:?}");
}

macro_rules! fixtures {
    ($($name:ident)*) => { $(#[test] fn $name() { agrees(stringify!($name)); })* };
}
fixtures! { llama mistral cwm arcee smollm3 qwen2 qwen2_moe qwen3 qwen3_moe qwen3_5_text qwen3_5_moe_text }
