//! What was measured, in three forms.

use super::Form;
use onebit_cpu::{ProfileRow, Roof};
use onebit_plan::ActivationKind;
use serde::Serialize;
use std::io::{self, Write};

/// The machine and the model.
#[derive(Serialize)]
pub(super) struct About {
    pub(super) model: String,
    pub(super) architecture: String,
    pub(super) weight_bytes: usize,
    pub(super) device: &'static str,
    pub(super) processor: String,
    pub(super) isa: String,
    pub(super) threads: usize,
    pub(super) activations: ActivationKind,
    pub(super) repetitions: u16,
    pub(super) version: &'static str,
    /// What these threads reach without a model.
    pub(super) roof: Roof,
    /// From the name to a model that is ready, files in the system's cache or not.
    pub(super) load_seconds: f64,
    /// The most memory that the process has had, caches and the file's mapped pages among it.
    pub(super) peak_memory_bytes: Option<u64>,
}

/// One measurement.
#[derive(Serialize)]
pub(super) struct Row {
    /// As `Shape::name` has it.
    pub(super) test: String,
    /// Tokens per second, over all sequences: the median.
    pub(super) tokens_per_second: f64,
    /// The slowest repetition.
    pub(super) min: f64,
    /// The fastest.
    pub(super) max: f64,
    /// Bytes of weights, caches and states that are read for a token.
    pub(super) bytes_per_token: f64,
    /// Multiplications for a token, each with its addition.
    pub(super) products_per_token: f64,
    /// Of the roof's bytes per second.
    pub(super) share_of_reading: f64,
    /// Of the roof's products per second.
    pub(super) share_of_products: f64,
    /// Energy of the processors, all that the machine did meanwhile included.
    pub(super) joules_per_token: Option<f64>,
    /// By kind of step, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) profile: Option<Vec<Step>>,
}

/// One kind of step in the profile.
#[derive(Serialize)]
pub(super) struct Step {
    name: String,
    runs: u64,
    seconds: f64,
    share_of_time: f64,
    bytes_per_second: f64,
    share_of_reading: f64,
    share_of_products: f64,
}

impl Step {
    /// The rows of a profile, as shares of its time and of the roof.
    pub(super) fn all(rows: &[ProfileRow], roof: Roof) -> Vec<Self> {
        let total: f64 = rows.iter().map(|r| r.time.as_secs_f64()).sum();
        let step = |r: &ProfileRow| {
            let seconds = r.time.as_secs_f64();
            let bytes_per_second = r.effort.bytes as f64 / seconds;
            Self {
                name: r.name.clone(),
                runs: r.runs,
                seconds,
                share_of_time: seconds / total,
                bytes_per_second,
                share_of_reading: bytes_per_second / roof.read_bytes_per_second,
                share_of_products: r.effort.products as f64 / seconds / roof.products_per_second,
            }
        };
        rows.iter().filter(|r| !r.time.is_zero()).map(step).collect()
    }
}

/// Writes it all.
pub(super) fn write(out: &mut dyn Write, form: Form, about: &About, rows: &[Row]) -> io::Result<()> {
    match form {
        Form::Json => json(out, about, rows),
        Form::Csv => csv(out, rows),
        Form::Md => markdown(out, about, rows),
    }
}

fn json(out: &mut dyn Write, about: &About, rows: &[Row]) -> io::Result<()> {
    #[derive(Serialize)]
    struct Whole<'a> {
        #[serde(flatten)]
        about: &'a About,
        tests: &'a [Row],
    }
    writeln!(out, "{}", serde_json::to_string_pretty(&Whole { about, tests: rows })?)
}

fn csv(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    writeln!(out, "test,tokens_per_second,min,max,bytes_per_token,products_per_token,share_of_reading,share_of_products,joules_per_token")?;
    for r in rows {
        let joules = r.joules_per_token.map_or(String::new(), |j| format!("{j:.6}"));
        writeln!(
            out,
            "{},{:.2},{:.2},{:.2},{:.0},{:.0},{:.4},{:.4},{joules}",
            r.test, r.tokens_per_second, r.min, r.max, r.bytes_per_token, r.products_per_token, r.share_of_reading, r.share_of_products
        )?;
    }
    Ok(())
}

fn markdown(out: &mut dyn Write, about: &About, rows: &[Row]) -> io::Result<()> {
    let About { model, architecture, weight_bytes, processor, isa, threads, activations, roof, load_seconds, .. } = about;
    let megabytes = *weight_bytes as f64 / 1e6;
    writeln!(
        out,
        "{model} · {architecture} · {megabytes:.1} MB of weights · {processor}, {isa}, {threads} threads, activations {activations:?}"
    )?;
    write!(
        out,
        "\nThe machine reads {:.1} GB/s and multiplies {:.0} billion int8 numbers a second. Loaded in {load_seconds:.2} s",
        roof.read_bytes_per_second / 1e9,
        roof.products_per_second / 1e9
    )?;
    match about.peak_memory_bytes {
        Some(bytes) => writeln!(out, ", {:.0} MB of memory at most.", bytes as f64 / 1e6)?,
        None => writeln!(out, ".")?,
    }
    writeln!(out, "\n| test | tokens/s | min | max | of the reading | of the products | J/token |\n|---|---:|---:|---:|---:|---:|---:|")?;
    for r in rows {
        let joules = r.joules_per_token.map_or("-".into(), |j| format!("{j:.3}"));
        let [reading, products] = [r.share_of_reading, r.share_of_products].map(|share| format!("{:.0}%", 100.0 * share));
        writeln!(out, "| {} | {:.1} | {:.1} | {:.1} | {reading} | {products} | {joules} |", r.test, r.tokens_per_second, r.min, r.max)?;
    }
    for r in rows {
        let Some(steps) = &r.profile else { continue };
        writeln!(
            out,
            "\n| {} | runs | ms | of the time | GB/s | of the reading | of the products |\n|---|---:|---:|---:|---:|---:|---:|",
            r.test
        )?;
        for s in steps {
            let [time, reading, products] =
                [s.share_of_time, s.share_of_reading, s.share_of_products].map(|share| format!("{:.1}%", 100.0 * share));
            let (ms, rate) = (s.seconds * 1e3, s.bytes_per_second / 1e9);
            writeln!(out, "| {} | {} | {ms:.2} | {time} | {rate:.2} | {reading} | {products} |", s.name, s.runs)?;
        }
    }
    Ok(())
}
