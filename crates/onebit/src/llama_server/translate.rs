//! llama-server's command line in the words of `1bit serve`.

use super::flags::{self, Does, FLAGS, Flag, Takes};
use std::ffi::OsString;

/// Sequences at once where nobody says.
const PARALLEL: usize = 4;
/// Contexts above this are for one sequence where nobody says, as each gets memory for all of its tokens.
const SHARED: usize = 16_384;

/// How tokens are chosen where neither flag nor request says.
const USUAL: [(&str, &str); 4] = [("--temperature", "0.8"), ("--top-k", "40"), ("--top-p", "0.95"), ("--min-p", "0.05")];

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Serve(Translation),
    Version,
    Devices,
    Help,
}

/// A command line of `1bit serve` in the making.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Translation {
    pub(super) arguments: Vec<OsString>,
    pub(super) variables: Vec<(&'static str, String)>,
    /// What was passed over.
    pub(super) ignored: Vec<String>,
    repository: Option<String>,
    file: Option<String>,
    context: Option<usize>,
    per_slot: bool,
    parallel: Option<usize>,
    unified: Option<bool>,
    /// Of keys and of values, by place in [`CACHE_TYPES`].
    cache_types: [Option<usize>; 2],
    hides_slots: bool,
}

/// What keys and values can be stored as, from the coarsest.
const CACHE_TYPES: [&str; 4] = ["q8_0", "bf16", "f16", "f32"];
/// Types that are stored as the coarsest, which is finer than they are.
const COARSER_CACHE_TYPES: [&str; 5] = ["q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"];

/// Reads a command line, and the variables of the environment.
pub(super) fn translate(arguments: &[String], variable: impl Fn(&str) -> Option<String>) -> Result<Wish, String> {
    let mut t = Translation::default();
    // A flag goes before its variable: variables first, as the last of a kind counts.
    let given = |flag: &Flag| arguments.iter().any(|a| flags::find(a).is_some_and(|f| std::ptr::eq(f, flag)));
    for flag in FLAGS.iter().filter(|f| !f.env.is_empty()) {
        if let Some(value) = variable(flag.env).filter(|_| !given(flag)) {
            match flag.takes {
                Takes::Nothing if ["1", "true", "on", "enabled"].contains(&value.as_str()) => t.flag(flag, flag.env, &[])?,
                Takes::Nothing => {}
                _ => t.flag(flag, flag.env, &[&value])?,
            }
        }
    }
    let mut rest = arguments.iter().map(String::as_str).peekable();
    while let Some(name) = rest.next() {
        match name {
            "-h" | "--help" | "--usage" => return Ok(Wish::Help),
            "--version" => return Ok(Wish::Version),
            "--list-devices" => return Ok(Wish::Devices),
            _ => {}
        }
        let Some(flag) = flags::find(name) else { return Err(format!("{name}: llama-server has no such flag that is known here")) };
        let mut value = || rest.next().ok_or_else(|| format!("{name}: a value has to follow"));
        let values = match flag.takes {
            Takes::Nothing => vec![],
            Takes::Value => vec![value()?],
            Takes::Two => vec![value()?, value()?],
            Takes::Switch => rest.next_if(|next| ["on", "off", "auto"].contains(next)).into_iter().collect(),
        };
        t.flag(flag, name, &values)?;
    }
    t.end()?;
    Ok(Wish::Serve(t))
}

/// A number.
fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("`{value}` is not a number that fits"))
}

impl Translation {
    fn flag(&mut self, flag: &Flag, name: &str, values: &[&str]) -> Result<(), String> {
        let value = values.first().copied().unwrap_or_default();
        match flag.does {
            Does::Is(work) => work(self, value).map_err(|why| format!("{name}: {why}")),
            Does::Only(values) if !values.contains(&value) => {
                Err(format!("{name} {value}: it is not supported; without it, as with {}, the server does the usual", values[0]))
            }
            Does::Nothing | Does::Only(_) => {
                self.ignored.push(std::iter::once(name).chain(values.iter().copied()).collect::<Vec<_>>().join(" "));
                Ok(())
            }
            Does::Refused(why) => Err(format!("{name}: {why}")),
        }
    }
    /// Adds a flag of `1bit serve`.
    pub(super) fn serve(&mut self, flag: &str) -> Result<(), String> {
        self.arguments.push(flag.into());
        Ok(())
    }
    /// Adds a flag that may be given several times and counts once.
    pub(super) fn once(&mut self, flag: &str) -> Result<(), String> {
        self.arguments.retain(|a| a != flag);
        self.serve(flag)
    }
    /// `rank` scores pairs of texts, the others make embeddings.
    pub(super) fn pooling(&mut self, kind: &str) -> Result<(), String> {
        if kind == "rank" { self.once("--reranking") } else { self.serve_value("--pooling", kind) }
    }
    /// Adds a flag with a value.
    pub(super) fn serve_value(&mut self, flag: &str, value: &str) -> Result<(), String> {
        // In one piece, as a value may begin with a hyphen.
        self.arguments.push(format!("{flag}={value}").into());
        Ok(())
    }
    /// Adds a flag for each part of a list.
    pub(super) fn each(&mut self, flag: &str, list: &str) -> Result<(), String> {
        list.split(',').map(str::trim).filter(|v| !v.is_empty()).try_for_each(|v| self.serve_value(flag, v))
    }
    pub(super) fn environment(&mut self, name: &'static str, value: &str) -> Result<(), String> {
        self.variables.push((name, value.into()));
        Ok(())
    }
    pub(super) fn model(&mut self, model: String) -> Result<(), String> {
        self.arguments.retain(|a| !a.to_string_lossy().starts_with("--model="));
        self.serve_value("--model", &model)
    }
    pub(super) fn repository(&mut self, repository: &str) -> Result<(), String> {
        self.repository = Some(repository.into());
        Ok(())
    }
    pub(super) fn repository_file(&mut self, file: &str) -> Result<(), String> {
        self.file = Some(file.into());
        Ok(())
    }
    pub(super) fn host(&mut self, host: &str) -> Result<(), String> {
        match host {
            h if h.contains(',') => Err("one address only".into()),
            h if h.ends_with(".sock") => Err("sockets of the file system are not supported".into()),
            h => self.serve_value("--host", h),
        }
    }
    pub(super) fn threads(&mut self, threads: &str) -> Result<(), String> {
        if number::<i64>(threads)? <= 0 { Ok(()) } else { self.serve_value("--threads", threads) }
    }
    pub(super) fn seed(&mut self, seed: &str) -> Result<(), String> {
        // -1, also as an unsigned number, asks for a new seed each time.
        if ["-1", "4294967295"].contains(&seed) { Ok(()) } else { self.serve_value("--seed", seed) }
    }
    /// A device of llama.cpp's: `none` and `CPU` are the processor; of GPUs there is but one.
    pub(super) fn device(&mut self, device: &str) -> Result<(), String> {
        let lower = device.to_lowercase();
        let gpu = ["rocm", "hip", "vulkan", "cuda", "gpu"].iter().find_map(|kind| lower.strip_prefix(kind));
        match gpu {
            Some(number) if number.chars().all(|c| c.is_ascii_digit()) => {
                self.ignored.push(format!("--device {device}, for auto"));
                Ok(())
            }
            _ if lower == "none" => self.serve_value("--device", "cpu"),
            _ => self.serve_value("--device", &lower),
        }
    }
    pub(super) fn context(&mut self, tokens: &str) -> Result<(), String> {
        (self.context, self.per_slot) = (Some(number(tokens)?), false);
        Ok(())
    }
    pub(super) fn context_per_slot(&mut self, tokens: &str) -> Result<(), String> {
        (self.context, self.per_slot) = (Some(number(tokens)?), true);
        Ok(())
    }
    pub(super) fn parallel(&mut self, slots: &str) -> Result<(), String> {
        let slots: i64 = number(slots)?;
        self.parallel = usize::try_from(slots).ok().filter(|n| *n > 0);
        Ok(())
    }
    pub(super) fn unified(&mut self, unified: bool) -> Result<(), String> {
        self.unified = Some(unified);
        Ok(())
    }
    /// What keys (0) or values (1) are stored as.
    pub(super) fn cache_type(&mut self, which: usize, name: &str) -> Result<(), String> {
        let coarser = COARSER_CACHE_TYPES.contains(&name);
        if coarser {
            self.ignored.push(format!("--cache-type {name}, for q8_0"));
        }
        let place = if coarser { Some(0) } else { CACHE_TYPES.iter().position(|known| *known == name) };
        self.cache_types[which] = Some(place.ok_or_else(|| format!("`{name}` is none of {}", CACHE_TYPES.join(", ")))?);
        Ok(())
    }
    pub(super) fn slots(&mut self, told: bool) -> Result<(), String> {
        self.hides_slots = !told;
        Ok(())
    }
    pub(super) fn verbose(&mut self) -> Result<(), String> {
        self.serve("-v")
    }
    pub(super) fn quiet(&mut self) -> Result<(), String> {
        self.serve("-q")
    }
    /// What several flags say together.
    fn end(&mut self) -> Result<(), String> {
        if let Some(repository) = self.repository.take() {
            let name = match &self.file {
                Some(file) => format!("hf:{}:{file}", repository.split(':').next().unwrap_or_default()),
                None => format!("hf:{repository}"),
            };
            self.model(name)?;
        } else if self.file.is_some() {
            return Err("--hf-file: the repository is missing, --hf-repo".into());
        }
        if !self.arguments.iter().any(|a| a.to_string_lossy().starts_with("--model=")) {
            return Err("no model: give one by -m FILE or -hf USER/MODEL".into());
        }
        // Keys and values have one type: the finer of the two, f16 where nothing is said.
        let usual = CACHE_TYPES.iter().position(|known| *known == "f16");
        match self.cache_types.map(|of| of.or(usual)).into_iter().flatten().max() {
            finer if finer == usual => {}
            finer => self.serve_value("--cache-type", CACHE_TYPES[finer.unwrap_or_default()])?,
        }
        // What llama-server tells without being asked to.
        self.serve("--props")?;
        if !self.hides_slots {
            self.serve("--slots")?;
        }
        // llama-server's context is that of all slots together, unless they share it; then each may use all.
        let context = self.context.unwrap_or(0);
        let parallel = self.parallel.unwrap_or(if (1..=SHARED).contains(&context) { PARALLEL } else { 1 });
        let shared = self.per_slot || self.unified.unwrap_or(self.parallel.is_none());
        let each = if shared { context } else { context / parallel };
        if context > 0 && each == 0 {
            return Err(format!("--ctx-size {context}: {parallel} slots have no token each"));
        }
        for (flag, value) in USUAL {
            let named = |a: &OsString| a.to_string_lossy().split('=').next() == Some(flag);
            if !self.arguments.iter().any(named) {
                self.serve_value(flag, value)?;
            }
        }
        self.serve_value("--parallel", &parallel.to_string())?;
        self.serve_value("--ctx-size", &each.to_string())
    }
}

/// llama-server's thresholds: 3 is its usual one.
pub(super) fn verbosity(t: &mut Translation, level: &str) -> Result<(), String> {
    match number::<i64>(level)? {
        ..=1 => t.quiet(),
        2..=3 => Ok(()),
        _ => t.verbose(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str, variables: &[(&str, &str)]) -> Result<Wish, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        translate(&arguments, |name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_string()))
    }
    fn served(line: &str, variables: &[(&str, &str)]) -> (String, String) {
        match asked(line, variables) {
            Ok(Wish::Serve(t)) => {
                let usual = [&USUAL.map(|(flag, value)| format!("{flag}={value}"))[..], &["--props", "--slots"].map(String::from)].concat();
                let arguments = t.arguments.iter().map(|a| a.to_string_lossy().into_owned()).filter(|a| !usual.contains(a));
                let arguments: Vec<String> = arguments.collect();
                (arguments.join(" "), t.ignored.join(", "))
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_lemonade_passes() {
        // `LlamaCppServer::load` in lemonade's src/cpp/server/backends/llamacpp/llamacpp_server.cpp.
        let line = "-m /m/model.gguf --ctx-size 4096 --port 8001 --jinja --metrics --context-shift --keep 16 --reasoning-format auto \
                    --spec-type draft-mtp --spec-draft-n-max 3 --spec-draft-p-min 0.75 --no-ui --load-mode none";
        let (arguments, ignored) = served(line, &[]);
        assert_eq!(arguments, "--model=/m/model.gguf --port=8001 --metrics --parallel=4 --ctx-size=4096");
        let passed = "--jinja, --context-shift, --keep 16, --reasoning-format auto, --spec-type draft-mtp, \
                      --spec-draft-n-max 3, --spec-draft-p-min 0.75, --no-ui, --load-mode none";
        assert_eq!(ignored, passed);
    }

    #[test]
    fn tokens_are_chosen_as_there() {
        let Ok(Wish::Serve(t)) = asked("-m a --top-k 0", &[]) else { panic!("refused") };
        let has = |a: &str| t.arguments.iter().any(|b| b == a);
        assert!(has("--temperature=0.8") && has("--top-k=0") && has("--top-p=0.95") && has("--min-p=0.05") && !has("--top-k=40"));
    }

    #[test]
    fn slots_and_properties_are_told_as_there() {
        for (line, slots) in [("-m a", true), ("-m a --slots", true), ("-m a --no-slots", false), ("-m a --no-slots --slots", true)] {
            let Ok(Wish::Serve(t)) = asked(line, &[]) else { panic!("{line}: refused") };
            assert_eq!(t.arguments.iter().filter(|a| *a == "--slots").count(), usize::from(slots), "{line}");
            assert!(t.arguments.iter().any(|a| a == "--props"));
        }
    }

    #[test]
    fn contexts_are_divided_as_there() {
        for (line, expected) in [
            ("-c 8192", "--parallel=4 --ctx-size=8192"),
            ("-c 8192 -np 4", "--parallel=4 --ctx-size=2048"),
            ("-c 8192 -np 4 -kvu", "--parallel=4 --ctx-size=8192"),
            ("-c 8192 -no-kvu", "--parallel=4 --ctx-size=2048"),
            ("-c 131072", "--parallel=1 --ctx-size=131072"),
            ("-c 0 -np -1", "--parallel=1 --ctx-size=0"),
            ("--kv-unified-per-slot 1024 -np 2", "--parallel=2 --ctx-size=1024"),
        ] {
            assert_eq!(served(&format!("-m a {line}"), &[]).0, format!("--model=a {expected}"), "{line}");
        }
        assert!(asked("-m a -c 2 -np 4", &[]).is_err_and(|e| e.contains("--ctx-size 2")));
    }

    #[test]
    fn models_names_devices_and_variables() {
        for (line, expected) in [
            ("-hf me/model:Q8_0", "--model=hf:me/model:Q8_0"),
            ("-hf me/model:Q8_0 -hff a/b.gguf", "--model=hf:me/model:a/b.gguf"),
            ("-m b -a x,y --api-key k,l", "--alias=x --alias=y --api-key=k --api-key=l --model=b"),
            ("-m b --device ROCm0 -fa -ngl 99", "--model=b"),
            ("-m b --device none -t -1 -fa on", "--device=cpu --model=b"),
            ("-m b -t 4 --temp 0.7 -s 5 -lv 0", "--threads=4 --temperature=0.7 --seed=5 -q --model=b"),
            ("-m b -s -1 --presence_penalty -0.5", "--presence-penalty=-0.5 --model=b"),
            ("-m b --reasoning-budget 0", "--reasoning-budget=0 --model=b"),
            ("-m b --embeddings --embedding --pooling cls", "--embeddings --pooling=cls --model=b"),
            ("-m b --rerank --pooling rank", "--reranking --model=b"),
            ("-m b -ctk q8_0 -ctv q4_0", "--cache-type=q8_0 --model=b"),
            ("-m b -ctk q8_0", "--model=b"),
            ("-m b -ctk f32 -ctv bf16", "--cache-type=f32 --model=b"),
        ] {
            let got = served(&format!("{line} -np 1"), &[]).0;
            let mut got: Vec<&str> = got.split(' ').filter(|a| !a.starts_with("--parallel") && !a.starts_with("--ctx-size")).collect();
            // The model's place does not matter.
            got.sort_by_key(|a| a.starts_with("--model="));
            assert_eq!(got.join(" "), expected, "{line}");
        }
        let variables =
            [("LLAMA_ARG_MODEL", "v"), ("LLAMA_ARG_CTX_SIZE", "64"), ("LLAMA_ARG_ENDPOINT_METRICS", "1"), ("LLAMA_ARG_PORT", "1")];
        let (arguments, ignored) = served("-c 32 --port 2", &variables);
        assert_eq!((arguments.as_str(), ignored.as_str()), ("--model=v --metrics --port=2 --parallel=4 --ctx-size=32", ""));
    }

    #[test]
    fn what_would_change_answers_is_refused_by_name() {
        for (line, said) in [
            ("-m a --lora x", "--lora: adapters"),
            ("-m a --rope-freq-base 10000", "--rope-freq-base: positions"),
            ("-m a --grammar-file x", "--grammar-file: grammars come with requests"),
            ("-m a --frobnicate", "--frobnicate: llama-server has no such flag"),
            ("-m a --port", "--port: a value has to follow"),
            ("-m a --host 0.0.0.0,::1", "--host: one address only"),
            ("-c 5", "no model: give one by -m"),
            ("--hf-file x", "--hf-file: the repository is missing"),
            ("-m a -np many", "-np: `many` is not a number"),
            ("-m a -ctv q3", "-ctv: `q3` is none of q8_0, bf16, f16, f32"),
        ] {
            assert!(asked(line, &[]).as_ref().is_err_and(|e| e.starts_with(said)), "{line}: {:?}", asked(line, &[]));
        }
        for (line, wish) in [("--version", Wish::Version), ("-m a --list-devices", Wish::Devices), ("-h", Wish::Help)] {
            assert_eq!(asked(line, &[]), Ok(wish));
        }
    }
}
