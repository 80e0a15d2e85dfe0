//! Vision against transformers 5.24: pixels, rows of the tower, and logits of the whole model with an image in its prompt, for a tiny
//! model of each family (`tools/oracles/vision.py` made `data/vision`).

mod common;

use common::{
    Outcome,
    towers::{counts, list, picture, tower, write},
};
use onebit_formats::Checkpoint;
use onebit_models::vision;
use onebit_plan::{AXES, ActivationKind, Batch, Device, Inputs, KvType, Limits, Span};
use onebit_reference::Reference;
use onebit_vision::Piece;
use serde_json::Value;
use std::path::Path;

/// The mark of an image in the prompts.
const MARK: u32 = 60;

/// The largest difference.
fn off(found: impl IntoIterator<Item = f32>, wanted: &[f64]) -> f64 {
    let found: Vec<f32> = found.into_iter().collect();
    assert_eq!(found.len(), wanted.len());
    found.iter().zip(wanted).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
}

/// Where a token is on each axis, token by token; images at the marks.
fn axes(ids: &[u32], offsets: &[[u32; 3]], advance: u32) -> Vec<[u32; AXES]> {
    if offsets.is_empty() {
        return (0..ids.len() as u32).map(|i| [i; AXES]).collect();
    }
    let (mut next, mut seen) = (0, 0);
    ids.iter()
        .map(|id| {
            if *id != MARK {
                next += 1;
                return [next - 1; AXES];
            }
            let [t, h, w] = offsets[seen].map(|offset| next + offset);
            seen += 1;
            if seen == offsets.len() {
                next += advance;
            }
            [t, h, w, 0]
        })
        .collect()
}

/// The pixels of a piece, `[channel, row, column]`.
fn image(piece: &Piece, patch: usize) -> Vec<f32> {
    let [height, width] = [0, 1].map(|axis| piece.places.iter().map(|place| place[axis] as usize + 1).max().unwrap_or(0) * patch);
    let mut image = vec![0.0; 3 * height * width];
    let stride = piece.rows.len() / piece.places.len();
    for (row, place) in piece.rows.chunks_exact(stride).zip(&piece.places) {
        for (i, x) in row[..3 * patch * patch].iter().enumerate() {
            let [c, y, x_] = [i / (patch * patch), i / patch % patch, i % patch];
            image[(c * height + place[0] as usize * patch + y) * width + place[1] as usize * patch + x_] = *x;
        }
    }
    image
}

/// What was off: pixels, rows, logits, the last two by their spread.
fn check(path: &Path) -> Outcome<[f64; 3]> {
    let fixture: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let folder = tempfile::tempdir()?;
    write(&fixture, folder.path())?;
    let checkpoint = Checkpoint::open(folder.path())?;
    let vision = vision::load(&checkpoint, None)?.ok_or("no tower")?;
    let sight = vision.sight;
    let own = vision.processor.id().unwrap_or(MARK);
    let size = counts(&fixture["size"]);
    let prepared = vision.processor.prepare(&picture(size[0], size[1]))?;

    assert_eq!(prepared.text, fixture["text"].as_str().unwrap_or_default());
    let patch = counts(&fixture["patch"])[0];
    let found: Vec<f32> = prepared.pieces.iter().flat_map(|piece| image(piece, patch)).collect();
    assert_eq!(found.len(), counts(&fixture["pixels"]["count"])[0]);
    let pixel = off(found.iter().step_by(37).copied(), &list(&fixture["pixels"]["every"]));
    let sum: f64 = found.iter().map(|x| f64::from(*x)).sum();
    let wanted = list(&fixture["pixels"]["sum"])[0];
    if (sum - wanted).abs() > 1e-5 * found.len() as f64 {
        return Err(format!("the pixels are {pixel} off, and their sum is {sum}, not {wanted}").into());
    }

    let tower = tower(&Reference, vision, ActivationKind::F32)?;
    let rows = tower.rows(&prepared)?;
    let count = prepared.order.len();
    assert_eq!(count, counts(&fixture["row_count"])[0]);
    let width = rows.len() / count;
    let step = counts(&fixture["row_step"])[0];
    let model = onebit_models::load_seeing(&checkpoint, sight)?;
    let narrow = model.plan.values.first().map_or(width, |v| v.width);
    let some = rows.chunks_exact(width).step_by(step).flat_map(|row| row[..narrow].to_vec());
    let row = off(some, &list(&fixture["rows"])) / list(&fixture["row_deviation"])[0];

    let ids: Vec<u32> = counts(&fixture["ids"]).into_iter().map(|id| id as u32).collect();
    let tokens: Vec<u32> = ids.iter().map(|id| if *id == MARK { own } else { *id }).collect();
    let mut next = 0;
    let given: Vec<u32> = ids
        .iter()
        .map(|id| {
            let is_image = *id == MARK;
            next += u32::from(is_image);
            if is_image { next - 1 } else { Inputs::NONE }
        })
        .collect();
    assert_eq!(next as usize, count);
    let axes = axes(&ids, &prepared.offsets, prepared.advance);
    let groups = groups(&ids);
    let limits = Limits {
        batch: ids.len(),
        outputs: ids.len(),
        page: 16,
        pages: ids.len().div_ceil(16),
        slots: 1,
        kv: KvType::F32,
        activations: ActivationKind::F32,
    };
    let mut exe = Reference.load(model, &limits, &mut |_| {})?;
    let pages: Vec<u32> = (0..limits.pages as u32).collect();
    let span = [Span { len: ids.len(), start: 0, pages: &pages, slot: 0, outputs: ids.len() }];
    let inputs = Inputs { rows: &rows, given: &given, axes: &axes, groups: &groups, ..Inputs::default() };
    let logits = exe.step(&Batch { tokens: &tokens, spans: &span, inputs })?;
    let vocabulary = logits.len() / ids.len();
    let some = counts(&fixture["positions"]).into_iter().flat_map(|p| logits[p * vocabulary..(p + 1) * vocabulary].to_vec());
    let logit = off(some, &list(&fixture["logits"])) / list(&fixture["deviation"])[0];
    Ok([pixel, row, logit])
}

/// Runs of marks see each other.
fn groups(ids: &[u32]) -> Vec<[u32; 2]> {
    let mut groups = vec![];
    while groups.len() < ids.len() {
        let start = groups.len();
        let run = ids[start..].iter().take_while(|id| **id == MARK).count().max(1);
        groups.resize(start + run, [start as u32, (start + run) as u32]);
    }
    groups
}

#[test]
fn families() -> Outcome {
    // Others, of another seed, may be checked by the way.
    let more = std::env::var_os("ONEBIT_VISION_FIXTURES").map(std::path::PathBuf::from);
    let mut faults = vec![];
    for folder in [Some(common::data("vision")), more].into_iter().flatten() {
        let mut files: Vec<_> = std::fs::read_dir(&folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
        files.sort();
        assert!(!files.is_empty());
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            match check(&file) {
                Ok(off) => {
                    println!("{name:20} pixels {:.1e}  rows {:.1e}  logits {:.1e}", off[0], off[1], off[2]);
                    if off[0] > 1e-6 || off[1] > 2e-5 || off[2] > 1e-4 {
                        faults.push(format!("{name}: {off:?}"));
                    }
                }
                Err(error) => faults.push(format!("{name}: {error}")),
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    Ok(())
}
