//! Working directories that rollouts name, resolved without waiting for one that does not answer.
//!
//! Following a path touches the file systems on the way, and one of these can be dead (a mount whose server is gone): then
//! the call does not come back. So it is made on another thread, which is left behind if it has to be.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::cores::elsewhere;
use crate::paths::Resolved;

/// How long one path is waited for.
const PATIENCE: Duration = Duration::from_millis(200);

/// Where each path leads; `None` for one that is no project's. Those that do not answer are not in there.
pub type Places<T = Resolved> = HashMap<String, Option<T>>;

/// Work that need not be done, and may be left behind.
pub type Then = Box<dyn FnOnce() + Send>;

/// Follows a path.
type Resolve<T> = fn(&str) -> Option<T>;

/// Paths that are being resolved.
#[derive(Debug)]
pub struct Resolving<T = Resolved> {
    paths: Vec<String>,
    answers: Arc<Answers<T>>,
    resolve: Resolve<T>,
}

/// The answers of one thread. Whoever waits is woken by the last one only: each time takes longer than to follow a path.
#[derive(Debug)]
struct Answers<T> {
    all: usize,
    so_far: Mutex<Answered<T>>,
    last: Condvar,
}

#[derive(Debug)]
struct Answered<T> {
    places: Vec<(usize, Option<T>)>,
    /// When the last of these came, or the first path was asked for.
    at: Instant,
}

impl<T> Answers<T> {
    fn add(&self, n: usize, place: Option<T>) {
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        so_far.places.push((n, place));
        so_far.at = Instant::now();
        if so_far.places.len() == self.all {
            self.last.notify_all();
        }
    }

    /// Waits until all have come, or none for too long. Gives those that have.
    fn wait(&self) -> Vec<(usize, Option<T>)> {
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        while so_far.places.len() < self.all
            && let Some(left) = PATIENCE.checked_sub(so_far.at.elapsed())
        {
            so_far = self.last.wait_timeout(so_far, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut so_far.places)
    }
}

impl Resolving {
    /// Begins with these paths.
    pub fn start(paths: Vec<String>) -> Self {
        Self::start_then(paths, None)
    }

    /// The same, and when they have answered, the thread that was started for them does something else yet.
    pub fn start_then(paths: Vec<String>, then: Option<Then>) -> Self {
        Self::start_all(paths, |path| Resolved::new(Path::new(path)), then)
    }
}

impl<T: Send + 'static> Resolving<T> {
    /// Begins with these paths, each to be followed so.
    pub fn start_with(paths: Vec<String>, resolve: Resolve<T>) -> Self {
        Self::start_all(paths, resolve, None)
    }

    fn start_all(paths: Vec<String>, resolve: Resolve<T>, then: Option<Then>) -> Self {
        let so_far = Mutex::new(Answered { places: Vec::new(), at: Instant::now() });
        let answers = Arc::new(Answers { all: paths.len(), so_far, last: Condvar::new() });
        let (of_thread, to_answer) = (paths.clone(), Arc::clone(&answers));
        if !paths.is_empty() || then.is_some() {
            thread::spawn(elsewhere(move || {
                for (n, path) in of_thread.iter().enumerate() {
                    to_answer.add(n, resolve(path));
                }
                then.into_iter().for_each(|then| then());
            }));
        }
        Self { paths, answers, resolve }
    }

    /// Waits for the answers.
    pub fn wait(self) -> Places<T> {
        let by_path = |(n, place): (usize, Option<T>)| (self.paths[n].clone(), place);
        let mut places: Places<T> = self.answers.wait().into_iter().map(by_path).collect();
        // The next one is stuck, if not all have come. What is behind it may answer at once, so each of these is asked by
        // itself.
        let left: Vec<String> = self.paths.iter().filter(|path| !places.contains_key(*path)).skip(1).cloned().collect();
        if !left.is_empty() {
            let others = each_alone(left, self.resolve);
            // By now it may have come after all.
            let late = self.answers.so_far.lock().unwrap_or_else(PoisonError::into_inner).places.split_off(0);
            places.extend(late.into_iter().map(by_path));
            places.extend(others);
        }
        places
    }
}

/// Asks for each of the paths on a thread of its own, until none has answered for a while.
fn each_alone<T: Send + 'static>(paths: Vec<String>, resolve: Resolve<T>) -> Places<T> {
    let (sender, answers) = mpsc::channel();
    for path in paths {
        let sender = sender.clone();
        thread::spawn(move || {
            let place = resolve(&path);
            let _ = sender.send((path, place));
        });
    }
    drop(sender);
    let mut places = Places::new();
    while let Ok((path, place)) = answers.recv_timeout(PATIENCE) {
        places.insert(path, place);
    }
    places
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Instant;

    #[test]
    fn each_path_leads_somewhere() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("a").to_str().unwrap().to_owned();
        let paths = vec![inside.clone(), "relative".to_owned(), "/".to_owned()];
        let places = Resolving::start(paths.clone()).wait();
        assert_eq!(places.len(), 3);
        assert!(places[&inside].as_ref().unwrap().is_inside(&Resolved::new(folder.path()).unwrap()));
        assert_eq!(places["relative"], None);
        assert_eq!(each_alone(paths, |path| Resolved::new(Path::new(path))), places);
        assert!(Resolving::start(Vec::new()).wait().is_empty());
    }

    /// Resolves a path as that of a file system which takes as many milliseconds as the last component says.
    fn slowly(path: &str) -> Option<Resolved> {
        let slow = path.rsplit('/').next().and_then(|millis| millis.parse().ok()).unwrap_or(0);
        thread::sleep(Duration::from_millis(slow));
        Some(Resolved::from_saved(path.as_bytes()))
    }

    fn resolved(paths: &[&str]) -> (Vec<String>, Duration) {
        let began = Instant::now();
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let mut found: Vec<String> = Resolving::start_with(paths, slowly).wait().into_keys().collect();
        found.sort();
        (found, began.elapsed())
    }

    #[test]
    fn one_that_hangs_is_left_out_and_the_others_are_not() {
        for (paths, found) in [
            (&["/dead/60000"][..], &[][..]),
            (&["/a", "/dead/60000", "/b", "/c"], &["/a", "/b", "/c"]),
            (&["/dead/60000", "/dead/60001", "/b", "/dead/60002"], &["/b"]),
            (&["/a", "/b", "/dead/60000"], &["/a", "/b"]),
            (&["/a", "/a", "/b"], &["/a", "/b"]),
        ] {
            let (answered, took) = resolved(paths);
            assert_eq!(answered, found, "{paths:?}");
            // On a busy machine a thread may have to wait.
            assert!(took < Duration::from_secs(5), "{paths:?} took {took:?}");
        }
    }

    #[test]
    fn slow_ones_are_waited_for_one_by_one() {
        // Together they take longer than one is waited for.
        let (found, _) = resolved(&["/slow/90", "/slow/91", "/slow/92", "/slow/93"]);
        assert_eq!(found.len(), 4);
        // Behind one that hangs, too: each answer shows that there are more to come.
        let (found, _) = resolved(&["/dead/60000", "/slow/100", "/slow/101", "/slow/180", "/slow/250", "/slow/330"]);
        assert_eq!(found.len(), 5);
        // The one that hung has answered meanwhile.
        let (found, _) = resolved(&["/slow/320", "/slow/190", "/slow/0"]);
        assert_eq!(found.len(), 3);
    }
}
