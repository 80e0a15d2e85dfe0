//! Layers that look back over a sliding window only (Beltagy et al. 2020, arXiv:2004.05150), with those that see all at a period.

use super::blocks::listed_masks;
use crate::{Result, settings::Settings};
use onebit_formats::Meta;
use onebit_plan::Mask;

/// The layers of a period: all but its last have the window. 0 stands for a window in all layers.
fn at_period(layers: usize, period: usize, window: usize) -> Vec<Mask> {
    (0..layers).map(|i| if period == 0 || (i + 1) % period != 0 { Mask::Window(window) } else { Mask::Causal }).collect()
}

/// What each of `layers` sees, where models of the architecture let every `period`th layer see all unless they say otherwise.
/// GGUF files can say only another period.
pub(crate) fn periodic_masks(s: &Settings<'_>, layers: usize, period: usize) -> Result<Vec<Mask>> {
    let Some(window) = s.window()? else { return Ok(vec![Mask::Causal; layers]) };
    let masks = match listed_masks(s, layers, Mask::Window(window))? {
        Some(masks) => masks,
        None => at_period(layers, stated_period(s)?.unwrap_or(period), window),
    };
    let periods = [period, 0].into_iter().chain(1..=layers);
    match periods.into_iter().find(|period| at_period(layers, *period, window) == masks) {
        Some(1) => {}
        Some(period) => {
            s.note("attention.sliding_window", Meta::Unsigned(window as u64));
            s.note("attention.sliding_window_pattern", Meta::Unsigned(period as u64));
        }
        None => s.hf_only(true, "its layers that see the whole context do not come at a period"),
    }
    Ok(masks)
}

/// What each of `layers` sees, where models of the architecture have windows in the layers that `usual` gives unless they say otherwise.
/// GGUF files say it of each layer.
pub(crate) fn flagged_masks(s: &Settings<'_>, layers: usize, windowed: Mask, usual: impl Fn(usize) -> bool) -> Result<Vec<Mask>> {
    const PATTERN: &str = "attention.sliding_window_pattern";
    let masks: Vec<Mask> = match (s.flags(PATTERN, layers)?, listed_masks(s, layers, windowed)?) {
        (None, Some(masks)) => masks,
        (Some(flags), _) => flags.into_iter().map(|window| if window { windowed } else { Mask::Causal }).collect(),
        (None, None) => (0..layers).map(|layer| if usual(layer) { windowed } else { Mask::Causal }).collect(),
    };
    if let Mask::Window(window) = windowed {
        s.note("attention.sliding_window", Meta::Unsigned(window as u64));
        s.note(PATTERN, Meta::Bools(masks.iter().map(|mask| *mask == windowed).collect()));
    }
    Ok(masks)
}

/// The period, where the checkpoint states one.
fn stated_period(s: &Settings<'_>) -> Result<Option<usize>> {
    const KEYS: (&str, &str) = ("sliding_window_pattern|_sliding_window_pattern", "attention.sliding_window_pattern");
    let metadata = s.gguf_value(KEYS.1);
    let config = if s.is_gguf() { None } else { s.json(KEYS.0) };
    let letters = config.and_then(|v| v.as_str());
    let kinds: Option<Vec<bool>> = match (metadata, letters) {
        (Some(Meta::Bools(kinds)), _) => Some(kinds.clone()),
        // `LLLG`: three local layers, then a global one.
        (_, Some(letters)) => Some(letters.chars().map(|c| c == 'L').collect()),
        _ => None,
    };
    let Some(kinds) = kinds else {
        let number = match metadata {
            Some(Meta::Unsigned(n)) => Some(*n),
            _ => config.and_then(serde_json::Value::as_u64),
        };
        return match number.map(usize::try_from) {
            Some(Ok(period)) if period <= 1 << 20 => Ok(Some(period)),
            None if metadata.is_none() && config.is_none() => Ok(None),
            _ => Err(s.wrong(KEYS.0, KEYS.1, "should be a number, or a kind for each layer")),
        };
    };
    let periods = [0].into_iter().chain(1..=kinds.len());
    let fits = |period: &usize| kinds.iter().enumerate().all(|(i, windowed)| *windowed == (*period == 0 || (i + 1) % period != 0));
    match periods.into_iter().find(fits) {
        Some(period) => Ok(Some(period)),
        None => Err(s.wrong(KEYS.0, KEYS.1, "should have a layer that sees all at each end of a period, and no other")),
    }
}
