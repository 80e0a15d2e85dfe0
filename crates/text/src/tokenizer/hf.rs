//! Hugging Face's `tokenizer.json`, as the `tokenizers` library (0.23) reads it.

use super::{
    Model, Parts, SPECIAL, Tokenizer, USED,
    added::AddedToken,
    bpe::{self, Bpe, Merges},
    normalize::{Normalizer, normalize},
    scan::{GPT2, Scanner},
    split::{Behavior, Pattern, Prepend, Step},
    strings::{Index, Strings},
};
use crate::{Error, Result};
use onebit_formats::Checkpoint;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use std::{borrow::Cow, collections::HashMap, fmt};

/// Reads `tokenizer.json` and what lies beside it.
pub(super) fn read_checkpoint(checkpoint: &Checkpoint) -> Result<Tokenizer> {
    let origin = checkpoint.path.join("tokenizer.json").display().to_string();
    let Some(text) = checkpoint.sidecar("tokenizer.json")? else {
        return Err(Error::invalid(
            origin,
            "there is no such file; other kinds of vocabulary (`tokenizer.model`, `vocab.txt`) are not read yet",
        ));
    };
    let config = checkpoint.sidecar("tokenizer_config.json")?;
    let mut ends = Vec::new();
    for (file, settings) in [("generation_config.json", &checkpoint.generation_config), ("config.json", &checkpoint.config)] {
        let values = match settings.get("eos_token_id") {
            None | Some(Value::Null) => continue,
            Some(Value::Array(values)) => values.as_slice(),
            Some(value) => std::slice::from_ref(value),
        };
        for value in values {
            let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
            ends.push(
                id.ok_or_else(|| Error::invalid(&origin, format!("`eos_token_id` in {file} should be token ids, but holds `{value}`")))?,
            );
        }
    }
    read(&origin, &text, config.as_deref(), &ends)
}

/// `ends`: ids of tokens that end a generation, from other files.
pub(super) fn read(origin: &str, text: &str, config: Option<&str>, ends: &[u32]) -> Result<Tokenizer> {
    let file: File<'_> = serde_json::from_str(text).map_err(|e| Error::invalid(origin, e.to_string()))?;
    let config: Config = match config {
        None => Config::default(),
        Some(text) => serde_json::from_str(text).map_err(|e| Error::invalid(origin, format!("tokenizer_config.json: {e}")))?,
    };
    let added = added_tokens(origin, &file, &config)?;
    let vocabulary = Vocabulary::new(origin, &file.model.vocab.0, &added)?;

    let mut normalizers = Vec::new();
    let mut steps = Vec::new();
    let mut byte_level = false;
    for spec in file.normalizer.iter() {
        spec.read(origin, &mut normalizers, &mut byte_level)?;
    }
    let growth = normalizers.iter().fold(1usize, |growth, n| growth.saturating_mul(n.growth()));
    if growth > GROWTH_LIMIT {
        return Err(Error::invalid(
            origin,
            format!("the normalizers can make text {growth} times as long; at most {GROWTH_LIMIT} times is accepted"),
        ));
    }
    for spec in file.pre_tokenizer.iter() {
        spec.read(origin, &mut steps, &mut byte_level)?;
    }
    let model = file.model.read(origin, &vocabulary, byte_level)?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for spec in file.post_processor.iter() {
        spec.read(origin, &vocabulary, &mut before, &mut after)?;
    }
    let normalized: HashMap<u32, String> =
        added.iter().filter(|t| t.normalized).map(|t| (t.id, normalize(&normalizers, &t.content).into_owned())).collect();
    let written = vocabulary.texts.iter().enumerate().map(|(id, text)| normalized.get(&(id as u32)).map_or(text, String::as_bytes));
    let output = super::decoders::output(origin, file.decoder.as_ref(), written)?;

    let named = |name: &str, token: &Option<Named>| -> Result<Option<u32>> {
        let Some(text) = token.as_ref().map(Named::text) else { return Ok(None) };
        let id = vocabulary.index.get(&vocabulary.texts, text.as_bytes());
        id.map(Some).ok_or_else(|| Error::invalid(origin, format!("`{name}` in tokenizer_config.json is `{text}`, which is no token")))
    };
    let bos = named("bos_token", &config.bos_token)?;
    // A vocabulary may lack the end that its configuration names (npm's gpt-oss names `<|return|>`): then others end it.
    let eos = config.eos_token.as_ref().and_then(|token| vocabulary.index.get(&vocabulary.texts, token.text().as_bytes()));
    let ends = ends.iter().copied().chain(eos).collect();
    let Vocabulary { texts, index, flags, .. } = vocabulary;
    Tokenizer::assemble(origin, Parts { texts, index, flags, added, normalizers, steps, model, output, before, after, bos, ends })
}

/// The most by which normalization may lengthen text.
const GROWTH_LIMIT: usize = 64;
/// Ids may be at most this many times the number of tokens (vocabularies have some holes), and a few.
const HOLES: usize = 4;

#[derive(Deserialize)]
struct File<'a> {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<NormalizerSpec>,
    pre_tokenizer: Option<StepSpec>,
    post_processor: Option<ProcessorSpec>,
    decoder: Option<super::decoders::Spec>,
    #[serde(borrow)]
    model: ModelSpec<'a>,
}

/// What is read of `tokenizer_config.json`.
#[derive(Default, Deserialize)]
struct Config {
    bos_token: Option<Named>,
    eos_token: Option<Named>,
    #[serde(default)]
    added_tokens_decoder: std::collections::BTreeMap<String, AddedToken>,
}

/// A token named by its text, or by an object that holds it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Text(String),
    Token { content: String },
}

impl Named {
    fn text(&self) -> &str {
        let (Self::Text(text) | Self::Token { content: text }) = self;
        text
    }
}

/// The added tokens of both files, each with its id.
fn added_tokens(origin: &str, file: &File<'_>, config: &Config) -> Result<Vec<AddedToken>> {
    let mut added = file.added_tokens.clone();
    for (id, token) in &config.added_tokens_decoder {
        let id = id.parse().map_err(|_| {
            Error::invalid(origin, format!("`added_tokens_decoder` in tokenizer_config.json has the key `{id}`, which is no id"))
        })?;
        if !added.iter().any(|t| t.content == token.content) {
            added.push(AddedToken { id, ..token.clone() });
        }
    }
    Ok(added)
}

/// All tokens, and an index of those that the model knows.
struct Vocabulary {
    texts: Strings,
    model: Index,
    index: Index,
    flags: Vec<u8>,
}

impl Vocabulary {
    fn new(origin: &str, vocab: &[(Cow<'_, str>, u64)], added: &[AddedToken]) -> Result<Self> {
        let n = vocab.len() + added.len();
        let limit = (n * HOLES + 1024) as u64;
        let mut slots: Vec<Option<&str>> = Vec::with_capacity(n);
        let all = vocab.iter().map(|(text, id)| (text.as_ref(), *id));
        for (text, id) in all.chain(added.iter().map(|t| (t.content.as_str(), u64::from(t.id)))) {
            if id >= limit {
                return Err(Error::invalid(origin, format!("token `{text}` has id {id}, but there are {n} tokens")));
            }
            let id = id as usize;
            if id >= slots.len() {
                slots.resize(id + 1, None);
            }
            match slots[id] {
                Some(other) if other != text => {
                    return Err(Error::invalid(origin, format!("tokens `{other}` and `{text}` both have id {id}")));
                }
                _ => slots[id] = Some(text),
            }
        }
        let mut texts = Strings::default();
        let mut flags = Vec::with_capacity(slots.len());
        for slot in &slots {
            texts.push(slot.unwrap_or_default().as_bytes());
            flags.push(if slot.is_some() { USED } else { 0 });
        }
        let insert = |index: &mut Index, text: &str, id: u64| match index.insert(&texts, id as u32) {
            Some(other) if u64::from(other) != id => Err(Error::invalid(origin, format!("token `{text}` has two ids, {other} and {id}"))),
            _ => Ok(()),
        };
        let mut model = Index::with_capacity(vocab.len());
        let mut index = Index::with_capacity(n);
        for (text, id) in vocab {
            insert(&mut model, text, *id)?;
            insert(&mut index, text, *id)?;
        }
        for token in added {
            insert(&mut index, &token.content, token.id.into())?;
            if token.special {
                flags[token.id as usize] |= SPECIAL;
            }
        }
        Ok(Self { texts, model, index, flags })
    }
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum NormalizerSpec {
    Sequence {
        normalizers: Vec<Self>,
    },
    #[serde(rename = "NFC")]
    Nfc,
    #[serde(rename = "NFD")]
    Nfd,
    #[serde(rename = "NFKC")]
    Nfkc,
    #[serde(rename = "NFKD")]
    Nfkd,
    Lowercase,
    Strip {
        strip_left: bool,
        strip_right: bool,
    },
    StripAccents,
    Replace {
        pattern: PatternSpec,
        content: String,
    },
    Prepend {
        prepend: String,
    },
    ByteLevel,
    #[serde(untagged)]
    Other(Value),
}

/// What a file asks for and this reader does not know, by its name.
fn unknown(origin: &str, part: &str, spec: &Value) -> Error {
    match spec.get("type").and_then(Value::as_str) {
        Some(name) => Error::unsupported(origin, format!("the {part} `{name}` with {spec}")),
        None => Error::invalid(origin, format!("the {part} has no type: {spec}")),
    }
}

impl NormalizerSpec {
    fn read(&self, origin: &str, out: &mut Vec<Normalizer>, byte_level: &mut bool) -> Result<()> {
        if *byte_level {
            return Err(Error::unsupported(origin, "a normalizer after `ByteLevel`"));
        }
        out.push(match self {
            Self::Sequence { normalizers } => return normalizers.iter().try_for_each(|n| n.read(origin, out, byte_level)),
            Self::ByteLevel => {
                *byte_level = true;
                return Ok(());
            }
            Self::Nfc => Normalizer::Nfc,
            Self::Nfd => Normalizer::Nfd,
            Self::Nfkc => Normalizer::Nfkc,
            Self::Nfkd => Normalizer::Nfkd,
            Self::Lowercase => Normalizer::Lowercase,
            Self::Strip { strip_left, strip_right } => Normalizer::Strip { left: *strip_left, right: *strip_right },
            Self::StripAccents => Normalizer::StripAccents,
            Self::Replace { pattern, content } => Normalizer::Replace { pattern: pattern.read(origin)?, content: content.clone() },
            Self::Prepend { prepend } => Normalizer::Prepend(prepend.clone()),
            Self::Other(spec) => return Err(unknown(origin, "normalizer", spec)),
        });
        Ok(())
    }
}

/// What is looked for.
#[derive(Clone, Deserialize)]
pub(super) enum PatternSpec {
    /// This text.
    String(String),
    /// This regular expression.
    Regex(String),
}

impl PatternSpec {
    pub(super) fn read(&self, origin: &str) -> Result<Pattern> {
        match self {
            Self::String(text) if text.is_empty() => Err(Error::invalid(origin, "a pattern is empty")),
            Self::String(text) => Ok(Pattern::Literal(text.clone())),
            Self::Regex(regex) => Pattern::regex(origin, regex),
        }
    }
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum StepSpec {
    Sequence {
        pretokenizers: Vec<Self>,
    },
    Split {
        pattern: PatternSpec,
        behavior: Behavior,
        #[serde(default)]
        invert: bool,
    },
    ByteLevel {
        add_prefix_space: bool,
        #[serde(default = "yes")]
        use_regex: bool,
    },
    Digits {
        #[serde(default)]
        individual_digits: bool,
    },
    Metaspace {
        replacement: char,
        prepend_scheme: Option<Prepend>,
        add_prefix_space: Option<bool>,
        #[serde(default = "yes")]
        split: bool,
    },
    Punctuation {
        behavior: Option<Behavior>,
    },
    Whitespace,
    WhitespaceSplit,
    CharDelimiterSplit {
        delimiter: char,
    },
    BertPreTokenizer,
    #[serde(untagged)]
    Other(Value),
}

/// Punctuation as BERT has it: all ASCII symbols, and `\p{P}`.
fn is_punctuation(c: char) -> bool {
    use super::unicode::{Classes, PUNCTUATION};
    c.is_ascii_punctuation() || Classes::get().of(c) & PUNCTUATION != 0
}

impl StepSpec {
    fn read(&self, origin: &str, out: &mut Vec<Step>, byte_level: &mut bool) -> Result<()> {
        if *byte_level && !matches!(self, Self::Sequence { .. }) {
            return Err(Error::unsupported(origin, "a pre-tokenizer after `ByteLevel`"));
        }
        let split = |pattern, behavior| Step::Split { pattern, behavior, invert: false };
        match self {
            Self::Sequence { pretokenizers } => pretokenizers.iter().try_for_each(|s| s.read(origin, out, byte_level))?,
            Self::Split { pattern, behavior, invert } => {
                out.push(Step::Split { pattern: pattern.read(origin)?, behavior: *behavior, invert: *invert });
            }
            Self::ByteLevel { add_prefix_space, use_regex } => {
                if *add_prefix_space {
                    out.push(Step::PrefixSpace);
                }
                if *use_regex {
                    out.push(split(Pattern::regex(origin, GPT2)?, Behavior::Isolated));
                }
                *byte_level = true;
            }
            Self::Digits { individual_digits: true } => out.push(split(Pattern::Scan(Scanner::Numbers { max: 1 }), Behavior::Isolated)),
            Self::Digits { individual_digits: false } => out.push(split(Pattern::Chars(char::is_numeric), Behavior::Contiguous)),
            Self::Metaspace { replacement, prepend_scheme, add_prefix_space, split } => {
                let prepend = match (prepend_scheme, add_prefix_space) {
                    (Some(Prepend::Always | Prepend::First), Some(false)) => {
                        return Err(Error::invalid(origin, "`Metaspace` has both a `prepend_scheme` and `add_prefix_space: false`"));
                    }
                    (Some(scheme), _) => *scheme,
                    (None, Some(false)) => Prepend::Never,
                    (None, _) => Prepend::Always,
                };
                out.push(Step::Metaspace { replacement: *replacement, prepend, split: *split });
            }
            Self::Punctuation { behavior } => out.push(split(Pattern::Chars(is_punctuation), behavior.unwrap_or(Behavior::Isolated))),
            Self::Whitespace => {
                out.push(Step::Split { pattern: Pattern::regex(origin, r"\w+|[^\w\s]+")?, behavior: Behavior::Removed, invert: true });
            }
            Self::WhitespaceSplit => out.push(split(Pattern::Chars(char::is_whitespace), Behavior::Removed)),
            Self::CharDelimiterSplit { delimiter } => out.push(split(Pattern::Literal(delimiter.to_string()), Behavior::Removed)),
            Self::BertPreTokenizer => {
                out.push(split(Pattern::Chars(char::is_whitespace), Behavior::Removed));
                out.push(split(Pattern::Chars(is_punctuation), Behavior::Isolated));
            }
            Self::Other(spec) => return Err(unknown(origin, "pre-tokenizer", spec)),
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum ProcessorSpec {
    Sequence {
        processors: Vec<Self>,
    },
    /// Only changes offsets.
    ByteLevel,
    TemplateProcessing {
        single: Vec<TemplatePart>,
        special_tokens: HashMap<String, TemplateToken>,
    },
    #[serde(alias = "RobertaProcessing")]
    BertProcessing {
        sep: (String, u32),
        cls: (String, u32),
    },
    #[serde(untagged)]
    Other(Value),
}

#[derive(Deserialize)]
enum TemplatePart {
    Sequence { id: String },
    SpecialToken { id: String },
}

#[derive(Deserialize)]
struct TemplateToken {
    ids: Vec<u32>,
}

impl ProcessorSpec {
    /// Adds the tokens that stand before and after a text.
    fn read(&self, origin: &str, vocabulary: &Vocabulary, before: &mut Vec<u32>, after: &mut Vec<u32>) -> Result<()> {
        // A later processor's tokens enclose those of earlier ones.
        let (first, last) = match self {
            Self::Sequence { processors } => return processors.iter().try_for_each(|p| p.read(origin, vocabulary, before, after)),
            Self::ByteLevel => return Ok(()),
            Self::TemplateProcessing { single, special_tokens } => {
                let (mut first, mut last, mut texts) = (Vec::new(), Vec::new(), 0);
                for part in single {
                    match part {
                        TemplatePart::Sequence { id } if id == "A" => texts += 1,
                        TemplatePart::Sequence { id } => {
                            return Err(Error::invalid(origin, format!("the template for single texts has a text `{id}`")));
                        }
                        TemplatePart::SpecialToken { id } => {
                            let token = special_tokens.get(id).ok_or_else(|| {
                                Error::invalid(origin, format!("the template names `{id}`, which is not among its `special_tokens`"))
                            })?;
                            (if texts == 0 { &mut first } else { &mut last }).extend_from_slice(&token.ids);
                        }
                    }
                }
                if texts != 1 {
                    return Err(Error::invalid(origin, format!("the template for single texts has the text {texts} times, not once")));
                }
                (first, last)
            }
            Self::BertProcessing { sep, cls } => (vec![cls.1], vec![sep.1]),
            Self::Other(spec) => return Err(unknown(origin, "post-processor", spec)),
        };
        for &id in first.iter().chain(&last) {
            if vocabulary.flags.get(id as usize).is_none_or(|f| f & USED == 0) {
                return Err(Error::invalid(
                    origin,
                    format!("the post-processor adds id {id}, but the vocabulary has {} tokens", vocabulary.texts.len()),
                ));
            }
        }
        before.splice(0..0, first);
        after.extend(last);
        Ok(())
    }
}

#[derive(Deserialize)]
struct ModelSpec<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    vocab: Vocab<'a>,
    #[serde(borrow, default)]
    merges: Option<Vec<MergeSpec<'a>>>,
    dropout: Option<f64>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
}

impl ModelSpec<'_> {
    fn read(&self, origin: &str, vocabulary: &Vocabulary, byte_level: bool) -> Result<Model> {
        match (self.kind.as_deref(), &self.merges) {
            (Some("BPE") | None, Some(merges)) => self.bpe(origin, vocabulary, byte_level, merges).map(Model::Bpe),
            (Some("BPE"), None) => Err(Error::invalid(origin, "the BPE model has no `merges`")),
            (Some(kind), _) => Err(Error::unsupported(origin, format!("the model `{kind}`"))),
            (None, None) => Err(Error::invalid(origin, "the model has no `type`")),
        }
    }

    fn bpe(&self, origin: &str, vocabulary: &Vocabulary, byte_level: bool, merges: &[MergeSpec<'_>]) -> Result<Bpe> {
        if let Some(dropout) = self.dropout.filter(|&d| d != 0.0) {
            return Err(Error::unsupported(origin, format!("BPE with `dropout` {dropout}")));
        }
        let unknown = match &self.unk_token {
            None => None,
            Some(text) => {
                let id = vocabulary.model.get(&vocabulary.texts, text.as_bytes());
                Some(id.ok_or_else(|| Error::invalid(origin, format!("`unk_token` is `{text}`, which is no token of the model")))?)
            }
        };
        let options = bpe::Options {
            byte_level,
            ignore_merges: self.ignore_merges,
            byte_fallback: self.byte_fallback,
            unknown,
            fuse_unknown: self.fuse_unk,
            prefix: self.continuing_subword_prefix.clone().unwrap_or_default(),
            suffix: self.end_of_word_suffix.clone().unwrap_or_default(),
        };
        let mut map = Merges::new(&vocabulary.texts, &vocabulary.model, &options.prefix, merges.len());
        for (rank, merge) in merges.iter().enumerate() {
            let added = match merge {
                MergeSpec::Line(line) => map.add_line(rank, line.as_bytes()),
                MergeSpec::Pair(left, right) => map.add(rank, left.as_bytes(), right.as_bytes()),
            };
            added.map_err(|what| Error::invalid(origin, what))?;
        }
        let map = map.finish();
        Bpe::new(origin, &vocabulary.texts, &vocabulary.model, map, options)
    }
}

/// A string that is borrowed from the file where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(V)
    }
}

/// Tokens and ids in the file's order.
struct Vocab<'a>(Vec<(Cow<'a, str>, u64)>);

impl<'de: 'a, 'a> Deserialize<'de> for Vocab<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Vocab<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from tokens to ids (other kinds of vocabulary are not read yet)")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut vocab = Vec::new();
                while let Some((text, id)) = map.next_entry::<Text<'de>, u64>()? {
                    vocab.push((text.0, id));
                }
                Ok(Vocab(vocab))
            }
        }
        deserializer.deserialize_map(V)
    }
}

/// A merge, in either of the two ways in which files have it.
enum MergeSpec<'a> {
    Line(Cow<'a, str>),
    Pair(Cow<'a, str>, Cow<'a, str>),
}

impl<'de: 'a, 'a> Deserialize<'de> for MergeSpec<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = MergeSpec<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: two tokens with a space between them, or an array of two")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(MergeSpec::Line(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(MergeSpec::Line(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let wrong = |n| serde::de::Error::invalid_length(n, &self);
                let left: Text<'de> = seq.next_element()?.ok_or_else(|| wrong(0))?;
                let right: Text<'de> = seq.next_element()?.ok_or_else(|| wrong(1))?;
                match seq.next_element::<Text<'de>>()? {
                    None => Ok(MergeSpec::Pair(left.0, right.0)),
                    Some(_) => Err(wrong(3)),
                }
            }
        }
        deserializer.deserialize_any(V)
    }
}
