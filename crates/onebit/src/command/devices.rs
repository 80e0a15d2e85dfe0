use crate::open;
use std::io::Write;

/// List the devices that models can run on
#[derive(clap::Args)]
pub(crate) struct Devices {
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Devices {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let devices = open::devices();
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&devices)?)?;
            return Ok(());
        }
        for d in &devices {
            writeln!(out, "{}  {}", d.name, d.description)?;
            let memory = d.available_memory.map_or("unknown".into(), |b| format!("{:.1} GB", b as f64 / 1e9));
            writeln!(out, "     {} threads, {}, {memory} of memory available", d.threads, d.isa)?;
        }
        Ok(())
    }
}
