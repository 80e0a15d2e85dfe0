//! Stands in for `libamdhip64.so` and `libhrx.so` where no such device is: a library with the functions of both that the drivers call,
//! which has the emulator run what it is given.
//!
//! A test copies the library to a folder under the name that it wants and puts its [`Settings`] beside it ([`install`]). Each copy has a
//! device of its own. With faults in the settings a call fails, hangs, or loses the device when its turn comes. Where the real libraries
//! are free in what they do first, this one does the least convenient: commands that nothing orders run backwards.

mod device;
mod hip;
mod hrx;
mod settings;

pub use settings::{Counts, Fault, Settings, install};
