//! `throughline completions`: scripts with which a shell completes our commands.

use std::process::ExitCode;

use clap::{Args, CommandFactory, ValueEnum};

/// Print a script with which a shell completes the commands and options
///
/// For example, in ~/.bashrc: source <(throughline completions bash)
#[derive(Debug, Args)]
pub struct Arguments {
    /// The shell
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script.
pub fn run(arguments: &Arguments) -> ExitCode {
    let shell = match arguments.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::Cli::command(), "throughline", &mut script);
    super::print(&String::from_utf8_lossy(&script))
}
