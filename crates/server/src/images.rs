//! Images in chats: from parts of messages to rows that stand in for tokens of the prompt.

use crate::error::ApiError;
use crate::generation::refused;
use crate::json::{shorten, too_many, wrong_type};
use crate::marks::Rendered;
use crate::options::Limits;
use crate::state::Model;
use onebit_engine::{Given, Request, SubmitError};
use onebit_text::Tokenizer;
use onebit_vision::{Error, Seen, Tower, data_url, place};
use serde_json::{Map, Value};
use std::sync::Arc;

/// An image of a message.
#[derive(Debug, PartialEq)]
pub(crate) struct Image {
    /// The field that it came from.
    at: String,
    /// The file's bytes.
    bytes: Vec<u8>,
}

/// Gathers the images of a chat's messages, in order.
pub(crate) struct Images<'a> {
    /// Whether the model sees.
    pub(crate) sees: bool,
    pub(crate) limits: &'a Limits,
    pub(crate) found: Vec<Image>,
}

impl Images<'_> {
    /// Takes the image of a part, `{"type": "image_url", "image_url": {"url": ...}}`, or with a string for the object.
    pub(crate) fn take(&mut self, at: &str, part: &Map<String, Value>) -> Result<(), ApiError> {
        if !self.sees {
            let message = format!("`{at}`: the model has no vision, so images cannot be part of a message");
            return Err(ApiError::unsupported(at, message));
        }
        let at = format!("{at}.image_url");
        let url = match part.get("image_url") {
            Some(Value::String(url)) => url,
            Some(Value::Object(image)) => {
                match image.get("detail") {
                    None | Some(Value::Null) => {}
                    Some(Value::String(detail)) if detail == "auto" || detail == "high" => {}
                    Some(_) => {
                        let message =
                            format!("`{at}.detail` must be `auto` or `high`: images are always seen as the model's processor cuts them");
                        return Err(ApiError::unsupported(format!("{at}.detail"), message));
                    }
                }
                match image.get("url") {
                    Some(Value::String(url)) => url,
                    other => return Err(wrong_type(&format!("{at}.url"), "a string", other.unwrap_or(&Value::Null))),
                }
            }
            other => return Err(wrong_type(&at, "an object with `url`", other.unwrap_or(&Value::Null))),
        };
        if self.found.len() == self.limits.images {
            return Err(too_many("images", self.limits.images + 1, self.limits.images).of(at));
        }
        let bytes = match data_url(url, self.limits.image) {
            Some(bytes) => bytes.map_err(|error| unusable(&at, &error))?,
            None => {
                let message = format!("`{at}`: `{}` is not fetched; send the image itself, as `data:image/png;base64,...`", shorten(url));
                return Err(ApiError::unsupported(at, message));
            }
        };
        self.found.push(Image { at, bytes });
        Ok(())
    }
}

/// Makes the request's prompt of what was rendered, with rows where images are.
pub(crate) fn fill(request: &mut Request, rendered: &Rendered, images: &[Image], model: &Model, limits: &Limits) -> Result<(), ApiError> {
    let tokenizer = model.engine.tokenizer();
    let Some(tower) = model.tower.as_ref().filter(|_| !images.is_empty()) else {
        request.prompt = rendered.tokens(tokenizer);
        return Ok(());
    };
    let seen = look(tower, images, model.engine.context(), limits)?;
    let placed = place_images(request, rendered.pieces(), &seen, tower, tokenizer, false);
    placed.map_err(|error| ApiError::invalid("messages", format!("Invalid value for `messages`: {error}")))
}

/// Makes a request's prompt of rendered text, with the rows of images where their marks stand; as [`place`].
///
/// # Errors
/// As [`place`].
pub fn place_images<'t>(
    request: &mut Request,
    pieces: impl IntoIterator<Item = &'t str>,
    images: &[Arc<Seen>],
    tower: &Tower,
    tokenizer: &Tokenizer,
    add_special: bool,
) -> Result<(), Error> {
    let placed = place(pieces, images, tower.processor(), tokenizer, add_special)?;
    let whole = tower.whole();
    let given = placed.runs.iter().map(|run| {
        let rows = images[run.image].rows.clone();
        Given { start: run.start, len: run.len, rows, first: run.first, whole }
    });
    request.given = given.collect();
    (request.prompt, request.axes) = (placed.ids, placed.axes.into());
    Ok(())
}

fn look(tower: &Tower, images: &[Image], context: usize, limits: &Limits) -> Result<Vec<Arc<Seen>>, ApiError> {
    let mut rows = 0;
    let see = |image: &Image| {
        let seen = tower.look(&image.bytes, limits.image).map_err(|error| unusable(&image.at, &error))?;
        rows += seen.count;
        // What cannot be answered is not looked at any further.
        if rows >= context {
            return Err(refused(SubmitError::TooLong { prompt: rows, limit: context }, "messages"));
        }
        Ok(seen)
    };
    images.iter().map(see).collect()
}

fn unusable(at: &str, error: &Error) -> ApiError {
    match error {
        Error::Invalid(_) | Error::TooLarge(_) => ApiError::invalid(at, format!("Invalid value for `{at}`: {error}")),
        Error::Device(_) => ApiError::internal(error),
    }
}
