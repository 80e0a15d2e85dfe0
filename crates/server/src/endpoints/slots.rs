//! `GET /slots`, in llama-server's shape: what each of the places in which requests are answered is doing. Texts are not told.

use crate::answer;
use crate::error::ApiError;
use crate::state::App;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use onebit_engine::{Sampling, SlotStatus};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn list(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    if !app.options.slots {
        return Err(ApiError::unable("The server does not tell of its slots: start it with `--slots`"));
    }
    let engine = &app.watched(query.as_deref())?.engine;
    let slots = engine.slots();
    let wants_free = query.iter().flat_map(|query| query.split('&')).any(|part| part == "fail_on_no_slot=1");
    if wants_free && slots.iter().all(|slot| slot.is_running) {
        return Err(ApiError::unavailable("no_slot", "No slot is free").retry(1));
    }
    let slots: Vec<Value> = slots.iter().enumerate().map(|(id, slot)| describe(id, slot, engine.context())).collect();
    Ok(answer::json(&slots))
}

fn describe(id: usize, slot: &SlotStatus, context: usize) -> Value {
    let left = slot.end.saturating_sub(slot.prompt + slot.decoded);
    json!({
        "id": id,
        "id_task": slot.task.map_or(-1, |task| task as i64),
        "n_ctx": context,
        "speculative": false,
        "is_processing": slot.is_running,
        "n_prompt_tokens": slot.prompt,
        "n_prompt_tokens_cache": slot.cached,
        "n_prompt_tokens_processed": slot.computed.min(slot.prompt).saturating_sub(slot.cached),
        "params": params(&slot.sampling),
        "next_token": {
            "has_next_token": slot.is_running,
            "n_remain": if slot.is_running { left as i64 } else { -1 },
            "n_decoded": slot.decoded,
        },
    })
}

/// How tokens are chosen, in llama-server's words; -1 is what it writes for a seed, a count or a threshold that is not set.
pub(super) fn params(s: &Sampling) -> Value {
    let count = |n: Option<usize>| n.map_or(-1, |n| n as i64);
    json!({
        "seed": s.seed.map_or(json!(-1), |seed| json!(seed)),
        "temperature": s.temperature,
        "top_k": s.top_k,
        "top_p": s.top_p,
        "min_p": s.min_p,
        "top_n_sigma": if s.top_n_sigma > 0.0 { s.top_n_sigma } else { -1.0 },
        "xtc_probability": s.xtc.probability,
        "xtc_threshold": s.xtc.threshold,
        "typical_p": s.typical_p,
        "repeat_last_n": count(s.repeat_last_n),
        "repeat_penalty": s.repeat_penalty,
        "presence_penalty": s.presence_penalty,
        "frequency_penalty": s.frequency_penalty,
        "dry_multiplier": s.dry.multiplier,
        "dry_base": s.dry.base,
        "dry_allowed_length": s.dry.allowed_length,
        "dry_penalty_last_n": count(s.dry.penalty_last_n),
        "mirostat": s.mirostat.mode,
        "mirostat_tau": s.mirostat.tau,
        "mirostat_eta": s.mirostat.eta,
    })
}
