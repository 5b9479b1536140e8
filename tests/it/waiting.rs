//! `observer-wait`: told at once, nothing missed, nothing left behind.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::golden;
use crate::home::{Home, rollout_name};

const WAIT_ARGS: &str = r#"{"schema":"throughline.observer_wait.v1","status":"error","code":"E_OBSERVER_WAIT_ARGS","message":"invalid observer-wait arguments"}"#;
const WAIT_INPUT: &str = r#"{"schema":"throughline.observer_wait.v1","status":"error","code":"E_OBSERVER_WAIT_INPUT","message":"observer wait input is invalid"}"#;
const WAIT_CANCELLED: &str = r#"{"schema":"throughline.observer_wait.v1","status":"error","code":"E_OBSERVER_WAIT_CANCELLED","message":"observer wait was cancelled"}"#;
const WAIT_INTERNAL: &str = r#"{"schema":"throughline.observer_wait.v1","status":"error","code":"E_OBSERVER_WAIT_INTERNAL","message":"observer wait failed"}"#;

/// Far less than the minute after which it looks even so, and more than a busy machine needs: what is answered sooner was
/// told by an event.
const TOLD: Duration = Duration::from_secs(20);

// ---- what it answers

#[test]
fn what_has_changed_already_is_told_at_once() {
    let home = Home::new();
    let empty = current(&home);
    let mut one = home.codex(1);
    one.complete("1", "done");
    let first = current(&home);
    assert_changed(&Waiter::start(&home, &empty, 60).answer(), &empty, &first);
    // A switch, to another thread and to the other host.
    let mut two = home.codex(2);
    two.complete("2", "done");
    assert_changed(&Waiter::start(&home, &first, 60).answer(), &first, &current(&home));
    home.claude("a session").complete_and_store("3", "done");
    assert_changed(&Waiter::start(&home, &first, 60).answer(), &first, &current(&home));
}

#[test]
fn a_completion_wakes_it() {
    for polling in [false, true] {
        let home = Home::new();
        let empty = current(&home);
        let waiter = Waiter::start_with(&home, &empty, 60, polling).asleep();
        let mut codex = home.codex(1);
        codex.complete("1", "done");
        assert_changed(&waiter.answer_within(TOLD), &empty, &current(&home));

        let before = current(&home);
        let waiter = Waiter::start_with(&home, &before, 60, polling).asleep();
        codex.complete("2", "done");
        assert_changed(&waiter.answer_within(TOLD), &before, &current(&home));

        let before = current(&home);
        let waiter = Waiter::start_with(&home, &before, 60, polling).asleep();
        let mut claude = home.claude("a session");
        claude.complete_and_store("3", "done");
        assert_changed(&waiter.answer_within(TOLD), &before, &current(&home));

        let before = current(&home);
        let waiter = Waiter::start_with(&home, &before, 60, polling).asleep();
        claude.complete_and_store("4", "done");
        assert_changed(&waiter.answer_within(TOLD), &before, &current(&home));
    }
}

#[test]
fn a_turn_that_is_open_is_not_told() {
    let home = Home::new();
    let mut codex = home.codex(1);
    codex.complete("1", "done");
    let before = current(&home);
    let waiter = Waiter::start(&home, &before, 60).asleep();
    codex.begin("2", "half");
    home.claude("a session");
    let mut waiter = waiter.asleep();
    assert!(waiter.child.try_wait().unwrap().is_none());
    codex.finish("2", "half");
    assert_changed(&waiter.answer_within(TOLD), &before, &current(&home));
}

#[test]
fn without_a_completion_it_ends_at_its_time() {
    let home = Home::new();
    home.codex(1).complete("1", "done");
    let before = current(&home);
    for polling in [false, true] {
        let begun = Instant::now();
        let answer = Waiter::start_with(&home, &before, 2, polling).answer();
        assert!((2.0..10.0).contains(&begun.elapsed().as_secs_f64()), "{:?}", begun.elapsed());
        let text = |key: &str| answer[key].as_str().unwrap().to_owned();
        assert_eq!((text("status"), text("afterCursor")), ("timeout".to_owned(), before.clone()));
        assert_eq!(text("throughCursor"), before);
    }
}

#[test]
fn a_completion_in_the_instant_of_the_deadline_is_not_lost() {
    let tries: Vec<i64> = (-12..12).collect();
    thread::scope(|scope| {
        for tries in tries.chunks(6) {
            scope.spawn(move || {
                for millis in tries {
                    let home = Home::new();
                    let mut codex = home.codex(1);
                    codex.complete("1", "done");
                    let before = current(&home);
                    let waiter = Waiter::start(&home, &before, 1);
                    let at = Duration::from_millis(1000_u64.saturating_add_signed(*millis));
                    thread::sleep(at.saturating_sub(waiter.begun.elapsed()));
                    codex.complete("2", "done");
                    let answer = waiter.answer();
                    if answer["status"] == "timeout" {
                        assert_eq!(answer["throughCursor"], before.as_str());
                        assert_changed(&Waiter::start(&home, &before, 60).answer(), &before, &current(&home));
                    } else {
                        assert_changed(&answer, &before, &current(&home));
                    }
                }
            });
        }
    });
}

#[test]
fn a_rollback_is_a_resync() {
    let home = Home::new();
    let mut codex = home.codex(1);
    codex.complete("1", "done");
    codex.complete("2", "done");
    let before = current(&home);
    let waiter = Waiter::start(&home, &before, 60).asleep();
    codex.roll_back(1);
    assert_known(&waiter.answer_within(TOLD), &before, "resync_required");
    // And so is what is no cursor of this project.
    let other = Home::new();
    for odd in [before, current(&other), "tlc1.x".to_owned(), "x".repeat(5000)] {
        assert_known(&Waiter::start(&home, &odd, 60).answer(), &odd, "resync_required");
    }
}

#[test]
fn a_tie_between_the_hosts_is_told() {
    let home = Home::new();
    let mut codex = home.codex(1);
    codex.complete_and_store("1", "by Codex");
    let before = current(&home);
    let waiter = Waiter::start(&home, &before, 60).asleep();
    home.turn_back_a_tick();
    home.claude("a session").complete_and_store("1", "by Claude");
    assert_known(&waiter.answer_within(TOLD), &before, "ambiguous_parent");
    assert_known(&Waiter::start(&home, &before, 60).answer(), &before, "ambiguous_parent");
}

#[test]
fn wrong_arguments_are_refused() {
    let home = Home::new();
    let (project, cursor) = (home.project(), current(&home));
    let project = project.to_str().unwrap();
    let right = ["--project", project, "--after-cursor", &cursor, "--timeout-seconds", "1", "--json"];
    let without = |n: usize| [&right[..n], &right[n + 2..]].concat();
    let with_seconds = |seconds| [&right[..5], &[seconds, "--json"]].concat();
    let mut wrong = vec![without(0), without(2), right[..6].to_vec(), [&right[..], &["--json"]].concat()];
    wrong.extend(["0", "3601", "-1", "+1", "1.0", "", " 1", "1s", "99999999999999999999"].map(with_seconds));
    wrong.extend(
        [["--limit", "1"], ["--through-cursor", &cursor], ["--after-cursor", &cursor]]
            .map(|more| [&right, &more[..]].concat()),
    );
    wrong.push([&right[..], &["more"]].concat());
    for arguments in wrong {
        let output = home.throughline(&[&["observer-wait"], &arguments[..]].concat()).output().unwrap();
        assert_fails(&output, WAIT_ARGS);
    }
    let help = home.throughline(&["observer-wait", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for option in ["--project", "--after-cursor", "--timeout-seconds", "--json"] {
        assert!(help.contains(option), "{help}");
    }
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let home = Home::new();
    let cursor = current(&home);
    for project in ["/no/such/directory", "project", home.path("project/file").to_str().unwrap()] {
        let arguments = ["observer-wait", "--json", "--after-cursor", &cursor, "--project", project];
        assert_fails(&home.throughline(&arguments).output().unwrap(), WAIT_INPUT);
    }
    home.claude("a session").complete_and_store("1", "done");
    let before = current(&home);
    fs::set_permissions(home.receipts().path(), fs::Permissions::from_mode(0o644)).unwrap();
    assert_fails(&Waiter::start(&home, &before, 60).end(), WAIT_INTERNAL);
    let script = "exec \"$THROUGHLINE\" observer-wait --project \"$1\" --after-cursor \"$2\" --json >&-";
    let mut shell = home.command("sh");
    shell.args(["-c", script, "sh", home.project().to_str().unwrap(), &before]);
    assert_fails(&shell.output().unwrap(), WAIT_INTERNAL);
}

// ---- what comes and goes while it waits

#[test]
fn stores_that_appear_are_watched() {
    let home = Home::new();
    let empty = current(&home);
    fs::remove_dir_all(home.path("home/.codex")).unwrap();
    let waiter = Waiter::start(&home, &empty, 60).asleep();
    // One after the other, so that each folder is there and watched before there is another one in it.
    for folder in [".codex", ".codex/sessions", ".codex/sessions/2026", ".codex/sessions/2026/02/03"] {
        fs::create_dir_all(home.path("home").join(folder)).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    home.codex(1).complete("1", "done");
    assert_changed(&waiter.answer_within(TOLD), &empty, &current(&home));
    // All at once.
    let before = current(&home);
    fs::rename(home.path("home/.codex"), home.path("moved")).unwrap();
    assert_known(&Waiter::start(&home, &before, 60).answer(), &before, "resync_required");
    let waiter = Waiter::start(&home, &empty, 60).asleep();
    fs::rename(home.path("moved"), home.path("home/.codex")).unwrap();
    assert_changed(&waiter.answer_within(TOLD), &empty, &before);
}

#[test]
fn sessions_that_are_removed_and_made_again_are_watched() {
    let home = Home::new();
    home.claude("a session").complete_and_store("1", "done");
    let before = current(&home);
    let sessions = home.path("home/.codex/sessions");
    let waiter = Waiter::start(&home, &before, 60).asleep();
    for _ in 0..3 {
        fs::remove_dir_all(&sessions).unwrap();
        thread::sleep(Duration::from_millis(30));
        fs::create_dir_all(home.sessions()).unwrap();
        thread::sleep(Duration::from_millis(30));
    }
    let waiter = waiter.asleep();
    home.codex(1).complete("2", "done");
    assert_changed(&waiter.answer_within(TOLD), &before, &current(&home));
}

#[test]
fn a_root_behind_a_link_is_watched_where_it_is() {
    let home = Home::new();
    fs::rename(home.path("home/.codex/sessions"), home.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(home.path("elsewhere"), home.path("home/.codex/sessions")).unwrap();
    let empty = current(&home);
    let waiter = Waiter::start(&home, &empty, 60).asleep();
    home.codex(1).complete("1", "done");
    assert_changed(&waiter.answer_within(TOLD), &empty, &current(&home));
}

#[test]
fn a_project_that_is_removed_is_told() {
    let home = Home::new();
    let empty = current(&home);
    let waiter = Waiter::start(&home, &empty, 60).asleep();
    fs::remove_dir(home.project()).unwrap();
    assert_fails(&waiter.end_within(TOLD), WAIT_INPUT);
}

#[test]
fn a_rollout_that_is_replaced_packed_or_moved_is_read_again() {
    let home = Home::new();
    let mut codex = home.codex(1);
    codex.complete("1", "done");
    let before = current(&home);
    let waiter = Waiter::start(&home, &before, 60).asleep();
    let (path, beside) = (home.sessions().join(rollout_name(1)), home.path("beside"));
    fs::copy(&path, &beside).unwrap();
    fs::remove_file(&path).unwrap();
    assert_known(&waiter.answer_within(TOLD), &before, "resync_required");
    let empty = empty_cursor(&home);
    let waiter = Waiter::start(&home, &empty, 60).asleep();
    fs::rename(beside, path).unwrap();
    assert_changed(&waiter.answer_within(TOLD), &empty, &before);
}

#[test]
fn a_first_row_that_is_completed_later_makes_a_rollout_count() {
    let home = Home::new();
    let empty = current(&home);
    home.codex(2).complete("1", "done");
    let path = home.sessions().join(rollout_name(2));
    let whole = fs::read(&path).unwrap();
    let head = whole.iter().position(|byte| *byte == b'\n').unwrap();
    let project = current(&home);
    fs::remove_file(&path).unwrap();
    let waiter = Waiter::start(&home, &empty, 60).asleep();
    // Into the same file, a piece at a time.
    let mut file = File::create(&path).unwrap();
    for piece in [&whole[..head / 2], &whole[head / 2..head + 1], &whole[head + 1..]] {
        std::io::Write::write_all(&mut file, piece).unwrap();
        thread::sleep(Duration::from_millis(60));
    }
    assert_changed(&waiter.answer_within(TOLD), &empty, &project);
}

// ---- being cancelled

#[test]
fn signals_cancel_it() {
    for signal in ["INT", "TERM"] {
        for polling in [false, true] {
            let home = Home::new();
            let waiter = Waiter::start_with(&home, &current(&home), 60, polling).asleep();
            let begun = Instant::now();
            assert!(
                Command::new("kill")
                    .args([&format!("-{signal}"), &waiter.child.id().to_string()])
                    .status()
                    .unwrap()
                    .success()
            );
            assert_fails(&waiter.end(), WAIT_CANCELLED);
            assert!(begun.elapsed() < Duration::from_millis(1200), "{:?}", begun.elapsed());
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_death_of_its_parent_cancels_it() {
    // Orphans are given to this process, so it has to be another one than that of the other tests.
    if !in_a_process_of_its_own("the_death_of_its_parent_cancels_it") {
        return;
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let home = Home::new();
    let (out, err) = (home.path("out"), home.path("err"));
    let script = format!(
        "\"$THROUGHLINE\" observer-wait --project '{}' --after-cursor {} --json >'{}' 2>'{}' & echo $!; wait",
        home.project().display(),
        current(&home),
        out.display(),
        err.display()
    );
    let mut shell = home.command("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stdout = shell.stdout.take().unwrap();
    while !said.ends_with('\n') {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    let waiter: u32 = said.trim().parse().unwrap();
    wait_until(|| is_asleep(waiter));
    let begun = Instant::now();
    shell.kill().unwrap();
    shell.wait().unwrap();
    let pid = rustix::process::Pid::from_raw(waiter as i32);
    let (_, status) = rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_millis(1200), "{:?}", begun.elapsed());
    assert_eq!(status.exit_status(), Some(1));
    assert_eq!(
        (fs::read_to_string(out).unwrap(), fs::read_to_string(err).unwrap()),
        (String::new(), format!("{WAIT_CANCELLED}\n"))
    );
}

// ---- what it costs

#[test]
#[cfg(target_os = "linux")]
fn nothing_stays_open_while_it_sleeps() {
    for polling in [false, true] {
        let home = Home::new();
        home.codex(1).complete_and_store("1", "done");
        home.claude("a session").complete_and_store("2", "done");
        let waiter = Waiter::start_with(&home, &current(&home), 60, polling).asleep();
        let open = open_files(waiter.child.id());
        let events = open.iter().filter(|path| path.contains("inotify")).count();
        assert_eq!(events, usize::from(!polling), "{open:?}");
        let odd = open
            .iter()
            .filter(|path| !["/dev/null", "pipe:", "anon_inode:inotify"].iter().any(|known| path.starts_with(known)));
        assert_eq!(odd.collect::<Vec<_>>(), Vec::<&String>::new());
        let maps = fs::read_to_string(format!("/proc/{}/maps", waiter.child.id())).unwrap();
        assert!(!maps.contains(home.path("").to_str().unwrap()), "{maps}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_call_of_the_library_leaves_no_thread_and_no_file_behind() {
    use throughline::events::Watching;
    use throughline::observer::cancel::Cancel;
    use throughline::observer::wait::{Request, Status, wait};
    use throughline::{Kind, Mapping, Stores};

    if !in_a_process_of_its_own("a_call_of_the_library_leaves_no_thread_and_no_file_behind") {
        return;
    }
    let home = Home::new();
    (1..40).for_each(|n| home.codex(n).complete("1", "done"));
    let (cursor, project, stores) = (current(&home), home.project(), Stores::below(home.path("home")));
    let me = std::process::id();
    let count = || (open_files(me).len(), fs::read_dir("/proc/self/task").unwrap().count());
    let before = count();
    for (n, watching) in [Watching::Events, Watching::Polling].into_iter().cycle().take(20).enumerate() {
        let deadline = Instant::now() + Duration::from_millis(30);
        let request = Request { project: &project, after: &cursor, deadline, watching };
        let cancel = Cancel::new().unwrap();
        if n % 4 > 1 {
            cancel.cancel();
            let error = wait(&stores, &request, &cancel, Mapping::Never).unwrap_err();
            assert_eq!(error.kind(), Kind::Cancelled);
        } else {
            assert_eq!(wait(&stores, &request, &cancel, Mapping::Never).unwrap().status, Status::Timeout);
        }
    }
    // A thread that has ended may be on its way out.
    wait_until(|| count() == before);
}

#[test]
#[cfg(target_os = "linux")]
fn readers_and_other_projects_wake_nobody() {
    let home = Home::new();
    let mut codex = home.codex(1);
    codex.complete_and_store("1", "done");
    home.claude("a session").complete_and_store("2", "done");
    let other = home.path("other");
    fs::create_dir(&other).unwrap();
    let foreign = home.codex_in(2, &other);
    let before = current(&home);
    let waiter = Waiter::start(&home, &before, 60).asleep();
    let (spent, project) = (cpu_seconds(waiter.child.id()), home.project());
    for _ in 0..5 {
        assert_eq!(current(&home), before);
        let read = ["observer-read", "--json", "--project", project.to_str().unwrap()];
        assert!(home.throughline(&read).output().unwrap().status.success());
    }
    assert_eq!(Waiter::start(&home, &before, 1).answer()["status"], "timeout");
    let spent = cpu_seconds(waiter.child.id()) - spent;
    assert!(spent < 0.03, "{spent} s for looks of others");
    // What is written to another project's rollout wakes it for a moment, but is not worth a look.
    let spent = cpu_seconds(waiter.child.id());
    for _ in 0..2000 {
        foreign.say("something");
    }
    let waiter = waiter.asleep();
    let spent = cpu_seconds(waiter.child.id()) - spent;
    assert!(spent < 0.3, "{spent} s for 2000 rows of another project");
    codex.complete("2", "done");
    assert_changed(&waiter.answer_within(TOLD), &before, &current(&home));
}

#[test]
#[cfg(target_os = "linux")]
fn thousands_of_events_make_no_busy_loop() {
    for own in [true, false] {
        let home = Home::new();
        let mut codex = home.codex(1);
        codex.complete("1", "done");
        let before = current(&home);
        let waiter = Waiter::start(&home, &before, 60).asleep();
        let spent = cpu_seconds(waiter.child.id());
        let (until, mut events) = (Instant::now() + Duration::from_secs(3), 0);
        while Instant::now() < until {
            if own {
                codex.say("something");
            } else {
                // Folders and rollouts that come and go.
                let folder = home.sessions().join(format!("folder-{}", events % 100));
                fs::create_dir(&folder).unwrap();
                fs::write(folder.join(rollout_name(7)), "{}\n").unwrap();
                fs::remove_dir_all(folder).unwrap();
            }
            events += 1;
            thread::sleep(Duration::from_micros(200));
        }
        let spent = cpu_seconds(waiter.child.id()) - spent;
        assert!(spent < 1.5, "{spent} s of three for {events} events");
        codex.complete("2", "done");
        assert_changed(&waiter.answer_within(TOLD), &before, &current(&home));
    }
}

#[test]
fn many_waiters_all_wake() {
    let home = Home::new();
    let mut codex = home.codex(1);
    codex.complete("1", "done");
    let before = current(&home);
    let waiters: Vec<Waiter> = (0..50).map(|_| Waiter::start(&home, &before, 120)).collect();
    let waiters: Vec<Waiter> = waiters.into_iter().map(Waiter::asleep).collect();
    codex.complete("2", "done");
    let after = current(&home);
    for waiter in waiters {
        assert_changed(&waiter.answer_within(TOLD), &before, &after);
    }
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "takes 70 seconds"]
fn needs_70_seconds_a_long_wait_costs_little_and_still_wakes() {
    let home = Home::new();
    let mut codex = home.codex(1);
    codex.complete("1", "done");
    let before = current(&home);
    let waiter = Waiter::start(&home, &before, 70);
    thread::sleep(Duration::from_secs(65));
    let spent = cpu_seconds(waiter.child.id());
    assert!(spent < 0.5, "{spent} s of CPU");
    codex.complete("2", "done");
    assert_changed(&waiter.answer(), &before, &current(&home));
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "needs unshare"]
fn needs_unshare_where_the_limit_of_watches_is_reached_it_polls() {
    let home = Home::new();
    let permitted = home.command("unshare").args(["--user", "--map-root-user", "true"]).status().unwrap();
    if !permitted.success() {
        println!("not tested: limits of one's own are not permitted here");
        return;
    }
    let mut codex = home.codex(1);
    codex.complete("1", "done");
    let before = current(&home);
    let script = "echo 3 >/proc/sys/user/max_inotify_watches && exec \"$THROUGHLINE\" observer-wait \"$@\"";
    let mut command = home.command("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", script, "sh", "--json", "--after-cursor", &before]);
    let waiter = Waiter::spawn(command.arg("--project").arg(home.project())).asleep();
    assert!(open_files(waiter.child.id()).iter().all(|path| !path.contains("inotify")));
    codex.complete("2", "done");
    assert_changed(&waiter.answer_within(TOLD), &before, &current(&home));
}

// ---- helpers

/// A process that waits.
struct Waiter {
    child: Child,
    begun: Instant,
}

impl Waiter {
    fn start(home: &Home, after: &str, seconds: u32) -> Self {
        Self::start_with(home, after, seconds, false)
    }

    fn start_with(home: &Home, after: &str, seconds: u32, polling: bool) -> Self {
        let mut command = home.throughline(&["observer-wait", "--json", "--after-cursor", after]);
        command.arg("--project").arg(home.project()).args(["--timeout-seconds", &seconds.to_string()]);
        if polling {
            command.env("THROUGHLINE_WATCH", "poll");
        }
        Self::spawn(&mut command)
    }

    fn spawn(command: &mut Command) -> Self {
        let begun = Instant::now();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child, begun }
    }

    /// Waits until it has looked and sleeps.
    fn asleep(self) -> Self {
        wait_until(|| is_asleep(self.child.id()));
        self
    }

    fn end(self) -> Output {
        self.child.wait_with_output().unwrap()
    }

    /// Waits until it ends, which has to be soon.
    fn end_within(self, most: Duration) -> Output {
        let begun = Instant::now();
        let output = self.end();
        assert!(begun.elapsed() < most, "{:?}", begun.elapsed());
        output
    }

    fn answer(self) -> Value {
        answer_of(&self.end())
    }

    fn answer_within(self, most: Duration) -> Value {
        answer_of(&self.end_within(most))
    }
}

fn answer_of(output: &Output) -> Value {
    let stdout = std::str::from_utf8(&output.stdout).unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{output:?}");
    assert_eq!(stdout.matches('\n').count(), 1);
    let answer = serde_json::from_str(stdout).unwrap();
    golden::assert_fits_the_schema(&answer);
    answer
}

/// Exit code 1, nothing on stdout, and exactly this line on stderr.
fn assert_fails(output: &Output, line: &str) {
    let texts = (std::str::from_utf8(&output.stdout), std::str::from_utf8(&output.stderr));
    assert_eq!(
        (output.status.signal(), output.status.code(), texts),
        (None, Some(1), (Ok(""), Ok(&*format!("{line}\n"))))
    );
    golden::assert_fits_the_schema(&serde_json::from_str(line).unwrap());
}

fn assert_changed(answer: &Value, after: &str, through: &str) {
    let found = (&answer["status"], &answer["afterCursor"], &answer["throughCursor"]);
    assert_eq!(found, (&"changed".into(), &after.into(), &through.into()));
}

fn assert_known(answer: &Value, after: &str, status: &str) {
    let found = (&answer["status"], &answer["afterCursor"], &answer["throughCursor"]);
    assert_eq!(found, (&status.into(), &after.into(), &Value::Null));
}

fn threads(home: &Home) -> Value {
    let project = home.project();
    let output = home.throughline(&["observer-threads", "--json", "--project", project.to_str().unwrap()]).output();
    serde_json::from_slice(&output.unwrap().stdout).unwrap()
}

/// The cursor of the project without pairs.
fn empty_cursor(home: &Home) -> String {
    threads(home)["emptyCursor"].as_str().unwrap().to_owned()
}

/// The cursor to the current end.
fn current(home: &Home) -> String {
    let threads = threads(home);
    threads["threads"][0]["throughCursor"].as_str().map_or_else(|| empty_cursor(home), str::to_owned)
}

/// Waits for something that has to happen.
fn wait_until(happens: impl Fn() -> bool) {
    let begun = Instant::now();
    while !happens() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process catches signals, as it does when it begins to look, and then sleeps: with all its threads, and without
/// having done anything for a while.
#[cfg(target_os = "linux")]
fn is_asleep(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigCgt:")?.trim(), 16).ok());
    let spent = cpu_seconds(pid);
    thread::sleep(Duration::from_millis(60));
    let sleeps = |task: PathBuf| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
    };
    let mut tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|entry| entry.unwrap().path());
    caught.is_some_and(|mask| mask & 1 << (libc::SIGTERM - 1) != 0) && tasks.all(sleeps) && cpu_seconds(pid) <= spent
}

#[cfg(not(target_os = "linux"))]
fn is_asleep(_: u32) -> bool {
    thread::sleep(Duration::from_secs(1));
    true
}

/// The processor time of a process.
#[cfg(target_os = "linux")]
fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: f64 = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum();
    // What it tells, it tells in hundredths of a second on every Linux.
    ticks / 100.0
}

/// What a process has open.
#[cfg(target_os = "linux")]
fn open_files(pid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().map(|entry| entry.unwrap().path());
    // That of the listing itself may be gone by now.
    entries.filter_map(|path| Some(fs::read_link(path).ok()?.to_str()?.to_owned())).collect()
}

/// Runs the test that calls this in another process, in which it gives true.
#[cfg(target_os = "linux")]
fn in_a_process_of_its_own(test: &str) -> bool {
    const INSIDE: &str = "TEST_IN_A_PROCESS_OF_ITS_OWN";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", &format!("waiting::{test}")]).env(INSIDE, "yes").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    false
}
