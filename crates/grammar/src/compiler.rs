//! Makes grammars for one vocabulary.

use crate::answer::Tokens;
use crate::{Answer, GrammarError, Guide, Limits, Mask};
use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenizerEnv};
use llguidance::{Logger, Matcher, ParserFactory};
use onebit_text::Tokenizer;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Makes grammars for one vocabulary: it holds all its tokens as a tree of bytes.
pub struct Compiler {
    factory: ParserFactory,
    limits: Limits,
    /// The texts of tokens that are structure, the longest first.
    special: Vec<(String, u32)>,
    /// The tokens that end an answer.
    ends: Vec<u32>,
    /// Texts of tokens that are texts, and look like marks.
    tags: Vec<(String, u32)>,
}

/// A token, as grammars see it.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    /// Bytes of a text.
    Text(&'a [u8]),
    /// Structure, with the text by which grammars name it.
    Special(&'a str),
}

/// Bytes of the longest token that can be part of an answer that is held to a grammar.
const LONGEST: usize = 255;

/// Stack of the thread that reads a grammar: what it reads may lie as deep as [`Limits::depth`] says, and rules may name one another in a
/// row.
const STACK: usize = 256 << 20;

impl Compiler {
    /// For a model's tokenizer.
    pub fn of(tokenizer: &Tokenizer, limits: Limits) -> Result<Self, GrammarError> {
        let names: Vec<_> = (0..tokenizer.len() as u32).map(|id| tokenizer.token_text(id).unwrap_or_default()).collect();
        let words = names.iter().zip(0..).map(|(name, id)| match tokenizer.is_special(id) || tokenizer.eos().contains(&id) {
            true => Word::Special(name),
            false => Word::Text(tokenizer.token_bytes(id).unwrap_or_default()),
        });
        Self::new(words, tokenizer.eos(), limits)
    }

    /// For tokens by their ids, of which `ends` end an answer; there must be one.
    pub fn new<'a>(words: impl Iterator<Item = Word<'a>>, ends: &[u32], limits: Limits) -> Result<Self, GrammarError> {
        let (mut bytes, mut special, mut tags) = (Vec::new(), Vec::new(), Vec::new());
        for (word, id) in words.zip(0..) {
            bytes.push(match word {
                Word::Text(text) => {
                    let is_tag =
                        text.len() > 2 && matches!((text.first(), text.last()), (Some(b'<'), Some(b'>')) | (Some(b'['), Some(b']')));
                    tags.extend(std::str::from_utf8(text).ok().filter(|_| is_tag).map(|name| (name.to_owned(), id)));
                    text.to_vec()
                }
                Word::Special(name) => {
                    special.push((name.to_owned(), id));
                    [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat()
                }
            });
        }
        bytes.iter_mut().filter(|word| word.len() > LONGEST || word.iter().skip(1).any(|b| *b == 0xff)).for_each(Vec::clear);
        let Some(first) = ends.first().filter(|_| ends.iter().all(|id| (*id as usize) < bytes.len())) else {
            return Err(GrammarError::Invalid(
                "the vocabulary has no token that ends an answer, so that it cannot be held to a form".into(),
            ));
        };
        special.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        special.retain(|(name, _)| !name.is_empty());
        let made = guarded(|| {
            let trie = TokTrie::from(&TokRxInfo::new(bytes.len() as u32, *first), &bytes).with_eos_tokens(ends);
            let environment: TokEnv = Arc::new(Environment(trie));
            ParserFactory::new(&environment, InferenceCapabilities::default(), &SlicedBiasComputer::general_slices())
        });
        Ok(Self { factory: made?.map_err(|error| GrammarError::of(&error.to_string()))?, limits, special, ends: ends.to_vec(), tags })
    }

    /// Reads what an answer is to be held to.
    pub fn compile(&self, answer: &Answer) -> Result<Grammar, GrammarError> {
        let grammar = answer.compile(Tokens { special: &self.special, ends: &self.ends, tags: &self.tags }, &self.limits)?;
        // Strangers' grammars are read on a stack that is large enough for all that the limits allow.
        let reading = std::thread::scope(|scope| {
            let work = || {
                guarded(|| {
                    let mut matcher = self.matcher(grammar);
                    // Here, where it is not yet waited for; and what is too complex is most often so from the beginning.
                    let mask = matcher.compute_mask_or_eos();
                    (matcher, mask)
                })
            };
            let thread = std::thread::Builder::new().name("1bit-grammar".into()).stack_size(STACK).spawn_scoped(scope, work);
            match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(read)) => read,
                Ok(Err(_)) => Err(GrammarError::Invalid("it could not be read".into())),
                Err(error) => Err(GrammarError::Invalid(format!("there is no thread to read it: {error}"))),
            }
        });
        let (matcher, mask) = reading?;
        match mask {
            Err(error) => Err(GrammarError::of(&error.to_string())),
            Ok(mask) => Ok(Grammar { start: Arc::new(Mutex::new(matcher)), first: Mask::new(mask) }),
        }
    }

    fn matcher(&self, grammar: TopLevelGrammar) -> Matcher {
        let limits = ParserLimits {
            initial_lexer_fuel: self.limits.fuel,
            max_grammar_size: self.limits.symbols,
            step_lexer_fuel: self.limits.step_fuel,
            step_max_items: self.limits.step_items,
            verbose_errors: false,
            precompute_large_lexemes: false,
            ..ParserLimits::default()
        };
        let (init, logger) = (GrammarInit::Serialized(grammar), Logger::new(0, 0));
        Matcher::new(self.factory.create_parser_from_init_ext(init, logger, InferenceCapabilities::default(), limits))
    }
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiler").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Work of the library, whose panics are errors: what it is given comes from strangers.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, GrammarError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| GrammarError::Invalid("it could not be read".into()))
}

/// The tree of all tokens. Texts that a grammar forces are left to the model to cut into tokens, as only it knows how it was trained.
struct Environment(TokTrie);

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.0
    }
    fn tokenize_bytes(&self, text: &[u8]) -> Vec<u32> {
        self.0.greedy_tokenize(text)
    }
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

/// A grammar that was read, ready for any number of answers.
#[derive(Clone)]
pub struct Grammar {
    start: Arc<Mutex<Matcher>>,
    first: Mask,
}

impl Grammar {
    /// For a new answer; the mask is that of its first token.
    pub fn begin(&self) -> (Guide, Mask) {
        (Guide::new(self.start.lock().unwrap_or_else(PoisonError::into_inner).deep_clone()), self.first.clone())
    }
}

/// The very same one.
impl PartialEq for Grammar {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.start, &other.start)
    }
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Grammar")
    }
}
