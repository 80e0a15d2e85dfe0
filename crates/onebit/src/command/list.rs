use onebit_registry::{Cache, entries};
use serde::Serialize;
use std::{io::Write, path::PathBuf};

/// List the models that are known by name, and those in the cache
#[derive(clap::Args)]
pub(crate) struct List {
    /// Instead of models, the architectures that can be read: their names in `config.json` and in GGUF files
    #[arg(long, conflicts_with = "cached")]
    architectures: bool,
    /// Only what is in the cache
    #[arg(long)]
    cached: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    name: String,
    bytes: u64,
    architecture: Option<String>,
    licence: Option<String>,
    title: String,
    path: Option<PathBuf>,
}

impl List {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if self.architectures {
            return self.architectures();
        }
        let mut cached = Cache::from_env()?.list()?;
        let mut rows = vec![];
        for entry in entries()? {
            for (i, variant) in entry.variants.iter().enumerate() {
                let here = cached.iter().position(|c| c.name == entry.name && c.variant == variant.name);
                let path = here.map(|i| cached.remove(i).path);
                let name = if i == 0 { entry.name.clone() } else { format!("{}:{}", entry.name, variant.name) };
                let (architecture, licence) = (Some(entry.architecture.clone()), Some(entry.licence.clone()));
                rows.push(Row {
                    name,
                    bytes: variant.size(),
                    architecture,
                    licence,
                    title: format!("{} {}", entry.title, variant.name.to_uppercase()),
                    path,
                });
            }
        }
        let others = cached.into_iter().map(|c| Row {
            name: c.name,
            bytes: c.bytes,
            architecture: None,
            licence: None,
            title: c.variant,
            path: Some(c.path),
        });
        rows.extend(others);
        if self.cached {
            rows.retain(|r| r.path.is_some());
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
            return Ok(());
        }
        let width = rows.iter().map(|r| r.name.len()).max().unwrap_or(0).max(4);
        writeln!(out, "{:width$}  {:>9}  {:6}  {:12}  {:10}  TITLE", "NAME", "SIZE", "CACHED", "ARCHITECTURE", "LICENCE")?;
        for r in &rows {
            let or = |o: &Option<String>| o.clone().unwrap_or_else(|| "-".into());
            let here = if r.path.is_some() { "yes" } else { "-" };
            let size = format!("{:.1} MB", r.bytes as f64 / 1e6);
            writeln!(out, "{:width$}  {size:>9}  {here:6}  {:12}  {:10}  {}", r.name, or(&r.architecture), or(&r.licence), r.title)?;
        }
        Ok(())
    }

    fn architectures(&self) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            let one = |a: &onebit_models::Arch| serde_json::json!({ "model_type": a.hf, "gguf": a.gguf });
            let all: Vec<_> = onebit_models::architectures().map(one).collect();
            writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
            return Ok(());
        }
        let mut rows: Vec<_> = onebit_models::architectures().map(|a| (a.hf.join(" "), a.gguf.join(" "))).collect();
        rows.sort();
        let width = rows.iter().map(|(hf, _)| hf.len()).max().unwrap_or(0).max(10);
        writeln!(out, "{:width$}  GGUF", "MODEL_TYPE")?;
        for (hf, gguf) in rows {
            writeln!(out, "{:width$}  {}", hf, if gguf.is_empty() { "-" } else { &gguf })?;
        }
        Ok(())
    }
}
