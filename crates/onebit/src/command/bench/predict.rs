//! `1bit bench --predict`: what a device that is not here would do.

use super::{Bench, Form};
use crate::{
    Loudness,
    failure::Usage,
    open::{self, DeviceArgs},
};
use onebit_formats::Checkpoint;
use onebit_gpu::{
    Gpu,
    predict::{self, Machine, Prediction},
};
use onebit_plan::{Batch, DeviceError, Limits, Model, Span};
use serde_json::json;
use std::{io::Write, path::Path};

/// A shape of the benchmark, and what is predicted of one of its steps.
struct Row {
    name: String,
    /// Tokens of all sequences in that step.
    tokens: usize,
    prediction: Prediction,
}

impl Row {
    fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.prediction.seconds
    }
}

impl Bench {
    /// Predicts each shape that would be measured.
    pub(super) fn predict(&self, architecture: &str, path: &Path, loudness: Loudness) -> anyhow::Result<()> {
        let machine = Machine::of(architecture)
            .ok_or_else(|| Usage(format!("--predict {architecture}: there is no model of time for it; there is one for gfx1151")))?;
        let checkpoint = Checkpoint::open(path)?;
        let args = DeviceArgs { device: "sim".into(), ..self.device.clone() };
        let mut model = open::decoder(&checkpoint, &args, loudness, "a benchmark")?;
        let shapes = self.shapes();
        let sequences = shapes.iter().map(|s| s.sequences).max().unwrap_or(1);
        let context = shapes.iter().map(|s| s.depth + s.tokens).max().unwrap_or(1);
        model.plan.fit_context(context);
        let limits = Limits { slots: sequences, ..open::limits(&model.plan, context, sequences, sequences, &args) };
        let mut rows = vec![];
        for shape in &shapes {
            // The middle of what is generated; of a prompt its last and longest step.
            let (each, start) = match shape.prompt {
                true => (shape.tokens.min(limits.batch), shape.depth + shape.tokens - shape.tokens.min(limits.batch)),
                false => (1, shape.depth + shape.tokens / 2),
            };
            let prediction = step(&machine, &model, &limits, shape.sequences, each, start)?;
            rows.push(Row { name: shape.name(), tokens: each * shape.sequences, prediction });
        }
        let mut out = std::io::stdout().lock();
        match self.output {
            Form::Md => self.table(&mut out, &machine, &rows)?,
            Form::Json => {
                let rows: Vec<_> = rows.iter().map(json_of).collect();
                let what =
                    json!({ "predicted": true, "model": self.model, "device": machine.name, "calibration": calibration(), "rows": rows });
                writeln!(out, "{}", serde_json::to_string_pretty(&what)?)?;
            }
            Form::Csv => {
                writeln!(out, "test,predicted_tokens_per_second,packets,weight_bytes")?;
                for row in &rows {
                    let p = &row.prediction;
                    writeln!(out, "{},{:.3},{},{}", row.name, row.tokens_per_second(), p.packets, p.weights)?;
                }
            }
        }
        Ok(())
    }

    fn table(&self, out: &mut dyn Write, machine: &Machine, rows: &[Row]) -> std::io::Result<()> {
        writeln!(out, "{} on {}: PREDICTED by a model of time, not measured\n", self.model, machine.name)?;
        writeln!(out, "| test | predicted tokens/s | weights read, GB/s | packets | what bounds it |")?;
        writeln!(out, "|---|---:|---:|---:|---|")?;
        for row in rows {
            let p = &row.prediction;
            let mut ops: Vec<_> = p.ops.iter().collect();
            ops.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
            let share = |seconds: f64| 100.0 * seconds / p.seconds;
            let shown = ops.iter().take(4).map(|((op, bound), (_, s))| format!("{op} ({}) {:.0} %", bound.name(), share(*s)));
            let rate = p.weights as f64 / p.seconds / 1e9;
            let bounds = shown.collect::<Vec<_>>().join(", ");
            writeln!(out, "| {} | {:.1} | {rate:.0} | {} | {bounds} |", row.name, row.tokens_per_second(), p.packets)?;
        }
        writeln!(out, "\nThe model against what others have measured on such machines:\n")?;
        for point in predict::calibration() {
            let (error, unit) = (100.0 * point.error(), point.unit);
            writeln!(out, "- {}: measured {} {unit}, predicted {:.1} ({error:+.0} %)", point.what, point.measured, point.predicted)?;
        }
        Ok(())
    }
}

/// A step of so many sequences with so many tokens each, from this position on.
fn step(machine: &Machine, model: &Model, limits: &Limits, sequences: usize, each: usize, start: usize) -> anyhow::Result<Prediction> {
    let tokens = vec![0; each * sequences];
    let spans: Vec<Span<'_>> = (0..sequences).map(|s| Span { len: each, start, pages: &[], slot: s as u32, outputs: 1 }).collect();
    let shape = onebit_gpu::shape(&Batch::text(&tokens, &spans), onebit_gpu::NARROW, 0);
    let dispatches = Gpu::dispatches(model, limits, &shape).map_err(|ops| {
        let (device, plan) = (machine.name.to_string(), model.plan.name.clone());
        DeviceError::Refused { device, plan, ops }
    })?;
    Ok(predict::predict(machine, &dispatches))
}

fn json_of(row: &Row) -> serde_json::Value {
    let p = &row.prediction;
    let ops: Vec<_> = p
        .ops
        .iter()
        .map(|((op, bound), (packets, seconds))| json!({ "op": op, "bound": bound.name(), "packets": packets, "seconds": seconds }))
        .collect();
    json!({
        "test": row.name,
        "predicted_tokens_per_second": row.tokens_per_second(),
        "predicted_seconds_per_step": p.seconds,
        "packets": p.packets,
        "weight_bytes": p.weights,
        "ops": ops,
    })
}

fn calibration() -> Vec<serde_json::Value> {
    let each =
        |p: predict::Point| json!({ "what": p.what, "unit": p.unit, "measured": p.measured, "predicted": p.predicted, "error": p.error() });
    predict::calibration().into_iter().map(each).collect()
}
