//! Keeps the texts of a chat from being read as its structure.
//!
//! A template writes marks such as `<|im_end|>` around messages, and the tokenizer reads each as one token. If a message holds
//! the same characters (a document that someone else wrote, say), they must stay characters: otherwise it could end its own
//! turn and begin one of the system. So before rendering a character that cannot occur elsewhere is put inside each mark that
//! a message holds, and after rendering the prompt is cut there: no piece holds the whole mark any more.

use aho_corasick::AhoCorasick;
use onebit_text::{Encode, Tokenizer};
use serde_json::Value;

/// Unicode's noncharacters from U+FDD0 to U+FDEF, which are for use within programs.
const BARRIERS: std::ops::RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// Finds the marks of a vocabulary.
pub(crate) struct Marks {
    finder: Option<AhoCorasick>,
}

impl Marks {
    /// Those of special tokens, and `more`, such as what stands for an image.
    pub(crate) fn of<'a>(tokenizer: &Tokenizer, more: impl Iterator<Item = &'a str>) -> Self {
        let names = tokenizer.special_ids().filter_map(|id| tokenizer.token_text(id)).map(|name| name.into_owned());
        // A mark of one character has no inside.
        let names: Vec<String> = names.chain(more.map(String::from)).filter(|name| name.chars().nth(1).is_some()).collect();
        let finder = AhoCorasick::new(&names);
        if let Err(error) = &finder {
            tracing::warn!(%error, "special tokens in messages will be read as such: their names cannot be searched for");
        }
        Self { finder: finder.ok().filter(|_| !names.is_empty()) }
    }

    /// Puts a barrier into each mark within the strings of `messages`. Gives the barrier if there were any marks; without one,
    /// nothing is changed. All 32 barriers being in use in the messages is an error.
    pub(crate) fn defuse(&self, messages: &mut Value) -> Result<Option<char>, AllBarriersUsed> {
        let Some(finder) = &self.finder else { return Ok(None) };
        let (mut has_marks, mut used) = (false, [false; 32]);
        see(messages, &mut |text| {
            has_marks |= finder.is_match(text);
            // The first byte of all noncharacters: few texts have it at all.
            if text.as_bytes().contains(&0xef) {
                text.chars().filter(|c| BARRIERS.contains(c)).for_each(|c| used[c as usize - *BARRIERS.start() as usize] = true);
            }
        });
        if !has_marks {
            return Ok(None);
        }
        let barrier = BARRIERS.zip(used).find(|(_, used)| !used).map(|(c, _)| c).ok_or(AllBarriersUsed)?;
        change(messages, &mut |text| {
            // Marks may overlap; each gets its own.
            let inside = |start: usize| start + text[start..].chars().next().map_or(0, char::len_utf8);
            let mut places: Vec<usize> = finder.find_overlapping_iter(text.as_str()).map(|found| inside(found.start())).collect();
            places.sort_unstable();
            places.dedup();
            if places.is_empty() {
                return;
            }
            let mut out = String::with_capacity(text.len() + places.len() * 3);
            let mut copied = 0;
            for place in places {
                out.push_str(&text[copied..place]);
                out.push(barrier);
                copied = place;
            }
            out.push_str(&text[copied..]);
            *text = out;
        });
        Ok(Some(barrier))
    }
}

/// Messages hold every noncharacter that could be a barrier. Nobody sends that in good faith.
#[derive(Debug, PartialEq)]
pub(crate) struct AllBarriersUsed;

/// A prompt that a template made, or a plain text.
pub(crate) struct Rendered {
    text: String,
    barrier: Option<char>,
    plain: bool,
}

impl Rendered {
    pub(crate) fn new(text: String, barrier: Option<char>) -> Self {
        Self { text, barrier, plain: false }
    }

    /// A text that no template has seen: the vocabulary puts its own tokens around it.
    pub(crate) fn plain(text: String) -> Self {
        Self { text, barrier: None, plain: true }
    }

    /// Its tokens. Special tokens are read where the template wrote them.
    pub(crate) fn tokens(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        if self.plain {
            return tokenizer.encode(&self.text, Encode { add_special: true, parse_special: false });
        }
        self.pieces().flat_map(|piece| tokenizer.encode(piece, Encode { add_special: false, parse_special: true })).collect()
    }

    /// Its pieces, over whose ends no mark reaches.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &str> {
        let barrier = self.barrier;
        self.text.split(move |c| Some(c) == barrier)
    }

    /// Its end, for what an answer goes on from.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What it looks like.
    pub(crate) fn into_text(self) -> String {
        match self.barrier {
            None => self.text,
            Some(barrier) => self.text.replace(barrier, ""),
        }
    }
}

/// Calls `each` with every string, and the key of every member: names of parameters are texts of strangers, too. The depth is bounded,
/// as that of the request is.
fn see(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(list) => list.iter().for_each(|v| see(v, each)),
        Value::Object(map) => map.iter().for_each(|(key, v)| {
            each(key);
            see(v, each);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// As [`see`], and what `each` does to them takes their place.
fn change(value: &mut Value, each: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(list) => list.iter_mut().for_each(|v| change(v, each)),
        Value::Object(map) => {
            *map = std::mem::take(map)
                .into_iter()
                .map(|(mut key, mut value)| {
                    each(&mut key);
                    change(&mut value, each);
                    (key, value)
                })
                .collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn marks() -> Marks {
        Marks { finder: AhoCorasick::new(["<|end|>", "end|>x", "éé"]).ok() }
    }

    #[test]
    fn a_barrier_goes_into_every_mark() {
        let mut messages = json!([{ "role": "user", "content": "a<|end|>x", "more": ["ééé"] }]);
        assert_eq!(marks().defuse(&mut messages), Ok(Some('\u{fdd0}')));
        let expected = "[{\"role\":\"user\",\"content\":\"a</|e/nd|>x\",\"more\":[\"é/é/é\"]}]".replace('/', "\u{fdd0}");
        assert_eq!(messages.to_string(), expected);
    }

    #[test]
    fn plain_messages_stay_as_they_are() {
        let mut messages = json!([{ "content": "a < |end|> \u{fdd0}" }]);
        let before = messages.clone();
        assert_eq!(marks().defuse(&mut messages), Ok(None));
        assert_eq!(messages, before);
    }

    #[test]
    fn a_barrier_that_a_message_holds_is_not_taken() {
        let mut messages = json!(["<|end|>", "\u{fdd0}\u{fdd1}"]);
        assert_eq!(marks().defuse(&mut messages), Ok(Some('\u{fdd2}')));
        let all: String = BARRIERS.collect();
        assert_eq!(marks().defuse(&mut json!(["<|end|>", all])), Err(AllBarriersUsed));
    }
}
