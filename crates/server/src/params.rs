//! The parameters that all endpoints which generate text share, and how they become an engine's [`Request`].
//!
//! Ranges that are the engine's own are checked by it when the request is submitted; here are types, names and counts.

use crate::error::ApiError;
use crate::json::{Fields, as_integer, kind_of, out_of_range, shorten, too_many, wrong_type};
use crate::options::Limits;
use crate::state::App;
use onebit_engine::{Diffusion, Remasking, Request, Sampling};
use serde_json::Value;
use std::time::Duration;

/// Whole f32 range: for numbers whose bounds the engine knows.
const ANY: std::ops::RangeInclusive<f32> = f32::MIN..=f32::MAX;
/// Whole numbers that JSON can carry exactly everywhere.
const COUNT: std::ops::RangeInclusive<i64> = 0..=1 << 53;

/// Milliseconds of a day: the latest deadline.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Fields that OpenAI's or a vendor's clients send and that do not change the answer here.
pub(crate) const HARMLESS: &[&str] = &[
    // Who asks, for whom, and what for.
    "user",
    "metadata",
    "safety_identifier",
    "service_tier",
    // Hints for caches: this server decides itself, and what it answers is the same.
    "prompt_cache_key",
    "prompt_cache_retention",
    "cache_prompt",
    // Where llama-server would compute it.
    "id_slot",
    // Shapes what `dynatemp_range` does, which is nothing.
    "dynatemp_exponent",
];

/// Takes what does not change the answer, and refuses by name what does and is not there.
pub(crate) fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    fields.pass_over(HARMLESS);
    let is_false = |v: &Value| v == &Value::Bool(false);
    fields.only("store", is_false, "nothing is stored; leave it out or send false")?;
    fields.only("samplers", |_| false, "the order of samplers is fixed")?;
    fields.only("lora", |v| v.as_array().is_some_and(Vec::is_empty), "adapters cannot be chosen yet")?;
    fields.only("dynatemp_range", |v| v.as_f64() == Some(0.0), "the temperature is the same for all tokens")?;
    fields.only("min_keep", |v| v.as_u64().is_some_and(|n| n <= 1), "one token is always kept, and no more")?;
    fields.only("n_keep", |v| v.as_i64() == Some(0), "the context is never shifted, so nothing is dropped from it")?;
    fields.only("t_max_predict_ms", |v| v.as_i64().is_some_and(|n| n <= 0), "time is not limited by request")?;
    fields.only("n_indent", |v| v.as_i64() == Some(0), "indentation is not enforced")?;
    fields.only("n_probs", |v| v.as_i64() == Some(0), "use `logprobs` of /v1/completions or /v1/chat/completions")?;
    fields.only("post_sampling_probs", is_false, "logprobs are those of the model")?;
    fields.only("timings_per_token", is_false, "times are told once, at the end")?;
    fields.only("return_progress", is_false, "the progress of a prompt is not told")?;
    fields.only("min_tokens", |v| v.as_i64() == Some(0), "use `ignore_eos` with `max_tokens`")?;
    fields.only("stop_token_ids", |v| v.as_array().is_some_and(Vec::is_empty), "use `stop`")?;
    fields.only("include_stop_str_in_output", is_false, "a stop string is not part of the text")?;
    fields.only("use_beam_search", is_false, "one token is chosen after the other")?;
    Ok(())
}

/// Refuses by name what governs how an answer is made of masks, of a model that writes from left to right.
pub(crate) fn refuse_steps(fields: &mut Fields, model: &crate::state::Model) -> Result<(), ApiError> {
    if model.engine.config().denoising.is_none() {
        for name in ["steps", "block_length", "remasking", "eps"] {
            fields.only(name, |_| false, "the model is none of masked diffusion")?;
        }
    }
    Ok(())
}

/// Takes `model` and checks that it is ours.
pub(crate) fn model(fields: &mut Fields, app: &App) -> Result<(), ApiError> {
    match fields.string("model")? {
        // Of several models, the one that was named is the one that reads this.
        Some(name) if app.shelf().is_none() && !app.options.knows(&name) => Err(ApiError::no_model(&shorten(&name))),
        _ => Ok(()),
    }
}

/// Takes everything that governs how tokens are chosen. What is not given is as in `defaults`.
pub(crate) fn sampling(fields: &mut Fields, defaults: &Sampling, limits: &Limits) -> Result<Sampling, ApiError> {
    let mut s = defaults.clone();
    let mut set = |name: &str, target: &mut f32| -> Result<(), ApiError> {
        if let Some(number) = fields.number(name, ANY)? {
            *target = number;
        }
        Ok(())
    };
    set("temperature", &mut s.temperature)?;
    set("top_p", &mut s.top_p)?;
    set("min_p", &mut s.min_p)?;
    set("typical_p", &mut s.typical_p)?;
    set("top_n_sigma", &mut s.top_n_sigma)?;
    set("presence_penalty", &mut s.presence_penalty)?;
    set("frequency_penalty", &mut s.frequency_penalty)?;
    set("dry_multiplier", &mut s.dry.multiplier)?;
    set("dry_base", &mut s.dry.base)?;
    set("xtc_probability", &mut s.xtc.probability)?;
    set("xtc_threshold", &mut s.xtc.threshold)?;
    set("mirostat_tau", &mut s.mirostat.tau)?;
    set("mirostat_eta", &mut s.mirostat.eta)?;
    // llama-server's and vLLM's names; the range is told under the one that was sent.
    let penalty = |fields: &mut Fields, name| fields.number(name, 0.01..=100.0);
    s.repeat_penalty = match (penalty(fields, "repeat_penalty")?, penalty(fields, "repetition_penalty")?) {
        (Some(_), Some(_)) => {
            let message = "`repetition_penalty` and `repeat_penalty` must not both be given";
            return Err(ApiError::invalid("repetition_penalty", message));
        }
        (one, other) => one.or(other).unwrap_or(s.repeat_penalty),
    };
    // llama-server turns it off with -1.
    s.top_n_sigma = if s.top_n_sigma == -1.0 { 0.0 } else { s.top_n_sigma };
    if let Some(k) = fields.integer("top_k", -1..=*COUNT.end())? {
        // -1 as in vLLM, 0 as in llama-server: all.
        s.top_k = usize::try_from(k).unwrap_or(0);
    }
    if let Some(n) = fields.integer("repeat_last_n", -1..=*COUNT.end())? {
        s.repeat_last_n = usize::try_from(n).ok();
    }
    if let Some(n) = fields.integer("dry_penalty_last_n", -1..=*COUNT.end())? {
        s.dry.penalty_last_n = usize::try_from(n).ok();
    }
    if let Some(n) = fields.integer("dry_allowed_length", COUNT)? {
        s.dry.allowed_length = n as usize;
    }
    if let Some(list) = fields.value("dry_sequence_breakers") {
        s.dry.sequence_breakers = strings("dry_sequence_breakers", list, limits)?;
    }
    if let Some(mode) = fields.integer("mirostat", 0..=2)? {
        s.mirostat.mode = mode as u8;
    }
    if let Some(seed) = fields.value("seed") {
        s.seed = parse_seed(&seed)?;
    }
    if let Some(bias) = fields.value("logit_bias") {
        s.logit_bias = logit_bias(bias, limits)?;
    }
    Ok(s)
}

/// Takes what governs how an answer is made of masks.
fn diffusion(fields: &mut Fields) -> Result<Diffusion, ApiError> {
    let mut d = Diffusion::default();
    if let Some(n) = fields.integer("steps", COUNT)? {
        d.steps = Some(n as usize);
    }
    if let Some(n) = fields.integer("block_length", COUNT)? {
        d.block = Some(n as usize);
    }
    if let Some(name) = fields.string("remasking")? {
        d.remasking = Remasking::named(&name).ok_or_else(|| {
            let known = Remasking::NAMES.map(|(name, _)| name).join(", ");
            ApiError::invalid("remasking", format!("Invalid value for `remasking`: `{}`; known are {known}", shorten(&name)))
        })?;
    }
    if let Some(eps) = fields.number("eps", ANY)? {
        d.eps = eps;
    }
    Ok(d)
}

/// Any 64-bit integer; -1 asks for a new seed, as in llama-server.
fn parse_seed(value: &Value) -> Result<Option<u64>, ApiError> {
    let (low, high) = (i64::MIN, u64::MAX);
    match as_integer(value).ok_or_else(|| wrong_type("seed", "an integer", value))? {
        -1 => Ok(None),
        n if (i128::from(low)..=i128::from(high)).contains(&n) => Ok(Some(n as u64)),
        _ => Err(out_of_range("seed", value, low, high)),
    }
}

/// OpenAI's `{"50256": -100}` and llama-server's `[[50256, -100], [50257, false]]`.
fn logit_bias(value: Value, limits: &Limits) -> Result<Vec<(u32, f32)>, ApiError> {
    const NAME: &str = "logit_bias";
    let pairs: Vec<(Value, Value)> = match value {
        Value::Object(entries) => entries.into_iter().map(|(id, bias)| (Value::String(id), bias)).collect(),
        Value::Array(entries) => {
            let mut pairs = Vec::with_capacity(entries.len());
            for entry in entries {
                match entry {
                    Value::Array(pair) => match <[Value; 2]>::try_from(pair) {
                        Ok([id, bias]) => pairs.push((id, bias)),
                        Err(_) => return Err(ApiError::invalid(NAME, "each entry of `logit_bias` must be a token id and a number")),
                    },
                    other => return Err(wrong_type(&format!("{NAME}[{}]", pairs.len()), "an array", &other)),
                }
            }
            pairs
        }
        other => return Err(wrong_type(NAME, "an object", &other)),
    };
    if pairs.len() > limits.logit_bias {
        return Err(too_many(NAME, pairs.len(), limits.logit_bias));
    }
    pairs.into_iter().map(|(id, bias)| Ok((token_id(&id)?, bias_of(&bias)?))).collect()
}

fn token_id(id: &Value) -> Result<u32, ApiError> {
    let number = id.as_str().map_or_else(|| as_integer(id), |text| text.parse().ok());
    number.and_then(|n| u32::try_from(n).ok()).ok_or_else(|| {
        let id = id.as_str().map_or_else(|| id.to_string(), str::to_string);
        ApiError::invalid("logit_bias", format!("`{}` in `logit_bias` is not a token id", shorten(&id)))
    })
}

fn bias_of(bias: &Value) -> Result<f32, ApiError> {
    match bias {
        Value::Bool(false) => Ok(f32::NEG_INFINITY),
        _ => {
            let number = bias.as_f64().ok_or_else(|| wrong_type("logit_bias", "a number for each token", bias))? as f32;
            if (-100.0..=100.0).contains(&number) { Ok(number) } else { Err(out_of_range("logit_bias", bias, -100, 100)) }
        }
    }
}

/// A string or an array of strings.
fn strings(name: &str, value: Value, limits: &Limits) -> Result<Vec<String>, ApiError> {
    let list = match value {
        Value::String(one) => vec![Value::String(one)],
        Value::Array(list) => list,
        other => return Err(wrong_type(name, "a string or an array of strings", &other)),
    };
    if list.len() > limits.stops {
        return Err(too_many(name, list.len(), limits.stops));
    }
    let mut out = Vec::with_capacity(list.len());
    for (i, value) in list.into_iter().enumerate() {
        match value {
            Value::String(s) if s.is_empty() => return Err(ApiError::invalid(format!("{name}[{i}]"), format!("`{name}[{i}]` is empty"))),
            Value::String(s) if s.len() > limits.stop_bytes => {
                let message = format!("`{name}[{i}]` has {} bytes; {} are allowed", s.len(), limits.stop_bytes);
                return Err(ApiError::invalid(format!("{name}[{i}]"), message));
            }
            Value::String(s) => out.push(s),
            other => return Err(wrong_type(&format!("{name}[{i}]"), "a string", &other)),
        }
    }
    Ok(out)
}

/// Takes what is common to all that generates: sampling, length, stop strings. The prompt is still empty.
///
/// `lengths` are the names under which the endpoint takes the most tokens to generate; those given have to agree. -1 is no bound
/// but the context, as in llama-server, and whatever exceeds the context ends with it. `least` is the least number of them,
/// `length` what holds where none is given.
pub(crate) fn request(
    fields: &mut Fields,
    lengths: &[&str],
    least: i64,
    defaults: &Sampling,
    limits: &Limits,
    length: Option<usize>,
) -> Result<Request, ApiError> {
    refuse_unsupported(fields)?;
    let (sampling, diffusion) = (sampling(fields, defaults, limits)?, diffusion(fields)?);
    let mut request = Request { sampling, diffusion, max_tokens: length, ..Request::default() };
    let mut given: Option<(&str, Value)> = None;
    for name in lengths {
        let Some(value) = fields.value(name) else { continue };
        match &given {
            // Proxies (Lemonade) add the older name to the newer one.
            Some((_, first)) if *first == value => continue,
            Some((other, _)) => return Err(ApiError::invalid(*name, format!("`{name}` and `{other}` differ; one is enough"))),
            None => given = Some((name, value.clone())),
        }
        let n = as_integer(&value).ok_or_else(|| wrong_type(name, "an integer", &value))?;
        if n < i128::from(least) && n != -1 {
            let message =
                format!("Invalid value for `{name}`: {value} is below {least} (and not -1, which is up to the end of the context)");
            return Err(ApiError::invalid(*name, message));
        }
        request.max_tokens = if n == -1 { None } else { Some(usize::try_from(n).unwrap_or(usize::MAX)) };
    }
    if let Some(stop) = fields.value("stop") {
        request.stop = strings("stop", stop, limits)?;
    }
    if let Some(n) = fields.integer("priority", i64::from(i32::MIN)..=i64::from(i32::MAX))? {
        request.priority = n as i32;
    }
    if let Some(ms) = fields.integer("deadline_ms", 1..=DAY)? {
        request.timeout = Some(Duration::from_millis(ms as u64));
    }
    request.ignore_eos = fields.boolean("ignore_eos")?.unwrap_or(false);
    request.skip_special = fields.boolean("skip_special_tokens")?.unwrap_or(true);
    Ok(request)
}

/// Takes `n` for so many prompts.
pub(crate) fn choices(fields: &mut Fields, prompts: usize, limits: &Limits) -> Result<usize, ApiError> {
    let n = fields.integer("n", COUNT)?.unwrap_or(1) as usize;
    let most = limits.choices / prompts.max(1);
    if n == 0 || n > most {
        let of = if prompts > 1 { format!(" for {prompts} prompts") } else { String::new() };
        return Err(ApiError::invalid("n", format!("Invalid value for `n`: {n} is not within 1 and {most}{of}")));
    }
    Ok(n)
}

/// `n` requests like this one. With a seed they differ in it: the first has it, the others follow.
pub(crate) fn repeat(request: Request, n: usize) -> impl Iterator<Item = Request> {
    (0..n).map(move |i| {
        let mut request = request.clone();
        request.sampling.seed = request.sampling.seed.map(|seed| seed.wrapping_add(i as u64));
        request
    })
}

/// How an OpenAI endpoint streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streaming {
    /// A last chunk tells the usage, and all others have `"usage": null`.
    pub(crate) include_usage: bool,
}

/// Takes `stream` and `stream_options`.
pub(crate) fn streaming(fields: &mut Fields) -> Result<Option<Streaming>, ApiError> {
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let Some(options) = fields.value("stream_options") else {
        return Ok(stream.then_some(Streaming { include_usage: false }));
    };
    let Value::Object(options) = options else { return Err(wrong_type("stream_options", "an object", &options)) };
    if !stream {
        return Err(ApiError::invalid("stream_options", "`stream_options` is only allowed when `stream` is true"));
    }
    let mut include_usage = false;
    for (name, value) in options {
        let param = format!("stream_options.{}", shorten(&name));
        match (name.as_str(), value) {
            (_, Value::Null) => {}
            ("include_usage", Value::Bool(b)) => include_usage = b,
            // Padding against guessing texts from the sizes of packets; OpenAI leaves it out where it sees fit.
            ("include_obfuscation", Value::Bool(_)) => {}
            ("include_usage" | "include_obfuscation", other) => return Err(wrong_type(&param, "a boolean", &other)),
            (_, other) => {
                let message = format!("Unrecognized request argument supplied: {param} ({})", kind_of(&other));
                return Err(ApiError::bad_request(message).of(param).coded("unknown_parameter"));
            }
        }
    }
    Ok(Some(Streaming { include_usage }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(body: Value) -> Result<Request, ApiError> {
        let limits = Limits { stops: 3, stop_bytes: 5, logit_bias: 2, ..Limits::default() };
        let mut fields = crate::json::object(body.to_string().as_bytes(), &limits)?;
        let request = request(&mut fields, &["max_completion_tokens", "max_tokens"], 1, &Sampling::default(), &limits, None)?;
        fields.finish()?;
        Ok(request)
    }

    #[test]
    fn every_sampling_parameter_reaches_the_engine() {
        let request = parse(json!({
            "temperature": 0.5, "top_k": 7, "top_p": 0.25, "min_p": 0.125, "typical_p": 0.75, "top_n_sigma": 2,
            "repeat_penalty": 1.5, "repeat_last_n": 9, "presence_penalty": 0.5, "frequency_penalty": -0.5,
            "dry_multiplier": 0.75, "dry_base": 2, "dry_allowed_length": 3, "dry_penalty_last_n": 11, "dry_sequence_breakers": ["x"],
            "xtc_probability": 0.5, "xtc_threshold": 0.25, "mirostat": 2, "mirostat_tau": 4, "mirostat_eta": 0.5,
            "seed": 42, "logit_bias": {"5": -100}, "max_tokens": 17, "stop": ["a", "b"], "ignore_eos": true,
            "skip_special_tokens": false, "steps": 12, "block_length": 4, "remasking": "entropy", "eps": 0.25,
        }))
        .expect("valid");
        let s = &request.sampling;
        assert_eq!((s.temperature, s.top_k, s.top_p, s.min_p, s.typical_p, s.top_n_sigma), (0.5, 7, 0.25, 0.125, 0.75, 2.0));
        assert_eq!((s.repeat_penalty, s.repeat_last_n, s.presence_penalty, s.frequency_penalty), (1.5, Some(9), 0.5, -0.5));
        assert_eq!((s.dry.multiplier, s.dry.base, s.dry.allowed_length, s.dry.penalty_last_n), (0.75, 2.0, 3, Some(11)));
        assert_eq!((s.dry.sequence_breakers.clone(), s.xtc.probability, s.xtc.threshold), (vec!["x".to_string()], 0.5, 0.25));
        let diffusion = Diffusion { steps: Some(12), block: Some(4), remasking: Remasking::Entropy, eps: 0.25 };
        assert_eq!(request.diffusion, diffusion);
        assert_eq!((s.mirostat.mode, s.mirostat.tau, s.mirostat.eta), (2, 4.0, 0.5));
        assert_eq!((s.seed, s.logit_bias.clone()), (Some(42), vec![(5, -100.0)]));
        assert_eq!(
            (request.max_tokens, request.stop, request.ignore_eos, request.skip_special),
            (Some(17), vec!["a".into(), "b".into()], true, false)
        );
    }

    #[test]
    fn values_that_turn_things_off() {
        let s = parse(json!({ "top_k": -1, "repeat_last_n": -1, "dry_penalty_last_n": -1, "seed": -1, "top_n_sigma": -1 })).expect("valid");
        let s = s.sampling;
        assert_eq!((s.top_k, s.repeat_last_n, s.dry.penalty_last_n, s.seed, s.top_n_sigma), (0, None, None, None, 0.0));
        assert_eq!(parse(json!({ "max_tokens": -1 })).expect("valid").max_tokens, None);
        assert_eq!(parse(json!({ "max_tokens": 1u64 << 40 })).expect("valid").max_tokens, Some(1 << 40));
        assert_eq!(parse(json!({ "stop": null, "logit_bias": null, "seed": null })).expect("valid"), Request::default());
        assert_eq!(parse(json!({ "seed": u64::MAX })).expect("valid").sampling.seed, Some(u64::MAX));
        assert_eq!(
            parse(json!({ "logit_bias": [[3, false], [4, 1.5]] })).expect("valid").sampling.logit_bias,
            [(3, f32::NEG_INFINITY), (4, 1.5)]
        );
    }

    #[test]
    fn refusals_name_the_field() {
        for (body, param) in [
            (json!({ "temperature": "hot" }), "temperature"),
            (json!({ "temperature": 1e39 }), "temperature"),
            (json!({ "top_k": 1.5 }), "top_k"),
            (json!({ "top_k": -2 }), "top_k"),
            (json!({ "mirostat": 3 }), "mirostat"),
            (json!({ "remasking": "best" }), "remasking"),
            (json!({ "steps": -1 }), "steps"),
            (json!({ "block_length": 1.5 }), "block_length"),
            (json!({ "repetition_penalty": 0 }), "repetition_penalty"),
            (json!({ "repeat_penalty": 101 }), "repeat_penalty"),
            (json!({ "repeat_penalty": 1.1, "repetition_penalty": 1.2 }), "repetition_penalty"),
            (json!({ "seed": 1.5 }), "seed"),
            (json!({ "seed": 1e30 }), "seed"),
            (json!({ "max_tokens": 0 }), "max_tokens"),
            (json!({ "max_tokens": -2 }), "max_tokens"),
            (json!({ "max_tokens": "5" }), "max_tokens"),
            (json!({ "max_tokens": 5, "max_completion_tokens": 6 }), "max_tokens"),
            (json!({ "stop": 5 }), "stop"),
            (json!({ "stop": [""] }), "stop[0]"),
            (json!({ "stop": ["a", 1] }), "stop[1]"),
            (json!({ "stop": "123456" }), "stop[0]"),
            (json!({ "stop": vec!["a"; 100_000] }), "stop"),
            (json!({ "logit_bias": [1] }), "logit_bias[0]"),
            (json!({ "logit_bias": [[1, 2, 3]] }), "logit_bias"),
            (json!({ "logit_bias": {"a": 1} }), "logit_bias"),
            (json!({ "logit_bias": {"-1": 1} }), "logit_bias"),
            (json!({ "logit_bias": {"4294967296": 1} }), "logit_bias"),
            (json!({ "logit_bias": {"1": 101} }), "logit_bias"),
            (json!({ "logit_bias": {"1": true} }), "logit_bias"),
            (json!({ "logit_bias": {"1": 1, "2": 1, "3": 1} }), "logit_bias"),
            (json!({ "ignore_eos": 1 }), "ignore_eos"),
            (json!({ "store": true }), "store"),
            (json!({ "samplers": ["top_k"] }), "samplers"),
            (json!({ "dynatemp_range": 0.5 }), "dynatemp_range"),
            (json!({ "n_keep": 5 }), "n_keep"),
            (json!({ "n_probs": 5 }), "n_probs"),
            (json!({ "min_tokens": 5 }), "min_tokens"),
            (json!({ "stop_token_ids": [5] }), "stop_token_ids"),
            (json!({ "timings_per_token": true }), "timings_per_token"),
            (json!({ "wat": 1 }), "wat"),
        ] {
            let error = parse(body.clone()).expect_err("refused");
            assert_eq!(error.param.as_deref(), Some(param), "{}", shorten(&body.to_string()));
            assert_eq!(error.status.as_u16(), 400);
        }
    }

    #[test]
    fn counts_of_choices() {
        let limits = Limits { choices: 8, ..Limits::default() };
        let n = |body: Value, prompts| {
            choices(&mut crate::json::object(body.to_string().as_bytes(), &limits).expect("valid"), prompts, &limits)
        };
        assert_eq!(n(json!({}), 8), Ok(1));
        assert_eq!(n(json!({ "n": 4 }), 2), Ok(4));
        for (body, prompts) in [(json!({ "n": 5 }), 2), (json!({ "n": 0 }), 1), (json!({ "n": 1_000_000 }), 1), (json!({ "n": -1 }), 1)] {
            assert_eq!(n(body, prompts).expect_err("refused").param.as_deref(), Some("n"));
        }
    }

    #[test]
    fn stream_options() {
        let of = |body: Value| streaming(&mut crate::json::object(body.to_string().as_bytes(), &Limits::default()).expect("valid"));
        assert_eq!(of(json!({})), Ok(None));
        assert_eq!(of(json!({ "stream": true, "stream_options": {} })), Ok(Some(Streaming { include_usage: false })));
        assert_eq!(of(json!({ "stream": true, "stream_options": {"include_usage": true} })), Ok(Some(Streaming { include_usage: true })));
        for (body, param) in [
            (json!({ "stream": 1 }), "stream"),
            (json!({ "stream_options": {} }), "stream_options"),
            (json!({ "stream": true, "stream_options": 1 }), "stream_options"),
            (json!({ "stream": true, "stream_options": {"include_usage": 1} }), "stream_options.include_usage"),
            (json!({ "stream": true, "stream_options": {"other": 1} }), "stream_options.other"),
        ] {
            assert_eq!(of(body).expect_err("refused").param.as_deref(), Some(param));
        }
    }
}
