use crate::{Loudness, failure::Usage, open};
use anyhow::Context;
use onebit_text::{Encode, Tokenizer};
use std::io::{Read, Write};

/// Turn text into token ids, or ids into text
#[derive(clap::Args)]
pub(crate) struct Tokenize {
    /// The model
    model: String,
    /// The text; read from stdin where it is missing
    text: Option<String>,
    /// Turn these ids into text instead, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "IDS", conflicts_with = "text")]
    decode: Option<Vec<u32>>,
    /// Put the model's special tokens around the text
    #[arg(long)]
    special: bool,
    /// Take `<|im_end|>` and the like in the text for ordinary text
    #[arg(long)]
    plain: bool,
    /// As JSON: ids, or ids with the text of each
    #[arg(long)]
    json: bool,
    /// Read lines of JSON from stdin, and answer each by a line: a text by its ids, ids by their text
    #[arg(long, conflicts_with_all = ["text", "decode", "json"])]
    lines: bool,
}

/// A line of `--lines`.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Line {
    Text(String),
    Ids(Vec<u32>),
}

impl Tokenize {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let tokenizer = Tokenizer::from_checkpoint(&open::checkpoint(&self.model, Loudness::Normal)?)?;
        let mut out = std::io::stdout().lock();
        let options = Encode { add_special: self.special, parse_special: !self.plain };
        if self.lines {
            for (number, line) in (1..).zip(std::io::stdin().lines()) {
                let line = line.context("reading lines from stdin")?;
                let answer = match serde_json::from_str(&line) {
                    Ok(Line::Text(text)) => serde_json::to_string(&tokenizer.encode(&text, options)),
                    Ok(Line::Ids(ids)) => serde_json::to_string(&tokenizer.decode(&ids, false)),
                    Err(_) => return Err(Usage(format!("line {number} of stdin should be a JSON string, or an array of ids")).into()),
                };
                writeln!(out, "{}", answer?)?;
            }
            return Ok(());
        }
        if let Some(ids) = &self.decode {
            if let Some(id) = ids.iter().find(|id| **id as usize >= tokenizer.len()) {
                return Err(Usage(format!("token {id} is not in the vocabulary of {}", tokenizer.len())).into());
            }
            let text = tokenizer.decode(ids, false);
            writeln!(out, "{}", if self.json { serde_json::to_string(&text)? } else { text })?;
            return Ok(());
        }
        let text = match &self.text {
            Some(text) => text.clone(),
            None => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("reading the text from stdin")?;
                text
            }
        };
        let ids = tokenizer.encode(&text, options);
        if self.json {
            let rows: Vec<_> = ids.iter().map(|id| serde_json::json!({"id": id, "text": tokenizer.token_text(*id)})).collect();
            writeln!(out, "{}", serde_json::to_string(&rows)?)?;
        } else {
            writeln!(out, "{}", ids.iter().map(u32::to_string).collect::<Vec<_>>().join(","))?;
        }
        Ok(())
    }
}
