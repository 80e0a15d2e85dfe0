//! A file of settings for `1bit serve`: the flags' own names, in TOML.
//!
//! ```toml
//! model = "smollm2"
//! port = 8080
//! metrics = true
//! api-key-file = "/etc/1bit/keys"
//! alias = ["small", "default"]
//! ```
//!
//! What the command line says, or a variable of the environment, goes before the file. A key that no flag has is an error.

use crate::failure::Usage;
use clap::{Arg, ArgAction, Command, parser::ValueSource};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};
use toml::de::{DeTable, DeValue};

/// Bytes of such a file.
const LIMIT: u64 = 1 << 20;
/// The command that has settings.
const SERVE: &str = "serve";
/// Flags that say something about the file itself, and so cannot stand in it.
const NOT_IN_FILES: [&str; 4] = ["config", "check-config", "help", "version"];

/// The command line with what its `--config` file says put before it, and that file; as it is where none is given.
pub(crate) fn arguments(command: &Command, typed: Vec<OsString>) -> Result<(Vec<OsString>, Option<PathBuf>), Usage> {
    // Without what has to be there: it may be in the file. What else is wrong is said when the whole is read.
    let relaxed = command.clone().mut_subcommand(SERVE, |serve| serve.mut_args(|arg| arg.required(false)));
    let Ok(matches) = relaxed.try_get_matches_from(&typed) else { return Ok((typed, None)) };
    let Some((SERVE, given)) = matches.subcommand() else { return Ok((typed, None)) };
    let Some(file) = given.get_one::<PathBuf>("config").cloned() else { return Ok((typed, None)) };
    let Some(serve) = command.find_subcommand(SERVE) else { return Ok((typed, None)) };
    let is_said = |arg: &Arg| {
        let source = given.try_contains_id(arg.get_id().as_str()).is_ok().then(|| given.value_source(arg.get_id().as_str())).flatten();
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    let all: Vec<&Arg> = serve.get_arguments().chain(command.get_arguments()).collect();
    let mut from_file = vec![];
    for (arg, values) in read(&file, &all)? {
        if !is_said(arg) {
            from_file.extend(values);
        }
    }
    let at = typed.iter().position(|word| word == SERVE).map_or(typed.len(), |at| at + 1);
    let mut whole = typed;
    whole.splice(at..at, from_file.into_iter().map(OsString::from));
    Ok((whole, Some(file)))
}

/// Flags and what the file says of each, as words of a command line.
fn read<'a>(file: &Path, flags: &[&'a Arg]) -> Result<Vec<(&'a Arg, Vec<String>)>, Usage> {
    let wrong = |what: &dyn std::fmt::Display| Usage(format!("{}: {what}", file.display()));
    let meta = std::fs::metadata(file).map_err(|e| wrong(&e))?;
    if !meta.is_file() || meta.len() > LIMIT {
        return Err(wrong(&format!("a file of at most {LIMIT} bytes is wanted")));
    }
    let text = std::fs::read_to_string(file).map_err(|e| wrong(&e))?;
    let table = DeTable::parse(&text).map_err(|e| wrong(&e.to_string().trim_end()))?;
    let mut said = vec![];
    for (key, value) in table.get_ref() {
        let line = text[..key.span().start].matches('\n').count() + 1;
        let at = |what: String| Usage(format!("{}, line {line}: {what}", file.display()));
        let name = key.get_ref().as_ref();
        let names = flags.iter().filter(|flag| flag.get_long().is_some_and(|long| !NOT_IN_FILES.contains(&long)));
        let known = |flag: &&&Arg| flag.get_long_and_visible_aliases().is_some_and(|all| all.contains(&name));
        let Some(flag) = names.clone().find(known) else { return Err(at(unknown(name, names.filter_map(|flag| flag.get_long())))) };
        said.push((*flag, words(flag, name, value.get_ref()).map_err(at)?));
    }
    Ok(said)
}

/// Says that there is no such key, and which is the most like it.
fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let plain = name.replace('_', "-");
    let nearest = names.map(|known| (strsim::damerau_levenshtein(&plain, known), known)).min();
    let hint = nearest.map(|(_, known)| format!("; the nearest is `{known}`")).unwrap_or_default();
    format!("`{name}` is no setting{hint}")
}

/// What a command line would have for a key and its value.
fn words(flag: &Arg, name: &str, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let takes = flag.get_action().takes_values();
    match value {
        DeValue::Boolean(on) if !takes => Ok(if *on { vec![format!("--{name}")] } else { vec![] }),
        DeValue::Integer(n) if matches!(flag.get_action(), ArgAction::Count) => {
            let times = n.as_str().parse::<u8>().map_err(|_| format!("`{name}` is a small number"))?;
            Ok(vec![format!("--{name}"); times.into()])
        }
        _ if !takes => Err(format!("`{name}` is true or false")),
        DeValue::Array(list) if matches!(flag.get_action(), ArgAction::Append) => {
            let texts: Result<Vec<_>, _> = list.iter().map(|value| text(name, value.get_ref())).collect();
            Ok(texts?.into_iter().map(|text| format!("--{name}={text}")).collect())
        }
        DeValue::Array(_) => Err(format!("`{name}` has one value, and no list of them")),
        value => Ok(vec![format!("--{name}={}", text(name, value)?)]),
    }
}

fn text(name: &str, value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(n) => i128::from_str_radix(n.as_str(), n.radix()).map(|n| n.to_string()).map_err(|e| format!("`{name}`: {e}")),
        DeValue::Float(x) => Ok(x.as_str().to_string()),
        _ => Err(format!("`{name}` is a text or a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let append = |name: &'static str| Arg::new(name).long(name).action(ArgAction::Append);
        let serve = Command::new("serve")
            .arg(Arg::new("config").long("config").value_parser(clap::value_parser!(PathBuf)))
            .arg(Arg::new("model").long("model").short('m').required(true))
            .arg(Arg::new("ctx_size").long("ctx-size").short('c').value_parser(clap::value_parser!(u32)))
            .arg(Arg::new("top_p").long("top-p").value_parser(clap::value_parser!(f32)))
            .arg(Arg::new("metrics").long("metrics").action(ArgAction::SetTrue))
            .arg(append("alias"));
        Command::new("1bit").arg(Arg::new("verbose").long("verbose").short('v').action(ArgAction::Count).global(true)).subcommand(serve)
    }

    /// The command line that comes of a file and of what was typed behind `1bit`.
    fn whole(file: &str, typed: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("1bit.toml");
        std::fs::write(&path, file).expect("written");
        let typed = typed.replace("FILE", path.to_str().expect("UTF-8"));
        let typed = std::iter::once("1bit").chain(typed.split_whitespace()).map(OsString::from).collect();
        let (words, used) = arguments(&command(), typed).map_err(|e| e.0.replace(path.to_str().expect("UTF-8"), "FILE"))?;
        assert_eq!(used.is_some(), words.iter().any(|word| word.to_string_lossy().starts_with("--config")));
        command().try_get_matches_from(&words).map_err(|e| e.to_string())?;
        let words: Vec<_> =
            words.iter().skip(1).map(|word| word.to_string_lossy().replace(path.to_str().expect("UTF-8"), "FILE")).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn settings_become_flags() {
        let file = "model = \"a b.gguf\" # which\nctx-size = 0x1000\ntop-p = 0.5\nmetrics = true\nalias = [\"x\", \"y\"]\nverbose = 2\n";
        let got = whole(file, "serve --config FILE");
        let mut words =
            ["--alias=x", "--alias=y", "--ctx-size=4096", "--metrics", "--model=a b.gguf", "--top-p=0.5", "--verbose", "--verbose"];
        words.sort_unstable();
        assert_eq!(got, Ok(format!("serve {} --config FILE", words.join(" "))));
        assert_eq!(whole("metrics = false\nmodel = \"a\"", "serve --config FILE"), Ok("serve --model=a --config FILE".into()));
    }

    #[test]
    fn what_was_typed_goes_first() {
        let file = "model = \"a\"\nctx-size = 1\nalias = [\"x\"]";
        assert_eq!(whole(file, "serve -m b --config FILE"), Ok("serve --alias=x --ctx-size=1 -m b --config FILE".into()));
        assert_eq!(whole(file, "serve --alias y -c 2 --config=FILE"), Ok("serve --model=a --alias y -c 2 --config=FILE".into()));
        // No other command has such a file, and without one nothing is changed.
        assert_eq!(whole(file, "serve -m b"), Ok("serve -m b".into()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (file, words) in [
            ("\nctx_size = 1", vec!["FILE, line 2", "`ctx_size` is no setting", "nearest is `ctx-size`"]),
            ("metrcs = true", vec!["line 1", "`metrcs`", "`metrics`"]),
            ("config = \"x\"", vec!["`config` is no setting"]),
            ("metrics = 1", vec!["line 1", "`metrics` is true or false"]),
            ("ctx-size = [1]", vec!["`ctx-size` has one value"]),
            ("ctx-size = true", vec!["`ctx-size` is a text or a number"]),
            ("[model]\nx = 1", vec!["line 1", "`model` is a text or a number"]),
            ("alias = [[\"x\"]]", vec!["`alias` is a text or a number"]),
            ("model = ", vec!["FILE", "line 1"]),
            ("model = \"a\"\nmodel = \"b\"", vec!["FILE", "duplicate key"]),
        ] {
            let error = whole(file, "serve --config FILE").expect_err(file);
            for word in words {
                assert!(error.contains(word), "{file}: {error}");
            }
        }
        assert!(whole("", "serve --config /no/such/file").is_err_and(|e| e.contains("/no/such/file")));
        assert!(whole("", "serve --config /dev/zero").is_err_and(|e| e.contains("at most")));
    }
}
