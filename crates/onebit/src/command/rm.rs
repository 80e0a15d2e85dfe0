use crate::{Loudness, failure::Usage};
use onebit_registry::Cache;

/// Remove a model from the cache
#[derive(clap::Args)]
pub(crate) struct Rm {
    /// The model, as `1bit list` names it
    model: String,
}

impl Rm {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let cache = Cache::from_env()?;
        let Some(bytes) = cache.remove(&self.model)? else {
            return Err(Usage(format!("`{}` is not in the cache, {}; see `1bit list`", self.model, cache.root().display())).into());
        };
        if loudness > Loudness::Quiet {
            eprintln!("removed {} ({:.1} MB)", self.model, bytes as f64 / 1e6);
        }
        Ok(())
    }
}
