//! The commands: one file each, arguments in, one library call, an answer out.

mod audit;
mod cache;
mod capture;
mod completions;
mod demo;
mod doctor;
mod fault;
mod hook;
mod install;
mod observer;
mod older_tool;
mod progress;
mod session_name;
mod wait;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use serde::Serialize;

/// The exit code of wrong usage (`EX_USAGE`). Never 2: an agent takes a hook's 2 as "block".
const USAGE: u8 = 64;

/// Reads the completed turns of coding agents from their own logs
#[derive(Debug, Parser)]
#[command(name = "throughline", version, arg_required_else_help = false, subcommand_required = true)]
#[command(after_help = "Each command has a --help of its own. Where to begin: throughline demo")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(name = "observer-read")]
    Read(observer::ReadHelp),
    #[command(name = "observer-threads")]
    Threads(observer::ThreadsHelp),
    #[command(name = "observer-wait")]
    Wait(wait::WaitHelp),
    Install(install::InstallArguments),
    Uninstall(install::UninstallArguments),
    Doctor(doctor::Arguments),
    Cache(cache::Arguments),
    Hook(hook::HookHelp),
    Capture(capture::Arguments),
    SessionName(session_name::Arguments),
    Audit(audit::Arguments),
    Demo(demo::Arguments),
    Completions(completions::Arguments),
}

/// Runs the command that the arguments name.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.to_str().unwrap_or_default(), rest),
        None => ("", [].as_slice()),
    };
    match name {
        // These have a grammar of their own, and errors that are part of their contract.
        "observer-read" => observer::read(rest),
        "observer-threads" => observer::threads(rest),
        "observer-wait" => wait::wait(rest),
        "hook" => hook::run(rest),
        _ if older_tool::is_hook(name) => older_tool::decline(name),
        _ => run_others(arguments),
    }
}

fn run_others(arguments: Vec<OsString>) -> ExitCode {
    let parsed = Cli::try_parse_from([OsString::from("throughline")].into_iter().chain(arguments));
    match parsed.map(|cli| cli.command) {
        Ok(Command::Install(arguments)) => install::install(&arguments),
        Ok(Command::Uninstall(arguments)) => install::uninstall(&arguments),
        Ok(Command::Doctor(arguments)) => doctor::run(&arguments),
        Ok(Command::Cache(arguments)) => cache::run(&arguments),
        Ok(Command::Capture(arguments)) => capture::run(&arguments),
        Ok(Command::SessionName(arguments)) => session_name::run(&arguments),
        Ok(Command::Audit(arguments)) => audit::run(&arguments),
        Ok(Command::Demo(arguments)) => demo::run(&arguments),
        Ok(Command::Completions(arguments)) => completions::run(&arguments),
        // They were taken before; clap knows them for help and completions.
        Ok(Command::Read(_) | Command::Threads(_) | Command::Wait(_) | Command::Hook(_)) => ExitCode::from(USAGE),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print(&error.render().to_string())
        }
        Err(error) => usage(&error),
    }
}

/// One line that says what is wrong, and where to look.
fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let what = match error.kind() {
        ErrorKind::MissingSubcommand => "a command is missing",
        // What is missing stands on lines of its own, up to the first empty one.
        _ => &text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect::<Vec<_>>().join(" "),
    };
    let what = what.trim_start_matches("error: ");
    complain(&format!("throughline: {what} (see: throughline --help)"));
    ExitCode::from(USAGE)
}

/// Prints a text for a person; a reader who stops early (`| head`) is no failure.
fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// An answer as one line of JSON.
fn line(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("numbers and strings can be written") + "\n"
}

/// How long ago that was, roughly.
fn age(at: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let minutes = now.saturating_sub(Duration::from_millis(at)).as_secs() / 60;
    match minutes {
        0 => "just now".to_owned(),
        1..120 => format!("{minutes} min ago"),
        120..2880 => format!("{} h ago", minutes / 60),
        _ => format!("{} days ago", minutes / 1440),
    }
}

/// Prints one line to stderr. There is no better place to say that even that failed.
fn complain(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

/// A number of bytes, roughly.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// The help text of one command.
fn help_of(command: &str) -> String {
    let mut cli = Cli::command();
    cli.build();
    cli.find_subcommand_mut(command).map(|found| found.render_long_help().to_string()).unwrap_or_default()
}
