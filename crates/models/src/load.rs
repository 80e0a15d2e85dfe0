use crate::{
    Error, Result,
    arch::Arch,
    names::Names,
    rotated::{in_layers, rotations},
    settings::Settings,
};
use onebit_formats::Checkpoint;
use onebit_plan::{Graph, Model, rotate};

/// The plan and the weights of the model in `checkpoint`.
///
/// Nothing is read but headers and small tensors; weights stay in their files until a device packs them.
///
/// # Errors
/// When the architecture is not known, a setting is missing or wrong, a tensor is missing, has the wrong shape, or is left over.
pub fn load(checkpoint: &Checkpoint) -> Result<Model> {
    build(checkpoint).map(|built| built.model)
}

/// A model with what it was built from.
pub(crate) struct Built<'a> {
    pub(crate) model: Model,
    pub(crate) arch: &'static Arch,
    pub(crate) settings: Settings<'a>,
    pub(crate) names: Names<'a>,
}

pub(crate) fn build(checkpoint: &Checkpoint) -> Result<Built<'_>> {
    let (arch, name) = Arch::find(checkpoint)?;
    let settings = Settings::new(checkpoint, arch)?;
    let names = Names::new(checkpoint, arch, settings.tied(arch.hf)?);
    let vocabulary = settings.vocabulary(names.rows("token_embd.weight"))?;
    let context = settings.context()?;
    let mut graph = Graph::new(name, vocabulary, context, &names);
    let logits = (arch.plan)(&settings, &mut graph)?;
    let model = graph.finish(logits).and_then(|model| names.output_found(&model).map(|()| model));
    let model = model.map_err(|source| Error::Plan { path: checkpoint.path.clone(), source: names.in_file_terms(source) })?;
    let idle = settings.layers()?..settings.all_layers()?;
    names.all_explained(name, &model, idle.clone(), settings.spare_experts())?;
    let model = match rotations(checkpoint, &model, in_layers(idle))? {
        None => model,
        Some(found) => rotate(model, &found).map_err(|source| Error::Plan { path: checkpoint.path.clone(), source })?,
    };
    Ok(Built { model, arch, settings, names })
}
