//! `POST /slots/{id}?action=save|restore|erase`, in llama-server's shape: what a slot has computed, in a file and back.
//!
//! Files are written beside their place and moved there when they are whole and on the disk, so that neither a full disk nor a
//! stop leaves half of one. Only their owner can read them, as they hold what clients wrote.

use crate::error::ApiError;
use crate::json::{self, Fields, shorten};
use crate::state::{App, Model};
use crate::{answer, body};
use axum::body::Body;
use axum::extract::{Path as UrlPath, RawQuery, State};
use axum::response::Response;
use onebit_engine::{KeepError, Saved, SavedError, SavedForm};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a file's name.
const NAME: usize = 128;

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    UrlPath(id): UrlPath<String>,
    RawQuery(query): RawQuery,
    body: Body,
) -> Result<Response, ApiError> {
    if app.options.slot_save_path.is_none() {
        return Err(ApiError::unable("The server saves no slots: start it with `--slot-save-path FOLDER`"));
    }
    let model = app.watched(query.as_deref())?;
    let slot = id.parse::<usize>().map_err(|_| ApiError::invalid("id_slot", format!("`{}` is not the number of a slot", shorten(&id))))?;
    let action = query.iter().flat_map(|query| query.split('&')).find_map(|part| part.strip_prefix("action=")).unwrap_or_default();
    let action = Action::named(action)?;
    let received = body::read(&app, body).await?;
    let name = match action {
        Action::Erase => None,
        Action::Save | Action::Restore => Some(file_name(json::object(&received.bytes, &app.options.limits)?)?),
    };
    drop(received);
    // One at a time, as each takes memory for all that is saved.
    let _turn = app.keeping.acquire().await.map_err(ApiError::internal)?;
    let its_app = app.clone();
    let working = tokio::task::spawn_blocking(move || act(&its_app, &model, slot, action, name.as_deref().unwrap_or_default()));
    Ok(answer::json(&working.await.map_err(ApiError::internal)??))
}

#[derive(Clone, Copy)]
enum Action {
    Save,
    Restore,
    Erase,
}

impl Action {
    fn named(name: &str) -> Result<Self, ApiError> {
        match name {
            "save" => Ok(Self::Save),
            "restore" => Ok(Self::Restore),
            "erase" => Ok(Self::Erase),
            other => Err(ApiError::invalid(
                "action",
                format!("Invalid value for `action`: `{}`; there are save, restore, erase", shorten(other)),
            )),
        }
    }
}

/// The name that a request gives: one that leads nowhere else, and hides nothing.
fn file_name(mut fields: Fields) -> Result<String, ApiError> {
    let name = fields.string("filename")?.ok_or_else(|| ApiError::invalid("filename", "`filename` is missing"))?;
    fields.pass_over(&["model"]);
    fields.finish()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > NAME || name.starts_with('.') || !name.bytes().all(is_plain) {
        let message = format!("`filename` must have 1 to {NAME} letters, digits, `.`, `_` and `-`, and not begin with `.`");
        return Err(ApiError::invalid("filename", message));
    }
    Ok(name)
}

fn act(app: &App, model: &Model, slot: usize, action: Action, name: &str) -> Result<Value, ApiError> {
    let engine = &model.engine;
    let begun = Instant::now();
    let ms = || begun.elapsed().as_secs_f64() * 1e3;
    let folder = app.options.slot_save_path.as_deref().unwrap_or(Path::new("."));
    let form = || engine.saved_form().ok_or_else(|| ApiError::unable("Slots of this model cannot be saved"));
    match action {
        Action::Save => {
            let saved = engine.save(slot).map_err(refused)?;
            let written = write(folder, name, &saved, &model.info.identity, &form()?, app.options.limits.slot_files)?;
            let (n, timings) = (saved.tokens().len(), json!({ "save_ms": ms() }));
            Ok(json!({ "id_slot": slot, "filename": name, "n_saved": n, "n_written": written, "timings": timings }))
        }
        Action::Restore => {
            let (saved, size) = read(folder, name, &model.info.identity, &form()?)?;
            let n = saved.tokens().len();
            engine.restore(slot, saved).map_err(refused)?;
            let timings = json!({ "restore_ms": ms() });
            Ok(json!({ "id_slot": slot, "filename": name, "n_restored": n, "n_read": size, "timings": timings }))
        }
        Action::Erase => Ok(json!({ "id_slot": slot, "n_erased": engine.erase(slot).map_err(refused)? })),
    }
}

fn refused(error: KeepError) -> ApiError {
    match error {
        KeepError::NoSlot { .. } => ApiError::invalid("id_slot", error.to_string()),
        KeepError::Nothing { .. } => ApiError::bad_request(error.to_string()).coded("nothing_to_save"),
        KeepError::Images { .. } | KeepError::Unsupported(_) => ApiError::unable(error.to_string()),
        KeepError::Full { .. } => ApiError::unavailable("no_memory", error.to_string()).retry(1),
        KeepError::Stopped => ApiError::unavailable("shutting_down", error.to_string()),
    }
}

/// Writes the file, whole or not at all; gives its size.
fn write(folder: &Path, name: &str, saved: &Saved, identity: &[u8; 32], form: &SavedForm, most: usize) -> Result<u64, ApiError> {
    let failed = |error: io::Error| {
        tracing::error!(name, %error, "a slot could not be saved");
        ApiError::storage(format!("`{name}` could not be written: {}", error.kind()))
    };
    let path = folder.join(name);
    if !path.exists() && std::fs::read_dir(folder).map_err(failed)?.count() >= most {
        return Err(ApiError::storage(format!(
            "The folder for slots holds {most} files, which is the limit: save under a name that is there"
        )));
    }
    let mut file = tempfile::Builder::new().prefix(".saving-").tempfile_in(folder).map_err(failed)?;
    let mut out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
    let size = saved.write(identity, form, &mut out).and_then(|size| out.flush().map(|()| size)).map_err(failed)?;
    drop(out);
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(size)
}

/// Reads a file back; gives its size, too.
fn read(folder: &Path, name: &str, identity: &[u8; 32], form: &SavedForm) -> Result<(Saved, u64), ApiError> {
    let path = folder.join(name);
    let wrong = |what: &dyn std::fmt::Display| ApiError::invalid("filename", format!("`{name}` cannot be restored: {what}"));
    // Before it is opened: a pipe would wait for a writer.
    let meta = std::fs::metadata(&path).map_err(|error| wrong(&error.kind()))?;
    if !meta.is_file() {
        return Err(wrong(&"it is no file"));
    }
    let mut file = BufReader::with_capacity(1 << 20, File::open(&path).map_err(|error| wrong(&error.kind()))?);
    let saved = Saved::read(identity, form, meta.len(), &mut file).map_err(|error| match error {
        SavedError::Io(error) => wrong(&error.kind()),
        SavedError::Wrong(what) => wrong(&what),
    })?;
    Ok((saved, meta.len()))
}
