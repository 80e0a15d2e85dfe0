//! The engine with a toy executable whose every token depends on all pages and slots being right.

#![allow(clippy::unwrap_used, reason = "a test")]

mod caches;
mod diffusion;
mod embedding;
mod faults;
mod guided;
mod images;
mod keeping;
mod limits;
mod output;
mod ranks;
mod schedule;
mod sources;
mod toy;
