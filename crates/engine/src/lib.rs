//! Runs a model for many callers at once.
//!
//! An [`Engine`] owns an [`Executable`](onebit_plan::Executable) of any device, and a thread that calls its `step`. Callers
//! [`submit`](Engine::submit) a [`Request`] and read [`Event`]s from a [`Stream`], in a thread or in a task of any async runtime.
//!
//! How the parts meet:
//!
//! - `request`: what may be asked for; checked before anything is done. `given`: rows of images that stand in for tokens.
//! - `engine`: the handle, and the inbox that it shares with the thread.
//! - `scheduler`: the thread's loop, and the only owner of everything that follows; no lock is held across a step.
//! - `diffusion`: answers that are not made token by token, but from masks.
//! - `embedding`: texts that become vectors instead of being continued.
//! - `guided`: answers that are held to a grammar.
//! - `sequence`: one request on its way. It has a place in the [`cache`], a [`sampler`], and its text so far (`stop`).
//! - `stream`: events on their way to the caller. `stats`, `histogram`, `seats`: what those who watch are told.
//!
//! What is promised:
//!
//! - A prompt never holds up other streams by more than [`Config::prompt_chunk`] tokens.
//! - With the same seed, a request gets the same tokens whatever else runs, as long as the device computes a position the same way
//!   in whatever batch it is. Without a temperature it needs no seed.
//! - What is accepted never fails for lack of memory.
//! - A stream that is dropped gives up its place before the next step. A fault ends the stream that caused it, with an
//!   [`Event::Failed`]; no stream ends without a last event.
//!
//! ```no_run
//! # fn run(executable: Box<dyn onebit_plan::Executable>, tokenizer: std::sync::Arc<onebit_text::Tokenizer>, prompt: Vec<u32>)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use onebit_engine::{Config, Engine, Event, Request};
//!
//! let engine = Engine::new(executable, tokenizer, Config::default());
//! let mut stream = engine.submit(Request { prompt, max_tokens: Some(100), ..Request::default() })?;
//! let mut answer = String::new();
//! while let Some(event) = stream.blocking_next() {
//!     match event {
//!         Event::Prompt(_) | Event::Embedding(_) => {}
//!         Event::Token(token) => answer.push_str(&token.text),
//!         Event::Finished(finish) => answer.push_str(&finish.text),
//!         Event::Failed(error) => return Err(error.into()),
//!     }
//! }
//! # Ok(()) }
//! ```

pub mod cache;
mod config;
mod diffusion;
mod embedding;
mod engine;
mod error;
mod event;
mod given;
mod guided;
mod histogram;
mod matcher;
pub mod request;
pub mod sampler;
mod saved;
mod scheduler;
mod seats;
mod sequence;
mod stats;
mod stop;
mod stream;
mod vocabulary;

pub use cache::keep::KeepError;
pub use config::Config;
pub use diffusion::{Diffusion, Remasking};
pub use engine::Engine;
pub use error::{EngineError, SubmitError};
pub use event::{Event, Finish, FinishReason, Logprobs, Timings, Token, TokenLogprob, Usage};
pub use given::Given;
pub use histogram::Histogram;
pub use onebit_plan::{Form, Norm, Pool, Pooling};
pub use request::{Dry, Mirostat, Request, Sampling, Text, Xtc};
pub use saved::{Saved, SavedError, SavedForm};
pub use stats::{SlotStatus, Stats, Times};
pub use stream::Stream;
pub use vocabulary::Vocabulary;
