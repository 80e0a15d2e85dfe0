//! Decodes token ids greedily, and tells how fast: `cargo run --release -p onebit-cpu --example greedy -- MODEL.gguf`.
//!
//! For work on the device; users have `1bit bench`. Beside the time on the clock it prints the processor time of the calling
//! thread, which says what the machine would do if it had nothing else to do.

use onebit_cpu::Cpu;
use onebit_formats::Checkpoint;
use onebit_plan::{ActivationKind, Batch, Device, Executable, KvType, Limits, Span};
use std::{
    error::Error,
    path::Path,
    time::{Duration, Instant},
};

/// Settings, from the command line.
struct Settings {
    model: String,
    threads: Option<usize>,
    prompt: usize,
    generate: usize,
    depth: usize,
    batch: usize,
    rounds: usize,
    exact: bool,
    profile: bool,
    ids: Vec<u32>,
}

fn settings() -> Result<Settings, Box<dyn Error>> {
    let usage =
        "greedy MODEL [--threads N] [--prompt N] [--gen N] [--depth N] [--batch N] [--rounds N] [--ids 1,2,3] [--exact] [--profile]";
    let mut s = Settings {
        model: String::new(),
        threads: None,
        prompt: 512,
        generate: 64,
        depth: 0,
        batch: 512,
        rounds: 3,
        exact: false,
        profile: false,
        ids: vec![],
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(usage);
        match arg.as_str() {
            "--threads" => s.threads = Some(value()?.parse()?),
            "--prompt" => s.prompt = value()?.parse()?,
            "--gen" => s.generate = value()?.parse()?,
            "--depth" => s.depth = value()?.parse()?,
            "--batch" => s.batch = value()?.parse()?,
            "--rounds" => s.rounds = value()?.parse()?,
            "--ids" => s.ids = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--exact" => s.exact = true,
            "--profile" => s.profile = true,
            flag if flag.starts_with('-') => return Err(usage.into()),
            _ => s.model = arg,
        }
    }
    if s.model.is_empty() { Err(usage.into()) } else { Ok(s) }
}

/// Processor time of this thread.
fn processor() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// One sequence.
struct Run<'a> {
    exe: &'a mut dyn Executable,
    pages: Vec<u32>,
    len: usize,
}

impl Run<'_> {
    /// Appends tokens; the most likely next one.
    fn feed(&mut self, tokens: &[u32]) -> Result<u32, Box<dyn Error>> {
        let batch = self.exe.limits().batch;
        let mut best = 0;
        for part in tokens.chunks(batch) {
            let span = Span { len: part.len(), start: self.len, pages: &self.pages, slot: 0, outputs: 1 };
            let logits = self.exe.step(&Batch::text(part, &[span]))?;
            best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap_or(0) as u32;
            self.len += part.len();
        }
        Ok(best)
    }
    fn generate(&mut self, mut next: u32, count: usize) -> Result<Vec<u32>, Box<dyn Error>> {
        let mut out = vec![];
        for _ in 0..count {
            out.push(next);
            next = self.feed(&[next])?;
        }
        Ok(out)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let s = settings()?;
    let cpu = Cpu::new(s.threads);
    let model = onebit_models::load(&Checkpoint::open(Path::new(&s.model))?)?;
    let prompt = if s.ids.is_empty() { s.prompt } else { s.ids.len() };
    let pages = (s.depth + prompt + s.generate).div_ceil(64) + 1;
    let limits = Limits {
        batch: s.batch,
        outputs: 1,
        page: 64,
        pages,
        slots: 1,
        kv: KvType::F16,
        activations: if s.exact { ActivationKind::F32 } else { ActivationKind::Int8 },
    };
    let memory = cpu.memory(&model, &limits);
    let start = Instant::now();
    let mut exe = cpu.load(model, &limits, &mut |_| {})?;
    eprintln!("{} threads, {:?}, {memory:?}, loaded in {:.2?}", cpu.threads(), cpu.isa().level(), start.elapsed());
    let pages: Vec<u32> = (0..pages as u32).collect();
    for round in 0..=s.rounds {
        let id = |i: usize| ((i * 7919 + round * 104_729) % 40_000 + 100) as u32;
        let ids: Vec<u32> = if s.ids.is_empty() { (0..prompt).map(id).collect() } else { s.ids.clone() };
        let mut run = Run { exe: exe.as_mut(), pages: pages.clone(), len: 0 };
        if s.depth > 0 {
            run.feed(&(0..s.depth).map(id).collect::<Vec<_>>())?;
        }
        let timed = |name: &str, tokens: usize, work: &mut dyn FnMut() -> Result<(), Box<dyn Error>>| -> Result<(), Box<dyn Error>> {
            cpu.profile().reset();
            cpu.profile().switch(s.profile && round == s.rounds);
            let (wall, busy) = (Instant::now(), processor());
            work()?;
            let (wall, busy) = (wall.elapsed(), processor() - busy);
            let rate = |t: Duration| tokens as f64 / t.as_secs_f64();
            if round > 0 {
                eprintln!("{name} {:8.1} tokens/s, {:8.1} by processor time", rate(wall), rate(busy));
            }
            for row in cpu.profile().rows() {
                eprintln!("  {:9.3} ms {:6}  {}", row.time.as_secs_f64() * 1e3, row.runs, row.name);
            }
            Ok(())
        };
        let mut next = 0;
        timed("prompt", prompt, &mut || {
            next = run.feed(&ids)?;
            Ok(())
        })?;
        let mut out = vec![];
        timed("decode", s.generate, &mut || {
            out = run.generate(next, s.generate)?;
            Ok(())
        })?;
        if round == 0 {
            eprintln!("{out:?}");
        }
    }
    Ok(())
}
