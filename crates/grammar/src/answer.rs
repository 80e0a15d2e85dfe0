//! A whole answer: what a model thinks first, and then what it is held to.

use crate::lark::{escaped, quoted, regex};
use crate::{GrammarError, Limits, Source};
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use onebit_text::parse::Opening;

/// What an answer is held to, and what may come before that.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What it must be.
    pub source: Source,
    /// What the model may write before: its reasoning, and marks of the format in which it writes. Nothing is held to a form in reasoning,
    /// but that special tokens are not part of it.
    pub opening: Opening,
}

impl From<Source> for Answer {
    fn from(source: Source) -> Self {
        Self { source, opening: Opening::default() }
    }
}

/// The name of the grammar that holds what the answer is held to.
const BODY: &str = "answer";

/// White space that may follow reasoning; it is no part of the answer.
const SPACE: &str = "SPACE: /[ \\t\\r\\n]{1,8}/\n";

impl Answer {
    /// `special` are the texts of special tokens, the longest first.
    pub(crate) fn compile(&self, special: &[(String, u32)], limits: &Limits) -> Result<TopLevelGrammar, GrammarError> {
        let body = GrammarWithLexer { name: Some(BODY.into()), ..self.source.compile(limits)? };
        let Some(top) = self.top(special) else { return Ok(TopLevelGrammar::from_grammar(body)) };
        Ok(TopLevelGrammar { grammars: vec![GrammarWithLexer::from_lark(top), body], max_tokens: None })
    }

    /// The grammar around the body, if there is anything around it.
    fn top(&self, special: &[(String, u32)]) -> Option<String> {
        let Opening { pairs, begun, again, lead, lead_is_optional } = &self.opening;
        if pairs.is_empty() && lead.is_empty() {
            return None;
        }
        let again = mark(again, special);
        let lead = match mark(lead, special) {
            lead if *lead_is_optional && !lead.is_empty() => format!("({lead})?"),
            lead => lead,
        };
        let mut rules = String::from(SPACE);
        let mut start = String::from("start:");
        let mut whole = Vec::new();
        for (i, (open, close)) in pairs.iter().enumerate() {
            rules.push_str(&reasoning(i, close, special));
            let open = mark(open, special);
            // Where the prompt ends with a word, a mark that is a word has a space before it.
            let space = if open.starts_with('"') { "\" \"?" } else { "" };
            whole.push(format!("{space} {open} thought_{i} {again}"));
            if *begun == Some(i) {
                start.push_str(&format!(" thought_{i} {again} SPACE?"));
            }
        }
        if !whole.is_empty() && begun.is_none() {
            start.push_str(&format!(" (({}) SPACE?)?", whole.join(" | ")));
        }
        Some(format!("{start} {lead} @{BODY}\n{rules}"))
    }
}

/// The rule `thought_I`: any text up to the first closing mark, and the mark.
fn reasoning(i: usize, close: &str, special: &[(String, u32)]) -> String {
    let close_mark = mark(close, special);
    if close_mark.starts_with('<') {
        // The mark may also be spelt with letters, which whoever reads the answer could not tell from it.
        let spelt = regex(&format!("(?s:.*){}(?s:.*)", escaped(close)));
        return format!("thought_{i}: THOUGHT_{i}? {close_mark}\nTHOUGHT_{i}: /(?s:.+)/ & ~{spelt}\n");
    }
    format!("thought_{i}[suffix={}]: /(?s:.*)/\n", quoted(close))
}

/// A text of which some parts are special tokens.
pub(crate) fn mark(text: &str, special: &[(String, u32)]) -> String {
    let (mut out, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(c) = rest.chars().next() {
        match special.iter().find(|(name, _)| rest.starts_with(name.as_str())) {
            Some((name, id)) => {
                out.extend(Some(quoted(&plain)).filter(|_| !plain.is_empty()));
                plain.clear();
                out.push(format!("<[{id}]>"));
                rest = &rest[name.len()..];
            }
            None => {
                plain.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out.extend(Some(quoted(&plain)).filter(|_| !plain.is_empty()));
    out.join(" ")
}
