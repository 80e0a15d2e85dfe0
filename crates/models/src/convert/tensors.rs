//! The tensors of the file: what each is called, how it is stored, and where its values come from.

use crate::{Error, Result, load::Built, names::Order};
use onebit_formats::DataWriter;
use onebit_plan::{Edit, Part, Weight};
use onebit_quants::{BF16, F16, F32, TQ2_0, WeightType};
use std::{borrow::Cow, path::PathBuf};

/// A tensor of the file.
pub(super) struct Stored<'a> {
    pub(super) name: String,
    pub(super) ty: WeightType,
    pub(super) shape: Vec<usize>,
    values: Values<'a>,
    /// Factors on the values: none, one, or one for each row of the weight.
    factors: Vec<f32>,
}

enum Values<'a> {
    /// A weight of the plan, in another order where the format wants it.
    Weight(Cow<'a, Weight>, Option<Order>),
    /// Numbers that the settings noted.
    Made(Vec<f32>),
}

/// Matrices that llama.cpp reads as F32 only.
const ALWAYS_F32: [&str; 10] = [
    ".ssm_conv1d_q.weight",
    ".ssm_conv1d_k.weight",
    ".ssm_conv1d_v.weight",
    ".ssm_conv1d.weight",
    ".ssm_a",
    ".ssm_d",
    "_norm.weight",
    ".shortconv.conv.weight",
    ".ffn_gate_inp.weight",
    ".bias",
];

/// The output matrix.
const OUTPUT: &str = "output.weight";

/// All tensors, in the plan's order. What cannot be stored as `wanted` is stored as F16, which the remarks tell.
pub(super) fn plan<'a>(built: &'a Built<'_>, wanted: Option<WeightType>, remarks: &mut Vec<String>) -> Result<Vec<Stored<'a>>> {
    let mut out = vec![];
    let (mut unfit, mut rounded) = (0, 0);
    let weights = &built.model.weights;
    let named = |name: &str| weights.iter().find(|w| w.name == name);
    let output = if named(OUTPUT).is_none() && built.settings.own_output() { named("token_embd.weight") } else { None };
    let all = weights.iter().map(|w| (w.name.as_str(), w)).chain(output.map(|w| (OUTPUT, w)));
    let all = all.map(|(name, weight)| whole(built, name, weight)).collect::<Result<Vec<_>>>()?;
    for (i, (name, weight)) in all.iter().enumerate() {
        let name = name.as_ref();
        if all[..i].iter().any(|(other, _)| other == name) {
            // Parts of a tensor that is held whole.
            continue;
        }
        let entry = built.names.entry(name).map(|(entry, ..)| entry);
        if entry.is_some_and(|entry| entry.is_made()) {
            continue;
        }
        let order = entry.map(|e| e.order(&built.settings)).transpose()?.flatten();
        let mut shape = squeezed(&weight.shape);
        if entry.is_some_and(|e| e.flat) {
            shape = vec![shape.iter().product()];
        }
        if let Some((others, count)) = entry.map(|e| e.ones) {
            let at = others.min(shape.len());
            shape.splice(at..at, vec![1; count]);
        }
        let turned = matches!((&order, &shape[..]), (Some(Order::Transposed), [_, _, _]));
        if let ([_, rows, columns], true) = (&mut shape[..], turned) {
            std::mem::swap(rows, columns);
        }
        let columns = shape.last().copied().unwrap_or(1);
        let same = if weight.edit == Edit::UnitRow {
            F32
        } else if weight.rounds_input {
            TQ2_0
        } else if weight.ty.info().ggml_id.is_some() && weight.ty.info().encode.is_some() {
            weight.ty
        } else {
            BF16
        };
        let mut ty = wanted.unwrap_or(same);
        if shape.len() <= 1 || ALWAYS_F32.iter().any(|end| weight.name.ends_with(end)) {
            ty = F32;
        } else if !columns.is_multiple_of(ty.block_values()) {
            ty = F16;
            unfit += 1;
        }
        // Some of the rows may be left out, or repeated.
        if let (Some(Order::Rows(rows)), [first, _]) = (&order, &mut shape[..]) {
            *first = rows.len();
        }
        let fits = match &order {
            None => true,
            Some(Order::Transposed) => turned,
            Some(Order::Rows(rows)) => rows.iter().all(|row| *row < if shape.len() > 1 { weight.rows() } else { columns }),
            Some(Order::Runs(run)) => (if shape.len() > 1 { weight.rows() } else { columns }).is_multiple_of(run.len()),
            Some(Order::Columns(order)) => order.len() == columns,
        };
        if !fits {
            let what = format!("the order of `{}` does not fit its shape {shape:?}", weight.name);
            return Err(Error::Convert { path: PathBuf::from(weight.name.clone()), what });
        }
        let factors = built.settings.noted_factors(name).unwrap_or_default();
        let rows = if shape.len() > 1 { weight.rows() } else { columns };
        if factors.len() > 1 && factors.len() != rows {
            let what = format!("{} factors do not fit the {rows} rows of `{name}`", factors.len());
            return Err(Error::Convert { path: PathBuf::from(name), what });
        }
        let exact = |f: &f32| f.abs().log2().fract() == 0.0;
        rounded += usize::from(wanted.is_none() && ty != F32 && !factors.iter().all(exact));
        let stored = entry.map_or(name, |entry| entry.gguf_name(name));
        out.push(Stored { name: stored.to_string(), ty, shape, values: Values::Weight(weight.clone(), order), factors });
    }
    for (name, (shape, values)) in built.settings.noted_tensors() {
        out.push(Stored { name, ty: F32, shape, values: Values::Made(values), factors: vec![] });
    }
    if unfit > 0 {
        remarks.push(format!(
            "{unfit} matrices have rows that blocks of {} do not divide; they are stored as F16",
            wanted.map_or("", |t| t.name())
        ));
    }
    if rounded > 0 {
        remarks.push(format!("{rounded} matrices hold factors of config.json, as llama.cpp wants them, and were rounded again"));
    }
    Ok(out)
}

/// What a GGUF file holds for the weight `name`, and how it is called there: the weight, or the tensor that it is a part of.
fn whole<'a>(built: &Built<'_>, name: &'a str, weight: &'a Weight) -> Result<(Cow<'a, str>, Cow<'a, Weight>)> {
    let other = built.names.entry(name).and_then(|(entry, layer, _)| entry.whole_name(layer));
    let (Some(other), Some(part)) = (other, weight.parts.first()) else { return Ok((name.into(), Cow::Borrowed(weight))) };
    let tensor = part.tensor.clone();
    let shape = tensor.shape().to_vec();
    let path = || PathBuf::from(tensor.name());
    let joined = Weight::join(&other, vec![Part { rows: 0..tensor.rows(), tensor: tensor.clone() }], shape, Edit::None);
    let joined = joined.map_err(|source| Error::Plan { path: path(), source })?;
    Ok((other.into(), Cow::Owned(joined)))
}

/// The shape without dimensions of one.
pub(super) fn squeezed(shape: &[usize]) -> Vec<usize> {
    let kept: Vec<usize> = shape.iter().copied().filter(|n| *n != 1).collect();
    if kept.is_empty() { vec![1] } else { kept }
}

impl<'a> Stored<'a> {
    /// A weight of a plan, in another order where `order` says so.
    pub(super) fn of(name: String, ty: WeightType, shape: Vec<usize>, weight: &'a Weight, order: Option<Order>) -> Self {
        Self { name, ty, shape, values: Values::Weight(Cow::Borrowed(weight), order), factors: vec![] }
    }
}

impl Stored<'_> {
    /// Bytes that are read for it.
    pub(super) fn source_bytes(&self) -> usize {
        match &self.values {
            Values::Weight(weight, _) => weight.bytes(),
            Values::Made(values) => values.len() * size_of::<f32>(),
        }
    }

    /// Writes its bytes.
    pub(super) fn write(&self, data: &mut DataWriter) -> Result<()> {
        match &self.values {
            Values::Made(values) => Ok(data.write(&self.name, &self.encode(values)?)?),
            Values::Weight(weight, order) if self.shape.len() <= 1 => {
                let mut values = weight.to_f32();
                match &self.factors[..] {
                    [] => {}
                    [one] => values.iter_mut().for_each(|x| *x *= one),
                    each => values.iter_mut().zip(each).for_each(|(x, factor)| *x *= factor),
                }
                let values = match order {
                    Some(Order::Rows(order) | Order::Columns(order)) => permuted(&values, order),
                    Some(Order::Runs(order)) => values.chunks_exact(order.len()).flat_map(|run| permuted(run, order)).collect(),
                    Some(Order::Transposed) | None => values,
                };
                Ok(data.write(&self.name, &self.encode(&values)?)?)
            }
            Values::Weight(weight, Some(Order::Transposed)) => self.write_transposed(weight, data),
            Values::Weight(weight, order) => self.write_rows(weight, order.as_ref(), data),
        }
    }

    /// Writes the columns of each matrix as rows.
    fn write_transposed(&self, weight: &Weight, data: &mut DataWriter) -> Result<()> {
        let (rows, columns) = (weight.shape[weight.shape.len() - 2], weight.columns());
        let values = weight.to_f32();
        for matrix in values.chunks_exact(rows * columns) {
            for c in 0..columns {
                let row: Vec<f32> = matrix.iter().skip(c).step_by(columns).copied().collect();
                data.write(&self.name, &self.encode(&row)?)?;
            }
        }
        weight.release();
        Ok(())
    }

    fn write_rows(&self, weight: &Weight, order: Option<&Order>, data: &mut DataWriter) -> Result<()> {
        let (mut row, mut room) = (vec![0.0; weight.columns()], vec![]);
        let rows = if let Some(Order::Rows(order)) = order { order.len() } else { weight.rows() };
        for i in 0..rows {
            let from = match order {
                Some(Order::Rows(order)) => order[i],
                Some(Order::Runs(run)) => i - i % run.len() + run[i % run.len()],
                _ => i,
            };
            let bytes = weight.row(from, &mut room);
            let factor = self.factors.get(from).or(self.factors.first()).copied().unwrap_or(1.0);
            let as_is = self.ty == weight.ty && weight.edit == Edit::None && factor == 1.0 && !matches!(order, Some(Order::Columns(_)));
            let bytes = if as_is {
                Cow::Borrowed(bytes)
            } else {
                weight.ty.decode(bytes, &mut row);
                weight.edit.apply(&mut row);
                row.iter_mut().for_each(|x| *x *= factor);
                let values = if let Some(Order::Columns(order)) = order { Cow::Owned(permuted(&row, order)) } else { Cow::Borrowed(&row) };
                Cow::Owned(self.encode(&values)?)
            };
            data.write(&self.name, &bytes)?;
        }
        weight.release();
        Ok(())
    }

    /// Values as the tensor's type stores them.
    fn encode(&self, values: &[f32]) -> Result<Vec<u8>> {
        let size = self.ty.row_bytes(values.len());
        let (Some(encode), Some(size)) = (self.ty.info().encode, size) else {
            let what = format!("`{}` cannot be written as {}", self.name, self.ty);
            return Err(Error::Convert { path: PathBuf::from(self.name.clone()), what });
        };
        let mut out = vec![0; size];
        encode(values, None, &mut out);
        Ok(out)
    }
}

fn permuted(values: &[f32], order: &[usize]) -> Vec<f32> {
    order.iter().map(|i| values[*i]).collect()
}
