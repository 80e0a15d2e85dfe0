//! Renders templates for `tests/check_templates.py`: one JSON object a line from stdin, `{"source", "messages", "tools", "bos", "eos",
//! "extra"}`, and for each one out, `{"text"}`, or `{"error"}` with `"kind"` for whose fault it is.

use onebit_text::{ChatTemplate, Error, Render};
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::time::{Duration, SystemTime};

/// The time in all templates: 29 February 2024, noon.
const NOW: Duration = Duration::from_secs(1_709_208_000);

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let case: Value = serde_json::from_str(&line?)?;
        let answer = match render(&case) {
            Ok(text) => json!({ "text": text }),
            Err(error) => {
                let kind = if matches!(error, Error::Messages(_)) { "messages" } else { "template" };
                json!({ "error": error.to_string(), "kind": kind })
            }
        };
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

fn render(case: &Value) -> Result<String, Error> {
    let text = |name: &str| case[name].as_str().unwrap_or_default();
    let mut options = Render {
        tools: case.get("tools").filter(|tools| !tools.is_null()).cloned(),
        add_generation_prompt: true,
        now: Some(SystemTime::UNIX_EPOCH + NOW),
        ..Render::default()
    };
    for (name, value) in case["extra"].as_object().into_iter().flatten() {
        match name.as_str() {
            "add_generation_prompt" => options.add_generation_prompt = value.as_bool().unwrap_or(false),
            _ => drop(options.extra.insert(name.clone(), value.clone())),
        }
    }
    ChatTemplate::new(text("source"), text("bos"), text("eos"))?.render(&case["messages"], &options)
}
