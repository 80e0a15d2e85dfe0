//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod devices;
pub(crate) mod embed;
pub(crate) mod form;
pub(crate) mod imatrix;
pub(crate) mod list;
pub(crate) mod logits;
pub(crate) mod operations;
pub(crate) mod perplexity;
pub(crate) mod pull;
pub(crate) mod quantize;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod sampling;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod tokenize;
pub(crate) mod version;
