//! Checkpoints are explained, whether they can be run or not.

mod common;

use common::{Outcome, Raw, folder};
use onebit_formats::Checkpoint;
use onebit_models::{Explanation, Fate, Group, How, Use, explain};
use onebit_quants::F32;
use serde_json::json;
use std::path::Path;

fn explained(path: &Path) -> Outcome<Explanation> {
    Ok(explain(&Checkpoint::open(path)?))
}

fn group<'a>(explanation: &'a Explanation, name: &str) -> &'a Group {
    explanation.tensors.iter().find(|group| group.name == name).unwrap_or_else(|| panic!("no group {name}"))
}

fn fate(explanation: &Explanation, key: &str) -> Option<Fate> {
    explanation.settings.iter().find(|s| s.key == key).map(|s| s.fate)
}

#[test]
fn what_runs() -> Outcome {
    let found = explained(&common::data("qwen3_moe"))?;
    assert_eq!((found.name.as_str(), found.found, found.model.is_some()), ("qwen3_moe", How::Named, true));
    let experts = group(&found, "model.layers.{}.mlp.experts.{}.up_proj.weight");
    assert_eq!((experts.count, &experts.shape[..], &experts.used), (24, &[64, 64][..], &Use::As(vec!["ffn_up_exps.weight".into()])));
    assert!(found.tensors.iter().all(|group| matches!(group.used, Use::As(_))), "{:?}", found.tensors);
    let fates = ["hidden_size", "use_cache", "rope_parameters.rope_theta"].map(|key| fate(&found, key));
    assert_eq!(fates, [Some(Fate::Read), Some(Fate::Inert), Some(Fate::Read)]);
    let said = |what: &str| found.computes.iter().any(|text| text.contains(what));
    assert!(said("half a head apart together") && said("chooses 2 experts by softmax, made to sum to one"), "{:?}", found.computes);
    Ok(())
}

/// One tensor and one setting too many, of a family that the checkpoint names: it does not run, and the rest is explained.
#[test]
fn what_does_not_run() -> Outcome {
    let twisted = |name: Option<&str>| {
        let extra = Raw { ty: F32, shape: vec![1], bytes: vec![0; 4] };
        folder("llama", |config, tensors| {
            if let Some(name) = name {
                config.insert("model_type".into(), name.into());
                config.insert("architectures".into(), json!(["Mystery"]));
            }
            config.insert("twist".into(), 0.5.into());
            tensors.insert("model.layers.1.twist".into(), extra.clone());
            tensors.insert("model.layers.2.self_attn.rotary_emb.inv_freq".into(), extra);
        })
    };
    for (name, how) in [(None, How::Named), (Some("mystery"), How::Closest)] {
        let found = explained(twisted(name)?.path())?;
        assert_eq!((found.found, found.model.is_some()), (how, false));
        assert!(found.why_not.as_ref().is_some_and(|why| why.contains("model.layers.1.twist")), "{:?}", found.why_not);
        assert_eq!(group(&found, "model.layers.{}.twist").used, Use::Unexplained);
        assert_eq!(group(&found, "model.layers.{}.self_attn.q_proj.weight").used, Use::As(vec!["attn_q".into()]));
        assert!(matches!(group(&found, "model.layers.{}.self_attn.rotary_emb.inv_freq").used, Use::No(_)));
        assert_eq!((fate(&found, "twist"), fate(&found, "hidden_size")), (Some(Fate::Unread), Some(Fate::Read)));
    }
    Ok(())
}

/// A name that is not known, of a checkpoint that is understood: what is assumed is said, and whom it could be mistaken for.
#[test]
fn what_is_understood() -> Outcome {
    let renamed = folder("llama", |config, _| {
        config.insert("model_type".into(), "mystery".into());
        config.insert("architectures".into(), json!(["Mystery"]));
    })?;
    let found = explained(renamed.path())?;
    assert_eq!((found.name.as_str(), found.family.as_deref(), found.found), ("mystery", Some("llama"), How::Understood));
    let said = |what: &str| found.assumed.iter().any(|text| text.contains(what));
    assert!(said("dimensions that are half a head apart together") && said("it is none of") && said("`helium`"), "{:?}", found.assumed);
    Ok(())
}

/// What names no architecture at all is listed all the same.
#[test]
fn what_says_nothing() -> Outcome {
    let nameless = folder("llama", |config, _| drop(config.remove("model_type")))?;
    let found = explained(nameless.path())?;
    assert_eq!((found.found, found.tensors.iter().map(|group| group.count).sum::<usize>()), (How::NotAtAll, 30));
    assert!(found.why_not.is_some_and(|why| why.contains("names the architecture")));
    Ok(())
}
