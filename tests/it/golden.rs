//! The golden cases: `corpus/golden/<section>/<name>.json` holds small stores, calls on them and the exact bytes that
//! have to come back. `tests/oracle/golden.py` makes them and says why they are the same on every machine.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonschema::Validator;
use rusqlite::types::Value as Sql;
use serde::Deserialize;
use serde_json::{Map, Value};

const MIN_CASES: usize = 80;
const CALL_LIMIT: Duration = Duration::from_secs(30);
const DATABASE: &str = "home/.throughline/throughline.db";

const DATABASE_SCHEMA: &str = "
    CREATE TABLE sessions (session_id TEXT PRIMARY KEY, project_path TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'active', created_at INTEGER NOT NULL DEFAULT 0,
        updated_at INTEGER NOT NULL DEFAULT 0, merged_into TEXT);
    CREATE TABLE bodies (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
        origin_session_id TEXT NOT NULL, turn_number INTEGER NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL,
        token_count INTEGER, created_at INTEGER NOT NULL,
        UNIQUE(session_id, origin_session_id, turn_number, role));
    CREATE INDEX idx_bodies_session_created ON bodies(session_id, created_at);";

macro_rules! sections {
    ($($name:ident)*) => {
        const SECTIONS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                replay_section(stringify!($name));
            }
        )*
    };
}

sections! {
    arguments codex cursors database files forks lines projects receipts status text threads times tokens
}

#[test]
fn every_section_has_its_test() {
    let mut found: Vec<String> =
        fs::read_dir(golden_dir()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, SECTIONS);
    let count: usize = SECTIONS.iter().map(|name| cases(name).len()).sum();
    assert!(count >= MIN_CASES, "only {count} golden cases found");
}

#[test]
fn answers_fit_the_schema() {
    let validator = validator();
    let mut wrong = String::new();
    for_each_answer(|name, answer| {
        for error in validator.iter_errors(answer) {
            writeln!(wrong, "{name}: {error}\n  {answer}").unwrap();
        }
    });
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn schema_denies_unknown_and_missing_fields() {
    let validator = validator();
    for_each_answer(|name, answer| {
        for path in objects_in(answer) {
            let mut more = answer.clone();
            let object = more.pointer_mut(&path).unwrap().as_object_mut().unwrap();
            object.insert("unknown".to_owned(), Value::Null);
            let keys: Vec<String> = object.keys().cloned().collect();
            assert!(!validator.is_valid(&more), "{name}: a field more at {path:?}");
            for key in keys.iter().filter(|key| *key != "unknown") {
                let mut less = answer.clone();
                let object = less.pointer_mut(&path).unwrap().as_object_mut().unwrap();
                object.remove(key);
                assert!(!validator.is_valid(&less), "{name}: no {key} at {path:?}");
            }
        }
    });
}

// ---- cases as data

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    about: String,
    #[serde(default)]
    env: Map<String, Value>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Step {
    Write(Write),
    Link(Link),
    Remove(Remove),
    Rename(Rename),
    Mkdir(Mkdir),
    Fifo(Fifo),
    Db(Db),
    Run(Run),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    write: String,
    #[serde(default)]
    lines: Vec<String>,
    sep: Option<String>,
    end: Option<String>,
    base64: Option<String>,
    #[serde(default)]
    append: bool,
    mode: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    link: String,
    to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Remove {
    remove: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rename {
    rename: [String; 2],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mkdir {
    mkdir: String,
    mode: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fifo {
    fifo: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Db {
    db: Database,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Database {
    version: i64,
    sessions: Vec<[String; 2]>,
    bodies: Vec<[Value; 6]>,
    #[serde(default)]
    sql: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    run: Vec<String>,
    exit: i32,
    stdout: String,
    stderr: String,
}

fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/golden")
}

/// The documents of a section by name, `{ROOT}` still in them.
fn cases(section: &str) -> Vec<(String, Value)> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(golden_dir().join(section)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let named = |path: PathBuf| {
        let name = format!("{section}/{}", path.file_stem().unwrap().to_str().unwrap());
        let text = fs::read_to_string(&path).unwrap();
        (name, serde_json::from_str(&text).unwrap())
    };
    paths.into_iter().map(named).collect()
}

/// Puts the test's own directory in the place of `{ROOT}` in every string.
fn fill(value: &mut Value, root: &str) {
    match value {
        Value::String(text) => *text = text.replace("{ROOT}", root),
        Value::Array(list) => list.iter_mut().for_each(|v| fill(v, root)),
        Value::Object(map) => map.values_mut().for_each(|v| fill(v, root)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

// ---- replay

fn replay_section(section: &str) {
    let cases = cases(section);
    assert!(!cases.is_empty(), "no golden cases of {section}");
    let failures: Vec<String> = cases
        .into_iter()
        .filter_map(|(name, document)| {
            let difference = replay(document).err()?;
            Some(format!("{name}: {difference}"))
        })
        .collect();
    assert!(failures.is_empty(), "{} of {section} failed\n{}", failures.len(), failures.join("\n"));
}

/// Plays the steps in a fresh directory; the first difference is the error.
fn replay(mut document: Value) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fill(&mut document, root.to_str().unwrap());
    let case: Case = serde_json::from_value(document).unwrap();
    for (number, step) in case.steps.iter().enumerate() {
        match step {
            Step::Run(call) => replay_call(call, &case.env, &root)
                .map_err(|difference| format!("{}\n  step {number}: {difference}", case.about))?,
            Step::Write(step) => write(step, &root),
            Step::Link(step) => symlink(&step.to, with_parent(&root, &step.link)).unwrap(),
            Step::Remove(step) => remove(&root.join(&step.remove)),
            Step::Rename(Rename { rename: [from, to] }) => {
                fs::rename(root.join(from), with_parent(&root, to)).unwrap();
            }
            Step::Mkdir(step) => {
                fs::create_dir_all(root.join(&step.mkdir)).unwrap();
                set_mode(&root.join(&step.mkdir), step.mode.as_deref());
            }
            Step::Fifo(step) => {
                let made = Command::new("mkfifo").arg(with_parent(&root, &step.fifo)).status().unwrap();
                assert!(made.success());
            }
            Step::Db(step) => replace_database(&step.db, &root),
        }
    }
    Ok(())
}

fn replay_call(call: &Run, env: &Map<String, Value>, root: &Path) -> Result<(), String> {
    let (mut stdout, mut stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let child = Command::new(env!("CARGO_BIN_EXE_throughline"))
        .args(&call.run)
        .current_dir(root)
        .env_clear()
        .env("HOME", "home")
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("XDG_CACHE_HOME", root.join("cache"))
        .envs(env.iter().map(|(name, value)| (name, value.as_str().unwrap())))
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().unwrap())
        .stderr(stderr.try_clone().unwrap())
        .spawn()
        .unwrap();
    let status = wait(child).ok_or_else(|| format!("no answer to {:?}", call.run))?;
    let argv = call.run.join(" ");
    compare("stderr", &call.stderr, &whole(&mut stderr)).map_err(|e| format!("{argv}\n  {e}"))?;
    compare("stdout", &call.stdout, &whole(&mut stdout)).map_err(|e| format!("{argv}\n  {e}"))?;
    match status.code() {
        Some(code) if code == call.exit => Ok(()),
        _ => Err(format!("{argv}\n  exit {}: got {status}", call.exit)),
    }
}

/// Waits for the end of the child; one that blocks is killed.
fn wait(mut child: Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + CALL_LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn whole(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

fn compare(what: &str, want: &str, got: &[u8]) -> Result<(), String> {
    if want.as_bytes() == got {
        return Ok(());
    }
    let same = want.bytes().zip(got).take_while(|(w, g)| w == *g).count();
    let around = |bytes: &[u8]| {
        let end = bytes.len().min(same + 160);
        String::from_utf8_lossy(&bytes[same.saturating_sub(60).min(end)..end]).into_owned()
    };
    Err(format!("{what} differs at byte {same}:\n  want …{}\n  got  …{}", around(want.as_bytes()), around(got)))
}

// ---- building stores

fn with_parent(root: &Path, path: &str) -> PathBuf {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

fn set_mode(path: &Path, mode: Option<&str>) {
    if let Some(mode) = mode {
        let mode = u32::from_str_radix(mode, 8).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
}

fn write(step: &Write, root: &Path) {
    let bytes = match &step.base64 {
        Some(text) => STANDARD.decode(text).unwrap(),
        None => {
            let body = step.lines.join(step.sep.as_deref().unwrap_or("\n"));
            (body + step.end.as_deref().unwrap_or("\n")).into_bytes()
        }
    };
    let path = with_parent(root, &step.write);
    let mut options = OpenOptions::new();
    options.create(true).append(step.append).write(true).truncate(!step.append);
    options.open(&path).unwrap().write_all(&bytes).unwrap();
    set_mode(&path, step.mode.as_deref());
}

fn remove(path: &Path) {
    if path.symlink_metadata().unwrap().is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}

fn replace_database(spec: &Database, root: &Path) {
    let path = with_parent(root, DATABASE);
    for end in ["", "-wal", "-shm"] {
        let file = PathBuf::from(format!("{}{end}", path.display()));
        if file.symlink_metadata().is_ok() {
            fs::remove_file(file).unwrap();
        }
    }
    let mut db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "synchronous", "OFF").unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    let rows = db.transaction().unwrap();
    rows.execute_batch(DATABASE_SCHEMA).unwrap();
    for session in &spec.sessions {
        rows.execute("INSERT INTO sessions (session_id, project_path) VALUES (?, ?)", session.each_ref()).unwrap();
    }
    for body in &spec.bodies {
        let slots = body.each_ref().map(|v| if v.get("text_bytes").is_some() { "CAST(? AS TEXT)" } else { "?" });
        let columns = "session_id, origin_session_id, turn_number, role, text, created_at";
        let insert = format!("INSERT INTO bodies ({columns}) VALUES ({})", slots.join(", "));
        rows.execute(&insert, body.each_ref().map(sql_value)).unwrap();
    }
    for statement in &spec.sql {
        rows.execute_batch(statement).unwrap();
    }
    rows.commit().unwrap();
    db.pragma_update(None, "user_version", spec.version).unwrap();
    db.close().unwrap();
}

/// Text, a number, or an object with one key whose value is bytes in base64.
fn sql_value(value: &Value) -> Sql {
    match value {
        Value::String(text) => Sql::Text(text.clone()),
        Value::Number(number) => number.as_i64().map_or_else(|| Sql::Real(number.as_f64().unwrap()), Sql::Integer),
        Value::Object(bytes) => Sql::Blob(STANDARD.decode(bytes.values().next().unwrap().as_str().unwrap()).unwrap()),
        other => panic!("no value of a row: {other}"),
    }
}

// ---- the answers' schema

fn validator() -> Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/observer-read.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(jsonschema::meta::is_valid(&schema), "the schema itself is wrong");
    jsonschema::validator_for(&schema).unwrap()
}

/// For answers that come from no case.
pub fn assert_fits_the_schema(answer: &Value) {
    static VALIDATOR: LazyLock<Validator> = LazyLock::new(validator);
    let wrong: Vec<String> = VALIDATOR.iter_errors(answer).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}\n  {answer}");
}

/// Every expected answer of every case; each is one line on one of the two streams.
fn for_each_answer(mut check: impl FnMut(&str, &Value)) {
    for (name, document) in SECTIONS.iter().flat_map(|section| cases(section)) {
        let case: Case = serde_json::from_value(document).unwrap();
        for step in &case.steps {
            let Step::Run(call) = step else { continue };
            let (line, silent) =
                if call.exit == 0 { (&call.stdout, &call.stderr) } else { (&call.stderr, &call.stdout) };
            assert!(silent.is_empty(), "{name}: both streams speak");
            assert!(line.ends_with('\n') && line.lines().count() == 1, "{name}: not one line");
            check(&name, &serde_json::from_str(line).unwrap());
        }
    }
}

/// JSON pointers of all objects in the value, the value itself first.
fn objects_in(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![(String::new(), value)];
    while let Some((path, value)) = todo.pop() {
        match value {
            Value::Object(map) => {
                todo.extend(map.iter().map(|(key, v)| (format!("{path}/{key}"), v)));
                found.push(path);
            }
            Value::Array(list) => todo.extend(list.iter().enumerate().map(|(i, v)| (format!("{path}/{i}"), v))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}
