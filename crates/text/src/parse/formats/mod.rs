//! The formats: one file each, one line each in [`ALL`].

mod apertus;
mod apriel;
mod command_r;
mod deepseek;
mod deepseek_dsml;
mod functionary;
mod functionary_v3_2;
mod gemma4;
mod generic;
mod gigachat;
mod glm;
mod granite;
mod harmony;
mod hermes;
mod hunyuan;
mod kimi;
mod kimi_k3;
mod lfm2;
mod llama3;
mod minicpm5;
mod minimax;
mod minimax_m3;
mod mistral;
mod muse;
mod nemotron;
mod olmo3;
mod phi4;
mod pythonic;
mod qwen_coder;
mod seed_oss;
mod solar;

use super::{Format, Open, Pair, Parser, Written};
use serde_json::Value;

/// All formats. Of those whose marks a template holds the first is taken, so what is more particular comes first; the last one
/// takes all.
pub static ALL: &[&Format] = &[
    &harmony::FORMAT,
    &muse::FORMAT,
    &kimi_k3::FORMAT,
    &gemma4::FORMAT,
    &deepseek_dsml::FORMAT,
    &deepseek::FORMAT,
    &kimi::FORMAT,
    &minimax::FORMAT,
    &minimax_m3::FORMAT,
    &hunyuan::FORMAT,
    &seed_oss::FORMAT,
    &glm::FORMAT,
    &qwen_coder::FORMAT,
    &functionary::FORMAT,
    &functionary_v3_2::FORMAT,
    &minicpm5::FORMAT,
    &gigachat::FORMAT,
    &solar::FORMAT,
    &apriel::FORMAT,
    &mistral::FORMAT,
    &command_r::FORMAT,
    &lfm2::FORMAT,
    &apertus::FORMAT,
    &nemotron::FORMAT,
    &olmo3::FORMAT,
    &phi4::FORMAT,
    &granite::FORMAT,
    &hermes::FORMAT,
    &pythonic::FORMAT,
    &llama3::FORMAT,
    &generic::FORMAT,
];

/// Marks of reasoning; those whose closing one a template holds are in use.
pub(crate) static REASONING: &[Pair] = &[
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("◁think▷", "◁/think▷"),
    ("<thinking>", "</thinking>"),
    // Apriel's, without a mark that is a token.
    ("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
];

/// How the output of one model is to be read.
#[derive(Clone, Debug)]
pub struct Output {
    pub(crate) format: &'static Format,
    pub(crate) pairs: Vec<Pair>,
    /// The ways in which calls may be written; the first one is the template's own.
    written: Vec<&'static Written>,
}

impl Output {
    /// By the sources of its chat template, one after the other if there are several. What has none of the known marks gets a format that reads the most usual ones.
    pub fn of(template: &str) -> Self {
        let format = ALL.iter().find(|format| (format.detect)(template)).copied().unwrap_or(&generic::FORMAT);
        let used = REASONING.iter().filter(|(_, close)| template.contains(close));
        let written = format.written.iter().filter(|written| (written.when)(template)).collect();
        Self { format, pairs: format.reasoning.iter().chain(used).copied().collect(), written }
    }

    /// The same reasoning, and calls in JSON without marks: for a template that has no place for tools.
    pub fn with_plain_calls(&self) -> Self {
        let format = &generic::FORMAT;
        Self { format, pairs: self.pairs.clone(), written: format.written.iter().collect() }
    }

    /// How calls are written: in one of these ways.
    pub fn written(&self) -> &[&'static Written] {
        &self.written
    }

    /// The format's name.
    pub fn name(&self) -> &'static str {
        self.format.name
    }

    /// Whether there is anything to be taken out of an answer even without tools.
    pub fn reasons(&self) -> bool {
        !self.pairs.is_empty() || !self.format.silent.is_empty()
    }

    /// A parser of one answer: see [`Parser::new`].
    pub fn parser(&self, prompt: &str, tools: Option<&Value>, reasoning: bool) -> Parser {
        Parser::new(self, prompt, tools, reasoning)
    }

    /// Whether a special token of this text may be a part of what the format reads, so that it must not be left out of the text.
    pub fn needs(&self, token: &str) -> bool {
        let blocks = self.format.blocks.iter().flat_map(|block| {
            let open = match block.open {
                Open::Mark(mark) => Some(mark),
                Open::Start(_) => None,
            };
            let close = match block.close {
                super::Close::Marks(marks) => marks,
                super::Close::Brackets => &[],
            };
            open.into_iter().chain(close.iter().copied())
        });
        let pairs = self.pairs.iter().flat_map(|(open, close)| [*open, *close]);
        let all = blocks.chain(pairs).chain(self.format.silent.iter().copied()).chain(self.format.within.iter().copied());
        !token.is_empty() && all.into_iter().any(|mark| mark.contains(token) || token.contains(mark))
    }
}
