//! The `throughline` command. What it does is in the library; this reads arguments and prints answers.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os().skip(1).collect())
}
