//! Brings weights into device memory, a few rows at a time.

use crate::{
    Packer,
    compile::{Form, weight_bytes},
    driver::{Buffer, Driver, DriverError, Place},
};
use onebit_plan::{DeviceError, Model, Progress, Weight, WeightId};
use std::{collections::HashMap, ops::Range};

/// Bytes of rows that are packed at once.
const CHUNK: usize = 1 << 20;

/// Weights on the device.
pub(crate) type Loaded = HashMap<(Vec<WeightId>, Form), Buffer>;

/// Loads weights in the forms that are wanted, and lets the file's pages go behind.
pub(crate) fn load(
    driver: &mut dyn Driver,
    model: &Model,
    wanted: &[(Vec<WeightId>, Form)],
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, DeviceError> {
    let total = model.plan.weight_bytes();
    let (mut loaded, mut done) = (Loaded::new(), 0);
    progress(Progress { done, total });
    for (i, (ids, form)) in wanted.iter().enumerate() {
        let weights = ids.iter().map(|id| model.weight(*id));
        let names: Vec<&str> = weights.clone().map(|w| w.name.as_str()).collect();
        let bytes = weight_bytes(weights.clone(), *form);
        let buffer = driver.allocate(bytes, &names.join(", "))?;
        let all: usize = weights.clone().map(Weight::rows).sum();
        let (mut first, mut values) = (0, 0);
        for (weight, rows) in parts(weights, *form) {
            let count = rows.len();
            match form {
                Form::Numbers | Form::EachNumbers => numbers(driver, weight, rows, values, buffer)?,
                Form::Turned => turned(driver, weight, buffer)?,
                _ => stored(driver, weight, *form, (rows, first, all), buffer)?,
            }
            first += count;
            values += count * weight.columns();
        }
        loaded.insert((ids.clone(), *form), buffer);
        for id in ids.iter().filter(|id| !wanted[i + 1..].iter().any(|(others, _)| others.contains(id))) {
            model.weight(*id).release();
            done += model.weight(*id).bytes();
        }
        progress(Progress { done: done.min(total), total });
    }
    progress(Progress { done: total, total });
    Ok(loaded)
}

/// Runs of rows in the order in which they lie on the device. A vector is a row.
fn parts<'a>(weights: impl Iterator<Item = &'a Weight> + Clone, form: Form) -> Vec<(&'a Weight, Range<usize>)> {
    match form {
        Form::EachNumbers | Form::EachPlanes => {
            let experts = weights.clone().next().map_or(0, |w| w.shape[0]);
            let each = |e: usize| weights.clone().map(move |w| (w, e * (w.rows() / experts)..(e + 1) * (w.rows() / experts)));
            (0..experts).flat_map(each).collect()
        }
        _ => weights.map(|w| (w, 0..w.rows())).collect(),
    }
}

/// Writes rows of a weight as numbers in f32, behind `before` others.
fn numbers(driver: &mut dyn Driver, weight: &Weight, rows: Range<usize>, before: usize, buffer: Buffer) -> Result<(), DeviceError> {
    let columns = weight.columns();
    let values = weight.to_f32();
    let bytes: Vec<u8> = values[rows.start * columns..rows.end * columns].iter().flat_map(|x| x.to_le_bytes()).collect();
    Ok(driver.write(Place { buffer, offset: 4 * before }, &bytes)?)
}

/// Writes matrices as numbers in f32, rows and columns exchanged.
fn turned(driver: &mut dyn Driver, weight: &Weight, buffer: Buffer) -> Result<(), DeviceError> {
    let (columns, matrices) = (weight.columns(), weight.shape[0]);
    let rows = weight.rows() / matrices.max(1);
    let values = weight.to_f32();
    let matrix = |m: usize| (0..columns).flat_map(move |c| (0..rows).map(move |r| (m * rows + r) * columns + c));
    let bytes: Vec<u8> = (0..matrices).flat_map(matrix).flat_map(|at| values[at].to_le_bytes()).collect();
    Ok(driver.write(Place { buffer, offset: 0 }, &bytes)?)
}

/// Writes rows of a weight, as they are or as planes, to a matrix of `all` rows, from row `before` on.
fn stored(
    driver: &mut dyn Driver,
    weight: &Weight,
    form: Form,
    (rows, before, all): (Range<usize>, usize, usize),
    buffer: Buffer,
) -> Result<(), DeviceError> {
    let packer = match form {
        Form::Planes | Form::EachPlanes => {
            Some(Packer::new(weight.ty, all, weight.columns()).map_err(|e| DeviceError::Failed(format!("{}: {e}", weight.name)))?)
        }
        _ => None,
    };
    let row_bytes = weight.row_bytes();
    let at_once = (CHUNK / row_bytes.max(1)).max(1);
    let (mut room, mut bytes) = (vec![], vec![]);
    for first in (0..rows.len()).step_by(at_once) {
        bytes.clear();
        for row in first..rows.len().min(first + at_once) {
            bytes.extend_from_slice(weight.row(rows.start + row, &mut room));
        }
        let mut put = |offset: usize, bytes: &[u8]| -> Result<(), DriverError> {
            if bytes.is_empty() { Ok(()) } else { driver.write(Place { buffer, offset }, bytes) }
        };
        match &packer {
            Some(packer) => packer.rows(before + first, &bytes).iter().try_for_each(|(at, bytes)| put(*at, bytes))?,
            None => put((before + first) * row_bytes, &bytes)?,
        }
    }
    Ok(())
}
