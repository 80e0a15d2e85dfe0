//! The vision transformer (Dosovitskiy et al. 2020, arXiv:2010.11929) with pre-norm layers, as nearly all towers have it.

use crate::arch::Norm;
use onebit_plan::{AttentionSpec, Function, Graph, Mask, Rope, Value};

/// Layers of a vision transformer.
#[derive(Clone, Debug)]
pub(super) struct Vit {
    pub(super) width: usize,
    pub(super) heads: usize,
    pub(super) inner: usize,
    pub(super) norm: Norm,
    pub(super) eps: f32,
    pub(super) act: Function,
    /// Whether feed-forward layers have a gate.
    pub(super) gated: bool,
    /// How queries and keys turn.
    pub(super) rope: Option<Rope>,
    /// For each layer, whether a patch sees its window only.
    pub(super) windows: Vec<bool>,
}

impl Vit {
    /// Numbers of a head.
    pub(super) fn head(&self) -> usize {
        self.width / self.heads
    }

    /// All layers; `after` sees the stream behind each.
    pub(super) fn build(&self, g: &mut Graph<'_>, x: Value, mut after: impl FnMut(&mut Graph<'_>, usize, Value)) -> Value {
        // Layers run one after the other over all of an image, so that one cache serves all.
        let cache = g.kv_cache(&self.attention(0));
        g.layers(self.windows.len(), x, |g, layer, x| {
            let h = self.normalized(g, x, "ln1");
            let qkv = self.project(g, h);
            let [q, k, v] = self.turned(g, qkv);
            let y = g.attention_in(cache, q, Some([k, v]), &self.attention(layer));
            let y = g.linear(y, "attn_out", self.width);
            let y = scaled(g, y, "ls1");
            let x = g.add(x, y);
            let h = self.normalized(g, x, "ln2");
            let y = match self.gated {
                true => g.gated_ffn_named(h, ["ffn_gate", "ffn_up", "ffn_down"], self.inner, self.act),
                false => self.feed_forward(g, h),
            };
            let y = scaled(g, y, "ls2");
            let x = g.add(x, y);
            after(g, layer, x);
            x
        })
    }

    fn attention(&self, layer: usize) -> AttentionSpec {
        let windows = self.windows.get(layer) == Some(&true);
        let mask = if windows { Mask::Window(1) } else { Mask::Full };
        AttentionSpec { mask, groups: windows, ..AttentionSpec::causal(self.heads, self.heads, self.head()) }
    }

    /// The norm `name` of a row.
    pub(super) fn normalized(&self, g: &mut Graph<'_>, x: Value, name: &str) -> Value {
        match self.norm {
            Norm::Rms => g.rms_norm(x, name, self.eps),
            Norm::Layer | Norm::PlainLayer => g.layer_norm(x, name, self.eps),
        }
    }

    fn project(&self, g: &mut Graph<'_>, x: Value) -> [Value; 3] {
        if !g.has("attn_qkv.weight", &[3 * self.width, self.width]) {
            return ["attn_q", "attn_k", "attn_v"].map(|name| g.linear(x, name, self.width));
        }
        let all = g.linear(x, "attn_qkv", 3 * self.width);
        [0, 1, 2].map(|i| g.slice(all, 1, i * self.width, self.width))
    }

    fn turned(&self, g: &mut Graph<'_>, [q, k, v]: [Value; 3]) -> [Value; 3] {
        let normalized = |g: &mut Graph<'_>, x, name: &str| match g.has(&format!("{name}.weight"), &[self.width]) {
            true => g.rms_norm(x, name, self.eps),
            false => x,
        };
        let [q, k] = [normalized(g, q, "attn_q_norm"), normalized(g, k, "attn_k_norm")];
        let Some(rope) = &self.rope else { return [q, k, v] };
        [g.rope(q, self.head(), rope), g.rope(k, self.head(), rope), v]
    }

    /// Some GGUF files call the first of the two matrices the second; their shapes tell, where they differ.
    fn feed_forward(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let swapped = self.inner != self.width && !g.has("ffn_up.weight", &[self.inner, self.width]);
        let [first, second] = if swapped { ["ffn_down", "ffn_up"] } else { ["ffn_up", "ffn_down"] };
        let y = g.linear(x, first, self.inner);
        let y = g.apply(y, self.act);
        g.linear(y, second, self.width)
    }
}

/// A layer's contribution times a vector, where the checkpoint has one (LayerScale, Touvron et al. 2021, arXiv:2103.17239).
fn scaled(g: &mut Graph<'_>, y: Value, name: &str) -> Value {
    let name = format!("{name}.weight");
    if g.has(&name, &[g.width(y)]) { g.with_weight(y, onebit_plan::Binary::Mul, &name) } else { y }
}
