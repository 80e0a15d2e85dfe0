use crate::{Error, Result, arch::Arch, names::Names, settings::Settings};
use onebit_formats::Checkpoint;
use onebit_plan::{Graph, Model};

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
    let settings = Settings::new(checkpoint, arch);
    let names = Names::new(checkpoint, arch, settings.tied()?);
    let vocabulary = settings.vocabulary(names.rows("token_embd.weight"))?;
    let context = settings.size_to("max_position_embeddings", "context_length", 1 << 31)?;
    let mut graph = Graph::new(name, vocabulary, context, &names);
    let logits = (arch.plan)(&settings, &mut graph)?;
    let model =
        graph.finish(logits).map_err(|source| Error::Plan { path: checkpoint.path.clone(), source: names.in_file_terms(source) })?;
    names.all_explained(name, &model, settings.layers()?)?;
    Ok(Built { model, arch, settings, names })
}
