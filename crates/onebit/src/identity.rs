//! Tells one model from another, for files that only it can read.

use crate::open::{DeviceArgs, Loaded};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Bytes that are looked at in a tensor, in each of three places.
const PIECE: usize = 4096;

/// A hash of names, types and shapes of all tensors and of some of their values, and of all on which the layout of caches
/// depends: the plan's, the device, and this program's version.
///
/// It does not read whole files, which would take minutes for large ones: the first, middle and last 4 KiB of each tensor. Another
/// training of the same model differs in all of them.
pub(crate) fn of(loaded: &Loaded, device: &DeviceArgs) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut text = format!("{} {} {}", env!("CARGO_PKG_VERSION"), loaded.plan.name, device.device);
    // Neither can fail: it is a string.
    let _ = write!(text, "{:?} {:?} {:?}", loaded.engine.limits(), loaded.plan.states, loaded.engine.config().context);
    hash.update(text);
    let mut room = Vec::new();
    for tensor in loaded.checkpoint.tensors.values() {
        hash.update(format!("{} {} {:?}", tensor.name(), tensor.stored_as(), tensor.shape()));
        match tensor.in_file() {
            Some(bytes) => pieces(bytes).iter().for_each(|piece| hash.update(piece)),
            // Put together of several: some rows of it.
            None => [0, tensor.rows() / 2, tensor.rows().saturating_sub(1)].iter().for_each(|row| hash.update(tensor.row(*row, &mut room))),
        }
    }
    hash.finalize().into()
}

/// The first, middle and last.
fn pieces(bytes: &[u8]) -> [&[u8]; 3] {
    [0, bytes.len() / 2, bytes.len().saturating_sub(PIECE)].map(|start| &bytes[start..bytes.len().min(start + PIECE)])
}
