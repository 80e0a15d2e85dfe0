//! How statistics are worded.

use onebit_engine::{Timings, Usage};

/// `prompt 12 tokens, 350.2 tokens/s · answer 40 tokens, 120.1 tokens/s · first token after 0.03 s`.
pub(crate) fn line(usage: &Usage, timings: &Timings) -> String {
    let rate = |tokens: usize, seconds: f64| if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
    let computed = usage.prompt - usage.cached;
    // The first token falls out of the prompt's last step.
    let decoded = usage.completion.saturating_sub(1);
    format!(
        "prompt {} tokens, {:.1} tokens/s · answer {} tokens, {:.1} tokens/s · first token after {:.2} s",
        usage.prompt,
        rate(computed, timings.prompt.as_secs_f64()),
        usage.completion,
        rate(decoded, timings.decode.as_secs_f64()),
        (timings.queue + timings.prompt).as_secs_f64(),
    )
}
