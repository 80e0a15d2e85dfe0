//! Pieces of grammars in the notation of Lark, as `llguidance` reads it.

/// A text as a literal.
pub(crate) fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007f")
}

/// A regular expression between slashes.
pub(crate) fn regex(pattern: &str) -> String {
    format!("/{}/", pattern.replace('/', "\\/"))
}

/// What matches a text literally within a regular expression.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            out.push('\\');
        }
        match c {
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}
