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
        /// Of two texts; as it is until somebody has two.
        #[serde(default)]
        pair: Value,
        special_tokens: HashMap<String, TemplateToken>,
    },
    BertProcessing {
        sep: (String, u32),
        cls: (String, u32),
    },
    RobertaProcessing {
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

/// The tokens around texts.
#[derive(Default)]
pub(super) struct Around {
    /// Before a text and after it.
    pub(super) before: Vec<u32>,
    pub(super) after: Vec<u32>,
    /// Before, between and after two texts that belong together, where they can.
    pub(super) pair: Option<[Vec<u32>; 3]>,
}

impl ProcessorSpec {
    /// Adds the tokens that stand before and after a text, and around two.
    pub(super) fn read(&self, origin: &str, vocabulary: &Vocabulary, around: &mut Around) -> Result<()> {
        // A later processor's tokens enclose those of earlier ones.
        let (first, last, pair) = match self {
            Self::Sequence { processors } => return processors.iter().try_for_each(|p| p.read(origin, vocabulary, around)),
            Self::ByteLevel => return Ok(()),
            Self::TemplateProcessing { single, pair, special_tokens } => {
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
                (first, last, of_pair(pair, special_tokens))
            }
            Self::BertProcessing { sep, cls } => (vec![cls.1], vec![sep.1], Some([vec![cls.1], vec![sep.1], vec![sep.1]])),
            Self::RobertaProcessing { sep, cls } => (vec![cls.1], vec![sep.1], Some([vec![cls.1], vec![sep.1, sep.1], vec![sep.1]])),
            Self::Other(spec) => return Err(unknown(origin, "post-processor", spec)),
        };
        for &id in first.iter().chain(&last).chain(pair.iter().flatten().flatten()) {
            if !vocabulary.is_used(id) {
                return Err(Error::invalid(
                    origin,
                    format!("the post-processor adds id {id}, but the vocabulary has {} tokens", vocabulary.texts.len()),
                ));
            }
        }
        around.before.splice(0..0, first);
        around.after.extend(last);
        around.pair = pair.or_else(|| around.pair.take());
        Ok(())
    }
}

/// The tokens before, between and after two texts, where a template has both in order.
fn of_pair(template: &Value, special_tokens: &HashMap<String, TemplateToken>) -> Option<[Vec<u32>; 3]> {
    let parts: Vec<TemplatePart> = Vec::deserialize(template).ok()?;
    let (mut tokens, mut texts): ([Vec<u32>; 3], usize) = Default::default();
    for part in parts {
        match part {
            TemplatePart::Sequence { id } if texts < 2 && id == ["A", "B"][texts] => texts += 1,
            TemplatePart::Sequence { .. } => return None,
            TemplatePart::SpecialToken { id } => tokens[texts].extend_from_slice(&special_tokens.get(&id)?.ids),
        }
    }
    (texts == 2).then_some(tokens)
}
