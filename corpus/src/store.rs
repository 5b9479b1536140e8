//! A whole home: many rollouts, few of which are the project's, the database with their texts, and Claude's receipts.

use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use throughline::db::capture::{Capture, CodexTurn, Said, store_codex_thread};
use throughline::db::schema;
use throughline::receipts::{Place, Receipt, SessionId};
use throughline_parsers::text::{Digest, fold};

use crate::random::Random;
use crate::rollout::{self, Layout, Mix, Plan, Turn, Written};
use crate::text::{Pool, prose};
use crate::units::{Bytes, DAY, END, Moment};

/// What a store is to be.
#[derive(clap::Args)]
pub struct Arguments {
    /// The directory to make it in: `home` and, unless another one is given, `proj` below it.
    #[arg(long)]
    out: PathBuf,
    /// The number of rollouts.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    files: u64,
    /// How many of them are the project's.
    #[arg(long, default_value_t = 200)]
    project_files: u64,
    /// The size of all rollouts together, about.
    #[arg(long, default_value = "300MiB")]
    bytes: Bytes,
    /// Over how many days they are spread.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    days: u64,
    /// The project's directory, which has to exist.
    #[arg(long)]
    project: Option<PathBuf>,
    /// What most of the bytes are.
    #[arg(long, value_enum, default_value_t = Mix::Tool)]
    mix: Mix,
    /// How rows are laid out; without it some rollouts are of either layout.
    #[arg(long, value_enum)]
    layout: Option<Layout>,
    /// The mean size of a turn; the mix has its own, and a small rollout has small ones.
    #[arg(long)]
    turn_bytes: Option<Bytes>,
    /// How many of the project's threads the database has, the newest ones; all by default.
    #[arg(long)]
    sessions_in_db: Option<u64>,
    /// The number of turns of one Claude session, older than all rollouts, in the receipts and the database.
    #[arg(long, default_value_t = 40)]
    claude_turns: u64,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Distinct working directories of other projects.
const FOREIGN_PROJECTS: u64 = 300;

/// Makes the store and tells what it made.
pub fn make(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let store = Store::prepare(arguments)?;
    let made = store.rollouts()?;
    let claude = store.claude()?;
    println!("home {}", store.home.display());
    println!("project {}", store.project);
    println!("rollouts {} ({} of the project)", arguments.files, made.project_threads);
    println!("bytes {}", made.bytes);
    println!("turns {} completed in the project's threads", made.project_turns);
    println!("stored {} threads, {} Claude turns", made.stored_threads, claude);
    Ok(())
}

struct Store<'a> {
    arguments: &'a Arguments,
    home: PathBuf,
    project: String,
    /// Where the other projects are.
    elsewhere: String,
    pool: Pool,
    sizes: Vec<u64>,
}

#[derive(Default)]
struct Made {
    bytes: u64,
    project_threads: u64,
    project_turns: usize,
    stored_threads: u64,
}

impl<'a> Store<'a> {
    fn prepare(arguments: &'a Arguments) -> Result<Self, Box<dyn Error>> {
        let home = arguments.out.join("home");
        if home.exists() {
            return Err("there is a home already".into());
        }
        fs::create_dir_all(&home)?;
        let project = match &arguments.project {
            Some(project) => project.clone(),
            None => {
                let project = arguments.out.join("proj");
                fs::create_dir_all(&project)?;
                project
            }
        };
        let elsewhere = arguments.out.join("elsewhere");
        for number in 0..FOREIGN_PROJECTS.min(arguments.files.saturating_sub(arguments.project_files)) {
            fs::create_dir_all(elsewhere.join(format!("repo-{number}")))?;
        }
        let mut random = Random::new(arguments.seed);
        Ok(Self {
            arguments,
            home: fs::canonicalize(home)?,
            project: absolute(&project)?,
            elsewhere: format!("{}/elsewhere", absolute(&arguments.out)?),
            pool: Pool::new(&mut random),
            sizes: sizes(arguments.files, arguments.bytes.0, &mut random),
        })
    }

    fn rollouts(&self) -> Result<Made, Box<dyn Error>> {
        let mut database = schema::open(&schema::path(&self.home))?;
        let mut made = Made::default();
        let threads = self.arguments.project_files.min(self.arguments.files);
        let first_stored = threads - self.arguments.sessions_in_db.unwrap_or(threads).min(threads);
        for number in 0..self.arguments.files {
            let ours = self.is_of_project(number);
            let (plan, written) = self.rollout(number, ours)?;
            made.bytes += written.bytes;
            if !ours {
                continue;
            }
            made.project_turns += written.turns.iter().filter(|turn| turn.completed_at.is_some()).count();
            if made.project_threads >= first_stored {
                store_texts(&mut database, &written, &plan.cwd)?;
                made.stored_threads += 1;
            }
            made.project_threads += 1;
        }
        Ok(made)
    }

    /// Whether the rollout of this number is the project's: they are spread evenly, and the last one is.
    fn is_of_project(&self, number: u64) -> bool {
        let Arguments { files, project_files, .. } = self.arguments;
        let before = |number: u64| number * project_files.min(files) / files;
        before(number + 1) > before(number)
    }

    fn rollout(&self, number: u64, ours: bool) -> Result<(Plan, Written), Box<dyn Error>> {
        let arguments = self.arguments;
        let mut random = Random::part(arguments.seed, number);
        // All in their order over the days, each day from midnight on.
        let start = END - arguments.days as i64 * DAY
            + (number * arguments.days * 1000 / arguments.files) as i64 * (DAY / 1000);
        let bytes = self.sizes[number as usize];
        let usual_turn = arguments.mix.turn_bytes().min(bytes / 3);
        let plan = Plan {
            cwd: self.cwd(ours, &mut random),
            bytes,
            mix: arguments.mix,
            layout: arguments.layout.unwrap_or(if random.percent(40) { Layout::Paginated } else { Layout::Legacy }),
            turn_bytes: arguments.turn_bytes.map_or(usual_turn, |bytes| bytes.0),
            start,
            of_agent: !ours && random.percent(8),
        };
        let folder = self.home.join(".codex/sessions").join(day_folder(start));
        fs::create_dir_all(&folder)?;
        let unnamed = folder.join(format!("{number}.part"));
        let out = BufWriter::with_capacity(1 << 20, File::create(&unnamed)?);
        let written = rollout::write(&plan, &self.pool, &mut random, out)?;
        fs::rename(unnamed, folder.join(file_name(start, &written.thread)))?;
        Ok((plan, written))
    }

    fn cwd(&self, ours: bool, random: &mut Random) -> String {
        match (ours, random.percent(20)) {
            (true, false) => self.project.clone(),
            (true, true) => format!("{}/crates/core", self.project),
            (false, _) => format!("{}/repo-{}", self.elsewhere, random.below(FOREIGN_PROJECTS)),
        }
    }

    /// Makes the Claude session's receipts and bodies, and tells of how many turns.
    fn claude(&self) -> Result<u64, Box<dyn Error>> {
        let mut random = Random::part(self.arguments.seed, u64::MAX);
        let start = END - (self.arguments.days as i64 + 2) * DAY;
        let id = random.uuid(start);
        let session = SessionId::new(id.clone()).ok_or("an id is never empty")?;
        let mut database = schema::open(&schema::path(&self.home))?;
        let capture = Capture::begin(&mut database)?;
        let mut receipts = Vec::new();
        for number in 0..self.arguments.claude_turns {
            let (user, assistant) = (prose(&mut random, 200), prose(&mut random, 900));
            let at = start + number as i64 * 60_000;
            let said = |text| Some(Said { text, at });
            capture.keep_session(&id, &self.project, at)?;
            // Between a prompt and its answer stand other rows.
            capture.insert_turn(&id, &id, number as i64 * 7 + 3, said(&user), said(&assistant))?;
            let digests = (Digest::of_body(&user), Digest::of_body(&assistant));
            receipts.extend(Receipt::new(session.clone(), session.clone(), digests.0, digests.1, at));
        }
        capture.commit()?;
        if receipts.is_empty() {
            return Ok(0);
        }
        let place = Place::new(&self.home.join(".local/state"), Digest::of(&self.project));
        Ok(place.lock()?.append(receipts)? as u64)
    }
}

/// The completed turns first, as readers see them, then the others.
fn store_texts(database: &mut rusqlite::Connection, written: &Written, cwd: &str) -> Result<(), Box<dyn Error>> {
    let texts: Vec<(String, String)> = written.turns.iter().map(texts).collect();
    let mut turns: Vec<CodexTurn<'_>> = (1..)
        .zip(&written.turns)
        .zip(&texts)
        .map(|((turn_number, turn), (user, assistant))| CodexTurn {
            turn_number,
            user: Some(user),
            assistant: (!assistant.is_empty()).then_some(assistant),
            completed_at: turn.completed_at,
        })
        .collect();
    turns.sort_by_key(|turn| turn.completed_at.is_none());
    Ok(store_codex_thread(database, &written.thread, cwd, &turns, END)?)
}

fn texts(turn: &Turn) -> (String, String) {
    let assistant: Vec<String> = turn.assistant.iter().map(|text| fold(text)).collect();
    (fold(&turn.user), assistant.join("\n\n"))
}

/// So many sizes of this sum, some a hundred times others.
fn sizes(files: u64, bytes: u64, random: &mut Random) -> Vec<u64> {
    let weights: Vec<u64> = (0..files).map(|_| random.magnitude(100, 10_000)).collect();
    let sum: u64 = weights.iter().sum();
    weights.iter().map(|weight| (u128::from(bytes) * u128::from(*weight) / u128::from(sum.max(1))) as u64).collect()
}

fn day_folder(at: i64) -> String {
    let Moment { year, month, day, .. } = Moment::of(at);
    format!("{year:04}/{month:02}/{day:02}")
}

fn file_name(at: i64, thread: &str) -> String {
    let Moment { year, month, day, hour, minute, second, .. } = Moment::of(at);
    format!("rollout-{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}-{thread}.jsonl")
}

fn absolute(path: &Path) -> Result<String, Box<dyn Error>> {
    let path = fs::canonicalize(path)?;
    Ok(path.to_str().ok_or("the path is not UTF-8")?.to_owned())
}
