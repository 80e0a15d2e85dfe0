//! Scores of pairs of texts against those that transformers computed.

mod common;

use common::{Outcome, changed, data};
use onebit_formats::Checkpoint;
use onebit_models::{load, ranking};
use onebit_plan::{Batch, Device, Gathered, Inputs, Span};
use onebit_reference::{Reference, check};
use serde_json::json;
use std::path::Path;

/// Our score of the pair in a folder, and the one that is expected.
fn scores(folder: &Path) -> Outcome<[f32; 2]> {
    scores_of(folder, folder)
}

/// That of the model at `path`, and the one in `folder`.
fn scores_of(path: &Path, folder: &Path) -> Outcome<[f32; 2]> {
    let checkpoint = Checkpoint::open(path)?;
    let expected = Checkpoint::open(folder.join("expected.safetensors"))?;
    let numbers = |name: &str| expected.tensor(name).map(|t| t.to_f32()).unwrap_or_default();
    let ids: Vec<u32> = numbers("ids").iter().map(|id| *id as u32).collect();
    let start = numbers("start")[0] as usize;
    let found = ranking(&checkpoint)?.ok_or("it scores nothing")?;
    let mut exe = Reference.load(load(&checkpoint)?.up_to_hidden()?, &check::limits(), &mut |_| {})?;
    let pages: Vec<u32> = (0..8).collect();
    let spans = [Span { len: ids.len(), start: 0, pages: &pages, slot: 0, outputs: ids.len() }];
    let rows = found.second.as_deref().unwrap_or_default();
    let given: Vec<u32> = (0..ids.len()).map(|i| if i < start { Inputs::NONE } else { 0 }).collect();
    let inputs = if rows.is_empty() { Inputs::default() } else { Inputs { rows, given: &given, ..Inputs::default() } };
    let states = exe.step(&Batch { tokens: &ids, spans: &spans, inputs })?.to_vec();
    let mut gathered = Gathered::default();
    gathered.add(found.pooling.pool, &states, states.len() / ids.len());
    let vectors = found.pooling.finish(&gathered);
    assert_eq!(vectors.iter().map(Vec::len).collect::<Vec<_>>(), [1]);
    Ok([vectors[0][0], numbers("score")[0]])
}

fn agrees(name: &str) -> Outcome {
    let folder = data("rank").join(name);
    let [found, wanted] = scores(&folder)?;
    let worst = f64::from((found - wanted).abs());
    assert!(worst < 2e-5, "{name}: {found} for {wanted}");
    Ok(())
}

macro_rules! tests {
    ($($test:ident: $name:literal,)*) => { $(#[test] fn $test() -> Outcome { agrees($name) })* };
}
tests! {
    bert: "bert",
    roberta: "roberta",
    xlm_roberta: "xlm-roberta",
    electra: "electra",
    distilbert: "distilbert",
    mpnet: "mpnet",
    deberta_v2: "deberta-v2",
    modernbert: "modernbert",
    qwen3: "qwen3",
}

/// The same of a copy that has the difference of the two words' rows as its head, and of llama.cpp's form, which has both rows.
#[test]
fn rows_of_yes_and_no() -> Outcome {
    const WIDTH: usize = 16;
    let source = data("rank/qwen3");
    let rows = |matrix: &common::Raw| {
        let matrix = matrix.values();
        [9, 5].map(|id: usize| matrix[id * WIDTH..(id + 1) * WIDTH].to_vec())
    };
    let tied = changed(&source, |config, tensors| {
        let [yes, no] = rows(&tensors["lm_head.weight"]);
        let row: Vec<f32> = yes.iter().zip(no).map(|(yes, no)| yes - no).collect();
        tensors.insert("score.weight".into(), common::Raw::new(&[1, WIDTH], &row));
        tensors.remove("lm_head.weight");
        config.insert("tie_word_embeddings".into(), true.into());
    })?;
    // Without the vocabulary, which GGUF has no name for.
    let plain = changed(&source, |_, _| {})?;
    let gguf = common::changed_gguf(plain.path(), |pairs, tensors| {
        let [yes, no] = rows(&tensors["output.weight"]);
        tensors.insert("cls.output.weight".into(), common::Raw::new(&[2, WIDTH], &[yes, no].concat()));
        pairs.insert("qwen3.pooling_type".into(), onebit_formats::Meta::Unsigned(4));
    })?;
    let prompt = |path: &Path| -> Outcome<String> { Ok(ranking(&Checkpoint::open(path)?)?.and_then(|r| r.prompt).unwrap_or_default()) };
    assert!(prompt(tied.path())?.contains("<Query>: {query}\n<Document>: {document}<|im_end|>"));
    let mut found = vec![scores(tied.path())?];
    found.push(scores_of(&gguf.path().join("model.gguf"), &source)?);
    for [found, wanted] in found {
        assert!((found - wanted).abs() < 2e-5, "{found} for {wanted}");
    }
    Ok(())
}

/// Kinds of tokens and the head's settings matter.
#[test]
fn what_a_score_depends_on() -> Outcome {
    let with = |name: &str, key: &str, value: serde_json::Value| {
        changed(&data("rank").join(name), |config, _| {
            config.insert(key.into(), value);
        })
    };
    for (name, key, value) in [
        ("modernbert", "classifier_pooling", json!("cls")),
        ("deberta-v2", "pooler_hidden_act", json!("relu")),
        ("modernbert", "classifier_activation", json!("relu")),
    ] {
        let [found, wanted] = scores(with(name, key, value)?.path())?;
        assert!((found - wanted).abs() > 1e-3, "{name}, {key}: {found} as before");
    }
    for (name, key, value, part) in [
        ("modernbert", "classifier_pooling", json!("max"), "is neither `cls` nor `mean`"),
        ("deberta-v2", "pooler_hidden_act", json!("magic"), "is \"magic\", which is not known"),
    ] {
        let folder = with(name, key, value)?;
        let found = ranking(&Checkpoint::open(folder.path())?).map(|found| found.is_some()).map_err(|error| error.to_string());
        assert!(found.as_ref().is_err_and(|error| error.contains(part)), "{found:?}");
    }
    // No head, or one with several labels.
    assert!(ranking(&Checkpoint::open(data("deberta_v3"))?)?.is_none());
    assert!(ranking(&Checkpoint::open(data("llama"))?)?.is_none());
    Ok(())
}
