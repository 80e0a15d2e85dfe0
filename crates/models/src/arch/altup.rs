//! Alternating updates (Baykal et al. 2023, arXiv:2301.13310) as Gemma 3n has them: a stream is several times as wide as a layer, which
//! computes one part of it. The other parts are predicted, and corrected by what the computed part turned out to be.

use super::blocks::Decoder;
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Binary, Function, Graph, Value};

/// Names. GGUF files hold the matrices of all parts in one tensor.
pub(super) const ALTUP: &[Entry] = &[
    tensor("altup_proj", "model.altup_projections.{e}"),
    tensor("altup_unembd_proj", "model.altup_unembed_projections.{e}"),
    tensor("blk.{}.altup_router", "model.layers.{}.altup.modality_router"),
    tensor("blk.{}.altup_router_norm", "model.layers.{}.altup.router_norm"),
    tensor("blk.{}.altup_predict_coef", "model.layers.{}.altup.prediction_coefs"),
    tensor("blk.{}.altup_correct_coef", "model.layers.{}.altup.correction_coefs"),
    tensor("blk.{}.altup_correct_scale.weight", "model.layers.{}.altup.correct_output_scale"),
];

/// Most parts of a stream.
const MOST: usize = 4;

/// Added to the mean square of what is brought to another size; the reference bounds it by 1e-5.
const TINY: f32 = 1e-12;

/// A stream in parts.
pub(super) struct AltUp {
    parts: usize,
    /// The part that layers compute.
    active: usize,
    /// Whether the computed part is scaled before it gates an embedding.
    scaled: bool,
    c: Decoder,
}

impl AltUp {
    pub(super) fn read(s: &Settings<'_>, c: Decoder) -> Result<Self> {
        const PARTS: (&str, &str) = ("altup_num_inputs", "altup.num_inputs");
        const ACTIVE: (&str, &str) = ("altup_active_idx", "altup.active_idx");
        let parts = s.size_or(PARTS.0, PARTS.1, 4)?;
        if !(2..=MOST).contains(&parts) {
            return Err(s.wrong(PARTS.0, PARTS.1, format!("is {parts}; from 2 to {MOST} are known here")));
        }
        let active = s.count_or(ACTIVE.0, ACTIVE.1, 0)?;
        if active >= parts {
            return Err(s.wrong(ACTIVE.0, ACTIVE.1, format!("is {active}, but there are {parts} parts")));
        }
        let scaled = s.implied("altup_correct_scale", true)?;
        s.hf_only(!scaled, "it does not scale what its layers compute before it gates an embedding");
        Ok(Self { parts, active, scaled, c })
    }

    /// Whether there are as many parts as published models have, of which layers compute the first.
    pub(super) fn is_usual(&self) -> bool {
        (self.parts, self.active) == (4, 0)
    }

    /// The stream of an embedding: itself, and its products with matrices, brought to its size.
    pub(super) fn start(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let size = self.size(g, x);
        let y = g.repeat(x, 1, self.parts - 1);
        let y = g.head_linear(y, "altup_proj", self.parts - 1, self.c.width, false);
        let y = self.sized(g, y, size);
        g.concat(x, y, 1)
    }

    /// The mean of the first part and the others' products with matrices, brought to its size.
    pub(super) fn end(&self, g: &mut Graph<'_>, streams: Value) -> Value {
        let first = self.part(g, streams, 0);
        let size = self.size(g, first);
        let others = self.parts - 1;
        let y = g.slice(streams, 1, self.c.width, others * self.c.width);
        let y = g.head_linear(y, "altup_unembd_proj", others, self.c.width, false);
        let y = self.sized(g, y, size);
        let sum = (0..others).fold(first, |sum, i| {
            let y = self.part(g, y, i);
            g.add(sum, y)
        });
        g.scale(sum, 1.0 / self.parts as f32)
    }

    /// Each part with the sum of all parts added, weighted by what the computed one asks for.
    pub(super) fn predict(&self, g: &mut Graph<'_>, streams: Value) -> Value {
        let n = self.parts;
        let x = self.active(g, streams);
        let modes = self.modes(g, x);
        let weights = g.linear(modes, "altup_predict_coef", n * n);
        let sums = (0..n).map(|i| {
            let weights = g.slice(weights, 1, i * n, n);
            let weighted = g.mul(streams, weights);
            g.sum(weighted, 1, n)
        });
        let sums: Vec<Value> = sums.collect();
        let sums = sums[1..].iter().fold(sums[0], |all, sum| g.concat(all, *sum, 1));
        g.add(streams, sums)
    }

    /// The parts, each with its share of how far `x` is from the part that was predicted for it.
    pub(super) fn correct(&self, g: &mut Graph<'_>, predicted: Value, x: Value) -> Value {
        let modes = self.modes(g, x);
        let shares = g.linear(modes, "altup_correct_coef", self.parts);
        let was = self.active(g, predicted);
        let was = g.scale(was, -1.0);
        let error = g.add(x, was);
        let error = g.repeat(error, 1, self.parts);
        // Shares are stored less one.
        let more = g.mul(error, shares);
        let y = g.add(predicted, error);
        g.add(y, more)
    }

    /// The computed part, scaled where the model says so.
    pub(super) fn scaled(&self, g: &mut Graph<'_>, streams: Value) -> Value {
        let x = self.active(g, streams);
        if self.scaled { g.with_weight(x, Binary::Mul, "altup_correct_scale.weight") } else { x }
    }

    /// The stream with `y` added to all parts but the first.
    pub(super) fn add_to_others(&self, g: &mut Graph<'_>, streams: Value, y: Value) -> Value {
        let others = self.parts - 1;
        let first = self.part(g, streams, 0);
        let rest = g.slice(streams, 1, self.c.width, others * self.c.width);
        let y = g.repeat(y, 1, others);
        let rest = g.add(rest, y);
        g.concat(first, rest, 1)
    }

    /// The part that layers compute.
    pub(super) fn active(&self, g: &mut Graph<'_>, streams: Value) -> Value {
        self.part(g, streams, self.active)
    }

    fn part(&self, g: &mut Graph<'_>, streams: Value, i: usize) -> Value {
        g.slice(streams, 1, i * self.c.width, self.c.width)
    }

    /// What a part asks for, a number between -1 and 1 for each part.
    fn modes(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let x = self.c.norm(g, x, "altup_router_norm");
        let x = g.scale(x, 1.0 / self.c.width as f32);
        let modes = g.linear(x, "altup_router", self.parts);
        g.apply(modes, Function::Tanh)
    }

    /// The root of the mean square of a row.
    fn size(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let squares = g.mul(x, x);
        let sum = g.sum(squares, 1, self.c.width);
        let mean = g.scale(sum, 1.0 / self.c.width as f32);
        g.apply(mean, Function::SignedSqrt)
    }

    /// Parts brought to the size `size`.
    fn sized(&self, g: &mut Graph<'_>, x: Value, size: Value) -> Value {
        let x = g.plain_norm(x, self.c.width, TINY);
        g.mul(x, size)
    }
}
