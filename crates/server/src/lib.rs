//! The OpenAI-compatible API.
//!
//! How a request flows: `connection` speaks HTTP, `gate` (with `guard`) decides whether it is answered, a file of
//! `endpoints` has it received and read within bounds (`body`, `json`, `params`), makes the prompt's tokens, and
//! submits it to the engine (what the answer is held to is in `forms`; for chats: `messages`, `images`, and `marks`, which keeps texts from being read as structure). What the engine yields (`generation`) becomes one JSON answer, or events (`sse`).
//!
//! Where there are several models, `shelf` loads them when they are asked for and has them leave.
//!
//! Rules that hold for all endpoints:
//! - A parameter is honoured, or answered with a 400 that names it in `param`. Fields that cannot change an answer are passed
//!   over by a list (in `params`); one that nobody knows is refused, since ignoring it might change the answer.
//! - Status 200 is sent when the first event of an answer is there. What goes wrong later is an event `{"error": ...}`, after
//!   which a stream ends without `[DONE]`.
//! - Dropping an answer drops the engine's streams, which frees their places; that is all there is to cancelling.
//! - Errors have OpenAI's shape. Only what is not HTTP gets a bare 400, from the HTTP library.
//! - Logs hold no text of prompts or answers.

mod answer;
mod body;
mod chat;
mod connection;
mod endpoints;
mod error;
mod forms;
mod gate;
mod generation;
mod guard;
mod images;
mod infill;
mod json;
mod keys;
mod marks;
mod messages;
mod notify;
mod options;
mod params;
mod plain_tools;
mod serve;
mod shelf;
mod sse;
mod state;
mod tools;

pub use images::place_images;
pub use keys::{Keys, KeysError};
pub use notify::Notify;
pub use options::{Limits, ServeOptions};
pub use serve::{LoadError, ServeError, Server, serve, serve_several};
pub use shelf::{LoadFault, Loader, Offer, ShelfLimits};
pub use state::{LoadProgress, Loaded, ModelInfo, Ranks};
