//! What a checkpoint is and what of it is used, whether it can be run or not.

use crate::{
    Error,
    arch::{Arch, Named},
    describe::describe,
    load::Attempt,
    matching,
    names::{Names, layer_parts},
    settings::Settings,
    unread::Fate,
};
use onebit_formats::Checkpoint;
use onebit_plan::Model;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// What was found out about a checkpoint.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// What it calls its architecture; empty where it does not say.
    pub name: String,
    /// The family that it is, is taken for, or comes closest to.
    pub family: Option<String>,
    /// How the family was found.
    pub found: How,
    /// What is assumed where it does not name a known family.
    pub assumed: Vec<String>,
    /// Why it cannot be run.
    pub why_not: Option<String>,
    /// What the model computes.
    pub computes: Vec<String>,
    /// All tensors, those of all layers and experts together.
    pub tensors: Vec<Group>,
    /// All settings.
    pub settings: Vec<Setting>,
    /// The model, where it can be run.
    #[serde(skip)]
    pub model: Option<Model>,
}

/// How a family was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The checkpoint names it.
    Named,
    /// It explains all tensors and settings of a checkpoint that names none.
    Understood,
    /// It explains the most of them.
    Closest,
    /// There is none.
    NotAtAll,
}

/// Tensors with the same name but for numbers, and the same use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Group {
    /// Their name, with `{}` for numbers.
    pub name: String,
    /// How many.
    pub count: usize,
    /// How each is stored.
    pub stored_as: String,
    /// The dimensions of each.
    pub shape: Vec<usize>,
    /// What they are used for.
    #[serde(rename = "use")]
    pub used: Use,
}

/// What a tensor is used for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// The weights that are made of it, by their names in the plan.
    As(Vec<String>),
    /// It is known, and not used.
    No(String),
    /// Nothing explains it.
    Unexplained,
}

/// A setting.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// Its key, or the path to it.
    pub key: String,
    /// Its value, shortened.
    pub value: String,
    /// What became of it.
    pub fate: Fate,
}

/// Explains what lies in `checkpoint`, as far as it is understood.
pub fn explain(checkpoint: &Checkpoint) -> Explanation {
    let mut out = Explanation {
        name: String::new(),
        family: None,
        found: How::NotAtAll,
        assumed: vec![],
        why_not: None,
        computes: vec![],
        tensors: vec![],
        settings: vec![],
        model: None,
    };
    if let Err(error) = out.fill(checkpoint) {
        out.why_not = Some(error.to_string());
    }
    if out.tensors.is_empty() {
        out.tensors = groups(checkpoint, |_| Use::Unexplained);
    }
    out
}

impl Explanation {
    fn fill(&mut self, checkpoint: &Checkpoint) -> crate::Result<()> {
        match Arch::find(checkpoint)? {
            Named::Known(arch, name) => {
                (self.name, self.family, self.found) = (name.into(), Some(name.into()), How::Named);
                self.attempt(checkpoint, Attempt::new(checkpoint, arch, name)?)
            }
            Named::Unknown(name) => {
                self.name = name.into();
                match matching::find(checkpoint, name) {
                    Ok(found) => {
                        self.assumed = std::iter::once(found.because.clone()).chain(found.assumed()).collect();
                        (self.family, self.found) = (Some(found.family), How::Understood);
                        let built = found.built;
                        self.tensors = used(checkpoint, &built.settings, &built.names, Some(&built.model));
                        self.settings = settings(&built.settings);
                        self.runs(built.model);
                        Ok(())
                    }
                    Err(error) => {
                        let closest = if let Error::Unknown { closest, .. } = &error { closest.clone() } else { String::new() };
                        if let Some(arch) = matching::family(checkpoint, &closest) {
                            (self.found, self.family) = (How::Closest, Some(closest.clone()));
                            self.attempt(checkpoint, Attempt::new(checkpoint, arch, &closest)?).ok();
                            (self.model, self.computes) = (None, vec![]);
                        }
                        Err(error)
                    }
                }
            }
        }
    }

    fn attempt(&mut self, checkpoint: &Checkpoint, attempt: Attempt<'_>) -> crate::Result<()> {
        self.settings = settings(&attempt.settings);
        self.tensors = used(checkpoint, &attempt.settings, &attempt.names, attempt.model.as_ref().ok());
        self.runs(attempt.model?);
        Ok(())
    }

    fn runs(&mut self, model: Model) {
        self.computes = describe(&model);
        self.model = Some(model);
    }
}

fn settings(settings: &Settings<'_>) -> Vec<Setting> {
    settings.all().into_iter().map(|(key, value, fate)| Setting { key, value, fate }).collect()
}

/// The tensors by what a model is made of, or, where there is none, by what the family's table calls them.
fn used(checkpoint: &Checkpoint, settings: &Settings<'_>, names: &Names<'_>, model: Option<&Model>) -> Vec<Group> {
    let mut weights: HashMap<&str, Vec<String>> = HashMap::new();
    for weight in model.iter().flat_map(|model| &model.weights) {
        let within = layer_parts(&weight.name).map_or(weight.name.as_str(), |(.., name)| name);
        for part in &weight.parts {
            let all = weights.entry(part.tensor.name()).or_default();
            if !all.iter().any(|name| name == within) {
                all.push(within.into());
            }
        }
    }
    let idle = settings.layers().and_then(|first| Ok(first..settings.all_layers()?)).unwrap_or(0..0);
    groups(checkpoint, |tensor| {
        if let Some(weights) = weights.get(tensor) {
            return Use::As(weights.clone());
        }
        let named = names.entry_of(tensor).map(|entry| Use::As(vec![entry.plan_name().into()]));
        match names.left_out(tensor, &idle, settings.spare_experts()) {
            Some(why) => Use::No(why.into()),
            None => named.filter(|_| model.is_none()).unwrap_or(Use::Unexplained),
        }
    })
}

/// All tensors, those with the same use and name but for numbers together.
fn groups(checkpoint: &Checkpoint, used: impl Fn(&str) -> Use) -> Vec<Group> {
    let mut counts: BTreeMap<Group, usize> = BTreeMap::new();
    for tensor in checkpoint.tensors.values() {
        let step = |step: &str| if step.bytes().all(|b| b.is_ascii_digit()) { "{}".to_string() } else { step.to_string() };
        let name = tensor.name().split('.').map(step).collect::<Vec<_>>().join(".");
        let group =
            Group { name, count: 0, stored_as: tensor.stored_as().into(), shape: tensor.shape().to_vec(), used: used(tensor.name()) };
        *counts.entry(group).or_default() += 1;
    }
    counts.into_iter().map(|(group, count)| Group { count, ..group }).collect()
}
