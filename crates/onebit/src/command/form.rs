use crate::failure::Usage;
use anyhow::Context;
use onebit_engine::Engine;
use onebit_grammar::{Answer, Compiler, Grammar, Limits, Source};
use onebit_text::{ChatTemplate, parse::Output};
use std::path::PathBuf;

/// What the answer is held to.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Form of the answer")]
#[group(multiple = false)]
pub(crate) struct FormArgs {
    /// Answer with a JSON value that the JSON schema in this file allows
    #[arg(long, value_name = "FILE")]
    json_schema: Option<PathBuf>,
    /// Answer with a text of the grammar in this file: llama.cpp's GBNF, or Lark
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,
    /// Answer with a text that this regular expression matches as a whole
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,
}

impl FormArgs {
    /// The grammar of answers to a prompt. What the model thinks comes before it.
    pub(crate) fn grammar(&self, engine: &Engine, template: Option<&ChatTemplate>, prompt: &str) -> anyhow::Result<Option<Grammar>> {
        let Some((name, source)) = self.source()? else { return Ok(None) };
        let reads = template.map(|t| Output::of(&t.sources().collect::<Vec<_>>().join("\n")));
        let answer = Answer { source: Some(source), calls: None, opening: reads.map(|reads| reads.opening(prompt)).unwrap_or_default() };
        let compiler = Compiler::of(engine.tokenizer(), Limits::default())?;
        compiler.compile(&answer).map(Some).map_err(|error| Usage(format!("{name}: {error}")).into())
    }

    fn source(&self) -> anyhow::Result<Option<(String, Source)>> {
        let read = |path: &PathBuf| {
            let name = path.display().to_string();
            std::fs::read_to_string(path).with_context(|| format!("reading {name}")).map(|text| (name, text))
        };
        Ok(match (&self.json_schema, &self.grammar, &self.regex) {
            (Some(path), ..) => {
                let (name, text) = read(path)?;
                let schema = serde_json::from_str(&text).map_err(|error| Usage(format!("{name} is not JSON: {error}")))?;
                Some((name, Source::JsonSchema { schema, lenient: false }))
            }
            (_, Some(path), _) => Some(read(path)?).map(|(name, text)| (name, Source::grammar(text))),
            (.., Some(regex)) => Some(("--regex".into(), Source::Regex(regex.clone()))),
            _ => None,
        })
    }
}
