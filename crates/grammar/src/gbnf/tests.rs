use super::*;
use crate::{Compiler, Limits, Source, Word};
use proptest::prelude::*;

/// Whether a grammar takes exactly these texts and not those, byte by byte.
pub(crate) fn accepts(source: Source, yes: &[&str], no: &[&str]) {
    let bytes: Vec<[u8; 1]> = (0..=255).map(|b| [b]).collect();
    let words = bytes.iter().map(|b| Word::Text(b)).chain([Word::Special("</s>")]);
    let compiler = Compiler::new(words, &[256], Limits::default()).unwrap();
    let grammar = compiler.compile(&source.clone().into()).unwrap_or_else(|e| panic!("{source:?}: {e}"));
    let takes = |text: &str| {
        let (mut guide, _) = grammar.begin();
        text.bytes().all(|b| guide.mask().unwrap().allows(b.into()) && guide.accept(b.into()).is_ok()) && guide.may_end()
    };
    for text in yes {
        assert!(takes(text), "{text:?} is refused by {source:?}");
    }
    for text in no {
        assert!(!takes(text), "{text:?} is taken by {source:?}");
    }
}

fn shape(text: &str) -> (bool, bool) {
    let rules = parser::parse(text).unwrap();
    let shape = shape::Shape::of(&rules);
    (shape.is_regular(&Expr::Rule(rules.root)), shape.is_predictive)
}

#[test]
fn first_light() {
    accepts(Source::Gbnf("root ::= \"a\" [b-d]+ (\"x\" | \"yz\"){2,3}".into()), &["abxx", "acdxyzx"], &["a", "ab", "abx", "abxxxx"]);
    accepts(Source::Gbnf("root ::= \"(\" root \")\" | [0-9]*".into()), &["", "1", "((12))"], &["(", "(1", "1)"]);
    // Letter by letter: a lexeme that is as long as can be would take the `b`.
    accepts(Source::Gbnf("root ::= [a-b]* \"b\" root? \"!\"".into()), &["ab!", "b!", "abab!!"], &["a!", "ab"]);
}

#[test]
fn shapes() {
    assert_eq!(shape("root ::= \"a\" b\nb ::= [0-9]+"), (true, true));
    assert_eq!(shape("root ::= \"(\" root \")\" | [0-9]"), (false, true));
    assert_eq!(shape("root ::= \"(\" root \")\" | \"(\" [0-9]"), (false, false));
    assert_eq!(shape("root ::= [a-b]* \"b\" root? \"!\""), (false, false));
}

/// The reference: all texts of a grammar of up to `most` letters, by plain substitution.
fn texts(rules: &Rules, expr: &Expr, most: usize, depth: usize) -> std::collections::BTreeSet<String> {
    let mut out = std::collections::BTreeSet::new();
    if depth == 0 {
        return out;
    }
    match expr {
        Expr::Text(text) => out.extend(Some(text.clone()).filter(|t| t.len() <= most)),
        Expr::One(set) => out.extend(('a'..='d').filter(|c| set.meets(&Set::of([(*c, *c)]))).map(String::from).filter(|_| most > 0)),
        Expr::Rule(rule) => return texts(rules, &rules.bodies[*rule], most, depth - 1),
        Expr::Token(..) => {}
        Expr::Choice(list) => list.iter().for_each(|item| out.extend(texts(rules, item, most, depth - 1))),
        Expr::Sequence(list) => {
            out.insert(String::new());
            for item in list {
                let heads = std::mem::take(&mut out);
                for head in heads {
                    out.extend(texts(rules, item, most - head.len(), depth - 1).into_iter().map(|tail| head.clone() + &tail));
                }
            }
        }
        Expr::Repeat(item, least, end) => {
            let mut now = std::collections::BTreeSet::from([String::new()]);
            for n in 0..=end.unwrap_or(most as u32 + least).min(most as u32 + least) {
                if n >= *least {
                    out.extend(now.iter().cloned());
                }
                let heads = std::mem::take(&mut now);
                for head in heads {
                    now.extend(texts(rules, item, most - head.len(), depth - 1).into_iter().map(|tail| head.clone() + &tail));
                }
            }
        }
    }
    out
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => "[abc]{1,2}".prop_map(|t| format!("\"{t}\"")),
        3 => prop_oneof![Just("[ab]"), Just("[^a]"), Just("[b-d]")].prop_map(String::from),
        2 => prop_oneof![Just("x"), Just("y")].prop_map(String::from),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|v| format!("({})", v.join(" "))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|v| format!("({})", v.join(" | "))),
            (inner, prop_oneof![Just("*"), Just("?"), Just("+"), Just("{2}"), Just("{1,2}")]).prop_map(|(e, o)| format!("({e}){o}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Random grammars take just the texts that substitution gives, whether they are made of large parts or of letters.
    #[test]
    fn takes_what_substitution_gives(root in expression(), x in expression(), y in "[abc]{1,2}") {
        let text = format!("root ::= {root}\nx ::= \"a\" x? \"b\" | {x}\ny ::= \"{y}\" | \"c\" [a-c]\n");
        let rules = parser::parse(&text).unwrap();
        let all = texts(&rules, &Expr::Rule(rules.root), 3, 12);
        // Where that is not yet all, only what is there is known.
        let is_all = all == texts(&rules, &Expr::Rule(rules.root), 3, 15);
        let letters: Vec<String> = ["", "a", "b", "c", "d"].map(String::from).to_vec();
        let pairs: Vec<String> = letters.iter().flat_map(|a| letters.iter().map(move |b| format!("{a}{b}"))).collect();
        let every = pairs.iter().flat_map(|a| letters.iter().map(move |b| format!("{a}{b}")));
        let lark = to_lark(&text).unwrap();
        let tried: std::collections::BTreeSet<String> = every.filter(|t| is_all || all.contains(t)).collect();
        let tried: Vec<&str> = tried.iter().map(String::as_str).collect();
        match takes_all(&lark, &tried) {
            Ok(refused) => for text_tried in tried {
                prop_assert_eq!(all.contains(text_tried), !refused.iter().any(|r| r == text_tried), "{}{}{}", text, lark, text_tried);
            },
            // Nothing is left of a grammar that takes no text at all.
            Err(error) => prop_assert!(all.is_empty(), "{text}{lark}{error}"),
        }
    }
}

/// Which of the texts a grammar refuses.
fn takes_all(lark: &str, texts: &[&str]) -> Result<Vec<String>, GrammarError> {
    let bytes: Vec<[u8; 1]> = (0..=255).map(|b| [b]).collect();
    let words = bytes.iter().map(|b| Word::Text(b)).chain([Word::Special("</s>")]);
    let grammar = Compiler::new(words, &[256], Limits::default())?.compile(&Source::Lark(lark.into()).into())?;
    let takes = |text: &&&str| {
        let (mut guide, _) = grammar.begin();
        text.bytes().all(|b| guide.mask().is_ok_and(|mask| mask.allows(b.into())) && guide.accept(b.into()).is_ok()) && guide.may_end()
    };
    Ok(texts.iter().filter(|text| !takes(text)).map(|text| (*text).to_owned()).collect())
}
