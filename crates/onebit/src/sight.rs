//! The vision tower of a model: where it is found, and how it is loaded.

use crate::{
    failure::Usage,
    open::{self, DeviceArgs},
};
use anyhow::Context;
use onebit_formats::{Checkpoint, Source};
use onebit_models::vision::{self, Vision};
use onebit_plan::{Device, Progress, Together};
use onebit_vision::Tower;
use std::path::{Path, PathBuf};

/// How a model is given images; shared by the commands that answer.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Images")]
pub(crate) struct SightArgs {
    /// The vision tower of a GGUF model [default: the file beside it whose name has `mmproj`]
    #[arg(long, value_name = "FILE")]
    pub mmproj: Option<PathBuf>,
    /// Most tokens for an image where the family lets its size decide; larger ones are shrunk. Memory grows with it
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = clap::value_parser!(u32).range(64..=65_536))]
    pub image_max_tokens: u32,
}

/// Whether a model is to see.
#[derive(Clone, Copy, Debug)]
pub(crate) enum See<'a> {
    /// If it has a tower.
    IfItCan(&'a SightArgs),
    /// There are images already.
    Must(&'a SightArgs),
    /// There will be none.
    Not,
}

impl See<'_> {
    /// Whether somebody asked for it.
    fn is_asked_for(self) -> bool {
        match self {
            See::IfItCan(args) => args.mmproj.is_some(),
            See::Must(_) => true,
            See::Not => false,
        }
    }

    /// The same for a model that is taken for one of another family, by whose name nobody knows what it sees with.
    pub(crate) fn of_family(self) -> Self {
        if self.is_asked_for() { self } else { See::Not }
    }

    /// The tower of the model in `checkpoint`, not loaded yet.
    pub(crate) fn find(self, checkpoint: &Checkpoint) -> anyhow::Result<Option<Vision>> {
        let (See::IfItCan(args) | See::Must(args)) = self else { return Ok(None) };
        let must = self.is_asked_for();
        let found = args.find(checkpoint).and_then(|vision| {
            vision.iter().try_for_each(|vision| fits(checkpoint, vision))?;
            Ok(vision)
        });
        match found {
            Err(error) if !must => {
                tracing::warn!("images cannot be given: {error:#}");
                Ok(None)
            }
            Ok(None) if must => {
                Err(Usage(format!("{}: the model has no vision, so images cannot be given{}", checkpoint.path.display(), hint(checkpoint)))
                    .into())
            }
            found => found,
        }
    }
}

/// Checks that the text model takes what the tower gives.
fn fits(checkpoint: &Checkpoint, vision: &Vision) -> anyhow::Result<()> {
    let taken = onebit_models::load_seeing(checkpoint, vision.sight)?.plan.batch_form().given;
    let rows = vision.projector.plan.vocabulary;
    if rows != taken {
        let message =
            format!("the vision tower gives rows of {rows} numbers, but the model takes {taken}: it is the tower of another model");
        return Err(Usage(message).into());
    }
    Ok(())
}

fn hint(checkpoint: &Checkpoint) -> &'static str {
    match checkpoint.source {
        Source::Gguf => "; towers of GGUF models are files of their own: --mmproj FILE",
        Source::HuggingFace => "",
    }
}

impl SightArgs {
    fn find(&self, checkpoint: &Checkpoint) -> anyhow::Result<Option<Vision>> {
        let file = match (&self.mmproj, checkpoint.source) {
            (Some(file), _) => Some(file.clone()),
            (None, Source::Gguf) => beside(&checkpoint.path)?,
            (None, Source::HuggingFace) => None,
        };
        let beside = file.map(Checkpoint::open).transpose()?;
        let mut vision = vision::load(checkpoint, beside.as_ref())?;
        if let Some(vision) = &mut vision {
            vision.processor.at_most(self.image_max_tokens as usize);
        }
        Ok(vision)
    }
}

/// The tower that lies beside a GGUF model.
fn beside(model: &Path) -> anyhow::Result<Option<PathBuf>> {
    let folder = model.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_tower = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        name.contains("mmproj") && name.ends_with(".gguf") && path != model
    };
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(is_tower).collect();
    found.sort();
    if found.len() > 1 {
        let names = found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        return Err(Usage(format!("--mmproj is needed to tell which of these is the model's vision tower: {names}")).into());
    }
    Ok(found.pop())
}

/// Loads a tower that was found.
pub(crate) fn load(vision: Vision, device: &dyn Device, args: &DeviceArgs, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Tower> {
    let [encoder, projector] = Tower::limits(vision.processor.as_ref(), args.kind(&vision.encoder.plan));
    let encoder = open::load(device, vision.encoder, &encoder, progress).context("the vision tower")?;
    let projector = open::load(device, vision.projector, &projector, progress).context("the vision tower's projector")?;
    Ok(Tower::new(vision.processor, vision.newline, [encoder, projector], vision.sight.together != Together::No))
}
