//! Zamba 2 (Glorioso et al. 2024, arXiv:2411.15242): Mamba 2 layers, of which some are preceded by a transformer block that all such
//! layers share, but for low-rank adapters of their own. The block also sees the embedding. Reference: transformers' `models/zamba2`.

use super::{
    Arch,
    blocks::*,
    mamba2::{GateAndNorm, Mamba2, mamba2_mixer},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{AttentionSpec, Function, Graph, Rope, RopeStyle, Value};

pub(crate) static ZAMBA2: Arch =
    Arch { hf: &["zamba2"], gguf: &[], tensors: &[TENSORS, PLAIN_MIXER, ADAPTERS], ignored: UNUSED_ADAPTERS, plan };

/// Blocks that are not shared hold the adapters of all uses.
const UNUSED_ADAPTERS: &[&str] = &["model.layers.*.shared_transformer.*_adapter_list.*"];

/// A hybrid layer holds its Mamba layer in `mamba_decoder`.
const TENSORS: &[Entry] = &[
    tensor("token_embd", "model.embed_tokens"),
    tensor("output_norm", "model.final_layernorm"),
    tensor("output", "lm_head"),
    tensor("blk.{}.ssm_pre_norm", "model.layers.{}.input_layernorm").or("model.layers.{}.mamba_decoder.input_layernorm"),
    tensor("blk.{}.shared_linear", "model.layers.{}.linear"),
    tensor("blk.{}.attn_norm", "model.layers.{}.shared_transformer.input_layernorm"),
    tensor("blk.{}.attn_q", "model.layers.{}.shared_transformer.self_attn.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.shared_transformer.self_attn.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.shared_transformer.self_attn.v_proj"),
    tensor("blk.{}.attn_output", "model.layers.{}.shared_transformer.self_attn.o_proj"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.shared_transformer.pre_ff_layernorm"),
    tensor("blk.{}.ffn_up", "model.layers.{}.shared_transformer.feed_forward.gate_up_proj"),
    tensor("blk.{}.ffn_down", "model.layers.{}.shared_transformer.feed_forward.down_proj"),
];

const PLAIN_MIXER: &[Entry] = mamba2_mixer!("mamba", "mamba_decoder.mamba");

/// Names of the adapters of each use of a block, and how many uses have names.
macro_rules! adapters {
    ($($use:literal)*) => {
        /// Hybrid layers that have names for their adapters.
        const USES: usize = [$($use),*].len();
        const ADAPTERS: &[Entry] = &[$(
            tensor(concat!("blk.{}.ffn_up_a_", $use), concat!("model.layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.", $use, ".0")),
            tensor(concat!("blk.{}.ffn_up_b_", $use), concat!("model.layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.", $use, ".1")),
            tensor(concat!("blk.{}.attn_q_a_", $use), concat!("model.layers.{}.shared_transformer.self_attn.linear_q_adapter_list.", $use, ".0")),
            tensor(concat!("blk.{}.attn_q_b_", $use), concat!("model.layers.{}.shared_transformer.self_attn.linear_q_adapter_list.", $use, ".1")),
            tensor(concat!("blk.{}.attn_k_a_", $use), concat!("model.layers.{}.shared_transformer.self_attn.linear_k_adapter_list.", $use, ".0")),
            tensor(concat!("blk.{}.attn_k_b_", $use), concat!("model.layers.{}.shared_transformer.self_attn.linear_k_adapter_list.", $use, ".1")),
            tensor(concat!("blk.{}.attn_v_a_", $use), concat!("model.layers.{}.shared_transformer.self_attn.linear_v_adapter_list.", $use, ".0")),
            tensor(concat!("blk.{}.attn_v_b_", $use), concat!("model.layers.{}.shared_transformer.self_attn.linear_v_adapter_list.", $use, ".1")),
        )*];
    };
}
adapters!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let hybrid = hybrid_layers(s, c.layers)?;
    let count = s.size_or("num_mem_blocks", "", 1)?;
    let block = Block::read(s, c)?;
    // Steps have no upper bound.
    let least = s.float_or("time_step_min", "", 0.001)? as f32;
    let mixer = Mamba2 { steps: [least, f32::INFINITY], ..Mamba2::read(s, c.width, Function::Silu, GateAndNorm::GateFirst(1e-5))? };
    let mut embedding = None;
    Ok(c.build(g, |g, layer, x| {
        let embedding = *embedding.get_or_insert(x);
        let input = match hybrid.iter().position(|l| *l == layer) {
            None => x,
            Some(n) => {
                // The weights of a block are with the first layer that uses it, unless the checkpoint does not share them.
                let own = g.has("attn_norm.weight", &[2 * c.width]);
                let y = g.weights_of(Some(if own { layer } else { hybrid[n % count] }), |g| block.build(g, x, embedding, n));
                let y = g.linear(y, "shared_linear", c.width);
                g.add(x, y)
            }
        };
        let y = g.rms_norm(input, "ssm_pre_norm", c.eps);
        let y = mixer.build(g, y);
        g.add(x, y)
    }))
}

/// The layers before which a shared block stands.
fn hybrid_layers(s: &Settings<'_>, layers: usize) -> Result<Vec<usize>> {
    const KEY: &str = "layers_block_type|layer_types";
    let kinds = s.per_layer(KEY, layers)?.ok_or_else(|| s.wrong("layers_block_type", "", "is missing"))?;
    let mut hybrid = vec![];
    for (layer, kind) in kinds.iter().enumerate() {
        match kind.as_str() {
            Some("hybrid") => hybrid.push(layer),
            Some("mamba" | "linear_attention") => {}
            _ => return Err(s.wrong("layers_block_type", "", format!("has {kind}; known are mamba and hybrid"))),
        }
    }
    match hybrid.len() {
        n if n > USES => Err(s.wrong("layers_block_type", "", format!("has {n} hybrid layers; {USES} are allowed"))),
        _ => Ok(hybrid),
    }
}

/// The shared transformer block.
struct Block {
    c: Decoder,
    heads: usize,
    kv_heads: usize,
    head: usize,
    inner: usize,
    act: Function,
    /// The adapters' rank.
    rank: usize,
    /// Whether queries, keys and values have adapters too.
    adapted: bool,
    rope: Option<Rope>,
}

impl Block {
    fn read(s: &Settings<'_>, c: Decoder) -> Result<Self> {
        let heads = s.size("num_attention_heads", "")?;
        let kv_heads = s.size_or("num_key_value_heads", "", heads)?;
        if !(2 * c.width).is_multiple_of(heads) || !heads.is_multiple_of(kv_heads) {
            return Err(s.wrong(
                "num_attention_heads",
                "",
                format!("is {heads}, which does not fit the width {} and {kv_heads} key heads", c.width),
            ));
        }
        let head = s.size_or("attention_head_dim", "", 2 * c.width / heads)?;
        let rope = match s.bool_or("use_mem_rope", "", false)? {
            true if s.bool_or("use_long_context", "", false)? => {
                return Err(s.wrong("use_long_context", "", "is true; a base rescaled for long contexts is not known here"));
            }
            true => Some(s.rope(head, RopeStyle::Halves)?),
            false => None,
        };
        Ok(Self {
            c,
            heads,
            kv_heads,
            head,
            inner: s.size_or("intermediate_size|ffn_hidden_size", "", 4 * c.width)?,
            act: s.activation("gelu")?,
            rank: s.size_or("adapter_rank", "", 128)?,
            adapted: s.bool_or("use_shared_attention_adapter", "", false)?,
            rope,
        })
    }

    /// The block's output for its use number `n`.
    fn build(&self, g: &mut Graph<'_>, x: Value, embedding: Value, n: usize) -> Value {
        let both = g.concat(x, embedding, 1);
        let h = g.rms_norm(both, "attn_norm", self.c.eps);
        let [q, k, v] = [("attn_q", self.heads), ("attn_k", self.kv_heads), ("attn_v", self.kv_heads)].map(|(name, heads)| {
            let y = g.linear(h, name, heads * self.head);
            if self.adapted { self.adapt(g, h, y, name, n) } else { y }
        });
        let turn = |g: &mut Graph<'_>, q| if let Some(rope) = &self.rope { g.rope(q, self.head, rope) } else { q };
        let (q, k) = (turn(g, q), turn(g, k));
        let scale = 1.0 / (self.head as f32 / 2.0).sqrt();
        let y = g.attention(q, k, v, &AttentionSpec { scale, ..AttentionSpec::causal(self.heads, self.kv_heads, self.head) });
        let y = g.linear(y, "attn_output", self.c.width);
        let h = g.rms_norm(y, "ffn_norm", self.c.eps);
        let both = g.linear(h, "ffn_up", 2 * self.inner);
        let both = self.adapt(g, h, both, "ffn_up", n);
        let (gate, up) = (g.slice(both, 1, 0, self.inner), g.slice(both, 1, self.inner, self.inner));
        let h = g.glu(gate, up, self.act);
        g.linear(h, "ffn_down", self.c.width)
    }

    /// `y` plus what the adapter of use `n` makes of `x`.
    fn adapt(&self, g: &mut Graph<'_>, x: Value, y: Value, name: &str, n: usize) -> Value {
        let low = g.linear(x, &format!("{name}_a_{n}"), self.rank);
        let more = g.linear(low, &format!("{name}_b_{n}"), g.width(y));
        g.add(y, more)
    }
}
