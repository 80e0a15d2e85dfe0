//! What `1bit show` tells of a checkpoint, for people and as JSON.

use onebit_formats::{Checkpoint, Meta, Source, Tensor};
use onebit_models::{Explanation, Fate, Group, How, Use, explain};
use onebit_text::{ChatTemplate, Tokenizer};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// A checkpoint, explained.
pub(crate) struct Explained<'a> {
    checkpoint: &'a Checkpoint,
    /// Whether all tensors are listed, and all values of long settings.
    all: bool,
    model: Explanation,
    /// By how tensors are stored: how many, and their bytes.
    types: BTreeMap<&'a str, (usize, usize)>,
    tokenizer: Result<Tokenizer, String>,
    template: Result<Option<ChatTemplate>, String>,
}

impl<'a> Explained<'a> {
    pub(crate) fn new(checkpoint: &'a Checkpoint, all: bool) -> Self {
        let mut types: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for t in checkpoint.tensors.values() {
            let (count, bytes) = types.entry(t.stored_as()).or_default();
            (*count, *bytes) = (*count + 1, *bytes + t.stored_bytes());
        }
        let tokenizer = Tokenizer::from_checkpoint(checkpoint).map_err(|e| e.to_string());
        let template = match &tokenizer {
            Ok(tokenizer) => ChatTemplate::from_checkpoint(checkpoint, tokenizer).map_err(|e| e.to_string()),
            Err(_) => Err("is not read without a tokenizer".into()),
        };
        Self { checkpoint, all, model: explain(checkpoint), types, tokenizer, template }
    }

    fn source(&self) -> &'static str {
        if self.checkpoint.source == Source::Gguf { "GGUF" } else { "Hugging Face" }
    }

    fn parameters(&self) -> usize {
        self.checkpoint.tensors.values().map(Tensor::values).sum()
    }

    fn bytes(&self) -> usize {
        self.checkpoint.tensors.values().map(Tensor::stored_bytes).sum()
    }

    pub(crate) fn json(&self) -> Value {
        let plan = self.model.model.as_ref().map(|m| {
            json!({"architecture": m.plan.name, "layers": m.plan.layers, "vocabulary": m.plan.vocabulary, "context": m.plan.context,
                   "kv_bytes_per_token": m.plan.kv_per_token() * 2, "state_bytes_per_sequence": m.plan.fixed_state() * 4})
        });
        let tensor = |t: &Tensor| json!({"name": t.name(), "type": t.stored_as(), "shape": t.shape(), "bytes": t.stored_bytes()});
        let (tokenizer, template) = (self.tokenizer_json(), self.template_json());
        let fates: BTreeMap<_, _> = self.model.settings.iter().map(|s| (&s.key, s.fate)).collect();
        json!({
            "path": self.checkpoint.path, "source": self.source(), "bytes": self.bytes(), "parameters": self.parameters(),
            "runs": self.model.model.is_some(), "why_not": self.model.why_not, "plan": plan,
            "name": self.model.name, "family": self.model.family, "found": self.model.found, "assumed": self.model.assumed,
            "computes": self.model.computes,
            "types": self.types.iter().map(|(n, (c, b))| json!({"type": n, "tensors": c, "bytes": b})).collect::<Vec<_>>(),
            "settings": values(self.checkpoint, self.all).collect::<BTreeMap<_, _>>(), "settings_used": fates,
            "groups": self.model.tensors, "tensors": self.checkpoint.tensors.values().map(tensor).collect::<Vec<_>>(),
            "tokenizer": tokenizer, "chat_template": template,
        })
    }

    fn tokenizer_json(&self) -> Value {
        match &self.tokenizer {
            Ok(t) => json!({"tokens": t.len(), "special": t.special_ids().count(), "bos": t.bos(), "eos": t.eos()}),
            Err(error) => json!({ "error": error }),
        }
    }

    fn template_json(&self) -> Value {
        match &self.template {
            Ok(Some(template)) => json!({"names": template.names().collect::<Vec<_>>()}),
            Ok(None) => Value::Null,
            Err(error) => json!({ "error": error }),
        }
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (parameters, bytes) = (self.parameters() as f64 / 1e6, self.bytes() as f64 / 1e6);
        writeln!(out, "{}", self.checkpoint.path.display())?;
        writeln!(out, "{}, {} tensors, {parameters:.1} M parameters, {bytes:.1} MB", self.source(), self.checkpoint.tensors.len())?;
        self.write_model(out)?;
        for (name, (count, bytes)) in &self.types {
            writeln!(out, "  {name:8} {count:5} tensors  {:10.1} MB", *bytes as f64 / 1e6)?;
        }
        self.write_text(out)?;
        writeln!(out, "settings")?;
        let fates: BTreeMap<&str, Fate> = self.model.settings.iter().map(|s| (s.key.as_str(), s.fate)).collect();
        for (key, value) in values(self.checkpoint, self.all) {
            let note = match fates.get(key.as_str()) {
                Some(Fate::Unread) => "    (not read)",
                _ => "",
            };
            writeln!(out, "  {key} = {value}{note}")?;
        }
        for within in self.model.settings.iter().filter(|s| s.fate == Fate::Unread && !self.checkpoint.config.contains_key(&s.key)) {
            if self.checkpoint.source == Source::HuggingFace {
                writeln!(out, "  {} = {}    (not read)", within.key, within.value)?;
            }
        }
        writeln!(out, "tensors")?;
        self.model.tensors.iter().try_for_each(|group| write_group(out, group))?;
        if self.all {
            writeln!(out, "all tensors")?;
            for t in self.checkpoint.tensors.values() {
                writeln!(out, "  {:48} {:8} {:?}", t.name(), t.stored_as(), t.shape())?;
            }
        }
        Ok(())
    }

    fn write_model(&self, out: &mut impl Write) -> io::Result<()> {
        let Explanation { name, family, found, assumed, why_not, computes, model, .. } = &self.model;
        if let Some(m) = model {
            let p = &m.plan;
            writeln!(out, "architecture {}, {} layers, vocabulary {}, context {}", p.name, p.layers, p.vocabulary, p.context)?;
            writeln!(out, "caches: {} bytes per token (f16), {} bytes of state per sequence", p.kv_per_token() * 2, p.fixed_state() * 4)?;
        }
        match (found, family) {
            (How::Understood, Some(family)) => {
                writeln!(out, "`{name}` is not known; taken for `{family}`, which assumes")?;
                assumed.iter().try_for_each(|what| writeln!(out, "  {what}"))?;
            }
            (How::Closest, Some(family)) => writeln!(out, "`{name}` is not known; the closest family is `{family}`")?,
            _ => {}
        }
        if let Some(error) = why_not {
            writeln!(out, "cannot run: {error}")?;
        }
        if *found != How::Understood && !computes.is_empty() {
            writeln!(out, "computes")?;
            computes.iter().try_for_each(|what| writeln!(out, "  {what}"))?;
        }
        Ok(())
    }

    fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        match &self.tokenizer {
            Ok(t) => {
                writeln!(out, "tokenizer: {} tokens, {} of them special, ends with {:?}", t.len(), t.special_ids().count(), t.eos())?;
            }
            Err(error) => writeln!(out, "tokenizer: none that is understood: {error}")?,
        }
        match &self.template {
            Ok(Some(template)) => writeln!(out, "chat template: {}", template.names().collect::<Vec<_>>().join(", ")),
            Ok(None) => writeln!(out, "chat template: none"),
            Err(error) => writeln!(out, "chat template: {error}"),
        }
    }
}

fn write_group(out: &mut impl Write, group: &Group) -> io::Result<()> {
    let used = match &group.used {
        Use::As(weights) => weights.join(", "),
        Use::No(why) => format!("not used: {why}"),
        Use::Unexplained => "NOT EXPLAINED".into(),
    };
    writeln!(out, "  {:56} {:5} {:6} {:20} {used}", group.name, group.count, group.stored_as, format!("{:?}", group.shape))
}

/// What the files say about the model; long lists are shortened unless `all`.
fn values(checkpoint: &Checkpoint, all: bool) -> impl Iterator<Item = (String, Value)> {
    let gguf = checkpoint.metadata.pairs.iter().map(move |(k, v)| (k.clone(), meta(v, all)));
    let config = checkpoint.config.iter().map(|(k, v)| (k.clone(), v.clone()));
    gguf.chain(config)
}

fn meta(value: &Meta, all: bool) -> Value {
    fn list<T>(items: impl ExactSizeIterator<Item = T>, all: bool) -> Value
    where
        Value: From<T>,
    {
        let count = items.len();
        let shown = if all { count } else { count.min(6) };
        let mut out: Vec<Value> = items.take(shown).map(Value::from).collect();
        if shown < count {
            out.push(format!("... {count} in all").into());
        }
        out.into()
    }
    match value {
        Meta::Unsigned(v) => (*v).into(),
        Meta::Signed(v) => (*v).into(),
        Meta::Float(v) => (*v).into(),
        Meta::Bool(v) => (*v).into(),
        Meta::Text(v) if v.chars().count() > 100 && !all => {
            format!("{}... {} bytes in all", v.chars().take(60).collect::<String>(), v.len()).into()
        }
        Meta::Text(v) => v.clone().into(),
        Meta::Integers(v) => list(v.iter().copied(), all),
        Meta::Floats(v) => list(v.iter().copied(), all),
        Meta::Bools(v) => list(v.iter().copied(), all),
        Meta::Texts(v) => list(v.iter().map(|t| String::from_utf8_lossy(t).into_owned()), all),
    }
}
