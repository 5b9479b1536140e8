//! `throughline cache` as a person runs it: what is shown, compared and removed.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::home::{Home, rollout_name};

/// What a person sees, and the exit code.
fn said(home: &Home, arguments: &[&str]) -> (i32, String) {
    let output = home.throughline(&[&["cache"], arguments].concat()).output().unwrap();
    assert_eq!(std::str::from_utf8(&output.stderr), Ok(""));
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn json(home: &Home, command: &str) -> (i32, Value) {
    let (code, line) = said(home, &[command, "--json"]);
    assert_eq!(line.matches('\n').count(), 1);
    (code, serde_json::from_str(&line).unwrap())
}

/// Reads the project, as an Observer does.
fn poll(home: &Home) -> Value {
    let project = home.project();
    let output = home.throughline(&["observer-read", "--project", project.to_str().unwrap(), "--json"]).output();
    let output = output.unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn directory(home: &Home) -> PathBuf {
    home.path("cache/throughline")
}

/// The files of a kind in the cache.
fn files_about(home: &Home, about: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory(home)).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(about)).collect()
}

/// A home whose cache has a file of each kind.
fn filled() -> Home {
    let home = Home::new();
    home.codex(1).complete_and_store("ask", "answer");
    // A rollout gets a checkpoint when it is read for the second time.
    poll(&home);
    poll(&home);
    home
}

#[test]
fn without_a_cache_there_is_nothing_to_show_compare_or_remove() {
    let home = Home::new();
    let at = directory(&home);
    let at = at.display();
    let kinds = ["root", "project", "rollout", "transcript", "captured"].map(|kind| format!("0 {kind}, 0 bytes"));
    let shown = format!("The cache is {at}.\n0 bytes of at most 64.0 MiB in 0 files: {}.\n", kinds.join("; "));
    assert_eq!(said(&home, &["status"]), (0, shown));
    let compared = format!("0 files in {at}: 0 equal, 0 outdated, 0 damaged, 0 different.\n");
    assert_eq!(said(&home, &["verify"]), (0, compared));
    assert_eq!(said(&home, &["clear"]), (0, format!("There was nothing to remove in {at}.\n")));
    assert!(!directory(&home).exists());
}

#[test]
fn status_names_what_each_file_is_about() {
    let home = filled();
    let (code, status) = json(&home, "status");
    assert_eq!((code, &status["schema"]), (0, &"throughline.cache_status.v1".into()));
    assert_eq!(status["directory"], directory(&home).to_str().unwrap());
    assert_eq!((&status["on"], &status["mostBytes"]), (&true.into(), &(64 << 20).into()));
    let entries = status["entries"].as_array().unwrap();
    let about = |about: &str| entries.iter().find(|entry| entry["about"] == about).unwrap();
    let (root, project) = (home.path("home/.codex/sessions"), home.project());
    assert_eq!(about("root")["root"], root.to_str().unwrap());
    assert_eq!(about("project")["root"], root.to_str().unwrap());
    assert_eq!(about("project")["project"], project.to_str().unwrap());
    let (rollout, path) = (about("rollout"), home.sessions().join(rollout_name(1)));
    assert_eq!(rollout["rollout"], path.to_str().unwrap());
    let size = fs::metadata(&path).unwrap().len();
    assert_eq!([&rollout["readTo"], &rollout["size"], &rollout["cutAt"]], [&size.into(), &size.into(), &Value::Null]);
    assert!(
        entries.iter().all(|entry| entry["state"] == "whole" && entry["usedAt"].as_u64() > Some(1_700_000_000_000))
    );
    let bytes = |values: &Value| values.as_array().unwrap().iter().map(|of| of["bytes"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(status["bytes"], bytes(&status["entries"]));
    assert_eq!(status["bytes"], bytes(&status["kinds"]));

    let (code, shown) = said(&home, &["status"]);
    assert_eq!(code, 0);
    for line in [
        format!("root        {}\n", root.display()),
        format!("project     {} in {}\n", project.display(), root.display()),
        format!("rollout     {}, up to {size} of {size} bytes\n", path.display()),
    ] {
        assert!(shown.contains(&line), "{line:?} is not in\n{shown}");
    }
    assert!(!shown.contains("ask") && !shown.contains("answer"));
}

#[test]
fn switched_off_the_cache_is_shown_compared_and_removed_all_the_same() {
    let home = filled();
    let off = |command: &str| {
        let output = home.throughline(&["cache", command]).env("THROUGHLINE_CACHE", "off").output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(off("status").contains("which THROUGHLINE_CACHE=off keeps reads from using.\n"));
    assert!(off("verify").starts_with("outdated") && off("verify").contains("\n3 files in "));
    assert!(off("clear").starts_with("Removed 3 files of "));
    assert!(!directory(&home).exists());
}

#[test]
fn a_damaged_file_is_told_and_no_difference() {
    let home = filled();
    let [rollout] = &files_about(&home, "rollout-")[..] else { panic!("there is one rollout") };
    let mut bytes = fs::read(rollout).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(rollout, bytes).unwrap();
    let [root] = &files_about(&home, "root-")[..] else { panic!("there is one root") };
    fs::set_permissions(root, fs::Permissions::from_mode(0o644)).unwrap();
    let shown = said(&home, &["status"]).1;
    for path in [rollout, root] {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(shown.contains(&format!("{name} (damaged, not used)\n")), "{shown}");
    }
    let (code, compared) = said(&home, &["verify"]);
    assert!(code == 0 && compared.contains("damaged, not used: rollout-"), "{compared}");
    let (code, report) = json(&home, "verify");
    assert_eq!((code, &report["damaged"], &report["different"]), (0, &2.into(), &0.into()));
}

#[test]
fn what_is_remembered_of_an_unchanged_store_is_equal_and_after_appends_outdated() {
    let home = Home::new();
    let mut codex = home.codex(1);
    codex.complete_and_store("ask", "answer");
    home.codex(2).complete("ask another", "answer");
    // A write in the same tick would not show, so what is younger than two seconds is read again.
    std::thread::sleep(Duration::from_millis(2100));
    poll(&home);
    poll(&home);
    let (code, report) = json(&home, "verify");
    assert_eq!(code, 0);
    assert_eq!(report["equal"], report["files"].as_array().unwrap().len(), "{report}");
    assert_eq!(report["equal"], 3, "{report}");

    codex.complete_and_store("ask more", "answer");
    poll(&home);
    let mut file = fs::OpenOptions::new().append(true).open(home.sessions().join(rollout_name(1))).unwrap();
    for end in ["{\"timestamp\":\"2026-02-03T0", "\n"] {
        file.write_all(end.as_bytes()).unwrap();
        let (code, report) = json(&home, "verify");
        assert_eq!((code, &report["different"]), (0, &0.into()), "{report}");
        // Of the project a read looks at the thread again. What is remembered of rollouts is true of their beginnings.
        assert_eq!((&report["equal"], &report["outdated"]), (&3.into(), &1.into()), "{report}");
    }
    assert_eq!(poll(&home)["turns"].as_array().unwrap().len(), 2);
}

#[test]
fn a_difference_is_named_with_exit_code_1_and_clear_ends_it() {
    let home = Home::new();
    home.codex(1).complete_and_store("ask", "answer");
    home.codex(2).complete_and_store("other", "answer");
    let foreign = home.sessions().join(rollout_name(2));
    let (project, elsewhere) = (home.project(), home.path("projecs"));
    let text = fs::read_to_string(&foreign).unwrap();
    fs::write(&foreign, text.replace(project.to_str().unwrap(), elsewhere.to_str().unwrap())).unwrap();
    std::thread::sleep(Duration::from_millis(2100));
    let before = poll(&home);
    assert_eq!(said(&home, &["verify"]).0, 0);
    let at = text.find("/project\"").unwrap() as u64;
    fs::OpenOptions::new().write(true).open(&foreign).unwrap().write_all_at(b"/project", at).unwrap();

    assert_eq!(poll(&home), before, "a foreign rollout is not looked at for five minutes");
    let listing = files_about(&home, "");
    let (code, told) = said(&home, &["verify"]);
    assert_eq!(code, 1);
    let [root] = &files_about(&home, "root-")[..] else { panic!("there is one root") };
    let named = format!(
        "DIFFERENT: {}\n  remembered in {}\n  not as remembered: {}\n",
        home.path("home/.codex/sessions").display(),
        root.file_name().unwrap().to_str().unwrap(),
        foreign.display()
    );
    assert!(told.contains(&named), "{named} is not in\n{told}");
    assert!(
        told.ends_with("different.\nAnswers can be wrong. To have everything read anew: throughline cache clear\n")
    );
    let (code, report) = json(&home, "verify");
    assert_eq!((code, &report["schema"]), (1, &"throughline.cache_verify.v1".into()));
    let differing: Vec<&Value> =
        report["files"].as_array().unwrap().iter().filter(|of| of["verdict"] == "different").collect();
    assert_eq!(report["different"], differing.len());
    assert!(differing.iter().all(|of| of["differing"] == serde_json::json!([foreign.to_str().unwrap()])), "{report}");
    assert_eq!(files_about(&home, ""), listing);

    assert_eq!(said(&home, &["clear"]).0, 0);
    assert_ne!(poll(&home)["thread_sha256"], before["thread_sha256"]);
    assert_eq!(said(&home, &["verify"]).0, 0);
}

#[test]
fn clear_removes_what_is_the_cache_s_and_nothing_else() {
    let home = filled();
    let at = directory(&home);
    let [root] = &files_about(&home, "root-")[..] else { panic!("there is one root") };
    let temporary = format!("{}.123.4.tmp", root.display());
    fs::write(&temporary, "").unwrap();
    assert!(said(&home, &["status"]).1.contains(".123.4.tmp (being written, or left behind)\n"));
    let others = ["root-canal.txt", "project-notes", "rollout-2026", "other"].map(|name| at.join(name));
    others.iter().for_each(|path| fs::write(path, "kept").unwrap());
    let (code, told) = said(&home, &["clear"]);
    assert!(code == 0 && told.starts_with("Removed 4 files of ") && told.ends_with(" What else is there was left.\n"));
    let mut left = files_about(&home, "");
    left.sort();
    let mut wanted = others.to_vec();
    wanted.sort();
    assert_eq!(left, wanted);
    others.iter().for_each(|path| fs::remove_file(path).unwrap());
    said(&home, &["clear"]);
    assert!(!at.exists());
    poll(&home);
    assert_eq!(files_about(&home, "root-").len(), 1);
}

#[test]
fn wrong_usage_and_help() {
    let home = Home::new();
    for wrong in [&[][..], &["no-such-command"], &["status", "--no-such-option"], &["clear", "all"], &["verify", "x"]] {
        let output = home.throughline(&[&["cache"], wrong].concat()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(64), &b""[..]), "{wrong:?}");
        assert!(stderr.starts_with("throughline: ") && stderr.matches('\n').count() == 1, "{wrong:?}: {stderr}");
    }
    for command in ["status", "verify", "clear"] {
        let (code, help) = said(&home, &[command, "--help"]);
        assert!(code == 0 && help.contains(&format!("Usage: throughline cache {command}")), "{help}");
    }
}
