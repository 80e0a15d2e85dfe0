//! A whole answer: what a model thinks first, and then what it is held to.

use crate::lark::{escaped, quoted, regex};
use crate::{Calls, GrammarError, Limits, Source};
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use onebit_text::parse::Opening;

/// What an answer is held to, and what may come before that.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What it must be, unless it is calls. Without it, it is calls, or a text where those are not required; without both it is any text after
    /// reasoning within its bound.
    pub source: Option<Source>,
    /// Calls of tools that it may or must be.
    pub calls: Option<Calls>,
    /// What the model may write before: its reasoning, and marks of the format in which it writes. Nothing is held to a form in reasoning,
    /// but that special tokens are not part of it.
    pub opening: Opening,
}

impl From<Source> for Answer {
    fn from(source: Source) -> Self {
        Self { source: Some(source), calls: None, opening: Opening::default() }
    }
}

/// The name of the grammar that holds what the answer is held to.
const BODY: &str = "answer";

/// White space that may follow reasoning; it is no part of the answer.
const SPACE: &str = "SPACE: /[ \\t\\r\\n]{1,8}/\n";

/// The vocabulary's marks.
#[derive(Clone, Copy)]
pub(crate) struct Tokens<'a> {
    /// The texts of special tokens, the longest first.
    pub(crate) special: &'a [(String, u32)],
    /// Those that end an answer.
    pub(crate) ends: &'a [u32],
    /// Texts of tokens that are texts, and look like marks.
    pub(crate) tags: &'a [(String, u32)],
}

impl Answer {
    pub(crate) fn compile(&self, tokens: Tokens<'_>, limits: &Limits) -> Result<TopLevelGrammar, GrammarError> {
        let body = self.source.as_ref().map(|source| source.compile(limits)).transpose()?;
        let body = body.map(|body| GrammarWithLexer { name: Some(BODY.into()), ..body });
        let Some(top) = self.top(tokens, limits)? else {
            let body = body.ok_or_else(|| GrammarError::Invalid("there is nothing that the answer is held to".into()))?;
            return Ok(TopLevelGrammar::from_grammar(body));
        };
        Ok(TopLevelGrammar { grammars: [GrammarWithLexer::from_lark(top)].into_iter().chain(body).collect(), max_tokens: None })
    }

    /// The grammar around the body, if there is anything around it.
    fn top(&self, tokens: Tokens<'_>, limits: &Limits) -> Result<Option<String>, GrammarError> {
        let Opening { pairs, begun, again, lead, lead_is_optional, budget } = &self.opening;
        if pairs.is_empty() && lead.is_empty() && self.calls.is_none() {
            return Ok(None);
        }
        let special = tokens.special;
        let again = mark(again, special);
        let lead = match mark(lead, special) {
            lead if *lead_is_optional && !lead.is_empty() => format!("({lead})?"),
            lead => lead,
        };
        let mut rules = String::from(SPACE);
        let mut start =
            String::from(if self.calls.is_some() && begun.is_none() && !pairs.is_empty() { "start: CALL_SPACE?" } else { "start:" });
        let mut whole = Vec::new();
        for (i, (open, close)) in pairs.iter().enumerate() {
            rules.push_str(&reasoning(i, close, *budget, tokens)?);
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
        let said = match (&self.calls, &self.source) {
            (Some(calls), _) if calls.required => String::new(),
            (_, Some(_)) => format!("{lead} @{BODY}"),
            // Only the reasoning is bounded: what follows is any text.
            (None, None) => "<[*]>*".into(),
            _ => format!("{lead} said"),
        };
        if let Some(calls) = &self.calls {
            rules.push_str(&calls.lark(tokens, limits)?);
            let either = if said.is_empty() { String::new() } else { format!("| {said}") };
            return Ok(Some(format!("{start} (calls {either})\n{rules}")));
        }
        Ok(Some(format!("{start} {said}\n{rules}")))
    }
}

/// The rule `thought_I`: any text up to the first closing mark, and the mark. After `budget` tokens the mark has to come.
fn reasoning(i: usize, close: &str, budget: Option<usize>, tokens: Tokens<'_>) -> Result<String, GrammarError> {
    let mut close_mark = mark(close, tokens.special);
    if budget.is_some() && !close_mark.starts_with('<') {
        // Some vocabularies have it as a token that is a text to them.
        let Some((_, id)) = tokens.tags.iter().find(|(name, _)| name == close) else {
            let message = format!("the vocabulary has no token for `{close}`, so that there is no bound to reasoning");
            return Err(GrammarError::Invalid(message));
        };
        close_mark = format!("<[{id}]>");
    }
    if !close_mark.starts_with('<') {
        return Ok(format!("thought_{i}[suffix={}]: /(?s:.*)/\n", quoted(close)));
    }
    // The mark may also be spelt with letters, which whoever reads the answer could not tell from it.
    let text = format!("/(?s:.+)/ & ~{}", regex(&format!("(?s:.*){}(?s:.*)", escaped(close))));
    Ok(match budget {
        None => format!("thought_{i}: THOUGHT_{i}? {close_mark}\nTHOUGHT_{i}: {text}\n"),
        Some(0) => format!("thought_{i}: {close_mark}\n"),
        Some(most) => format!("thought_{i}: within_{i}? {close_mark}\nwithin_{i}[max_tokens={most}]: {text}\n"),
    })
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
