//! The vocabulary, from `tokenizer.json` and what lies beside it, as `tokenizer.ggml.*` and `tokenizer.chat_template`.
//!
//! Four kinds are written. Byte-level BPE is `gpt2` in GGUF, which names the pre-tokenizer instead of describing it, so
//! the description must be one of `pre::ALL`. BPE over characters that falls back to bytes, as SentencePiece trains it, is
//! `llama`, which has scores instead of merges. SentencePiece's unigram is `t5` ([`unigram`]). BERT's WordPiece is `bert` ([`word_piece`]).
//! Other kinds are refused by name. Where there is no `tokenizer.json`, a SentencePiece model ([`pieces`]) or `vocab.txt` is read.

use super::{pieces, pre, unigram, word_piece};
use crate::{Error, Result};
use onebit_formats::{
    Checkpoint, Meta, Texts,
    gguf::{Writer, token_kind as kind},
};
use onebit_text::Tokenizer;
use serde_json::{Map, Value};
use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

/// The file's pairs; `None` where the checkpoint has no vocabulary that is known here. `size` is the number of rows in the embedding table.
pub(super) fn read(checkpoint: &Checkpoint, size: usize) -> Result<Option<Vec<(String, Meta)>>> {
    let config = match checkpoint.sidecar("tokenizer_config.json")? {
        Some(text) => parse(checkpoint, "tokenizer_config.json", &text)?,
        None => Value::Null,
    };
    let beside = Beside { checkpoint, config: &config };
    if let Some(text) = checkpoint.sidecar("tokenizer.json")? {
        let tokenizer = parse(checkpoint, "tokenizer.json", &text)?;
        return described(beside, "tokenizer.json", &tokenizer, size).map(Some);
    }
    let refuse = |error: onebit_text::Error| Error::Convert { path: checkpoint.path.clone(), what: error.to_string() };
    if let Some(model) = Tokenizer::sentence_pieces(checkpoint).map_err(refuse)? {
        let tokenizer = Tokenizer::from_checkpoint(checkpoint).map_err(refuse)?;
        return pieces::read(beside, &model, &tokenizer, size).map(Some);
    }
    if let Some(list) = checkpoint.sidecar("vocab.txt")? {
        Tokenizer::from_checkpoint(checkpoint).map_err(refuse)?;
        return described(beside, "vocab.txt", &word_piece::of_list(&list, &config), size).map(Some);
    }
    Ok(None)
}

/// The pairs of a vocabulary that `tokenizer.json` describes, or that is described as if it did.
fn described(beside: Beside<'_>, file: &'static str, tokenizer: &Value, size: usize) -> Result<Vec<(String, Meta)>> {
    let model = match &tokenizer["model"] {
        model if model["type"] == "Unigram" || model["vocab"].is_array() => Model::Unigram,
        model if model["type"] == "WordPiece" => Model::WordPiece,
        model if model["byte_fallback"] == true => Model::SentencePiece,
        _ => Model::ByteLevel,
    };
    let source = Vocabulary { beside, file, tokenizer, model };
    let mut pairs = Pairs::default();
    source.kind(&mut pairs)?;
    let tokens = source.tokens(size)?;
    match model {
        Model::Unigram => source.scores(size, &mut pairs)?,
        Model::WordPiece => {}
        _ => source.merges(&tokens, &mut pairs)?,
    }
    source.roles(&tokens, &mut pairs);
    beside.templates(&mut pairs)?;
    tokens.write(&mut pairs);
    Ok(pairs.0)
}

fn parse(checkpoint: &Checkpoint, file: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| wrong(checkpoint, file, "the file", format!("is not JSON: {e}")))
}

pub(super) fn wrong(checkpoint: &Checkpoint, file: &str, key: &str, what: impl Into<String>) -> Error {
    Error::Setting { path: checkpoint.path.join(file), key: key.into(), what: what.into() }
}

/// SentencePiece's compiled rules of what characters become, whose bytes llama.cpp reads as bytes only.
pub(super) const CHARSMAP: &str = "precompiled_charsmap";

/// Writes the pairs.
pub(super) fn write(pairs: &[(String, Meta)], writer: &mut Writer) -> Result<()> {
    for (key, value) in pairs {
        match value {
            Meta::Integers(bytes) if key.ends_with(CHARSMAP) => {
                writer.bytes(key, &bytes.iter().map(|byte| *byte as u8).collect::<Vec<_>>())?;
            }
            value => writer.pair(key, value)?,
        }
    }
    Ok(())
}

/// Pairs of the file, in the order they are found.
#[derive(Default)]
pub(super) struct Pairs(pub(super) Vec<(String, Meta)>);

impl Pairs {
    /// Adds `tokenizer.ggml.KEY`.
    pub(super) fn add(&mut self, key: &str, value: Meta) {
        self.0.push((format!("tokenizer.ggml.{key}"), value));
    }
}

/// The tokens by id.
pub(super) struct Tokens<'a> {
    /// The text as GGUF files have it, and the kind.
    pub(super) by_id: Vec<Option<(Cow<'a, str>, i64)>>,
    /// Ids of added tokens, which have roles.
    pub(super) added: HashMap<&'a str, usize>,
}

impl Tokens<'_> {
    pub(super) fn write(&self, pairs: &mut Pairs) {
        let mut texts = Texts::with_capacity(self.by_id.len());
        let mut kinds = Vec::with_capacity(self.by_id.len());
        for (id, token) in self.by_id.iter().enumerate() {
            let unused = format!("[PAD{id}]"); // rows of the table that no token has
            let (text, kind) = token.as_ref().map_or((unused.as_str(), kind::UNUSED), |(text, kind)| (text.as_ref(), *kind));
            texts.push(text.as_bytes());
            kinds.push(kind);
        }
        pairs.add("tokens", Meta::Texts(texts));
        pairs.add("token_type", Meta::Integers(kinds));
    }
}

/// What makes tokens of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Model {
    /// BPE over bytes.
    ByteLevel,
    /// BPE over characters.
    SentencePiece,
    /// The most probable pieces.
    Unigram,
    /// The longest pieces, one after the other.
    WordPiece,
}

struct Vocabulary<'a> {
    beside: Beside<'a>,
    /// What `tokenizer` was read from.
    file: &'static str,
    tokenizer: &'a Value,
    model: Model,
}

impl<'a> Vocabulary<'a> {
    fn wrong(&self, key: &str, what: impl Into<String>) -> Error {
        wrong(self.beside.checkpoint, self.file, key, what)
    }

    /// The steps of a part of the tokenizer: those in its list, or itself.
    fn steps(&self, part: &str, list: &str) -> &'a [Value] {
        let top = &self.tokenizer[part];
        top[list].as_array().map_or(std::slice::from_ref(top), Vec::as_slice)
    }

    /// The kind of model, and what GGUF calls the pre-tokenizer.
    fn kind(&self, pairs: &mut Pairs) -> Result<()> {
        let text = |s: &str| Meta::Text(s.into());
        if self.model == Model::ByteLevel {
            let pre = pre::name(self.tokenizer).map_err(|what| self.wrong("pre_tokenizer", what))?;
            pairs.add("model", text("gpt2"));
            pairs.add("pre", text(pre));
            return Ok(());
        }
        if self.model == Model::WordPiece {
            let how = word_piece::read(self.tokenizer).map_err(|(key, what)| self.wrong(key, what))?;
            pairs.add("model", text("bert"));
            pairs.add("normalizer.lowercase", Meta::Bool(how.lowercase));
            pairs.add("normalizer.strip_accents", Meta::Bool(how.strip_accents));
            return Ok(());
        }
        if self.model == Model::Unigram {
            let spaces = unigram::spaces(self.steps("normalizer", "normalizers"), self.steps("pre_tokenizer", "pretokenizers"));
            let spaces = spaces.map_err(|(key, what)| self.wrong(key, what))?;
            pairs.add("model", text("t5"));
            pairs.add("pre", text("default"));
            pairs.add("add_space_prefix", Meta::Bool(spaces.prefix));
            pairs.add("remove_extra_whitespaces", Meta::Bool(spaces.merged));
            if !spaces.charsmap.is_empty() {
                pairs.add(CHARSMAP, Meta::Integers(spaces.charsmap.into_iter().map(i64::from).collect()));
            }
            return Ok(());
        }
        // Whether a text is read as if it began with a space: a normalizer or pre-tokenizer puts `▁` before it.
        let metaspace = |p: &Value| p["type"] == "Metaspace" && p["prepend_scheme"] != "never" && p["add_prefix_space"] != false;
        let prefix = self.steps("normalizer", "normalizers").iter().any(|n| n["type"] == "Prepend")
            || self.steps("pre_tokenizer", "pretokenizers").iter().any(metaspace);
        pairs.add("model", text("llama"));
        pairs.add("pre", text("default"));
        pairs.add("add_space_prefix", Meta::Bool(prefix));
        Ok(())
    }

    /// The tokens of a table of `size` rows.
    fn tokens(&self, size: usize) -> Result<Tokens<'a>> {
        let model = &self.tokenizer["model"];
        let mut tokens = Tokens { by_id: vec![None; size], added: HashMap::new() };
        let mut put = |text: &'a str, id: &Value, kind: i64| {
            let id = id.as_u64().and_then(|id| usize::try_from(id).ok()).filter(|id| *id < size);
            let short: String = text.chars().take(40).collect();
            let id =
                id.ok_or_else(|| self.wrong("model.vocab", format!("gives `{short}` an id that the model's {size} tokens do not reach")))?;
            let unknown = model["unk_token"] == text || model["unk_id"].as_u64() == Some(id as u64);
            let kind = if unknown { kind::UNKNOWN } else { kind };
            let written = if self.model == Model::WordPiece && kind == kind::NORMAL { word_piece::written(text) } else { text.into() };
            tokens.by_id[id] = Some((written, kind));
            Ok::<usize, Error>(id)
        };
        match &model["vocab"] {
            Value::Object(vocabulary) => {
                for (text, id) in vocabulary {
                    let byte = self.model == Model::SentencePiece && text.len() == 6 && text.starts_with("<0x");
                    put(text, id, if byte { kind::BYTE } else { kind::NORMAL })?;
                }
            }
            Value::Array(pieces) => {
                for (id, piece) in pieces.iter().enumerate() {
                    let text = piece[0].as_str().ok_or_else(|| self.wrong("model.vocab", format!("has no text at {id}")))?;
                    put(text, &Value::from(id), kind::NORMAL)?;
                }
            }
            _ => return Err(self.wrong("model.vocab", "is no object and no list; BPE, unigram and WordPiece can be converted")),
        }
        let mut added = HashMap::new();
        for token in self.tokenizer["added_tokens"].as_array().into_iter().flatten() {
            let text = token["content"].as_str().ok_or_else(|| self.wrong("added_tokens", "has an entry without text"))?;
            added.insert(text, put(text, &token["id"], if token["special"] == true { kind::CONTROL } else { kind::USER_DEFINED })?);
        }
        tokens.added = added;
        Ok(tokens)
    }

    /// Merges as lines, or as the scores of what they make: of two tokens, the one with the earlier merge has the higher score.
    fn merges(&self, tokens: &Tokens<'_>, pairs: &mut Pairs) -> Result<()> {
        const KEY: &str = "model.merges";
        let merges = self.tokenizer["model"]["merges"].as_array().ok_or_else(|| self.wrong(KEY, "is no list; BPE can be converted"))?;
        let mut lines = Texts::default();
        let mut ranks = HashMap::new();
        for (rank, merge) in merges.iter().enumerate() {
            let halves = match merge {
                Value::String(line) => line.split_once(' '),
                Value::Array(pair) => pair.first().and_then(Value::as_str).zip(pair.get(1).and_then(Value::as_str)),
                _ => None,
            };
            let (left, right) = halves.ok_or_else(|| self.wrong(KEY, format!("has no pair at {rank}")))?;
            if self.model == Model::ByteLevel {
                lines.push(format!("{left} {right}").as_bytes());
            } else {
                ranks.entry(format!("{left}{right}")).or_insert(rank);
            }
        }
        if self.model == Model::ByteLevel {
            pairs.add("merges", Meta::Texts(lines));
        } else {
            let rank = |text: &str| ranks.get(text).copied().unwrap_or(merges.len());
            let scores = tokens.by_id.iter().map(|token| token.as_ref().map_or(0.0, |(text, _)| -(rank(text) as f32)));
            pairs.add("scores", Meta::Floats(scores.collect()));
        }
        Ok(())
    }

    /// The scores of the pieces of a unigram model, for a table of `size` rows.
    fn scores(&self, size: usize, pairs: &mut Pairs) -> Result<()> {
        const KEY: &str = "model.vocab";
        let model = &self.tokenizer["model"];
        if model["byte_fallback"] == true {
            return Err(self.wrong("model.byte_fallback", "is true, which GGUF has no way to say of a unigram model"));
        }
        let mut scores = vec![unigram::UNUSED; size];
        for (id, (score, piece)) in scores.iter_mut().zip(model["vocab"].as_array().into_iter().flatten()).enumerate() {
            let found = piece[1].as_f64().filter(|score| score.is_finite());
            *score = found.ok_or_else(|| self.wrong(KEY, format!("has no score at {id}")))? as f32;
        }
        pairs.add("scores", Meta::Floats(scores));
        Ok(())
    }

    /// The tokens that begin and end texts, and the like.
    fn roles(&self, tokens: &Tokens<'_>, pairs: &mut Pairs) {
        if self.model == Model::WordPiece {
            for (key, role) in word_piece::ROLES {
                if let Some(id) = self.beside.named(tokens, role).or_else(|| word_piece::usual(tokens, role)) {
                    pairs.add(key, Meta::Unsigned(id as u64));
                }
            }
            return;
        }
        let unknown = self.tokenizer["model"]["unk_id"].as_u64().map(|id| id as usize);
        let (bos, eos) = self.beside.roles(tokens, [None; 2], unknown, pairs);
        pairs.add("add_bos_token", Meta::Bool(bos.is_some() && self.begins_with(bos)));
        if self.model == Model::Unigram {
            // For the others nothing is put behind a text.
            pairs.add("add_eos_token", Meta::Bool(eos.is_some() && self.around(|single| single.last()) == eos.map(|id| id as u64)));
        }
    }

    /// The token that the post-processor puts where `place` looks in its list.
    fn around(&self, place: impl Fn(&[Value]) -> Option<&Value>) -> Option<u64> {
        let mut steps = self.steps("post_processor", "processors").iter().filter(|s| s["type"] == "TemplateProcessing");
        steps.find_map(|step| {
            let name = place(step["single"].as_array()?)?["SpecialToken"]["id"].as_str()?;
            step["special_tokens"][name]["ids"][0].as_u64()
        })
    }

    /// Whether the post-processor, or where there is none the configuration, puts `bos` before a text.
    fn begins_with(&self, bos: Option<usize>) -> bool {
        if let Some(id) = self.around(|single| single.first()) {
            return Some(id as usize) == bos;
        }
        self.beside.config["add_bos_token"] == true && self.tokenizer["post_processor"].is_null()
    }
}

/// What lies beside the file with the vocabulary.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    /// `tokenizer_config.json`.
    pub(super) config: &'a Value,
}

impl Beside<'_> {
    /// The added token that has a role in `tokenizer_config.json`, where a token is its text or an object that holds it.
    fn named(&self, tokens: &Tokens<'_>, role: &str) -> Option<usize> {
        let token = &self.config[role];
        tokens.added.get(token.as_str().or_else(|| token["content"].as_str())?).copied()
    }

    /// Writes which tokens begin and end texts, and the like, and gives those that begin and end them. `of_file` and `unknown` are those that
    /// the file with the vocabulary names.
    pub(super) fn roles(
        &self,
        tokens: &Tokens<'_>,
        of_file: [Option<usize>; 2],
        unknown: Option<usize>,
        pairs: &mut Pairs,
    ) -> (Option<usize>, Option<usize>) {
        let numbered = |role: &str| -> Vec<usize> {
            let of = |config: &Map<String, Value>| match config.get(role) {
                Some(Value::Array(ids)) => ids.iter().filter_map(Value::as_u64).collect(),
                Some(id) => id.as_u64().into_iter().collect::<Vec<u64>>(),
                None => vec![],
            };
            let all = of(&self.checkpoint.generation_config).into_iter().chain(of(&self.checkpoint.config));
            all.filter_map(|id| usize::try_from(id).ok().filter(|id| *id < tokens.by_id.len())).collect()
        };
        let role = |name: &str, of_file: Option<usize>| {
            let first = || numbered(&format!("{name}_id")).first().copied();
            self.named(tokens, name).or(of_file).or_else(first)
        };
        let (bos, eos) = (role("bos_token", of_file[0]), role("eos_token", of_file[1]));
        let ends: BTreeSet<usize> = numbered("eos_token_id").into_iter().collect();
        let roles = [
            ("bos_token_id", bos),
            ("eos_token_id", eos),
            ("eot_token_id", ends.iter().copied().find(|id| Some(*id) != eos)),
            ("padding_token_id", self.named(tokens, "pad_token")),
            ("unknown_token_id", self.named(tokens, "unk_token").or(unknown)),
        ];
        for (key, id) in roles {
            if let Some(id) = id {
                pairs.add(key, Meta::Unsigned(id as u64));
            }
        }
        (bos, eos)
    }

    /// Chat templates: a file of their own, one text, or a list of named ones.
    pub(super) fn templates(&self, pairs: &mut Pairs) -> Result<()> {
        const KEY: &str = "tokenizer.chat_template";
        let mut add = |key: String, text: &str| pairs.0.push((key, Meta::Text(text.into())));
        if let Some(text) = self.checkpoint.sidecar("chat_template.jinja")? {
            add(KEY.into(), &text);
            return Ok(());
        }
        match &self.config["chat_template"] {
            Value::String(text) => add(KEY.into(), text),
            Value::Array(list) => {
                let mut names = Texts::default();
                for entry in list {
                    match (entry["name"].as_str(), entry["template"].as_str()) {
                        (Some("default"), Some(text)) => add(KEY.into(), text),
                        (Some(name), Some(text)) => {
                            names.push(name.as_bytes());
                            add(format!("{KEY}.{name}"), text);
                        }
                        _ => {}
                    }
                }
                if !names.is_empty() {
                    pairs.0.push(("tokenizer.chat_templates".into(), Meta::Texts(names)));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
