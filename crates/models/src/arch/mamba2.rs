//! Mamba 2 (Dao & Gu 2024, arXiv:2405.21060): selective state spaces whose heads have one rate each. Reference: transformers'
//! `models/mamba2`.

use super::{Arch, mamba};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Function, Graph, Value, ops::Scan};

pub(crate) static MAMBA2: Arch =
    Arch { hf: &["mamba2"], gguf: &["mamba2"], tensors: &[mamba::BACKBONE, STACKED_MAMBA2], ignored: &[], plan };

/// Names of a Mamba 2 mixer below the module `$mixer` of a layer, or below `$or`.
macro_rules! mixer {
    ($mixer:literal) => {
        $crate::arch::mamba2::mamba2_mixer!($mixer, $mixer)
    };
    ($mixer:literal, $or:literal) => {
        &[
            tensor("blk.{}.ssm_in", concat!("model.layers.{}.", $mixer, ".in_proj")).or(concat!("model.layers.{}.", $or, ".in_proj")),
            tensor("blk.{}.ssm_conv1d", concat!("model.layers.{}.", $mixer, ".conv1d")).or(concat!("model.layers.{}.", $or, ".conv1d")),
            tensor("blk.{}.ssm_dt.bias", concat!("model.layers.{}.", $mixer, ".dt_bias")).or(concat!("model.layers.{}.", $or, ".dt_bias")),
            tensor("blk.{}.ssm_a", concat!("model.layers.{}.", $mixer, ".A_log"))
                .or(concat!("model.layers.{}.", $or, ".A_log"))
                .neg_exp()
                .one_behind(),
            tensor("blk.{}.ssm_d", concat!("model.layers.{}.", $mixer, ".D")).or(concat!("model.layers.{}.", $or, ".D")).one_behind(),
            tensor("blk.{}.ssm_norm", concat!("model.layers.{}.", $mixer, ".norm")).or(concat!("model.layers.{}.", $or, ".norm")),
            tensor("blk.{}.ssm_out", concat!("model.layers.{}.", $mixer, ".out_proj")).or(concat!("model.layers.{}.", $or, ".out_proj")),
        ]
    };
}
pub(crate) use mixer as mamba2_mixer;

/// Names of the mixers of models that are nothing but a stack of them.
pub(crate) const STACKED_MAMBA2: &[Entry] = mixer!("mixer");
/// Names of the mixers of hybrids.
pub(crate) const HYBRID_MAMBA2: &[Entry] = mixer!("mamba");

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = mamba::backbone(s)?;
    let mixer = Mamba2::read(s, c.width, s.activation("silu")?, GateAndNorm::GateFirst(c.eps))?;
    Ok(c.build(g, |g, _, x| c.residual(g, x, "attn_norm", |g, x| mixer.build(g, x))))
}

/// In which order the output of a mixer is gated and normalised.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GateAndNorm {
    GateFirst(f32),
    NormFirst(f32),
    /// There is no norm.
    GateOnly,
}

/// The shape of a Mamba 2 mixer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mamba2 {
    pub(crate) heads: usize,
    pub(crate) head: usize,
    pub(crate) groups: usize,
    pub(crate) size: usize,
    pub(crate) kernel: usize,
    pub(crate) act: Function,
    /// Bounds on the steps.
    pub(crate) steps: [f32; 2],
    pub(crate) after: GateAndNorm,
    /// Factors on gate, input, `b`, `c` and step as they are projected.
    pub(crate) factors: [f32; 5],
}

impl Mamba2 {
    pub(crate) fn read(s: &Settings<'_>, width: usize, act: Function, after: GateAndNorm) -> Result<Self> {
        const HEADS: (&str, &str) = ("mamba_n_heads|mamba_num_heads|n_mamba_heads|num_heads", "ssm.time_step_rank");
        const HEAD: &str = "mamba_d_head|mamba_head_dim|mamba_headdim|head_dim";
        const INNER: &str = "ssm.inner_size";
        const GROUPS: (&str, &str) = ("mamba_n_groups|mamba_ngroups|n_groups", "ssm.group_count");
        let heads = s.size(HEADS.0, HEADS.1)?;
        let whole = |inner: usize| match inner.is_multiple_of(heads) {
            true => Ok(inner / heads),
            false => Err(s.wrong(HEADS.0, HEADS.1, format!("is {heads}, which does not divide the inner width {inner}"))),
        };
        let head = if s.is_gguf() {
            whole(s.size("", INNER)?)?
        } else if s.json(HEAD).is_none_or(|v| v == "auto") {
            let expanded = width * s.size_or("mamba_expand|expand", "", 2)?;
            whole(s.optional_size("mamba_d_ssm", "")?.unwrap_or(expanded))?
        } else {
            s.size(HEAD, "")?
        };
        s.note(INNER, Meta::Unsigned((heads * head) as u64));
        let groups = s.size_or(GROUPS.0, GROUPS.1, 1)?;
        if !heads.is_multiple_of(groups) {
            return Err(s.wrong(GROUPS.0, GROUPS.1, format!("is {groups}, which does not divide {heads} heads")));
        }
        let steps = step_bounds(s)?;
        s.hf_only(steps != [0.0, f32::INFINITY], "its steps are bounded");
        let size = s.size("mamba_d_state|ssm_state_size|state_size", "ssm.state_size")?;
        let kernel = s.size_or("mamba_d_conv|conv_kernel", "ssm.conv_kernel", 4)?;
        Ok(Self { heads, head, groups, size, kernel, act, steps, after, factors: [1.0; 5] })
    }

    pub(crate) fn build(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let &Self { heads, head, groups, size, .. } = self;
        let (width, inner, states) = (g.width(x), heads * head, groups * size);
        let [gate_factor, .., step_factor] = self.factors;
        let all = g.linear(x, "ssm_in", 2 * inner + 2 * states + heads);
        let gate = g.slice(all, 1, 0, inner);
        let gate = g.scale(gate, gate_factor);
        let xbc = self.factored(g, all, inner, states);
        let xbc = g.causal_conv(xbc, "ssm_conv1d", self.kernel, Some(self.act));
        let (x, b, c) = (g.slice(xbc, 1, 0, inner), g.slice(xbc, 1, inner, states), g.slice(xbc, 1, inner + states, states));
        let step = g.slice(all, 1, 2 * inner + 2 * states, heads);
        let step = g.scale(step, step_factor);
        let step = g.with_weight(step, onebit_plan::Binary::Add, "ssm_dt.bias");
        let step = g.apply(step, Function::Softplus);
        let [least, most] = self.steps;
        let step = if least > 0.0 || most.is_finite() { g.clamp_between(step, least, most) } else { step };
        let y = g.selective_scan(x, step, (b, c), "ssm_a", "ssm_d", Scan { heads, groups, head, size, row_rates: false });
        let y = match self.after {
            GateAndNorm::GateFirst(eps) => {
                let y = g.glu(gate, y, Function::Silu);
                g.group_norm(y, "ssm_norm", groups, eps)
            }
            GateAndNorm::NormFirst(eps) => {
                let y = g.group_norm(y, "ssm_norm", groups, eps);
                g.glu(gate, y, Function::Silu)
            }
            GateAndNorm::GateOnly => g.glu(gate, y, Function::Silu),
        };
        g.linear(y, "ssm_out", width)
    }

    /// The factors, times `all`, for each row of the projection.
    pub(crate) fn row_factors(&self, all: f32) -> Vec<f32> {
        let (inner, states) = (self.heads * self.head, self.groups * self.size);
        let rows = [inner, inner, states, states, self.heads];
        rows.into_iter().zip(self.factors).flat_map(|(rows, factor)| std::iter::repeat_n(all * factor, rows)).collect()
    }

    /// Input, `b` and `c`, each with its factor.
    fn factored(&self, g: &mut Graph<'_>, all: Value, inner: usize, states: usize) -> Value {
        let [_, factors @ .., _] = self.factors;
        if factors == [1.0; 3] {
            return g.slice(all, 1, inner, inner + 2 * states);
        }
        let starts = [(inner, inner), (2 * inner, states), (2 * inner + states, states)];
        let mut parts = starts.into_iter().zip(factors).map(|((start, len), factor)| {
            let part = g.slice(all, 1, start, len);
            g.scale(part, factor)
        });
        let (Some(x), Some(b), Some(c)) = (parts.next(), parts.next(), parts.next()) else { return all };
        drop(parts);
        let xb = g.concat(x, b, 1);
        g.concat(xb, c, 1)
    }
}

/// The bounds that `time_step_limit` sets on steps.
fn step_bounds(s: &Settings<'_>) -> Result<[f32; 2]> {
    const KEY: &str = "time_step_limit|mamba_dt_limit";
    let number = |v: &serde_json::Value| match v.get("__float__").unwrap_or(v) {
        serde_json::Value::String(word) if word == "Infinity" => Some(f32::INFINITY),
        v => v.as_f64().map(|x| x as f32),
    };
    let Some(value) = (if s.is_gguf() { None } else { s.json(KEY) }) else { return Ok([0.0, f32::INFINITY]) };
    match value.as_array().map(|list| list.iter().map(number).collect::<Vec<_>>()).as_deref() {
        Some(&[Some(least), Some(most)]) if least >= 0.0 && least <= most => Ok([least, most]),
        _ => Err(s.wrong(KEY, "", "should be the least and the most of a step")),
    }
}
