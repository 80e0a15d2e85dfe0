//! Rotated weights: matrices that are stored as `W R^T` for an orthogonal `R`, so that large values spread over many inputs
//! and fewer bits hold them (Ashkboos et al. 2024, arXiv:2404.00456). What such a matrix is multiplied with has to be turned first:
//! `W x = (W R^T) (R x)`.
//!
//! [`rotate`] rewrites a plan whose weights are rotated: it puts the rotations where they belong, and refuses a plan in which a
//! rotated weight is used in a way that cannot turn its operand.

use crate::{
    Error, Kind, Model, Op, Plan, Result, Value, ValueInfo, WeightId,
    ops::{Hadamard, Transpose},
};
use serde::{Serialize, Serializer};
use std::{collections::HashMap, sync::Arc};

/// Factors of 1 and -1, one for each number of a row; cheap to clone.
#[derive(Clone, Debug)]
pub struct Signs(Arc<[f32]>);

impl Signs {
    /// Takes factors, all of which must be 1 or -1; otherwise gives the index of one that is not.
    pub fn new(factors: Vec<f32>) -> Result<Self, usize> {
        match factors.iter().position(|f| f.abs() != 1.0) {
            Some(wrong) => Err(wrong),
            None => Ok(Self(factors.into())),
        }
    }
    /// The factors.
    pub fn factors(&self) -> &[f32] {
        &self.0
    }
}

impl PartialEq for Signs {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Serialize for Signs {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_seq(self.0.iter().map(|f| *f as i8))
    }
}

/// `R x = H (signs * x) / sqrt(block)` over each run of `block` numbers, `H` being Sylvester's Hadamard matrix:
/// `H[i][j] = (-1)^(number of bits that i and j share)`. `R` is orthogonal; its inverse is `signs * (H x / sqrt(block))`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rotation {
    /// Numbers that are mixed; a power of two that divides the width.
    pub block: usize,
    /// As many as the row is wide; none where all are 1.
    pub signs: Option<Signs>,
}

impl Rotation {
    /// What is wrong with it for rows of `width`.
    pub(crate) fn fault(&self, width: usize) -> Option<String> {
        if !self.block.is_power_of_two() || !width.is_multiple_of(self.block) {
            return Some(format!("a rotation in blocks of {} cannot turn {width} numbers", self.block));
        }
        let signs = self.signs.as_ref().map_or(width, |s| s.factors().len());
        (signs != width).then(|| format!("a rotation with {signs} signs cannot turn {width} numbers"))
    }
}

/// How the rows of a matrix are stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotated {
    /// Rows are `R w`.
    pub rotation: Rotation,
    /// Before `R`, the columns of the output projection of Gated DeltaNet were brought from the order in which value heads that
    /// share a key head are apart ([`crate::GatedDelta::tiled`]) into the order in which they are neighbours.
    pub grouped: bool,
}

/// Which weights of a model are rotated.
#[derive(Clone, Debug, Default)]
pub struct Rotations {
    /// Matrices, by what has to be done to their operand.
    pub matrices: HashMap<WeightId, Rotated>,
    /// Tables, whose rows have to be turned back after the look-up. A table that is the output matrix too is in both.
    pub tables: HashMap<WeightId, Rotation>,
}

/// Puts rotations into the plan of a model, one for each value and rotation, however many matrices share it.
///
/// # Errors
/// When a rotated weight is used by anything but a product or a look-up, by nothing at all, or in two ways that contradict each
/// other; when blocks or signs do not fit a width.
pub fn rotate(model: Model, rotations: &Rotations) -> Result<Model> {
    let Model { mut plan, weights } = model;
    let ops = std::mem::take(&mut plan.ops).into_iter().zip(std::mem::take(&mut plan.op_layers)).collect::<Vec<_>>();
    let mut rewrite = Rewrite { plan, source: &ops, rotations, made: vec![], used: vec![] };
    for (op, layer) in &ops {
        rewrite.op(op.clone(), *layer)?;
    }
    let Rewrite { plan, used, .. } = rewrite;
    if let Some(idle) = rotations.matrices.keys().chain(rotations.tables.keys()).find(|w| !used.contains(w)) {
        return Err(Error::invalid(format!("`{}` is rotated, but nothing is multiplied with it", plan.weight(*idle).name)));
    }
    plan.validate()?;
    Ok(Model { plan, weights })
}

struct Rewrite<'a> {
    plan: Plan,
    source: &'a [(Op, Option<usize>)],
    rotations: &'a Rotations,
    /// A value, what was done to it, and the result.
    made: Vec<(Value, Rotated, Value)>,
    /// Rotated weights that were met.
    used: Vec<WeightId>,
}

impl Rewrite<'_> {
    fn op(&mut self, mut op: Op, layer: Option<usize>) -> Result<()> {
        let mut turn_back = None;
        match &mut op {
            Op::Linear(l) => {
                if self.rotations.tables.contains_key(&l.weight) && !self.rotations.matrices.contains_key(&l.weight) {
                    let what = "has rotated rows and is the output matrix too, but is not declared as one";
                    return Err(self.refusal(l.weight, what));
                }
                if let Some(rotated) = self.matrix(l.weight) {
                    l.x = self.turned(l.x, l.weight, &rotated, layer)?;
                }
            }
            Op::Experts(e) => {
                let (gate, up) = (self.matrix(e.gate), self.matrix(e.up));
                if gate != up {
                    return Err(self.refusal(if gate.is_some() { e.gate } else { e.up }, "is not rotated as its twin (gate and up) is"));
                }
                if let Some(rotated) = gate {
                    e.x = self.turned(e.x, e.gate, &rotated, layer)?;
                }
                if let Some(down) = self.matrix(e.down) {
                    if down.grouped {
                        return Err(self.refusal(e.down, "cannot have its inputs regrouped"));
                    }
                    e.rotation = Some(down.rotation);
                }
            }
            Op::Embed(e) => {
                if let Some(rotation) = self.rotations.tables.get(&e.weight).cloned() {
                    self.used.push(e.weight);
                    let info = self.plan.value(e.out).clone();
                    let stored = self.value(info);
                    turn_back = Some(Hadamard { x: stored, rotation, inverse: true, out: std::mem::replace(&mut e.out, stored) });
                } else if self.rotations.matrices.contains_key(&e.weight) {
                    return Err(self.refusal(e.weight, "has rotated rows, but nothing says that they are to be turned back"));
                }
            }
            other => {
                let rotated = |w: &WeightId| self.rotations.matrices.contains_key(w) || self.rotations.tables.contains_key(w);
                if let Some(w) = other.weights().into_iter().find(rotated) {
                    return Err(self.refusal(w, &format!("is rotated, which the op `{}` cannot run", other.name())));
                }
            }
        }
        self.push(op, layer);
        if let Some(op) = turn_back {
            self.push(op, layer);
        }
        Ok(())
    }

    fn refusal(&self, weight: WeightId, what: &str) -> Error {
        Error::invalid(format!("`{}` {what}", self.plan.weight(weight).name))
    }

    fn matrix(&mut self, weight: WeightId) -> Option<Rotated> {
        let found = self.rotations.matrices.get(&weight).cloned();
        self.used.extend(found.is_some().then_some(weight));
        found
    }

    fn value(&mut self, info: ValueInfo) -> Value {
        self.plan.values.push(info);
        Value(self.plan.values.len() as u32 - 1)
    }

    fn push(&mut self, op: impl Into<Op>, layer: Option<usize>) {
        self.plan.ops.push(op.into());
        self.plan.op_layers.push(layer);
    }

    /// `x`, turned for `weight`.
    fn turned(&mut self, x: Value, weight: WeightId, rotated: &Rotated, layer: Option<usize>) -> Result<Value> {
        if let Some((.., out)) = self.made.iter().find(|(of, how, _)| *of == x && how == rotated) {
            return Ok(*out);
        }
        let info = ValueInfo { kind: Kind::Numbers, ..self.plan.value(x).clone() };
        let mut from = x;
        if rotated.grouped
            && let Some((rows, columns)) = self.heads(weight, info.width, layer)?
        {
            let out = self.value(info.clone());
            self.push(Transpose { x, rows, columns, out }, layer);
            from = out;
        }
        let out = self.value(info);
        self.push(Hadamard { x: from, rotation: rotated.rotation.clone(), inverse: false, out }, layer);
        self.made.push((x, rotated.clone(), out));
        Ok(out)
    }

    /// The order of value heads in the DeltaNet of the layer, as (value heads to a key head, key heads); `None` where it is grouped.
    fn heads(&self, weight: WeightId, width: usize, layer: Option<usize>) -> Result<Option<(usize, usize)>> {
        let delta = |(op, of): &'_ (Op, Option<usize>)| match op {
            Op::GatedDelta(d) if *of == layer => Some((d.k_heads, d.v_heads, d.value, d.tiled)),
            _ => None,
        };
        match self.source.iter().find_map(delta) {
            Some((k_heads, v_heads, value, tiled)) if v_heads * value == width => Ok(tiled.then_some((v_heads / k_heads, k_heads))),
            _ => Err(self.refusal(weight, "has its inputs regrouped by heads, but they do not come from a Gated DeltaNet")),
        }
    }
}
