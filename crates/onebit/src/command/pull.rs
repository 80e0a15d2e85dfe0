use crate::{Loudness, open};
use std::io::Write;

/// Fetch a model into the cache, or take a broken download up again
///
/// Sources are tried in order; HF_TOKEN, HF_ENDPOINT, HF_HUB_CACHE and HF_HUB_OFFLINE are heeded.
#[derive(clap::Args)]
pub(crate) struct Pull {
    /// A name from `1bit list`, or `hf:owner/name[:file or quantization]`
    model: String,
}

impl Pull {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let path = open::obtain(&self.model, loudness)?;
        writeln!(std::io::stdout(), "{}", path.display())?;
        Ok(())
    }
}
