//! Text to ids and back.
//!
//! [`Tokenizer::encode`] goes through these parts, each in its own file:
//!
//! 1. `added`: tokens that are found whole in the text, such as `<|im_start|>`; the text between them goes on;
//! 2. `normalize`: Unicode normalization, replacements;
//! 3. `split` (with `scan`, `unicode`): the text is cut into words;
//! 4. `bpe`: the model gives each word's tokens;
//! 5. the tokens that stand before and after every text, where asked for.
//!
//! `decode` goes back. `hf` builds the parts from `tokenizer.json`, `gguf` from the metadata of a GGUF file, others from other files; to add a kind
//! of vocabulary means to add a file that builds them, and a model where it needs another one.

mod added;
pub mod base64;
mod bpe;
mod bytes;
mod cache;
mod category;
mod charsmap;
mod config;
mod decode;
mod folder;
mod gguf;
mod greedy;
mod hf;
mod joints;
mod lattice;
mod model;
mod normalize;
mod protobuf;
mod roles;
mod scan;
mod scripts;
mod sentence_piece;
mod split;
mod spm;
mod strings;
mod tekken;
mod text_steps;
mod tiktoken;
mod trie;
mod unicode;
mod unigram;
mod vocabulary;
mod word_list;
mod word_piece;

pub use decode::Decoder;
pub use spm::SentencePieces;
pub use word_piece::LONGEST_WORD;

use crate::{Error, Result};
use added::{Added, AddedToken, Part};
use decode::{Output, Stream};
use model::{Model, Scratch};
use normalize::Normalizer;
use onebit_formats::{Checkpoint, Source};
use split::Step;
use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
};
use strings::{Index, Strings};

/// How text is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encode {
    /// Put the tokens before and after it that the vocabulary asks for (often a beginning-of-text token). Leave it out for
    /// text that a chat template has rendered, since templates write them.
    pub add_special: bool,
    /// Read special tokens in the text (`<|im_end|>`) as such. Text from outside should not have them read.
    pub parse_special: bool,
}

/// A vocabulary with all that turns text into its ids and back. Shared by threads.
#[derive(Debug)]
pub struct Tokenizer {
    /// Tokens as the file writes them, by id.
    texts: Strings,
    /// Ids by text.
    index: Index,
    /// For each id: whether it is a token at all, and whether it is special.
    flags: Vec<u8>,
    added: Added,
    normalizers: Vec<Normalizer>,
    steps: Vec<Step>,
    model: Model,
    output: Output,
    before: Vec<u32>,
    after: Vec<u32>,
    /// Before, between and after two texts that belong together.
    pair: Option<[Vec<u32>; 3]>,
    bos: Option<u32>,
    eos: Vec<u32>,
    scratch: Mutex<Vec<Scratch>>,
}

const USED: u8 = 1;
const SPECIAL: u8 = 2;

/// The parts that a file's reader makes.
struct Parts {
    texts: Strings,
    index: Index,
    flags: Vec<u8>,
    added: Vec<AddedToken>,
    normalizers: Vec<Normalizer>,
    steps: Vec<Step>,
    model: Model,
    output: Output,
    before: Vec<u32>,
    after: Vec<u32>,
    pair: Option<[Vec<u32>; 3]>,
    bos: Option<u32>,
    /// The ends that the file names.
    ends: Vec<u32>,
}

impl Tokenizer {
    /// The tokenizer of a model: from the metadata of a GGUF file, or from what lies beside safetensors: `tokenizer.json`,
    /// `tekken.json`, a SentencePiece model, a tiktoken file or `vocab.txt`, with `tokenizer_config.json`. An error names what is
    /// missing or cannot be read exactly.
    pub fn from_checkpoint(checkpoint: &Checkpoint) -> Result<Self> {
        match checkpoint.source {
            Source::Gguf => gguf::read(&checkpoint.metadata),
            Source::HuggingFace => folder::read(checkpoint),
        }
    }

    /// The SentencePiece model that [`Tokenizer::from_checkpoint`] reads; `None` where it reads another kind of file.
    pub fn sentence_pieces(checkpoint: &Checkpoint) -> Result<Option<SentencePieces>> {
        folder::sentence_pieces(checkpoint)
    }

    /// From the contents of `tokenizer.json`, and of `tokenizer_config.json`, which names the first and last tokens.
    pub fn from_json(text: &str, config: Option<&str>) -> Result<Self> {
        hf::read("tokenizer.json", text, config, &[])
    }

    fn assemble(origin: &str, parts: Parts) -> Result<Self> {
        let Parts { texts, index, flags, added, normalizers, steps, model, output, before, after, pair, bos, ends } = parts;
        let used = |id: u32| flags.get(id as usize).is_some_and(|f| f & USED != 0);
        for (name, id) in bos.map(|id| ("beginning-of-text", id)).into_iter().chain(ends.iter().map(|&id| ("end-of-text", id))) {
            if !used(id) {
                return Err(Error::invalid(origin, format!("the {name} token has id {id}, but the vocabulary has {} tokens", texts.len())));
            }
        }
        let eos = roles::ends(ends, |text| added.iter().find(|t| t.content == text).map(|t| t.id));
        let added = Added::new(origin, added, &normalizers)?;
        Ok(Self { texts, index, flags, added, normalizers, steps, model, output, before, after, pair, bos, eos, scratch: Mutex::default() })
    }

    /// The ids of `text`.
    pub fn encode(&self, text: &str, options: Encode) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 4 + 4);
        if options.add_special {
            ids.extend_from_slice(&self.before);
        }
        self.add_text(text, options.parse_special, &mut ids);
        if options.add_special {
            ids.extend_from_slice(&self.after);
        }
        ids
    }

    /// The ids of two texts that belong together, such as a query and a document, with the tokens before, between and after them, and the
    /// index of the second text's first; `None` where the vocabulary has no way to put two texts together. Special tokens are not read
    /// in them.
    pub fn encode_pair(&self, first: &str, second: &str) -> Option<(Vec<u32>, usize)> {
        let [before, between, after] = self.pair.as_ref()?;
        let mut ids = Vec::with_capacity((first.len() + second.len()) / 4 + 4);
        ids.extend_from_slice(before);
        self.add_text(first, false, &mut ids);
        ids.extend_from_slice(between);
        let start = ids.len();
        self.add_text(second, false, &mut ids);
        ids.extend_from_slice(after);
        Some((ids, start))
    }

    fn add_text(&self, text: &str, parse_special: bool, ids: &mut Vec<u32>) {
        let mut scratch = self.scratch.lock().ok().and_then(|mut pool| pool.pop()).unwrap_or_default();
        self.added.split(text, parse_special, &self.normalizers, |part| match part {
            Part::Token(id) => ids.push(id),
            Part::Text(text, first) => {
                split::split(&self.steps, text, first, &mut |word| self.model.encode(&self.texts, word, &mut scratch, ids));
            }
        });
        if let Ok(mut pool) = self.scratch.lock()
            && pool.len() < POOL
        {
            pool.push(scratch);
        }
    }

    /// The text of `ids`, without special tokens where asked. Bytes that are not UTF-8 become U+FFFD; ids that are no
    /// token are left out.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let mut text = String::with_capacity(ids.len() * 4);
        let mut stream = Stream::new(&self.output, skip_special);
        for &id in ids {
            stream.push(self, id, &mut text);
        }
        stream.finish(&self.output, &mut text);
        text
    }

    /// Decodes ids one by one.
    pub fn decoder(self: &Arc<Self>, skip_special: bool) -> Decoder {
        Decoder::new(Arc::clone(self), skip_special)
    }

    /// The bytes that a token stands for inside a text; they may be part of a character. Empty for some special tokens.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.output.bytes.get(id).filter(|_| self.is_used(id))
    }

    /// A token as the vocabulary writes it (`Ġthe`, `▁the`).
    pub fn token_text(&self, id: u32) -> Option<Cow<'_, str>> {
        self.texts.get(id).filter(|_| self.is_used(id)).map(String::from_utf8_lossy)
    }

    /// The id of a token, by its text as the vocabulary writes it.
    pub fn id(&self, text: &str) -> Option<u32> {
        self.index.get(&self.texts, text.as_bytes())
    }

    /// The number of ids: one more than the largest. Some may be no token.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is no token at all.
    pub fn is_empty(&self) -> bool {
        self.texts.len() == 0
    }

    fn is_used(&self, id: u32) -> bool {
        self.flags.get(id as usize).is_some_and(|f| f & USED != 0)
    }

    /// Whether a token is structure (`<|im_end|>`) rather than text.
    pub fn is_special(&self, id: u32) -> bool {
        self.flags.get(id as usize).is_some_and(|f| f & SPECIAL != 0)
    }

    /// The ids of all tokens that are structure.
    pub fn special_ids(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.flags).filter(|(_, flags)| **flags & SPECIAL != 0).map(|(id, _)| id)
    }

    /// The token that begins a text, where the vocabulary names one (whether or not texts should begin with it).
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// All tokens that end a generation, the one that the vocabulary names first. `generation_config.json` is heeded.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }
}

/// How many threads' working memory is kept.
const POOL: usize = 16;
