//! What a hook does with what it remembers is what it does without: two homes beside the same logs, one of them without a
//! cache, have the same bodies and receipts after every hook, whatever was done to the logs, the bodies and the receipts.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use throughline::db::schema;

use crate::home::rollout_id;

const WORLDS: u64 = 6;
const STEPS: usize = 40;
/// A larger log is read on from where the last hook left it.
const LARGE: usize = 160 << 10;

#[test]
fn a_stop_that_goes_on_is_one_that_reads_everything() {
    for seed in 0..WORLDS {
        let mut world = World::new(seed);
        let mut sessions = [Transcript::new(&world, "one"), Transcript::new(&world, "two")];
        for step in 0..STEPS {
            let session = &mut sessions[world.dice.below(5) / 4];
            let mut marker = session.something(&mut world.dice);
            world.tamper();
            if world.dice.below(8) == 0 {
                marker = None;
            }
            let payload = json!({
                "session_id": session.id, "transcript_path": session.path, "cwd": world.path("project"),
                "hook_event_name": "Stop", "last_assistant_message": marker,
            });
            world.hook(&["claude", "stop"], &payload, &format!("world {seed}, step {step}"));
        }
    }
}

#[test]
fn a_capture_that_goes_on_is_one_that_reads_everything() {
    for seed in 0..WORLDS {
        let mut world = World::new(seed);
        let mut rollout = Rollout::new(&world);
        for step in 0..STEPS {
            rollout.something(&mut world.dice);
            world.tamper();
            let payload = json!({"session_id": rollout_id(1), "transcript_path": null, "cwd": "/"});
            let event = ["stop", "user-prompt-submit", "post-tool-use"][world.dice.below(3)];
            world.hook(&["codex", event], &payload, &format!("world {seed}, step {step}"));
        }
    }
}

#[test]
fn what_hooks_remember_is_told_and_compared() {
    let world = World::new(0);
    let (mut transcript, mut rollout) = (Transcript::new(&world, "one"), Rollout::new(&world));
    let marker = transcript.something(&mut Dice(7));
    let payload = json!({"session_id": "one", "transcript_path": transcript.path, "last_assistant_message": marker});
    world.hook(&["claude", "stop"], &payload, "Claude");
    rollout.something(&mut Dice(7));
    world.hook(&["codex", "stop"], &json!({"session_id": rollout_id(1)}), "Codex");
    let cache = |command: &str| -> Value {
        let mut run = Command::new(env!("CARGO_BIN_EXE_throughline"));
        run.args(["cache", command, "--json"]).env_clear().env("HOME", world.path("with"));
        serde_json::from_slice(&run.env("CODEX_HOME", world.path("codex")).output().unwrap().stdout).unwrap()
    };
    let status = cache("status");
    let about = |about: &str| status["entries"].as_array().unwrap().iter().filter(|e| e["about"] == about).count();
    assert_eq!([about("transcript"), about("captured")], [1, 2], "{status}");
    let report = cache("verify");
    assert_eq!((report["different"].clone(), report["damaged"].clone()), (json!(0), json!(0)), "{report}");
    assert_eq!(report["files"].as_array().unwrap().len(), status["entries"].as_array().unwrap().len());
}

/// Small numbers that look like chance, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

struct World {
    root: PathBuf,
    dice: Dice,
    _dir: TempDir,
}

/// The homes: what is remembered is used in the first one only.
const HOMES: [&str; 2] = ["with", "without"];

impl World {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["project", "with", "without", "projects", "codex/sessions"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        Self { root, dice: Dice(seed + 1), _dir: dir }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Runs a hook in both homes, and compares how it ends and what there is then.
    fn hook(&self, arguments: &[&str], payload: &Value, what: &str) {
        let [with, without] = HOMES.map(|home| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
            command.arg("hook").args(arguments).env_clear().env("HOME", self.path(home));
            command.env("CODEX_HOME", self.path("codex")).env("CLAUDE_PROJECT_DIR", self.path("project"));
            if home == "without" {
                command.env("THROUGHLINE_CACHE", "off");
            }
            let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
            (child.wait().unwrap().code(), self.bodies(home), self.receipts(home))
        });
        assert_eq!(with, without, "{what}");
    }

    fn bodies(&self, home: &str) -> Vec<(String, i64, String, String)> {
        let path = schema::path(&self.path(home));
        if !path.exists() {
            return Vec::new();
        }
        let database = Connection::open(path).unwrap();
        let mut bodies =
            database.prepare("SELECT session_id, turn_number, role, text FROM bodies ORDER BY created_at, id").unwrap();
        let rows = bodies.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    fn receipts_in(&self, home: &str) -> Option<PathBuf> {
        let folder = self.path(home).join(".local/state/throughline/completed-turn-receipts");
        let mut files = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path());
        files.find(|path| path.extension().is_some_and(|end| end == "json"))
    }

    fn receipts(&self, home: &str) -> Option<Value> {
        Some(serde_json::from_slice(&fs::read(self.receipts_in(home)?).unwrap()).unwrap())
    }

    /// Sometimes changes the bodies or the receipts, in both homes in the same way.
    fn tamper(&mut self) {
        let (what, which) = (self.dice.below(12), self.dice.below(1000));
        for home in HOMES {
            let path = schema::path(&self.path(home));
            match what {
                0 | 1 if path.exists() => {
                    let database = Connection::open(path).unwrap();
                    let change = ["UPDATE bodies SET text = text || 'x'", "DELETE FROM bodies"][what];
                    let one = format!(
                        "{change} WHERE id = (SELECT id FROM bodies ORDER BY created_at, id LIMIT 1
                         OFFSET {which} % max(1, (SELECT count(*) FROM bodies)))"
                    );
                    database.execute(&one, []).unwrap();
                }
                2 => self.receipts_in(home).into_iter().for_each(|path| fs::remove_file(path).unwrap()),
                _ => {}
            }
        }
    }
}

struct Transcript {
    id: &'static str,
    path: PathBuf,
    rows: usize,
}

impl Transcript {
    fn new(world: &World, id: &'static str) -> Self {
        let mut new = Self { id, path: world.path(&format!("projects/{id}.jsonl")), rows: 0 };
        new.row("progress", json!({"data": "x".repeat(LARGE)}));
        new
    }

    /// Appends something; gives the answer that a Stop would name.
    fn something(&mut self, dice: &mut Dice) -> Option<String> {
        match dice.below(8) {
            // A tail that is taken away, before what is written next.
            0 => {
                let text = fs::read_to_string(&self.path).unwrap();
                let lines: Vec<&str> = text.split_inclusive('\n').collect();
                let kept = lines.len().saturating_sub(1 + dice.below(4)).max(1);
                fs::write(&self.path, lines[..kept].concat()).unwrap();
            }
            // A turn that was killed, and one that was stopped.
            1 => {
                self.ask();
                self.agent("let me look", true);
            }
            2 => {
                self.ask();
                self.agent("so far", true);
                self.row("user", json!({"message": {"content": "[Request interrupted by user]"}}));
            }
            // One without a Stop.
            3 => {
                self.ask();
                self.agent("missed", false);
            }
            _ => {}
        }
        if dice.below(6) > 0 {
            self.ask();
        }
        self.agent("step", true);
        let answer = format!("answer {}", self.rows);
        self.agent(&answer, false);
        if dice.below(8) == 0 {
            // The next prompt stands behind it already.
            self.ask();
        }
        Some(answer)
    }

    fn ask(&mut self) {
        self.row("user", json!({"message": {"content": format!("ask {}", self.rows)}}));
    }

    fn agent(&mut self, text: &str, tool: bool) {
        let mut content = vec![json!({"type": "text", "text": text})];
        content.extend(tool.then(|| json!({"type": "tool_use", "name": "Bash"})));
        let stop = if tool { "tool_use" } else { "end_turn" };
        let id = format!("m{}", self.rows);
        self.row("assistant", json!({"message": {"id": id, "content": content, "stop_reason": stop}}));
    }

    fn row(&mut self, kind: &str, members: Value) {
        self.rows += 1;
        let time = format!("2026-02-03T{:02}:{:02}:00.000Z", self.rows / 60 % 24, self.rows % 60);
        let Value::Object(members) = members else { panic!("members") };
        let mut row = json!({"parentUuid": null, "type": kind, "uuid": format!("{}-{}", self.id, self.rows),
            "timestamp": time, "sessionId": self.id});
        row.as_object_mut().unwrap().extend(members);
        append(&self.path, &format!("{row}\n"));
    }
}

struct Rollout {
    path: PathBuf,
    rows: usize,
    turns: Vec<usize>,
}

impl Rollout {
    fn new(world: &World) -> Self {
        let path = world.path(&format!("codex/sessions/rollout-2026-02-03T00-00-00-{}.jsonl", rollout_id(1)));
        let mut new = Self { path, rows: 0, turns: Vec::new() };
        new.row("session_meta", json!({"id": rollout_id(1), "cwd": world.path("project"), "source": "cli"}));
        new.row("response_item", json!({"type": "reasoning", "text": "x".repeat(LARGE)}));
        new
    }

    fn something(&mut self, dice: &mut Dice) {
        match dice.below(10) {
            0 => self.event("thread_rolled_back", json!({"num_turns": 1 + dice.below(2)})),
            1 => self.end(dice, "turn_aborted"),
            2 => self.begin(),
            3 => self.say("agent_message", "so far"),
            // The start of the next row, of which the rest comes with that.
            4 => append(&self.path, "{\"timestamp\":\"2026-02-03T"),
            _ => {
                self.begin();
                self.say("user_message", "ask");
                self.say("agent_message", "answer");
                self.end(dice, "task_complete");
            }
        }
        if dice.below(3) == 0 {
            self.end(dice, "task_complete");
        }
    }

    fn begin(&mut self) {
        self.turns.push(self.rows);
        self.event("task_started", json!({"turn_id": format!("t{}", self.rows)}));
    }

    /// Ends one of the last turns, whether or not it has ended.
    fn end(&mut self, dice: &mut Dice, how: &str) {
        let last = self.turns.len().saturating_sub(1 + dice.below(2));
        let turn = self.turns.get(last).copied().unwrap_or_default();
        self.event(how, json!({"turn_id": format!("t{turn}")}));
    }

    fn say(&mut self, kind: &str, text: &str) {
        self.event(kind, json!({"message": format!("{text} {}", self.rows)}));
    }

    fn event(&mut self, kind: &str, mut payload: Value) {
        payload["type"] = json!(kind);
        self.row("event_msg", payload);
    }

    fn row(&mut self, kind: &str, payload: Value) {
        self.rows += 1;
        let time = format!("2026-02-03T{:02}:{:02}:00.000Z", self.rows / 60 % 24, self.rows % 60);
        append(&self.path, &format!("{{\"timestamp\":\"{time}\",\"type\":\"{kind}\",\"payload\":{payload}}}\n"));
    }
}

fn append(path: &Path, text: &str) {
    fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}
