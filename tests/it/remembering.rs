//! What is remembered between reads changes no answer: over random changes of a store, every read with the cache equals
//! a read without it at that moment.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use throughline::cache::Cache;
use throughline::hosts::codex::candidates;
use throughline::hosts::{Candidate, Need};
use throughline::observer::read::{Request, read};
use throughline::observer::threads::threads;
use throughline::paths::Resolved;
use throughline::{Mapping, Stores};

/// How long the clock of a file system may stand still.
const TICK: Duration = Duration::from_millis(12);

// ---- rollouts

pub fn row(kind: &str, payload: &str, second: u64) -> String {
    let time = format!(
        "2026-07-{:02}T{:02}:{:02}:{:02}.000Z",
        second / 86_400 + 1,
        second / 3600 % 24,
        second / 60 % 60,
        second % 60
    );
    format!("{{\"timestamp\":\"{time}\",\"type\":\"{kind}\",\"payload\":{payload}}}")
}

pub fn event(payload: &str, second: u64) -> String {
    row("event_msg", payload, second) + "\n"
}

pub fn id(n: u64) -> String {
    format!("019c0000-0000-7000-8000-{n:012}")
}

pub fn name(thread: u64, rollout: u64) -> String {
    let own = if thread == rollout { String::new() } else { format!("_{}", id(rollout)) };
    format!("rollout-2026-07-01T00-00-00-{}{own}.jsonl", id(thread))
}

pub fn meta(thread: u64, cwd: &Path, base: Option<(u64, u64)>) -> String {
    let base = base.map_or(String::new(), |(rollout, end)| {
        format!(",\"history_base\":{{\"thread_id\":\"{}\",\"end_byte_offset\":{end}}}", id(rollout))
    });
    row("session_meta", &format!("{{\"id\":\"{}\",\"cwd\":{cwd:?}{base}}}", id(thread)), 0) + "\n"
}

/// The rows of a whole turn; `n` makes it another one.
pub fn turn(n: u64) -> String {
    let turn = id(1_000_000 + n);
    [
        event(&format!("{{\"type\":\"task_started\",\"turn_id\":\"{turn}\"}}"), n),
        event(&format!("{{\"type\":\"user_message\",\"message\":\"ask {n}\"}}"), n),
        row("response_item", &format!("{{\"type\":\"message\",\"text\":\"not looked at {n}\"}}"), n) + "\n",
        event(&format!("{{\"type\":\"agent_message\",\"message\":\"answer {n}\"}}"), n),
        event(&format!("{{\"type\":\"task_complete\",\"turn_id\":\"{turn}\",\"last_agent_message\":\"x\"}}"), n),
    ]
    .concat()
}

fn pieces(n: u64) -> [String; 6] {
    [
        event(&format!("{{\"type\":\"task_started\",\"turn_id\":\"{}\"}}", id(2_000_000 + n)), n),
        event(&format!("{{\"type\":\"user_message\",\"message\":\"piece {n}\"}}"), n),
        event(&format!("{{\"type\":\"agent_message\",\"message\":\"said {n} {}\"}}", "long ".repeat(4000)), n),
        event("{\"type\":\"task_complete\"}", n),
        event("{\"type\":\"turn_aborted\"}", n),
        row("session_meta", &format!("{{\"id\":\"{}\"}}", id(77)), n) + "\n",
    ]
}

// ---- the store

pub struct World {
    pub home: tempfile::TempDir,
    pub project: PathBuf,
    next: u64,
    /// What was cut off a row that was appended half.
    halves: BTreeMap<PathBuf, String>,
    cursors: Vec<String>,
}

impl World {
    pub fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let project = fs::canonicalize(home.path()).unwrap().join("proj");
        fs::create_dir_all(project.join("sub")).unwrap();
        let world = Self { home, project, next: 1, halves: BTreeMap::new(), cursors: Vec::new() };
        fs::create_dir_all(world.folder(0)).unwrap();
        fs::create_dir_all(world.folder(1)).unwrap();
        world
    }

    pub fn folder(&self, n: usize) -> PathBuf {
        self.home.path().join(".codex/sessions").join(["2026/07/01", "2026/07/02"][n])
    }

    pub fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The rollouts, packed ones too.
    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = (0..2)
            .flat_map(|n| fs::read_dir(self.folder(n)).unwrap().map(|entry| entry.unwrap().path()))
            .filter(|path| path.is_file())
            .collect();
        files.sort();
        files
    }

    fn plain(&self, which: &Index) -> Option<PathBuf> {
        let files: Vec<_> =
            self.files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
        (!files.is_empty()).then(|| files[which.index(files.len())].clone())
    }

    pub fn stores(&self, ahead: Duration) -> Stores {
        let stores = Stores::below(self.home.path());
        Stores {
            cache: Some(Cache::below(self.home.path().join(".cache")).ahead_by(ahead).with_recent_turns(1)),
            ..stores
        }
    }

    pub fn uncached(&self) -> Stores {
        Stores { cache: None, ..Stores::below(self.home.path()) }
    }

    /// Reads with and without the cache and compares.
    pub fn compare(&mut self, ahead: Duration, needs: u8) -> Result<(), String> {
        let (cached, uncached) = (self.stores(ahead), self.uncached());
        let project = Resolved::new(&self.project).unwrap();
        let need = |thread: throughline_parsers::text::Digest| match (thread.0[0] ^ needs) % 4 {
            0 => Need::End,
            1 => Need::Nothing,
            // As many pairs may be put aside, or fewer.
            2 => Need::Chain { since: usize::from(needs / 2) },
            _ => Need::Chain { since: 0 },
        };
        let told = |stores: &Stores| {
            let found = candidates(stores, &project, Mapping::Never, &|thread, _, _| need(thread));
            tell(found, need)
        };
        let (with, without) = (told(&cached), told(&uncached));
        if with != without {
            return Err(format!("chains differ\nwith    {with:#?}\nwithout {without:#?}"));
        }
        let answer = |stores: &Stores, request: &Request<'_>| {
            read(stores, request, Mapping::Never)
                .map(|answer| serde_json::to_string(&answer).unwrap())
                .map_err(|error| error.kind())
        };
        let listed = |stores: &Stores| {
            threads(stores, &self.project, Mapping::Never)
                .map(|threads| serde_json::to_string(&threads).unwrap())
                .map_err(|error| error.kind())
        };
        let snapshot = Request::snapshot(&self.project);
        let mut requests = vec![snapshot, Request { limit: 2, ..snapshot }];
        requests.extend(self.cursors.iter().rev().take(4).map(|cursor| Request { after: Some(cursor), ..snapshot }));
        for request in &requests {
            let (with, without) = (answer(&cached, request), answer(&uncached, request));
            if with != without {
                return Err(format!("answers differ to {request:?}\nwith    {with:?}\nwithout {without:?}"));
            }
        }
        let (with, without) = (listed(&cached), listed(&uncached));
        if with != without {
            return Err(format!("threads differ\nwith    {with:?}\nwithout {without:?}"));
        }
        let list: serde_json::Value = serde_json::from_str(&without.unwrap_or_default()).unwrap_or_default();
        let ends =
            list["threads"].as_array().into_iter().flatten().filter_map(|thread| thread["throughCursor"].as_str());
        for end in ends {
            if !self.cursors.iter().any(|cursor| cursor == end) {
                self.cursors.push(end.to_owned());
            }
        }
        Ok(())
    }
}

/// What can be told of candidates, where it is needed.
pub fn tell(
    found: Result<Vec<Candidate>, throughline::Error>,
    need: impl Fn(throughline_parsers::text::Digest) -> Need,
) -> Vec<String> {
    let mut told: Vec<String> = match found {
        Err(error) => vec![format!("{:?}", error.kind())],
        Ok(found) => found
            .iter()
            .map(|candidate| {
                let Candidate { thread, end, session, floor, .. } = candidate;
                let (entries, prefixes): (Vec<_>, Vec<_>) = match need(*thread) {
                    Need::Chain { since } if since <= end.length => {
                        let lengths = since..=end.length;
                        (candidate.entries(since..end.length), lengths.map(|n| candidate.prefix(n)).collect())
                    }
                    _ => (Vec::new(), Vec::new()),
                };
                format!("{thread} {session} {floor} {end:?} {entries:?} {prefixes:?}")
            })
            .collect(),
    };
    told.sort();
    told
}

// ---- what happens to it

#[derive(Clone, Debug)]
enum Step {
    /// A new session of the project; of a sub-folder, or of somewhere else.
    Session(u8),
    /// A second file of a thread that continues the first one from here on.
    Revert(Index, Index),
    Turns(Index, u8),
    Piece(Index, u8),
    /// Half of a row, and later the rest of it.
    Half(Index, Index),
    Finish(Index),
    Rollback(Index, u8),
    /// The file is cut, and grows again, to the same size at times.
    Cut(Index, Index, bool),
    /// A byte of a message is changed in place; at times the time of the change is put back, and the file grows.
    Edit {
        file: Index,
        at: Index,
        put_back: bool,
        grow: bool,
    },
    /// The same through a mapping that was written to before, so that no time changes; the file then grows.
    MappedStore(Index, Index),
    Replace(Index, bool),
    Move(Index),
    Archive(Index),
    Pack(Index),
    Unpack(Index),
    DamageCache(Index, Damage),
    Poll {
        ahead: u64,
        needs: u8,
    },
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    DeleteAll,
    Delete,
    Empty,
    Halve,
    Nul,
    Flip(u16),
    Directory,
    Public,
}

fn steps() -> impl Strategy<Value = Step> {
    let file = || any::<Index>();
    let damage = select(vec![
        Damage::DeleteAll,
        Damage::Delete,
        Damage::Empty,
        Damage::Halve,
        Damage::Nul,
        Damage::Directory,
        Damage::Public,
    ]);
    let damage = prop_oneof![3 => damage, 2 => any::<u16>().prop_map(Damage::Flip)];
    prop_oneof![
        2 => (0..4_u8).prop_map(Step::Session),
        1 => (file(), file()).prop_map(|(of, at)| Step::Revert(of, at)),
        5 => (file(), 1..4_u8).prop_map(|(of, count)| Step::Turns(of, count)),
        4 => (file(), 0..6_u8).prop_map(|(of, piece)| Step::Piece(of, piece)),
        2 => (file(), file()).prop_map(|(of, at)| Step::Half(of, at)),
        2 => file().prop_map(Step::Finish),
        2 => (file(), 1..3_u8).prop_map(|(of, count)| Step::Rollback(of, count)),
        2 => (file(), file(), any::<bool>()).prop_map(|(of, at, same)| Step::Cut(of, at, same)),
        3 => (file(), file(), any::<bool>(), any::<bool>()).prop_map(|(file, at, put_back, grow)| Step::Edit { file, at, put_back, grow }),
        1 => (file(), file()).prop_map(|(of, at)| Step::MappedStore(of, at)),
        2 => (file(), any::<bool>()).prop_map(|(of, reuse)| Step::Replace(of, reuse)),
        1 => file().prop_map(Step::Move),
        1 => file().prop_map(Step::Archive),
        1 => file().prop_map(Step::Pack),
        1 => file().prop_map(Step::Unpack),
        1 => (file(), damage).prop_map(|(of, damage)| Step::DamageCache(of, damage)),
        12 => (select(vec![0, 3, 3, 3, 400]), any::<u8>()).prop_map(|(ahead, needs)| Step::Poll { ahead, needs }),
    ]
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

impl World {
    fn take(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Poll { ahead, needs } => {
                self.compare(Duration::from_secs(*ahead), *needs)?;
                if *ahead > 0 {
                    thread::sleep(TICK);
                }
            }
            Step::Session(kind) => self.session(*kind),
            Step::Revert(of, at) => self.revert(of, at),
            Step::Turns(of, count) => {
                for _ in 0..*count {
                    let n = self.next();
                    self.append(of, |_| turn(n));
                }
            }
            Step::Piece(of, piece) => {
                let n = self.next();
                self.append(of, |_| pieces(n)[usize::from(*piece)].clone());
            }
            Step::Rollback(of, count) => {
                let n = self.next();
                self.append(of, |_| event(&format!("{{\"type\":\"thread_rolled_back\",\"num_turns\":{count}}}"), n));
            }
            Step::Half(of, at) => {
                let n = self.next();
                let Some(path) = self.plain(of) else { return Ok(()) };
                let mut text = turn(n);
                let cut = at.index(text.len());
                // Often only an LF is missing: of one of the rows, or of the last one.
                let cut = match n % 4 {
                    0 => text.len() - 1,
                    1 => text[..cut].rfind('\n').unwrap_or(cut),
                    _ => cut,
                };
                let rest = text.split_off(cut);
                self.append(of, |_| text);
                self.halves.insert(path, rest);
            }
            Step::Finish(of) => {
                let Some(path) = self.plain(of) else { return Ok(()) };
                let rest = self.halves.remove(&path).unwrap_or_default();
                append(&path, &rest);
            }
            Step::Cut(of, at, same) => self.cut(of, at, *same),
            Step::Edit { file, at, put_back, grow } => self.edit(file, at, *put_back, *grow),
            Step::MappedStore(of, at) => self.mapped_store(of, at),
            Step::Replace(of, reuse) => self.replace(of, *reuse),
            Step::Move(of) => {
                self.rename(of, |world, path| world.folder(usize::from(path.starts_with(world.folder(0)))))
            }
            Step::Archive(of) => self.rename(of, |world, _| world.home.path().join(".codex/archived_sessions")),
            Step::Pack(of) => self.pack(of),
            Step::Unpack(of) => self.unpack(of),
            Step::DamageCache(of, damage) => self.damage_cache(of, *damage),
        }
        Ok(())
    }

    fn append(&mut self, of: &Index, text: impl FnOnce(&Path) -> String) {
        if let Some(path) = self.plain(of) {
            append(&path, &text(&path));
        }
    }

    fn session(&mut self, kind: u8) {
        let n = self.next();
        let cwd = match kind {
            0 => self.home.path().join("elsewhere"),
            1 => self.project.join("sub/deeper"),
            _ => self.project.clone(),
        };
        let text = meta(n, &cwd, None) + &turn(n);
        // Some begin without their first row.
        let begun = if n.is_multiple_of(5) { text.len() / 9 } else { text.len() };
        let path = self.folder(n as usize % 2).join(name(n, n));
        fs::write(&path, &text[..begun]).unwrap();
        self.halves.insert(path, text[begun..].to_owned());
    }

    fn revert(&mut self, of: &Index, at: &Index) {
        let Some(path) = self.plain(of) else { return };
        let file_name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let ids: Vec<&str> = file_name["rollout-2026-07-01T00-00-00-".len()..].split('_').collect();
        let [thread, rollout] = [ids[0], ids[ids.len() - 1]].map(|id| id[24..].parse::<u64>().unwrap());
        let (n, text) = (self.next(), fs::read_to_string(&path).unwrap_or_default());
        // Where a row ends, or not.
        let cut = at.index(text.len() + 1);
        let cut =
            if n.is_multiple_of(3) { cut } else { text[..cut.min(text.len())].rfind('\n').map_or(0, |at| at + 1) };
        let text = meta(thread, &self.project, Some((rollout, cut as u64))) + &turn(n);
        fs::write(path.with_file_name(name(thread, n)), text).unwrap();
    }

    fn cut(&mut self, of: &Index, at: &Index, same: bool) {
        let Some(path) = self.plain(of) else { return };
        let len = fs::metadata(&path).unwrap().len();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(at.index(len as usize + 1) as u64).unwrap();
        let n = self.next();
        append(&path, &format!("\n{}", turn(n)));
        if same {
            // Blank lines up to the size that it had.
            let now = fs::metadata(&path).unwrap().len();
            append(&path, &"\n".repeat(len.saturating_sub(now) as usize));
        }
    }

    /// A byte of some word that is text in its row.
    fn letter(path: &Path, at: &Index) -> Option<u64> {
        let bytes = fs::read(path).unwrap();
        let letters: Vec<usize> = ["ask ", "answer ", "piece ", "said ", "\"cwd\":\"/"]
            .iter()
            .flat_map(|word| memchr::memmem::find_iter(&bytes, word).map(|at| at + word.len() - 2).collect::<Vec<_>>())
            .collect();
        (!letters.is_empty()).then(|| letters[at.index(letters.len())] as u64)
    }

    fn edit(&mut self, of: &Index, at: &Index, put_back: bool, grow: bool) {
        let Some((path, at)) = self.plain(of).and_then(|path| Some((path.clone(), Self::letter(&path, at)?))) else {
            return;
        };
        let before = fs::metadata(&path).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        if grow {
            let n = self.next();
            append(&path, &turn(n));
        }
        if put_back {
            file.set_modified(before.modified().unwrap()).unwrap();
        }
    }

    fn mapped_store(&mut self, of: &Index, at: &Index) {
        let Some((path, at)) = self.plain(of).and_then(|path| Some((path.clone(), Self::letter(&path, at)?))) else {
            return;
        };
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        // SAFETY: nobody else changes the file meanwhile.
        let mut map = unsafe { memmap2::MmapMut::map_mut(&file).unwrap() };
        let page = at as usize / 4096 * 4096;
        // There and back: now the page is dirty.
        (0..2).for_each(|_| map[page] ^= 1);
        self.compare(Duration::ZERO, 0).unwrap();
        map[at as usize] ^= 1;
        let n = self.next();
        append(&path, &turn(n));
    }

    fn replace(&mut self, of: &Index, reuse: bool) {
        let Some(path) = self.plain(of) else { return };
        let text = fs::read_to_string(&path).unwrap_or_default();
        let n = self.next();
        let first = text.find('\n').map_or(text.len(), |at| at + 1);
        let text = format!("{}{}{}", &text[..first], turn(n), &text[first..]);
        if !reuse {
            let beside = path.with_extension("part");
            fs::write(&beside, text).unwrap();
            return fs::rename(beside, path).unwrap();
        }
        let inode = fs::metadata(&path).unwrap().ino();
        fs::remove_file(&path).unwrap();
        // A few files are made until one has the number that was let go.
        let others: Vec<PathBuf> = (0..20).map(|n| path.with_extension(format!("other{n}"))).collect();
        for other in &others {
            let made = File::create(other).unwrap();
            if made.metadata().unwrap().ino() == inode {
                fs::rename(other, &path).unwrap();
                break;
            }
        }
        fs::write(&path, text).unwrap();
        others.iter().for_each(|other| drop(fs::remove_file(other)));
    }

    fn rename(&mut self, of: &Index, to: impl FnOnce(&Self, &Path) -> PathBuf) {
        let files = self.files();
        if files.is_empty() {
            return;
        }
        let path = &files[of.index(files.len())];
        let folder = to(self, path);
        fs::create_dir_all(&folder).unwrap();
        fs::rename(path, folder.join(path.file_name().unwrap())).unwrap();
    }

    fn pack(&mut self, of: &Index) {
        let Some(path) = self.plain(of) else { return };
        let packed = zstd::encode_all(&fs::read(&path).unwrap()[..], 1).unwrap();
        fs::write(path.with_extension("jsonl.zst"), packed).unwrap();
        fs::remove_file(path).unwrap();
    }

    fn unpack(&mut self, of: &Index) {
        let packed: Vec<_> =
            self.files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "zst")).collect();
        if packed.is_empty() {
            return;
        }
        let path = &packed[of.index(packed.len())];
        fs::write(path.with_extension(""), zstd::decode_all(File::open(path).unwrap()).unwrap()).unwrap();
        fs::remove_file(path).unwrap();
    }

    fn damage_cache(&mut self, of: &Index, damage: Damage) {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = self.home.path().join(".cache/throughline");
        let Ok(entries) = fs::read_dir(&directory) else { return };
        let mut files: Vec<PathBuf> =
            entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
        files.sort();
        if files.is_empty() {
            return;
        }
        let path = &files[of.index(files.len())];
        let mut bytes = fs::read(path).unwrap();
        match damage {
            Damage::DeleteAll => return fs::remove_dir_all(directory).unwrap(),
            Damage::Delete => return fs::remove_file(path).unwrap(),
            Damage::Directory => {
                fs::remove_file(path).unwrap();
                return fs::create_dir(path).unwrap();
            }
            Damage::Public => return fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap(),
            Damage::Empty => bytes.clear(),
            Damage::Halve => bytes.truncate(bytes.len() / 2),
            Damage::Nul => bytes.fill(0),
            Damage::Flip(at) => {
                let at = usize::from(at) % bytes.len().max(1);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 4);
            }
        }
        fs::write(path, bytes).unwrap();
    }
}

/// How many stores are tried: a few, unless it is said otherwise.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(30)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_time: 60_000, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn a_read_with_the_cache_is_a_read_without_it(steps in proptest::collection::vec(steps(), 10..70)) {
        let mut world = World::new();
        for kind in [2, 1, 2] {
            world.session(kind);
        }
        for (n, step) in steps.iter().enumerate() {
            if let Err(why) = world.take(step) {
                return Err(TestCaseError::fail(format!("step {n}, {step:?}: {why}")));
            }
        }
        prop_assert_eq!(world.compare(Duration::ZERO, 0), Ok(()));
        prop_assert_eq!(world.compare(Duration::from_secs(400), 1), Ok(()));
    }
}
