//! The fixtures that are run. An architecture enters its own here once: the forms of a checkpoint, the conversion, llama.cpp and every
//! device are then tested with it.

/// Calls the macro `$each` with the names of all fixtures: `name: gguf,` where GGUF has a form of the model, which `convert` writes and
/// llama.cpp reads; `name: hub_only,` where it has none, and `convert` must say so.
#[macro_export]
macro_rules! fixtures {
    ($each:ident) => {
        $each! {
            llama: gguf,
            mistral: gguf,
            ministral: hub_only,
            mixtral: gguf,
            cwm: hub_only,
            internlm3: gguf,
            arcee: gguf,
            smollm3: hub_only,
            olmo: gguf,
            olmo2: gguf,
            olmo3: gguf,
            olmoe: hub_only,
            cohere: gguf,
            stablelm: gguf,
            starcoder2: gguf,
            nemotron: gguf,
            phi3: gguf,
            glm: gguf,
            glm4: gguf,
            seed_oss: gguf,
            gemma: gguf,
            gemma2: gguf,
            gemma3_text: gguf,
            vaultgemma: hub_only,
            ernie4_5: gguf,
            helium: hub_only,
            exaone: gguf,
            exaone4: hub_only,
            hunyuan_v1_dense: gguf,
            hunyuan_v1_moe: gguf,
            nanochat: hub_only,
            granite: gguf,
            granitemoe: gguf,
            hyperclovax: hub_only,
            qwen2: gguf,
            qwen2_moe: hub_only,
            qwen3: gguf,
            qwen3_moe: gguf,
            qwen3_5_text: gguf,
            qwen3_5_moe_text: gguf,
        }
    };
}
