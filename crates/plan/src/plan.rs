use crate::{
    BatchForm, Op, Result, Weight,
    ops::{Embed, Given, Lookup},
};
use onebit_quants::WeightType;
use serde::Serialize;

/// A value of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Value(pub u32);

/// A weight of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct WeightId(pub u32);

/// A state of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct StateId(pub u32);

/// Which tokens of the batch a value has rows for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Rows {
    /// All of them.
    Tokens,
    /// Those whose logits were asked for.
    Outputs,
}

/// What a row of a value holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kind {
    /// f32 numbers.
    Numbers,
    /// Chosen experts: as many (index, weight) pairs as the value is wide.
    Route,
    /// Chosen tokens of the sequence: their positions as f32, ascending, then -1.
    Positions,
}

/// The shape of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValueInfo {
    /// Numbers (or pairs) in a row.
    pub width: usize,
    /// Its rows.
    pub rows: Rows,
    /// Its contents.
    pub kind: Kind,
}

/// What the plan knows of a weight.
#[derive(Clone, Debug, Serialize)]
pub struct WeightInfo {
    /// Name in the plan: ggml's name, whatever the checkpoint calls it.
    pub name: String,
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// How the checkpoint stores it.
    #[serde(serialize_with = "type_name")]
    pub ty: WeightType,
    /// Bytes in the checkpoint.
    pub bytes: usize,
}

fn type_name<S: serde::Serializer>(ty: &WeightType, s: S) -> std::result::Result<S::Ok, S::Error> {
    s.serialize_str(ty.name())
}

/// What a sequence carries from token to token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum State {
    /// Keys and values of an attention layer: grows with the sequence, held in pages.
    Kv {
        /// Key/value heads.
        heads: usize,
        /// Numbers in a key of one head.
        key: usize,
        /// Numbers in a value of one head.
        value: usize,
        /// Tokens back that the layer looks, where it does not look at all.
        window: Option<usize>,
    },
    /// A fixed number of f32 per sequence, zero at its start: recurrent matrices and convolution windows.
    Fixed {
        /// Dimensions, outermost first.
        shape: Vec<usize>,
    },
}

/// What a model computes: ops in the order they run. Built by [`crate::Graph`], which checks every shape.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The architecture.
    pub name: String,
    /// Layers, for display and placement.
    pub layers: usize,
    /// Shapes of values, by [`Value`].
    pub values: Vec<ValueInfo>,
    /// The ops.
    pub ops: Vec<Op>,
    /// The layer that each op belongs to, `None` before and after the layers.
    pub op_layers: Vec<Option<usize>>,
    /// Weights, by [`WeightId`].
    pub weights: Vec<WeightInfo>,
    /// States, by [`StateId`].
    pub states: Vec<State>,
    /// The logits, as wide as the vocabulary, or the [hidden states](Plan::hidden): rows [`Rows::Outputs`].
    pub output: Value,
    /// The last hidden states, normalised, where they are known: rows [`Rows::Outputs`].
    pub hidden: Option<Value>,
    /// Tokens in the vocabulary.
    pub vocabulary: usize,
    /// Tokens of context that the model was made for.
    pub context: usize,
    /// Where the model guesses masked tokens, and not the next one.
    pub denoising: Option<Denoising>,
    /// Where the model reads a source first, and then answers: an encoder and a decoder.
    pub answering: Option<Answering>,
}

/// How a model of an encoder and a decoder is asked: the prompt is a source, which the encoder reads, and the decoder's own sequence is
/// the answer (Sutskever et al. 2014, arXiv:1409.3215).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answering {
    /// The tokens that each answer begins with, at least one; they are given, and not part of the answer that is shown.
    pub start: Vec<u32>,
    /// Tokens that are never chosen.
    pub never: Vec<u32>,
}

/// How a model of masked diffusion is asked (Sahoo et al. 2024, arXiv:2406.07524).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Denoising {
    /// The token that stands for an unknown one.
    pub mask: u32,
    /// Whether the row of a position is about the token behind it, as of models that were made of causal ones.
    pub shifted: bool,
}

impl Plan {
    /// Tokens of the longest sequence for which the tables of positions have rows; `None` where there are no such tables.
    pub fn positions(&self) -> Option<usize> {
        let rows = |op: &Op| match op {
            Op::Embed(Embed { weight, by: Lookup::Position { offset }, .. }) => Some(self.weight(*weight).shape[0].saturating_sub(*offset)),
            _ => None,
        };
        self.ops.iter().filter_map(rows).min()
    }

    /// How many of the first ops are the encoder, which reads the source: those up to the last that [remembers](crate::ops::Remember).
    pub fn encoder(&self) -> usize {
        self.ops.iter().rposition(|op| matches!(op, Op::Remember(_))).map_or(0, |last| last + 1)
    }

    /// Whether a token sees those behind it, so that a sequence has to be read in one step.
    pub fn looks_ahead(&self) -> bool {
        looks_ahead(&self.ops[self.encoder()..])
    }

    /// What batches have to be like.
    pub fn batch_form(&self) -> BatchForm {
        self.form_of(&self.ops[self.encoder()..])
    }

    /// What batches of sources have to be like, where there is an encoder.
    pub fn source_form(&self) -> Option<BatchForm> {
        Some(&self.ops[..self.encoder()]).filter(|ops| !ops.is_empty()).map(|ops| self.form_of(ops))
    }

    fn form_of(&self, ops: &[Op]) -> BatchForm {
        let end = |op: &Op| if let Op::Given(g) = op { g.start + self.value(g.out).width } else { 0 };
        BatchForm {
            vocabulary: self.vocabulary,
            given: ops.iter().map(end).max().unwrap_or(0),
            whole: looks_ahead(ops),
            needs_given: ops.iter().any(|op| matches!(op, Op::Given(Given { x: None, .. }))),
            source: ops.iter().any(Op::reads_source),
        }
    }

    /// Whether the output are hidden states, and not logits.
    pub fn gives_hidden(&self) -> bool {
        self.hidden == Some(self.output)
    }

    /// Numbers in a row of the output.
    pub fn width(&self) -> usize {
        self.value(self.output).width
    }

    /// Settles what depends on how long sequences may get: `context` tokens. To be called before a device loads the plan; without
    /// it, sequences are taken to stay as short as the model was first made for.
    pub fn fit_context(&mut self, context: usize) {
        for op in &mut self.ops {
            if let Op::ApplyRope(op) = op {
                op.rope.fit_context(context);
            }
        }
    }
    /// The shape of a value.
    pub fn value(&self, v: Value) -> &ValueInfo {
        &self.values[v.0 as usize]
    }
    /// What is known of a weight.
    pub fn weight(&self, w: WeightId) -> &WeightInfo {
        &self.weights[w.0 as usize]
    }
    /// A state's shape.
    pub fn state(&self, s: StateId) -> &State {
        &self.states[s.0 as usize]
    }
    /// Bytes of all weights in the checkpoint.
    pub fn weight_bytes(&self) -> usize {
        self.weights.iter().map(|w| w.bytes).sum()
    }
    /// f32 numbers that all fixed states of one sequence hold.
    pub fn fixed_state(&self) -> usize {
        self.states.iter().map(|s| if let State::Fixed { shape } = s { shape.iter().product() } else { 0 }).sum()
    }
    /// Numbers that the keys and values of one token hold, over all layers.
    pub fn kv_per_token(&self) -> usize {
        self.states.iter().map(|s| if let State::Kv { heads, key, value, .. } = s { heads * (key + value) } else { 0 }).sum()
    }
    /// Checks that every op's operands exist before it, have the shapes it needs, and that its output fits.
    pub fn validate(&self) -> Result<()> {
        let mut known = vec![false; self.values.len()];
        let encoder = self.encoder();
        for (i, op) in self.ops.iter().enumerate() {
            if i == encoder {
                // The encoder is done with its source before a token of the answer is there.
                known.fill(false);
            }
            op.check(self, &known)?;
            known[op.output().0 as usize] = true;
        }
        if (encoder > 0) != self.answering.as_ref().is_some_and(|answering| !answering.start.is_empty()) {
            return Err(crate::Error::invalid("an encoder needs a decoder with tokens to begin with, and such tokens an encoder"));
        }
        if self.ops[..encoder].iter().any(|op| self.value(op.output()).rows != Rows::Tokens || op.reads_source()) {
            return Err(crate::Error::invalid("an encoder gives no rows of output, and reads no source but its own"));
        }
        if let Some(token) = self.answering.iter().flat_map(|a| a.start.iter().chain(&a.never)).find(|t| **t as usize >= self.vocabulary) {
            return Err(crate::Error::invalid(format!("token {token} is not in the vocabulary of {}", self.vocabulary)));
        }
        let out = self.value(self.output);
        if !known[self.output.0 as usize] || out.rows != Rows::Outputs || !self.gives_hidden() && out.width != self.vocabulary {
            return Err(crate::Error::invalid("the plan does not end in logits of the vocabulary's width"));
        }
        match self.hidden {
            Some(v) if self.value(v).rows != Rows::Outputs => {
                Err(crate::Error::invalid("hidden states are not those of the rows that are asked for"))
            }
            _ => Ok(()),
        }
    }
}

fn looks_ahead(ops: &[Op]) -> bool {
    ops.iter().any(|op| matches!(op, Op::Attention(a) if a.mask.looks_ahead()))
}

/// A plan and its weights, still in their files.
#[derive(Clone, Debug)]
pub struct Model {
    /// What is computed.
    pub plan: Plan,
    /// The weights, by [`WeightId`].
    pub weights: Vec<Weight>,
}

impl Model {
    /// The same model up to its last hidden states, which are its output then.
    ///
    /// # Errors
    /// When the architecture does not tell which they are.
    pub fn up_to_hidden(mut self) -> Result<Self> {
        let plan = &mut self.plan;
        let made = plan.hidden.and_then(|hidden| Some((hidden, plan.ops.iter().position(|op| op.output() == hidden)?)));
        let Some((hidden, last)) = made else {
            return Err(crate::Error::invalid(format!("the architecture `{}` has no hidden states to make embeddings of", plan.name)));
        };
        plan.ops.truncate(last + 1);
        plan.op_layers.truncate(last + 1);
        plan.output = hidden;
        plan.validate()?;
        Ok(self)
    }

    /// A weight's source.
    pub fn weight(&self, w: WeightId) -> &Weight {
        &self.weights[w.0 as usize]
    }
}
