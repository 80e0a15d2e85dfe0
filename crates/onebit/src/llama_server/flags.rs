//! llama-server's flags, and what each is to `1bit serve` (llama.cpp, `tools/server/README.md` and `common/arg.cpp`).

use super::translate::{self, Translation};

/// What follows a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Value,
    Two,
    /// `on`, `off` or `auto`, which may be missing.
    Switch,
}

/// What a flag does.
#[derive(Clone, Copy)]
pub(super) enum Does {
    /// Has a meaning here.
    Is(fn(&mut Translation, &str) -> Result<(), String>),
    /// Changes no answer: it is passed over, and said so.
    Nothing,
    /// Would change answers: only these values, which ask for what is done anyway, are passed over.
    Only(&'static [&'static str]),
    /// Is refused, for this reason.
    Refused(&'static str),
}

/// One flag.
pub(super) struct Flag {
    /// All its names, separated by spaces.
    pub(super) names: &'static str,
    /// The environment variable that stands for it; empty where there is none, or none that matters.
    pub(super) env: &'static str,
    pub(super) takes: Takes,
    pub(super) does: Does,
}

const fn flag(names: &'static str, env: &'static str, takes: Takes, does: Does) -> Flag {
    Flag { names, env, takes, does }
}

use Does::{Is, Nothing, Only, Refused};
use Takes::{Switch, Two, Value};

/// None of our kernels has it.
const NO_ADAPTERS: Does = Refused("adapters and control vectors are not supported");
const NO_ROPE: Does = Refused("positions are as the model says; other scalings are not supported");
const NO_GRAMMAR: Does = Refused("grammars come with requests (`grammar`, `json_schema`, `response_format`)");
const NO_UI: Does = Refused("there is no web interface, and nothing runs tools");
const NO_ROUTER: Does = Refused("one server serves the models of its -m");
const NO_TLS: Does = Refused("TLS is not spoken here; put a proxy in front");

/// All of them.
pub(super) static FLAGS: &[Flag] = &[
    // The model.
    flag("-m --model", "LLAMA_ARG_MODEL", Value, Is(|t, v| t.model(v.into()))),
    flag("-hf -hfr --hf-repo", "LLAMA_ARG_HF_REPO", Value, Is(|t, v| t.repository(v))),
    flag("-hff --hf-file", "LLAMA_ARG_HF_FILE", Value, Is(|t, v| t.repository_file(v))),
    flag("-hft --hf-token", "", Value, Is(|t, v| t.environment("HF_TOKEN", v))),
    flag("--offline", "LLAMA_ARG_OFFLINE", Takes::Nothing, Is(|t, _| t.environment("HF_HUB_OFFLINE", "1"))),
    flag("-mu --model-url", "LLAMA_ARG_MODEL_URL", Value, Refused("fetch the file, or name a repository by -hf")),
    flag("-dr --docker-repo", "LLAMA_ARG_DOCKER_REPO", Value, Refused("models are not fetched from Docker Hub; name a repository by -hf")),
    flag("--check-tensors", "", Takes::Nothing, Is(|t, _| t.serve("--check-tensors"))),
    flag("--override-kv", "", Value, Refused("a model's metadata cannot be overridden")),
    flag("--lora --lora-scaled --control-vector --control-vector-scaled", "", Value, NO_ADAPTERS),
    flag("--control-vector-layer-range", "", Two, NO_ADAPTERS),
    flag("--lora-init-without-apply", "", Takes::Nothing, NO_ADAPTERS),
    // Names, addresses, keys.
    flag("-a --alias", "LLAMA_ARG_ALIAS", Value, Is(|t, v| t.each("--alias", v))),
    flag("--tags", "LLAMA_ARG_TAGS", Value, Nothing),
    flag("--host", "LLAMA_ARG_HOST", Value, Is(|t, v| t.host(v))),
    flag("--port", "LLAMA_ARG_PORT", Value, Is(|t, v| t.serve_value("--port", v))),
    flag("--reuse-port", "LLAMA_ARG_REUSE_PORT", Takes::Nothing, Refused("a port belongs to one server")),
    flag("--api-key", "LLAMA_API_KEY", Value, Is(|t, v| t.each("--api-key", v))),
    flag("--api-key-file", "LLAMA_ARG_API_KEY_FILE", Value, Is(|t, v| t.serve_value("--api-key-file", v))),
    flag("--cors-origins", "LLAMA_ARG_CORS_ORIGINS", Value, Is(|t, v| t.each("--allowed-origin", v))),
    flag("--cors-methods --cors-headers", "", Value, Nothing),
    flag("--cors-credentials --no-cors-credentials", "", Takes::Nothing, Nothing),
    flag("--ssl-key-file", "LLAMA_ARG_SSL_KEY_FILE", Value, NO_TLS),
    flag("--ssl-cert-file", "LLAMA_ARG_SSL_CERT_FILE", Value, NO_TLS),
    flag("--api-prefix", "LLAMA_ARG_API_PREFIX", Value, Refused("paths have no prefix; put a proxy in front")),
    flag("--path", "LLAMA_ARG_STATIC_PATH", Value, NO_UI),
    flag("--media-path", "", Value, Refused("no file of this machine is sent to a model by its path")),
    flag("-to --timeout", "LLAMA_ARG_TIMEOUT", Value, Nothing),
    flag("--threads-http", "LLAMA_ARG_THREADS_HTTP", Value, Nothing),
    flag("--sse-ping-interval", "LLAMA_ARG_SSE_PING_INTERVAL", Value, Nothing),
    flag("--metrics", "LLAMA_ARG_ENDPOINT_METRICS", Takes::Nothing, Is(|t, _| t.once("--metrics"))),
    // It lets properties be changed, of which there are none that can be.
    flag("--props", "LLAMA_ARG_ENDPOINT_PROPS", Takes::Nothing, Nothing),
    flag("--slots", "LLAMA_ARG_ENDPOINT_SLOTS", Takes::Nothing, Is(|t, _| t.slots(true))),
    flag("--no-slots", "", Takes::Nothing, Is(|t, _| t.slots(false))),
    flag("--slot-save-path", "LLAMA_ARG_SLOT_SAVE_PATH", Value, Is(|t, v| t.serve_value("--slot-save-path", v))),
    flag("-sps --slot-prompt-similarity", "", Value, Nothing),
    flag("--sleep-idle-seconds", "", Value, Only(&["-1"])),
    flag("--ui --webui --no-ui --no-webui --no-agent -no-ag --no-ui-mcp-proxy --no-webui-mcp-proxy", "", Takes::Nothing, Nothing),
    flag("--ui-config --webui-config --ui-config-file --webui-config-file", "", Value, Nothing),
    flag("--ui-mcp-proxy --webui-mcp-proxy --agent -ag", "", Takes::Nothing, NO_UI),
    flag("--tools --tools-runtime --mcp-servers-config --mcp-servers-json", "", Value, NO_UI),
    flag("--models-dir --models-preset --models-max", "LLAMA_ARG_MODELS_DIR", Value, NO_ROUTER),
    flag("--models-autoload --no-models-autoload", "", Takes::Nothing, NO_ROUTER),
    // Context, batches, caches.
    flag("-c --ctx-size", "LLAMA_ARG_CTX_SIZE", Value, Is(|t, v| t.context(v))),
    flag("-np --parallel", "LLAMA_ARG_N_PARALLEL", Value, Is(|t, v| t.parallel(v))),
    flag("-kvu --kv-unified", "LLAMA_ARG_KV_UNIFIED", Takes::Nothing, Is(|t, _| t.unified(true))),
    flag("-no-kvu --no-kv-unified", "", Takes::Nothing, Is(|t, _| t.unified(false))),
    flag("--kv-unified-per-slot", "LLAMA_ARG_KV_UNIFIED_PER_SLOT", Value, Is(|t, v| t.context_per_slot(v))),
    flag("-n --predict --n-predict", "LLAMA_ARG_N_PREDICT", Value, Only(&["-1"])),
    flag("-b --batch-size", "LLAMA_ARG_BATCH", Value, Nothing),
    flag("-ub --ubatch-size", "LLAMA_ARG_UBATCH", Value, Nothing),
    flag("--keep", "", Value, Nothing),
    // Both end, or do not end, an answer whose context is full.
    flag("--context-shift --no-context-shift", "LLAMA_ARG_CONTEXT_SHIFT", Takes::Nothing, Nothing),
    flag("--swa-full", "LLAMA_ARG_SWA_FULL", Takes::Nothing, Nothing),
    flag("-ctk --cache-type-k", "LLAMA_ARG_CACHE_TYPE_K", Value, Is(|t, v| t.cache_type(0, v))),
    flag("-ctv --cache-type-v", "LLAMA_ARG_CACHE_TYPE_V", Value, Is(|t, v| t.cache_type(1, v))),
    flag("-dt --defrag-thold", "", Value, Nothing),
    flag("-cram --cache-ram -ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step --cache-reuse", "", Value, Nothing),
    flag("--cache-prompt --no-cache-prompt --cache-idle-slots --no-cache-idle-slots", "", Takes::Nothing, Nothing),
    flag("-cb --cont-batching -nocb --no-cont-batching", "LLAMA_ARG_CONT_BATCHING", Takes::Nothing, Nothing),
    flag("-lcs --lookup-cache-static -lcd --lookup-cache-dynamic", "", Value, Nothing),
    // Threads and devices.
    flag("-t --threads", "LLAMA_ARG_THREADS", Value, Is(|t, v| t.threads(v))),
    flag("-tb --threads-batch -C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll", "", Value, Nothing),
    flag("-Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch --numa", "", Value, Nothing),
    flag("-dev --device", "LLAMA_ARG_DEVICE", Value, Is(|t, v| t.device(v))),
    flag(
        "-ngl --gpu-layers --n-gpu-layers -ncmoe --n-cpu-moe --moe-cache-mib -ncffn --n-cpu-ffn",
        "LLAMA_ARG_N_GPU_LAYERS",
        Value,
        Nothing,
    ),
    flag("-sm --split-mode -ts --tensor-split -mg --main-gpu -ot --override-tensor -fitt --fit-target -fitc --fit-ctx", "", Value, Nothing),
    flag("-cmoe --cpu-moe", "LLAMA_ARG_CPU_MOE", Takes::Nothing, Nothing),
    flag("-fit --fit", "LLAMA_ARG_FIT", Switch, Nothing),
    flag("-fa --flash-attn", "LLAMA_ARG_FLASH_ATTN", Switch, Nothing),
    flag("-kvo --kv-offload -nkvo --no-kv-offload --op-offload --no-op-offload", "", Takes::Nothing, Nothing),
    flag("--repack -nr --no-repack --no-host --mlock --mmap --no-mmap -dio --direct-io -ndio --no-direct-io", "", Takes::Nothing, Nothing),
    flag("-lm --load-mode -lzm --lazy-mode", "LLAMA_ARG_LOAD_MODE", Value, Nothing),
    flag("--rpc", "LLAMA_ARG_RPC", Value, Refused("other machines do not take part")),
    flag("--warmup --no-warmup --perf --no-perf -bs --backend-sampling", "", Takes::Nothing, Nothing),
    // Positions.
    flag("--rope-scaling", "LLAMA_ARG_ROPE_SCALING_TYPE", Value, NO_ROPE),
    flag("--rope-scale --rope-freq-base --rope-freq-scale", "LLAMA_ARG_ROPE_SCALE", Value, NO_ROPE),
    flag(
        "--yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast",
        "LLAMA_ARG_YARN_ORIG_CTX",
        Value,
        NO_ROPE,
    ),
    // Chats.
    flag("--jinja", "", Takes::Nothing, Nothing),
    flag("--no-jinja", "", Takes::Nothing, Refused("templates are always rendered as what they are, Jinja")),
    flag("--chat-template", "LLAMA_ARG_CHAT_TEMPLATE", Value, Refused("write the template to a file and give it to --chat-template-file")),
    flag("--chat-template-file", "LLAMA_ARG_CHAT_TEMPLATE_FILE", Value, Is(|t, v| t.serve_value("--chat-template", v))),
    flag("--chat-template-kwargs", "LLAMA_ARG_CHAT_TEMPLATE_KWARGS", Value, Refused("they come with requests (`chat_template_kwargs`)")),
    flag("--reasoning-format", "LLAMA_ARG_THINK", Value, Only(&["auto", "deepseek"])),
    flag("-rea --reasoning", "LLAMA_ARG_REASONING", Value, Only(&["auto"])),
    flag("--reasoning-effort", "LLAMA_ARG_REASONING_EFFORT", Value, Only(&["default"])),
    flag("--reasoning-budget", "LLAMA_ARG_THINK_BUDGET", Value, Is(|t, v| t.serve_value("--reasoning-budget", v))),
    flag("--reasoning-budget-message", "", Value, Nothing),
    flag("--reasoning-preserve --no-reasoning-preserve", "", Takes::Nothing, Nothing),
    flag("--skip-chat-parsing", "LLAMA_ARG_SKIP_CHAT_PARSING", Takes::Nothing, Refused("calls and reasoning are always read")),
    flag("--no-skip-chat-parsing --prefill-assistant", "", Takes::Nothing, Nothing),
    flag("--no-prefill-assistant", "", Takes::Nothing, Refused("a last message of the assistant is always continued")),
    flag("-r --reverse-prompt", "", Value, Refused("texts that end an answer come with requests (`stop`)")),
    flag("-sp --special --spm-infill", "", Takes::Nothing, Refused("it is not supported")),
    // What requests that do not say take.
    flag("--temp --temperature", "LLAMA_ARG_TEMPERATURE", Value, Is(|t, v| t.serve_value("--temperature", v))),
    flag("--top-k", "LLAMA_ARG_TOP_K", Value, Is(|t, v| t.serve_value("--top-k", v))),
    flag("--top-p", "LLAMA_ARG_TOP_P", Value, Is(|t, v| t.serve_value("--top-p", v))),
    flag("--min-p", "LLAMA_ARG_MIN_P", Value, Is(|t, v| t.serve_value("--min-p", v))),
    flag("--repeat-penalty", "LLAMA_ARG_REPEAT_PENALTY", Value, Is(|t, v| t.serve_value("--repeat-penalty", v))),
    flag("--presence-penalty", "LLAMA_ARG_PRESENCE_PENALTY", Value, Is(|t, v| t.serve_value("--presence-penalty", v))),
    flag("--frequency-penalty", "LLAMA_ARG_FREQUENCY_PENALTY", Value, Is(|t, v| t.serve_value("--frequency-penalty", v))),
    flag("-s --seed", "", Value, Is(|t, v| t.seed(v))),
    flag("--top-nsigma --top-n-sigma", "", Value, Only(&["-1", "-1.0", "-1.00"])),
    flag("--typical --typical-p --xtc-threshold", "", Value, Only(&["1", "1.0", "1.00"])),
    flag("--xtc-probability --dry-multiplier --dynatemp-range --mirostat", "", Value, Only(&["0", "0.0", "0.00"])),
    flag("--dry-base --dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker", "", Value, Nothing),
    flag("--dynatemp-exp --mirostat-lr --mirostat-ent --adaptive-decay", "", Value, Nothing),
    flag(
        "--adaptive-target --repeat-last-n --samplers --sampler-seq --sampling-seq -l --logit-bias",
        "",
        Value,
        Refused("it comes with requests"),
    ),
    flag("--ignore-eos", "", Takes::Nothing, Refused("it comes with requests (`ignore_eos`)")),
    flag("--grammar --grammar-file -j --json-schema -jf --json-schema-file", "", Value, NO_GRAMMAR),
    flag("-e --escape --no-escape", "", Takes::Nothing, Nothing),
    // Speculation: the answers are the same without it.
    flag("-md --model-draft --spec-draft-model -hfd -hfrd --hf-repo-draft --spec-draft-hf", "LLAMA_ARG_SPEC_DRAFT_MODEL", Value, Nothing),
    flag(
        "--spec-type --spec-draft-n-max --spec-draft-n-min --spec-draft-p-min --draft-p-min --spec-draft-p-split",
        "LLAMA_ARG_SPEC_TYPE",
        Value,
        Nothing,
    ),
    flag("--draft-p-split --draft --draft-n --draft-max --draft-min --draft-n-min --spec-draft-sampling", "", Value, Nothing),
    flag("-td --threads-draft --spec-draft-threads -tbd --threads-batch-draft --spec-draft-threads-batch", "", Value, Nothing),
    flag("-devd --device-draft --spec-draft-device -ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl", "", Value, Nothing),
    flag("-ctkd --cache-type-k-draft --spec-draft-type-k -ctvd --cache-type-v-draft --spec-draft-type-v", "", Value, Nothing),
    flag("-otd --override-tensor-draft --spec-draft-override-tensor -ncmoed --n-cpu-moe-draft --spec-draft-n-cpu-moe", "", Value, Nothing),
    flag("--spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match --spec-ngram-simple-size-n", "", Value, Nothing),
    flag("--spec-ngram-simple-size-m --spec-ngram-simple-min-hits --spec-ngram-map-k-size-n --spec-ngram-map-k-size-m", "", Value, Nothing),
    flag(
        "--spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n --spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-min-hits",
        "",
        Value,
        Nothing,
    ),
    flag("-cmoed --cpu-moe-draft --spec-draft-cpu-moe --spec-default", "", Takes::Nothing, Nothing),
    flag("--spec-draft-backend-sampling --no-spec-draft-backend-sampling", "", Takes::Nothing, Nothing),
    // Kinds of models.
    flag("--embedding --embeddings", "LLAMA_ARG_EMBEDDINGS", Takes::Nothing, Is(|t, _| t.once("--embeddings"))),
    flag("--rerank --reranking", "LLAMA_ARG_RERANKING", Takes::Nothing, Is(|t, _| t.once("--reranking"))),
    flag("--pooling", "LLAMA_ARG_POOLING", Value, Is(|t, v| t.pooling(v))),
    flag("--embd-normalize", "", Value, Only(&["2"])),
    flag("-mm --mmproj", "LLAMA_ARG_MMPROJ", Value, Is(|t, v| t.serve_value("--mmproj", v))),
    flag("-mmu --mmproj-url", "LLAMA_ARG_MMPROJ_URL", Value, Refused("fetch the file, and give it to --mmproj")),
    flag("--mmproj-auto --no-mmproj-auto --mmproj-offload --no-mmproj-offload", "", Takes::Nothing, Nothing),
    flag("--no-mmproj", "", Takes::Nothing, Is(|t, _| t.serve("--no-mmproj"))),
    flag("-mmdev --mmproj-device --mtmd-batch-max-tokens", "", Value, Nothing),
    flag("--image-max-tokens", "LLAMA_ARG_IMAGE_MAX_TOKENS", Value, Is(|t, v| t.serve_value("--image-max-tokens", v))),
    flag(
        "--image-min-tokens",
        "LLAMA_ARG_IMAGE_MIN_TOKENS",
        Value,
        Refused("images have as few tokens as the model's processor gives them"),
    ),
    flag("--video-fps --video-timestamp-interval --video-ffmpeg-dir", "", Value, Nothing),
    // Messages.
    flag("-v --verbose --log-verbose", "", Takes::Nothing, Is(|t, _| t.verbose())),
    flag("-lv --verbosity --log-verbosity", "LLAMA_ARG_LOG_VERBOSITY", Value, Is(translate::verbosity)),
    flag("--log-disable", "", Takes::Nothing, Is(|t, _| t.quiet())),
    flag("--log-file --log-colors --log-prompts-dir", "", Value, Nothing),
    flag("--log-jsonl --no-log-jsonl --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps", "", Takes::Nothing, Nothing),
];

/// The flag of this name.
pub(super) fn find(name: &str) -> Option<&'static Flag> {
    // Both forms of the hyphen in long names are taken, as llama-server does.
    let name = if name.starts_with("--") { name.replace('_', "-") } else { name.to_string() };
    FLAGS.iter().find(|f| f.names.split(' ').any(|n| n == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_name_means_one_thing() {
        let (mut names, mut variables) = (HashSet::new(), HashSet::new());
        for flag in FLAGS {
            assert!(flag.names.split(' ').all(|n| n.starts_with('-') && names.insert(n)), "{}", flag.names);
            assert!(flag.env.is_empty() || variables.insert(flag.env), "{}", flag.env);
        }
        assert!(find("--ctx_size").is_some_and(|f| f.names.contains("-c ")) && find("--nonsense").is_none());
    }
}
