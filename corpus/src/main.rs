//! Makes rollouts and stores of any size, and measures the yardstick they are read against.
//!
//! Everything made is made up, but rows are spelled, sized and ordered as Codex writes them, so that what is measured on
//! it holds for real logs. The same seed makes the same bytes.

mod random;
mod rollout;
mod scan;
mod store;
mod text;
mod units;

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::random::Random;
use crate::rollout::{Layout, Mix, Plan};
use crate::text::Pool;
use crate::units::{Bytes, END};

#[derive(Parser)]
#[command(about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make one rollout.
    Rollout(RolloutArguments),
    /// Make a home with many rollouts, the database, Claude's receipts, and a project.
    Store(store::Arguments),
    /// Count the newlines of a file, as fast as can be: the yardstick.
    Scan(ScanArguments),
}

#[derive(Args)]
struct RolloutArguments {
    /// The file to make.
    #[arg(long)]
    out: PathBuf,
    /// Its size, about.
    #[arg(long)]
    bytes: Bytes,
    /// What most of the bytes are.
    #[arg(long, value_enum, default_value_t = Mix::Tool)]
    mix: Mix,
    /// How rows are laid out.
    #[arg(long, value_enum, default_value_t = Layout::Legacy)]
    layout: Layout,
    /// The mean size of a turn; the mix has its own.
    #[arg(long)]
    turn_bytes: Option<Bytes>,
    /// The working directory of the thread.
    #[arg(long, default_value = "/home/me/project")]
    cwd: String,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
struct ScanArguments {
    /// The file to scan.
    file: PathBuf,
    /// Into how many parts it is split, each on a thread of its own.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Rollout(arguments) => make_rollout(&arguments),
        Command::Store(arguments) => store::make(&arguments),
        Command::Scan(arguments) => scan_file(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("corpus: {error}");
            ExitCode::FAILURE
        }
    }
}

fn make_rollout(arguments: &RolloutArguments) -> Result<(), Box<dyn Error>> {
    let mut random = Random::new(arguments.seed);
    let pool = Pool::new(&mut random);
    let plan = Plan {
        cwd: arguments.cwd.clone(),
        bytes: arguments.bytes.0,
        mix: arguments.mix,
        layout: arguments.layout,
        turn_bytes: arguments.turn_bytes.map_or(arguments.mix.turn_bytes(), |bytes| bytes.0),
        start: END,
        of_agent: false,
    };
    let out = BufWriter::with_capacity(1 << 20, File::create(&arguments.out)?);
    let written = rollout::write(&plan, &pool, &mut random, out)?;
    println!("thread {}", written.thread);
    println!("bytes {}", written.bytes);
    println!("turns {}", written.turns.len());
    Ok(())
}

fn scan_file(arguments: &ScanArguments) -> Result<(), Box<dyn Error>> {
    let scanned = scan::newlines(&arguments.file, usize::from(arguments.threads))?;
    println!("{} newlines in {:.6} s", scanned.newlines, scanned.time.as_secs_f64());
    Ok(())
}
