//! The measurements themselves.

use onebit_engine::sampler;
use onebit_plan::{Batch, Executable, Limits, Span};
use std::time::Instant;

/// What is measured: some sequences, each with a context, read or generate some tokens.
pub(super) struct Shape {
    pub(super) sequences: usize,
    pub(super) depth: usize,
    pub(super) tokens: usize,
    pub(super) prompt: bool,
}

impl Shape {
    /// `pp512`, `tg128`, with `x8` and `@d4096` where that applies.
    pub(super) fn name(&self) -> String {
        let depth = if self.depth > 0 { format!(" @d{}", self.depth) } else { String::new() };
        let sequences = if self.sequences > 1 { format!(" x{}", self.sequences) } else { String::new() };
        format!("{}{}{sequences}{depth}", if self.prompt { "pp" } else { "tg" }, self.tokens)
    }
    /// Tokens of all sequences.
    pub(super) fn total(&self) -> usize {
        self.tokens * self.sequences
    }

    /// Seconds of one repetition, after bringing the sequences to their depth; `begin` is called between the two.
    pub(super) fn seconds(&self, executable: &mut dyn Executable, limits: &Limits, begin: impl FnOnce()) -> anyhow::Result<f64> {
        let vocabulary = executable.vocabulary();
        let token = |i: usize, sequence: usize| ((i * 7919 + sequence * 104_729 + 100) % vocabulary) as u32;
        let each = limits.pages / limits.slots;
        let pages: Vec<Vec<u32>> = (0..self.sequences).map(|s| (s * each..(s + 1) * each).map(|p| p as u32).collect()).collect();
        let read = |executable: &mut dyn Executable, sequence: usize, from: usize, to: usize| -> anyhow::Result<()> {
            let ids: Vec<u32> = (from..to).map(|i| token(i, sequence)).collect();
            let mut start = from;
            for tokens in ids.chunks(limits.batch) {
                let outputs = usize::from(start + tokens.len() == to);
                let span = Span { len: tokens.len(), start, pages: &pages[sequence], slot: sequence as u32, outputs };
                let logits = executable.step(&Batch::text(tokens, &[span]))?;
                start += tokens.len();
                if outputs > 0 {
                    // A model that computes nonsense is not fast.
                    sampler::check(logits, start - 1)?;
                }
            }
            Ok(())
        };
        for sequence in 0..self.sequences {
            read(executable, sequence, 0, self.depth)?;
        }
        begin();
        let start = Instant::now();
        let end = self.depth + self.tokens;
        if self.prompt {
            read(executable, 0, self.depth, end)?;
        } else {
            for i in self.depth..end {
                let tokens: Vec<u32> = (0..self.sequences).map(|s| token(i, s)).collect();
                let spans: Vec<Span<'_>> =
                    pages.iter().enumerate().map(|(s, p)| Span { len: 1, start: i, pages: p, slot: s as u32, outputs: 1 }).collect();
                let logits = executable.step(&Batch::text(&tokens, &spans))?;
                if i + 1 == end {
                    sampler::check(&logits[..vocabulary], i)?;
                }
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }
}
