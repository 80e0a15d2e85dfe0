//! Tiny models that see, of the fixtures in `data/vision`.

use super::{Outcome, data};
use onebit_formats::safetensors::Writer;
use onebit_models::vision;
use onebit_plan::{ActivationKind, Device, Together};
use onebit_vision::{Picture, Tower};
use serde_json::Value;
use std::path::Path;

/// The picture that `picture` of the script makes.
pub fn picture(height: usize, width: usize) -> Picture {
    let value = |y: usize, x: usize, c: usize| {
        let wave = ((x * (3 + c) + y * 2) % 61) as i64 - 30;
        let noise = ((x * 5 + y * 11 * (c + 1) + x * y) % 37) as i64;
        (128 + (90 * wave).div_euclid(30) + noise - 18).clamp(0, 255) as u8
    };
    let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| value(y, x, c)))).collect();
    Picture { width, height, pixels }
}

/// Numbers around zero from a seed, as the script draws them.
pub fn numbers(seed: &str, count: usize, spread: f32) -> Vec<f32> {
    let mut state = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1 << 23) as f32 - 1.0) * spread
    };
    (0..count).map(|_| next()).collect()
}

/// The numbers of a list, or the one number.
pub fn list(value: &Value) -> Vec<f64> {
    match value.as_array() {
        Some(list) => list.iter().filter_map(Value::as_f64).collect(),
        None => value.as_f64().into_iter().collect(),
    }
}

pub fn counts(value: &Value) -> Vec<usize> {
    list(value).into_iter().map(|x| x as usize).collect()
}

/// Writes the checkpoint that a fixture tells of.
pub fn write(fixture: &Value, folder: &Path) -> Outcome {
    let text = |key: &str| fixture[key].to_string();
    std::fs::write(folder.join("config.json"), text("config"))?;
    std::fs::write(folder.join("preprocessor_config.json"), text("processor"))?;
    let seed = fixture["seed"].as_str().unwrap_or_default();
    let mut writer = Writer::new(folder.join("model.safetensors"));
    let tensors = fixture["tensors"].as_object().ok_or("no tensors")?;
    let shape = |of: &Value| counts(&of[0]);
    for (name, of) in tensors {
        writer.tensor(name, onebit_quants::F32, &shape(of))?;
    }
    let mut data = writer.begin()?;
    for (name, of) in tensors {
        let (base, spread) = (of[1].as_f64().unwrap_or(0.0) as f32, of[2].as_f64().unwrap_or(0.0) as f32);
        let values = numbers(&format!("{seed} {name}"), shape(of).iter().product(), spread);
        let bytes: Vec<u8> = values.into_iter().flat_map(|x| (base + x).to_le_bytes()).collect();
        data.write(name, &bytes)?;
    }
    data.finish()?;
    Ok(())
}

/// The tower of a checkpoint on a device.
pub fn tower(device: &dyn Device, vision: vision::Vision, kind: ActivationKind) -> Outcome<Tower> {
    let [encoder, projector] = Tower::limits(vision.processor.as_ref(), kind);
    let encoder = device.load(vision.encoder, &encoder, &mut |_| {})?;
    let projector = device.load(vision.projector, &projector, &mut |_| {})?;
    Ok(Tower::new(vision.processor, vision.newline, [encoder, projector], vision.sight.together != Together::No))
}

/// The fixtures, by name.
pub fn fixtures() -> Outcome<Vec<(String, Value)>> {
    let mut files: Vec<_> = std::fs::read_dir(data("vision"))?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.sort();
    assert!(!files.is_empty());
    let name = |file: &Path| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    files.iter().map(|file| Ok((name(file), serde_json::from_slice(&std::fs::read(file)?)?))).collect()
}
