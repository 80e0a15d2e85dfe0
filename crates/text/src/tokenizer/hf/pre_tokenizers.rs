//! The pre-tokenizers of `tokenizer.json`.

use super::{PatternSpec, unknown, yes};
use crate::{
    Error, Result,
    tokenizer::{
        category::is_punctuation,
        scan::{GPT2, Scanner},
        split::{self, Behavior, Pattern, Prepend, Step},
    },
};
use serde::Deserialize;
use serde_json::Value;

fn five() -> usize {
    5
}

#[derive(Deserialize)]
#[serde(tag = "type")]
pub(super) enum StepSpec {
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
    UnicodeScripts,
    FixedLength {
        #[serde(default = "five")]
        length: usize,
    },
    #[serde(untagged)]
    Other(Value),
}

impl StepSpec {
    pub(super) fn read(&self, origin: &str, out: &mut Vec<Step>) -> Result<()> {
        let cut = |pattern, behavior| Step::Split { pattern, behavior, invert: false };
        match self {
            Self::Sequence { pretokenizers } => pretokenizers.iter().try_for_each(|s| s.read(origin, out))?,
            Self::Split { pattern, behavior, invert } => {
                out.push(Step::Split { pattern: pattern.read(origin)?, behavior: *behavior, invert: *invert });
            }
            Self::ByteLevel { add_prefix_space, use_regex } => {
                if *add_prefix_space {
                    out.push(Step::PrefixSpace);
                }
                if *use_regex {
                    out.push(cut(Pattern::regex(origin, GPT2)?, Behavior::Isolated));
                }
                out.push(Step::ByteLevel);
            }
            Self::Digits { individual_digits: true } => out.push(cut(Pattern::Scan(Scanner::Numbers { max: 1 }), Behavior::Isolated)),
            Self::Digits { individual_digits: false } => out.push(cut(Pattern::Chars(char::is_numeric), Behavior::Contiguous)),
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
            Self::Punctuation { behavior } => out.push(cut(Pattern::Chars(is_punctuation), behavior.unwrap_or(Behavior::Isolated))),
            Self::Whitespace => {
                out.push(Step::Split { pattern: Pattern::Scan(Scanner::WordsAndSymbols), behavior: Behavior::Removed, invert: true });
            }
            Self::WhitespaceSplit => out.push(cut(Pattern::Chars(char::is_whitespace), Behavior::Removed)),
            Self::CharDelimiterSplit { delimiter } => out.push(cut(Pattern::Literal(delimiter.to_string()), Behavior::Removed)),
            Self::BertPreTokenizer => out.extend(split::bert()),
            Self::UnicodeScripts => out.push(Step::Scripts),
            Self::FixedLength { length: 0 } => return Err(Error::invalid(origin, "`FixedLength` has the length 0")),
            Self::FixedLength { length } => out.push(Step::FixedLength(*length)),
            Self::Other(spec) => return Err(unknown(origin, "pre-tokenizer", spec)),
        }
        Ok(())
    }
}
