//! The Observers in `examples/`, run as they are. Some need `python3`, or `sh` with `jq`; their tests are ignored unless they
//! are asked for: `cargo test --test it -- --ignored needs_`.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::home::Home;

macro_rules! for_each_observer {
    ($($scenario:ident)*) => {
        mod observe_py_needs_python3 {
            $(
                #[test]
                #[ignore = "needs python3"]
                fn $scenario() {
                    super::$scenario(&super::PYTHON);
                }
            )*
        }
        mod observe_sh_needs_jq {
            $(
                #[test]
                #[ignore = "needs jq"]
                fn $scenario() {
                    super::$scenario(&super::SHELL);
                }
            )*
        }
        mod observe_rs {
            $(
                #[test]
                fn $scenario() {
                    super::$scenario(&super::RUST);
                }
            )*
        }
    };
}

for_each_observer! {
    two_sessions_at_once_lose_nothing
    both_hosts_are_followed
    a_long_session_is_told_page_by_page
    a_turn_without_its_bodies_comes_later
    a_page_that_waits_does_not_repeat_the_pages_before_it
    a_rollback_begins_the_thread_again
    a_page_token_that_does_not_fit_begins_the_series_again
    a_damaged_state_begins_the_thread_again
    hard_failures_are_told_and_pass
    it_sleeps_until_a_turn_completes
    it_asks_seldom_for_what_stays_pending
    what_is_pending_keeps_no_other_session_waiting
    it_ends_when_it_is_told_to
}

const PYTHON: Observer = Observer { interpreter: Some("python3"), example: "examples/observe.py" };
const SHELL: Observer = Observer { interpreter: Some("sh"), example: "examples/observe.sh" };
const RUST: Observer = Observer { interpreter: None, example: "observe" };

fn two_sessions_at_once_lose_nothing(observer: &Observer) {
    let home = Home::new();
    let (mut one, mut two) = (home.codex(1), home.codex(2));
    assert_eq!(observer.round(&home), Told::default());
    for round in 0..4 {
        // Each completes more than one turn between two rounds, and either may be the last one.
        let turns: Vec<String> = (0..4).map(|n| format!("{round}.{n}")).collect();
        for turn in &turns {
            let session = if turn.ends_with(['0', '3']) == (round % 2 == 0) { &mut one } else { &mut two };
            session.complete_and_store(turn, "done");
        }
        let mut told = observer.round(&home);
        told.turns.sort();
        assert_eq!(told, Told::of(turns.iter().map(|turn| (turn.as_str(), "done"))));
        assert_eq!(observer.round(&home), Told::default());
    }
}

fn both_hosts_are_followed(observer: &Observer) {
    let home = Home::new();
    let (mut codex, mut claude) = (home.codex(1), home.claude("a session"));
    for round in ["1", "2"] {
        codex.complete_and_store(round, "by Codex");
        claude.complete_and_store(round, "by Claude");
        let mut told = observer.round(&home);
        told.turns.sort();
        assert_eq!(told, Told::of([(round, "by Claude"), (round, "by Codex")]));
    }
    // Both at once: `ambiguous_parent` without cursors, nothing special by thread.
    codex.complete_and_store("3", "by Codex");
    home.turn_back_a_tick();
    claude.complete_and_store("3", "by Claude");
    assert_eq!(observer.round(&home).turns.len(), 2);
}

fn a_long_session_is_told_page_by_page(observer: &Observer) {
    let home = Home::new();
    let mut session = home.codex(1);
    let turns: Vec<String> = (100..123).map(|n| n.to_string()).collect();
    turns.iter().for_each(|turn| session.complete(turn, "done"));
    session.store();
    assert_eq!(observer.round(&home), Told::of(turns.iter().map(|turn| (turn.as_str(), "done"))));
    let states: Vec<_> = fs::read_dir(home.path("state")).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(states.len(), 1);
    assert!(states[0].file_name().to_str().unwrap().starts_with("codex-"));
    assert_eq!(states[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(observer.round(&home), Told::default());
}

fn a_turn_without_its_bodies_comes_later(observer: &Observer) {
    let home = Home::new();
    let (mut one, mut two) = (home.codex(1), home.codex(2));
    two.complete_and_store("2", "stored");
    one.complete("1", "not stored");
    let told = observer.round(&home);
    assert_eq!(told.turns, Told::of([("2", "stored")]).turns);
    assert_eq!(told.reports(), ["projection_pending"]);
    two.complete_and_store("3", "stored");
    assert_eq!(observer.round(&home).turns, Told::of([("3", "stored")]).turns);
    one.store();
    assert_eq!(observer.round(&home), Told::of([("1", "not stored")]));
}

fn a_page_that_waits_does_not_repeat_the_pages_before_it(observer: &Observer) {
    let home = Home::new();
    let mut session = home.codex(1);
    let turns: Vec<String> = (100..115).map(|n| n.to_string()).collect();
    turns.iter().for_each(|turn| session.complete(turn, "done"));
    session.store_first(12);
    let all = Told::of(turns.iter().map(|turn| (turn.as_str(), "done"))).turns;
    let told = observer.round(&home);
    assert_eq!((&told.turns[..], told.reports()), (&all[..10], vec!["projection_pending"]));
    session.complete("115", "while it waited");
    session.store();
    let rest = [&all[10..], &Told::of([("115", "while it waited")]).turns].concat();
    assert_eq!(observer.round(&home).turns, rest);
}

fn a_rollback_begins_the_thread_again(observer: &Observer) {
    let home = Home::new();
    let mut session = home.codex(1);
    session.complete_and_store("kept", "1");
    session.complete_and_store("undone", "2");
    let before = observer.run(&home);
    session.roll_back(1);
    session.complete_and_store("instead", "3");
    let after = observer.run(&home);
    assert_eq!(Told::from(&after), Told { turns: Told::of([("kept", "1"), ("instead", "3")]).turns, ..after.told() });
    assert_eq!(after.told().reports(), ["resync_required"]);
    for key in ["thread_sha256", "source_sha256", "user_sha256", "assistant_sha256"] {
        assert_eq!(before.records[0][key], after.records[0][key], "by {key} a turn told twice is known");
    }
    assert_eq!(observer.round(&home), Told::default());
}

fn a_page_token_that_does_not_fit_begins_the_series_again(observer: &Observer) {
    let home = Home::new();
    let mut session = home.codex(1);
    (100..112).for_each(|n| session.complete(&n.to_string(), "done"));
    session.store_first(10);
    assert_eq!(observer.round(&home).turns.len(), 10);
    session.store();
    observer.change_state(&home, |state| state.replace("tlp1.", "tlp1.x"));
    let told = observer.round(&home);
    assert_eq!((told.turns.len(), told.reports()), (12, vec![observer.report("E_OBSERVER_READ_INPUT")]));
    assert_eq!(observer.round(&home), Told::default());
}

fn a_damaged_state_begins_the_thread_again(observer: &Observer) {
    let home = Home::new();
    let mut session = home.codex(1);
    session.complete_and_store("1", "done");
    for damage in ["", "tlc1.x", "\n\n\n"] {
        observer.round(&home);
        observer.change_state(&home, |_| damage.to_owned());
        assert_eq!(observer.round(&home).turns, Told::of([("1", "done")]).turns, "{damage:?}");
    }
    observer.change_state(&home, |state| state.replacen("tlc1.", "tlc1.x", 1));
    let told = observer.round(&home);
    assert_eq!((told.turns.len(), told.reports()), (1, vec!["resync_required"]));
}

fn hard_failures_are_told_and_pass(observer: &Observer) {
    let home = Home::new();
    let mut session = home.codex(1);
    home.claude("a session").complete_and_store("0", "by Claude");
    session.complete_and_store("1", "done");
    let receipts = home.receipts().path();
    let set_mode = |mode| fs::set_permissions(&receipts, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    let told = observer.round(&home);
    assert_eq!((told.turns.len(), told.reports()), (0, vec![observer.report("E_OBSERVER_THREADS_INTERNAL")]));
    set_mode(0o600);
    let version = |version: i64| home.database().pragma_update(None, "user_version", version).unwrap();
    version(13);
    let told = observer.round(&home);
    assert_eq!((told.turns.len(), told.reports()), (0, vec![observer.report("E_OBSERVER_READ_DB_SCHEMA"); 2]));
    rusqlite::Connection::open(home.path("home/.throughline/throughline.db"))
        .unwrap()
        .pragma_update(None, "user_version", 9)
        .unwrap();
    assert_eq!(observer.round(&home).turns.len(), 2);
}

fn it_sleeps_until_a_turn_completes(observer: &Observer) {
    let home = Home::new();
    let (mut one, mut two) = (home.codex(1), home.codex(2));
    let mut running = observer.start(&home);
    for n in ["1", "2", "3"] {
        for session in [&mut one, &mut two] {
            session.complete_and_store(n, "done");
            assert_eq!(running.next_turn(), n);
        }
    }
    // What is left is one call that waits.
    running.wait_until_asleep();
    let (calls, ticks) = (running.calls(), running.ticks());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(running.calls(), calls, "nothing is asked while nothing changes");
    assert!(running.ticks() <= ticks + 5, "{} ticks while nothing changes", running.ticks() - ticks);
}

fn it_asks_seldom_for_what_stays_pending(observer: &Observer) {
    let home = Home::new();
    let mut session = home.codex(1);
    session.complete("1", "not stored");
    let mut running = observer.start(&home);
    std::thread::sleep(Duration::from_secs(10));
    // After 0, 0.25, 1.25 and 5.25 seconds.
    let notes = running.notes();
    let asked = notes.lines().filter(|note| note.ends_with("projection_pending")).count();
    assert!((3..=5).contains(&asked), "{notes}");
    session.store();
    assert_eq!(running.next_turn(), "1");
}

fn what_is_pending_keeps_no_other_session_waiting(observer: &Observer) {
    let home = Home::new();
    // Of Claude's turns the bodies are there before the receipts are.
    let (mut one, mut two) = (home.codex(1), home.claude("a session"));
    one.complete("0", "not stored");
    let mut running = observer.start(&home);
    for n in 1..=20 {
        two.complete_and_store(&n.to_string(), "done");
        assert_eq!(running.next_turn(), n.to_string());
    }
    let asked = running.notes().lines().count();
    assert!(asked <= 6, "the other's turns make it ask {asked} times");
    one.store();
    assert_eq!(running.next_turn(), "0");
}

fn it_ends_when_it_is_told_to(observer: &Observer) {
    let home = Home::new();
    let mut session = home.codex(1);
    let mut running = observer.start(&home);
    session.complete_and_store("1", "done");
    assert_eq!(running.next_turn(), "1");
    running.wait_until_asleep();
    running.terminate();
}

mod observe_current_sh_needs_jq {
    use super::*;

    fn round(home: &Home) -> Told {
        let mut command = home.command("sh");
        command.arg(example("examples/observe-current.sh")).arg(home.project());
        Ran::of(command.arg(home.path("cursor")).arg("once")).told()
    }

    #[test]
    #[ignore = "needs jq"]
    fn it_goes_from_thread_to_thread() {
        let home = Home::new();
        assert_eq!(round(&home), Told::default());
        let mut one = home.codex(1);
        one.complete_and_store("1", "done");
        assert_eq!(round(&home), Told::of([("1", "done")]));
        assert_eq!(round(&home), Told::default());
        one.complete_and_store("2", "done");
        assert_eq!(round(&home), Told::of([("2", "done")]));
        let mut two = home.codex(2);
        let turns: Vec<String> = (100..112).map(|n| n.to_string()).collect();
        turns.iter().for_each(|turn| two.complete(turn, "switched"));
        two.store();
        assert_eq!(round(&home), Told::of(turns.iter().map(|turn| (turn.as_str(), "switched"))));
        let mut claude = home.claude("a session");
        claude.complete_and_store("3", "by Claude");
        assert_eq!(round(&home), Told::of([("3", "by Claude")]));
        assert_eq!(round(&home), Told::default());
    }

    #[test]
    #[ignore = "needs jq"]
    fn it_begins_with_the_newest_turns() {
        let home = Home::new();
        let mut session = home.codex(1);
        (100..115).for_each(|n| session.complete(&n.to_string(), "done"));
        session.store();
        let turns = round(&home).turns;
        assert_eq!((turns.len(), turns[9].0.as_str()), (10, "114"));
    }

    #[test]
    #[ignore = "needs jq"]
    fn every_other_status_is_told_and_passes() {
        let home = Home::new();
        let (mut codex, mut claude) = (home.codex(1), home.claude("a session"));
        codex.complete("1", "by Codex");
        assert_eq!(round(&home).notes, "observe: projection_pending\n");
        codex.store();
        assert_eq!(round(&home), Told::of([("1", "by Codex")]));
        codex.roll_back(1);
        assert_eq!(round(&home).notes, "observe: resync_required\n");
        assert_eq!(round(&home), Told::default());
        codex.complete_and_store("2", "by Codex");
        home.turn_back_a_tick();
        claude.complete_and_store("2", "by Claude");
        assert_eq!(round(&home).notes, "observe: ambiguous_parent\n");
        fs::set_permissions(home.receipts().path(), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(round(&home).notes, "observe: E_OBSERVER_READ_INTERNAL\n");
    }
}

// ---- running them

struct Observer {
    interpreter: Option<&'static str>,
    example: &'static str,
}

/// What an example printed.
struct Ran {
    records: Vec<Value>,
    stderr: String,
}

/// The same, as a test compares it: the bodies, and what stderr said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    turns: Vec<(String, String)>,
    notes: String,
}

impl Observer {
    fn command(&self, home: &Home) -> Command {
        let mut command = match self.interpreter {
            Some(interpreter) => {
                let mut command = home.command(interpreter);
                command.arg(example(self.example));
                command
            }
            None => home.command(built(self.example)),
        };
        command.arg("--project").arg(home.project()).arg("--state").arg(home.path("state"));
        command
    }

    /// How it reports an error of this code: what uses the library knows kinds in their place.
    fn report(&self, code: &'static str) -> &'static str {
        match code {
            _ if self.interpreter.is_some() => code,
            "E_OBSERVER_READ_INPUT" => "Input",
            "E_OBSERVER_READ_DB_SCHEMA" => "DbSchema",
            _ => "Internal",
        }
    }

    fn run(&self, home: &Home) -> Ran {
        Ran::of(self.command(home).arg("--once"))
    }

    fn round(&self, home: &Home) -> Told {
        self.run(home).told()
    }

    fn start(&self, home: &Home) -> Running {
        let (program, log, notes) = (home.path("counted"), home.path("calls"), home.path("notes"));
        let binary = env!("CARGO_BIN_EXE_throughline");
        let script = format!("#!/bin/sh\necho \"$1\" >>'{}'\nexec '{binary}' \"$@\"\n", log.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = self.command(home);
        command.env("THROUGHLINE", program).stdout(Stdio::piped()).stderr(File::create(&notes).unwrap());
        Running::new(command.spawn().unwrap(), log, notes)
    }

    /// Changes the state of the only thread there is.
    fn change_state(&self, home: &Home, change: impl Fn(String) -> String) {
        let mut states = fs::read_dir(home.path("state")).unwrap();
        let path = states.next().unwrap().unwrap().path();
        assert!(states.next().is_none());
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    }
}

fn example(script: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(script)
}

impl Ran {
    fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{}: {stderr}", output.status);
        let stdout = String::from_utf8(output.stdout).unwrap();
        Self { records: stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), stderr }
    }

    fn told(&self) -> Told {
        Told::from(self)
    }
}

impl From<&Ran> for Told {
    fn from(ran: &Ran) -> Self {
        let text = |record: &Value, key: &str| record[key].as_str().unwrap().to_owned();
        let turns = ran.records.iter().map(|record| (text(record, "user"), text(record, "assistant"))).collect();
        Self { turns, notes: ran.stderr.clone() }
    }
}

impl Told {
    fn of<'a>(turns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let turns = turns.into_iter().map(|(user, assistant)| (user.to_owned(), assistant.to_owned())).collect();
        Self { turns, notes: String::new() }
    }

    /// The last word of each note: a status or a code.
    fn reports(&self) -> Vec<&str> {
        self.notes.lines().map(|line| line.rsplit(' ').next().unwrap()).collect()
    }
}

/// An example that runs until it is dropped.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    log: PathBuf,
    notes: PathBuf,
}

impl Running {
    fn new(mut child: Child, log: PathBuf, notes: PathBuf) -> Self {
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, log, notes }
    }

    /// What the user said in the next turn; it comes while the example goes on.
    fn next_turn(&mut self) -> String {
        let line = self.lines.recv_timeout(Duration::from_secs(20));
        let line = line.unwrap_or_else(|_| panic!("nothing is told; it said: {}", self.notes()));
        let turn: Value = serde_json::from_str(&line).unwrap();
        turn["user"].as_str().unwrap().to_owned()
    }

    fn notes(&self) -> String {
        fs::read_to_string(&self.notes).unwrap()
    }

    /// How it called the program, if it does.
    fn calls(&self) -> Vec<String> {
        fs::read_to_string(&self.log).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Waits until the last of its calls is one that waits; what makes none has a while for it.
    fn wait_until_asleep(&self) {
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(500));
        while self.calls().last().is_some_and(|call| call != "observer-wait") {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", self.calls());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The processor time of the example without that of its calls, in hundredths of a second; 0 where there is no `/proc`.
    fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        fields.get(11..13).map_or(0, |ticks| ticks.iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum())
    }

    fn terminate(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(10), "it goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
        // What it has called notices that its parent is gone. (Its command line names the project, below the log's folder.)
        while processes_that_name(self.log.parent().unwrap()) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(10), "what it called goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// How many processes have this path in their command lines; none where there is no `/proc`.
fn processes_that_name(path: &Path) -> usize {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(path.to_str().unwrap())).count()
}

/// The built example of this name.
fn built(name: &str) -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // Beside `deps`, in which this test is.
        let test = std::env::current_exe().unwrap();
        let profile = test.ancestors().nth(2).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--example", name, "--target-dir"]).arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        profile.join("examples").join(name)
    })
}
