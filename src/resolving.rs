//! Working directories that rollouts name, resolved without waiting for one that does not answer.
//!
//! Following a path touches the file systems on the way, and one of these can be dead (a mount whose server is gone): then
//! the call does not come back. So it is made on another thread, which is left behind if it has to be.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::paths::Resolved;

/// How long one path is waited for.
const PATIENCE: Duration = Duration::from_millis(200);

/// Where each path leads; `None` for one that is no project's. Those that do not answer are not in there.
pub type Places = HashMap<String, Option<Resolved>>;

/// Paths that are being resolved.
#[derive(Debug)]
pub struct Resolving {
    paths: Vec<String>,
    answers: Receiver<(usize, Option<Resolved>)>,
}

impl Resolving {
    /// Begins with these paths.
    pub fn start(paths: Vec<String>) -> Self {
        let (sender, answers) = mpsc::channel();
        let of_thread = paths.clone();
        if !paths.is_empty() {
            thread::spawn(move || {
                for (n, path) in of_thread.iter().enumerate() {
                    // Nobody listens any more when it has taken too long.
                    let _ = sender.send((n, Resolved::new(Path::new(path))));
                }
            });
        }
        Self { paths, answers }
    }

    /// Waits for the answers.
    pub fn wait(self) -> Places {
        let mut places = Places::new();
        while places.len() < self.paths.len() {
            match self.answers.recv_timeout(PATIENCE) {
                Ok((n, place)) => drop(places.insert(self.paths[n].clone(), place)),
                // The next one is stuck. What is behind it may answer at once, so each of these is asked by itself.
                Err(_) => {
                    let left = self.paths.into_iter().filter(|path| !places.contains_key(path)).skip(1);
                    places.extend(each_alone(left.collect()));
                    return places;
                }
            }
        }
        places
    }
}

fn each_alone(paths: Vec<String>) -> Places {
    let (sender, answers) = mpsc::channel();
    for path in paths {
        let sender = sender.clone();
        thread::spawn(move || {
            let place = Resolved::new(Path::new(&path));
            let _ = sender.send((path, place));
        });
    }
    drop(sender);
    let (mut places, until) = (Places::new(), Instant::now() + PATIENCE);
    while let Ok((path, place)) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
        places.insert(path, place);
    }
    places
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_path_leads_somewhere() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("a").to_str().unwrap().to_owned();
        let paths = vec![inside.clone(), "relative".to_owned(), "/".to_owned()];
        let places = Resolving::start(paths.clone()).wait();
        assert_eq!(places.len(), 3);
        assert!(places[&inside].as_ref().unwrap().is_inside(&Resolved::new(folder.path()).unwrap()));
        assert_eq!(places["relative"], None);
        assert_eq!(each_alone(paths), places);
        assert!(Resolving::start(Vec::new()).wait().is_empty());
    }
}
