//! A file of a repository on the Hugging Face Hub: `ENDPOINT/OWNER/NAME/resolve/REVISION/PATH`.

use crate::{Error, Observer, Result, Settings, cache::Part, download};
use serde::{Deserialize, Serialize};

/// The file's address on the Hub.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HuggingFace {
    /// `owner/name`.
    pub repo: String,
    /// A commit; branches move.
    pub revision: String,
    /// The file's path in the repository.
    pub path: String,
}

impl HuggingFace {
    /// The file's URL.
    pub(crate) fn url(&self, settings: &Settings) -> String {
        format!("{}/{}/resolve/{}/{}", settings.endpoint, self.repo, self.revision, self.path)
    }

    pub(crate) fn fetch(&self, part: &mut Part, settings: &Settings, observer: &dyn Observer) -> Result<()> {
        if settings.offline {
            return Err(Error::Fetch("not tried: HF_HUB_OFFLINE or ONEBIT_OFFLINE is set".into()));
        }
        download::http(&self.url(settings), part, settings, observer)
    }
}
