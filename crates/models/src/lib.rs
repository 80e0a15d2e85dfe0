//! Architectures: from an opened checkpoint to a plan with its weights.
//!
//! [`load`] finds the architecture that the checkpoint names, reads its settings, and builds the plan. An architecture is one file
//! in `arch`: a list of names, a table of tensors, and a builder that reads like the paper. What the files share:
//!
//! - `settings`: one read gives a value from `config.json` or from GGUF metadata, checked, with errors that name file and key;
//! - `names`: a plan's weight to the tensors of the checkpoint, whichever names it uses, and what is left over at the end;
//! - `rotated`: which weights are stored rotated, and how;
//! - `rope`: the frequencies of rotary embeddings, with all ways to stretch them;
//! - `arch::blocks`: what repeats between architectures, by the name it has in papers.
//!
//! [`convert`] writes the GGUF form of a Hugging Face directory, driven by the same tables and the same reads; [`convert_vision`] that of
//! its vision tower.
//!
//! `docs/adding-an-architecture.md` is the recipe.

mod arch;
mod convert;
mod defaults;
mod describe;
mod error;
mod evidence;
mod explain;
mod load;
mod matching;
mod names;
mod pooling;
mod ranking;
mod rope;
mod rotated;
mod settings;
mod unread;
pub mod vision;

pub use arch::{Arch, architectures};
pub use convert::{Converted, Options, convert, convert_vision};
pub use describe::describe;
pub use error::{Error, Result};
pub use explain::{Explanation, Group, How, Setting, Use, explain};
pub use load::{load, load_as, load_seeing};
pub use pooling::{Prompts, pooling, prompts};
pub use ranking::{Ranking, ranking};
pub use unread::Fate;
