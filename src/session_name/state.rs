//! What is kept of a session's name: one private JSON file for each session, changed under a lock.
//!
//! ```
//! use throughline::receipts::SessionId;
//! use throughline::session_name::state::{Place, State};
//! let state_home = tempfile::tempdir()?;
//! let session = SessionId::new("5bb9…").ok_or("an empty id")?;
//! let place = Place::of(state_home.path(), &session);
//! assert_eq!(place.load()?, None);
//! place.change(|state| *state = Some(State::new("Session - x".to_owned(), "x".to_owned())))?;
//! assert!(place.load()?.is_some_and(|state| state.is_pending()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use throughline_parsers::text::Digest;

use crate::lock::{self, Lock};
use crate::private_file::{self, Durability};
use crate::receipts::SessionId;

const SCHEMA: &str = "throughline.session_name_state.v1";
/// So often the end of a turn is refused before it is let go.
const MOST_BLOCKS: u32 = 5;

/// Why a state could not be read or written. The text never holds a path, an id or a name.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or its directory is not private, or the system refused.
    #[error("the state of the session's name could not be used: {0}")]
    File(#[from] private_file::Error),
    /// The file holds something else.
    #[error("the state of the session's name is invalid")]
    Invalid,
    /// Another process kept the lock for too long, or there is no lock to be had.
    #[error("the state of the session's name could not be locked")]
    Lock,
}

impl From<lock::Error> for Error {
    fn from(error: lock::Error) -> Self {
        match error {
            lock::Error::File(error) => Self::File(error),
            lock::Error::Held => Self::Lock,
        }
    }
}

/// What is kept of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    schema: String,
    /// Its name.
    pub name: String,
    /// What it works on.
    pub task: String,
    /// The name that was seen.
    seen_for: Option<String>,
    /// When, in milliseconds since the epoch.
    seen_at: Option<i64>,
    /// How often the end of the present turn was refused.
    remediation: u32,
}

impl State {
    /// A name that was not seen yet.
    pub fn new(name: String, task: String) -> Self {
        Self { schema: SCHEMA.to_owned(), name, task, seen_for: None, seen_at: None, remediation: 0 }
    }

    /// Whether the name was not seen yet.
    pub fn is_pending(&self) -> bool {
        self.seen_for.as_ref() != Some(&self.name)
    }

    /// This name was seen, in milliseconds since the epoch.
    pub fn see(&mut self, name: &str, at: i64) {
        if self.is_pending() && self.name == name {
            (self.seen_for, self.seen_at) = (Some(name.to_owned()), Some(at));
        }
    }

    /// Whether the end of the present turn was refused.
    pub fn was_refused(&self) -> bool {
        self.remediation > 0
    }

    /// The user's turn begins anew.
    pub fn begin_turn(&mut self) {
        self.remediation = 0;
    }

    /// Whether the end of the turn may be refused once more; if so, that is counted.
    pub fn refuse(&mut self) -> bool {
        let refuses = self.remediation < MOST_BLOCKS;
        self.remediation += u32::from(refuses);
        refuses
    }

    fn parse(text: &[u8]) -> Result<Self, Error> {
        let state: Self = serde_json::from_slice(text).map_err(|_| Error::Invalid)?;
        if state.schema == SCHEMA { Ok(state) } else { Err(Error::Invalid) }
    }
}

/// Where the state of one session is.
#[derive(Clone, Debug)]
pub struct Place {
    path: PathBuf,
}

impl Place {
    /// The place of this session, below the user's state directory (`$XDG_STATE_HOME`).
    pub fn of(state_home: &Path, session: &SessionId) -> Self {
        Self { path: directory(state_home).join(format!("{}.json", Digest::of(session.as_str()))) }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the state; `None` if the session has no name.
    ///
    /// # Errors
    ///
    /// It is not private, cannot be read, or is no state.
    pub fn load(&self) -> Result<Option<State>, Error> {
        private_file::read_private(&self.path)?.map(|text| State::parse(&text)).transpose()
    }

    /// Changes the state, while nobody else does.
    ///
    /// # Errors
    ///
    /// As for [`Place::load`]; the lock is not to be had, or the file cannot be replaced: then it is as it was.
    pub fn change<T>(&self, change: impl FnOnce(&mut Option<State>) -> T) -> Result<T, Error> {
        private_file::ensure_directory(self.path.parent().unwrap_or(Path::new("")))?;
        let _lock = Lock::of(&self.path)?;
        let before = self.load()?;
        let mut after = before.clone();
        let changed = change(&mut after);
        if let Some(state) = after.filter(|after| before.as_ref() != Some(after)) {
            let text = serde_json::to_vec(&state).expect("strings and numbers always have a JSON spelling");
            private_file::replace(&self.path, &text, Durability::Synced)?;
        }
        Ok(changed)
    }
}

/// The digest of a session's id in hex, and its state.
pub type Entry = (String, Result<State, Error>);

/// Every state there is, in the order of the digests.
///
/// # Errors
///
/// The folder cannot be listed.
pub fn all(state_home: &Path) -> Result<Vec<Entry>, Error> {
    let listed = match fs::read_dir(directory(state_home)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(private_file::Error::from)?,
    };
    let mut states = Vec::new();
    for entry in listed {
        let place = Place { path: entry.map_err(private_file::Error::from)?.path() };
        let name = place.path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json"));
        let digest = name.filter(|name| Digest::from_hex(name).is_some());
        // One that is gone meanwhile was none.
        states.extend(digest.and_then(|digest| Some((digest.to_owned(), place.load().transpose()?))));
    }
    states.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(states)
}

/// The folder of all states, below the user's state directory.
pub fn directory(state_home: &Path) -> PathBuf {
    state_home.join("throughline/session-names")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn place(state_home: &Path, session: &str) -> Place {
        Place::of(state_home, &SessionId::new(session).unwrap())
    }

    fn named(name: &str) -> State {
        State::new(name.to_owned(), "task".to_owned())
    }

    #[test]
    fn a_state_is_kept_private_under_the_digest_of_the_session() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path(), "s");
        place.change(|state| *state = Some(named("a"))).unwrap();
        let path = home.path().join(format!("throughline/session-names/{}.json", Digest::of("s")));
        let text = r#"{"schema":"throughline.session_name_state.v1","name":"a","task":"task","seen_for":null,"seen_at":null,"remediation":0}"#;
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!((place.path(), place.load().unwrap()), (&*path, Some(named("a"))));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn what_is_no_state_is_an_error_and_stays() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path(), "s");
        place.change(|state| *state = Some(named("a"))).unwrap();
        let whole = fs::read_to_string(place.path()).unwrap();
        for text in [
            "",
            "{}",
            &whole.replace("state.v1", "state.v2"),
            &whole.replace("\"name\":\"a\"", "\"name\":null"),
            &whole.replace("\"remediation\":0", "\"remediation\":-1"),
            &whole.replace("{", "{\"more\":1,"),
            &whole[1..],
        ] {
            fs::write(place.path(), text).unwrap();
            assert!(matches!(place.load(), Err(Error::Invalid)), "{text}");
            assert!(matches!(place.change(|state| *state = Some(named("b"))), Err(Error::Invalid)));
            assert_eq!(fs::read_to_string(place.path()).unwrap(), text);
        }
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(place.load(), Err(Error::File(private_file::Error::NotPrivate))));
    }

    #[test]
    fn a_name_is_pending_until_it_was_seen_itself() {
        let mut state = named("a");
        state.see("b", 1);
        assert!(state.is_pending());
        state.see("a", 2);
        assert!(!state.is_pending());
        state.see("a", 3);
        assert_eq!(state.seen_at, Some(2));
        state.name = "b".to_owned();
        assert!(state.is_pending());
    }

    #[test]
    fn a_turn_s_end_is_refused_five_times() {
        let mut state = named("a");
        for _ in 0..2 {
            assert!((0..5).all(|_| state.refuse()) && !state.refuse() && state.was_refused());
            state.begin_turn();
            assert!(!state.was_refused());
        }
    }

    #[test]
    fn all_states_are_listed_also_the_damaged() {
        let home = tempfile::tempdir().unwrap();
        assert!(all(home.path()).unwrap().is_empty());
        for session in ["a", "b", "c"] {
            place(home.path(), session).change(|state| *state = Some(named(session))).unwrap();
        }
        fs::write(place(home.path(), "b").path(), "x").unwrap();
        fs::write(place(home.path(), "b").path().with_file_name("x.json"), "x").unwrap();
        let listed = all(home.path()).unwrap();
        assert!(listed.is_sorted_by(|one, next| one.0 < next.0) && listed.len() == 3);
        let damaged = listed.iter().find(|(_, state)| state.is_err()).unwrap();
        assert_eq!(damaged.0, Digest::of("b").to_string());
    }
}
