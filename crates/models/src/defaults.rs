//! What the absence of a setting means: transformers saves only what differs from the defaults of the configuration's class, so some
//! published checkpoints state little. Source: transformers' `configuration_*.py`, by `model_type`. Recurrent models state no context,
//! as they take any; the number here is what llama.cpp's converter writes for them.

use serde_json::{Map, Value};
use std::sync::LazyLock;

static DEFAULTS: LazyLock<Map<String, Value>> = LazyLock::new(|| serde_json::from_str(include_str!("defaults.json")).unwrap_or_default());

/// The defaults of the first of `names` that has any.
pub(crate) fn of(names: &[&str]) -> Option<&'static Map<String, Value>> {
    names.iter().find_map(|name| DEFAULTS.get(*name)?.as_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found() {
        assert!(!DEFAULTS.is_empty() && DEFAULTS.values().all(Value::is_object));
        assert_eq!(of(&["nothing", "gemma3_text"]).and_then(|d| d["num_attention_heads"].as_u64()), Some(8));
        assert!(of(&["nothing"]).is_none());
    }
}
