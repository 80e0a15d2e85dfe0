//! Kernels for gfx1151 (Radeon 8060S) as code objects, and the layouts of weights and columns that they read.
//!
//! `kernels` holds the code objects that are built from `kernels/*.hip.cpp` and committed, with what their manifest says of each
//! kernel; `driver` reaches devices through libraries that are found at run time; `pack` brings a matrix of any weight type into the planes that the products read; `form` says which planes a type has.
//! The tests run every kernel in `rdna`, which executes the very objects that ship.

mod compile;
mod device;
pub mod driver;
mod executable;
mod form;
pub mod kernels;
mod pack;
pub mod predict;
mod weights;

pub use compile::{NARROW, Run, Shape, Work};
pub use device::{ARCHITECTURE, DispatchInfo, Gpu};
pub use executable::shape;
pub use form::Form;
pub use pack::{PackError, Packed, Packer, pack, packed_bytes};
