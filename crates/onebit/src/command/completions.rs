use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;

/// Print a completion script for a shell
///
/// For bash: `1bit completions bash > ~/.local/share/bash-completion/completions/1bit`
#[derive(clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut script = vec![];
        clap_complete::generate(self.shell, &mut crate::Cli::command(), "1bit", &mut script);
        std::io::stdout().write_all(&script)?;
        Ok(())
    }
}
