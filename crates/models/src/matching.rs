//! Understands checkpoints that go by an unknown name: the family whose table explains all tensors, leaves none missing, and whose plan
//! reads all settings. Code that a checkpoint brings (`auto_map`) is never run.
//!
//! What is tried: the family that the class in `architectures` names; then the pattern of decoders shaped like Llama, and every other
//! family. What fits must be of one mind: families that fit and compute different things are told apart by the values of weights
//! ([`evidence`](crate::evidence)), else the pattern goes before them, else the checkpoint is refused.

use crate::{
    Error, Result,
    arch::{Arch, architectures, llama_like::LLAMA_LIKE, variants::variant},
    describe::describe,
    evidence::{contradiction, pairing},
    load::{Attempt, Built},
};
use onebit_formats::{Checkpoint, Source};
use onebit_plan::Model;
use std::cmp::Reverse;

/// Names of one kind that an error lists.
const LISTED: usize = 8;

/// A checkpoint that was understood.
pub(crate) struct Found<'a> {
    pub(crate) built: Built<'a>,
    /// The family that it is taken for.
    pub(crate) family: String,
    /// Why that one.
    pub(crate) because: String,
    /// Other families that explain it, and compute something else.
    pub(crate) rivals: Vec<String>,
}

impl Found<'_> {
    /// What is assumed, for somebody who knows the model.
    pub(crate) fn assumed(&self) -> Vec<String> {
        let defaults = self.built.settings.defaults_taken();
        let defaults = defaults.iter().map(|(key, value)| format!("`{key}` is not stated and taken as {value}"));
        let rivals =
            if self.rivals.is_empty() { None } else { Some(format!("it is none of {}, which the files fit too", self.rivals.join(", "))) };
        describe(&self.built.model).into_iter().chain(defaults).chain(rivals).collect()
    }

    /// What a user is told before the model runs.
    pub(crate) fn warning(&self, name: &str) -> String {
        let name: String = name.chars().take(80).collect();
        let (family, because) = (&self.family, &self.because);
        format!("`{name}` is not known; taken for `{family}`: {because}. Assumed: {}", self.assumed().join("; "))
    }
}

/// The family of a checkpoint that calls itself `name`, which is not known.
///
/// # Errors
/// When none fits, or several that compute different things.
pub(crate) fn find<'a>(checkpoint: &'a Checkpoint, name: &str) -> Result<Found<'a>> {
    let mut failed = vec![];
    if let Some((arch, class, family)) = of_class(checkpoint) {
        match fitting(checkpoint, arch, family)? {
            Ok(built) => {
                let because = format!("its class is `{class}`, and that family explains all tensors and settings");
                return Ok(Found { built, family: family.into(), because, rivals: vec![] });
            }
            Err(fault) => failed.push(fault),
        }
    }
    let pattern = Some(&LLAMA_LIKE).filter(|_| checkpoint.source == Source::HuggingFace);
    let named = architectures().filter(|arch| !arch.names(checkpoint.source).is_empty());
    let mut groups: Vec<Group<'_>> = vec![];
    for arch in pattern.into_iter().chain(named) {
        let family = arch.names(checkpoint.source)[0];
        match fitting(checkpoint, arch, family)? {
            Ok(built) => join(&mut groups, family, built),
            Err(fault) => failed.push(fault),
        }
    }
    for i in (0..groups.len()).rev() {
        if let Some(what) = contradiction(&groups[i].built.model) {
            let family = groups.remove(i).family;
            let explained = checkpoint.tensors.len();
            failed.push(Fault { family, explained, tensors: vec![], settings: vec![], error: Some(what) });
        }
    }
    let refuse = |(closest, why): (&str, String)| {
        let (path, name) = (checkpoint.path.clone(), name.chars().take(80).collect());
        Err(Error::Unknown { path, name, closest: closest.into(), why })
    };
    let chosen = match groups.len() {
        0 => return refuse(closest(checkpoint, failed)),
        1 => 0,
        _ => match groups.iter().position(|group| group.is_plain(checkpoint.source)) {
            Some(chosen) => chosen,
            None => {
                let families: Vec<&str> = groups.iter().map(|group| group.family).collect();
                let what = "several families that compute different things explain all tensors and settings";
                let why = format!("{what}: {}. {}", families.join(", "), advice(checkpoint, families[0]));
                return refuse((families[0], why));
            }
        },
    };
    let Group { family, built, .. } = groups.swap_remove(chosen);
    let rivals = groups.iter().flat_map(|group| [group.family].into_iter().chain(group.others.iter().copied()));
    let rivals = rivals.map(|family| format!("`{family}`")).collect();
    Ok(Found { built, family: family.into(), because: "that family explains all tensors and settings".into(), rivals })
}

/// The architecture of a family by its name, that of the pattern too.
pub(crate) fn family(checkpoint: &Checkpoint, name: &str) -> Option<&'static Arch> {
    std::iter::once(&LLAMA_LIKE).chain(architectures()).find(|arch| arch.names(checkpoint.source).contains(&name))
}

/// The family that the class of the reference code names: `Qwen3MoeForCausalLM` is `qwen3_moe`.
fn of_class(checkpoint: &Checkpoint) -> Option<(&'static Arch, &str, &'static str)> {
    let class = checkpoint.config.get("architectures")?.as_array()?.first()?.as_str()?;
    let stem =
        ["ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ModelLM", "Model"].iter().find_map(|end| class.strip_suffix(end))?;
    let plain = |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let same = |name: &&str| [plain(name), plain(name.trim_end_matches("_text"))].contains(&plain(stem));
    let name = architectures().flat_map(|arch| arch.hf).copied().find(same)?;
    let family = variant(name, &checkpoint.config);
    architectures().find(|arch| arch.hf.contains(&family)).map(|arch| (arch, class, family))
}

/// Families that compute the same of a checkpoint.
struct Group<'a> {
    /// The first of them with a name of its own.
    family: &'static str,
    /// All others.
    others: Vec<&'static str>,
    /// Whether the pattern of decoders like Llama is among them.
    like_llama: bool,
    signature: String,
    built: Built<'a>,
}

impl Group<'_> {
    /// Whether the family goes before others that fit too: a decoder like Llama, of which a GGUF file's weights show that they are
    /// stored for its pairing of rotated dimensions, since half of llama.cpp's families pair the one way and half the other.
    fn is_plain(&self, source: Source) -> bool {
        match source {
            Source::HuggingFace => self.like_llama,
            Source::Gguf => ["llama", "qwen2"].contains(&self.family) && pairing(&self.built.model).is_some(),
        }
    }
}

fn join<'a>(groups: &mut Vec<Group<'a>>, family: &'static str, built: Built<'a>) {
    let signature = signature(&built.model);
    let like_llama = family == LLAMA_LIKE.hf[0];
    match groups.iter_mut().find(|group| group.signature == signature) {
        Some(group) if group.family == LLAMA_LIKE.hf[0] => (group.family, group.built) = (family, built),
        Some(group) => group.others.push(family),
        None => groups.push(Group { family, others: vec![], like_llama, signature, built }),
    }
}

/// All that decides what a model computes.
fn signature(model: &Model) -> String {
    let plan = &model.plan;
    let parts = model.weights.iter().map(|w| {
        let parts: Vec<_> = w.parts.iter().map(|p| (p.tensor.name(), p.rows.clone())).collect();
        format!("{parts:?} {:?} {}", w.edit, w.rounds_input)
    });
    format!("{:?} {:?} {:?}", plan.ops, plan.states, parts.collect::<Vec<_>>())
}

/// Why a family does not fit.
struct Fault {
    family: &'static str,
    /// Tensors that its table names.
    explained: usize,
    /// Tensors that it does not.
    tensors: Vec<String>,
    /// Settings that its plan does not read.
    settings: Vec<(String, String)>,
    /// What else is wrong: a tensor that is missing, a setting that it cannot have.
    error: Option<String>,
}

/// The model of `arch`, where it explains all tensors and reads all settings.
fn fitting<'a>(checkpoint: &'a Checkpoint, arch: &'static Arch, family: &'static str) -> Result<Result<Built<'a>, Fault>> {
    let attempt = Attempt::new(checkpoint, arch, family)?;
    let settings = attempt.settings.unexplained();
    if attempt.model.is_ok() && settings.is_empty() {
        return attempt.built().map(Ok);
    }
    let left = |name: &&String| attempt.names.entry_of(name).is_none() && attempt.names.unused(name).is_none();
    let tensors: Vec<String> = checkpoint.tensors.keys().filter(left).cloned().collect();
    let (settings, error) = match attempt.model {
        // What stands behind the fault in the plan was not read.
        Err(Error::Setting { .. }) => (vec![], true),
        Err(Error::Unexplained { .. }) if !tensors.is_empty() => (settings, false),
        Err(_) => (settings, true),
        Ok(_) => (settings, false),
    };
    let explained = checkpoint.tensors.len() - tensors.len();
    let error = attempt.model.err().filter(|_| error).map(|e| e.to_string());
    Ok(Err(Fault { family, explained, tensors, settings, error }))
}

/// The family that comes closest, what it leaves unexplained, and what to do.
fn closest(checkpoint: &Checkpoint, faults: Vec<Fault>) -> (&'static str, String) {
    // The first of those that explain most tensors, and fewest settings are left by.
    let best = faults.into_iter().reduce(|best, fault| {
        let rank = |f: &Fault| (f.explained, f.error.is_none(), Reverse(f.settings.len()));
        if rank(&fault) > rank(&best) { fault } else { best }
    });
    let Some(Fault { family, explained, tensors, settings, error }) = best else { return ("", "there is no family".into()) };
    let mut why =
        format!("no family explains it; the closest is `{family}`, which explains {explained} of {} tensors", explained + tensors.len());
    if !tensors.is_empty() {
        why += &format!(", but not {}", listed(&tensors));
    }
    if !settings.is_empty() {
        let settings: Vec<String> = settings.into_iter().map(|(key, value)| format!("`{key}` = {value}")).collect();
        why += &format!("; settings that it does not read: {}", listed(&settings));
    }
    if let Some(error) = error {
        let path = checkpoint.path.display().to_string();
        why += &format!("; and {}", error.trim_start_matches(&path).trim_start_matches(['/', ':', ' ']));
    }
    (family, format!("{why}. {}", advice(checkpoint, family)))
}

fn advice(checkpoint: &Checkpoint, family: &str) -> String {
    let key = match checkpoint.source {
        Source::Gguf => "`general.architecture`",
        Source::HuggingFace => "`model_type` in config.json",
    };
    format!(
        "If you know that it is of a family, such as `{family}`, say so by `--family {family}` or in {key}; if not, it needs a file of \
         its own (docs/adding-an-architecture.md). `1bit show` tells more"
    )
}

/// The first of some names.
pub(crate) fn listed(names: &[String]) -> String {
    let more = if names.len() > LISTED { format!(", ... ({} in all)", names.len()) } else { String::new() };
    names.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ") + &more
}
