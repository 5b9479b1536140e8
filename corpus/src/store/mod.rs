//! A whole home: many rollouts, few of which are the project's, the database with their texts, and Claude's receipts.

mod bodies;
mod family;
mod manifest;

use std::fmt;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::Fault;
use crate::progress::Progress;
use crate::random::Random;
use crate::rollout::{self, Layout, Mix, Plan, Written};
use crate::text::Pool;
use crate::units::{Bytes, DAY, END, Moment};

use self::bodies::{Bodies, ThreadTurns};
use self::family::{Family, Kind, Relatives};

pub use self::bodies::{open_database, texts};
pub use self::manifest::Manifest;

/// What a store is to be.
#[derive(clap::Args)]
pub struct Arguments {
    /// The directory to make it in: `home` and, unless another one is given, `proj` below it.
    #[arg(long)]
    pub out: PathBuf,
    /// The number of rollouts.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub files: u64,
    /// How many of them are the project's.
    #[arg(long, default_value_t = 200)]
    pub project_files: u64,
    /// The size of all rollouts together, about.
    #[arg(long, default_value = "300MiB")]
    pub bytes: Bytes,
    /// Over how many days they are spread.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub days: u64,
    /// The project's directory, which has to exist.
    #[arg(long)]
    pub project: Option<PathBuf>,
    /// What most of the bytes are.
    #[arg(long, value_enum, default_value_t = Mix::Tool)]
    pub mix: Mix,
    /// How rows are laid out; without it some rollouts are of either layout.
    #[arg(long, value_enum)]
    pub layout: Option<Layout>,
    /// The mean size of a turn; the mix has its own, and a small rollout has small ones.
    #[arg(long)]
    pub turn_bytes: Option<Bytes>,
    /// Of a hundred rollouts so many come out of another one: forks, reverts and agents. 20 among the other projects' and
    /// none of the project's unless this is given; then it is for both.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(..=100))]
    pub families: Option<u64>,
    /// The number of turns of the project's newest rollout, whatever size that comes to.
    #[arg(long)]
    pub turns: Option<u64>,
    /// Let the project's newest rollout have one more turn of this size, which stays open.
    #[arg(long, value_name = "BYTES")]
    pub open_turn: Option<Bytes>,
    /// How many of the project's threads the database has, the newest ones; all by default.
    #[arg(long)]
    pub sessions_in_db: Option<u64>,
    /// The number of turns of one Claude session, older than all rollouts, in the receipts and the database.
    #[arg(long, default_value_t = 40)]
    pub claude_turns: u64,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Distinct working directories of other projects.
const FOREIGN_PROJECTS: u64 = 300;
/// So many families of rollouts are made on all cores before their texts are stored, in order.
const FAMILIES_AT_ONCE: usize = 64;
/// Forks, reverts and agents of a hundred rollouts of other projects.
const FOREIGN_FAMILIES: u64 = 20;

/// What a store became.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// The home.
    pub home: PathBuf,
    /// The project's directory.
    pub project: String,
    /// All rollouts.
    pub files: u64,
    /// The size of all rollouts.
    pub bytes: u64,
    /// Rollouts of the project.
    pub project_files: u64,
    /// Threads of the project that are nobody's agent's.
    pub project_threads: u64,
    /// Completed turns in these, each thread's as its current rollout has them.
    pub project_turns: u64,
    /// Threads in the database.
    pub stored_threads: u64,
    /// Turns with receipts.
    pub claude_turns: u64,
    /// Rollouts of each kind that come out of others.
    relatives: [(&'static str, u64); 4],
    /// When the last row was written, in milliseconds.
    latest: i64,
}

/// Makes the store.
///
/// # Errors
/// There is one already, or it cannot be written.
pub fn make(arguments: &Arguments) -> Result<Made, Fault> {
    let store = Store::prepare(arguments)?;
    let mut made = store.rollouts()?;
    made.claude_turns = bodies::claude(&store.home, &store.project, arguments)?;
    Ok(made)
}

struct Store<'a> {
    arguments: &'a Arguments,
    home: PathBuf,
    project: String,
    /// Where the other projects are.
    elsewhere: String,
    pool: Pool,
    sizes: Vec<u64>,
    progress: Progress,
}

/// The rollouts of one family, made.
struct Relations {
    ours: bool,
    bytes: u64,
    kinds: Vec<Kind>,
    /// The project's threads among them.
    threads: Vec<ThreadTurns>,
    latest: i64,
    /// The newest rollout of the project, and what it was to be.
    last: Option<(Plan, Written, PathBuf)>,
}

impl Relations {
    fn of(ours: bool) -> Self {
        Self { ours, bytes: 0, kinds: Vec::new(), threads: Vec::new(), latest: 0, last: None }
    }
}

impl<'a> Store<'a> {
    fn prepare(arguments: &'a Arguments) -> Result<Self, Fault> {
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
        let open = arguments.open_turn.map_or(0, |bytes| bytes.0);
        Ok(Self {
            arguments,
            home: fs::canonicalize(home)?,
            project: absolute(&project)?,
            elsewhere: format!("{}/elsewhere", absolute(&arguments.out)?),
            pool: Pool::new(&mut random),
            sizes: sizes(arguments.files, arguments.bytes.0, &mut random),
            progress: Progress::of(arguments.bytes.0 + open),
        })
    }

    fn rollouts(&self) -> Result<Made, Fault> {
        let arguments = self.arguments;
        let shares = [arguments.families.unwrap_or(FOREIGN_FAMILIES), arguments.families.unwrap_or(0)];
        let of_project = |number| self.is_of_project(number);
        let mut families = family::of(arguments.files, of_project, shares, arguments.seed);
        // The project's last rollout is to be its newest, so it waits for all others.
        let newest = families.pop_if(|family| family.ours);
        let mut bodies = Bodies::open(&self.home, arguments.sessions_in_db)?;
        let mut made = Made {
            home: self.home.clone(),
            project: self.project.clone(),
            files: arguments.files,
            relatives: family::none(),
            ..Made::default()
        };
        for families in families.chunks(FAMILIES_AT_ONCE) {
            let families: Vec<_> =
                families.par_iter().map(|family| self.family(family, None)).collect::<Result<_, Fault>>()?;
            families.into_iter().try_for_each(|relations| made.take(relations, &mut bodies))?;
        }
        if let Some(family) = newest {
            let mut relations = self.family(&family, Some(made.latest))?;
            let last = relations.last.take();
            made.take(relations, &mut bodies)?;
            if let Some((plan, written, path)) = last {
                self.manifest(plan, written, path).write(&arguments.out)?;
            }
        }
        made.stored_threads = bodies.finish()?;
        Ok(made)
    }

    fn manifest(&self, plan: Plan, written: Written, rollout: PathBuf) -> Manifest {
        Manifest {
            seed: self.arguments.seed,
            home: self.home.clone(),
            rollout,
            cwd: plan.cwd,
            mix: plan.mix,
            layout: plan.layout,
            turns: written.turns.len() as u64,
            appended: 0,
            state: written.state,
        }
    }

    /// Whether the rollout of this number is the project's: they are spread evenly, and the last one is.
    fn is_of_project(&self, number: u64) -> bool {
        let Arguments { files, project_files, .. } = self.arguments;
        let before = |number: u64| number * project_files.min(files) / files;
        before(number + 1) > before(number)
    }

    /// Makes the rollouts of a family; the newest one of all begins behind the latest row of the others.
    fn family(&self, family: &Family, newest: Option<i64>) -> Result<Relations, Fault> {
        let mut relatives = Relatives::default();
        let mut relations = Relations::of(family.ours);
        for number in &family.members {
            let mut random = Random::part(self.arguments.seed, *number);
            let mut plan = self.plan(*number, family.ours, &mut random);
            relatives.relate(&mut plan, &mut random);
            if let Some(latest) = newest {
                plan.start = plan.start.max(latest + 1000);
                plan.turns = self.arguments.turns;
                plan.open_turn = self.arguments.open_turn.map(|bytes| bytes.0);
            }
            let (written, path) = self.rollout(*number, &plan, &mut random)?;
            relations.bytes += written.state.end.bytes;
            relations.latest = relations.latest.max(written.state.now);
            relations.kinds.push(Kind::of(&plan.origin));
            relatives.add(&plan, &written, &path);
            if family.ours {
                bodies::add(&mut relations.threads, &plan, &written);
                relations.last = newest.map(|_| (plan, written, path));
            }
        }
        Ok(relations)
    }

    fn plan(&self, number: u64, ours: bool, random: &mut Random) -> Plan {
        let arguments = self.arguments;
        let bytes = self.sizes[number as usize];
        let usual_turn = arguments.mix.turn_bytes().min(bytes / 3);
        Plan {
            cwd: self.cwd(ours, random),
            bytes,
            mix: arguments.mix,
            layout: arguments.layout.unwrap_or(if random.percent(40) { Layout::Paginated } else { Layout::Legacy }),
            turn_bytes: arguments.turn_bytes.map_or(usual_turn, |bytes| bytes.0),
            turns: None,
            open_turn: None,
            // All in their order over the days, each day from midnight on.
            start: END - arguments.days as i64 * DAY
                + (number * arguments.days * 1000 / arguments.files) as i64 * (DAY / 1000),
            origin: rollout::Origin::Person,
        }
    }

    fn rollout(&self, number: u64, plan: &Plan, random: &mut Random) -> Result<(Written, PathBuf), Fault> {
        let folder = self.home.join(".codex/sessions").join(day_folder(plan.start));
        fs::create_dir_all(&folder)?;
        let unnamed = folder.join(format!("{number}.part"));
        let out = BufWriter::with_capacity(1 << 20, self.progress.through(File::create(&unnamed)?));
        let written = rollout::write(plan, &self.pool, random, out)?;
        let path = folder.join(file_name(plan.start, &written.state));
        fs::rename(unnamed, &path)?;
        Ok((written, path))
    }

    fn cwd(&self, ours: bool, random: &mut Random) -> String {
        match (ours, random.percent(20)) {
            (true, false) => self.project.clone(),
            (true, true) => format!("{}/crates/core", self.project),
            (false, _) => format!("{}/repo-{}", self.elsewhere, random.below(FOREIGN_PROJECTS)),
        }
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "home {}", self.home.display())?;
        writeln!(f, "project {}", self.project)?;
        writeln!(f, "rollouts {} ({} of the project)", self.files, self.project_files)?;
        let relatives: Vec<String> = self.relatives.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        writeln!(f, "of these {}", relatives.join(", "))?;
        writeln!(f, "bytes {}", self.bytes)?;
        writeln!(f, "turns {} completed in {} threads of the project", self.project_turns, self.project_threads)?;
        write!(f, "stored {} threads, {} Claude turns", self.stored_threads, self.claude_turns)
    }
}

impl Made {
    /// Counts a family and stores the texts of its threads.
    fn take(&mut self, relations: Relations, bodies: &mut Bodies) -> Result<(), Fault> {
        self.bytes += relations.bytes;
        self.latest = self.latest.max(relations.latest);
        family::count(&mut self.relatives, &relations.kinds);
        if relations.ours {
            self.project_files += relations.kinds.len() as u64;
        }
        for thread in relations.threads {
            self.project_threads += 1;
            self.project_turns += thread.completed();
            bodies.store(thread)?;
        }
        Ok(())
    }
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

fn file_name(at: i64, state: &rollout::State) -> String {
    let Moment { year, month, day, hour, minute, second, .. } = Moment::of(at);
    let thread = &state.thread;
    let rollout = if state.rollout == *thread { String::new() } else { format!("_{}", state.rollout) };
    format!("rollout-{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}-{thread}{rollout}.jsonl")
}

fn absolute(path: &Path) -> Result<String, Fault> {
    let path = fs::canonicalize(path)?;
    Ok(path.to_str().ok_or("the path is not UTF-8")?.to_owned())
}
