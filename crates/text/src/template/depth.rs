//! How deep a template's source may nest.
//!
//! `minijinja` 3.1 counts brackets and blocks, but not what nests without them: `not not x`, `- - x`, `x.y.z`, `x|f|g`,
//! `x + y + z`, and the `elif` after an `elif`. Each takes some of the stack when the source is parsed and compiled, and an
//! overflow ends the process; compiling `x + y + z` takes quadratic time besides. So here is counted, on `minijinja`'s own
//! tokens, what bounds each of them.

use minijinja::{
    machinery::{Token, tokenize},
    syntax::SyntaxConfig,
};

/// Most tokens between the delimiters of a tag. The tags of known models have up to some hundred.
const TAG_TOKENS: usize = 512;
/// Most `elif` that may be open at once, those around a block included.
const OPEN_ELIFS: usize = 256;

/// Says what nests too deeply in `source`. What is no template at all is left to the parser.
pub(super) fn check(source: &str, syntax: &SyntaxConfig) -> Result<(), String> {
    let mut tag = 0;
    // The `elif` of each open `if`.
    let mut chains: Vec<usize> = Vec::new();
    let mut open = 0;
    for (token, span) in tokenize(source, false, syntax.clone()).map_while(Result::ok) {
        tag += 1;
        match token {
            Token::BlockStart | Token::VariableStart | Token::TemplateData(_) => tag = 0,
            Token::Ident("if") if tag == 1 => chains.push(0),
            Token::Ident("elif") if tag == 1 => {
                open += 1;
                if let Some(n) = chains.last_mut() {
                    *n += 1;
                }
            }
            Token::Ident("endif") if tag == 1 => open -= chains.pop().unwrap_or(0).min(open),
            _ => {}
        }
        if tag > TAG_TOKENS {
            return Err(format!("line {}: a tag has more than {TAG_TOKENS} tokens", span.start_line));
        }
        if open > OPEN_ELIFS {
            return Err(format!("line {}: more than {OPEN_ELIFS} `elif` follow each other", span.start_line));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(source: &str) -> String {
        check(source, &SyntaxConfig::default()).err().unwrap_or_default()
    }

    #[test]
    fn tags_are_counted_one_by_one() {
        let sum = |n: usize| format!("{{{{ 1{} }}}}", "+x".repeat(n));
        assert_eq!(verdict(&sum(255).repeat(10)), "");
        assert_eq!(verdict(&format!("\n{}", sum(256))), "line 2: a tag has more than 512 tokens");
        // The end of a tag within a string is none.
        assert!(verdict(&format!("{{{{ 1{} }}}}", "+'}}{{'".repeat(256))).contains("tokens"));
        assert_eq!(verdict(&"{{ '+' }} + {# + #}".repeat(1000)), "");
        assert_eq!(verdict(&"{% raw %}{{ x }}{% endraw %}".repeat(1000)), "");
    }

    #[test]
    fn elifs_that_are_over_do_not_count() {
        let chain = |n: usize, inner: &str| format!("{{% if x %}}{}{inner}{{% endif %}}", "{% elif x %}".repeat(n));
        assert_eq!(verdict(&chain(256, "").repeat(4)), "");
        assert_eq!(verdict(&chain(257, "")), "line 1: more than 256 `elif` follow each other");
        assert_ne!(verdict(&chain(200, &chain(200, ""))), "");
        assert_eq!(verdict("{% elif %}{% endif %}{% endif %}"), "");
        // `if` within an expression opens nothing.
        assert_ne!(verdict(&format!("{{% if x %}}{}", "{{ 1 if x }}{% elif x %}".repeat(300))), "");
    }
}
