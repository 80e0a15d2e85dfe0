use onebit_engine::{Diffusion, Remasking, Sampling};
use onebit_text::{Encode, Tokenizer};

/// How tokens are chosen; shared by `run` and `chat`.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Randomness; 0 always takes the most probable token
    #[arg(long, default_value_t = 0.0, value_name = "T")]
    temperature: f32,
    /// Keep the K most probable tokens; 0 keeps all
    #[arg(long, default_value_t = 40, value_name = "K")]
    top_k: usize,
    /// Keep the most probable tokens that together reach P
    #[arg(long, default_value_t = 0.95, value_name = "P")]
    top_p: f32,
    /// Keep tokens at least P times as probable as the most probable one
    #[arg(long, default_value_t = 0.05, value_name = "P")]
    min_p: f32,
    /// Divide the logits of tokens seen lately; 1 does nothing
    #[arg(long, default_value_t = 1.0, value_name = "X")]
    repeat_penalty: f32,
    /// Where the random numbers start; the same seed gives the same answer
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl SamplingArgs {
    pub(crate) fn to_sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            seed: self.seed,
            ..Sampling::default()
        }
    }
}

/// How an answer is made of masks; shared by `run` and `chat`.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Masked diffusion (LLaDA, Dream)")]
pub(crate) struct DiffusionArgs {
    /// Steps in which the answer is made [default: one for each token]
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
    /// Tokens of a block, one of which is made after the other; 0 makes the answer at once, by times [default: 32 for LLaDA, 0 for Dream]
    #[arg(long, value_name = "N")]
    block_length: Option<usize>,
    /// Which guesses are kept: low_confidence (the most probable), entropy, margin, random, origin
    #[arg(long, default_value = "low_confidence", value_name = "WHICH", value_parser = remasking)]
    remasking: Remasking,
    /// The last time, where the answer is made by times
    #[arg(long, default_value_t = Diffusion::default().eps, value_name = "T")]
    eps: f32,
}

/// How an answer begins; shared by `run` and `chat`.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Encoder and decoder (T5, BART)")]
pub(crate) struct AnswerArgs {
    /// Begin the answer with this text or special token: the language, for models that translate into several [default: as the model has it]
    #[arg(long, value_name = "TEXT")]
    answer_start: Option<String>,
}

impl AnswerArgs {
    pub(crate) fn tokens(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let encode = |text: &String| tokenizer.encode(text, Encode { add_special: false, parse_special: true });
        self.answer_start.as_ref().map(encode).unwrap_or_default()
    }
}

fn remasking(name: &str) -> Result<Remasking, String> {
    Remasking::named(name).ok_or_else(|| format!("known are {}", Remasking::NAMES.map(|(name, _)| name).join(", ")))
}

impl DiffusionArgs {
    pub(crate) fn to_diffusion(&self) -> Diffusion {
        Diffusion { steps: self.steps, block: self.block_length, remasking: self.remasking, eps: self.eps }
    }
}
