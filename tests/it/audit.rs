//! `throughline audit`: what it says of a fixed store, in all formats; and what each option does.
//!
//! The outputs for the fixed store are in `corpus/audit`. After a change that is meant to change them:
//! `ACCEPT=1 cargo test --test it audit::` writes them anew.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use throughline::db::capture::{Capture, CodexTurn, Said, store_codex_thread};
use throughline::db::schema;
use throughline::receipts::{Place, Receipt, SessionId};
use throughline_parsers::text::Digest;

use super::home::{rollout_id, rollout_name};

mod grown;

/// 2026-02-03T00:00:00Z, in milliseconds.
const MIDNIGHT: i64 = 1_770_076_800_000;
const APP: &str = "/golden/app";
const OTHER: &str = "/golden/other";
const SESSION: &str = "5bb90000-0000-4000-8000-000000000001";

/// A store with relative paths, so that what is said of it is the same on every machine.
struct Store {
    dir: TempDir,
}

impl Store {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in [SESSIONS, "home/.codex/archived_sessions", "home/.claude/projects/-golden-app"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        Self { dir }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
        command.arg("audit").args(arguments).env_clear().env("HOME", "home").env("TZ", "UTC");
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it says as JSON, with its exit code.
    fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.run(&[&["--format", "json"], arguments].concat());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
    }

    fn projects(&self, arguments: &[&str]) -> Vec<String> {
        let (_, report) = self.json(arguments);
        let root = |project: &Value| project["root"].as_str().unwrap_or("null").to_owned();
        report["projects"].as_array().unwrap().iter().map(root).collect()
    }

    fn rollout(&self, number: u32) -> Rollout {
        Rollout {
            path: self.path(SESSIONS).join(rollout_name(number)),
            second: u64::from(number) * 1000,
            text: String::new(),
        }
    }

    fn write_transcript(&self, name: &str, lines: &[Value], end: &str) {
        let path = self.path("home/.claude/projects/-golden-app").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(path, text + end).unwrap();
    }
}

const SESSIONS: &str = "home/.codex/sessions/2026/02/03";

/// A rollout while it is written.
struct Rollout {
    path: PathBuf,
    second: u64,
    text: String,
}

impl Rollout {
    fn row(&mut self, kind: &str, payload: &Value) -> &mut Self {
        self.second += 1;
        let (hour, minute, second) = (self.second / 3600, self.second / 60 % 60, self.second % 60);
        let time = format!("2026-02-03T{hour:02}:{minute:02}:{second:02}.000Z");
        self.raw(&format!("{{\"timestamp\":\"{time}\",\"type\":\"{kind}\",\"payload\":{payload}}}\n"))
    }

    fn raw(&mut self, text: &str) -> &mut Self {
        self.text += text;
        self
    }

    fn meta(&mut self, number: u32, cwd: &str, more: &Value) -> &mut Self {
        let mut meta = json!({"id": rollout_id(number), "cwd": cwd, "cli_version": "0.171.0", "source": "cli"});
        meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.row("session_meta", &meta)
    }

    fn event(&mut self, kind: &str, more: &Value) -> &mut Self {
        let mut payload = json!({"type": kind});
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.row("event_msg", &payload)
    }

    fn begin(&mut self, turn: &str, user: &str) -> &mut Self {
        self.event("task_started", &json!({"turn_id": turn})).event("user_message", &json!({"message": user}))
    }

    fn turn(&mut self, turn: &str, user: &str, assistant: &str) -> &mut Self {
        self.begin(turn, user).row("response_item", &json!({"type": "reasoning", "encrypted_content": "AAAA"}));
        self.event("agent_message", &json!({"message": assistant})).event("task_complete", &json!({"turn_id": turn}))
    }

    fn write(&self) {
        fs::write(&self.path, &self.text).unwrap();
    }
}

/// What the golden outputs tell of.
fn fixed() -> Store {
    let store = Store::new();
    every_kind_of_turn(&store);
    let mut agent = store.rollout(2);
    agent.meta(2, "/golden/app/sub", &json!({"thread_source": "subagent", "session_id": rollout_id(1)}));
    agent.turn("t1", "look", "seen").write();
    families(&store);
    let mut lone = store.rollout(6);
    lone.event("task_started", &json!({})).write();
    transcripts(&store);
    database_and_receipts(&store);
    // A store of receipts that is none.
    let damaged = Place::new(&store.path("home/.local/state"), Digest::of("/golden/damaged")).path();
    fs::write(&damaged, "{").unwrap();
    fs::set_permissions(damaged, fs::Permissions::from_mode(0o600)).unwrap();
    store
}

fn every_kind_of_turn(store: &Store) {
    let mut rollout = store.rollout(1);
    rollout
        .meta(1, APP, &json!({}))
        .turn("t1", "Why does it fail?", "A header is missing.")
        .turn("t2", "Add it.", "Added.");
    rollout.begin("t3", "undone").event("thread_rolled_back", &json!({"num_turns": 1}));
    rollout.begin("t4", "stopped").event("turn_aborted", &json!({"turn_id": "t4"}));
    rollout.begin("t5", "failed").event("task_complete", &json!({"turn_id": "t5", "error": {"message": "limit"}}));
    rollout.begin("t6", "").event("agent_message", &json!({"message": "an image"}));
    rollout.event("task_complete", &json!({"turn_id": "t6"}));
    // What this version does not know, and what nobody can read.
    rollout
        .row("future_row", &json!({"x": 1}))
        .event("future_event", &json!({}))
        .row("response_item", &json!({"type": "future_item"}));
    rollout.raw("{\"timestamp\":\"2026-02-03T00:30:00.000Z\",\"type\":\"event_msg\",\"payload\":{\"type\":\"agent_message\",\"mess");
    rollout.event("token_count", &json!({"info": null})).raw("no json at all\n").begin("t7", "still open").write();
}

/// A thread that was taken back to an earlier state, and a fork of it.
fn families(store: &Store) {
    let mut base = store.rollout(3);
    base.meta(3, OTHER, &json!({})).turn("t1", "one", "first");
    let end = base.text.len();
    base.turn("t2", "two", "second").write();
    let mut reverted = store.rollout(4);
    let name = format!("rollout-2026-02-03T00-00-00-{}_{}.jsonl", rollout_id(3), rollout_id(4));
    reverted.path = store.path(SESSIONS).join(name);
    let continues = json!({"history_base": {"thread_id": rollout_id(3), "end_byte_offset": end}});
    reverted.meta(3, OTHER, &continues).turn("t3", "another two", "another second").write();
    let mut fork = store.rollout(5);
    fork.meta(5, "/golden/app/", &json!({"forked_from_id": rollout_id(1)}));
    fork.turn(&rollout_id(1), "of the other thread", "copied").turn(&rollout_id(9), "own", "answer").write();
}

fn said(kind: &str, text: &str, n: u32) -> Value {
    let content = if kind == "user" { json!(text) } else { json!([{"type": "text", "text": text}]) };
    json!({"parentUuid": null, "isSidechain": false, "cwd": APP, "sessionId": SESSION, "version": "2.1.332", "type": kind,
        "message": {"role": kind, "id": format!("m{n}"), "content": content, "stop_reason": "end_turn"},
        "uuid": format!("{SESSION}{n}"), "timestamp": format!("2026-02-03T09:00:{n:02}.000Z")})
}

fn transcripts(store: &Store) {
    let rows = [
        json!({"type": "summary", "summary": "s", "leafUuid": "x"}),
        said("user", "What is this?", 1),
        said("assistant", "A parser.", 2),
        said("user", "Go on.", 3),
        said("user", "[Request interrupted by user]", 4),
        json!({"type": "something-new", "x": 1}),
        said("user", "And now?", 5),
    ];
    store.write_transcript(&format!("{SESSION}.jsonl"), &rows, "\0\0\0\0\n{\"parentUuid\":nul\n");
    let mut aside = said("user", "look", 6);
    aside["isSidechain"] = json!(true);
    store.write_transcript(&format!("{SESSION}/subagents/agent-a1.jsonl"), &[aside.clone()], "");
    store.write_transcript("agent-a2.jsonl", &[aside], "");
}

fn database_and_receipts(store: &Store) {
    let mut database = schema::open(&schema::path(&store.path("home"))).unwrap();
    let turn = |turn_number, user, assistant| CodexTurn {
        turn_number,
        user: Some(user),
        assistant: Some(assistant),
        completed_at: Some(MIDNIGHT),
    };
    let stored = [turn(1, "Why does it fail?", "A header is missing."), turn(2, "Add it.", "Not what was said.")];
    store_codex_thread(&mut database, &rollout_id(1), APP, &stored, MIDNIGHT).unwrap();
    let capture = Capture::begin(&mut database).unwrap();
    capture.keep_session(SESSION, APP, MIDNIGHT).unwrap();
    let said = |text| Some(Said { text, at: MIDNIGHT });
    capture.insert_turn(SESSION, SESSION, 1, said("What is this?"), said("A parser.")).unwrap();
    capture.commit().unwrap();
    drop(database);
    for (project, session, seconds) in [(APP, SESSION, 9 * 3600 + 2), ("/golden/gone", "another", 9 * 3600 + 9)] {
        let id = || SessionId::new(session).unwrap();
        let [user, assistant] = ["What is this?", "A parser."].map(Digest::of_body);
        let receipt = Receipt::new(id(), id(), user, assistant, MIDNIGHT + seconds * 1000).unwrap();
        let place = Place::new(&store.path("home/.local/state"), Digest::of(project));
        assert_eq!(place.lock().unwrap().append([receipt]).unwrap(), 1);
    }
}

// ---- the fixed store

const FORMATS: [(&str, &str); 4] =
    [("table", "table.txt"), ("json", "report.json"), ("ndjson", "report.ndjson"), ("html", "report.html")];

fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/audit").join(file)
}

#[test]
fn a_fixed_store_is_reported_so_in_all_formats() {
    let store = fixed();
    let accept = std::env::var_os("ACCEPT").is_some();
    // The second time from what the first one remembered.
    for _ in 0..2 {
        for (format, file) in FORMATS {
            let output = store.command(&["--format", format]).env("COLUMNS", "160").output().unwrap();
            assert_eq!(
                (output.status.code(), String::from_utf8_lossy(&output.stderr)),
                (Some(1), "".into()),
                "{format}"
            );
            if accept {
                fs::create_dir_all(golden("")).unwrap();
                fs::write(golden(file), &output.stdout).unwrap();
            }
            let wanted = fs::read_to_string(golden(file)).unwrap();
            assert!(String::from_utf8(output.stdout).unwrap() == wanted, "{format} is not what is in {file}");
        }
    }
    assert!(!accept, "accepted: look at the difference, then run without ACCEPT");
}

fn validator() -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/audit.schema.json");
    jsonschema::validator_for(&serde_json::from_slice(&fs::read(path).unwrap()).unwrap()).unwrap()
}

#[test]
fn reports_fit_the_schema_which_denies_everything_else() {
    let (validator, (_, report)) = (validator(), fixed().json(&[]));
    let lines = fs::read_to_string(golden("report.ndjson")).unwrap();
    for answer in lines.lines().map(|line| serde_json::from_str(line).unwrap()).chain([report.clone()]) {
        let wrong: Vec<_> = validator.iter_errors(&answer).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
    // Of each object that has a form, another key and a missing one are denied. (Types and days are no form.)
    let project =
        ["", "/turns", "/current", "/text_bytes", "/threads/0", "/threads/0/files/0", "/threads/0/files/0/unreadable"];
    let forms = project.map(|below| format!("/projects/1{below}"));
    let others = ["", "/totals", "/unreadable/0", "/files_of_no_thread/0"].map(ToOwned::to_owned);
    for path in &forms.into_iter().chain(others).collect::<Vec<_>>() {
        let change = |with: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            let mut changed = report.clone();
            with(changed.pointer_mut(path).unwrap_or_else(|| panic!("no {path}")).as_object_mut().unwrap());
            validator.is_valid(&changed)
        };
        assert!(!change(&|object| drop(object.insert("more".to_owned(), Value::Null))), "more at {path}");
        let keys: Vec<String> = report.pointer(path).unwrap().as_object().unwrap().keys().cloned().collect();
        for key in keys {
            assert!(!change(&|object| drop(object.remove(&key))), "no {key} at {path}");
        }
    }
}

// ---- what changes

#[test]
fn what_has_changed_is_read_anew_and_without_a_cache_it_is_the_same() {
    let store = fixed();
    let same = |what: &str| {
        let output = store.command(&["--format", "json"]).env("THROUGHLINE_CACHE", "off").output().unwrap();
        let without: Value = serde_json::from_slice(&output.stdout).unwrap();
        for jobs in ["1", "2", "5"] {
            assert_eq!(store.json(&["--jobs", jobs]).1, without, "{what}, {jobs} jobs");
        }
        without
    };
    let before = same("at first");
    let path = store.path(SESSIONS).join(rollout_name(3));
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"timestamp\":\"2026-02-03T10:00:00.000Z\",\"type\":\"turn_context\",\"payload\":{}}\n").unwrap();
    let after = same("grown");
    assert_eq!(after["totals"]["rows"], before["totals"]["rows"].as_u64().unwrap() + 1);
    fs::remove_file(path).unwrap();
    let gone = same("gone");
    // Without its base the reverted file stands by itself.
    assert_eq!(gone["totals"]["pairs"], before["totals"]["pairs"].as_u64().unwrap() - 1);
}

#[test]
fn a_damaged_cache_is_none() {
    let store = fixed();
    let wanted = store.json(&[]);
    let files = || -> Vec<PathBuf> {
        fs::read_dir(store.path("home/.cache/throughline-audit")).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    assert!(!store.path("home/.cache/throughline").exists(), "what polls remember is apart");
    assert!(files().len() >= 3);
    for damage in ["", "\0\0\0\0\0\0\0\0", "half"] {
        for path in files() {
            let mut bytes = fs::read(&path).unwrap();
            match damage {
                "half" => bytes.truncate(bytes.len() / 2),
                damage => bytes = damage.as_bytes().to_vec(),
            }
            fs::write(&path, bytes).unwrap();
        }
        assert_eq!(store.json(&[]), wanted, "{damage:?}");
    }
    for path in files() {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    assert_eq!(store.json(&[]), wanted);
    // The cache commands know it.
    let cache = |what: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_throughline"))
            .args(["cache", what])
            .env_clear()
            .env("HOME", "home")
            .current_dir(store.dir.path())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(cache("status").contains("\nWhat audits remember is in home/.cache/throughline-audit: "));
    assert!(cache("clear").contains(" that audits remembered.\n"));
    assert!(!store.path("home/.cache/throughline-audit").exists());
}

#[test]
fn a_packed_rollout_counts_as_a_plain_one_and_a_damaged_one_is_named() {
    let store = fixed();
    let before = store.json(&[]).1;
    let numbers = |report: &Value| {
        let mut projects = report["projects"].clone();
        for project in projects.as_array_mut().unwrap() {
            project["bytes"] = Value::Null;
            for thread in project["threads"].as_array_mut().unwrap() {
                thread["files"].as_array_mut().unwrap().iter_mut().for_each(|file| {
                    (file["bytes"], file["path"]) = (Value::Null, Value::Null);
                });
            }
        }
        projects
    };
    let path = store.path(SESSIONS).join(rollout_name(1));
    let packed = zstd::encode_all(&*fs::read(&path).unwrap(), 1).unwrap();
    fs::remove_file(&path).unwrap();
    let beside = path.with_extension("jsonl.zst");
    fs::write(&beside, &packed).unwrap();
    assert_eq!(numbers(&store.json(&[]).1), numbers(&before));
    fs::write(&beside, &packed[..packed.len() / 2]).unwrap();
    for _ in 0..2 {
        let (code, report) = store.json(&[]);
        let named = &report["unreadable"][0];
        assert_eq!((code, named["path"].as_str()), (1, Some(&*format!("{SESSIONS}/{}.zst", rollout_name(1)))));
        assert_eq!(named["reason"], "a damaged zstd stream: what can be decoded counts");
    }
}

// ---- options

#[test]
fn projects_are_where_a_git_is_above_or_where_threads_work() {
    let store = Store::new();
    let root = store.dir.path().canonicalize().unwrap();
    for (n, cwd) in [(1, "repo/a"), (2, "repo/b/c"), (3, "repo/inner/d"), (4, "beside")] {
        fs::create_dir_all(root.join(cwd)).unwrap();
        let mut rollout = store.rollout(n);
        rollout.meta(n, root.join(cwd).to_str().unwrap(), &json!({})).turn("t", "u", "a").write();
    }
    fs::create_dir(root.join("repo/.git")).unwrap();
    // A work tree has a file there.
    fs::write(root.join("repo/inner/.git"), "gitdir: elsewhere").unwrap();
    symlink(root.join("repo"), root.join("link")).unwrap();
    let names = |arguments: &[&str]| -> BTreeSet<String> {
        let below =
            |path: String| path.strip_prefix(root.to_str().unwrap()).unwrap().trim_start_matches('/').to_owned();
        store.projects(arguments).into_iter().map(below).collect()
    };
    let set = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    assert_eq!(names(&[]), set(&["repo", "repo/inner", "beside"]));
    assert_eq!(names(&["--all", "--no-git"]), set(&["repo/a", "repo/b/c", "repo/inner/d", "beside"]));
    // A directory stands for the project that it is in, and for those below.
    for (project, found) in [
        ("repo", &["repo", "repo/inner"][..]),
        ("repo/a", &["repo", "repo/inner"]),
        ("link", &["repo", "repo/inner"]),
        ("repo/inner", &["repo/inner"]),
        ("beside", &["beside"]),
        ("besid", &[]),
        (".", &["repo", "repo/inner", "beside"]),
    ] {
        assert_eq!(names(&["--project", project]), set(found), "{project}");
    }
    assert_eq!(names(&["--project", "beside", "--project", "repo/inner"]), set(&["repo/inner", "beside"]));
    assert_eq!(names(&["--project", "repo/b", "--no-git"]), set(&["repo/b/c"]));
}

#[test]
fn threads_are_left_out_in_which_nothing_happened_lately() {
    let store = fixed();
    let threads = |since: &str| -> Vec<String> {
        let (_, report) = store.json(&["--since", since, "--sort", "root"]);
        let projects = report["projects"].as_array().unwrap();
        let threads = projects.iter().flat_map(|project| project["threads"].as_array().unwrap());
        threads.map(|thread| thread["thread"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(threads("2026-02-03T00:00:00Z").len(), 5);
    // The last row counts, too: at 09:00:05 somebody asked.
    assert_eq!(threads("2026-02-03T09:00:05Z"), ["another", SESSION]);
    assert_eq!(threads("2026-02-03T10:00:05+01:00"), ["another", SESSION]);
    // And so do the rows of its sub-agents, the last ones.
    assert_eq!(threads("2026-02-03T09:00:06Z"), ["another", SESSION]);
    assert_eq!(threads("2026-02-03T09:00:07Z"), ["another"]);
    assert_eq!(threads("1d"), [""; 0]);
}

#[test]
fn archived_threads_are_shown_when_asked_for_and_never_current() {
    let store = Store::new();
    store.rollout(1).meta(1, APP, &json!({})).turn("t", "u", "a").write();
    let mut archived = store.rollout(2);
    archived.path = store.path("home/.codex/archived_sessions").join(rollout_name(2));
    archived.meta(2, APP, &json!({})).turn("t", "u", "a").write();
    assert_eq!(store.json(&[]).1["totals"]["threads"], 1);
    let (code, report) = store.json(&["--archived"]);
    let project = &report["projects"][0];
    assert_eq!((code, &project["pairs"]), (0, &json!(2)));
    assert_eq!(project["threads"][0]["archived"], json!(true), "it completed last");
    assert_eq!(project["current"], json!({"host": "codex", "thread": rollout_id(1)}));
}

#[test]
fn projects_are_ordered_as_asked() {
    let store = fixed();
    let by = |sort| store.projects(&["--sort", sort]);
    assert_eq!(by("root"), ["null", APP, OTHER]);
    assert_eq!(by("last"), ["null", APP, OTHER]);
    assert_eq!(by("pairs"), [APP, OTHER, "null"]);
    for sort in ["open", "bytes", "unreadable"] {
        assert_eq!(by(sort)[0], APP, "{sort}");
    }
}

#[test]
fn a_tie_between_hosts_is_ambiguous() {
    let store = fixed();
    let at = MIDNIGHT + 5_013_000;
    let id = || SessionId::new("third").unwrap();
    let receipt = Receipt::new(id(), id(), Digest::of("u"), Digest::of("a"), at).unwrap();
    Place::new(&store.path("home/.local/state"), Digest::of(OTHER)).lock().unwrap().append([receipt]).unwrap();
    let database = schema::open(&schema::path(&store.path("home"))).unwrap();
    let keep = "INSERT INTO sessions (session_id, project_path, created_at, updated_at) VALUES ('third', ?, 1, 1)";
    database.execute(keep, [OTHER]).unwrap();
    drop(database);
    let (_, report) = store.json(&["--project", OTHER]);
    let project = &report["projects"][0];
    let times: Vec<_> =
        project["threads"].as_array().unwrap().iter().map(|thread| &thread["last_completed_at"]).collect();
    // The thread of Codex is made to have completed then, too.
    let other = times.iter().filter(|time| time.as_i64() == Some(at)).count();
    assert_eq!((project["ambiguous"].as_bool(), other), (Some(other == 2), other));
    assert_eq!(project["current"].is_null(), other == 2);
}

#[test]
fn a_table_fits_where_it_is_shown_and_has_colours_when_asked() {
    let store = fixed();
    let table = |arguments: &[&str], columns: &str, no_color: bool| {
        let mut command = store.command(arguments);
        command.env("COLUMNS", columns);
        if no_color {
            command.env("NO_COLOR", "1");
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let wide = table(&[], "200", false);
    assert!(wide.contains("(unknown path, ") && wide.contains(APP) && !wide.contains('\u{1b}'));
    for columns in [140, 120, 100, 80, 60] {
        let narrow = table(&[], &columns.to_string(), false);
        let rows: Vec<&str> = narrow.lines().take_while(|line| !line.is_empty()).collect();
        assert_eq!((rows.len(), narrow.contains("\nNo room for: ")), (4, columns < 140), "{narrow}");
        assert!(rows.iter().all(|line| line.chars().count() <= columns), "{narrow}");
        assert!(rows[0].starts_with("project ") && rows[0].contains(" pairs ") && rows[0].contains("last completion"));
    }
    assert!(table(&["--color", "always"], "200", true).contains("\u{1b}["));
    for never in [&["--color", "never"][..], &["--color", "auto"]] {
        assert!(!table(never, "200", false).contains('\u{1b}'));
    }
}

#[test]
fn a_file_is_written_private_and_in_one_step() {
    let store = fixed();
    let out = store.path("report");
    fs::write(&out, "what was there").unwrap();
    fs::set_permissions(&out, fs::Permissions::from_mode(0o644)).unwrap();
    symlink("report", store.path("link")).unwrap();
    let output = store.run(&["--format", "json", "--out", "link"]);
    assert_eq!((output.status.code(), &output.stdout[..], &output.stderr[..]), (Some(1), &b""[..], &b""[..]));
    assert_eq!(fs::symlink_metadata(&out).unwrap().mode() & 0o777, 0o600);
    assert!(fs::symlink_metadata(store.path("link")).unwrap().is_symlink());
    assert_eq!(fs::read(&out).unwrap(), store.run(&["--format", "json"]).stdout);
    let beside: Vec<_> = fs::read_dir(store.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside.len(), 3, "{beside:?}");
    for wrong in ["no/such/folder", "home"] {
        let output = store.run(&["--out", wrong]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && said.starts_with(&format!("throughline: {wrong}: ")), "{said}");
    }
}

#[test]
fn wrong_usage_ends_with_64() {
    let store = Store::new();
    for wrong in [
        &["--format", "xml"][..],
        &["--since", "yesterday"],
        &["--since", "2026-01-06"],
        &["--jobs", "0"],
        &["--all", "--project", "."],
        &["--no-such-option"],
        &["positional"],
    ] {
        let output = store.run(wrong);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(64), &b""[..]), "{wrong:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1, "{wrong:?}");
    }
    let help = String::from_utf8(store.run(&["--help"]).stdout).unwrap();
    assert!(help.contains("throughline.audit.v1") && help.contains("--since"));
}

#[test]
fn no_logs_are_no_projects() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store { dir };
    let (code, report) = store.json(&[]);
    assert_eq!((code, &report["complete"], &report["projects"]), (0, &json!(true), &json!([])));
    let shown = String::from_utf8(store.run(&[]).stdout).unwrap();
    assert_eq!(shown, "0 projects, 0 threads with 0 pairs; 0 bytes in 0 rows.\n");
}

// ---- what cannot be read

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_reported() {
    let store = fixed();
    fs::remove_file(Place::new(&store.path("home/.local/state"), Digest::of("/golden/damaged")).path()).unwrap();
    assert_eq!(store.json(&[]).0, 0);
    let closed = [
        store.path(SESSIONS).join(rollout_name(3)),
        store.path(&format!("home/.claude/projects/-golden-app/{SESSION}.jsonl")),
    ];
    for path in &closed {
        fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
    }
    let folder = store.path("home/.codex/sessions/closed");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o0)).unwrap();
    // What root may read anyway is read by nobody else.
    let mut command = store.command(&["--format", "json"]);
    if throughline_is_root() {
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        open(store.dir.path());
        command.uid(65534).env("XDG_CACHE_HOME", "/nonexistent");
    }
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let named: BTreeSet<&str> =
        report["unreadable"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(output.status.code(), Some(1));
    for path in closed.iter().chain([&folder]) {
        let below = path.strip_prefix(store.dir.path()).unwrap().to_str().unwrap();
        assert!(named.contains(below), "{below} is not among {named:?}");
    }
    assert!(report["projects"].as_array().unwrap().iter().any(|project| project["root"] == APP));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
}

fn throughline_is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0)
}

#[test]
fn a_database_that_cannot_be_read_leaves_bodies_unknown() {
    let store = fixed();
    let path = schema::path(&store.path("home"));
    schema::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let (code, report) = store.json(&["--project", APP]);
    assert_eq!((code, &report["projects"][0]["bodies_present"]), (1, &Value::Null));
    let named = report["unreadable"].as_array().unwrap();
    assert!(named.iter().any(|it| it["path"] == "home/.throughline/throughline.db"), "{named:?}");
}

/// Interrupted while it reads a file that nobody reads to its end.
#[cfg(target_os = "linux")]
#[test]
fn what_was_read_until_it_was_interrupted_is_reported_as_not_complete() {
    let store = fixed();
    let endless = store.path(SESSIONS).join(rollout_name(7));
    fs::File::create(&endless).unwrap().set_len(1 << 42).unwrap();
    let mut child = store.command(&["--format", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let has_read = |pid: u32| {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok());
        read.is_some_and(|bytes| bytes > 64 << 20)
    };
    while !has_read(child.id()) {
        assert!(child.try_wait().unwrap().is_none(), "it cannot end by itself");
        std::thread::yield_now();
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["complete"]), (Some(1), &json!(false)));
    let shown = |child: Output| String::from_utf8(child.stdout).unwrap();
    fs::remove_file(endless).unwrap();
    assert!(!shown(store.run(&[])).contains("NOT COMPLETE"));
}
