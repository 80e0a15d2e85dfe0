//! Apertus (Swiss AI Initiative 2025, arXiv:2509.14233): Llama with normalised queries and keys, and a feed-forward layer without a gate
//! whose activation, xIELU, is learned. Reference: transformers' `models/apertus`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Function, Graph, Mask, Value, ops::Xielu};

pub(crate) static APERTUS: Arch = Arch {
    hf: &["apertus"],
    gguf: &["apertus"],
    tensors: &[TRUNK, NORMS, ATTENTION, QK_NORMS, FFN, XIELU],
    // Read while the plan is made.
    ignored: &["*.act_fn.alpha_p", "*.act_fn.alpha_n", "*.act_fn.beta", "*.act_fn.eps"],
    plan,
};

const NORMS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.attention_layernorm"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.feedforward_layernorm"),
];

/// Numbers that GGUF files hold in their metadata.
const XIELU: &[Entry] = &[
    tensor("blk.{}.xielu_alpha_p", "model.layers.{}.mlp.act_fn.alpha_p"),
    tensor("blk.{}.xielu_alpha_n", "model.layers.{}.mlp.act_fn.alpha_n"),
    tensor("blk.{}.xielu_beta", "model.layers.{}.mlp.act_fn.beta"),
    tensor("blk.{}.xielu_eps", "model.layers.{}.mlp.act_fn.eps"),
];

const NAMES: [&str; 4] = ["alpha_p", "alpha_n", "beta", "eps"];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { base: 12e6, ..Rotary::HALVES })?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.text_or("hidden_act", "", "xielu")?;
    if act != "xielu" {
        return Err(s.wrong("hidden_act", "", format!("is `{act}`; only xielu is known here")));
    }
    let stated = if s.is_gguf() { Some(stated(s, c.layers)?) } else { None };
    let mut numbers: [Vec<f32>; 4] = Default::default();
    let prepare = |g: &mut Graph<'_>, q, name: &str| {
        let q = g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps);
        g.rope(q, heads.head, &rope)
    };
    let logits = c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, prepare));
        let of_layer = |(i, name): (usize, &str)| match &stated {
            Some(stated) => stated[i][layer],
            None => g.constant(&format!("xielu_{name}"), &[1])[0],
        };
        let found: Vec<f32> = NAMES.into_iter().enumerate().map(of_layer).collect();
        numbers.iter_mut().zip(&found).for_each(|(all, one)| all.push(*one));
        let softplus = |x: f32| Function::Softplus.apply(x);
        let (alpha_p, alpha_n) = (softplus(found[0]), found[2] + softplus(found[1]));
        c.residual(g, x, "ffn_norm", |g, x| {
            let h = g.linear(x, "ffn_up", inner);
            let h = g.xielu(h, Xielu { alpha_p, alpha_n, beta: found[2], eps: found[3], x: h, out: h });
            g.linear(h, "ffn_down", c.width)
        })
    });
    NAMES.iter().zip(numbers).for_each(|(name, numbers)| s.note_global(&format!("xielu.{name}"), Meta::Floats(numbers)));
    Ok(logits)
}

/// What GGUF files state of each layer.
fn stated(s: &Settings<'_>, layers: usize) -> Result<Vec<Vec<f32>>> {
    let one = |name: &&str| {
        let key = format!("xielu.{name}");
        s.look_for(&key);
        match s.checkpoint.metadata.floats(&key)? {
            Some(numbers) if numbers.len() == layers && numbers.iter().all(|x| x.is_finite()) => Ok(numbers.to_vec()),
            _ => Err(crate::Error::Setting {
                path: s.checkpoint.path.clone(),
                key,
                what: format!("should be a list of {layers} finite numbers"),
            }),
        }
    };
    NAMES.iter().map(one).collect()
}
