//! `throughline doctor` as a person runs it: a home that is well, one that is empty, and each thing that can be wrong.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use throughline::Stores;

use crate::home::{Home, rollout_id};
use crate::install::{command, home_with_codex, program, put_program, run};

/// A version of Codex that asks for no trust.
const TRUSTING: &str = "0.128.0";

/// A home in which everything is as it should be: hooks of both agents, and a turn of each.
fn well(codex: &str) -> Home {
    let home = home_with_codex(codex);
    assert_eq!(run(&home, &["install", "--claude", "--codex"]).0, 0);
    home.codex(1).complete_and_store("ask", "answer");
    home.claude("session").complete_and_store("ask", "answer");
    home
}

fn schema() -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/doctor.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(jsonschema::meta::is_valid(&schema), "the schema itself is wrong");
    jsonschema::validator_for(&schema).unwrap()
}

/// What is found, by a command that may see more than this home; the exit code has to fit.
fn found_by(command: &mut Command) -> Vec<Value> {
    let output = command.args(["doctor", "--json"]).output().unwrap();
    assert_eq!(std::str::from_utf8(&output.stderr), Ok(""));
    let line = String::from_utf8(output.stdout).unwrap();
    assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line}");
    let report: Value = serde_json::from_str(&line).unwrap();
    assert!(schema().is_valid(&report), "{report:#}");
    let findings = report["findings"].as_array().unwrap().clone();
    let problems = findings.iter().filter(|finding| finding["severity"] == "problem").count();
    assert_eq!(report["problems"], problems);
    assert_eq!(output.status.code(), Some(i32::from(problems > 0)));
    findings
}

fn found(home: &Home) -> Vec<Value> {
    found_by(&mut command(home, &[]))
}

fn text<'f>(finding: &'f Value, key: &str) -> &'f str {
    finding[key].as_str().unwrap_or_default()
}

/// The findings of this severity: check, what, advice.
fn of<'f>(findings: &'f [Value], severity: &str) -> Vec<[&'f str; 3]> {
    let found = findings.iter().filter(|finding| finding["severity"] == severity);
    found.map(|finding| ["check", "what", "advice"].map(|key| text(finding, key))).collect()
}

/// There is one problem, of this check, which says this and advises that.
fn assert_problem(findings: &[Value], check: &str, what: &str, advice: &str) {
    let problems = of(findings, "problem");
    let [[found_check, found_what, found_advice]] = problems[..] else { panic!("{what}: {problems:#?}") };
    assert_eq!(found_check, check, "{found_what}");
    assert!(found_what.contains(what), "{what:?} is not in {found_what:?}");
    assert!(found_advice.contains(advice), "{advice:?} is not in {found_advice:?}");
}

/// Everything below a home, the files of SQLite too.
fn names(home: &Home) -> String {
    String::from_utf8(Command::new("find").arg(home.path("")).output().unwrap().stdout).unwrap()
}

#[test]
fn where_all_is_well_nothing_is_wrong_and_nothing_is_made() {
    let home = well(TRUSTING);
    let before = (home.listing(), names(&home));
    let findings = found(&home);
    assert_eq!(of(&findings, "problem"), [[""; 3]; 0]);
    for (check, host, what) in [
        ("hooks", json!("claude"), "Claude Code calls throughline at Stop"),
        ("hooks", json!("codex"), "Codex calls throughline at Stop, UserPromptSubmit, PostToolUse"),
        ("records", json!("claude"), "Claude Code was captured last"),
        ("records", json!("codex"), "Codex was captured last"),
        ("records", json!("claude"), "the last receipt in 1 store"),
        ("rollouts", json!("codex"), "1 rollout; every completed turn of 1 thread has its bodies"),
        ("privacy", json!(null), "what throughline has stored is private"),
    ] {
        let is_it = |finding: &&Value| finding["severity"] == "fine" && finding["what"] == what;
        let finding = findings.iter().find(is_it).unwrap_or_else(|| panic!("{what}: {findings:#?}"));
        assert_eq!((&finding["check"], &finding["host"]), (&json!(check), &host), "{what}");
        assert_eq!(finding["at"].is_i64(), what.contains("last"), "{what}");
    }
    assert_eq!((home.listing(), names(&home)), before);

    let (code, told, errors) = run(&home, &["doctor"]);
    assert_eq!((code, &errors[..]), (0, ""), "{told}");
    assert!(told.ends_with("Nothing is wrong.\n"), "{told}");
    assert!(told.contains("ok       records   the last receipt in 1 store, "), "{told}");
    // Nobody's words are in it.
    assert!(!told.contains("answer"), "{told}");
}

#[test]
fn where_there_is_nothing_there_is_nothing_to_do() {
    let home = Home::new();
    fs::remove_dir_all(home.path("home")).unwrap();
    fs::create_dir(home.path("home")).unwrap();
    program(&home);
    let before = names(&home);
    let findings = found(&home);
    assert_eq!(of(&findings, "problem"), [[""; 3]; 0]);
    let notes: Vec<_> = of(&findings, "note").iter().map(|note| note[1].to_owned()).collect();
    assert!(notes.iter().any(|note| note.starts_with("Codex has no home here")), "{notes:?}");
    assert!(notes.iter().any(|note| note == "there is no receipt yet"), "{notes:?}");
    assert_eq!(names(&home), before);
    assert_eq!(run(&home, &["doctor", "--jsno"]).0, 64);
    assert_eq!(run(&home, &["doctor", "now"]).0, 64);
}

#[test]
fn a_problem_is_told_with_what_to_do_and_exit_code_1() {
    let home = well(TRUSTING);
    fs::remove_file(home.path("home/.claude/settings.json")).unwrap();
    let (code, told, errors) = run(&home, &["doctor"]);
    assert_eq!((code, &errors[..]), (1, ""));
    let lines = "PROBLEM  hooks     Claude Code does not call throughline at Stop\n                   \
                 to do: throughline install --claude\n";
    assert!(told.contains(lines) && told.ends_with("\n1 problem.\n"), "{told}");
    assert_eq!(run(&home, &["install", "--claude"]).0, 0);
    assert_eq!(run(&home, &["doctor"]).0, 0);
}

/// A settings file with something else in it.
fn edit(path: &Path, change: impl FnOnce(&str) -> String) {
    let text = fs::read_to_string(path).unwrap_or_default();
    let changed = change(&text);
    assert_ne!(changed, text, "nothing was changed in {}", path.display());
    fs::write(path, changed).unwrap();
}

#[test]
fn settings_that_keep_a_hook_from_running_are_found() {
    let older = r#"{"type":"command","command":"node /x/throughline.mjs process-turn"}"#;
    type Change<'c> = &'c dyn Fn(&str) -> String;
    let cases: [(&str, Change<'_>, &str, &str); 8] = [
        (
            "claude/settings.json",
            &|text| text.replace("Stop", "Start"),
            "not call throughline at Stop",
            "install --claude",
        ),
        (
            "claude/settings.json",
            &|text| text.replace("\"timeout\": 10", "\"timeout\": 10,\"async\":true"),
            "does not wait",
            "install --claude",
        ),
        (
            "claude/settings.json",
            &|text| text.replacen('{', "{\"disableAllHooks\":true,", 1),
            "disableAllHooks",
            "remove",
        ),
        ("claude/settings.json", &|text| text.replacen('{', "", 1), "cannot be understood", "repair it"),
        (
            "claude/settings.json",
            &|text| text.replace("\"Stop\": [", &format!("\"Stop\": [{{\"hooks\":[{older}]}},")),
            "older Node tool",
            "remove it",
        ),
        ("codex/hooks.json", &|text| text.replace("UserPromptSubmit", "X"), "at UserPromptSubmit", "install --codex"),
        ("codex/config.toml", &|_| "features.hooks = false\n".to_owned(), "switched off", "switch them on"),
        ("codex/config.toml", &|_| "a = [\n".to_owned(), "cannot be understood", "repair it"),
    ];
    for (file, change, what, advice) in cases {
        let home = well(TRUSTING);
        edit(&home.path("home").join(format!(".{file}")), change);
        assert_problem(&found(&home), "hooks", what, advice);
    }
}

#[test]
fn hooks_of_a_project_count_in_it_alone() {
    let home = well(TRUSTING);
    let of_project = home.project().join(".claude/settings.json");
    let user = home.path("home/.claude/settings.json");
    fs::create_dir(of_project.parent().unwrap()).unwrap();
    fs::copy(&user, &of_project).unwrap();
    let in_project = || found_by(command(&home, &[]).current_dir(home.project()));
    let notes =
        |findings: &[Value], what: &str| of(findings, "note").iter().filter(|note| note[1].contains(what)).count();
    let both = in_project();
    assert_eq!((of(&both, "problem").len(), notes(&both, "once more at Stop")), (0, 1));
    fs::remove_file(&user).unwrap();
    let findings = in_project();
    assert_eq!((of(&findings, "problem").len(), notes(&findings, "in this project only")), (0, 1));
    assert_problem(&found(&home), "hooks", "does not call throughline at Stop", "install");
}

#[test]
fn codex_has_to_be_of_a_version_that_knows_the_hooks_and_to_trust_them() {
    let home = well("0.171.0");
    let hooks = home.path("home/.codex/hooks.json");
    let asks = ("only when you have trusted them", "start codex: it asks");
    assert_problem(&found(&home), "hooks", asks.0, asks.1);
    let config = home.path("home/.codex/config.toml");
    let trust = |event: &str| {
        let state = format!("[hooks.state.\"{}:{event}:0:0\"]\ntrusted_hash = \"sha256:x\"\n", hooks.display());
        edit(&config, |text| format!("{text}{state}"));
    };
    trust("stop");
    trust("user_prompt_submit");
    assert_problem(&found(&home), "hooks", "the hooks at PostToolUse only", asks.1);
    trust("post_tool_use");
    assert_eq!(of(&found(&home), "problem"), [[""; 3]; 0]);

    assert_problem(&found(&well("0.115.0")), "hooks", "does not know all of these", "0.117.0");
    let home = well("0.123.0");
    assert_eq!(of(&found(&home), "problem"), [[""; 3]; 0]);
    fs::remove_file(home.path("home/.codex/config.toml")).unwrap();
    assert_problem(&found(&home), "hooks", "codex_hooks = true", "install --codex");
}

#[test]
fn a_hook_whose_program_is_gone_or_will_go_is_found() {
    let home = well(TRUSTING);
    let (program, copy) = (program(&home), home.path("copy/throughline"));
    put_program(&copy, &program);
    let by_copy = || found_by(home.command(&copy).env("PATH", home.path("bin")));
    assert_eq!(of(&by_copy(), "problem"), [[""; 3]; 0]);
    for what in ["gone", "script", "another"] {
        match what {
            "gone" => fs::remove_file(&program).unwrap(),
            "script" => fs::write(&program, "#!/usr/bin/env node\n").unwrap(),
            _ => fs::write(&program, fs::read("/bin/sh").unwrap()).unwrap(),
        }
        if program.exists() {
            fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        }
        let findings = by_copy();
        let severity = if what == "another" { "note" } else { "problem" };
        let told = of(&findings, severity);
        let hooks: Vec<_> = told.iter().filter(|told| told[0] == "hooks" && told[1].contains(what)).collect();
        assert_eq!(hooks.len(), 2, "{what}: {findings:#?}");
        assert!(
            what == "another" || hooks.iter().all(|told| told[2].starts_with("throughline install --")),
            "{hooks:?}"
        );
    }

    let built = home.path("clone/target/release/throughline");
    put_program(&built, &copy);
    let install = |program: &Path| home.command(program).env("PATH", home.path("bin")).arg("install").output().unwrap();
    assert!(install(&built).status.success());
    let findings = found_by(home.command(&built).env("PATH", home.path("bin")));
    let problems = of(&findings, "problem");
    assert!(problems.len() == 2 && problems.iter().all(|told| told[1].contains("build directory")), "{problems:?}");
    assert!(install(&copy).status.success());
    assert_eq!(of(&by_copy(), "problem"), [[""; 3]; 0]);
}

#[test]
fn a_name_that_was_not_seen_and_what_the_check_said_are_told() {
    let home = well(TRUSTING);
    let name = ["session-name", "set-task", "sort the mail", "--session", "s"];
    assert!(home.throughline(&name).output().unwrap().status.success());
    let payload = json!({"session_id": "s", "transcript_path": home.path("gone.jsonl"), "tool_name": "Bash"});
    let mut hook = home.throughline(&["hook", "claude", "pre-tool-use"]);
    let mut asked = hook.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    asked.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    assert!(asked.wait().unwrap().success());
    let findings = found_by(&mut home.command(program(&home)));
    let names = findings.iter().filter(|finding| finding["check"] == "names");
    let told: Vec<&str> = names.map(|finding| finding["what"].as_str().unwrap()).collect();
    assert_eq!(told[0], "the name \"Session - sort the mail\" was not seen yet");
    assert!(told.len() == 2 && told[1].contains("missing_transcript"), "{told:?}");
}

#[test]
fn another_program_of_this_name_matters_where_it_comes_first_on_path() {
    let home = well(TRUSTING);
    let other = home.path("other/throughline");
    fs::create_dir(home.path("other")).unwrap();
    fs::write(&other, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o755)).unwrap();
    let own = program(&home);
    let with = |folders: &[PathBuf]| {
        let path = std::env::join_paths(folders.iter().cloned().chain([home.path("bin")])).unwrap();
        found_by(command(&home, &[]).env("PATH", path))
    };
    let (own, other) = (own.parent().unwrap().to_owned(), home.path("other"));
    assert_problem(&with(&[other.clone(), own.clone()]), "program", "older Node tool", "in front of it");
    assert_problem(&with(std::slice::from_ref(&other)), "program", "is what `throughline` means", "remove");
    let findings = with(&[own.clone(), own.clone(), other]);
    assert_eq!(of(&findings, "problem"), [[""; 3]; 0]);
    assert!(of(&findings, "note").iter().any(|note| note[1].contains("comes behind")), "{findings:#?}");
    let of_program = |findings: &[Value]| findings.iter().filter(|finding| finding["check"] == "program").count();
    assert_eq!((of_program(&findings), of_program(&with(&[own]))), (2, 1));
}

#[test]
fn what_is_not_private_is_found_by_name() {
    let home = well(TRUSTING);
    let (receipts, database) = (home.receipts().path(), Stores::below(home.path("home")).database());
    let lock = PathBuf::from(format!("{}.lock.sqlite", receipts.display()));
    let cache = home.path("cache/throughline");
    fs::create_dir(&cache).unwrap();
    let files = [
        (receipts.clone(), 0o644, 0o600),
        (lock, 0o640, 0o600),
        (receipts.parent().unwrap().to_owned(), 0o755, 0o700),
        (database.clone(), 0o644, 0o600),
        (database.parent().unwrap().to_owned(), 0o755, 0o700),
        (cache, 0o750, 0o700),
    ];
    // Temporary directories need not be 0700 everywhere.
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    set(&home.path("cache/throughline"), 0o700);
    for (path, wrong, right) in files {
        set(&path, wrong);
        let what = format!("{} has mode {wrong:04o}, not {right:04o}", path.display());
        let findings = found(&home);
        assert_problem(&findings, "privacy", &what, &format!("chmod {right:o} {}", path.display()));
        assert!(findings.iter().any(|finding| finding["path"] == path.to_str().unwrap()));
        set(&path, right);
    }
    let aside = home.path("aside.json");
    fs::rename(&receipts, &aside).unwrap();
    symlink(&aside, &receipts).unwrap();
    let findings = found(&home);
    assert!(of(&findings, "problem").iter().any(|told| told[1].contains("is a link")), "{findings:#?}");
    fs::remove_file(&receipts).unwrap();
    fs::create_dir(&receipts).unwrap();
    let findings = found(&home);
    assert!(of(&findings, "problem").iter().any(|told| told[1].contains("is not a regular file")), "{findings:#?}");
    fs::remove_dir(&receipts).unwrap();
    fs::rename(&aside, &receipts).unwrap();
    // A database may be a link: people keep large files elsewhere.
    let elsewhere = home.path("elsewhere.db");
    fs::rename(&database, &elsewhere).unwrap();
    symlink(&elsewhere, &database).unwrap();
    assert_eq!(of(&found(&home), "problem"), [[""; 3]; 0]);
}

#[test]
fn a_database_that_cannot_be_used_is_found() {
    let home = well(TRUSTING);
    let path = Stores::below(home.path("home")).database();
    let whole = fs::read(&path).unwrap();
    let mut other_version = whole.clone();
    // The fields of the header that PRAGMA user_version writes.
    other_version[60..64].copy_from_slice(&13_u32.to_be_bytes());
    let header_only = [&whole[..100], &vec![0xa5; whole.len() - 100]].concat();
    let mut one_page = whole.clone();
    // The first page of the bodies.
    let place = whole.windows(6).position(|bytes| bytes == b"answer").unwrap() / 4096 * 4096;
    one_page[place..place + 8].fill(0xff);
    for (bytes, what, advice) in [
        (other_version, "database version 13", "migrate it with the Node tool"),
        ("x".repeat(5000).into_bytes(), "cannot be read", "move "),
        (header_only, "cannot be read", "capture --all"),
        (one_page, "is damaged", "capture --all"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let findings = found(&home);
        let problems = of(&findings, "problem");
        assert!(
            problems.iter().any(|told| told[0] == "database" && told[1].contains(what) && told[2].contains(advice)),
            "{what}: {problems:?}"
        );
        assert!(fs::read(&path).unwrap() == bytes);
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let findings = found(&home);
    assert!(of(&findings, "problem").iter().any(|told| told[0] == "database"), "{findings:#?}");
}

#[test]
fn a_damaged_receipt_store_is_found_and_left_as_it_is() {
    let home = well(TRUSTING);
    let path = home.receipts().path();
    fs::write(&path, "{}").unwrap();
    assert_problem(&found(&home), "records", "reads of its project fail", &format!("move {} away", path.display()));
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
}

#[test]
fn completed_turns_without_bodies_are_found_by_project_and_capture_stores_them() {
    let home = well(TRUSTING);
    let mut codex = home.codex(2);
    for n in 0..3 {
        codex.complete(&format!("ask {n}"), &format!("answer {n}"));
    }
    codex.store_first(1);
    let mut other = home.codex(3);
    other.complete("ask", "answer");
    let project = home.project();
    let findings = found(&home);
    let what = format!("3 completed turns of 2 threads in {} without bodies", project.display());
    assert_problem(&findings, "rollouts", &what, &format!("throughline capture --project {}", project.display()));
    let finding = findings.iter().find(|finding| finding["severity"] == "problem").unwrap();
    assert_eq!((&finding["count"], &finding["path"]), (&json!(2), &json!(project)));
    assert_eq!(run(&home, &["capture", "--project", project.to_str().unwrap()]).0, 0);
    assert_eq!(of(&found(&home), "problem"), [[""; 3]; 0]);
    // Bodies of another project's session are none.
    let session = format!("codex:{}", rollout_id(3));
    home.database().execute("UPDATE sessions SET project_path = '/elsewhere' WHERE session_id = ?", [session]).unwrap();
    assert_problem(&found(&home), "rollouts", "1 completed turn of 1 thread in", "capture");
}

#[test]
fn of_many_projects_some_are_told_one_by_one() {
    let home = well(TRUSTING);
    for n in 10..40 {
        let name = format!("rollout-2026-02-03T00-00-00-{}.jsonl", rollout_id(n));
        let from = fs::read_to_string(home.sessions().join(crate::home::rollout_name(1))).unwrap();
        let cwd = home.path(&format!("gone {n}"));
        let text = from
            .replace(&rollout_id(1), &rollout_id(n))
            .replace(home.project().to_str().unwrap(), cwd.to_str().unwrap());
        fs::write(home.sessions().join(name), text).unwrap();
    }
    let findings = found(&home);
    let problems = of(&findings, "problem");
    assert_eq!(problems.len(), 21);
    // Their directories are gone, but a project around them may be read.
    assert!(problems.iter().all(|told| told[2] == "throughline capture --all"), "{problems:?}");
    assert!(problems[20][1].starts_with("10 more projects"), "{problems:?}");
}

#[test]
fn what_cannot_be_read_is_found_by_name() {
    let home = well(TRUSTING);
    drop(home.codex(2));
    program(&home);
    let rollout = home.sessions().join(crate::home::rollout_name(2));
    let folder = home.path("home/.codex/sessions/2025");
    fs::create_dir(&folder).unwrap();
    let mut command = command(&home, &[]);
    // To the superuser nothing is unreadable.
    const NOBODY: u32 = 65534;
    if fs::metadata(&rollout).is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == 0) {
        for path in names(&home).lines() {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    fs::set_permissions(&rollout, Permissions::from_mode(0o0)).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o0)).unwrap();
    let findings = found_by(&mut command);
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let mut problems = of(&findings, "problem");
    problems.sort_unstable();
    let names: Vec<_> = problems.iter().map(|told| told[1].split(" cannot be read: ").next().unwrap()).collect();
    assert_eq!(names, [folder.to_str().unwrap(), rollout.to_str().unwrap()]);
    assert!(problems.iter().all(|told| told[0] == "rollouts" && told[2].contains("make it readable")), "{problems:?}");
    // The others were looked at all the same.
    assert!(findings.iter().any(|finding| text(finding, "what").ends_with("1 thread has its bodies")), "{findings:#?}");
}

#[test]
fn a_place_that_every_directory_has_another_of_is_found() {
    let home = well(TRUSTING);
    let with = |name: &str, value: &str| found_by(command(&home, &[]).env(name, value));
    let findings = with("XDG_STATE_HOME", "state");
    assert_problem(
        &findings,
        "places",
        "is another place for every current directory",
        "give XDG_STATE_HOME an absolute",
    );
    let findings = with("THROUGHLINE_CACHE", "off");
    assert_eq!(of(&findings, "problem"), [[""; 3]; 0]);
    assert!(of(&findings, "note").iter().any(|note| note[1].contains("THROUGHLINE_CACHE=off")), "{findings:#?}");
}
