use crate::{
    Loudness,
    failure::Usage,
    open::{self, DeviceArgs},
    progress,
};
use anyhow::{Context, bail};
use onebit_formats::Checkpoint;
use onebit_plan::{Batch, Executable, Limits, Span};
use onebit_text::{Encode, Tokenizer};
use serde::Serialize;
use std::{io::Write, path::PathBuf};

/// Measure how well a model predicts a text, or how far a quantized model is from its original
///
/// The text is cut into windows; in each, the second half is predicted from what stands before it, as llama.cpp measures it.
/// With --kl, both models read the same windows, and the divergence of the second one's probabilities is measured as well.
#[derive(clap::Args)]
pub(crate) struct Perplexity {
    /// The model
    model: String,
    /// A text file
    text: PathBuf,
    /// Tokens in a window
    #[arg(short = 'c', long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u32).range(4..))]
    ctx_size: u32,
    /// Windows to measure [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// Tokens from one window's start to the next's; every token after the first window is then predicted once, with at least
    /// the window less the stride before it [default: windows do not overlap, and their first halves are not counted]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    stride: Option<u32>,
    /// The original, from which the model's probabilities diverge
    #[arg(long, value_name = "MODEL")]
    kl: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Rows of logits in one step.
const STEP: usize = 128;

/// What was measured.
#[derive(Serialize)]
struct Measured {
    model: String,
    windows: usize,
    window: usize,
    /// Tokens that were predicted.
    tokens: usize,
    perplexity: f64,
    /// One standard error of the perplexity.
    error: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kl: Option<Divergence>,
}

/// How far the probabilities are from the original's: Kullback-Leibler divergence of each prediction, in nats.
#[derive(Serialize)]
struct Divergence {
    base: String,
    base_perplexity: f64,
    mean: f64,
    median: f64,
    percentile_99: f64,
    max: f64,
    /// Share of predictions whose most probable token is the same.
    same_top: f64,
}

impl Perplexity {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let text =
            std::fs::read_to_string(&self.text).with_context(|| self.text.display().to_string()).map_err(|e| Usage(format!("{e:#}")))?;
        let checkpoint = open::checkpoint(&self.model, loudness)?;
        let tokenizer = Tokenizer::from_checkpoint(&checkpoint)?;
        let tokens = tokenizer.encode(&text, Encode { add_special: true, parse_special: false });
        let window = self.ctx_size as usize;
        // Where the vocabulary begins every text with a token, every window begins with it.
        let lead = tokenizer.encode("", Encode { add_special: true, parse_special: false }).first().copied();
        let windows = self.windows(tokens.len(), window)?;
        let mut model = Reader::open(&checkpoint, window, &self.device, loudness)?;
        let mut base = match &self.kl {
            None => None,
            Some(name) => {
                let original = open::checkpoint(name, loudness)?;
                let base = Reader::open(&original, window, &self.device, loudness)?;
                if base.vocabulary != model.vocabulary {
                    let (a, b) = (base.vocabulary, model.vocabulary);
                    return Err(Usage(format!("{name} has a vocabulary of {a}, {} of {b}: they cannot be compared", self.model)).into());
                }
                Some(base)
            }
        };
        let bar = progress::count(loudness, "windows", windows.len());
        let (mut losses, mut base_losses, mut divergences, mut same) = (vec![], vec![], vec![], 0usize);
        for &(start, first) in &windows {
            let mut ids = tokens[start..start + window].to_vec();
            if let Some(lead) = lead {
                ids[0] = lead;
            }
            let ours = model.read(&ids, first)?;
            let theirs = base.as_mut().map(|b| b.read(&ids, first)).transpose()?;
            for (i, target) in ids[first..].iter().enumerate() {
                let row = |logits: &[f32]| log_softmax(&logits[i * model.vocabulary..][..model.vocabulary]);
                let p = row(&ours);
                let loss = -p[*target as usize];
                if !loss.is_finite() {
                    let name = &self.model;
                    bail!(
                        "{name}: the logits for token {} are no numbers; `1bit show --check {name}` finds broken weights",
                        start + first + i
                    );
                }
                losses.push(loss);
                if let Some(theirs) = &theirs {
                    let q = row(theirs);
                    base_losses.push(-q[*target as usize]);
                    divergences.push(q.iter().zip(&p).map(|(q, p)| q.exp() * (q - p)).sum::<f64>().max(0.0));
                    same += usize::from(top(&q) == top(&p));
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let (perplexity, error) = exponential(&losses);
        let kl = self.kl.as_ref().map(|name| {
            let mean = divergences.iter().sum::<f64>() / divergences.len() as f64;
            divergences.sort_by(f64::total_cmp);
            let at = |share: f64| divergences[((divergences.len() - 1) as f64 * share).round() as usize];
            let (median, percentile_99, max) = (at(0.5), at(0.99), at(1.0));
            let same_top = same as f64 / divergences.len() as f64;
            Divergence { base: name.clone(), base_perplexity: exponential(&base_losses).0, mean, median, percentile_99, max, same_top }
        });
        let measured = Measured { model: self.model.clone(), windows: windows.len(), window, tokens: losses.len(), perplexity, error, kl };
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&measured)?)?;
            return Ok(());
        }
        writeln!(
            out,
            "perplexity {perplexity:.4} ± {error:.4} over {} tokens in {} windows of {window}",
            measured.tokens, measured.windows
        )?;
        if let Some(kl) = &measured.kl {
            writeln!(out, "original   {:.4} ({})", kl.base_perplexity, kl.base)?;
            writeln!(
                out,
                "divergence mean {:.6}, median {:.6}, 99% {:.6}, largest {:.6} nats",
                kl.mean, kl.median, kl.percentile_99, kl.max
            )?;
            writeln!(out, "same most probable token {:.2}%", kl.same_top * 100.0)?;
        }
        Ok(())
    }

    /// (start, first predicted position) of each window.
    fn windows(&self, tokens: usize, window: usize) -> anyhow::Result<Vec<(usize, usize)>> {
        let most = self.windows.map_or(usize::MAX, |n| n as usize);
        let step = self.stride.map_or(window, |s| (s as usize).min(window));
        let starts = (0..).map(|i| i * step).take_while(|start| start + window <= tokens);
        let windows: Vec<_> = match self.stride {
            // As llama.cpp counts: the first token of the second half is read, not predicted.
            None => starts.map(|s| (s, window / 2 + 1)).take(most).collect(),
            Some(_) => starts.map(|s| (s, if s == 0 { 1 } else { window - step })).take(most).collect(),
        };
        if windows.is_empty() {
            return Err(
                Usage(format!("{} has {tokens} tokens: too few for a window of {window}; lower --ctx-size", self.text.display())).into()
            );
        }
        Ok(windows)
    }
}

/// A model that reads windows.
struct Reader {
    executable: Box<dyn Executable>,
    pages: Vec<u32>,
    vocabulary: usize,
}

impl Reader {
    fn open(checkpoint: &Checkpoint, window: usize, device: &DeviceArgs, loudness: Loudness) -> anyhow::Result<Self> {
        let mut model = open::decoder(checkpoint, device, loudness, "perplexity")?;
        model.plan.fit_context(window);
        let vocabulary = model.plan.vocabulary;
        let limits = Limits { batch: STEP, slots: 1, ..open::limits(&model.plan, window, 1, STEP, device) };
        let pages = (0..limits.pages as u32).collect();
        Ok(Self { executable: open::executable(model, device, &limits, loudness)?, pages, vocabulary })
    }

    /// Logits from which the tokens from `first` on are predicted, `[window - first, vocabulary]`.
    fn read(&mut self, ids: &[u32], first: usize) -> anyhow::Result<Vec<f32>> {
        let mut logits = Vec::with_capacity((ids.len() - first) * self.vocabulary);
        let mut start = 0;
        for tokens in ids[..ids.len() - 1].chunks(STEP) {
            // Position i predicts token i + 1.
            let outputs = (start + tokens.len()).saturating_sub(first - 1).min(tokens.len());
            let span = Span { len: tokens.len(), start, pages: &self.pages, slot: 0, outputs };
            logits.extend_from_slice(self.executable.step(&Batch::text(tokens, &[span]))?);
            start += tokens.len();
        }
        Ok(logits)
    }
}

/// Logarithms of the probabilities.
fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = logits.iter().map(|x| f64::from(x - largest).exp()).sum();
    let norm = f64::from(largest) + total.ln();
    logits.iter().map(|x| f64::from(*x) - norm).collect()
}

fn top(p: &[f64]) -> usize {
    p.iter().enumerate().fold(0, |best, (i, v)| if *v > p[best] { i } else { best })
}

/// exp of the mean loss, and its standard error.
fn exponential(losses: &[f64]) -> (f64, f64) {
    let n = losses.len() as f64;
    let mean = losses.iter().sum::<f64>() / n;
    let variance = losses.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean.exp(), mean.exp() * (variance / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(stride: Option<u32>, windows: Option<u32>) -> Perplexity {
        use clap::Parser;
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            it: Perplexity,
        }
        let mut it = Only::parse_from(["x", "m", "t"]).it;
        (it.stride, it.windows) = (stride, windows);
        it
    }

    #[test]
    fn windows_cover_the_text() {
        assert_eq!(args(None, None).windows(10, 4).unwrap(), [(0, 3), (4, 3)]);
        assert_eq!(args(Some(2), None).windows(9, 4).unwrap(), [(0, 1), (2, 2), (4, 2)]);
        assert_eq!(args(Some(2), Some(1)).windows(9, 4).unwrap(), [(0, 1)]);
        assert!(args(None, None).windows(3, 4).unwrap_err().to_string().contains("--ctx-size"));
    }

    /// By hand: losses ln 2 and ln 8 have the mean ln 4, the variance 2 ln² 2 and the error 4 ln 2.
    #[test]
    fn mean_and_error() {
        let (perplexity, error) = exponential(&[2f64.ln(), 8f64.ln()]);
        assert!((perplexity - 4.0).abs() < 1e-12 && (error - 4.0 * 2f64.ln()).abs() < 1e-12, "{perplexity} {error}");
        let p = log_softmax(&[0.0, 3f32.ln(), f32::NEG_INFINITY]);
        assert!((p[0].exp() - 0.25).abs() < 1e-7 && (p[1].exp() - 0.75).abs() < 1e-7 && p[2].exp() == 0.0);
    }
}
