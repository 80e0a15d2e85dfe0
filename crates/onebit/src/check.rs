//! What is wrong with the numbers of a checkpoint: NaNs and infinities, and blocks that a faulty quantizer leaves behind.

use onebit_formats::{Checkpoint, Tensor};
use serde::Serialize;
use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

/// What was found in one tensor. Blocks are counted from its first value.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Findings {
    pub tensor: String,
    /// Blocks in all; of plain floats, rows.
    pub blocks: usize,
    pub nan: Count,
    pub infinite: Count,
    /// Blocks of zeros only.
    pub zero: Count,
    /// Blocks of one magnitude only, in types that have more than that.
    pub saturated: Count,
}

/// How many blocks, and the first of them.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    pub blocks: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<usize>,
}

impl Count {
    fn see(&mut self, block: usize, found: bool) {
        if found {
            self.blocks += 1;
            self.first.get_or_insert(block);
        }
    }
}

impl Findings {
    /// Whether the model cannot be right.
    pub(crate) fn broken(&self) -> bool {
        self.nan.blocks + self.infinite.blocks > 0
    }
    /// In words; empty where there is nothing to say.
    pub(crate) fn words(&self) -> String {
        let kinds = [("NaN", &self.nan), ("infinity", &self.infinite), ("only zeros", &self.zero), ("one magnitude only", &self.saturated)];
        let said = kinds
            .iter()
            .filter_map(|(what, c)| c.first.map(|f| format!("{} of {} blocks with {what}, the first is block {f}", c.blocks, self.blocks)));
        said.collect::<Vec<_>>().join("; ")
    }
}

/// Reads every value of every tensor, on all processors; `progress` is told of bytes.
pub(crate) fn check(checkpoint: &Checkpoint, progress: &(dyn Fn(usize) + Sync)) -> Vec<Findings> {
    let tensors: Vec<&Tensor> = checkpoint.tensors.values().collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut all: Vec<(usize, Findings)> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = vec![];
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(tensor) = tensors.get(i) else { return mine };
                mine.push((i, of(tensor)));
                progress(tensor.stored_bytes());
                tensor.release();
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|w| w.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|f| f.0);
    all.into_iter().map(|f| f.1).collect()
}

/// Tensors that are listed in an error.
const LISTED: usize = 4;

/// An error that names tensors and blocks, where any are broken; what is only strange is logged.
pub(crate) fn refuse_broken(path: &Path, findings: &[Findings]) -> Result<(), String> {
    let (broken, strange): (Vec<_>, Vec<_>) = findings.iter().filter(|f| !f.words().is_empty()).partition(|f| f.broken());
    for it in strange {
        tracing::warn!("{}: tensor `{}`: {}", path.display(), it.tensor, it.words());
    }
    let mut listed: Vec<String> = broken.iter().take(LISTED).map(|f| format!("tensor `{}`: {}", f.tensor, f.words())).collect();
    if broken.len() > LISTED {
        listed.push(format!("and {} further tensors (`1bit show --check` lists them)", broken.len() - LISTED));
    }
    if listed.is_empty() { Ok(()) } else { Err(format!("{}: {}", path.display(), listed.join("; "))) }
}

fn of(tensor: &Tensor) -> Findings {
    let ty = tensor.ty();
    let plain = ty.block_values() == 1;
    let levels = if plain { usize::MAX } else { 1 << (ty.bits_per_value().floor() as usize) };
    let per = if plain { tensor.columns() } else { ty.block_values() };
    let mut found = Findings { tensor: tensor.name().to_string(), ..Findings::default() };
    if per == 0 {
        return found;
    }
    let (header, bytes) = (ty.header_bytes(), if plain { per * ty.block_bytes() } else { ty.block_bytes() });
    let mut values = vec![0.0f32; per];
    let (mut room, mut alone) = (vec![], vec![]);
    for row in 0..tensor.rows() {
        let (header, blocks) = tensor.row(row, &mut room).split_at(header);
        for block in blocks.chunks_exact(bytes) {
            // One block is decoded as a row of its own.
            alone.clear();
            alone.extend_from_slice(header);
            alone.extend_from_slice(block);
            ty.decode(&alone, &mut values);
            let i = found.blocks;
            found.blocks += 1;
            let largest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
            found.nan.see(i, values.iter().any(|v| v.is_nan()));
            found.infinite.see(i, values.iter().any(|v| v.is_infinite()));
            // A vector may be all zeros or ones; a block of a matrix hardly.
            if tensor.shape().len() > 1 {
                found.zero.see(i, values.iter().all(|v| *v == 0.0));
                let same = per >= 16 && levels > 4 && !plain && largest > 0.0 && values.iter().all(|v| v.abs() == largest);
                found.saturated.see(i, same);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use onebit_formats::{Meta, gguf::Writer};

    /// A Q8_0 matrix of 4 blocks: sound, a NaN for its scale (0x7e00), zeros, saturated; and an F32 vector with an infinity.
    #[test]
    fn each_kind_is_found_with_its_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        let block = |scale: u16, codes: [i8; 32]| scale.to_le_bytes().into_iter().chain(codes.map(|c| c as u8)).collect::<Vec<u8>>();
        let sound: [i8; 32] = std::array::from_fn(|i| i as i8);
        let matrix = [block(0x3c00, sound), block(0x7e00, sound), block(0x3c00, [0; 32]), block(0x3c00, [-127; 32])].concat();
        let mut writer = Writer::new(&path);
        writer.pair("general.architecture", &Meta::Text("none".into())).unwrap();
        writer.tensor("m", onebit_quants::Q8_0, &[2, 64]).unwrap();
        writer.tensor("v", onebit_quants::F32, &[3]).unwrap();
        let mut data = writer.begin().unwrap();
        data.write("m", &matrix).unwrap();
        data.write("v", &[1.0f32, f32::INFINITY, 2.0].map(f32::to_le_bytes).concat()).unwrap();
        data.finish().unwrap();
        let found = check(&Checkpoint::open(&path).unwrap(), &|_| {});
        let one = |first| Count { blocks: 1, first: Some(first) };
        assert_eq!((&found[0].nan, &found[0].zero, &found[0].saturated), (&one(1), &one(2), &one(3)));
        assert_eq!((found[0].blocks, &found[0].infinite, &found[1].infinite), (4, &Count::default(), &one(0)));
        let error = refuse_broken(&path, &found).unwrap_err();
        for word in ["m.gguf", "tensor `m`", "NaN, the first is block 1", "tensor `v`", "infinity"] {
            assert!(error.contains(word), "{error}");
        }
        assert!(refuse_broken(&path, &[Findings::default()]).is_ok());
        assert!(found[0].words().contains("1 of 4 blocks with NaN, the first is block 1") && found[1].broken());
    }
}
