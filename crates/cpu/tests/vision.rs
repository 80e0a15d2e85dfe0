//! Vision towers on the CPU: the rows that transformers computed (`crates/models/tests/vision.rs` tells of the fixtures), in the same bits
//! whatever the number of threads.

#[path = "../../models/tests/common/towers.rs"]
#[allow(dead_code, unreachable_pub)] // each test uses some of it
mod towers;

use onebit_cpu::Cpu;
use onebit_formats::Checkpoint;
use onebit_models::vision;
use onebit_plan::ActivationKind;
use serde_json::Value;
use std::{error::Error, path::Path, path::PathBuf};
use towers::{counts, fixtures, list, picture, tower, write};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A fixture of the crate `models`.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/data").join(name)
}

/// Most that exact arithmetic may be off, as a share of the spread of the rows.
const BAR: f64 = 2e-5;

/// The rows that the tower makes of the fixture's picture.
fn rows(fixture: &Value, checkpoint: &Checkpoint, threads: usize, kind: ActivationKind) -> Outcome<Vec<f32>> {
    let vision = vision::load(checkpoint, None)?.ok_or("no tower")?;
    let size = counts(&fixture["size"]);
    let prepared = vision.processor.prepare(&picture(size[0], size[1]))?;
    assert_eq!(prepared.order.len(), counts(&fixture["row_count"])[0]);
    Ok(tower(&Cpu::new(Some(threads)), vision, kind)?.rows(&prepared)?.to_vec())
}

/// The largest difference to what transformers computed, which the fixture has of some rows, without the features of earlier layers.
fn off(fixture: &Value, rows: &[f32]) -> f64 {
    let expected = list(&fixture["rows"]);
    let width = rows.len() / counts(&fixture["row_count"])[0];
    let some: Vec<&[f32]> = rows.chunks_exact(width).step_by(counts(&fixture["row_step"])[0]).collect();
    let narrow = expected.len() / some.len();
    let found = some.iter().flat_map(|row| &row[..narrow]);
    let worst = found.zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    worst / list(&fixture["row_deviation"])[0]
}

#[test]
fn rows_of_transformers() -> Outcome {
    for (name, fixture) in fixtures()? {
        let folder = tempfile::tempdir()?;
        write(&fixture, folder.path())?;
        let checkpoint = Checkpoint::open(folder.path())?;
        let found = rows(&fixture, &checkpoint, 2, ActivationKind::F32)?;
        let worst = off(&fixture, &found);
        eprintln!("{name}: {worst:.1e}");
        assert!(worst < BAR, "{name} is {worst} off");
        assert!(rows(&fixture, &checkpoint, 3, ActivationKind::F32)? == found, "{name}: three threads make other bits than two");
    }
    Ok(())
}
