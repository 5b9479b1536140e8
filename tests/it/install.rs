//! `throughline install` and `uninstall` as a person runs them, on settings of their own.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::home::Home;

const CONFIG: &str = "model = \"stub\" # mine\n\n[features]\nweb =  true\n\n[model_providers.stub]\nname = 'stub'\n";

/// The program in a place of its own, so that it lies in no build directory.
pub fn program(home: &Home) -> PathBuf {
    let program = home.path("my programs/throughline");
    if !program.exists() {
        put_program(&program, Path::new(env!("CARGO_BIN_EXE_throughline")));
    }
    program
}

/// Puts a copy of a program in a place. Another process writes it: what this one has open for writing a process that another
/// test starts meanwhile has open, too, and then it cannot be run.
pub fn put_program(to: &Path, from: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// A home with a `codex` on PATH that tells this version.
pub fn home_with_codex(version: &str) -> Home {
    let home = Home::new();
    let written = home.path("codex.sh");
    fs::write(&written, format!("#!/bin/sh\necho 'codex-cli {version}'\n")).unwrap();
    fs::set_permissions(&written, fs::Permissions::from_mode(0o755)).unwrap();
    put_program(&home.path("bin/codex"), &written);
    home
}

pub fn command(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.command(program(home));
    command.args(arguments).env("PATH", format!("{}:/bin:/usr/bin", home.path("bin").display()));
    command
}

pub fn run(home: &Home, arguments: &[&str]) -> (i32, String, String) {
    ended(&command(home, arguments).output().unwrap())
}

fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn backup(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.throughline-backup", path.display()))
}

#[test]
fn both_agents_get_their_hooks_once_and_lose_them_again() {
    let home = home_with_codex("0.171.0");
    let (settings, hooks) = (home.path("home/.claude/settings.json"), home.path("home/.codex/hooks.json"));
    let (code, told, errors) = run(&home, &["install", "--claude", "--codex"]);
    assert_eq!((code, &errors[..]), (0, ""), "{told}");
    assert!(told.contains("have trusted them"), "{told}");
    let quoted = format!("'{}'", program(&home).display());
    let entry = |host: &str, word: &str| {
        serde_json::json!([{"hooks": [
            {"type": "command", "command": format!("{quoted} hook {host} {word}"), "timeout": 10}]}])
    };
    assert_eq!(json(&settings), serde_json::json!({"hooks": {"Stop": entry("claude", "stop")}}));
    let three = serde_json::json!({"hooks": {"Stop": entry("codex", "stop"),
        "UserPromptSubmit": entry("codex", "user-prompt-submit"), "PostToolUse": entry("codex", "post-tool-use")}});
    assert_eq!(json(&hooks), three);
    assert_eq!((mode(&settings), mode(settings.parent().unwrap())), (0o600, 0o700));
    assert!(!home.path("home/.codex/config.toml").exists() && !backup(&settings).exists());

    // Now both homes exist, and nothing is left to do.
    let before = home.listing();
    let (code, told, errors) = run(&home, &["install"]);
    assert_eq!((code, &errors[..]), (0, ""));
    let as_it_is = format!(
        "Claude Code: {} is as it should be.\nCodex: {} is as it should be.\n",
        settings.display(),
        hooks.display()
    );
    assert_eq!(told, as_it_is);
    assert_eq!(home.listing(), before);

    let (code, told, _) = run(&home, &["uninstall"]);
    assert_eq!((code, told.matches(": removed ").count()), (0, 4), "{told}");
    assert_eq!((json(&settings), json(&hooks)), (serde_json::json!({}), serde_json::json!({})));
    assert_eq!(json(&backup(&hooks)), three);
    let (code, told, _) = run(&home, &["uninstall"]);
    assert_eq!((code, told.matches("has no hooks of throughline.").count()), (0, 2), "{told}");
}

#[test]
fn the_check_of_session_names_is_registered_only_when_it_is_asked_for() {
    let home = home_with_codex("0.171.0");
    let settings = home.path("home/.claude/settings.json");
    let mine = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "date"}]}]}}"#;
    fs::create_dir(home.path("home/.claude")).unwrap();
    fs::write(&settings, mine).unwrap();
    let quoted = format!("'{}'", program(&home).display());
    let entry = |word: &str| {
        serde_json::json!({"hooks": [
            {"type": "command", "command": format!("{quoted} hook claude {word}"), "timeout": 10}]})
    };
    let own = json(&settings)["hooks"]["PreToolUse"][0].clone();
    assert_eq!(run(&home, &["install", "--claude"]).0, 0);
    let without = serde_json::json!({"hooks": {"PreToolUse": [own], "Stop": [entry("stop")]}});
    assert_eq!(json(&settings), without);
    let text = fs::read_to_string(&settings).unwrap();

    let with = serde_json::json!({"hooks":
        {"PreToolUse": [own, entry("pre-tool-use")], "Stop": [entry("stop --session-name")]}});
    for n in 0..2 {
        let (code, told, errors) = run(&home, &["install", "--claude", "--session-name"]);
        assert_eq!((code, &errors[..], told.contains("as it should be")), (0, "", n > 0), "{told}");
        assert_eq!(json(&settings), with);
    }
    let (_, told, _) = run(&home, &["install", "--claude"]);
    assert!(told.contains("Stop: ") && told.contains("PreToolUse: removed "), "{told}");
    assert_eq!(fs::read_to_string(&settings).unwrap(), text);
    run(&home, &["install", "--claude", "--session-name"]);
    assert_eq!(run(&home, &["uninstall", "--claude"]).0, 0);
    assert_eq!(fs::read_to_string(&settings).unwrap(), mine);
    let (code, told, _) = run(&home, &["install", "--codex", "--session-name"]);
    assert!(code == 0 && told.contains("Only Claude Code"), "{told}");
}

#[test]
fn the_hooks_that_are_registered_can_be_run_by_a_shell() {
    let home = Home::new();
    run(&home, &["install", "--claude"]);
    let entry = json(&home.path("home/.claude/settings.json"))["hooks"]["Stop"][0]["hooks"][0]["command"].clone();
    let command = entry.as_str().unwrap().replace("hook claude stop", "--version");
    let output = home.command("sh").args(["-c", &command]).output().unwrap();
    assert_eq!(ended(&output).1, concat!("throughline ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn without_a_home_of_an_agent_one_has_to_be_named() {
    let home = Home::new();
    fs::remove_dir_all(home.path("home/.codex")).unwrap();
    let (code, told, errors) = run(&home, &["install"]);
    assert_eq!((code, &told[..]), (1, ""));
    assert!(errors.contains("--claude or --codex") && errors.matches('\n').count() == 1, "{errors}");
    assert_eq!(run(&home, &["uninstall"]).0, 0);
    assert!(fs::read_dir(home.path("home")).unwrap().next().is_none());
}

#[test]
fn a_link_stays_one_and_its_target_keeps_its_mode() {
    let home = Home::new();
    let (target, link) = (home.path("dotfiles/claude.json"), home.path("claude home/settings.json"));
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    let text = "{\r\n\t// mine\r\n\t\"model\": \"x\",\r\n}\r\n";
    fs::write(&target, text).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("../dotfiles/claude.json", &link).unwrap();
    let claude_home = home.path("claude home");
    let run =
        |arguments: &[&str]| ended(&command(&home, arguments).env("CLAUDE_CONFIG_DIR", &claude_home).output().unwrap());
    let (code, told, errors) = run(&["install", "--claude"]);
    assert_eq!((code, &errors[..]), (0, ""), "{told}");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("../dotfiles/claude.json"));
    let new = fs::read_to_string(&target).unwrap();
    assert!(new.starts_with(text.trim_end_matches("}\r\n")) && new.contains("hook claude stop"), "{new}");
    assert_eq!((mode(&target), mode(&backup(&link))), (0o640, 0o640));
    assert_eq!(fs::read_to_string(backup(&link)).unwrap(), text);
    assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 1);
    assert_eq!(run(&["uninstall", "--claude"]).0, 0);
    assert_eq!(fs::read_to_string(&target).unwrap(), text);
    assert!(!home.path("home/.claude").exists());
}

#[test]
fn a_program_that_moved_takes_the_place_of_its_old_entry() {
    let home = Home::new();
    run(&home, &["install", "--codex"]);
    let hooks = home.path("home/.codex/hooks.json");
    let before = fs::read_to_string(&hooks).unwrap();
    let (old, new) = (program(&home), home.path("new/throughline"));
    fs::create_dir_all(new.parent().unwrap()).unwrap();
    fs::rename(&old, &new).unwrap();
    let output = home.command(&new).args(["install", "--codex"]).env("PATH", "/bin").output().unwrap();
    assert_eq!(ended(&output).0, 0);
    let quoted = format!("'{}'", old.display());
    assert_eq!(fs::read_to_string(&hooks).unwrap(), before.replace(&quoted, new.to_str().unwrap()));
}

#[test]
fn a_dry_run_tells_and_writes_nothing() {
    let home = home_with_codex("0.123.0");
    fs::write(home.path("home/.codex/config.toml"), CONFIG).unwrap();
    program(&home);
    let before = home.listing();
    let (code, told, _) = run(&home, &["install", "--claude", "--codex", "--dry-run"]);
    assert_eq!(code, 0);
    for line in
        ["settings.json would be changed:\n  Stop: added '", "[features] codex_hooks = true", "PostToolUse: added"]
    {
        assert!(told.contains(line), "{told}");
    }
    assert_eq!(home.listing(), before);
}

#[test]
fn the_switch_of_codex_is_set_only_for_versions_that_need_it() {
    for (version, set) in
        [("0.117.0", true), ("0.123.0", true), ("0.124.0", false), ("0.171.0", false), ("0.98.0", false)]
    {
        let home = home_with_codex(version);
        let config = home.path("home/.codex/config.toml");
        fs::write(&config, CONFIG).unwrap();
        let (code, told, errors) = run(&home, &["install", "--codex"]);
        assert_eq!(code, 0, "{errors}");
        assert_eq!(errors.contains("does not know all of these hooks"), version == "0.98.0", "{errors}");
        let text = fs::read_to_string(&config).unwrap();
        let with = CONFIG.replace("true\n", "true\ncodex_hooks = true\n");
        assert_eq!(text, if set { &with[..] } else { CONFIG }, "{version}");
        assert_eq!(backup(&config).exists(), set);
        assert!(!told.contains("no codex on PATH"));
        run(&home, &["uninstall", "--codex"]);
        assert_eq!(fs::read_to_string(&config).unwrap(), text);
    }
    let home = Home::new();
    fs::write(home.path("home/.codex/config.toml"), "features.hooks = false\n").unwrap();
    let (code, told, errors) = run(&home, &["install", "--codex"]);
    assert_eq!((code, fs::read_to_string(home.path("home/.codex/config.toml")).unwrap().len()), (0, 23), "{told}");
    assert!(errors.contains("switched off"), "{errors}");
}

#[test]
fn what_cannot_be_understood_leaves_every_file_as_it_is() {
    let broken = [
        (".claude/settings.json", "{\"hooks\": {"),
        (".claude/settings.json", "{\"hooks\": {\"Stop\": {}}}"),
        (".codex/hooks.json", "[]"),
        (".codex/config.toml", "a = [\n"),
    ];
    for (name, text) in broken {
        let home = home_with_codex("0.123.0");
        fs::create_dir(home.path("home/.claude")).unwrap();
        let path = home.path("home").join(name);
        fs::write(&path, text).unwrap();
        program(&home);
        let before = home.listing();
        let (code, told, errors) = run(&home, &["install"]);
        assert_eq!((code, &told[..]), (1, ""));
        let line = format!("throughline: the hooks were not installed: {} was left as it is: ", path.display());
        assert!(errors.starts_with(&line) && errors.matches('\n').count() == 1, "{errors}");
        assert_eq!(home.listing(), before);
    }
}

#[test]
fn the_older_tool_s_hooks_are_an_error_unless_forced_and_never_touched() {
    let home = home_with_codex("0.171.0");
    let settings = home.path("home/.claude/settings.json");
    fs::create_dir(home.path("home/.claude")).unwrap();
    let older =
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "node /x/throughline.mjs process-turn"}]}]}}"#;
    fs::write(&settings, older).unwrap();
    program(&home);
    let before = home.listing();
    let (code, told, errors) = run(&home, &["install"]);
    assert_eq!((code, &told[..]), (1, ""));
    assert!(errors.contains("process-turn") && errors.contains("--force") && errors.contains("for Stop"), "{errors}");
    // A project's hooks run beside the user's.
    assert_eq!(
        command(&home, &["install", "--project"]).current_dir(home.project()).output().unwrap().status.code(),
        Some(1)
    );
    assert_eq!(home.listing(), before);
    assert_eq!(run(&home, &["install", "--force"]).0, 0);
    let new = fs::read_to_string(&settings).unwrap();
    assert!(new.contains("process-turn") && new.contains("hook claude stop"));
    assert_eq!(run(&home, &["uninstall"]).0, 0);
    assert_eq!(fs::read_to_string(&settings).unwrap(), older);
    // For another event it is nobody's business.
    fs::write(&settings, older.replace("Stop", "SessionStart")).unwrap();
    assert_eq!(run(&home, &["install"]).0, 0);
}

#[test]
fn project_is_claude_s_settings_of_this_project_only() {
    let home = home_with_codex("0.171.0");
    let below = home.project().join("src/deep");
    fs::create_dir_all(&below).unwrap();
    fs::create_dir(home.project().join(".git")).unwrap();
    let output = command(&home, &["install", "--project"]).current_dir(&below).output().unwrap();
    let (code, told, errors) = ended(&output);
    assert_eq!((code, &errors[..]), (0, ""));
    let settings = home.project().join(".claude/settings.json");
    assert!(told.contains(settings.to_str().unwrap()) && told.contains("this machine's"), "{told}");
    assert!(json(&settings)["hooks"]["Stop"].is_array());
    assert!(!home.path("home/.claude").exists() && !home.path("home/.codex/hooks.json").exists());
    let output = command(&home, &["uninstall", "--project"]).current_dir(home.project()).output().unwrap();
    assert!(output.status.success());
    assert_eq!(json(&settings), serde_json::json!({}));
    assert_eq!(run(&home, &["install", "--project", "--codex"]).0, 64);
}

#[test]
fn a_program_in_a_build_directory_is_warned_of() {
    let home = Home::new();
    let built = home.path("clone/target/release/throughline");
    put_program(&built, Path::new(env!("CARGO_BIN_EXE_throughline")));
    let output = home.command(&built).args(["install", "--claude"]).output().unwrap();
    let (code, _, errors) = ended(&output);
    assert!(code == 0 && errors.contains("warning") && errors.contains("build directory"), "{errors}");
}
