//! What the tests share: a toy for a model, a server around it, and a client.

// No test program uses all of it.
#![allow(dead_code)]

pub(crate) mod client;
pub(crate) mod tower;
pub(crate) mod toy;
