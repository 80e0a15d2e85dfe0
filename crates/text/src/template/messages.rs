//! What is done to messages before a template sees them.

use crate::{Error, Result};
use serde_json::{Map, Value};

/// Names under which a message's reasoning is found; templates read the first, or (gpt-oss) the second.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// Checked messages, without fields that are null, and with reasoning under the names that templates read.
pub(super) fn prepare(messages: &Value) -> Result<Vec<Map<String, Value>>> {
    let messages = messages.as_array().ok_or_else(|| Error::Messages("`messages` should be an array".into()))?;
    if messages.is_empty() {
        return Err(Error::Messages("there are no messages; at least one is needed".into()));
    }
    messages
        .iter()
        .enumerate()
        .map(|(i, message)| {
            let message = message.as_object().ok_or_else(|| Error::Messages(format!("message {i} should be an object")))?;
            let message: Map<String, Value> = message.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), v.clone())).collect();
            Ok(with_reasoning(message))
        })
        .collect()
}

fn with_reasoning(message: Map<String, Value>) -> Map<String, Value> {
    let Some(reasoning) = REASONING.iter().find_map(|name| message.get(*name)).cloned() else { return message };
    let mut all = Map::new();
    all.insert("thinking".to_owned(), reasoning.clone());
    all.extend(message);
    all.insert("reasoning_content".to_owned(), reasoning);
    all
}

/// Marks where the last message ends. It ends in a space, which tells whether the template trims.
const MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// A last message that is to go on.
pub(super) struct Open {
    text: String,
}

/// Marks the end of the last message's text.
pub(super) fn open_last(messages: &mut [Map<String, Value>], template: &str) -> Result<Open> {
    let wrong = |what: &str| Error::Messages(format!("the last message cannot go on: {what}"));
    if !template.contains("content") {
        return Err(wrong("the template does not use `content`"));
    }
    let content = messages.last_mut().and_then(|m| m.get_mut("content")).ok_or_else(|| wrong("it has no `content`"))?;
    let text = match content {
        Value::String(text) => text,
        Value::Array(parts) => match parts.iter_mut().rev().find_map(|part| part.get_mut("text")) {
            Some(Value::String(text)) => text,
            _ => return Err(wrong("its content has no text")),
        },
        _ => return Err(wrong("its content is no text")),
    };
    let open = Open { text: text.clone() };
    text.push_str(MARK);
    Ok(open)
}

impl Open {
    /// Cuts the rendered text where the last message ends.
    pub(super) fn cut(self, mut rendered: String) -> Result<String> {
        let at = rendered.rfind(MARK.trim_end()).filter(|_| rendered.contains(self.text.trim()));
        let at = at.ok_or_else(|| Error::Messages("the last message cannot go on: the template leaves out some of it".into()))?;
        let kept = rendered[at..].starts_with(MARK);
        rendered.truncate(at);
        if !kept {
            rendered.truncate(rendered.trim_end().len());
        }
        Ok(rendered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nulls_go_and_reasoning_has_two_names() {
        let got =
            prepare(&json!([{"role": "assistant", "content": null, "reasoning": "r"}, {"role": "user", "content": "c", "thinking": null}]))
                .unwrap();
        let want = r#"[{"thinking":"r","role":"assistant","reasoning":"r","reasoning_content":"r"},{"role":"user","content":"c"}]"#;
        assert_eq!(serde_json::to_string(&got).unwrap(), want);
    }

    #[test]
    fn refused() {
        for bad in [json!("a"), json!([]), json!(["a"]), json!({"role": "user"})] {
            assert!(matches!(prepare(&bad), Err(Error::Messages(_))), "{bad}");
        }
    }
}
