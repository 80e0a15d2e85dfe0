//! Vision towers: from a checkpoint, or a file beside one, to plans and a processor of images.
//!
//! A tower is two plans. The *encoder* takes patches of pixels, all of an image (or of a piece of it) in one step, and gives a row for
//! each. Then the host brings together the rows that become one token. The *projector* takes those and gives rows that a text model
//! takes instead of tokens. So no op mixes rows, and a device needs to know nothing of images.
//!
//! A family is a file: names of tensors, settings, both plans, and which [`Processor`] cuts its pictures. `source` is what they read
//! from, `vit` the transformer that nearly all have, `tiled` what those have in common that see squares of one size.

mod gemma3;
mod gemma4;
mod idefics3;
mod internvl;
mod llava;
mod pixtral;
mod qwen;
pub(crate) mod source;
mod tiled;
mod vit;

use crate::{Error, Result, arch::Arch, names::Entry};
use onebit_formats::{Checkpoint, Source as Kind};
use onebit_plan::{Model, Sight};
use onebit_vision::Processor;
use source::Source;

/// A vision tower, its weights still in their file.
#[derive(Debug)]
pub struct Vision {
    /// From patches to a row for each.
    pub encoder: Model,
    /// From rows that were brought together to rows for the text model.
    pub projector: Model,
    /// What cuts pictures.
    pub processor: Box<dyn Processor>,
    /// The row that ends a line of an image, where the checkpoint has one.
    pub newline: Option<Vec<f32>>,
    /// What the text model must be built with.
    pub sight: Sight,
}

/// A family of towers.
struct Family {
    /// Its names, by which checkpoints call it, and those of its tensors. The plan is not used.
    arch: &'static Arch,
    load: fn(&Source<'_>) -> Result<Vision>,
    /// Whether GGUF files have queries, keys and values apart where directories have them in one matrix.
    apart: bool,
}

/// A tower with what it was read from.
pub(crate) struct Found<'a> {
    pub(crate) vision: Vision,
    pub(crate) source: Source<'a>,
}

static FAMILIES: &[Family] = &[
    Family { arch: &qwen::QWEN2, load: qwen::qwen2, apart: true },
    Family { arch: &qwen::QWEN2_5, load: qwen::qwen2_5, apart: true },
    Family { arch: &qwen::QWEN3, load: qwen::qwen3, apart: false },
    Family { arch: &llava::LLAVA, load: llava::load, apart: false },
    Family { arch: &pixtral::PIXTRAL, load: pixtral::load, apart: false },
    Family { arch: &gemma3::GEMMA3, load: gemma3::load, apart: false },
    Family { arch: &gemma4::GEMMA4, load: gemma4::load, apart: false },
    Family { arch: &idefics3::IDEFICS3, load: idefics3::load, apart: false },
    Family { arch: &internvl::INTERNVL, load: internvl::load, apart: false },
];

/// The names of a family; its plans are built by its loader.
const fn named(
    hf: &'static [&'static str],
    gguf: &'static [&'static str],
    tensors: &'static [&'static [Entry]],
    ignored: &'static [&'static str],
) -> Arch {
    Arch { hf, gguf, tensors, ignored, plan: |_, g| Ok(g.given(0, 1)) }
}

/// The tower of the model in `checkpoint`: its own, or the one in `beside`, an mmproj GGUF file. `None` where the checkpoint has none and
/// none is given.
///
/// # Errors
/// When the tower is of a kind that is not known, or a setting or tensor of it is missing or wrong.
pub fn load(checkpoint: &Checkpoint, beside: Option<&Checkpoint>) -> Result<Option<Vision>> {
    find(checkpoint, beside).map(|found| found.map(|found| found.vision))
}

/// [`load`], with what it was read from.
pub(crate) fn find<'a>(checkpoint: &'a Checkpoint, beside: Option<&'a Checkpoint>) -> Result<Option<Found<'a>>> {
    let (of, name) = match beside {
        Some(file) => (file, projector(file)?),
        None => match own(checkpoint) {
            Some(name) => (checkpoint, name),
            None => return Ok(None),
        },
    };
    let names = |family: &Family| if of.source == Kind::Gguf { family.arch.gguf } else { family.arch.hf };
    let Some(family) = FAMILIES.iter().find(|family| names(family).contains(&name)) else {
        // A checkpoint's own tower may be left aside; one that was asked for may not.
        if beside.is_none() {
            return Ok(None);
        }
        let mut known: Vec<&str> = FAMILIES.iter().flat_map(names).copied().collect();
        known.sort_unstable();
        let why = format!("it is no vision tower of those that are known: {}", known.join(", "));
        return Err(Error::Unknown { path: of.path.clone(), name: name.into(), why, closest: String::new() });
    };
    let source = Source::new(checkpoint, of, family.arch, family.apart)?;
    let vision = (family.load)(&source)?;
    source.all_explained(&[&vision.encoder, &vision.projector])?;
    Ok(Some(Found { vision, source }))
}

/// The name of a checkpoint's own tower.
fn own(checkpoint: &Checkpoint) -> Option<&str> {
    let tower = checkpoint.config.get("vision_config")?.get("model_type").and_then(|name| name.as_str());
    match checkpoint.config.get("model_type")?.as_str()? {
        // LLaVA's form, with another kind of tower.
        "llava" if tower == Some("pixtral") => Some("pixtral"),
        name => Some(name),
    }
}

/// The kind of tower in an mmproj file.
fn projector(file: &Checkpoint) -> Result<&str> {
    let wrong = |key: &str, what: &str| Error::Setting { path: file.path.clone(), key: key.into(), what: what.into() };
    if file.source != Kind::Gguf {
        return Err(wrong("general.architecture", "is missing: a tower beside a model is a GGUF file (mmproj)"));
    }
    if file.metadata.text("general.architecture")? != Some("clip") {
        return Err(wrong("general.architecture", "should be `clip`: this is no vision tower (mmproj)"));
    }
    for key in ["clip.vision.projector_type", "clip.projector_type"] {
        if let Some(name) = file.metadata.text(key)? {
            return Ok(name);
        }
    }
    // Files of LLaVA from before there were others do not say.
    match file.metadata.bool("clip.has_llava_projector")? {
        Some(true) => Ok("mlp"),
        _ => Err(wrong("clip.projector_type", "is missing: it names the kind of tower")),
    }
}
