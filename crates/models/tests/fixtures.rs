//! Every architecture against the logits that transformers computed, from safetensors and from the GGUF file made of them.

mod common;

use common::{Outcome, agrees};
use onebit_formats::Checkpoint;
use onebit_models::{Options, convert, load};
use onebit_quants::{F16, F32, Q6_K, Q8_0};
use onebit_reference::{
    Reference,
    check::{self, Expected},
};

fn fixture(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    agrees(name, &folder, &folder)
}

/// The GGUF form computes the same.
fn gguf(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    let temporary = tempfile::tempdir()?;
    let file = temporary.path().join("model.gguf");
    let made = convert(&Checkpoint::open(&folder)?, &file, &Options::default(), &mut |_| {})?;
    assert_eq!(made.bytes, std::fs::metadata(&file)?.len());
    agrees(name, &file, &folder)
}

/// Types that round: no more is lost than the type loses (Q8_0 is off by half a percent per weight, so a few percent per logit). What llama.cpp reads as F32 only is F32 in each.
#[test]
fn converted_to_other_types() -> Outcome {
    let temporary = tempfile::tempdir()?;
    let file = temporary.path().join("model.gguf");
    for (name, ty, bar) in [("qwen3_5_text", F32, check::BAR), ("qwen3_5_text", F16, 0.01), ("llama", Q8_0, 0.2)] {
        let Some(folder) = check::folder(name) else { return Ok(()) };
        let made = convert(&Checkpoint::open(&folder)?, &file, &Options { ty: Some(ty) }, &mut |_| {})?;
        assert_eq!(made.remarks.len(), 1, "only that there is no vocabulary: {:?}", made.remarks);
        let checkpoint = Checkpoint::open(&file)?;
        assert_eq!(checkpoint.tensors["blk.0.ffn_up.weight"].ty(), ty);
        for name in ["blk.0.ssm_conv1d.weight", "blk.0.ssm_a", "blk.0.attn_norm.weight", "output_norm.weight"] {
            assert!(checkpoint.tensor(name).is_none_or(|t| t.ty() == F32), "{name}");
        }
        let report = check::fixture(&Reference, load(&checkpoint)?, &Expected::open(&folder)?, &check::limits())?;
        assert!(report.worst() < bar, "{name} as {ty}: {report}");
    }
    // Rows of 64 are too short for blocks of 256.
    let Some(folder) = check::folder("llama") else { return Ok(()) };
    let made = convert(&Checkpoint::open(&folder)?, &file, &Options { ty: Some(Q6_K) }, &mut |_| {})?;
    assert!(made.remarks.iter().any(|r| r.contains("blocks of Q6_K do not divide")), "{:?}", made.remarks);
    assert_eq!(Checkpoint::open(&file)?.tensors["blk.0.ffn_up.weight"].ty(), F16);
    Ok(())
}

/// What GGUF cannot say is refused, and no file is left. Gives the reason.
fn refused(name: &str) -> Outcome<Option<String>> {
    let Some(folder) = check::folder(name) else { return Ok(None) };
    let temporary = tempfile::tempdir()?;
    let outcome = convert(&Checkpoint::open(&folder)?, &temporary.path().join("x.gguf"), &Options::default(), &mut |_| {});
    assert_eq!(temporary.path().read_dir()?.count(), 0, "{outcome:?}");
    match outcome {
        Err(error @ onebit_models::Error::Convert { .. }) => Ok(Some(error.to_string())),
        other => Err(format!("it should be refused, but: {other:?}").into()),
    }
}

fn gguf_alone(name: &str) -> Outcome {
    gguf(name)
}

fn hub_only(name: &str) -> Outcome {
    refused(name).map(|_| ())
}

#[test]
fn reasons_for_refusal() -> Outcome {
    for (name, why) in
        [("smollm3", "not each fourth"), ("qwen2_moe", "without experts"), ("cwm", "sliding window"), ("hyperclovax", "no name")]
    {
        let reason = refused(name)?;
        assert!(reason.as_ref().is_none_or(|r| r.contains(why)), "{name}: {reason:?}");
    }
    Ok(())
}

macro_rules! tests {
    ($($name:ident: $form:ident,)*) => {
        mod safetensors { $(#[test] fn $name() -> super::Outcome { super::fixture(stringify!($name)) })* }
        mod converted { $(#[test] fn $name() -> super::Outcome { super::$form(stringify!($name)) })* }
    };
}
onebit_reference::fixtures!(tests);
