//! DeBERTa V2 and V3 (He et al. 2020, arXiv:2006.03654; 2021, arXiv:2111.09543): BERT whose scores also compare contents with relative
//! positions, both ways ("disentangled attention"). Reference: transformers' `models/deberta_v2`.

use super::{
    Arch,
    bert::{EMBEDDINGS, HEADS, POSITIONS},
    encoder::{Encoder, add_token_types},
    relative::{Projected, distances},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value, Weight, ops::Relative};

pub(crate) static DEBERTA_V2: Arch =
    Arch { hf: &["deberta-v2"], gguf: &[], tensors: &[EMBEDDINGS, POSITIONS, LAYERS], ignored: IGNORED, plan };

/// What positions are made of becomes a part of other weights; and heads for other tasks.
const IGNORED: &[&str] = &[
    "*encoder.rel_embeddings.weight",
    "*encoder.LayerNorm.*",
    "*.pos_key_proj.*",
    "*.pos_query_proj.*",
    "mask_predictions.*",
    "lm_predictions.*",
    HEADS[0],
    HEADS[1],
    HEADS[2],
    HEADS[3],
    HEADS[5],
    HEADS[9],
];

const LAYERS: &[Entry] = &[
    tensor("position_rel", "model.encoder.rel_embeddings"),
    tensor("position_rel_norm", "model.encoder.LayerNorm"),
    tensor("blk.{}.attn_q", "model.encoder.layer.{}.attention.self.query_proj"),
    tensor("blk.{}.attn_k", "model.encoder.layer.{}.attention.self.key_proj"),
    tensor("blk.{}.attn_v", "model.encoder.layer.{}.attention.self.value_proj"),
    tensor("blk.{}.attn_pos_k", "model.encoder.layer.{}.attention.self.pos_key_proj"),
    tensor("blk.{}.attn_pos_q", "model.encoder.layer.{}.attention.self.pos_query_proj"),
    tensor("blk.{}.attn_output", "model.encoder.layer.{}.attention.output.dense"),
    tensor("blk.{}.attn_output_norm", "model.encoder.layer.{}.attention.output.LayerNorm"),
    tensor("blk.{}.ffn_up", "model.encoder.layer.{}.intermediate.dense"),
    tensor("blk.{}.ffn_down", "model.encoder.layer.{}.output.dense"),
    tensor("blk.{}.layer_output_norm", "model.encoder.layer.{}.output.LayerNorm"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let e = Encoder::read(s, 1e-7)?;
    let act = s.activation("gelu")?;
    if s.count_or("conv_kernel_size", "", 0)? > 0 {
        return Err(s.wrong("conv_kernel_size", "", "is not 0, but the convolution beside the first layer is not there yet"));
    }
    let disentangled = Disentangled::read(s, &e)?;
    let width = s.size_or("embedding_size", "", e.c.width)?;
    let x = g.embed("token_embd", width, 1.0);
    let x = if s.bool_or("position_biased_input", "", true)? {
        let y = g.embed_position("position_embd", width, 0);
        g.add(x, y)
    } else {
        x
    };
    let x = add_token_types(s, g, x, 0)?;
    let x = if width == e.c.width { x } else { g.linear(x, "token_embd_proj", e.c.width) };
    let x = e.c.norm(g, x, "token_embd_norm");
    let attention = |g: &mut Graph<'_>, _, x| {
        let qkv = e.heads.project(g, x);
        let scale = 1.0 / ((e.heads.head * disentangled.as_ref().map_or(1, Disentangled::terms)) as f32).sqrt();
        let relative = disentangled.as_ref().map(|d| d.relative(g, [qkv[0], qkv[1]], scale));
        let y = super::blocks::Heads { scale, ..e.heads }.attend_apart(g, qkv, Mask::Full, relative);
        g.linear(y, "attn_output", e.c.width)
    };
    Ok(e.build(g, x, attention, |g, _, x| g.ffn(x, e.inner, act)))
}

/// How contents are compared with positions.
struct Disentangled {
    /// A query with the positions of keys, and a key with those of queries.
    content_to_position: bool,
    position_to_content: bool,
    /// Whether positions pass the matrices of contents.
    shared: bool,
    /// Epsilon of the norm of positions.
    norm: Option<f32>,
    buckets: Vec<u32>,
    /// Rows of the table of positions.
    rows: usize,
    heads: usize,
    head: usize,
    width: usize,
}

impl Disentangled {
    /// `None` where positions are not compared at all.
    fn read(s: &Settings<'_>, e: &Encoder) -> Result<Option<Self>> {
        const KINDS: &str = "pos_att_type";
        let kinds: Vec<String> = match s.json(KINDS) {
            Some(serde_json::Value::Array(list)) => list.iter().map(|k| k.as_str().unwrap_or_default().to_string()).collect(),
            Some(serde_json::Value::String(text)) => text.to_lowercase().split('|').map(|k| k.trim().to_string()).collect(),
            _ => vec![],
        };
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).filter(|k| !k.is_empty()).collect();
        if let Some(other) = kinds.iter().find(|k| !["c2p", "p2c"].contains(k)) {
            return Err(s.wrong(KINDS, "", format!("has `{other}`; known are c2p and p2c")));
        }
        let has = |kind: &str| kinds.contains(&kind);
        if !s.bool_or("relative_attention", "", false)? {
            let what = "names positions, but `relative_attention` is not true";
            return if kinds.is_empty() { Ok(None) } else { Err(s.wrong(KINDS, "", what)) };
        }
        let farthest = positive(s, "max_relative_positions")?.unwrap_or(s.context()?);
        let wide = positive(s, "position_buckets")?;
        let span = wide.unwrap_or(farthest);
        let index = |d: i64| (wide.map_or(d, |count| log_bucket(d, count, farthest)) + span as i64).clamp(0, 2 * span as i64 - 1) as u32;
        let norms = s.text_or("norm_rel_ebd", "", "none")?.to_lowercase();
        if let Some(other) = norms.split('|').map(str::trim).find(|n| !["none", "layer_norm"].contains(n)) {
            return Err(s.wrong("norm_rel_ebd", "", format!("has `{other}`; known are none and layer_norm")));
        }
        Ok(Some(Self {
            content_to_position: has("c2p"),
            position_to_content: has("p2c"),
            shared: s.bool_or("share_att_key", "", false)?,
            norm: norms.contains("layer_norm").then_some(e.c.eps),
            // Twice as far away as the farthest, all are in the last bucket.
            buckets: distances(2 * farthest.max(span), index),
            rows: 2 * span,
            heads: e.heads.heads,
            head: e.heads.head,
            width: e.c.width,
        }))
    }

    /// What is added up to a score.
    fn terms(&self) -> usize {
        1 + usize::from(self.content_to_position) + usize::from(self.position_to_content)
    }

    /// What queries and keys make of positions.
    fn relative(&self, g: &mut Graph<'_>, [q, k]: [Value; 2], scale: f32) -> Relative {
        let mut made = |wanted: bool, x: Value, content: &str, position: &str| {
            let matrices = if wanted { self.matrices(g, if self.shared { content } else { position }) } else { None };
            matrices.map(|matrices| {
                let y = g.head_linear_of(x, matrices);
                g.scale(y, scale)
            })
        };
        let of_query = made(self.content_to_position, q, "attn_k", "attn_pos_k");
        let of_key = made(self.position_to_content, k, "attn_q", "attn_pos_q");
        Relative { buckets: self.buckets.clone(), count: self.rows, fixed: None, of_query, of_key }
    }

    /// What the projection `name` makes of the table of positions: a matrix for each head, a row for each position.
    fn matrices(&self, g: &mut Graph<'_>, name: &str) -> Option<Weight> {
        let out = self.heads * self.head;
        let matrix = g.source(&format!("{name}.weight"), &[out, self.width])?;
        let bias = g.source(&format!("{name}.bias"), &[out])?;
        let (table, norm) = g.weights_of(None, |g| {
            let table = g.source("position_rel.weight", &[self.rows, self.width]);
            let norm = self
                .norm
                .map(|eps| ([g.source("position_rel_norm.weight", &[self.width]), g.source("position_rel_norm.bias", &[self.width])], eps));
            (table, norm)
        });
        let norm = match norm {
            Some(([Some(weight), Some(bias)], eps)) => Some(([weight, bias], eps)),
            Some(_) => return None,
            None => None,
        };
        Projected { table: table?, norm, matrix, bias, head: self.head }.weight(&format!("{name}_positions"))
    }
}

/// A setting that stands for nothing where it is below 1.
fn positive(s: &Settings<'_>, key: &str) -> Result<Option<usize>> {
    match s.json(key).map(|v| v.as_i64()) {
        None => Ok(None),
        Some(Some(n)) if n < 1 => Ok(None),
        Some(Some(n)) if n <= 1 << 16 => Ok(Some(n as usize)),
        _ => Err(s.wrong(key, "", "should be a whole number of at most 65536")),
    }
}

/// The bucket of a distance: itself up to half of `count`, then logarithmic up to `farthest`. In f32, as the reference has it.
fn log_bucket(distance: i64, count: usize, farthest: usize) -> i64 {
    let (middle, away) = ((count / 2) as i64, distance.abs());
    if away <= middle {
        return distance;
    }
    let turns = (away as f32 / middle as f32).ln() / ((farthest as f32 - 1.0) / middle as f32).ln();
    let log = (turns * (middle - 1) as f32).ceil() as i64 + middle;
    log * distance.signum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `make_log_bucket_position` of transformers 5.24.
    #[test]
    fn logarithmic_buckets() {
        let buckets: Vec<i64> = [0, 1, 3, 4, 5, 7, 10, 15, 16, 40, -4, -5, -10, -15, -40].map(|d| log_bucket(d, 8, 16)).into();
        assert_eq!(buckets, [0, 1, 3, 4, 5, 6, 7, 7, 8, 10, -4, -5, -7, -7, -10]);
        let buckets: Vec<i64> = [1, 127, 128, 129, 200, 300, 511, 512, 600, 1100, -128, -511, -600].map(|d| log_bucket(d, 256, 512)).into();
        assert_eq!(buckets, [1, 127, 128, 129, 169, 207, 255, 256, 270, 326, -128, -255, -270]);
    }
}
