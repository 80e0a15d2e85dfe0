use crate::{
    Loudness,
    command::form::FormArgs,
    command::sampling::{AnswerArgs, DiffusionArgs, SamplingArgs},
    failure::Usage,
    open::{self, ContextArgs, DeviceArgs, Loaded},
    prompt,
    sight::{See, SightArgs},
    speed,
};
use anyhow::{Context, anyhow};
use onebit_engine::{Event, Finish, FinishReason, Request};
use onebit_text::Encode;
use serde_json::json;
use std::{
    io::{IsTerminal, Read, Write},
    path::PathBuf,
};

/// Answer one prompt
///
/// The answer goes to stdout as it comes, tokens per second to stderr. What is piped in is read: alone it is the prompt, with a
/// prompt it follows it.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// The model
    model: String,
    /// The prompt
    prompt: Vec<String>,
    /// Show this image before the prompt; can be given several times
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Instructions that come before the prompt
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Most tokens to answer with [default: until the model ends or the context is full]
    #[arg(short = 'n', long, value_name = "N")]
    max_tokens: Option<usize>,
    /// End the answer before this text; can be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Continue the prompt as it is, without the model's chat template
    #[arg(long)]
    raw: bool,
    /// Print one JSON object with the answer and its statistics instead of the text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    diffusion: DiffusionArgs,
    #[command(flatten)]
    answer: AnswerArgs,
    #[command(flatten)]
    sight: SightArgs,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// The most bytes of a prompt that are read from a pipe.
const MOST_INPUT: u64 = 64 << 20;

impl Run {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let prompt = self.whole_prompt()?;
        let see = if self.image.is_empty() { See::Not } else { See::Must(&self.sight) };
        let loaded = open::engine(&self.model, &self.device, &self.context, see, loudness)?;
        let request = Request {
            answer_start: self.answer.tokens(loaded.engine.tokenizer()),
            max_tokens: self.max_tokens,
            sampling: self.sampling.to_sampling(),
            stop: self.stop.clone(),
            diffusion: self.diffusion.to_diffusion(),
            ..self.request(&loaded, &prompt)?
        };
        let mut stream = loaded.engine.submit(request).map_err(|e| Usage(e.to_string()))?;
        let mut answer = String::new();
        let mut out = std::io::stdout().lock();
        let mut show = |text: &str| -> std::io::Result<()> {
            answer.push_str(text);
            if self.json {
                return Ok(());
            }
            out.write_all(text.as_bytes())?;
            out.flush()
        };
        let finish = loop {
            match stream.blocking_next() {
                Some(Event::Token(t)) => show(&t.text)?,
                Some(Event::Finished(f)) => {
                    show(&f.text)?;
                    break f;
                }
                Some(Event::Failed(e)) => return Err(anyhow!(e).context("the answer broke off")),
                Some(Event::Prompt(_) | Event::Embedding(_)) => {}
                None => return Err(anyhow!("the engine ended")),
            }
        };
        if self.json {
            writeln!(out, "{}", summary(&loaded.name, &answer, &finish))?;
        } else if !answer.ends_with('\n') {
            writeln!(out)?;
        }
        if loudness > Loudness::Quiet {
            eprintln!("{}", speed::line(&finish.usage, &finish.timings));
        }
        if finish.reason == FinishReason::Length && self.max_tokens.is_none() && loudness > Loudness::Quiet {
            eprintln!("the context of {} tokens is full; --ctx-size makes it larger", loaded.engine.context());
        }
        Ok(())
    }

    fn request(&self, loaded: &Loaded, prompt: &str) -> anyhow::Result<Request> {
        let images = loaded.tower.iter().flat_map(|tower| self.image.iter().map(|file| prompt::look(tower, file)));
        let images = images.collect::<anyhow::Result<Vec<_>>>()?;
        let template = loaded.template.as_ref().filter(|_| !self.raw);
        let (text, encode) = match template {
            None => {
                let text = self.system.as_ref().map_or(prompt.to_string(), |s| format!("{s}\n\n{prompt}"));
                (text, Encode { add_special: true, parse_special: self.raw })
            }
            Some(_) => {
                let system = self.system.as_ref().map(|system| json!({"role": "system", "content": system}));
                let messages: Vec<_> = system.into_iter().chain([prompt::message(prompt, images.len())]).collect();
                (prompt::rendered(loaded, messages.into())?, prompt::RENDERED)
            }
        };
        let grammar = self.form.grammar(&loaded.engine, template, &text)?;
        Ok(Request { grammar, ..prompt::of_text(loaded, &text, &images, encode)? })
    }

    fn whole_prompt(&self) -> anyhow::Result<String> {
        let mut prompt = self.prompt.join(" ");
        let mut input = std::io::stdin().lock();
        // With a prompt given, an inherited stdin that nobody writes to must not be waited for: only a pipe or a file is read.
        if !input.is_terminal() && (prompt.is_empty() || piped()) {
            let mut piped = String::new();
            (&mut input).take(MOST_INPUT).read_to_string(&mut piped).context("reading the prompt from stdin")?;
            if !piped.trim().is_empty() {
                prompt = if prompt.is_empty() { piped } else { format!("{prompt}\n\n{piped}") };
            }
        }
        if prompt.trim().is_empty() {
            return Err(Usage("there is no prompt: give it behind the model, or pipe it in; `1bit chat` talks".into()).into());
        }
        Ok(prompt)
    }
}

/// Whether stdin is a file, or a pipe that has something in it or whose writer is gone.
fn piped() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdin = std::io::stdin();
    let Ok(stat) = rustix::fs::fstat(&stdin) else { return false };
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::RegularFile => true,
        rustix::fs::FileType::Fifo => {
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            let wait = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
            poll(&mut fds, Some(&wait)).is_ok_and(|n| n > 0) && fds[0].revents().contains(PollFlags::IN)
        }
        _ => false,
    }
}

fn summary(model: &str, answer: &str, finish: &Finish) -> serde_json::Value {
    let t = &finish.timings;
    let decoded = finish.usage.completion.saturating_sub(1) as f64;
    let rate = |n: f64, s: f64| if s > 0.0 { n / s } else { 0.0 };
    json!({
        "model": model,
        "answer": answer,
        "finish_reason": format!("{:?}", finish.reason).to_lowercase(),
        "prompt_tokens": finish.usage.prompt,
        "completion_tokens": finish.usage.completion,
        "prompt_seconds": t.prompt.as_secs_f64(),
        "decode_seconds": t.decode.as_secs_f64(),
        "prompt_tokens_per_second": rate(finish.usage.prompt as f64, t.prompt.as_secs_f64()),
        "decode_tokens_per_second": rate(decoded, t.decode.as_secs_f64()),
    })
}
