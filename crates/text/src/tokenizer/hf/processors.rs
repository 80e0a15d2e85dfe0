//! The post-processors of `tokenizer.json`: the tokens that stand before and after a text.

use super::{Vocabulary, unknown};
use crate::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

#[derive(Deserialize)]
#[serde(tag = "type")]
pub(super) enum ProcessorSpec {
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
pub(super) enum TemplatePart {
    Sequence { id: String },
    SpecialToken { id: String },
}

#[derive(Deserialize)]
pub(super) struct TemplateToken {
    ids: Vec<u32>,
}

impl ProcessorSpec {
    /// Adds the tokens that stand before and after a text.
    pub(super) fn read(&self, origin: &str, vocabulary: &Vocabulary, before: &mut Vec<u32>, after: &mut Vec<u32>) -> Result<()> {
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
            if !vocabulary.is_used(id) {
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
