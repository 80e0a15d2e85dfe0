//! What comes before the text of an answer.

use super::Lead;
use super::formats::Output;

/// What a model writes before a text for the user, once the prompt has ended: reasoning, and marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// What may open and close reasoning.
    pub pairs: Vec<(String, String)>,
    /// The pair of which the prompt has opened one.
    pub begun: Option<usize>,
    /// What comes after reasoning.
    pub again: String,
    /// What comes at last.
    pub lead: String,
    /// Whether that may be left out.
    pub lead_is_optional: bool,
    /// The most tokens of reasoning, after which it is closed, if there is a bound.
    pub budget: Option<usize>,
}

impl Output {
    /// How an answer to a prompt begins. Where the prompt has closed reasoning, none comes.
    pub fn opening(&self, prompt: &str) -> Opening {
        let prompt = prompt.trim_end();
        let begun = self.pairs.iter().position(|(open, _)| prompt.ends_with(open.trim_end()));
        let is_closed = begun.is_none() && self.pairs.iter().any(|(_, close)| prompt.ends_with(close.trim_end()));
        let pairs = if is_closed { vec![] } else { self.pairs.iter().map(|(open, close)| ((*open).into(), (*close).into())).collect() };
        let (lead, lead_is_optional) = match self.format.lead {
            Lead::Always(lead) => (lead, false),
            Lead::Perhaps(lead) => (lead, true),
        };
        Opening { pairs, begun, again: self.format.again.into(), lead: lead.into(), lead_is_optional, budget: None }
    }
}
