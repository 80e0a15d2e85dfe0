//! The keys of which a client must present one. They can be changed while the server runs.

use std::sync::{Arc, PoisonError, RwLock};

/// Clones are handles to the same keys.
#[derive(Clone, Debug)]
pub struct Keys(Arc<RwLock<Arc<[String]>>>);

/// Why keys were not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// One without a character, which everyone knows.
    #[error("an API key is empty")]
    Empty,
    /// Whoever has had to present a key would be let in without one.
    #[error("no API key is left: start the server again to ask for none")]
    None,
}

impl Keys {
    pub(crate) fn new(keys: &[String]) -> Self {
        Self(Arc::new(RwLock::new(keys.into())))
    }

    /// Puts these in the place of those that were there. Requests that are being answered go on.
    pub fn replace(&self, keys: &[String]) -> Result<(), KeysError> {
        if keys.iter().any(|key| key.trim().is_empty()) {
            return Err(KeysError::Empty);
        }
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if keys.is_empty() && !now.is_empty() {
            return Err(KeysError::None);
        }
        *now = keys.into();
        Ok(())
    }

    pub(crate) fn now(&self) -> Arc<[String]> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
