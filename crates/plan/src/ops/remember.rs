use super::{Check, Operator};
use crate::{Graph, Result, State, StateId, Value};
use serde::Serialize;

/// Appends keys and values of a token of the source to the state, for [`Mask::Source`](crate::Mask::Source): what an encoder leaves for
/// the cross attention of a decoder's layer (Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3).
///
/// The ops up to the last of these are the encoder ([`Plan::encoder`](crate::Plan::encoder)): they are run once for each source, and
/// those behind them for the tokens of the answer.
#[derive(Clone, Debug, Serialize)]
pub struct Remember {
    /// Keys, as the state has them.
    pub k: Value,
    /// Values, as the state has them.
    pub v: Value,
    /// A [`State::Kv`] that nothing else writes.
    pub state: StateId,
    /// The output, which has no numbers: what the op does is in the state.
    pub out: Value,
}

impl Operator for Remember {
    fn name(&self) -> &'static str {
        "remember"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.k, self.v]
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.expect("the output", c.out(), 0)?;
        match c.plan.state(self.state) {
            State::Kv { heads, key, value, window: None } => {
                c.expect("k", c.width(self.k), heads.saturating_mul(*key))?;
                c.expect("v", c.width(self.v), heads.saturating_mul(*value))?;
            }
            other => return c.fail(format!("the state is {other:?}")),
        }
        let uses = c.plan.ops.iter().filter(|op| op.state() == Some(self.state));
        let only_read = |op: &super::Op| matches!(op, super::Op::Attention(a) if a.kv.is_none() && a.mask == crate::Mask::Source);
        if { uses }.any(|op| op.output() != self.out && !only_read(op)) {
            return c.fail("its state is used by another op than attention to the source");
        }
        Ok(())
    }
}

impl Graph<'_> {
    /// Keeps keys and values of the source's tokens, in `heads` heads, for [`Mask::Source`](crate::Mask::Source).
    pub fn remember(&mut self, k: Value, v: Value, heads: usize) -> StateId {
        let [key, value] = [k, v].map(|x| self.width(x) / heads.max(1));
        let state = self.new_state(State::Kv { heads, key, value, window: None });
        self.op(0, Some(k), |out| Remember { k, v, state, out });
        state
    }
}
