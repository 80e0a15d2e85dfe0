//! The vocabulary in a GGUF file (`tokenizer.ggml.*`), as llama.cpp writes it.

mod bert;
mod bpe;
mod pieces;
mod pre;
mod rwkv;

use super::{
    Parts, SPECIAL, Tokenizer, USED,
    added::AddedToken,
    decode::Output,
    model::Model,
    normalize::{self, Normalizer},
    split::Step,
    strings::{Index, Strings},
};
use crate::{Error, Result};
use onebit_formats::{Metadata, gguf::token_kind as kind};

pub(super) fn read(metadata: &Metadata) -> Result<Tokenizer> {
    let file = File { origin: metadata.path.display().to_string(), metadata };
    match metadata.text("tokenizer.ggml.model")? {
        Some("gpt2") => bpe::read(&file),
        Some("gemma4") => bpe::read_named(&file, "gemma4"),
        Some("llama") => pieces::bpe(&file),
        Some("t5") => pieces::unigram(&file),
        Some("plamo2") => pieces::lattice(&file),
        Some("bert") => bert::read(&file),
        Some("rwkv") => rwkv::read(&file),
        Some("none" | "no_vocab") => file.without_vocabulary(),
        Some(other) => Err(Error::unsupported(file.origin, format!("`tokenizer.ggml.model` = `{other}`"))),
        None => Err(Error::invalid(file.origin, "the file has no `tokenizer.ggml.model`, so it holds no vocabulary")),
    }
}

struct File<'a> {
    origin: String,
    metadata: &'a Metadata,
}

/// All tokens.
struct Vocabulary {
    texts: Strings,
    index: Index,
    flags: Vec<u8>,
    added: Vec<AddedToken>,
    output: Output,
}

impl File<'_> {
    fn missing(&self, key: &str) -> Error {
        Error::invalid(&self.origin, format!("the file has no `{key}`"))
    }

    /// All tokens; `decode` gives the bytes of those that are found by the model (kind, text).
    fn vocabulary(&self, decode: impl Fn(i64, &str) -> Option<Vec<u8>>) -> Result<Vocabulary> {
        let origin = &self.origin;
        let tokens = self.metadata.texts("tokenizer.ggml.tokens")?.ok_or_else(|| self.missing("tokenizer.ggml.tokens"))?;
        let kinds = self.metadata.integers("tokenizer.ggml.token_type")?.unwrap_or_default();
        if !kinds.is_empty() && kinds.len() != tokens.len() {
            return Err(Error::invalid(
                origin,
                format!("`tokenizer.ggml.token_type` has {} entries for {} tokens", kinds.len(), tokens.len()),
            ));
        }
        let mut all = Vocabulary {
            texts: Strings::default(),
            index: Index::with_capacity(tokens.len()),
            flags: Vec::with_capacity(tokens.len()),
            added: Vec::new(),
            output: Output::default(),
        };
        for (id, token) in (0u32..).zip(tokens.iter()) {
            all.texts.push(token);
            // Some files pad their vocabulary with empty tokens.
            if let Some(other) = all.index.insert(&all.texts, id).filter(|_| !token.is_empty()) {
                let text = String::from_utf8_lossy(token);
                return Err(Error::invalid(origin, format!("`tokenizer.ggml.tokens` has `{text}` twice, at {other} and {id}")));
            }
            let kind = kinds.get(id as usize).copied().unwrap_or(1);
            let special = matches!(kind, kind::CONTROL | kind::UNKNOWN);
            all.flags.push(USED | if special || kind == kind::UNUSED { SPECIAL } else { 0 });
            let text = str::from_utf8(token).ok();
            if special || kind == kind::USER_DEFINED {
                let content = text.ok_or_else(|| Error::invalid(origin, format!("special token {id} is not UTF-8")))?.to_owned();
                all.output.bytes.push(token);
                all.added.push(AddedToken { id, content, special, ..AddedToken::default() });
            } else {
                all.output.bytes.push(&text.and_then(|text| decode(kind, text)).unwrap_or_else(|| token.to_vec()));
            }
        }
        Ok(all)
    }

    /// The scores of all tokens.
    fn scores(&self, tokens: usize) -> Result<&[f32]> {
        let scores = self.metadata.floats("tokenizer.ggml.scores")?.ok_or_else(|| self.missing("tokenizer.ggml.scores"))?;
        if scores.len() == tokens {
            return Ok(scores);
        }
        Err(Error::invalid(&self.origin, format!("`tokenizer.ggml.scores` has {} entries for {tokens} tokens", scores.len())))
    }

    /// The kind of each token; all are normal where the file does not say.
    fn kinds(&self) -> Result<impl Fn(u32) -> i64> {
        let kinds = self.metadata.integers("tokenizer.ggml.token_type")?.unwrap_or_default();
        Ok(|id: u32| kinds.get(id as usize).copied().unwrap_or(kind::NORMAL))
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        Ok(self.metadata.bool(&format!("tokenizer.ggml.{key}"))?.unwrap_or(default))
    }

    /// The id that a key names, or else the one that llama.cpp takes, where there is such a token.
    fn id_or(&self, key: &str, default: u32, tokens: usize) -> Result<Option<u32>> {
        Ok(self.id(key, tokens)?.or_else(|| Some(default).filter(|&id| (id as usize) < tokens)))
    }

    /// As many ids as the file says, none of which has a text.
    fn without_vocabulary(&self) -> Result<Tokenizer> {
        let architecture = self.metadata.text("general.architecture")?.unwrap_or_default();
        let key = format!("{architecture}.vocab_size");
        let n = self.metadata.unsigned(&key)?.unwrap_or(0);
        let n = usize::try_from(n).ok().filter(|&n| n <= ID_LIMIT);
        let n = n.ok_or_else(|| Error::invalid(&self.origin, format!("`{key}` is more than {ID_LIMIT}")))?;
        let mut texts = Strings::default();
        (0..n).for_each(|_| texts.push(b""));
        let all = Vocabulary { texts, index: Index::default(), flags: vec![USED; n], added: Vec::new(), output: Output::default() };
        self.assemble(all, Vec::new(), Vec::new(), Model::None, Around::default())
    }

    /// The id that a key names.
    fn id(&self, key: &str, tokens: usize) -> Result<Option<u32>> {
        let key = format!("tokenizer.ggml.{key}_token_id");
        let Some(id) = self.metadata.unsigned(&key)? else { return Ok(None) };
        let found = u32::try_from(id).ok().filter(|&id| (id as usize) < tokens);
        found.map(Some).ok_or_else(|| Error::invalid(&self.origin, format!("`{key}` is {id}, but there are {tokens} tokens")))
    }

    fn assemble(&self, all: Vocabulary, normalizers: Vec<Normalizer>, steps: Vec<Step>, model: Model, around: Around) -> Result<Tokenizer> {
        normalize::check_growth(&self.origin, &normalizers)?;
        let Vocabulary { texts, index, flags, added, output } = all;
        let id = |key: &str| self.id(key, texts.len());
        let (bos, eos) = (id("bos")?.or(around.bos), id("eos")?.or(around.eos));
        let ends = [eos, id("eot")?, id("eom")?].into_iter().flatten().collect();
        let some = |wanted: bool, token: Option<u32>| token.filter(|_| wanted).into_iter().collect::<Vec<_>>();
        let (before, after) = match around.enclosed {
            Some((first, last)) => (vec![first], vec![last]),
            None => (some(self.flag("add_bos_token", around.add_bos)?, bos), some(self.flag("add_eos_token", around.add_eos)?, eos)),
        };
        // As llama-server puts a query and a document together.
        let between = match around.enclosed {
            Some(_) => after.clone(),
            None => after.iter().copied().chain(some(self.flag("add_sep_token", false)?, id("seperator")?)).collect(),
        };
        let pair = (!between.is_empty()).then(|| [before.clone(), between, after.clone()]);
        Tokenizer::assemble(
            &self.origin,
            Parts { texts, index, flags, added, normalizers, steps, model, output, before, after, pair, bos, ends },
        )
    }
}

/// The tokens before and after texts, where the file does not say.
#[derive(Default)]
struct Around {
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    /// These, whatever the file says.
    enclosed: Option<(u32, u32)>,
}

/// The most ids without a vocabulary.
const ID_LIMIT: usize = 16 << 20;
