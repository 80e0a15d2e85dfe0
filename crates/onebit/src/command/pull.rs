use crate::{Loudness, progress};
use onebit_registry::{Cache, Reference, Settings};
use std::io::Write;

/// Fetch a model into the cache, or take a broken download up again
///
/// What is in the cache already is hashed, and what is damaged is fetched anew. Sources are tried in order; HF_TOKEN, HF_ENDPOINT, HF_HUB_CACHE and HF_HUB_OFFLINE are heeded.
#[derive(clap::Args)]
pub(crate) struct Pull {
    /// A name from `1bit list`, or `hf:owner/name[:file or quantization]`
    model: String,
    /// As it is without: hashes are checked anyway
    #[arg(long, hide = true, conflicts_with = "no_check")]
    check: bool,
    /// Of what is in the cache, compare sizes only
    #[arg(long)]
    no_check: bool,
}

impl Pull {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let cache = Cache::from_env()?;
        let cache = if self.no_check { cache } else { cache.rechecking() };
        let path = Reference::parse(&self.model)?.obtain(&Settings::from_env(), &cache, &progress::Downloads::new(loudness))?;
        writeln!(std::io::stdout(), "{}", path.display())?;
        Ok(())
    }
}
