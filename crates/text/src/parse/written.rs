//! How calls are written, for whoever holds a model to them: the counterpart of reading, and data as the formats are.
//!
//! Texts are written as they are but for this: `·` is where white space may be, and what stands in `⟨⟩` changes from call to call.

/// One way in which the models of a format write calls.
#[derive(Debug)]
pub struct Written {
    /// Whether a template with this source asks for it.
    pub when: fn(&str) -> bool,
    /// Before the first call.
    pub open: &'static str,
    /// A call, with `⟨name⟩`, `⟨arguments⟩` and perhaps `⟨id⟩`.
    pub call: &'static str,
    /// Between two calls. `None`: there is only one.
    pub between: Option<&'static str>,
    /// After the last call.
    pub close: &'static str,
    /// An expression for ids.
    pub id: &'static str,
    /// How arguments are written.
    pub arguments: Arguments,
    /// What a text for the user and calls have to do with one another in an answer.
    pub beside: Beside,
    /// What may close a text for the user that no call follows.
    pub text_end: &'static str,
}

/// A text for the user in an answer that may hold calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// It may come before calls, with this between the two.
    Before(&'static str),
    /// There is a text or calls.
    Either,
}

/// How the arguments of a call are written.
#[derive(Debug)]
pub enum Arguments {
    /// A JSON object.
    Json,
    /// Each for itself.
    Each(Each),
    /// `key=value`, with commas between, as in Python.
    Keywords(&'static Literals),
    /// An object of such.
    Object(&'static Literals),
    /// Objects and lists as tags within tags, each of which begins with this; `⟨arguments⟩` are the tags of the outermost object.
    Tree(&'static str),
}

/// Arguments one after another. A string is written as it is, without quotation marks, and ends with what closes it.
#[derive(Debug)]
pub struct Each {
    /// Up to the value, with `⟨key⟩` and perhaps `⟨kind⟩`.
    pub open: &'static str,
    /// What closes the value, and is in none.
    pub close: &'static str,
    /// What may come next, before another one or the end of the call.
    pub after: &'static str,
    /// What stands for `⟨kind⟩`: of strings, and of others by their type in JSON Schema.
    pub kind: fn(&str) -> &'static str,
    /// What a string is put in that holds one of these characters: what opens and closes it.
    pub wrapped: Option<(&'static str, &'static str, &'static str)>,
    /// How other values are written; in JSON if `None`.
    pub others: Option<&'static Literals>,
}

impl Each {
    /// What most have.
    pub(crate) const PLAIN: Self = Self { open: "", close: "", after: "·", kind: |_| "", wrapped: None, others: None };
}

/// How values are written that are not quite JSON.
#[derive(Debug)]
pub struct Literals {
    /// What strings are put in.
    pub quotes: &'static [&'static str],
    /// Whether a backslash takes the meaning from a quotation mark. Otherwise no string holds one.
    pub escapes: bool,
    /// Whether keys of objects are strings; otherwise they are bare.
    pub quoted_keys: bool,
    /// Whether keys come in the order of the alphabet; otherwise in that of the schema.
    pub sorted: bool,
    /// How `null`, `true` and `false` may be written.
    pub words: [&'static [&'static str]; 3],
}

/// Python's, and JSON's words, which many templates write.
pub(crate) static PYTHON: Literals = Literals {
    quotes: &["\"", "'"],
    escapes: true,
    quoted_keys: true,
    sorted: false,
    words: [&["None", "null"], &["True", "true"], &["False", "false"]],
};

impl Written {
    /// What most have: calls one after another, after a text if there is one.
    pub(crate) const PLAIN: Self = Self {
        when: |_| true,
        open: "",
        call: "",
        between: Some("·"),
        close: "",
        id: "[0-9]{1,4}",
        arguments: Arguments::Json,
        beside: Beside::Before(""),
        text_end: "",
    };

    /// A list of calls in JSON, without what is around it.
    pub(crate) const LIST: Self = Self { call: JSON_CALL, between: Some("·,·"), ..Self::PLAIN };
}

/// A call in JSON, as most write it.
pub(crate) const JSON_CALL: &str = "{·\"name\"·:·\"⟨name⟩\"·,·\"arguments\"·:·⟨arguments⟩·}";

/// A piece of such a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// As it is.
    Text(&'a str),
    /// White space, or none.
    Space,
    /// What stands in `⟨⟩`.
    Slot(&'a str),
}

/// The pieces of a text of this notation.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(['·', '⟨']) {
        if at > 0 {
            out.push(Piece::Text(&rest[..at]));
        }
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix('·') {
            out.push(Piece::Space);
            rest = after;
        } else {
            let (slot, after) = rest.trim_start_matches('⟨').split_once('⟩').unwrap_or((rest, ""));
            out.push(Piece::Slot(slot));
            rest = after;
        }
    }
    if !rest.is_empty() {
        out.push(Piece::Text(rest));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::formats::ALL;

    #[test]
    fn texts_fall_into_pieces() {
        assert_eq!(pieces(""), []);
        assert_eq!(pieces("<a=⟨name⟩>·b"), [Piece::Text("<a="), Piece::Slot("name"), Piece::Text(">"), Piece::Space, Piece::Text("b")]);
    }

    #[test]
    fn every_way_has_a_name_and_arguments() {
        for format in ALL {
            assert!(!format.written.is_empty(), "{} cannot be written", format.name);
            for written in format.written {
                for slot in ["name", "arguments"] {
                    assert!(pieces(written.call).contains(&Piece::Slot(slot)), "{}: {slot}", format.name);
                }
                if let Arguments::Each(each) = &written.arguments {
                    assert!(pieces(each.open).contains(&Piece::Slot("key")) && !each.close.is_empty(), "{}", format.name);
                }
            }
        }
    }
}
