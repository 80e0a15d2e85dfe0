//! `GET /metrics`: what the server is doing, for Prometheus (text format 0.0.4, prometheus.io/docs/instrumenting/exposition_formats).
//!
//! The same numbers come under three kinds of names: our own, `onebit_...`; vLLM's, which dashboards and the endpoint picker of the
//! Kubernetes Gateway API inference extension read (its proposal 003, "Model Server Protocol"; vLLM, `vllm/v1/metrics/loggers.py`); and
//! llama-server's (llama.cpp, `tools/server/README.md`), which have no labels.

use crate::error::ApiError;
use crate::state::App;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use onebit_engine::{Histogram, Stats};
use prometheus::TextEncoder;
use prometheus::proto::{self, Bucket, Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use std::sync::Arc;

/// By what microseconds are divided: an exact number, so that bounds are written as they are meant.
const MICRO: f64 = 1e6;

pub(super) async fn handle(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    if !app.options.metrics {
        return Err(ApiError::unable("The server tells no metrics: start it with `--metrics`"));
    }
    let models = app.ready_models()?;
    let mut page = Page { model: String::new(), several: app.shelf().is_some(), families: vec![] };
    for model in &models {
        page.model.clone_from(&model.name);
        page.engine(&model.engine.stats());
    }
    if let Some(shelf) = app.shelf() {
        page.model.clear();
        let [loads, evictions] = shelf.counts();
        page.gauge(&["onebit_models_loaded"], "Models that are loaded.", models.len() as f64);
        page.counter(&["onebit_model_loads_total"], "Times that a model was loaded, or tried to be.", loads as f64);
        page.counter(&["onebit_model_evictions_total"], "Times that a model had to leave for another one.", evictions as f64);
    }
    page.labelled(
        "onebit_http_responses_total",
        "Answers sent, by the first digit of their status.",
        MetricType::COUNTER,
        "class",
        &app.answered.read().map(|(class, count)| (class, count as f64)),
    );
    let text = TextEncoder::new().encode_to_string(&page.families).map_err(ApiError::internal)?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(prometheus::TEXT_FORMAT))], text).into_response())
}

/// What is told, in the order in which it is.
struct Page {
    /// Whose numbers are told; empty where they are the server's.
    model: String,
    /// There are several models, which labels tell apart.
    several: bool,
    families: Vec<MetricFamily>,
}

impl Page {
    fn engine(&mut self, s: &Stats) {
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let (pages, used) = (s.pages as f64, s.pages_used as f64);
        let running = ["onebit_requests_running", "vllm:num_requests_running", "llamacpp:requests_processing"];
        self.gauge(&running, "Requests that are being answered.", s.running as f64);
        let waiting = ["onebit_requests_waiting", "vllm:num_requests_waiting", "llamacpp:requests_deferred"];
        self.gauge(&waiting, "Requests that wait for a place.", s.waiting as f64);
        self.gauge(&["onebit_requests_running_max"], "Requests that can be answered at once.", s.max_sequences as f64);
        let usage =
            ["onebit_kv_cache_usage_ratio", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "llamacpp:kv_cache_usage_ratio"];
        self.gauge(&usage, "Part of the pages of keys and values in use; 1 is all.", ratio(used, pages));
        self.gauge(&["onebit_kv_cache_pages"], "Pages of keys and values.", pages);
        self.gauge(&["llamacpp:kv_cache_tokens"], "Tokens for which pages are in use.", used * s.page as f64);
        self.gauge(&["onebit_state_slots_used"], "Slots of recurrent states in use.", s.slots_used as f64);
        self.gauge(&["onebit_state_slots"], "Slots of recurrent states.", s.slots as f64);
        let sizes = [("block_size", s.page.to_string()), ("num_gpu_blocks", s.pages.to_string())];
        self.add(
            "vllm:cache_config_info",
            "Tokens of a page, and how many pages there are.",
            MetricType::GAUGE,
            vec![(sizes.to_vec(), 1.0)],
        );
        let accepted = "Requests accepted since the start.";
        self.counter(&["onebit_requests_total"], accepted, s.requests as f64);
        self.counter(&["onebit_requests_refused_total"], "Requests refused because the queue was full.", s.refused as f64);
        let stop = s.finished.saturating_sub(s.cut);
        let ends = [("stop", stop), ("length", s.cut), ("abort", s.cancelled), ("error", s.failed)].map(|(why, n)| (why, n as f64));
        for name in ["onebit_requests_ended_total", "vllm:request_success_total"] {
            // vLLM counts as a success what the client gave up, but not what failed.
            let ends = if name.starts_with("vllm") { &ends[..3] } else { &ends[..] };
            self.labelled(name, "Requests that have ended, by why.", MetricType::COUNTER, "finished_reason", ends);
        }
        let prompt = ["onebit_prompt_tokens_total", "vllm:prompt_tokens_total", "llamacpp:prompt_tokens_total"];
        self.counter(&prompt, "Tokens of prompts that were computed.", s.prompt_tokens as f64);
        let chosen = ["onebit_completion_tokens_total", "vllm:generation_tokens_total", "llamacpp:tokens_predicted_total"];
        self.counter(&chosen, "Tokens chosen.", s.completion_tokens as f64);
        let asked = ["onebit_prefix_cache_queries_total", "vllm:prefix_cache_queries_total"];
        self.counter(&asked, "Tokens of prompts whose beginning was looked for among what is known.", s.asked_tokens as f64);
        let hits = ["onebit_prefix_cache_hits_total", "vllm:prefix_cache_hits_total"];
        self.counter(&hits, "Of these, tokens that did not have to be computed.", s.cached_tokens as f64);
        let preempted = ["onebit_preemptions_total", "vllm:num_preemptions_total"];
        self.counter(&preempted, "Requests that gave up their places for a while.", s.preemptions as f64);
        self.counter(&["onebit_steps_total", "llamacpp:n_decode_total"], "Steps of the model.", s.steps as f64);
        self.counter(&["onebit_steps_failed_total"], "Steps that failed.", s.failed_steps as f64);
        self.counter(&["onebit_step_seconds_total"], "Time in steps.", s.step_microseconds as f64 / MICRO);
        self.gauge(&["onebit_batch_tokens"], "Tokens in the last step.", s.last_batch as f64);
        let busy = ratio(s.sequence_steps as f64, s.steps as f64);
        self.gauge(&["llamacpp:n_busy_slots_per_decode"], "Requests in a step, on average.", busy);
        self.counter(&["llamacpp:n_tokens_max"], "Tokens of the longest sequence.", s.longest as f64);
        let (reading, writing) = (s.prompt_microseconds as f64 / MICRO, s.decode_microseconds as f64 / MICRO);
        self.counter(&["llamacpp:prompt_seconds_total"], "Time of requests that have ended, up to their first tokens.", reading);
        self.counter(&["llamacpp:tokens_predicted_seconds_total"], "Time of requests that have ended, from there on.", writing);
        self.gauge(&["llamacpp:prompt_tokens_seconds"], "Tokens of prompts for each second.", ratio(s.prompt_tokens as f64, reading));
        self.gauge(&["llamacpp:predicted_tokens_seconds"], "Tokens chosen for each second.", ratio(s.completion_tokens as f64, writing));
        let first = ["onebit_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"];
        self.histogram(&first, "From a request to its first token.", &s.times.first_token, MICRO);
        let between = ["onebit_time_between_tokens_seconds", "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"];
        self.histogram(&between, "From a token to the next.", &s.times.between_tokens, MICRO);
        let whole = ["onebit_request_seconds", "vllm:e2e_request_latency_seconds"];
        self.histogram(&whole, "From a request to its end, where that was no fault.", &s.times.request, MICRO);
        let queue = ["onebit_queue_seconds", "vllm:request_queue_time_seconds"];
        self.histogram(&queue, "From a request to its place.", &s.times.queue, MICRO);
        self.histogram(&["onebit_step_tokens", "vllm:iteration_tokens_total"], "Tokens in a step.", &s.times.batch, 1.0);
    }

    fn gauge(&mut self, names: &[&str], help: &str, value: f64) {
        names.iter().for_each(|name| self.add(name, help, MetricType::GAUGE, vec![(vec![], value)]));
    }

    fn counter(&mut self, names: &[&str], help: &str, value: f64) {
        names.iter().for_each(|name| self.add(name, help, MetricType::COUNTER, vec![(vec![], value)]));
    }

    /// Numbers that differ by one label.
    fn labelled(&mut self, name: &str, help: &str, kind: MetricType, label: &'static str, values: &[(&str, f64)]) {
        let values = values.iter().map(|(text, value)| (vec![(label, (*text).to_string())], *value));
        self.add(name, help, kind, values.collect());
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType, values: Vec<(Vec<(&'static str, String)>, f64)>) {
        let metrics = values.into_iter().map(|(labels, value)| {
            let mut metric = self.metric(name, labels);
            if kind == MetricType::COUNTER {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            } else {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
            metric
        });
        let metrics = metrics.collect();
        self.family(name, help, kind, metrics);
    }

    /// `unit` is what the histogram's numbers are divided by.
    fn histogram(&mut self, names: &[&str], help: &str, histogram: &Histogram, unit: f64) {
        let buckets = histogram.buckets().map(|(bound, count)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(bound as f64 / unit);
            bucket.set_cumulative_count(count);
            bucket
        });
        let mut counts = proto::Histogram::default();
        counts.set_bucket(buckets.collect());
        counts.set_sample_count(histogram.count());
        counts.set_sample_sum(histogram.sum() as f64 / unit);
        for name in names {
            let mut metric = self.metric(name, vec![]);
            metric.set_histogram(counts.clone());
            self.family(name, help, MetricType::HISTOGRAM, vec![metric]);
        }
    }

    fn metric(&self, name: &str, labels: Vec<(&'static str, String)>) -> Metric {
        let model = ("model_name", self.model.clone());
        let is_labelled = !self.model.is_empty() && (self.several || !name.starts_with("llamacpp:"));
        let labels = labels.into_iter().chain(is_labelled.then_some(model)).map(|(name, value)| {
            let mut label = LabelPair::default();
            label.set_name(name.into());
            label.set_value(value);
            label
        });
        Metric::from_label(labels.collect())
    }

    fn family(&mut self, name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) {
        // All numbers of one name stand together.
        if let Some(family) = self.families.iter_mut().find(|family| family.name() == name) {
            let told = family.take_metric().into_iter().chain(metrics);
            family.set_metric(told.collect());
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.into());
        family.set_help(help.into());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.families.push(family);
    }
}
