//! The server over real sockets, with a toy for a model: what clients see, good ones and others.

mod chat;
#[path = "../common/mod.rs"]
mod common;
mod completions;
mod connections;
mod embeddings;
mod forced;
mod forms;
mod images;
mod lifecycle;
mod limits;
mod llama;
mod logs;
mod openai_package;
mod refusals;
mod rerank;
mod responses;
mod several;
mod slot_files;
mod tools;
mod watching;

use common::{client, tower, toy};
