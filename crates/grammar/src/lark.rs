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
        // Others have a meaning when escaped: `\<` is where a word begins.
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        match c {
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compiler, Limits, Source, Word};

    #[test]
    fn every_text_can_be_escaped() {
        let texts: Vec<String> = (0x20..0x7f_u8).map(|c| char::from(c).to_string()).chain(["\n".into(), "\t".into(), "é".into()]).collect();
        let words = texts.iter().map(|t| Word::Text(t.as_bytes())).chain([Word::Special("</s>")]);
        let end = texts.len() as u32;
        let compiler = Compiler::new(words, &[end], Limits::default()).unwrap();
        for (id, text) in texts.iter().enumerate() {
            for source in [Source::Regex(escaped(text)), Source::Lark(format!("start: {}", regex(&escaped(text))))] {
                let (_, mask) = compiler.compile(&source.into()).unwrap().begin();
                let allowed: Vec<u32> = (0..end).filter(|id| mask.allows(*id)).collect();
                assert_eq!(allowed, [id as u32], "{text:?}");
            }
        }
    }
}
