use crate::{
    Answering, Denoising, Error, Kind, Model, Op, Plan, Result, Rows, State, StateId, Value, ValueInfo, Weight, WeightId, WeightInfo,
};
use std::collections::HashMap;

/// Finds weights by the plan's names.
pub trait Resolve {
    /// The weight called `name` (`blk.3.attn_q.weight`, `output_norm.weight`), seen with `shape`; `None` when the checkpoint has none.
    fn resolve(&self, name: &str, shape: &[usize]) -> Result<Option<Weight>>;
}

/// What a text model has of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Behind how many of the first layers further numbers of an image are added to the stream (DeepStack, Meng et al. 2024,
    /// arXiv:2406.04334).
    pub deepstack: usize,
    /// Where an image's tokens see each other in attention, whatever their order.
    pub together: Together,
}

/// In which layers the tokens of a group see each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Together {
    /// In none.
    #[default]
    No,
    /// In all (Gemma 3).
    Everywhere,
    /// In those that see a window otherwise (Gemma 4).
    InWindows,
}

/// Builds a [`Plan`], op by op, and gathers the weights that it names.
///
/// Methods that make an op return its output. The first fault (a missing tensor, a wrong shape) is kept and reported by
/// [`Graph::finish`]; until then building goes on with made-up values, so that architectures read without a `?` on each line.
///
/// Within [`Graph::layers`], weight names are relative to the layer: `attn_q` is `blk.3.attn_q.weight`.
pub struct Graph<'a> {
    weights_by_name: &'a dyn Resolve,
    plan: Plan,
    weights: Vec<Weight>,
    found: HashMap<String, WeightId>,
    /// The last value that was rounded for a linear layer, and what it became: several layers often read the same.
    rounded: Option<(Value, Value)>,
    layer: Option<usize>,
    /// The layer whose weights are named.
    names: Option<usize>,
    /// What stands before the names of weights.
    part: &'static str,
    sight: Option<Sight>,
    fault: Option<Error>,
}

impl<'a> Graph<'a> {
    /// An empty plan of the architecture `name`.
    pub fn new(name: &str, vocabulary: usize, context: usize, weights: &'a dyn Resolve) -> Self {
        let plan = Plan {
            name: name.to_string(),
            layers: 0,
            values: vec![],
            ops: vec![],
            op_layers: vec![],
            weights: vec![],
            states: vec![],
            output: Value(0),
            hidden: None,
            vocabulary,
            context,
            denoising: None,
            answering: None,
        };
        Self {
            weights_by_name: weights,
            plan,
            weights: vec![],
            found: HashMap::new(),
            rounded: None,
            layer: None,
            names: None,
            part: "",
            sight: None,
            fault: None,
        }
    }

    /// Says that the model guesses masked tokens.
    pub fn denoises(&mut self, how: Denoising) {
        self.plan.denoising = Some(how);
    }

    /// Says that the model answers to a source: the ops up to the last [`Graph::remember`] read it, those behind it make the answer.
    pub fn answers(&mut self, how: Answering) {
        self.plan.answering = Some(how);
    }

    /// Does `f` with weights whose names begin with `part`: `enc.` or `dec.`.
    pub fn part<T>(&mut self, part: &'static str, f: impl FnOnce(&mut Self) -> T) -> T {
        let own = std::mem::replace(&mut self.part, part);
        let out = f(self);
        self.part = own;
        out
    }

    /// Runs `layer` for each of `count` layers, handing the stream from one to the next.
    pub fn layers(&mut self, count: usize, mut x: Value, mut layer: impl FnMut(&mut Self, usize, Value) -> Value) -> Value {
        self.plan.layers += count;
        for i in 0..count {
            if self.fault.is_some() {
                break;
            }
            (self.layer, self.names) = (Some(i), Some(i));
            x = layer(self, i, x);
            if self.sight.is_some_and(|sight| i < sight.deepstack) {
                x = self.add_given(x, (i + 1) * self.width(x));
            }
        }
        (self.layer, self.names) = (None, None);
        x
    }

    /// Lets the plan see: rows of images may stand in for tokens.
    pub fn see(&mut self, sight: Sight) {
        self.sight = Some(sight);
    }

    /// What the plan has of images.
    pub(crate) fn sight(&self) -> Option<Sight> {
        self.sight
    }

    /// Does `f` with the weights of another layer, or with those outside of all layers.
    pub fn weights_of<T>(&mut self, layer: Option<usize>, f: impl FnOnce(&mut Self) -> T) -> T {
        let own = std::mem::replace(&mut self.names, layer);
        let out = f(self);
        self.names = own;
        out
    }

    /// Records a fault that the architecture itself found.
    pub fn fail(&mut self, error: Error) {
        self.fault.get_or_insert(error);
    }

    /// The plan's name for a weight: its part and `blk.N.` before it within a layer, `.weight` behind it where it has no suffix of its own.
    fn full_name(&self, name: &str, suffix: &str) -> String {
        let layer = self.names.map_or(String::new(), |l| format!("blk.{l}."));
        format!("{}{layer}{name}{suffix}", self.part)
    }

    /// The weight `name`, where the checkpoint has it. `name` is relative to the layer and complete: `attn_q.bias`, `ssm_a`.
    pub fn optional_weight(&mut self, name: &str, shape: &[usize]) -> Option<WeightId> {
        let name = self.full_name(name, "");
        if let Some(id) = self.found.get(&name) {
            return Some(*id);
        }
        match self.weights_by_name.resolve(&name, shape) {
            Ok(Some(weight)) => {
                if weight.shape != shape {
                    self.fail(Error::Shape { name: name.clone(), found: weight.shape.clone(), expected: shape.to_vec() });
                }
                let id = WeightId(self.weights.len() as u32);
                self.plan.weights.push(WeightInfo { name: name.clone(), shape: shape.to_vec(), ty: weight.ty, bytes: weight.bytes() });
                self.weights.push(weight);
                self.found.insert(name, id);
                Some(id)
            }
            Ok(None) => None,
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// The weight `name`, which must be there.
    pub fn weight(&mut self, name: &str, shape: &[usize]) -> WeightId {
        self.optional_weight(name, shape).unwrap_or_else(|| {
            let name = self.full_name(name, "");
            self.fail(Error::Missing(name));
            WeightId(0)
        })
    }

    /// The numbers of the small tensor `name`, which must be there: what the plan itself is made of. Zeros after a fault.
    pub fn constant(&mut self, name: &str, shape: &[usize]) -> Vec<f32> {
        self.source(name, shape).map_or_else(|| vec![0.0; shape.iter().product()], |weight| weight.to_f32())
    }

    /// The weight `name` itself, which must be there; `None` after a fault. The plan does not hold it thereby.
    pub fn source(&mut self, name: &str, shape: &[usize]) -> Option<Weight> {
        let name = self.full_name(name, "");
        let fault = match self.weights_by_name.resolve(&name, shape) {
            Ok(Some(weight)) if weight.shape == shape => return Some(weight),
            Ok(Some(weight)) => Error::Shape { name, found: weight.shape.clone(), expected: shape.to_vec() },
            Ok(None) => Error::Missing(name),
            Err(error) => error,
        };
        self.fail(fault);
        None
    }

    /// A weight that was made of others.
    pub(crate) fn made(&mut self, weight: Weight) -> WeightId {
        let name = self.full_name(&weight.name, ".weight");
        let id = WeightId(self.weights.len() as u32);
        self.plan.weights.push(WeightInfo { name, shape: weight.shape.clone(), ty: weight.ty, bytes: weight.bytes() });
        self.weights.push(weight);
        id
    }

    /// Says that the model is good for no more than `tokens` of context.
    pub fn limit_context(&mut self, tokens: usize) {
        self.plan.context = self.plan.context.min(tokens);
    }

    /// Whether what a weight is multiplied with is rounded first.
    pub(crate) fn rounds_input(&self, weight: WeightId) -> bool {
        self.weights.get(weight.0 as usize).is_some_and(|w| w.rounds_input)
    }

    /// The rounded form of a value, where it was the last that was rounded.
    pub(crate) fn rounded(&self, x: Value) -> Option<Value> {
        self.rounded.filter(|(of, _)| *of == x).map(|(_, out)| out)
    }

    /// Remembers the rounded form of a value.
    pub(crate) fn remember_rounded(&mut self, x: Value, out: Value) {
        self.rounded = Some((x, out));
    }

    /// Whether the checkpoint has the weight.
    pub fn has(&self, name: &str, shape: &[usize]) -> bool {
        let name = self.full_name(name, "");
        matches!(self.weights_by_name.resolve(&name, shape), Ok(Some(_)))
    }

    /// Tokens in the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.plan.vocabulary
    }

    /// Tokens of the longest sequence that the model was made for.
    pub fn context(&self) -> usize {
        self.plan.context
    }

    /// Numbers in a row of `v`.
    pub fn width(&self, v: Value) -> usize {
        self.plan.value(v).width
    }

    /// A value that an op is about to make.
    pub(crate) fn new_value(&mut self, width: usize, rows: Rows, kind: Kind) -> Value {
        self.plan.values.push(ValueInfo { width, rows, kind });
        Value(self.plan.values.len() as u32 - 1)
    }

    /// Adds an op whose output is `width` numbers wide and has the rows of `like`.
    pub(crate) fn op<O: Into<Op>>(&mut self, width: usize, like: Option<Value>, make: impl FnOnce(Value) -> O) -> Value {
        self.op_of(Kind::Numbers, width, like, make)
    }

    /// Adds an op whose output holds `width` of `kind` and has the rows of `like`, or of all tokens.
    pub(crate) fn op_of<O: Into<Op>>(&mut self, kind: Kind, width: usize, like: Option<Value>, make: impl FnOnce(Value) -> O) -> Value {
        let rows = like.map_or(Rows::Tokens, |v| self.plan.value(v).rows);
        let out = self.new_value(width, rows, kind);
        self.push(make(out));
        out
    }

    /// Adds an op.
    pub(crate) fn push(&mut self, op: impl Into<Op>) {
        self.plan.ops.push(op.into());
        self.plan.op_layers.push(self.layer);
    }

    /// The ops so far.
    pub(crate) fn ops(&self) -> &[Op] {
        &self.plan.ops
    }

    /// What a sequence carries for an op that is about to be added.
    pub(crate) fn new_state(&mut self, state: State) -> StateId {
        self.plan.states.push(state);
        StateId(self.plan.states.len() as u32 - 1)
    }

    /// Says that `x`, of the rows asked for, are the last hidden states, normalised: what embeddings are made of. It need not be said
    /// where the [`Graph::head`] reads them. A plan that ends in them is an encoder's.
    pub fn hidden(&mut self, x: Value) -> Value {
        self.plan.hidden.get_or_insert(x);
        x
    }

    /// Ends the plan in logits, or in hidden states, and checks it whole.
    pub fn finish(mut self, output: Value) -> Result<Model> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.plan.output = output;
        self.plan.validate()?;
        Ok(Model { plan: self.plan, weights: self.weights })
    }
}
