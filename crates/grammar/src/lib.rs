//! Holds what a model writes to a JSON schema, a regular expression, a grammar, or the form of a tool's call.
//!
//! `llguidance` does the matching: it walks the vocabulary, as a tree of bytes, along an Earley parser whose terminals are derivatives of
//! regular expressions. What is here puts clients' forms into its terms, and bounds what they may cost:
//!
//! - `source`: what clients may ask for. `gbnf`: llama.cpp's notation.
//! - `answer`: what is held to a form, after what the model thinks.
//! - `calls`: answers that are calls of tools, as the model's format writes them.
//! - `compiler`: grammars for one vocabulary; what is read comes from strangers. `guide`: a grammar while an answer is made.
//!
//! ```
//! use onebit_grammar::{Compiler, Limits, Source, Word};
//!
//! let words = [Word::Text(b"yes"), Word::Text(b"no"), Word::Text(b"n"), Word::Special("</s>")];
//! let compiler = Compiler::new(words.into_iter(), &[3], Limits::default())?;
//! let (mut guide, mask) = compiler.compile(&Source::Regex("no".into()).into())?.begin();
//! assert_eq!((0..4).filter(|id| mask.allows(*id)).collect::<Vec<_>>(), [1, 2]);
//! guide.accept(1)?;
//! assert!(guide.is_complete());
//! # Ok::<(), onebit_grammar::GrammarError>(())
//! ```

mod answer;
mod calls;
mod compiler;
mod error;
mod gbnf;
mod guide;
mod lark;
mod limits;
mod source;

pub use answer::Answer;
pub use calls::{Calls, Function};
pub use compiler::{Compiler, Grammar, Word};
pub use error::GrammarError;
pub use guide::{Guide, Mask};
pub use limits::Limits;
pub use source::Source;
