//! Writes the GGUF form of a Hugging Face directory, as llama.cpp names and stores things.
//!
//! Nothing here knows an architecture: the plan says which weights there are and what they are called, the architecture's
//! table how they are stored, and the settings that were read while building noted what GGUF's metadata has to hold.

mod mmproj;
mod pieces;
mod pre;
mod tensors;
mod unigram;
mod vocabulary;
mod word_piece;

pub use mmproj::convert_vision;

use crate::{
    Error, Result,
    load::{Built, build},
    pooling,
};
use onebit_formats::{Checkpoint, Meta, Source, gguf::Writer};
use onebit_plan::{Pool, Progress};
use onebit_quants::WeightType;
use std::path::Path;

/// What [`convert`] is to make.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How matrices are stored; `None` keeps the type that they have. Vectors, routers and convolutions are always F32.
    pub ty: Option<WeightType>,
}

/// What [`convert`] made.
#[derive(Clone, Debug)]
pub struct Converted {
    /// The architecture's name in the file.
    pub architecture: &'static str,
    /// Number of tensors.
    pub tensors: usize,
    /// Bytes of the file.
    pub bytes: u64,
    /// What the user should know: a vocabulary that is missing, tensors that could not be stored in the type asked for.
    pub remarks: Vec<String>,
}

/// Writes the model in the Hugging Face directory `checkpoint` to the GGUF file `out`, which appears when it is complete.
///
/// The plan is built first, so a model that 1bit cannot run is refused before anything is written. Parts that do not
/// take part in it (vision towers, layers that predict further tokens) are left out; see [`convert_vision`] for towers.
///
/// # Errors
/// As [`load`](crate::load()); when GGUF cannot say something that the model needs; when the tokenizer is of a kind that has no
/// name in GGUF; when the file cannot be written.
pub fn convert(checkpoint: &Checkpoint, out: &Path, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Converted> {
    let refuse = writable(checkpoint, options)?;
    let built = build(checkpoint)?;
    let Some(architecture) = built.arch.gguf.first() else {
        return Err(refuse(format!("llama.cpp has no name for the architecture `{}`", built.model.plan.name)));
    };
    if let Some(what) = built.settings.unsayable().first() {
        return Err(refuse(what.clone()));
    }

    if let Some(number) = pooling_type(checkpoint, &built)? {
        built.settings.note("pooling_type", Meta::Unsigned(number));
    }
    let mut remarks = vec![];
    let mut writer = Writer::new(out);
    writer.pair("general.architecture", &Meta::Text(architecture.to_string()))?;
    writer.pair("general.type", &Meta::Text("model".into()))?;
    writer.pair("general.name", &Meta::Text(model_name(checkpoint)))?;
    writer.pair("general.quantization_version", &Meta::Unsigned(2))?;
    for (key, value) in built.settings.noted() {
        writer.pair(&key, &value)?;
    }
    for (key, values) in built.settings.noted_wide() {
        writer.wide(&key, &values)?;
    }
    match vocabulary::read(checkpoint, built.model.plan.vocabulary)? {
        Some(pairs) => vocabulary::write(&pairs, &mut writer)?,
        None => {
            writer.pair("tokenizer.ggml.model", &Meta::Text("none".into()))?;
            remarks.push("there is no tokenizer.json, SentencePiece model or vocab.txt, so the file holds no vocabulary".into());
        }
    }
    remarks.extend(built.settings.unread().iter().map(|what| not_run(what)));
    let tensors = tensors::plan(&built, options.ty, &mut remarks)?;
    write(writer, &tensors, architecture, remarks, progress)
}

/// What makes errors about the checkpoint, which can be written as a GGUF file, and in the type that is asked for.
fn writable(checkpoint: &Checkpoint, options: &Options) -> Result<impl Fn(String) -> Error> {
    let path = checkpoint.path.clone();
    let refuse = move |what: String| Error::Convert { path: path.clone(), what };
    if checkpoint.source == Source::Gguf {
        return Err(refuse("it is a GGUF file already".into()));
    }
    let encodes = |ty: WeightType| ty.info().encode.is_some() && ty.info().ggml_id.is_some();
    match options.ty.filter(|ty| !encodes(*ty)) {
        Some(ty) => Err(refuse(format!("1bit does not write the type {ty}"))),
        None => Ok(refuse),
    }
}

/// That llama.cpp makes something else of the file, because of `what`.
fn not_run(what: &str) -> String {
    format!("llama.cpp does not run the file as it is meant: {what}")
}

/// Writes the tensors behind the metadata.
fn write(
    mut writer: Writer,
    tensors: &[tensors::Stored<'_>],
    architecture: &'static str,
    remarks: Vec<String>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Converted> {
    tensors.iter().try_for_each(|t| writer.tensor(&t.name, t.ty, &t.shape))?;
    let bytes = writer.size();
    let mut data = writer.begin()?;
    let total: usize = tensors.iter().map(tensors::Stored::source_bytes).sum();
    let mut done = 0;
    for tensor in tensors {
        tensor.write(&mut data)?;
        done += tensor.source_bytes();
        progress(Progress { done, total });
    }
    data.finish()?;
    Ok(Converted { architecture, tensors: tensors.len(), bytes, remarks })
}

/// The number of the pooling that the model's embeddings are made by. An encoder's are its states' mean where it says nothing.
fn pooling_type(checkpoint: &Checkpoint, built: &Built<'_>) -> Result<Option<u64>> {
    let refuse = |what: &str| Error::Convert { path: checkpoint.path.clone(), what: what.into() };
    let pool = match pooling(checkpoint)? {
        Some(pooling) if !pooling.dense.is_empty() => return Err(refuse("GGUF has no place for the dense layers behind its pooling")),
        Some(pooling) => pooling.pool,
        None if built.model.plan.gives_hidden() => Pool::Mean,
        None => return Ok(None),
    };
    pooling::gguf_number(pool).map(Some).ok_or_else(|| refuse("GGUF has no name for its pooling"))
}

/// The folder's name.
fn model_name(checkpoint: &Checkpoint) -> String {
    let path = checkpoint.path.canonicalize().unwrap_or_else(|_| checkpoint.path.clone());
    let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
    folder.and_then(Path::file_name).map_or_else(|| "model".into(), |n| n.to_string_lossy().into_owned())
}
