//! SentencePiece's `tokenizer.model`: a protocol buffer (`sentencepiece_model.proto`) with the tokens, how they were trained,
//! and what is done to text.

use super::{
    Parts, Tokenizer,
    added::AddedToken,
    bpe::{self, Bpe},
    bytes,
    charsmap::Charsmap,
    config::Config,
    decode::Output,
    model::Model,
    normalize::{self, Normalizer},
    protobuf::{Value, fields},
    sentence_piece::Whitespace,
    split::{Behavior, Pattern, Prepend, Step},
    strings::Strings,
    trie::Trie,
    unigram::{self, Unigram},
    vocabulary::Vocabulary,
};
use crate::{Error, Result};
use std::{borrow::Cow, collections::HashSet};

/// Kinds of tokens.
mod kind {
    pub(super) const NORMAL: u64 = 1;
    pub(super) const UNKNOWN: u64 = 2;
    pub(super) const CONTROL: u64 = 3;
    pub(super) const USER_DEFINED: u64 = 4;
    pub(super) const BYTE: u64 = 6;
}

struct Piece<'a> {
    text: &'a str,
    score: f32,
    kind: u64,
}

/// What is read of the file, with the values of fields that it leaves out.
struct File<'a> {
    pieces: Vec<Piece<'a>>,
    model_type: u64,
    suffix: bool,
    byte_fallback: bool,
    unknown_surface: &'a str,
    bos: &'a str,
    eos: &'a str,
    charsmap: &'a [u8],
    dummy: bool,
    merge: bool,
    escape: bool,
    denormalizes: bool,
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    str::from_utf8(bytes).map_err(|_| "has a text that is not UTF-8".into())
}

impl<'a> File<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let mut file = Self {
            pieces: Vec::new(),
            model_type: 1,
            suffix: false,
            byte_fallback: false,
            unknown_surface: " \u{2047} ",
            bos: "<s>",
            eos: "</s>",
            charsmap: &[],
            dummy: true,
            merge: true,
            escape: true,
            denormalizes: false,
        };
        for field in fields(bytes) {
            match field? {
                (1, Value::Bytes(piece)) => {
                    let piece = Piece::read(piece).map_err(|what| format!("has a token, number {}, that {what}", file.pieces.len()))?;
                    file.pieces.push(piece);
                }
                (2, Value::Bytes(trainer)) => file.trainer(trainer)?,
                (3, Value::Bytes(normalizer)) => file.normalizer(normalizer)?,
                (5, Value::Bytes(denormalizer)) => {
                    for field in fields(denormalizer) {
                        file.denormalizes |= matches!(field?, (2, Value::Bytes(map)) if !map.is_empty());
                    }
                }
                _ => {}
            }
        }
        Ok(file)
    }

    fn trainer(&mut self, message: &'a [u8]) -> Result<(), String> {
        for field in fields(message) {
            match field? {
                (3, Value::Varint(kind)) => self.model_type = kind,
                (24, Value::Varint(yes)) => self.suffix = yes != 0,
                (35, Value::Varint(yes)) => self.byte_fallback = yes != 0,
                (44, Value::Bytes(surface)) => self.unknown_surface = text(surface)?,
                (46, Value::Bytes(bos)) => self.bos = text(bos)?,
                (47, Value::Bytes(eos)) => self.eos = text(eos)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn normalizer(&mut self, message: &'a [u8]) -> Result<(), String> {
        for field in fields(message) {
            match field? {
                (2, Value::Bytes(map)) => self.charsmap = map,
                (3, Value::Varint(yes)) => self.dummy = yes != 0,
                (4, Value::Varint(yes)) => self.merge = yes != 0,
                (5, Value::Varint(yes)) => self.escape = yes != 0,
                _ => {}
            }
        }
        Ok(())
    }

    /// The control token of a text.
    fn control(&self, wanted: &str) -> Option<u32> {
        self.pieces.iter().position(|piece| piece.kind == kind::CONTROL && piece.text == wanted).map(|id| id as u32)
    }

    fn ids(&self, wanted: impl Fn(&Piece<'_>) -> bool) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.pieces).filter(move |(_, piece)| wanted(piece)).map(|(id, _)| id)
    }
}

impl<'a> Piece<'a> {
    fn read(message: &'a [u8]) -> Result<Self, String> {
        let mut piece = Self { text: "", score: 0.0, kind: kind::NORMAL };
        for field in fields(message) {
            match field? {
                (1, Value::Bytes(bytes)) => piece.text = text(bytes)?,
                (2, Value::Fixed32(bytes)) => piece.score = f32::from_le_bytes(bytes),
                (3, Value::Varint(kind)) => piece.kind = kind,
                _ => {}
            }
        }
        match piece {
            Self { text: "", .. } => Err("has no text".into()),
            Self { kind: kind::NORMAL..=kind::BYTE, .. } => Ok(piece),
            Self { kind, .. } => Err(format!("has the unknown kind {kind}")),
        }
    }
}

/// What a SentencePiece model says of its pieces and of what becomes of a text before it is cut, for those who write vocabularies in
/// other forms.
#[derive(Clone, Debug)]
pub struct SentencePieces {
    /// The file that says it.
    pub file: String,
    /// By id: the piece, its score, and its kind as `sentencepiece_model.proto` numbers them (GGUF has the same numbers).
    pub pieces: Vec<(String, f32, i64)>,
    /// Whether texts are cut into the most probable pieces; else pairs are merged (BPE).
    pub unigram: bool,
    /// Whether characters that are no pieces become bytes.
    pub byte_fallback: bool,
    /// Whether a text is read as if it began with a space.
    pub prefix: bool,
    /// Whether spaces around a text go, and several become one.
    pub merged: bool,
    /// Whether spaces are read as `▁`.
    pub escaped: bool,
    /// Whether words end with their space.
    pub suffixed: bool,
    /// Compiled rules of what characters become; empty where they are left alone.
    pub charsmap: Vec<u8>,
}

impl SentencePieces {
    /// Those of the file `name`.
    ///
    /// # Errors
    /// Where `bytes` are no SentencePiece model.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self> {
        let file = File::read(bytes).map_err(|what| Error::invalid(name, format!("the protocol buffer {what}")))?;
        let pieces = file.pieces.iter().map(|piece| (piece.text.to_owned(), piece.score, piece.kind as i64)).collect();
        Ok(Self {
            file: name.to_owned(),
            pieces,
            unigram: file.model_type == 1,
            byte_fallback: file.byte_fallback,
            prefix: file.dummy,
            merged: file.merge,
            escaped: file.escape,
            suffixed: file.suffix,
            charsmap: file.charsmap.to_vec(),
        })
    }
}

/// Classes in transformers that give other ids than the file, or add other tokens.
const OTHER_IDS: &[&str] = &[
    "Albert",
    "Barthez",
    "BigBird",
    "Camembert",
    "CpmTokenizer",
    "DebertaV2",
    "ErnieM",
    "FNet",
    "M2M100",
    "MBart",
    "Nllb",
    "PLBart",
    "Pegasus",
    "Reformer",
    "RemBert",
    "SeamlessM4T",
    "Speech",
    "UdopTokenizer",
    "XGLM",
    "XLMProphetNet",
    "XLMRoberta",
    "XLNet",
];

/// `more`: added tokens from other files; `ends`: ids of tokens that end a generation.
pub(super) fn read(origin: &str, bytes: &[u8], config: &Config, more: Vec<AddedToken>, ends: &[u32]) -> Result<Tokenizer> {
    let class = config.tokenizer_class.as_deref().unwrap_or_default();
    if OTHER_IDS.iter().any(|other| class.starts_with(other)) {
        return Err(Error::unsupported(origin, format!("`tokenizer_class` = `{class}` without a `tokenizer.json`")));
    }
    let file = File::read(bytes).map_err(|what| Error::invalid(origin, format!("the protocol buffer {what}")))?;
    if file.pieces.is_empty() {
        return Err(Error::invalid(origin, "it is no SentencePiece model, or one without tokens"));
    }
    if file.denormalizes {
        return Err(Error::unsupported(origin, "a `denormalizer_spec`"));
    }
    let control = file.ids(|piece| piece.kind == kind::CONTROL);
    let control =
        control.map(|id| AddedToken { id, content: file.pieces[id as usize].text.into(), special: true, ..AddedToken::default() });
    let added = config.added_tokens(origin, control.chain(more).collect())?;
    let vocab: Vec<_> = (0u64..).zip(&file.pieces).map(|(id, piece)| (Cow::Borrowed(piece.text), id)).collect();
    let mut vocabulary = Vocabulary::new(origin, &vocab, &added)?;
    let mut unknowns = file.ids(|piece| piece.kind == kind::UNKNOWN);
    let (Some(unknown), None) = (unknowns.next(), unknowns.next()) else {
        return Err(Error::invalid(origin, "there should be one unknown token"));
    };
    vocabulary.make_special(unknown);

    // Tokens that the configuration calls special are read where asked only.
    let special: HashSet<&str> = added.iter().filter(|token| token.special).map(|token| token.content.as_str()).collect();
    let kept: Vec<u32> = file.ids(|piece| piece.kind == kind::USER_DEFINED && !special.contains(piece.text)).collect();
    let keys = || kept.iter().map(|&id| (file.pieces[id as usize].text.as_bytes(), id));
    let model = match file.model_type {
        1 => Model::Unigram(unigram(origin, &file, &vocabulary, &kept, unknown)?),
        2 => {
            let options = bpe::Options {
                byte_fallback: file.byte_fallback,
                unknown: Some(unknown),
                fuse_unknown: !file.byte_fallback,
                whole: kept.clone(),
                ..bpe::Options::default()
            };
            let scores: Vec<f32> =
                vocabulary.texts.iter().enumerate().map(|(id, _)| file.pieces.get(id).map_or(0.0, |p| p.score)).collect();
            let is_text =
                |id: u32| file.pieces.get(id as usize).is_some_and(|piece| matches!(piece.kind, kind::NORMAL | kind::USER_DEFINED));
            Model::Bpe(Box::new(Bpe::from_scores(origin, &vocabulary.texts, &vocabulary.model, &scores, is_text, options)?))
        }
        3 => return Err(Error::unsupported(origin, "the model type `WORD`")),
        4 => return Err(Error::unsupported(origin, "the model type `CHAR`")),
        other => return Err(Error::invalid(origin, format!("`model_type` is {other}"))),
    };

    // In new versions of transformers, only the start of a text begins with a space, not what follows a special token.
    let only_first = file.dummy && !file.suffix && config.legacy == Some(false);
    let whitespace = Whitespace {
        charsmap: if file.charsmap.is_empty() { None } else { Some(Charsmap::new(origin, file.charsmap)?) },
        kept: (!kept.is_empty()).then(|| Trie::new(keys())),
        dummy: file.dummy && !only_first,
        merge: file.merge,
        escape: file.escape,
        suffix: file.suffix,
    };
    let normalizers = vec![Normalizer::SentencePiece(Box::new(whitespace))];
    normalize::check_growth(origin, &normalizers)?;
    let mut steps = Vec::new();
    if only_first {
        steps.push(Step::Metaspace { replacement: '▁', prepend: Prepend::First, split: false });
    }
    if file.model_type == 2 && !kept.is_empty() {
        let pattern = Pattern::texts(origin, keys().map(|(text, _)| text))?;
        steps.push(Step::Split { pattern, behavior: Behavior::Isolated, invert: false });
    }

    let bytes = written(&file, &vocabulary, unknown, false);
    let first = (file.dummy || file.merge).then(|| written(&file, &vocabulary, unknown, true));
    let output = Output { bytes, first, long_start: file.merge, ..Output::default() };
    let (bos, eos) = (file.control(file.bos), file.control(file.eos));
    let (bos, eos) = (config.bos(origin, &vocabulary)?.or(bos), config.eos(&vocabulary).or(eos));
    let t5 = class.starts_with("T5") || class.starts_with("MT5");
    let before = bos.filter(|_| config.add_bos_token.unwrap_or(!t5)).into_iter().collect();
    let after = eos.filter(|_| config.add_eos_token.unwrap_or(t5)).into_iter().collect();
    let ends = ends.iter().copied().chain(eos).collect();
    let Vocabulary { texts, index, flags, .. } = vocabulary;
    Tokenizer::assemble(
        origin,
        Parts { texts, index, flags, added, normalizers, steps, model, output, before, after, pair: None, bos, ends },
    )
}

/// What each token stands for, without the mark of a space that it starts with if it is the `first`.
fn written(file: &File<'_>, vocabulary: &Vocabulary, unknown: u32, first: bool) -> Strings {
    let mut all = Strings::default();
    for (id, text) in vocabulary.texts.iter().enumerate() {
        let piece = file.pieces.get(id);
        let text = str::from_utf8(text).unwrap_or_default();
        match (piece.map_or(kind::CONTROL, |piece| piece.kind), bytes::byte_token(text)) {
            (kind::BYTE, Some(byte)) => all.push(&[byte]),
            (kind::CONTROL, _) => all.push(text.as_bytes()),
            _ if id == unknown as usize => all.push(file.unknown_surface.as_bytes()),
            _ => all.push(text.strip_prefix('▁').filter(|_| first).unwrap_or(text).replace('▁', " ").as_bytes()),
        }
    }
    all
}

fn unigram(origin: &str, file: &File<'_>, vocabulary: &Vocabulary, kept: &[u32], unknown: u32) -> Result<Unigram> {
    let normal = || file.pieces.iter().filter(|piece| piece.kind == kind::NORMAL).map(|piece| piece.score);
    let least = normal().fold(f32::MAX, f32::min);
    // The smallest positive number is where SentencePiece starts from, too.
    let most = normal().fold(f32::MIN_POSITIVE, f32::max);
    let scores = (0u32..).zip(&file.pieces).filter_map(|(id, piece)| match piece.kind {
        kind::NORMAL => Some((id, f64::from(piece.score))),
        // Always chosen.
        kind::USER_DEFINED if kept.binary_search(&id).is_ok() => Some((id, f64::from(piece.text.len() as f32 * most) - 0.1)),
        _ => None,
    });
    let options = unigram::Options { unknown: Some(unknown), byte_fallback: file.byte_fallback, single: true };
    Unigram::new(origin, &vocabulary.texts, &vocabulary.model, scores, f64::from(least), options)
}
