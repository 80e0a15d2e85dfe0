//! Images for models that see.
//!
//! How the parts meet:
//!
//! - `picture`: a file's bytes become a [`Picture`], within limits that are checked before memory is taken;
//! - `data_url`: the bytes of a `data:` URL;
//! - `resize`: resampling as Pillow does it, bit for bit;
//! - `prepared`: what a [`Processor`] makes of a picture: rows of patches, and the image's part of the prompt;
//! - `tiles`: what processors have in common whose towers take squares of one size;
//! - `qwen`, `pixtral`, `pooled`, `square`, `splits`, `grid`, `any_resolution`: the processors, one file for each way to cut a picture, equal to
//!   those of transformers;
//! - `tower`: a loaded vision tower, which turns what is prepared into rows that a text model takes instead of tokens;
//! - `prompt`: where these rows are in a prompt.

mod any_resolution;
mod data_url;
mod error;
mod grid;
mod picture;
mod pixtral;
mod pooled;
mod positions;
mod prepared;
mod prompt;
mod qwen;
mod resize;
mod splits;
mod square;
mod tiles;
mod tower;

pub use any_resolution::AnyResolution;
pub use data_url::data_url;
pub use error::{Error, Result};
pub use grid::Grid;
pub use picture::{Limits, Picture};
pub use pixtral::Pixtral;
pub use pooled::Pooled;
pub use positions::PositionTable;
pub use prepared::{From, Normalize, Piece, Prepared, Processor};
pub use prompt::{Placed, Run, place};
pub use qwen::Qwen;
pub use resize::Filter;
pub use splits::Splits;
pub use square::{Crops, Fit, Square};
pub use tiles::Tiles;
pub use tower::{Seen, Tower};
