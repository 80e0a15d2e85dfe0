//! Models of masked diffusion against independent oracles: their logits, and what they have seen step by step on the way to an answer.

mod common;

use common::{Outcome, changed, gguf_file, llama_cpp_logits, python};
use onebit_engine::{Config, Diffusion, Engine, Event, Remasking, Request, Sampling, Vocabulary};
use onebit_formats::{Checkpoint, Meta};
use onebit_models::{Options, convert, load};
use onebit_plan::{Batch, Device, DeviceError, Executable, Limits, Model};
use onebit_quants::F32;
use onebit_reference::{
    Reference,
    check::{self, ExpectedStates},
    evidence::{self, Form},
};
use serde_json::Value;
use std::{
    path::Path,
    sync::{Arc, Mutex},
};
use tempfile::TempDir;

/// The model of the file or folder at `path` computes the logits that are expected in `folder`, and makes the answers.
fn agrees(family: &str, path: &Path, folder: &Path) -> Outcome {
    let model = load(&Checkpoint::open(path)?)?;
    let report = check::encoder(&Reference, model, &ExpectedStates::open(folder)?, &check::limits())?;
    eprintln!("{}\n{report}", path.display());
    report.hold(check::BAR)?;
    assert!(report.cases.iter().all(|c| c.identical), "{report}");
    answers(&load(&Checkpoint::open(path)?)?, folder)?;
    evidence::record(family, Form::of(path), evidence::author(folder), report.worst());
    Ok(())
}

fn fixture(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    agrees(name, &folder, &folder)
}

/// The GGUF form of a folder.
fn converted(folder: &Path) -> Outcome<TempDir> {
    let temporary = tempfile::tempdir()?;
    convert(&Checkpoint::open(folder)?, &temporary.path().join("model.gguf"), &Options { ty: Some(F32) }, &mut |_| {})?;
    Ok(temporary)
}

fn gguf(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    agrees(name, &converted(&folder)?.path().join("model.gguf"), &folder)
}

/// Most that a logit of llama.cpp may differ, as a share of their standard deviation.
const BAR: f64 = 1e-4;

fn witnessed(name: &str) -> Outcome {
    let (Some(python), Some(folder)) = (python(), check::folder(name)) else { return Ok(()) };
    let expected = ExpectedStates::open(&folder)?;
    let found = llama_cpp_logits(&python, &converted(&folder)?.path().join("model.gguf"), &expected.tokens, None)?;
    let worst = check::difference(&found, &expected.hidden) / expected.deviation();
    eprintln!("{name}: {worst:.1e}");
    assert!(worst < BAR, "{name} differs by {worst}");
    evidence::record(name, Form::Gguf, "llama.cpp", worst);
    Ok(())
}

/// What GGUF has no words for is refused.
fn hub_only(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    let outcome = convert(&Checkpoint::open(&folder)?, &tempfile::tempdir()?.path().join("x.gguf"), &Options::default(), &mut |_| {});
    assert!(matches!(outcome, Err(onebit_models::Error::Convert { .. })), "{outcome:?}");
    Ok(())
}

macro_rules! tests {
    ($($name:ident: $form:ident,)*) => {
        mod safetensors { $(#[test] fn $name() -> super::Outcome { super::fixture(stringify!($name)) })* }
        mod converted { $(#[test] fn $name() -> super::Outcome { super::$form(stringify!($name)) })* }
        mod llama_cpp { $(tests! { @ $form $name })* }
    };
    (@ gguf $name:ident) => { #[test] fn $name() -> super::Outcome { super::witnessed(stringify!($name)) } };
    (@ hub_only $name:ident) => {};
}
onebit_reference::denoisers!(tests);

/// Tokens without text, none of which ends an answer.
struct Mute;

impl Vocabulary for Mute {
    fn ends(&self) -> &[u32] {
        &[]
    }
    fn is_special(&self, _: u32) -> bool {
        false
    }
    fn bytes(&self, _: u32) -> &[u8] {
        b"."
    }
}

/// Remembers the tokens of each step.
struct Watched {
    inner: Box<dyn Executable>,
    seen: Arc<Mutex<Vec<Vec<u32>>>>,
}

impl Executable for Watched {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }
    fn vocabulary(&self) -> usize {
        self.inner.vocabulary()
    }
    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], DeviceError> {
        self.seen.lock().map_err(|e| DeviceError::Failed(e.to_string()))?.push(batch.tokens.to_vec());
        self.inner.step(batch)
    }
    fn copy_slots(&mut self, pairs: &[(u32, u32)]) {
        self.inner.copy_slots(pairs);
    }
    fn copy_pages(&mut self, pairs: &[(u32, u32)]) {
        self.inner.copy_pages(pairs);
    }
}

/// The answers of the authors' samplers, and the masks that were left in each of their steps.
fn answers(model: &Model, folder: &Path) -> Outcome {
    let file = Checkpoint::open(folder.join("expected.safetensors"))?;
    let ids = |name: &str| -> Outcome<Vec<u32>> {
        let tensor = file.tensor(name).ok_or_else(|| format!("there is no `{name}`"))?;
        Ok(tensor.to_f32().iter().map(|id| *id as u32).collect())
    };
    let prompt = ids("prompt")?;
    for (how, steps, block, remasking) in
        [("in_blocks", 8, 8, Remasking::LowConfidence), ("by_times", 10, 0, Remasking::Entropy), ("by_margin", 5, 0, Remasking::Margin)]
    {
        let (expected, canvases) = (ids(&format!("answer_{how}"))?, ids(&format!("seen_{how}"))?);
        let seen = Arc::new(Mutex::new(vec![]));
        let inner = Reference.load(model.clone(), &check::limits(), &mut |_| {})?;
        let watched = Watched { inner, seen: seen.clone() };
        let config = Config { denoising: model.plan.denoising, whole: model.plan.looks_ahead(), ..Config::default() };
        let engine = Engine::new(Box::new(watched), Arc::new(Mute), config);
        let request = Request {
            prompt: prompt.clone(),
            max_tokens: Some(expected.len()),
            sampling: Sampling { temperature: 0.0, ..Sampling::default() },
            diffusion: Diffusion { steps: Some(steps), block: Some(block), remasking, ..Diffusion::default() },
            ..Request::default()
        };
        let (mut answer, mut stream) = (vec![], engine.submit(request)?);
        while let Some(event) = stream.blocking_next() {
            match event {
                Event::Token(token) => answer.push(token.id),
                Event::Failed(error) => return Err(error.into()),
                _ => {}
            }
        }
        assert_eq!(answer, expected, "{how}");
        let seen = seen.lock().map_err(|e| e.to_string())?.concat();
        assert_eq!(seen, canvases, "{how}: what was unmasked in which step");
    }
    Ok(())
}

/// What is wrong with a model of which one setting was changed.
fn refusal(name: &str, key: &str, value: Value) -> Outcome<String> {
    let Some(source) = check::folder(name) else { return Ok("SKIPPED".into()) };
    let folder = changed(&source, |config, _| {
        config.insert(key.into(), value);
    })?;
    common::refusal(folder.path())
}

/// Settings that would change what comes out, and are not known.
#[test]
fn what_is_refused() -> Outcome {
    for (name, key, value, part) in [
        ("llada", "alibi", true.into(), "`alibi` is true, which no LLaDA has"),
        ("llada", "rope", false.into(), "`rope` is false"),
        ("llada", "layer_norm_type", "low_precision".into(), "is `low_precision`; known is `rms`"),
        ("llada", "activation_type", "swiglu".into(), "`activation_type` is `swiglu`"),
        ("llada", "include_qkv_bias", true.into(), "q_proj.bias"),
        ("llada", "mask_token_id", 64.into(), "`mask_token_id` is 64"),
        // That of the published models, where it is not stated, is beyond this vocabulary.
        ("llada", "mask_token_id", Value::Null, "`mask_token_id` is missing"),
        ("llada_moe", "clip_qkv", 8.0.into(), "`clip_qkv`"),
        ("llada_moe", "moe_router_enable_expert_bias", true.into(), "`moe_router_enable_expert_bias`"),
        ("dream", "use_sliding_window", true.into(), "`use_sliding_window`"),
    ] {
        let found = refusal(name, key, value)?;
        assert!(found == "SKIPPED" || found.contains(part), "{name}, {key}: {found}");
    }
    Ok(())
}

/// Under an unknown name they are known by their class, and without one never taken for models that write on.
#[test]
fn unknown_names() -> Outcome {
    for name in ["llada", "llada_moe", "dream"] {
        let Some(source) = check::folder(name) else { return Ok(()) };
        let named = changed(&source, |config, _| {
            config.insert("model_type".into(), "mystery".into());
        })?;
        assert!(load(&Checkpoint::open(named.path())?)?.plan.denoising.is_some(), "{name}");
        let nameless = changed(&source, |config, _| {
            config.insert("model_type".into(), "mystery".into());
            config.remove("architectures");
        })?;
        match load(&Checkpoint::open(nameless.path())?) {
            Ok(model) => assert!(model.plan.denoising.is_some(), "{name} is taken for a model that writes on"),
            Err(error) => assert!(error.to_string().contains("`mystery` is not known"), "{name}: {error}"),
        }
    }
    Ok(())
}

/// What GGUF files say of how the model is asked; those of llama.cpp's converter leave some of it out.
#[test]
fn keys_of_gguf_files() -> Outcome {
    for (name, shifted) in [("llada", false), ("llada_moe", false), ("dream", true)] {
        let open = |change: &dyn Fn(&mut std::collections::BTreeMap<String, Meta>)| -> Outcome<_> {
            let folder = gguf_file(name, |pairs, _| change(pairs))?;
            let checkpoint = Checkpoint::open(folder.path().join("model.gguf"))?;
            let arch = checkpoint.metadata.text("general.architecture")?.unwrap_or_default().to_string();
            assert_eq!(checkpoint.metadata.bool(&format!("{arch}.attention.causal"))?, Some(false));
            Ok((load(&checkpoint), folder))
        };
        let how = |change: &dyn Fn(&mut std::collections::BTreeMap<String, Meta>)| -> Outcome<_> { Ok(open(change)?.0?.plan.denoising) };
        let stated = how(&|pairs| {
            assert_eq!(pairs["tokenizer.ggml.mask_token_id"], Meta::Unsigned(2));
            assert_eq!(pairs["diffusion.shift_logits"], Meta::Bool(shifted));
        })?;
        let silent = how(&|pairs| {
            pairs.remove("diffusion.shift_logits");
        })?;
        assert!(stated == silent && stated.is_some_and(|d| d.mask == 2 && d.shifted == shifted), "{name}: {stated:?} {silent:?}");
        let other = how(&|pairs| {
            pairs.insert("diffusion.shift_logits".into(), Meta::Bool(!shifted));
        })?;
        assert!(other.is_some_and(|d| d.shifted != shifted));
        let (maskless, _folder) = open(&|pairs| {
            pairs.remove("tokenizer.ggml.mask_token_id");
        })?;
        let error = maskless.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("`tokenizer.ggml.mask_token_id`"), "{name}: {error}");
    }
    Ok(())
}
