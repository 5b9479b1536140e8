//! The command line around the contract: help, completions, exit codes, and how a read ends when its surroundings fail.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::home::{Home, rollout_name};

const READ_ARGS: &str = r#"{"schema":"throughline.observer_read.v1","status":"error","code":"E_OBSERVER_READ_ARGS","message":"invalid observer-read arguments"}"#;
const READ_INTERNAL: &str = r#"{"schema":"throughline.observer_read.v1","status":"error","code":"E_OBSERVER_READ_INTERNAL","message":"observer read failed"}"#;
const READ_DB_IO: &str = r#"{"schema":"throughline.observer_read.v1","status":"error","code":"E_OBSERVER_READ_DB_IO","message":"observer read database could not be read"}"#;
const THREADS_ARGS: &str = r#"{"schema":"throughline.observer_threads.v1","status":"error","code":"E_OBSERVER_THREADS_ARGS","message":"invalid observer-threads arguments"}"#;
const THREADS_INTERNAL: &str = r#"{"schema":"throughline.observer_threads.v1","status":"error","code":"E_OBSERVER_THREADS_INTERNAL","message":"observer threads failed"}"#;

const WAIT_ARGS: &str = r#"{"schema":"throughline.observer_wait.v1","status":"error","code":"E_OBSERVER_WAIT_ARGS","message":"invalid observer-wait arguments"}"#;

const READ_OPTIONS: [&str; 6] =
    ["--project", "--after-cursor", "--through-cursor", "--page-token", "--limit", "--json"];

// ---- help, version, completions

#[test]
fn help_names_every_command_and_each_has_its_own() {
    let home = Home::new();
    let help = text_of(&home, &["--help"]);
    assert_eq!(text_of(&home, &["help"]), help);
    let commands = commands_in(&help);
    for wanted in ["observer-read", "observer-threads", "observer-wait", "completions"] {
        assert!(commands.contains(&wanted), "{wanted} is not among {commands:?}");
    }
    for command in commands.into_iter().filter(|command| *command != "help") {
        let own = text_of(&home, &[command, "--help"]);
        assert!(own.contains(&format!("Usage: throughline {command}")), "{own}");
        assert_eq!(text_of(&home, &["help", command]), own);
    }
}

#[test]
fn help_of_observer_read_names_every_option() {
    let home = Home::new();
    let help = text_of(&home, &["observer-read", "--help"]);
    for option in READ_OPTIONS {
        assert!(help.contains(option), "{option} is not in\n{help}");
    }
}

#[test]
fn observer_commands_take_help_only_alone() {
    let home = Home::new();
    let project = home.project();
    let project = project.to_str().unwrap();
    let commands = [("observer-read", READ_ARGS), ("observer-threads", THREADS_ARGS), ("observer-wait", WAIT_ARGS)];
    for (command, error) in commands {
        let others: [&[&str]; 6] = [
            &["--help", "--json"],
            &["--help", "--help"],
            &["--project", project, "--json", "--help"],
            &["--help", "--project", project, "--json"],
            &["-h"],
            &["--version"],
        ];
        for rest in others {
            assert_fails(&home.throughline(&[&[command], rest].concat()).output().unwrap(), error);
        }
    }
}

#[test]
fn version_is_the_package_s() {
    let home = Home::new();
    let version = concat!("throughline ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(text_of(&home, &["--version"]), version);
    assert_eq!(text_of(&home, &["-V"]), version);
}

#[test]
fn completions_know_the_commands_and_their_options() {
    let home = Home::new();
    let commands = text_of(&home, &["--help"]);
    for shell in ["bash", "zsh", "fish"] {
        let script = text_of(&home, &["completions", shell]);
        for option in READ_OPTIONS {
            // fish: `-l after-cursor`
            let option = if shell == "fish" { option.trim_start_matches('-') } else { option };
            assert!(script.contains(option), "{shell} does not complete {option}");
        }
        for command in commands_in(&commands) {
            assert!(script.contains(command), "{shell} does not complete {command}");
        }
    }
}

#[test]
#[ignore = "needs bash"]
fn completions_for_bash_complete_needs_bash() {
    let home = Home::new();
    let script = text_of(&home, &["completions", "bash"]);
    let complete = "COMP_WORDS=(throughline observer-read --th); COMP_CWORD=2; \
                    _throughline throughline --th observer-read; echo \"${COMPREPLY[@]}\"";
    let output = home.command("bash").arg("-c").arg(format!("{script}\n{complete}")).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "--through-cursor\n");
}

// ---- exit codes

#[test]
fn wrong_usage_is_one_line_with_a_hint_and_exit_code_64() {
    let home = Home::new();
    let wrong: [&[&str]; 11] = [
        &[],
        &[""],
        &["no-such-command"],
        &["observer-raed", "--help"],
        &["two\nlines"],
        &["--no-such-option"],
        &["--version=1"],
        &["completions"],
        &["completions", "ksh"],
        &["completions", "bash", "zsh"],
        &["help", "no-such-command"],
    ];
    for arguments in wrong {
        let output = home.throughline(arguments).output().unwrap();
        let (stdout, stderr) = texts(&output);
        assert_eq!((output.status.code(), stdout), (Some(64), ""), "{arguments:?}");
        assert_eq!(stderr.matches('\n').count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("throughline: ") && stderr.contains("--help"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn arguments_that_are_no_text_are_wrong_usage_too() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = Home::new();
    let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    for before in [&[][..], &["completions"]] {
        let output = home.throughline(before).arg(odd).output().unwrap();
        assert_eq!(output.status.code(), Some(64));
    }
    assert_fails(&home.throughline(&["observer-read", "--json", "--limit"]).arg(odd).output().unwrap(), READ_ARGS);
}

#[test]
fn hooks_of_the_older_tool_end_well_and_say_so() {
    let home = Home::new();
    for hook in ["process-turn", "session-start", "prompt-submit", "inject-context", "capture-tool", "codex-hook"] {
        for more in [&[][..], &["stop"], &["--no-such-option"]] {
            let output = home.throughline(&[&[hook], more].concat()).output().unwrap();
            let (stdout, stderr) = texts(&output);
            assert_eq!((output.status.code(), stdout), (Some(0), ""), "{hook}");
            assert_eq!(stderr.matches('\n').count(), 1, "{hook}: {stderr}");
            assert!(stderr.contains(hook));
        }
    }
}

// ---- stdout

#[test]
fn a_closed_stdout_is_the_internal_error() {
    let home = Home::new();
    let script = format!("exec \"$THROUGHLINE\" \"$@\" --project '{}' --json >&-", home.project().display());
    for (command, error) in [("observer-read", READ_INTERNAL), ("observer-threads", THREADS_INTERNAL)] {
        let mut shell = home.command("sh");
        assert_fails(&shell.args(["-c", &script, "sh", command]).output().unwrap(), error);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_stdout_is_the_internal_error() {
    let home = Home::new();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_fails(&read(&home).stdout(full()).output().unwrap(), READ_INTERNAL);
    let help = home.throughline(&["--help"]).stdout(full()).output().unwrap();
    assert_eq!(help.status.code(), Some(1));
}

#[test]
fn a_broken_pipe_is_the_internal_error_but_no_failure_of_a_help_text() {
    let home = Home::new();
    let broken = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    assert_fails(&read(&home).stdout(broken()).output().unwrap(), READ_INTERNAL);
    let help = home.throughline(&["--help"]).stdout(broken()).output().unwrap();
    assert_eq!((help.status.code(), texts(&help).1), (Some(0), ""));
}

#[test]
fn closed_stdin_and_stderr_change_no_answer() {
    let home = Home::new();
    home.codex(1).complete_and_store("ask", "answer");
    let answer = read(&home).output().unwrap();
    assert!(answer.status.success());
    let script =
        format!("exec \"$THROUGHLINE\" observer-read --project '{}' --json <&- 2>&-", home.project().display());
    let closed = home.command("sh").args(["-c", &script]).output().unwrap();
    assert_eq!((closed.status.code(), texts(&closed)), (Some(0), texts(&answer)));
}

// ---- the surroundings

#[test]
fn without_home_the_user_database_has_it() {
    let home = Home::new();
    home.codex(1).complete("ask", "answer");
    let changes: [fn(&mut Command); 2] = [
        |command| {
            command.env_remove("HOME");
        },
        |command| {
            command.env("HOME", "");
        },
    ];
    for change in changes {
        let mut command = threads(&home);
        change(command.env("CODEX_HOME", home.path("home/.codex")).env("XDG_STATE_HOME", home.path("state")));
        let output = command.output().unwrap();
        // A user without an entry has no home at all.
        if output.status.success() {
            assert_eq!(json(&output)["threads"].as_array().unwrap().len(), 1);
        } else {
            assert_fails(&output, THREADS_INTERNAL);
        }
    }
}

#[test]
fn sigterm_ends_a_read_as_usual() {
    let home = Home::new();
    home.codex(1).complete_and_store("ask", "answer");
    let _locked = lock_database(&home);
    let child = read(&home).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It waits for the database, up to a second.
    std::thread::sleep(Duration::from_millis(300));
    let killed = Command::new("sh").args(["-c", &format!("kill -TERM {}", child.id())]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.signal(), texts(&output)), (Some(15), ("", "")));
}

#[test]
fn a_database_that_stays_locked_is_waited_for_a_second() {
    let home = Home::new();
    home.codex(1).complete_and_store("ask", "answer");
    let locked = lock_database(&home);
    let begun = Instant::now();
    assert_fails(&read(&home).output().unwrap(), READ_DB_IO);
    let took = begun.elapsed();
    assert!((Duration::from_millis(500)..Duration::from_secs(4)).contains(&took), "{took:?}");
    drop(locked);
    assert_eq!(json(&read(&home).output().unwrap())["turns"][0]["user"], "ask");
}

#[test]
fn a_pipe_in_the_place_of_the_database_is_not_waited_for() {
    let home = Home::new();
    home.codex(1).complete_and_store("ask", "answer");
    let path = throughline::Stores::below(home.path("home")).database();
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert_fails(&read(&home).output().unwrap(), READ_DB_IO);
}

/// Keeps everybody else out of the database until it is dropped.
fn lock_database(home: &Home) -> rusqlite::Connection {
    let database = home.database();
    // With a write-ahead log readers would not be kept out.
    database.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").unwrap();
    database
}

/// A large rollout is mapped. One that is cut short under the mapping raises SIGBUS, which has to end as the fixed error.
#[test]
fn a_rollout_cut_short_while_it_is_read_ends_no_read_by_a_signal() {
    let home = Home::new();
    home.codex(1).complete_and_store("ask", "answer");
    let path = home.sessions().join(rollout_name(1));
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    let short = file.metadata().unwrap().len();
    // Rows that are passed over, then a hole.
    let row = format!(
        r#"{{"timestamp":"2026-02-03T01:00:00.000Z","type":"response_item","payload":"{}"}}"#,
        "x".repeat(1000)
    );
    let rows = (row + "\n").repeat(4000);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Whatever happens below, the other thread has to end too.
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| {
            let mut cut_early = false;
            while !stop.load(Ordering::Relaxed) {
                (&file).write_all(rows.as_bytes()).unwrap();
                file.set_len(32 << 20).unwrap();
                std::thread::sleep(Duration::from_millis(if cut_early { 2 } else { 7 }));
                file.set_len(short).unwrap();
                cut_early = !cut_early;
            }
        });
        let (begun, mut answers, mut errors) = (Instant::now(), 0, 0);
        while begun.elapsed() < Duration::from_secs(4) && answers + errors < 100 {
            let output = read(&home).output().unwrap();
            assert_eq!(output.status.signal(), None);
            if output.status.success() {
                assert_eq!(json(&output)["turns"][0]["assistant"], "answer");
                assert_eq!(texts(&output).1, "");
                answers += 1;
            } else {
                assert_fails(&output, READ_INTERNAL);
                errors += 1;
            }
        }
        println!("{answers} answers and {errors} errors in {:?}", begun.elapsed());
    });
    assert_eq!(json(&read(&home).output().unwrap())["turns"][0]["assistant"], "answer");
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_pipe_a_directory_and_a_link_named_like_a_rollout_are_none() {
    let home = Home::new();
    home.codex(1).complete_and_store("ask", "answer");
    let answer = read(&home).output().unwrap();
    let fifo = home.sessions().join(rollout_name(2));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fs::create_dir(home.sessions().join(rollout_name(3))).unwrap();
    let elsewhere = home.path("elsewhere.jsonl");
    let other =
        fs::read_to_string(home.sessions().join(rollout_name(1))).unwrap().replace("000000000001", "000000000004");
    fs::write(&elsewhere, other).unwrap();
    symlink(&elsewhere, home.sessions().join(rollout_name(4))).unwrap();
    symlink("/nowhere", home.sessions().join(rollout_name(5))).unwrap();
    let with_them = read(&home).output().unwrap();
    assert_eq!(texts(&with_them), texts(&answer));
    assert_eq!(json(&threads(&home).output().unwrap())["threads"].as_array().unwrap().len(), 1);
}

#[test]
fn a_read_writes_nothing() {
    let home = Home::new();
    home.codex(1).complete_and_store("ask", "answer");
    home.claude("a session").complete_and_store("ask", "answer");
    let before = home.listing();
    assert!(before.len() > 8);
    let first = json(&read(&home).output().unwrap());
    let cursor = first["throughCursor"].as_str().unwrap();
    assert!(read(&home).args(["--after-cursor", cursor]).output().unwrap().status.success());
    assert!(threads(&home).output().unwrap().status.success());
    for failing in [&["observer-read", "--json"][..], &["process-turn"], &["--help"], &["nonsense"]] {
        home.throughline(failing).output().unwrap();
    }
    assert_eq!(home.listing(), before);
    assert!(!home.path("home/.cache").exists());
}

#[test]
fn where_there_is_nothing_a_read_makes_nothing() {
    let home = Home::new();
    fs::remove_dir_all(home.path("home")).unwrap();
    let before = home.listing();
    assert_eq!(json(&read(&home).output().unwrap())["status"], "snapshot");
    assert_eq!(home.listing(), before);
    fs::create_dir(home.path("home")).unwrap();
    File::create(home.path("home/.codex")).unwrap();
    assert_eq!(json(&read(&home).output().unwrap())["turns"], Value::Array(Vec::new()));
}

// ---- helpers

fn read(home: &Home) -> Command {
    home.throughline(&["observer-read", "--json", "--project", home.project().to_str().unwrap()])
}

fn threads(home: &Home) -> Command {
    home.throughline(&["observer-threads", "--json", "--project", home.project().to_str().unwrap()])
}

fn texts(output: &Output) -> (&str, &str) {
    (std::str::from_utf8(&output.stdout).unwrap(), std::str::from_utf8(&output.stderr).unwrap())
}

/// What a command prints for a person.
fn text_of(home: &Home, arguments: &[&str]) -> String {
    let output = home.throughline(arguments).output().unwrap();
    assert_eq!((output.status.code(), texts(&output).1), (Some(0), ""), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(output: &Output) -> Value {
    let (stdout, stderr) = texts(output);
    assert_eq!((output.status.code(), stderr), (Some(0), ""));
    assert_eq!(stdout.matches('\n').count(), 1);
    serde_json::from_str(stdout).unwrap()
}

/// Exit code 1, nothing on stdout, and exactly this line on stderr.
fn assert_fails(output: &Output, line: &str) {
    assert_eq!((output.status.code(), texts(output)), (Some(1), ("", format!("{line}\n").as_str())));
}

/// The commands that the help text lists.
fn commands_in(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    listed
        .filter_map(|line| line.strip_prefix("  "))
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !name.is_empty())
        .collect()
}
