//! Kimi Delta Attention (Kimi Team 2025, arXiv:2510.26692): Gated DeltaNet whose decay is one number for each number of the key.

use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Binary, Function, Graph, Value};

/// Names below the module `$module` of a layer, whose output is projected by `$output`, and others.
macro_rules! kda {
    ($module:literal, $output:literal, $($more:expr),*) => {
        &[
            tensor("blk.{}.attn_q", concat!("model.layers.{}.", $module, ".q_proj")),
            tensor("blk.{}.attn_k", concat!("model.layers.{}.", $module, ".k_proj")),
            tensor("blk.{}.attn_v", concat!("model.layers.{}.", $module, ".v_proj")),
            tensor("blk.{}.ssm_conv1d_q", concat!("model.layers.{}.", $module, ".q_conv1d")).one_behind(),
            tensor("blk.{}.ssm_conv1d_k", concat!("model.layers.{}.", $module, ".k_conv1d")).one_behind(),
            tensor("blk.{}.ssm_conv1d_v", concat!("model.layers.{}.", $module, ".v_conv1d")).one_behind(),
            tensor("blk.{}.ssm_dt.bias", concat!("model.layers.{}.", $module, ".dt_bias")),
            tensor("blk.{}.ssm_beta", concat!("model.layers.{}.", $module, ".b_proj")),
            tensor("blk.{}.ssm_norm", concat!("model.layers.{}.", $module, ".o_norm")),
            tensor("blk.{}.attn_output", concat!("model.layers.{}.", $module, ".", $output)),
            $($more),*
        ]
    };
}
/// Names of Kimi Linear's layers.
pub(super) const KIMI_KDA: &[Entry] = kda!(
    "self_attn",
    "o_proj",
    tensor("blk.{}.ssm_a", "model.layers.{}.self_attn.A_log").neg_exp().one_behind(),
    tensor("blk.{}.ssm_f_a", "model.layers.{}.self_attn.f_a_proj"),
    tensor("blk.{}.ssm_f_b", "model.layers.{}.self_attn.f_b_proj"),
    tensor("blk.{}.ssm_g_a", "model.layers.{}.self_attn.g_a_proj"),
    tensor("blk.{}.ssm_g_b", "model.layers.{}.self_attn.g_b_proj")
);
/// Names of Ling 3's layers, which have one matrix for decays and one for gates.
pub(super) const BAILING_KDA: &[Entry] = kda!(
    "attention",
    "dense",
    tensor("blk.{}.ssm_a", "model.layers.{}.attention.A_log").exp().one_behind(),
    tensor("blk.{}.ssm_f_a", "model.layers.{}.attention.f_proj"),
    tensor("blk.{}.ssm_g_a", "model.layers.{}.attention.g_proj")
);

/// The shape of the layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kda {
    pub(super) heads: usize,
    head: usize,
    kernel: usize,
    /// Whether decay and gate are projected in two steps, and the rates of the decay are negative.
    low_rank: bool,
    /// The least logarithm of the decay, which a sigmoid approaches, where that takes the place of a softplus.
    bound: Option<f32>,
}

impl Kda {
    /// With the keys of heads, their width and the kernel; further keys are those of GGUF files.
    pub(super) fn read(s: &Settings<'_>, [heads, head, kernel]: [&str; 3]) -> Result<Self> {
        Ok(Self {
            heads: s.size(heads, "attention.head_count")?,
            head: s.size(head, "kda.head_dim")?,
            kernel: s.size_or(kernel, "ssm.conv_kernel", 4)?,
            low_rank: true,
            bound: None,
        })
    }

    /// The same with decay and gate projected in one step, with rates that are positive, and perhaps with a bound on the decay.
    pub(super) fn bounded(self, bound: Option<f32>) -> Self {
        Self { low_rank: false, bound, ..self }
    }

    pub(super) fn build(&self, g: &mut Graph<'_>, x: Value, eps: f32) -> Value {
        let &Self { heads, head, kernel, .. } = self;
        let (width, inner) = (g.width(x), heads * head);
        let [q, k, v] = ["q", "k", "v"].map(|name| {
            let y = g.linear(x, &format!("attn_{name}"), inner);
            g.causal_conv(y, &format!("ssm_conv1d_{name}"), kernel, Some(Function::Silu))
        });
        let (q, k) = (g.l2_norm(q, head, 1e-6), g.l2_norm(k, head, 1e-6));
        let decay = self.decay(g, x);
        let beta = g.linear(x, "ssm_beta", heads);
        let beta = g.apply(beta, Function::Sigmoid);
        let y = g.gated_delta((q, k, v), decay, beta, (heads, heads), (head, head), false);
        let y = g.head_norm(y, "ssm_norm", head, eps);
        let gate = self.project(g, x, ["ssm_g_a", "ssm_g_b"]);
        let y = g.glu(gate, y, Function::Sigmoid);
        g.linear(y, "attn_output", width)
    }

    /// The decay's logarithm: minus a rate of the head times a softplus, or a sigmoid between the bound and zero.
    fn decay(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let y = self.project(g, x, ["ssm_f_a", "ssm_f_b"]);
        let y = g.with_weight(y, Binary::Add, "ssm_dt.bias");
        match self.bound {
            None => {
                let y = g.apply(y, Function::Softplus);
                let y = g.with_short_weight(y, Binary::Mul, "ssm_a", self.heads);
                if self.low_rank { y } else { g.scale(y, -1.0) }
            }
            Some(bound) => {
                let y = g.with_short_weight(y, Binary::Mul, "ssm_a", self.heads);
                let y = g.apply(y, Function::Sigmoid);
                g.scale(y, bound)
            }
        }
    }

    fn project(&self, g: &mut Graph<'_>, x: Value, [down, up]: [&str; 2]) -> Value {
        let inner = self.heads * self.head;
        if !self.low_rank {
            return g.linear(x, down, inner);
        }
        let low = g.linear(x, down, self.head);
        g.linear(low, up, inner)
    }
}
