use std::io::Write;

/// Print the version, and what this machine's processor offers
#[derive(clap::Args)]
pub(crate) struct Version {
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Version {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let version = env!("CARGO_PKG_VERSION");
        let (target, isa) = (std::env::consts::ARCH, onebit_cpu::isa::Isa::detect().level().name());
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::json!({"version": version, "architecture": target, "isa": isa}))?;
        } else {
            writeln!(out, "1bit {version} ({target}, {isa})")?;
        }
        Ok(())
    }
}
