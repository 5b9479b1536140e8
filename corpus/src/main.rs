//! Makes rollouts and stores of any size, lets them go on, and measures the yardstick they are read against.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use corpus::Fault;
use corpus::append;
use corpus::progress::Progress;
use corpus::random::Random;
use corpus::rollout::{self, Layout, Mix, Origin, Plan};
use corpus::scan;
use corpus::store;
use corpus::text::Pool;
use corpus::units::{Bytes, END};

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
    /// Append to the newest rollout of a store's project.
    Append(append::Arguments),
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
    /// The number of turns, whatever size that comes to.
    #[arg(long)]
    turns: Option<u64>,
    /// One more turn of this size, which stays open.
    #[arg(long, value_name = "BYTES")]
    open_turn: Option<Bytes>,
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
        Command::Store(arguments) => store::make(&arguments).map(|made| println!("{made}")),
        Command::Append(arguments) => append::append(&arguments),
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

fn make_rollout(arguments: &RolloutArguments) -> Result<(), Fault> {
    let mut random = Random::new(arguments.seed);
    let pool = Pool::new(&mut random);
    let plan = Plan {
        cwd: arguments.cwd.clone(),
        bytes: arguments.bytes.0,
        mix: arguments.mix,
        layout: arguments.layout,
        turn_bytes: arguments.turn_bytes.map_or(arguments.mix.turn_bytes(), |bytes| bytes.0),
        turns: arguments.turns,
        open_turn: arguments.open_turn.map(|bytes| bytes.0),
        start: END,
        origin: Origin::Person,
    };
    let progress = Progress::of(plan.bytes + plan.open_turn.unwrap_or(0));
    let out = BufWriter::with_capacity(1 << 20, progress.through(File::create(&arguments.out)?));
    let written = rollout::write(&plan, &pool, &mut random, out)?;
    println!("thread {}", written.state.thread);
    println!("bytes {}", written.state.end.bytes);
    println!("turns {}", written.turns.len());
    Ok(())
}

fn scan_file(arguments: &ScanArguments) -> Result<(), Fault> {
    let scanned = scan::newlines(&arguments.file, usize::from(arguments.threads))?;
    println!("{} newlines in {:.6} s", scanned.newlines, scanned.time.as_secs_f64());
    Ok(())
}
