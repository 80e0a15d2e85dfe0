//! From messages to what the engine is asked.

use crate::{failure::Usage, open::Loaded};
use anyhow::Context;
use onebit_engine::Request;
use onebit_text::{Encode, Render};
use onebit_vision::{Limits, Seen, Tower};
use serde_json::{Value, json};
use std::{io::Read, path::Path, sync::Arc};

/// A message of a user who shows `images` images.
pub(crate) fn message(text: &str, images: usize) -> Value {
    if images == 0 {
        return json!({"role": "user", "content": text});
    }
    let mut parts = vec![json!({"type": "image"}); images];
    parts.push(json!({"type": "text", "text": text}));
    json!({"role": "user", "content": parts})
}

/// The bytes of an image's file, within limits.
pub(crate) fn read_image(file: &Path) -> anyhow::Result<Vec<u8>> {
    let limits = Limits::default();
    let mut bytes = vec![];
    let opened = std::fs::File::open(file).with_context(|| file.display().to_string())?;
    // One more than is allowed, so that what is too long is seen to be.
    opened.take(limits.bytes as u64 + 1).read_to_end(&mut bytes).with_context(|| file.display().to_string())?;
    Ok(bytes)
}

/// What a model makes of an image; `file` is what errors call it.
pub(crate) fn see(tower: &Tower, bytes: &[u8], file: &Path) -> anyhow::Result<Arc<Seen>> {
    match tower.look(bytes, Limits::default()) {
        Err(error @ onebit_vision::Error::Device(_)) => Err(error.into()),
        seen => seen.map_err(|error| Usage(format!("{}: {error}", file.display())).into()),
    }
}

/// What a model makes of an image in a file.
pub(crate) fn look(tower: &Tower, file: &Path) -> anyhow::Result<Arc<Seen>> {
    see(tower, &read_image(file)?, file)
}

/// How a template's text is encoded.
pub(crate) const RENDERED: Encode = Encode { add_special: false, parse_special: true };

/// What the template makes of messages, in which images have their marks.
pub(crate) fn rendered(loaded: &Loaded, mut messages: Value) -> anyhow::Result<String> {
    let Some(template) = &loaded.template else { return Err(Usage(format!("{} has no chat template", loaded.name)).into()) };
    let processor = loaded.tower.as_ref().map(Tower::processor);
    template.contents(processor.map(|p| p.mark())).fit(&mut messages, processor.map_or("", |p| p.bare()));
    Ok(template.render(&messages, &Render { add_generation_prompt: true, ..Render::default() })?)
}

/// Asks for what follows a text. Images whose marks it lacks come before it.
pub(crate) fn of_text(loaded: &Loaded, text: &str, images: &[Arc<Seen>], encode: Encode) -> anyhow::Result<Request> {
    let tokenizer = loaded.engine.tokenizer();
    let mut request = Request::default();
    match loaded.tower.as_ref().filter(|_| !images.is_empty()) {
        None => request.prompt = tokenizer.encode(text, encode),
        Some(tower) => {
            let marked = text.contains(tower.processor().mark());
            let before = if marked { String::new() } else { tower.processor().bare().repeat(images.len()) };
            let text = before + text;
            let placed = onebit_server::place_images(&mut request, [text.as_str()], images, tower, tokenizer, encode.add_special);
            placed.map_err(|error| Usage(error.to_string()))?;
        }
    }
    Ok(request)
}
