//! The architectures: one file each, one line each in [`ALL`].

mod afmoe;
mod altup;
mod apertus;
mod arctic;
mod baichuan;
mod bailing;
mod bailing_hybrid;
mod bamba;
mod bart;
mod bert;
pub(crate) mod bitnet;
mod blocks;
mod bloom;
mod codeshell;
mod cohere;
mod cohere2_moe;
mod dbrx;
mod deberta;
mod deci;
mod deepseek;
mod denoiser;
mod diffllama;
mod doge;
mod dream;
mod encoder;
mod ernie4_5;
mod eurobert;
mod exaone;
mod exaone4;
mod falcon;
mod falcon_h1;
mod gemma;
mod gemma2;
mod gemma3n;
mod gemma4;
mod gemma4_attention;
mod glm;
mod glm4_moe;
mod gpt2;
mod gpt_neo;
mod gpt_neox;
mod gpt_oss;
mod gptj;
mod granite;
mod granite_hybrid;
mod grok;
mod hunyuan;
mod hybrid;
mod hyper;
mod internlm2;
mod jais;
mod jamba;
mod jetmoe;
mod jina_bert;
mod kda;
mod kimi_linear;
mod latent;
mod lfm2;
mod lfm3;
mod llada;
mod llama;
mod llama4;
pub(crate) mod llama_like;
mod longcat_flash;
mod maincoder;
mod mamba;
mod mamba2;
mod mellum;
mod mimo_v2;
mod minicpm;
mod minicpm3;
mod minimax;
mod mixture;
mod modernbert;
mod mpnet;
mod mpt;
mod nanochat;
mod nemotron;
mod nemotron_h;
mod ngram;
mod nomic_bert;
mod olmo;
mod olmo2;
mod olmo_hybrid;
mod olmoe;
mod openelm;
mod opt;
mod phi;
mod phi3;
mod phimoe;
mod plamo;
mod plamo2;
mod plamo3;
mod qwen;
mod qwen2;
mod qwen3;
mod qwen3_5;
mod qwen3_next;
mod qwen4_exp;
mod recurrent_gemma;
mod relative;
mod rwkv;
mod rwkv6;
mod rwkv7;
mod seed_oss;
mod seq2seq;
mod smallthinker;
mod stablelm;
mod starcoder2;
mod t5;
pub(crate) mod variants;
mod windows;
mod zamba2;
mod zaya;

pub(crate) use blocks::{Norm, paired};

use crate::{Error, Result, names::Entry, settings::Settings};
use onebit_formats::{Checkpoint, Source};
use onebit_plan::{Graph, Value};

/// An architecture: what it is called, what its tensors are called, and how its plan is built.
pub struct Arch {
    /// `model_type` in `config.json`.
    pub hf: &'static [&'static str],
    /// `general.architecture` in GGUF files; `convert` writes the first.
    pub gguf: &'static [&'static str],
    /// The modules' names, in tables that architectures share.
    pub(crate) tensors: &'static [&'static [Entry]],
    /// Tensors that checkpoints hold and the plan has no use for, with `*`.
    pub(crate) ignored: &'static [&'static str],
    /// Builds the plan up to the logits.
    pub(crate) plan: fn(&Settings<'_>, &mut Graph<'_>) -> Result<Value>,
}

/// All of them.
static ALL: &[&Arch] = &[
    &bitnet::BITNET_B158,
    &bitnet::BITNET,
    &llama::LLAMA,
    &llama::MINISTRAL3,
    &llama::ARCEE,
    &llama::SMOLLM3,
    &olmo::OLMO,
    &olmo2::OLMO2,
    &cohere::COHERE,
    &cohere::COHERE2,
    &stablelm::STABLELM,
    &starcoder2::STARCODER2,
    &nemotron::NEMOTRON,
    &gpt2::GPT2,
    &gpt2::GPT_BIGCODE,
    &gpt_neo::GPT_NEO,
    &gpt_neox::GPT_NEOX,
    &gptj::GPTJ,
    &gptj::CODEGEN,
    &opt::OPT,
    &opt::XGLM,
    &bloom::BLOOM,
    &mpt::MPT,
    &falcon::FALCON,
    &phi::PHI,
    &phi::PERSIMMON,
    &dbrx::DBRX,
    &phi3::PHI3,
    &phimoe::PHIMOE,
    &glm::GLM,
    &glm::GLM4,
    &seed_oss::SEED_OSS,
    &gemma::GEMMA,
    &olmoe::OLMOE,
    &gemma2::GEMMA2,
    &gemma2::VAULTGEMMA,
    &gemma2::GEMMA3,
    &gemma2::GEMMA_EMBEDDING,
    &gemma3n::GEMMA3N,
    &gemma4::GEMMA4,
    &ernie4_5::ERNIE4_5,
    &ernie4_5::HELIUM,
    &exaone::EXAONE,
    &exaone4::EXAONE4,
    &hunyuan::HUNYUAN,
    &hunyuan::HUNYUAN_MOE,
    &nanochat::NANOCHAT,
    &apertus::APERTUS,
    &diffllama::DIFFLLAMA,
    &doge::DOGE,
    &granite::GRANITE,
    &granite::GRANITE_MOE,
    &granite::HYPERCLOVAX,
    &qwen2::QWEN2,
    &qwen2::QWEN2_VL,
    &qwen2::QWEN2_MOE,
    &qwen3::QWEN3,
    &qwen3::QWEN3_VL,
    &qwen3::QWEN3_VL_MOE,
    &qwen3::QWEN3_MOE,
    &glm4_moe::GLM4_MOE,
    &glm4_moe::SOLAR_OPEN,
    &glm4_moe::SARVAM_MOE,
    &glm4_moe::DOTS1,
    &glm4_moe::HY_V3,
    &glm4_moe::MINIMAX_M2,
    &glm4_moe::ERNIE4_5_MOE,
    &afmoe::AFMOE,
    &mimo_v2::MIMO_V2_FLASH,
    &gpt_oss::GPT_OSS,
    &llama4::LLAMA4,
    &deepseek::DEEPSEEK_V2,
    &deepseek::DEEPSEEK_V3,
    &deepseek::DEEPSEEK_V32,
    &deepseek::GLM_MOE_DSA,
    &deepseek::AXK1,
    &deepseek::YOUTU,
    &minicpm3::MINICPM3,
    &longcat_flash::LONGCAT_FLASH,
    &qwen3_5::QWEN3_5,
    &qwen3_5::QWEN3_5_MOE,
    &qwen4_exp::QWEN4_EXP,
    &zaya::ZAYA,
    &mamba::MAMBA,
    &mamba::FALCON_MAMBA,
    &mamba2::MAMBA2,
    &jamba::JAMBA,
    &falcon_h1::FALCON_H1,
    &granite_hybrid::GRANITE_HYBRID,
    &bamba::BAMBA,
    &nemotron_h::NEMOTRON_H,
    &zamba2::ZAMBA2,
    &recurrent_gemma::RECURRENT_GEMMA,
    &lfm2::LFM2,
    &rwkv::RWKV,
    &rwkv6::RWKV6,
    &rwkv6::RWKV6_QWEN2,
    &rwkv7::RWKV7,
    &qwen3_next::QWEN3_NEXT,
    &olmo_hybrid::OLMO_HYBRID,
    &lfm3::LFM3,
    &minimax::MINIMAX,
    &lfm2::LFM2_MOE,
    &kimi_linear::KIMI_LINEAR,
    &bailing_hybrid::BAILING_HYBRID,
    &plamo::PLAMO,
    &plamo2::PLAMO2,
    &plamo3::PLAMO3,
    &grok::GROK1,
    &grok::GROK2,
    &smallthinker::SMALLTHINKER,
    &codeshell::CODESHELL,
    &jais::JAIS,
    &jais::JAIS2,
    &deci::DECI,
    &maincoder::MAINCODER,
    &olmo2::FLEX_OLMO,
    &mellum::MELLUM,
    &cohere2_moe::COHERE2_MOE,
    &deepseek::MISTRAL4,
    &exaone4::EXAONE_MOE,
    &openelm::OPENELM,
    &llama::XVERSE,
    &llama::INTERNLM,
    &llama::ORION,
    &llama::PANGU_EMBEDDED,
    &minicpm::MINICPM,
    &internlm2::INTERNLM2,
    &baichuan::BAICHUAN,
    &baichuan::BAICHUAN2,
    &glm::CHATGLM,
    &qwen::QWEN,
    &glm4_moe::DEEPSEEK,
    &bailing::BAILING_MOE,
    &bailing::BAILING_MOE_NORM_HEAD,
    &bailing::BAILING_MOE_V2,
    &arctic::ARCTIC,
    &jetmoe::JETMOE,
    &modernbert::MODERNBERT_DECODER,
    &bart::BART,
    &bart::MBART,
    &bart::MARIAN,
    &bart::PEGASUS,
    &bart::M2M_100,
    &bart::BLENDERBOT,
    &bart::BLENDERBOT_SMALL,
    &t5::T5,
    &t5::UMT5,
    &t5::MT5,
    &t5::T5_ENCODER,
    &llada::LLADA,
    &llada::LLADA_MOE,
    &dream::DREAM,
    &bert::BERT,
    &bert::ROBERTA,
    &bert::ELECTRA,
    &bert::DISTILBERT,
    &mpnet::MPNET,
    &deberta::DEBERTA_V2,
    &modernbert::MODERNBERT,
    &nomic_bert::NOMIC_BERT,
    &nomic_bert::NOMIC_BERT_MOE,
    &nomic_bert::JINA_EMBEDDINGS_V3,
    &jina_bert::JINA_BERT_V2,
    &jina_bert::JINA_BERT_V2_CODE,
    &eurobert::EUROBERT,
    &eurobert::NEOBERT,
];

/// All architectures.
pub fn architectures() -> impl Iterator<Item = &'static Arch> {
    ALL.iter().copied()
}

/// What a checkpoint's own name for its architecture says.
pub(crate) enum Named<'a> {
    /// The architecture, and the name under which it was found.
    Known(&'static Arch, &'a str),
    /// No architecture goes by this name.
    Unknown(&'a str),
}

impl Arch {
    /// Its names where checkpoints of the kind `source` have them.
    pub(crate) fn names(&self, source: Source) -> &'static [&'static str] {
        match source {
            Source::Gguf => self.gguf,
            Source::HuggingFace => self.hf,
        }
    }

    /// The architecture that a checkpoint names.
    pub(crate) fn find(checkpoint: &Checkpoint) -> Result<Named<'_>> {
        let missing = |key: &str, file: &str| Error::Setting {
            path: if file.is_empty() { checkpoint.path.clone() } else { checkpoint.path.join(file) },
            key: key.into(),
            what: "is missing: it names the architecture".into(),
        };
        let names: Vec<&str> = match checkpoint.source {
            Source::Gguf => {
                vec![checkpoint.metadata.text("general.architecture")?.ok_or_else(|| missing("general.architecture", ""))?]
            }
            Source::HuggingFace => {
                let text = checkpoint.config.get("text_config").and_then(|text| text.get("model_type"));
                let names = [checkpoint.config.get("model_type"), text];
                let names = names.into_iter().flatten().filter_map(|name| name.as_str());
                names.map(|name| variants::variant(name, &checkpoint.config)).collect()
            }
        };
        let Some(first) = names.first() else { return Err(missing("model_type", "config.json")) };
        let known = |name: &&str| architectures().find(|a| a.names(checkpoint.source).contains(name));
        let found = names.iter().find_map(|name| known(name).map(|arch| Named::Known(arch, name)));
        Ok(found.unwrap_or(Named::Unknown(first)))
    }
}
