use super::{Check, Op, Operator, Relative};
use crate::{Graph, Result, State, StateId, Together, Value, WeightId};
use serde::Serialize;
use std::ops::Range;

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Mask {
    /// All up to its own position.
    Causal,
    /// The last `n` up to and with its own position.
    Window(usize),
    /// Those of its own chunk, the sequence being cut into chunks of `n`, up to its own position (Llama 4).
    Chunked(usize),
    /// All of the sequence, which therefore has to be in one step.
    Full,
    /// All of the source, whose keys and values an encoder has left ([`Remember`](crate::ops::Remember)).
    Source,
    /// Those of the sequence that are at most `n` away, before and behind; it has to be in one step, too.
    Near(usize),
}

impl Mask {
    /// Tokens back that a query looks at most, where it does not look at all.
    pub fn window(self) -> Option<usize> {
        match self {
            Self::Causal | Self::Full | Self::Source => None,
            Self::Window(n) | Self::Chunked(n) => Some(n),
            Self::Near(n) => Some(n.saturating_add(1)),
        }
    }
    /// Whether queries see positions behind their own.
    pub fn looks_ahead(self) -> bool {
        matches!(self, Self::Full | Self::Near(_))
    }
    /// Positions that the query at `position` sees of a sequence, or of a source, that ends before `end`.
    pub fn seen(self, position: usize, end: usize) -> Range<usize> {
        match self {
            Self::Causal => 0..position + 1,
            Self::Window(n) => (position + 1).saturating_sub(n)..position + 1,
            Self::Chunked(n) => position - position % n..position + 1,
            Self::Full | Self::Source => 0..end,
            Self::Near(n) => position.saturating_sub(n)..position.saturating_add(n).saturating_add(1).min(end),
        }
    }
    /// The same with all positions of the query's group, which holds its own.
    pub fn seen_with(self, position: usize, end: usize, group: Option<[u32; 2]>) -> Range<usize> {
        let seen = self.seen(position, end);
        let Some([first, end]) = group.map(|group| group.map(|at| at as usize)) else { return seen };
        seen.start.min(first)..seen.end.max(end)
    }
}

/// Scaled dot-product attention over the sequence so far (Vaswani et al. 2017, arXiv:1706.03762), with grouped heads
/// (Ainslie et al. 2023, arXiv:2305.13245): query head `h` reads key/value head `h / (heads / kv_heads)`.
///
/// Appends keys and values to the state, then `out = sum_t softmax_t(scale * q . k_t) v_t` over the positions that `mask` allows.
#[derive(Clone, Debug, Serialize)]
pub struct Attention {
    /// Queries, `heads * key`.
    pub q: Value,
    /// Keys, `kv_heads * key`, and values, `kv_heads * value`; none where an earlier op has appended them to the same state.
    pub kv: Option<[Value; 2]>,
    /// The cache, a [`State::Kv`]; of the sequence, or of its source where the mask says so.
    pub state: StateId,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads; divides `heads`.
    pub kv_heads: usize,
    /// Numbers in a query or key of one head.
    pub key: usize,
    /// Numbers in a value of one head.
    pub value: usize,
    /// Factor on the dot products.
    pub scale: f32,
    /// Which keys are seen.
    pub mask: Mask,
    /// Whether a query also sees the whole group of its token ([`Inputs::groups`](crate::Inputs::groups)), beyond its own position too.
    pub groups: bool,
    /// `c * tanh(score / c)` on the scaled scores (Gemma 2).
    pub softcap: Option<f32>,
    /// One logit for each query head that takes part in the softmax and carries no value (gpt-oss).
    pub sinks: Option<WeightId>,
    /// For each query head, what is taken from the scaled scores for each position of distance: `slope |t - position|`
    /// (Press et al. 2021, arXiv:2108.12409).
    pub alibi: Option<Vec<f32>>,
    /// What is added to the scaled scores by distance.
    pub relative: Option<Relative>,
    /// The output, `heads * value`.
    pub out: Value,
}

impl Operator for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        let relative = self.relative.iter().flat_map(Relative::inputs);
        std::iter::once(self.q).chain(self.kv.into_iter().flatten()).chain(relative).collect()
    }
    fn weights(&self) -> Vec<WeightId> {
        self.sinks.into_iter().collect()
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("key/value heads", self.kv_heads, self.heads)?;
        c.expect("q", c.width(self.q), self.heads * self.key)?;
        if let Some([k, v]) = self.kv {
            c.expect("k", c.width(k), self.kv_heads * self.key)?;
            c.expect("v", c.width(v), self.kv_heads * self.value)?;
        } else {
            let appends = |op: &Op| match op {
                Op::Attention(a) => a.state == self.state && a.kv.is_some(),
                Op::Remember(r) => r.state == self.state,
                _ => false,
            };
            if !c.plan.ops.iter().take_while(|op| op.output() != self.out).any(appends) {
                return c.fail("no op before it has appended keys and values");
            }
        }
        if self.kv.is_some() && self.mask == Mask::Source {
            return c.fail("keys and values of the source come from the encoder");
        }
        c.expect("the output", c.out(), self.heads * self.value)?;
        c.shape(self.sinks, &[self.heads])?;
        if let Some(slopes) = self.alibi.as_ref().filter(|slopes| slopes.len() != self.heads) {
            return c.fail(format!("there are {} slopes for {} heads", slopes.len(), self.heads));
        }
        if let Some(relative) = &self.relative {
            relative.check(c, self.heads, self.mask.looks_ahead())?;
        }
        if self.mask.window() == Some(0) {
            return c.fail("a query should see one position at least");
        }
        match c.plan.state(self.state) {
            State::Kv { heads, key, value, .. } if (*heads, *key, *value) == (self.kv_heads, self.key, self.value) => Ok(()),
            other => c.fail(format!("the state is {other:?}")),
        }
    }
}

/// What an attention layer adds to its operands; see [`Attention`].
#[derive(Clone, Debug)]
pub struct AttentionSpec {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Numbers in a query or key of one head.
    pub key: usize,
    /// Numbers in a value of one head.
    pub value: usize,
    /// Factor on the dot products.
    pub scale: f32,
    /// Which keys are seen.
    pub mask: Mask,
    /// Whether those of the token's group are seen too.
    pub groups: bool,
    /// Bound on the scores.
    pub softcap: Option<f32>,
    /// Name of the sinks' vector.
    pub sinks: Option<&'static str>,
    /// The slopes of linear biases.
    pub alibi: Option<Vec<f32>>,
    /// Biases by distance.
    pub relative: Option<Relative>,
}

impl AttentionSpec {
    /// Causal attention with the usual scale, `1 / sqrt(head)`.
    pub fn causal(heads: usize, kv_heads: usize, head: usize) -> Self {
        Self {
            heads,
            kv_heads,
            key: head,
            value: head,
            scale: 1.0 / (head as f32).sqrt(),
            mask: Mask::Causal,
            groups: false,
            softcap: None,
            sinks: None,
            alibi: None,
            relative: None,
        }
    }
}

impl Graph<'_> {
    /// Attention over the sequence so far, with a cache of its own. Where a sequence is seen whole, and so is in one step, keys and values
    /// are of no use behind the layer: all such layers share a cache.
    pub fn attention(&mut self, q: Value, k: Value, v: Value, spec: &AttentionSpec) -> Value {
        let shared = if spec.mask.looks_ahead() { self.passing_cache(spec) } else { None };
        let state = shared.unwrap_or_else(|| self.kv_cache(spec));
        self.attention_in(state, q, Some([k, v]), spec)
    }

    /// The cache of a layer before, whose keys and values have the same form and are not needed any more.
    fn passing_cache(&self, spec: &AttentionSpec) -> Option<StateId> {
        let form = |heads, key, value| (heads, key, value) == (spec.kv_heads, spec.key, spec.value);
        self.ops().iter().find_map(|op| match op {
            Op::Attention(a) if a.mask.looks_ahead() && a.kv.is_some() && form(a.kv_heads, a.key, a.value) => Some(a.state),
            _ => None,
        })
    }

    /// A cache for attention as `spec` says.
    pub fn kv_cache(&mut self, spec: &AttentionSpec) -> StateId {
        let &AttentionSpec { kv_heads, key, value, mask, .. } = spec;
        let window = mask.window().filter(|_| !mask.looks_ahead());
        self.new_state(State::Kv { heads: kv_heads, key, value, window })
    }

    /// Attention over the cache `state`, to which `kv` is appended first; without, an earlier op must have appended to it.
    pub fn attention_in(&mut self, state: StateId, q: Value, kv: Option<[Value; 2]>, spec: &AttentionSpec) -> Value {
        let &AttentionSpec { heads, kv_heads, key, value, scale, mask, groups, softcap, sinks, ref alibi, ref relative } = spec;
        let (alibi, relative) = (alibi.clone(), relative.clone());
        let groups = groups
            || match self.sight().unwrap_or_default().together {
                Together::No => false,
                Together::Everywhere => true,
                Together::InWindows => matches!(mask, Mask::Window(_)),
            };
        let sinks = sinks.map(|name| self.weight(&format!("{name}.weight"), &[heads]));
        self.op(heads * value, Some(q), |out| Attention {
            q,
            kv,
            state,
            heads,
            kv_heads,
            key,
            value,
            scale,
            mask,
            groups,
            softcap,
            sinks,
            alibi,
            relative,
            out,
        })
    }
}
