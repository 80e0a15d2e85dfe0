use crate::{
    Error, Result,
    arch::{Arch, Named, architectures},
    matching,
    names::Names,
    rotated::{in_layers, rotations},
    settings::Settings,
};
use onebit_formats::Checkpoint;
use onebit_plan::{Graph, Model, Sight, rotate};

/// The plan and the weights of the model in `checkpoint`.
///
/// Nothing is read but headers and small tensors; weights stay in their files until a device packs them.
///
/// # Errors
/// When the architecture is not known and no family explains all tensors and settings, a setting is missing or wrong, a tensor is missing, has the wrong shape, or is left over.
pub fn load(checkpoint: &Checkpoint) -> Result<Model> {
    load_as(checkpoint, None)
}

/// [`load`], with a plan that takes images, as `sight` tells.
///
/// # Errors
/// As [`load`].
pub fn load_seeing(checkpoint: &Checkpoint, sight: Sight) -> Result<Model> {
    match Arch::find(checkpoint)? {
        Named::Known(arch, name) => Attempt::seeing(checkpoint, arch, name, Some(sight))?.model,
        Named::Unknown(name) => {
            let why = "images can only be given to architectures that are known by name".into();
            Err(Error::Unknown { path: checkpoint.path.clone(), name: name.into(), why, closest: String::new() })
        }
    }
}

/// [`load`], as a model of the family that `family` names, where it does: a name that `model_type` or `general.architecture` could have.
///
/// # Errors
/// As [`load`], and when no family goes by that name.
pub fn load_as(checkpoint: &Checkpoint, family: Option<&str>) -> Result<Model> {
    match family {
        None => build(checkpoint).map(|built| built.model),
        Some(name) => {
            let known = architectures().find(|arch| arch.names(checkpoint.source).contains(&name));
            let arch = known.ok_or_else(|| {
                let mut known: Vec<&str> = architectures().flat_map(|arch| arch.names(checkpoint.source)).copied().collect();
                known.sort_unstable();
                Error::Family { name: name.into(), known: known.join(", ") }
            })?;
            Attempt::new(checkpoint, arch, name)?.model
        }
    }
}

/// A model with what it was built from.
pub(crate) struct Built<'a> {
    pub(crate) model: Model,
    pub(crate) arch: &'static Arch,
    pub(crate) settings: Settings<'a>,
    pub(crate) names: Names<'a>,
}

/// The model of the architecture that the checkpoint names, or else of the family that its tensors and settings show.
pub(crate) fn build(checkpoint: &Checkpoint) -> Result<Built<'_>> {
    match Arch::find(checkpoint)? {
        Named::Known(arch, name) => Attempt::new(checkpoint, arch, name)?.built(),
        Named::Unknown(name) => {
            let found = matching::find(checkpoint, name)?;
            tracing::warn!("{}: {}", checkpoint.path.display(), found.warning(name));
            Ok(found.built)
        }
    }
}

/// A model of one architecture, and whether the checkpoint holds it.
pub(crate) struct Attempt<'a> {
    arch: &'static Arch,
    pub(crate) settings: Settings<'a>,
    pub(crate) names: Names<'a>,
    pub(crate) model: Result<Model>,
}

impl<'a> Attempt<'a> {
    /// Holds the checkpoint against `arch`, under one of its names.
    ///
    /// # Errors
    /// When the settings are not even an object each where they should be. Other faults are in [`Attempt::model`].
    pub(crate) fn new(checkpoint: &'a Checkpoint, arch: &'static Arch, name: &str) -> Result<Self> {
        Self::seeing(checkpoint, arch, name, None)
    }

    /// [`Attempt::new`], with a plan that takes images where `sight` says how.
    fn seeing(checkpoint: &'a Checkpoint, arch: &'static Arch, name: &str, sight: Option<Sight>) -> Result<Self> {
        let settings = Settings::new(checkpoint, arch)?;
        let names = Names::new(checkpoint, arch, settings.tied(arch.hf)?);
        let model = plan(checkpoint, arch, (name, sight), &settings, &names);
        Ok(Self { arch, settings, names, model })
    }

    /// The model, with all tensors explained.
    pub(crate) fn built(self) -> Result<Built<'a>> {
        let Self { arch, settings, names, model } = self;
        Ok(Built { model: model?, arch, settings, names })
    }
}

fn plan(
    checkpoint: &Checkpoint,
    arch: &Arch,
    (name, sight): (&str, Option<Sight>),
    settings: &Settings<'_>,
    names: &Names<'_>,
) -> Result<Model> {
    let vocabulary = settings.vocabulary(names.rows("token_embd.weight"))?;
    let context = settings.context()?;
    let mut graph = Graph::new(name, vocabulary, context, names);
    if let Some(sight) = sight {
        graph.see(sight);
    }
    let logits = (arch.plan)(settings, &mut graph)?;
    let model = graph.finish(logits).and_then(|model| names.output_found(&model).map(|()| model));
    let model = model.map_err(|source| Error::Plan { path: checkpoint.path.clone(), source: names.in_file_terms(source) })?;
    let idle = settings.layers()?..settings.all_layers()?;
    names.all_explained(name, &model, idle.clone(), settings.spare_experts())?;
    match rotations(checkpoint, &model, in_layers(idle))? {
        None => Ok(model),
        Some(found) => rotate(model, &found).map_err(|source| Error::Plan { path: checkpoint.path.clone(), source }),
    }
}
