//! Which weights of a checkpoint are rotated, as GGUF files say it: PrismML's `prism.hadamard.*` (docs of its llama.cpp,
//! `hadamard`), and `onebit.hadamard_q4_0`, by which every Q4_0 matrix is.
//!
//! A rotation that is understood wrongly, or not at all, answers with fluent nonsense: whatever is not known here is refused.

use crate::{Error, Result};
use onebit_formats::{Checkpoint, Meta};
use onebit_plan::{Model, Rotated, Rotation, Rotations, Signs, Weight, WeightId};
use onebit_quants::Q4_0;
use std::{collections::HashMap, ops::Range};

const PRISM: &str = "prism.hadamard.";
const PRISM_KEYS: [&str; 11] = [
    "version",
    "transform",
    "axis",
    "block_size",
    "sign_mode",
    "sign_widths",
    "sign_values",
    "weight_names",
    "inverse_weight_names",
    "gdn_v_grouped",
    "tied_output",
];
const ONEBIT: &str = "onebit.hadamard";
const Q4_0_BLOCK: &str = "onebit.hadamard_q4_0";
const EMBEDDING: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";

/// The rotations of `model`, which was built from `checkpoint`; `None` where there are none. `idle` are layers that are not run.
///
/// # Errors
/// When the file says something that is not known, contradicts itself, or names a weight that the model does not have.
pub(crate) fn rotations(checkpoint: &Checkpoint, model: &Model, idle: impl Fn(&str) -> bool) -> Result<Option<Rotations>> {
    let has = |start: &str| checkpoint.metadata.pairs.keys().find(|k| k.starts_with(start));
    match (has(PRISM), has(ONEBIT)) {
        (None, None) => Ok(None),
        (Some(_), Some(other)) => {
            Err(fault(checkpoint, other, format!("cannot stand beside `{PRISM}*`: the weights are rotated in one way")))
        }
        (Some(_), None) => Prism { checkpoint, model, idle: &idle }.read().map(Some),
        (None, Some(_)) => by_type(checkpoint, model).map(Some),
    }
}

fn fault(checkpoint: &Checkpoint, key: &str, what: impl Into<String>) -> Error {
    Error::Setting { path: checkpoint.path.clone(), key: key.into(), what: what.into() }
}

/// Every Q4_0 weight but the embedding, in blocks of 32, without signs.
fn by_type(checkpoint: &Checkpoint, model: &Model) -> Result<Rotations> {
    if let Some(key) = checkpoint.metadata.pairs.keys().find(|k| k.starts_with(ONEBIT) && *k != Q4_0_BLOCK) {
        return Err(fault(checkpoint, key, format!("is not known; of rotations by type, 1bit knows `{Q4_0_BLOCK}`")));
    }
    let block = checkpoint.metadata.unsigned(Q4_0_BLOCK)?.unwrap_or(0);
    if block != 32 {
        return Err(fault(checkpoint, Q4_0_BLOCK, format!("is {block}, but only blocks of 32 are known")));
    }
    let rotated = Rotated { rotation: Rotation { block: 32, signs: None }, grouped: false };
    let weights = model.weights.iter().enumerate().filter(|(_, w)| w.ty == Q4_0 && w.name != EMBEDDING);
    Ok(Rotations { matrices: weights.map(|(i, _)| (WeightId(i as u32), rotated.clone())).collect(), ..Rotations::default() })
}

struct Prism<'a> {
    checkpoint: &'a Checkpoint,
    model: &'a Model,
    idle: &'a dyn Fn(&str) -> bool,
}

impl Prism<'_> {
    fn fault(&self, key: &str, what: impl Into<String>) -> Error {
        fault(self.checkpoint, &format!("{PRISM}{key}"), what)
    }

    fn read(&self) -> Result<Rotations> {
        let pairs = &self.checkpoint.metadata.pairs;
        if let Some(key) = pairs.keys().filter_map(|k| k.strip_prefix(PRISM)).find(|k| !PRISM_KEYS.contains(k)) {
            return Err(self.fault(key, "is not known, and a rotation that is half understood computes nonsense"));
        }
        let tied = match self.number("version")? {
            1 => false,
            2 => true,
            other => return Err(self.fault("version", format!("is {other}; known are 1 and 2"))),
        };
        if self.truth("tied_output")? != tied {
            return Err(self.fault("tied_output", "should be true in version 2, and is not known in version 1"));
        }
        self.expect("transform", &["normalized-sylvester-walsh-hadamard"])?;
        self.expect("axis", &["input-last-dimension"])?;
        let block = self.number("block_size")?;
        let block = usize::try_from(block).ok().filter(|b| b.is_power_of_two());
        let block = block.ok_or_else(|| self.fault("block_size", "should be a power of two"))?;
        let signs = if self.expect("sign_mode", &["identity", "explicit"])? == "explicit" { Some(self.signs()?) } else { None };
        if let Some(key) = ["sign_widths", "sign_values"].into_iter().find(|k| signs.is_none() && self.meta(k).is_some()) {
            return Err(self.fault(key, "should not be there: `sign_mode` is identity"));
        }
        let grouped = self.truth("gdn_v_grouped")?;

        let mut found = Rotations::default();
        for name in self.names("weight_names")? {
            if name == EMBEDDING {
                return Err(self
                    .fault("weight_names", format!("names `{EMBEDDING}`: version 2 says by `tied_output` that it is the output matrix")));
            }
            for (id, weight) in self.weights("weight_names", &name)? {
                let rotation = self.rotation("weight_names", weight, block, signs.as_ref())?;
                let grouped = grouped && name.ends_with(".ssm_out.weight");
                found.matrices.insert(id, Rotated { rotation, grouped });
            }
        }
        for name in self.names("inverse_weight_names")? {
            if name != EMBEDDING {
                return Err(self.fault("inverse_weight_names", format!("names `{name}`, but only rows of `{EMBEDDING}` are looked up")));
            }
            for (id, weight) in self.weights("inverse_weight_names", &name)? {
                found.tables.insert(id, self.rotation("inverse_weight_names", weight, block, signs.as_ref())?);
            }
        }
        if found.matrices.is_empty() && found.tables.is_empty() {
            return Err(self.fault("weight_names", "names no weight"));
        }
        if tied {
            if self.checkpoint.tensor(OUTPUT).is_some() {
                return Err(self.fault("tied_output", format!("is true, but there is an `{OUTPUT}`")));
            }
            if found.tables.is_empty() {
                return Err(self.fault("tied_output", format!("is true, but `inverse_weight_names` does not name `{EMBEDDING}`")));
            }
            let output = found.tables.iter().map(|(id, rotation)| (*id, Rotated { rotation: rotation.clone(), grouped: false }));
            found.matrices.extend(output.collect::<Vec<_>>());
        } else if !found.tables.is_empty() && self.checkpoint.tensor(OUTPUT).is_none() {
            return Err(
                self.fault("version", format!("is 1, but the rotated `{EMBEDDING}` is the output matrix too, which needs version 2"))
            );
        }
        Ok(found)
    }

    fn meta(&self, key: &str) -> Option<&Meta> {
        self.checkpoint.metadata.get(&format!("{PRISM}{key}"))
    }

    fn missing(&self, key: &str) -> Error {
        self.fault(key, "is missing")
    }

    fn number(&self, key: &str) -> Result<u64> {
        self.checkpoint.metadata.unsigned(&format!("{PRISM}{key}"))?.ok_or_else(|| self.missing(key))
    }

    fn truth(&self, key: &str) -> Result<bool> {
        Ok(self.checkpoint.metadata.bool(&format!("{PRISM}{key}"))?.unwrap_or(false))
    }

    /// The text of a key, which must be one of `known`.
    fn expect(&self, key: &str, known: &[&'static str]) -> Result<&'static str> {
        let text = self.checkpoint.metadata.text(&format!("{PRISM}{key}"))?.ok_or_else(|| self.missing(key))?;
        let found = known.iter().copied().find(|k| *k == text);
        found.ok_or_else(|| self.fault(key, format!("is `{}`; known: {}", text.chars().take(80).collect::<String>(), known.join(", "))))
    }

    /// A list of tensors' names; none where the key is absent.
    fn names(&self, key: &str) -> Result<Vec<String>> {
        let Some(list) = self.checkpoint.metadata.texts(&format!("{PRISM}{key}"))? else { return Ok(vec![]) };
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_string);
        list.iter().map(text).collect::<Result<_, _>>().map_err(|_| self.fault(key, "holds a name that is not UTF-8"))
    }

    /// Signs by width.
    fn signs(&self) -> Result<HashMap<usize, Signs>> {
        const VALUES: &str = "sign_values";
        let widths = self.checkpoint.metadata.integers(&format!("{PRISM}sign_widths"))?.ok_or_else(|| self.missing("sign_widths"))?;
        let mut values = match self.meta(VALUES) {
            Some(Meta::Integers(v)) => v.iter().map(|v| *v as f32).collect::<Vec<_>>(),
            Some(Meta::Floats(v)) => v.clone(),
            Some(other) => return Err(self.fault(VALUES, format!("should be an array of numbers, but is {}", other.kind()))),
            None => return Err(self.missing(VALUES)),
        };
        let total = values.len();
        let mut signs = HashMap::new();
        for width in widths {
            let take = usize::try_from(*width).ok().filter(|w| *w > 0 && *w <= values.len());
            let Some(take) = take else {
                return Err(self
                    .fault("sign_widths", format!("asks for {width} signs, but {} of the {total} in `{VALUES}` are left", values.len())));
            };
            let rest = values.split_off(take);
            let vector = Signs::new(std::mem::replace(&mut values, rest));
            let vector = vector.map_err(|i| {
                self.fault(VALUES, format!("holds a number that is neither 1 nor -1, number {i} of those for width {width}"))
            })?;
            if signs.insert(take, vector).is_some() {
                return Err(self.fault("sign_widths", format!("has the width {width} twice")));
            }
        }
        if !values.is_empty() {
            return Err(self.fault(VALUES, format!("holds {total} signs, {} more than `sign_widths` asks for", values.len())));
        }
        Ok(signs)
    }

    /// The weights of the plan that a tensor of the file is part of; none where it belongs to a layer that is not run.
    fn weights(&self, key: &str, name: &str) -> Result<Vec<(WeightId, &Weight)>> {
        let shown: String = name.chars().take(80).collect();
        if self.checkpoint.tensor(name).is_none() {
            return Err(self.fault(key, format!("names `{shown}`, which the file does not have")));
        }
        let uses = |w: &&Weight| w.parts.iter().any(|p| p.tensor.name() == name);
        let found: Vec<_> = self.model.weights.iter().enumerate().filter(|(_, w)| uses(w)).map(|(i, w)| (WeightId(i as u32), w)).collect();
        if found.is_empty() && !(self.idle)(name) {
            return Err(self.fault(key, format!("names `{shown}`, with which the model multiplies nothing")));
        }
        Ok(found)
    }

    /// The rotation of a weight's rows.
    fn rotation(&self, key: &str, weight: &Weight, block: usize, signs: Option<&HashMap<usize, Signs>>) -> Result<Rotation> {
        let width = weight.columns();
        if weight.shape.len() < 2 || !width.is_multiple_of(block) {
            return Err(self.fault(key, format!("names `{}`, whose shape {:?} blocks of {block} do not divide", weight.name, weight.shape)));
        }
        let signs = match signs {
            None => None,
            Some(by_width) => {
                let found = by_width.get(&width).cloned();
                Some(found.ok_or_else(|| self.fault("sign_widths", format!("has no signs for `{}`, which is {width} wide", weight.name)))?)
            }
        };
        Ok(Rotation { block, signs })
    }
}

/// Whether a tensor belongs to one of the layers `idle`.
pub(crate) fn in_layers(idle: Range<usize>) -> impl Fn(&str) -> bool {
    move |name| {
        let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next());
        layer.and_then(|l| l.parse::<usize>().ok()).is_some_and(|l| idle.contains(&l))
    }
}
