//! The normalizers of `tokenizer.json`.

use super::{PatternSpec, unknown, yes};
use crate::{
    Error, Result,
    tokenizer::{
        base64,
        charsmap::Charsmap,
        normalize::{self, Normalizer},
    },
};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(tag = "type")]
pub(super) enum NormalizerSpec {
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
    BertNormalizer {
        #[serde(default = "yes")]
        clean_text: bool,
        #[serde(default = "yes")]
        handle_chinese_chars: bool,
        strip_accents: Option<bool>,
        #[serde(default = "yes")]
        lowercase: bool,
    },
    Precompiled {
        /// In base 64.
        precompiled_charsmap: String,
    },
    Nmt,
    #[serde(untagged)]
    Other(Value),
}

impl NormalizerSpec {
    pub(super) fn read(&self, origin: &str, out: &mut Vec<Normalizer>) -> Result<()> {
        out.push(match self {
            Self::Sequence { normalizers } => return normalizers.iter().try_for_each(|n| n.read(origin, out)),
            Self::ByteLevel => Normalizer::ByteLevel,
            Self::Nmt => Normalizer::Nmt,
            Self::BertNormalizer { clean_text, handle_chinese_chars, strip_accents, lowercase } => {
                out.extend(normalize::bert(*clean_text, *handle_chinese_chars, *strip_accents, *lowercase));
                return Ok(());
            }
            Self::Precompiled { precompiled_charsmap: text } => {
                let bytes =
                    base64::decode(text.as_bytes()).ok_or_else(|| Error::invalid(origin, "`precompiled_charsmap` is not base 64"))?;
                Normalizer::Charsmap(Charsmap::new(origin, &bytes)?)
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
