//! Conversations in files: OpenAI's messages, in JSON.

use crate::failure::Usage;
use anyhow::Context;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
};

/// The most bytes of a file.
const MOST: u64 = 256 << 20;
/// The most messages.
const MESSAGES: usize = 65_536;

/// Writes a conversation. A file that holds something else is not written over.
pub(super) fn write(file: &Path, model: &str, messages: &[Value]) -> anyhow::Result<()> {
    if file.exists() && read(file).is_err() {
        return Err(Usage(format!("{}: is there already, and is no conversation; choose another name", file.display())).into());
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut place = tempfile::NamedTempFile::new_in(folder).with_context(|| folder.display().to_string())?;
    let text = serde_json::to_string_pretty(&json!({ "model": model, "messages": messages }))?;
    place.write_all(text.as_bytes()).and_then(|()| place.write_all(b"\n")).with_context(|| file.display().to_string())?;
    place.persist(file).map_err(|error| error.error).with_context(|| file.display().to_string())?;
    Ok(())
}

/// The messages of a file that `write` or somebody else has written: `{"messages": [...]}` or only the array.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let wrong = |what: String| Usage(format!("{}: {what}", file.display()));
    let mut text = String::new();
    let opened = File::open(file).with_context(|| file.display().to_string())?;
    if !opened.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(wrong("is no file".into()).into());
    }
    opened.take(MOST + 1).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    if text.len() as u64 > MOST {
        return Err(wrong(format!("has more than {MOST} bytes")).into());
    }
    let whole: Value = serde_json::from_str(&text).map_err(|error| wrong(format!("is no JSON: {error}")))?;
    let messages = match whole {
        Value::Array(messages) => messages,
        Value::Object(mut object) => match object.remove("messages") {
            Some(Value::Array(messages)) => messages,
            _ => return Err(wrong("`messages` has to be an array".into()).into()),
        },
        _ => return Err(wrong("is no conversation: an object with `messages` is needed".into()).into()),
    };
    if messages.len() > MESSAGES {
        return Err(wrong(format!("`messages` has {} entries; the limit is {MESSAGES}", messages.len())).into());
    }
    for (i, message) in messages.iter().enumerate() {
        check(message).map_err(|what| wrong(format!("messages[{i}]{what}")))?;
    }
    Ok(messages)
}

/// What is wrong with a message, behind its name.
fn check(message: &Value) -> Result<(), String> {
    let role = message["role"].as_str().unwrap_or_default();
    if !["system", "user", "assistant"].contains(&role) {
        return Err(".role has to be system, user or assistant".into());
    }
    match &message["content"] {
        Value::String(_) => Ok(()),
        Value::Array(parts) => parts.iter().enumerate().try_for_each(|(i, part)| match part["type"].as_str() {
            Some("text") if part["text"].is_string() => Ok(()),
            Some("image_url") if role == "user" => {
                image(part).map(drop).ok_or_else(|| format!(".content[{i}].image_url.url has to be a `data:` URL in base64"))
            }
            _ => Err(format!(".content[{i}] has to be a text, or an image of a user's")),
        }),
        _ => Err(".content has to be a string or an array of parts".into()),
    }
}

/// A part of a message that shows an image.
pub(super) fn image_part(bytes: &[u8]) -> Value {
    let kind = match bytes {
        [0x89, b'P', b'N', b'G', ..] => "png",
        [0xff, 0xd8, ..] => "jpeg",
        [b'G', b'I', b'F', ..] => "gif",
        [b'B', b'M', ..] => "bmp",
        _ => "webp",
    };
    json!({ "type": "image_url", "image_url": { "url": format!("data:image/{kind};base64,{}", STANDARD.encode(bytes)) } })
}

/// The bytes of the image that a part shows.
pub(super) fn image(part: &Value) -> Option<Vec<u8>> {
    let (_, data) = part["image_url"]["url"].as_str()?.strip_prefix("data:image/")?.split_once(";base64,")?;
    STANDARD.decode(data).ok()
}

/// The images of messages, in their order.
pub(super) fn images(messages: &[Value]) -> Vec<Vec<u8>> {
    messages.iter().flat_map(|message| message["content"].as_array()).flatten().filter_map(image).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chat.json");
        let png = [0x89, b'P', b'N', b'G', 1, 2, 3];
        let user = json!({ "role": "user", "content": [image_part(&png), { "type": "text", "text": "what is it? \u{1f600}" }] });
        let messages = vec![json!({ "role": "system", "content": "s" }), user, json!({ "role": "assistant", "content": "a" })];
        write(&file, "m", &messages).unwrap();
        assert_eq!(read(&file).unwrap(), messages);
        assert_eq!(images(&messages), [png]);
        // Again, over itself; but over nothing else.
        write(&file, "m", &messages[..1]).unwrap();
        assert_eq!(read(&file).unwrap().len(), 1);
        let other = folder.path().join("notes.txt");
        std::fs::write(&other, "mine").unwrap();
        assert!(write(&other, "m", &messages).unwrap_err().to_string().contains("notes.txt: is there already"));
        assert_eq!(std::fs::read(&other).unwrap(), b"mine");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.json");
        for (text, word) in [
            ("", "is no JSON"),
            ("3", "is no conversation"),
            ("{\"messages\": 3}", "`messages` has to be an array"),
            ("[{\"role\": \"tool\", \"content\": \"x\"}]", "messages[0].role"),
            ("[{\"role\": \"user\"}]", "messages[0].content"),
            (
                "[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"http://x\"}}]}]",
                "content[0].image_url.url",
            ),
            ("[{\"role\": \"assistant\", \"content\": [{\"type\": \"image_url\"}]}]", "messages[0].content[0]"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = read(&file).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("x.json"), "{text}: {error}");
        }
        assert!(read(folder.path()).unwrap_err().to_string().contains("is no file"));
    }
}
