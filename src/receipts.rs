//! The receipts of completed Claude turns: one private JSON file for each project.
//!
//! Claude's transcripts do not say when a turn is over. The Stop hook does, and leaves a receipt for every turn it has
//! captured: who said it, the digests of both texts, and when it completed. A receipt is what an Observer takes as the
//! proof of completion, so nothing here is guessed: a file that is not exactly a store is an error, and a [`Store`]
//! cannot be made that would not be read back.
//!
//! Sequence numbers run without a gap from the history floor on, so they are not kept: a receipt's sequence follows
//! from its place. At most [`LIMIT`] receipts are retained; beyond that the newest [`RETAINED`] stay and the floor
//! moves.
//!
//! ```
//! use throughline::receipts::{Place, Receipt, SessionId};
//! use throughline_parsers::text::Digest;
//!
//! let state = tempfile::tempdir()?;
//! let place = Place::new(state.path(), Digest::of("/home/me/project"));
//! assert!(place.load()?.is_none());
//!
//! let session = SessionId::new("5bb9…").ok_or("an empty id")?;
//! let receipt = Receipt::new(session.clone(), session, Digest::of("hi"), Digest::of("hello"), 1_770_000_000_000)
//!     .ok_or("a time before the epoch")?;
//! assert_eq!(place.lock()?.append([receipt.clone(), receipt])?, 1);
//! assert_eq!(place.load()?.ok_or("no store")?.next_sequence(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use throughline_parsers::json::{self, Bad, MAX_WHOLE, Reader, Value};
use throughline_parsers::text::{self, Digest};

use crate::lock::{self, Lock};
use crate::private_file::{self, Durability};

/// The most receipts a store holds.
pub const LIMIT: usize = 256;
/// How many of them stay when one more arrives.
pub const RETAINED: usize = 128;

const SCHEMA: &str = "throughline.completed_turn_receipts.v1";
const RECEIPT_SCHEMA: &str = "1.0";
const HOST: &str = "claude";
const ID_UNITS: usize = 4096;
/// What stands behind the project's digest in the name of its store, and in that of its lock.
const STORE: &str = ".json";
const LOCK: &str = ".json.lock.sqlite";

/// Why receipts could not be read or written. The text never holds a path, an id or a digest.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or its directory is not private, or the system refused.
    #[error("the receipt store could not be used: {0}")]
    File(#[from] private_file::Error),
    /// The file is not a receipt store of this project.
    #[error("the receipt store is invalid")]
    Invalid,
    /// Another writer kept the lock for too long, or there is no lock to be had.
    #[error("the receipt store could not be locked")]
    Lock,
    /// All sequence numbers are used up.
    #[error("the receipt store is full")]
    Full,
}

impl From<lock::Error> for Error {
    fn from(error: lock::Error) -> Self {
        match error {
            lock::Error::File(error) => Self::File(error),
            lock::Error::Held => Self::Lock,
        }
    }
}

/// Where the receipts of one project are.
#[derive(Clone, Debug)]
pub struct Place {
    project: Digest,
    directory: PathBuf,
}

impl Place {
    /// The place for the project of this digest, below the user's state directory (`$XDG_STATE_HOME`).
    #[must_use]
    pub fn new(state_home: &Path, project: Digest) -> Place {
        Place { project, directory: Place::directory(state_home) }
    }

    /// The directory of all stores, below the user's state directory.
    #[must_use]
    pub fn directory(state_home: &Path) -> PathBuf {
        state_home.join("throughline/completed-turn-receipts")
    }

    /// The places of all projects that have a store, in the order of their digests.
    ///
    /// # Errors
    ///
    /// The directory is there and cannot be listed.
    pub fn all(state_home: &Path) -> io::Result<Vec<Place>> {
        let project = |name: OsString| Digest::from_hex(name.to_str()?.strip_suffix(STORE)?);
        let mut projects: Vec<Digest> = names(&Place::directory(state_home))?.into_iter().filter_map(project).collect();
        projects.sort_unstable();
        Ok(projects.into_iter().map(|project| Place::new(state_home, project)).collect())
    }

    /// The stores of all projects, and their locks, in no order.
    #[must_use]
    pub fn files(state_home: &Path) -> Vec<PathBuf> {
        let directory = Place::directory(state_home);
        let is_ours = |name: &OsString| {
            let name = name.to_str().unwrap_or_default();
            let project = name.strip_suffix(STORE).or_else(|| name.strip_suffix(LOCK));
            project.and_then(Digest::from_hex).is_some()
        };
        let names = names(&directory).unwrap_or_default();
        names.into_iter().filter(is_ours).map(|name| directory.join(name)).collect()
    }

    /// The digest of the project's path.
    #[must_use]
    pub fn project(&self) -> Digest {
        self.project
    }

    /// The path of the store.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(format!("{}{STORE}", self.project))
    }

    /// Reads the store; `None` if the project has none.
    ///
    /// # Errors
    ///
    /// The store or its directory is not private, cannot be read, or is not exactly a store of this project.
    pub fn load(&self) -> Result<Option<Store>, Error> {
        match private_file::read_private(&self.path())? {
            Some(text) => Ok(Some(Store::parse(self.project, &text)?)),
            None => Ok(None),
        }
    }

    /// Waits for its turn to write, at most five seconds, and reads the store. Nobody else writes to it while the
    /// guard lives.
    ///
    /// # Errors
    ///
    /// As for [`Place::load`]; the lock or its directory is not private, or the lock is not to be had.
    pub fn lock(&self) -> Result<Locked<'_>, Error> {
        private_file::ensure_directory(&self.directory)?;
        let lock = Lock::of(&self.path())?;
        let store = self.load()?.unwrap_or_else(|| Store::empty(self.project));
        Ok(Locked { place: self, store, _lock: lock })
    }
}

/// The right to write to a store, until it is dropped.
#[derive(Debug)]
pub struct Locked<'a> {
    place: &'a Place,
    store: Store,
    _lock: Lock,
}

impl Locked<'_> {
    /// The store as it is now.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Appends the receipts whose pair has none yet, all in one replacement of the file, and tells how many they were.
    ///
    /// # Errors
    ///
    /// The file could not be replaced: then nothing was appended, here or there.
    pub fn append(&mut self, receipts: impl IntoIterator<Item = Receipt>) -> Result<usize, Error> {
        let mut store = self.store.clone();
        let mut appended = 0;
        for receipt in receipts {
            appended += usize::from(store.push(receipt)?);
        }
        if appended > 0 {
            private_file::replace(&self.place.path(), &store.to_json(), Durability::Synced)?;
            self.store = store;
        }
        Ok(appended)
    }
}

/// The retained receipts of one project, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    project: Digest,
    history_floor: i64,
    receipts: Vec<Receipt>,
}

impl Store {
    /// The store of a project without receipts.
    #[must_use]
    pub fn empty(project: Digest) -> Store {
        Store { project, history_floor: 1, receipts: Vec::new() }
    }

    /// Reads the text of a store that has to be this project's.
    ///
    /// # Errors
    ///
    /// It is anything else than exactly that.
    pub fn parse(project: Digest, text: &[u8]) -> Result<Store, Error> {
        parse_store(project, text).ok_or(Error::Invalid)
    }

    /// The sequence of the oldest retained receipt.
    #[must_use]
    pub fn history_floor(&self) -> i64 {
        self.history_floor
    }

    /// The sequence that the next receipt will get.
    #[must_use]
    pub fn next_sequence(&self) -> i64 {
        self.sequence(self.receipts.len())
    }

    /// The retained receipts, oldest first.
    #[must_use]
    pub fn receipts(&self) -> &[Receipt] {
        &self.receipts
    }

    /// The retained receipts with their sequences, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = (i64, &Receipt)> {
        (self.history_floor..).zip(&self.receipts)
    }

    /// Takes the receipt in unless its pair has one, and tells whether it did.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] when there is no sequence number left.
    pub fn push(&mut self, receipt: Receipt) -> Result<bool, Error> {
        if self.receipts.iter().any(|other| other.pair() == receipt.pair()) {
            return Ok(false);
        }
        if self.next_sequence() >= MAX_WHOLE {
            return Err(Error::Full);
        }
        self.receipts.push(receipt);
        if self.receipts.len() > LIMIT {
            let dropped = self.receipts.len() - RETAINED;
            self.history_floor = self.sequence(dropped);
            self.receipts.drain(..dropped);
        }
        Ok(true)
    }

    fn sequence(&self, place: usize) -> i64 {
        self.history_floor + place as i64
    }

    fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(&StoreJson {
            schema: SCHEMA,
            project_sha256: Hex(self.project),
            next_sequence: self.next_sequence(),
            history_floor: self.history_floor,
            receipts: self.entries().map(|entry| self.receipt_json(entry)).collect(),
        })
        .expect("strings and numbers always have a JSON spelling")
    }

    fn receipt_json<'a>(&self, (sequence, receipt): (i64, &'a Receipt)) -> ReceiptJson<'a> {
        ReceiptJson {
            schema_version: RECEIPT_SCHEMA,
            host: HOST,
            project_sha256: Hex(self.project),
            target_session_id: receipt.target.as_str(),
            origin_session_id: receipt.origin.as_str(),
            user_sha256: Hex(receipt.user),
            assistant_sha256: Hex(receipt.assistant),
            completed_at: receipt.completed_at,
            sequence,
        }
    }
}

/// The proof that one turn completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    target: SessionId,
    origin: SessionId,
    user: Digest,
    assistant: Digest,
    completed_at: i64,
}

impl Receipt {
    /// A receipt for the pair of these two body digests, said in `origin`, kept under `target`, completed at this time
    /// in milliseconds; `None` if that is no such time.
    #[must_use]
    pub fn new(
        target: SessionId,
        origin: SessionId,
        user: Digest,
        assistant: Digest,
        completed_at: i64,
    ) -> Option<Receipt> {
        (0..=MAX_WHOLE).contains(&completed_at).then_some(Receipt { target, origin, user, assistant, completed_at })
    }

    /// The session that the turn belongs to.
    #[must_use]
    pub fn target(&self) -> &SessionId {
        &self.target
    }

    /// The session in which the turn was said: another one than the target where sessions were merged.
    #[must_use]
    pub fn origin(&self) -> &SessionId {
        &self.origin
    }

    /// The digest of the user's text.
    #[must_use]
    pub fn user(&self) -> Digest {
        self.user
    }

    /// The digest of the assistant's text.
    #[must_use]
    pub fn assistant(&self) -> Digest {
        self.assistant
    }

    /// When the turn completed, in milliseconds since the epoch.
    #[must_use]
    pub fn completed_at(&self) -> i64 {
        self.completed_at
    }

    /// What may be in a store only once.
    fn pair(&self) -> (&SessionId, Digest, Digest) {
        (&self.origin, self.user, self.assistant)
    }
}

/// The id of a session: 1 to 4096 UTF-16 units.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// The id, if it is one.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Option<SessionId> {
        let id = id.into();
        (1..=ID_UNITS).contains(&text::utf16_len(&id)).then_some(SessionId(id))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Serialize)]
struct StoreJson<'a> {
    schema: &'static str,
    project_sha256: Hex,
    next_sequence: i64,
    history_floor: i64,
    receipts: Vec<ReceiptJson<'a>>,
}

/// A digest as the store spells it.
struct Hex(Digest);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[derive(Serialize)]
struct ReceiptJson<'a> {
    schema_version: &'static str,
    host: &'static str,
    project_sha256: Hex,
    target_session_id: &'a str,
    origin_session_id: &'a str,
    user_sha256: Hex,
    assistant_sha256: Hex,
    completed_at: i64,
    sequence: i64,
}

/// The names in a directory; none when there is no such directory.
fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => Ok(entries?.flatten().map(|entry| entry.file_name()).collect()),
    }
}

fn parse_store(project: Digest, text: &[u8]) -> Option<Store> {
    let keys = ["schema", "project_sha256", "next_sequence", "history_floor", "receipts"];
    let [schema, owner, next_sequence, history_floor, receipts] =
        json::document_by(text, |reader| exactly(reader, keys)).ok()?;
    let mut store = Store { project, history_floor: history_floor.whole()?, receipts: Vec::with_capacity(LIMIT) };
    if schema.text()? != SCHEMA || Digest::from_hex(&owner.text()?)? != project || store.history_floor < 1 {
        return None;
    }
    let receipt = |reader: &mut Reader<'_>| {
        let receipt = parse_receipt(&store, exactly(reader, RECEIPT_KEYS)?);
        store.receipts.push(receipt.filter(|_| store.receipts.len() < LIMIT).ok_or(Bad)?);
        Ok(())
    };
    receipts.array()?.read(receipt).ok()?;
    let mut pairs = HashSet::with_capacity(LIMIT);
    let unique = store.receipts.iter().all(|receipt| pairs.insert(receipt.pair()));
    (unique && next_sequence.whole()? == store.next_sequence()).then_some(store)
}

const RECEIPT_KEYS: [&str; 9] = [
    "schema_version",
    "host",
    "project_sha256",
    "target_session_id",
    "origin_session_id",
    "user_sha256",
    "assistant_sha256",
    "completed_at",
    "sequence",
];

/// The receipt with these values, if it comes next in this store.
fn parse_receipt(store: &Store, values: [Value<'_>; RECEIPT_KEYS.len()]) -> Option<Receipt> {
    let [schema, host, owner, target, origin, user, assistant, completed_at, sequence] = values;
    let in_place = schema.text()? == RECEIPT_SCHEMA
        && host.text()? == HOST
        && Digest::from_hex(&owner.text()?)? == store.project
        && sequence.whole()? == store.next_sequence();
    if !in_place {
        return None;
    }
    Receipt::new(
        SessionId::new(target.text()?)?,
        SessionId::new(origin.text()?)?,
        Digest::from_hex(&user.text()?)?,
        Digest::from_hex(&assistant.text()?)?,
        completed_at.whole()?,
    )
}

/// The values of the object that begins here, which has these keys and no others; of equal keys the last counts.
fn exactly<'a, const N: usize>(reader: &mut Reader<'a>, keys: [&str; N]) -> Result<[Value<'a>; N], Bad> {
    let mut values = [None; N];
    reader.object(|key, reader| {
        let place = keys.iter().position(|known| *key.name() == *known.as_bytes()).ok_or(Bad)?;
        values[place] = Some(reader.value()?);
        Ok(())
    })?;
    // What is no object has no keys.
    match values.iter().any(Option::is_none) {
        true => Err(Bad),
        false => Ok(values.map(|value| value.expect("every key was found"))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::Duration;
    use tempfile::TempDir;

    fn place() -> (TempDir, Place) {
        let state = TempDir::new().unwrap();
        let place = Place::new(state.path(), Digest::of("/project"));
        (state, place)
    }

    fn receipt(session: &str, n: usize) -> Receipt {
        let session = SessionId::new(session).unwrap();
        let (user, assistant) = (Digest::of(&format!("ask {n}")), Digest::of(&format!("answer {n}")));
        Receipt::new(session.clone(), session, user, assistant, n as i64).unwrap()
    }

    fn append(place: &Place, receipts: impl IntoIterator<Item = Receipt>) -> usize {
        place.lock().unwrap().append(receipts).unwrap()
    }

    fn lock_path(place: &Place) -> PathBuf {
        PathBuf::from(format!("{}.lock.sqlite", place.path().display()))
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A valid store of `/project` as text, made of pieces that a test can replace.
    fn text() -> String {
        let project = Digest::of("/project");
        let receipt = |n: usize| {
            format!(
                r#"{{"schema_version":"1.0","host":"claude","project_sha256":"{project}","target_session_id":"t","origin_session_id":"o","user_sha256":"{}","assistant_sha256":"{}","completed_at":1{n},"sequence":{n}}}"#,
                Digest::of("ask"),
                Digest::of(&n.to_string()),
            )
        };
        format!(
            r#"{{"schema":"throughline.completed_turn_receipts.v1","project_sha256":"{project}","next_sequence":9,"history_floor":7,"receipts":[{},{}]}}"#,
            receipt(7),
            receipt(8)
        )
    }

    fn parse(text: &str) -> Result<Store, Error> {
        Store::parse(Digest::of("/project"), text.as_bytes())
    }

    #[test]
    fn an_absent_store_is_none_and_makes_nothing() {
        let (state, place) = place();
        assert_eq!(place.load().unwrap(), None);
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_files_are_where_the_format_puts_them_and_private() {
        let (state, place) = place();
        assert_eq!(append(&place, [receipt("s", 1)]), 1);
        let directory = state.path().join("throughline/completed-turn-receipts");
        let store = directory.join(format!("{}.json", Digest::of("/project")));
        assert_eq!(place.path(), store);
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&store), 0o600);
        assert_eq!(mode(&lock_path(&place)), 0o600);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
    }

    #[test]
    fn the_text_is_spelled_in_the_order_of_the_format() {
        let store = parse(&text()).unwrap();
        assert_eq!(String::from_utf8(store.to_json()).unwrap(), text());
        assert_eq!((store.history_floor(), store.next_sequence()), (7, 9));
        let sequences: Vec<i64> = store.entries().map(|(sequence, _)| sequence).collect();
        assert_eq!(sequences, [7, 8]);
    }

    #[test]
    fn other_spellings_of_the_same_store_are_read() {
        let with = |from: &str, to: &str| parse(&text().replace(from, to)).unwrap();
        let store = parse(&text()).unwrap();
        assert_eq!(with(r#""history_floor":7"#, r#""history_floor":7.0"#), store);
        assert_eq!(with(r#""sequence":8"#, r#""sequence":0.8e1"#), store);
        assert_eq!(with(r#""host""#, r#""h\u006fst""#), store);
        assert_eq!(with(r#"{"schema":"#, r#" { "schema":"other", "schema":"#), store);
    }

    #[test]
    fn of_equal_keys_the_last_counts() {
        let same = [
            (r#"{"schema":"#, r#"{"receipts":[{"sequence":1,"more":null}],"schema":"#),
            (r#"{"schema":"#, r#"{"receipts":5,"next_sequence":"x","schema":"#),
            (r#""host":"claude""#, r#""host":{"is":"none"},"host":"claude""#),
            (r#""host":"claude""#, r#""h\u006fst":"claude""#),
        ];
        for (from, to) in same {
            assert!(text().contains(from), "{from}");
            assert_eq!(parse(&text().replacen(from, to, 1)).unwrap(), parse(&text()).unwrap(), "{from} → {to}");
        }
        for broken in [r#"{"receipts":[{"sequence":}],"schema":"#, r#"{"schema":5,"receipts":[]]"#] {
            assert!(matches!(parse(&text().replacen(r#"{"schema":"#, broken, 1)), Err(Error::Invalid)), "{broken}");
        }
    }

    #[test]
    fn what_is_not_exactly_a_store_is_invalid() {
        let changes = [
            (r#"{"schema":"#, r#"{"more":1,"schema":"#),
            (r#""schema":"throughline.completed_turn_receipts.v1","#, ""),
            (r#"{"schema":"#, "\u{feff}{\"schema\":"),
            ("receipts.v1", "receipts.v2"),
            (r#""next_sequence":9"#, r#""next_sequence":10"#),
            (r#""next_sequence":9"#, r#""next_sequence":"9""#),
            (r#""history_floor":7"#, r#""history_floor":0"#),
            (r#""sequence":8"#, r#""sequence":7"#),
            (r#""sequence":8"#, r#""sequence":8.5"#),
            (r#""sequence":8"#, r#""sequence":8,"more":null"#),
            (r#""schema_version":"1.0""#, r#""schema_version":1.0"#),
            (r#""host":"claude""#, r#""host":"codex""#),
            (r#""target_session_id":"t""#, r#""target_session_id":"""#),
            (r#""origin_session_id":"o""#, r#""origin_session_id":null"#),
            (r#""completed_at":17"#, r#""completed_at":-1"#),
            (r#""completed_at":17"#, r#""completed_at":9007199254740992"#),
            (r#""completed_at":17"#, r#""completed_at":NaN"#),
            ("]}", "]}]"),
            ("]}", "]"),
        ];
        for (from, to) in changes {
            assert!(text().contains(from), "{from}");
            assert!(matches!(parse(&text().replacen(from, to, 1)), Err(Error::Invalid)), "{from} → {to}");
        }
        let twice = text().replace(&Digest::of("8").to_string(), &Digest::of("7").to_string());
        assert!(matches!(parse(&twice), Err(Error::Invalid)));
        let upper = text().replace(&Digest::of("ask").to_string(), &Digest::of("ask").to_string().to_uppercase());
        assert!(matches!(parse(&upper), Err(Error::Invalid)));
        for text in ["", "null", "[]", "{}", "\0"] {
            assert!(matches!(parse(text), Err(Error::Invalid)), "{text:?}");
        }
        assert!(matches!(Store::parse(Digest::of("/other"), text().as_bytes()), Err(Error::Invalid)));
    }

    #[test]
    fn ids_are_counted_in_utf16_units() {
        assert!(SessionId::new("🚀".repeat(2048)).is_some());
        assert!(SessionId::new("🚀".repeat(2048) + "x").is_none());
        assert!(SessionId::new("é".repeat(4096)).is_some());
        assert!(SessionId::new("").is_none());
    }

    #[test]
    fn a_pair_has_one_receipt_per_origin() {
        let (_state, place) = place();
        let other_time = Receipt { completed_at: 99, ..receipt("s", 1) };
        assert_eq!(append(&place, [receipt("s", 1), receipt("s", 2), receipt("s", 1)]), 2);
        let before = fs::metadata(place.path()).unwrap().modified().unwrap();
        assert_eq!(append(&place, [other_time]), 0);
        assert_eq!(fs::metadata(place.path()).unwrap().modified().unwrap(), before, "nothing new, nothing written");
        assert_eq!(append(&place, [receipt("other", 1)]), 1);
        assert_eq!(place.load().unwrap().unwrap().next_sequence(), 4);
    }

    #[test]
    fn the_newest_half_stays_when_the_store_is_full() {
        let (_state, place) = place();
        assert_eq!(append(&place, (1..=LIMIT).map(|n| receipt("s", n))), LIMIT);
        let full = place.load().unwrap().unwrap();
        assert_eq!((full.history_floor(), full.next_sequence(), full.receipts().len()), (1, 257, 256));
        assert_eq!(append(&place, [receipt("s", 257)]), 1);
        let halved = place.load().unwrap().unwrap();
        assert_eq!((halved.history_floor(), halved.next_sequence(), halved.receipts().len()), (130, 258, 128));
        assert_eq!(halved.receipts().first(), Some(&receipt("s", 130)));
        assert_eq!(halved.receipts().last(), Some(&receipt("s", 257)));
        assert_eq!(append(&place, [receipt("s", 1)]), 1, "a dropped receipt is not remembered");
    }

    #[test]
    fn many_at_once_are_as_many_one_by_one() {
        let (_state, place) = place();
        append(&place, (0..700).map(|n| receipt("s", n)));
        let mut one_by_one = Store::empty(Digest::of("/project"));
        for n in 0..700 {
            one_by_one = Store::parse(one_by_one.project, &one_by_one.to_json()).unwrap();
            assert!(one_by_one.push(receipt("s", n)).unwrap());
        }
        assert_eq!(place.load().unwrap(), Some(one_by_one));
    }

    #[test]
    fn a_store_that_is_not_private_is_neither_read_nor_written() {
        let (_state, place) = place();
        append(&place, [receipt("s", 1)]);
        let refused = || assert!(place.load().is_err() && place.lock().is_err());
        set_mode(&place.path(), 0o644);
        refused();
        set_mode(&place.path(), 0o600);
        set_mode(&place.directory, 0o755);
        refused();
        set_mode(&place.directory, 0o700);
        let moved = place.directory.join("moved");
        fs::rename(place.path(), &moved).unwrap();
        symlink(&moved, place.path()).unwrap();
        refused();
        assert!(fs::symlink_metadata(place.path()).unwrap().is_symlink(), "not replaced either");
    }

    #[test]
    fn a_lock_that_is_not_private_is_refused() {
        let (_state, place) = place();
        append(&place, [receipt("s", 1)]);
        let lock = lock_path(&place);
        set_mode(&lock, 0o644);
        assert!(place.lock().is_err());
        assert_eq!(mode(&lock), 0o644);
        fs::remove_file(&lock).unwrap();
        symlink(place.path(), &lock).unwrap();
        assert!(place.lock().is_err());
    }

    #[test]
    fn an_invalid_store_is_not_overwritten() {
        let (_state, place) = place();
        append(&place, [receipt("s", 1)]);
        fs::write(place.path(), "{}").unwrap();
        assert!(matches!(place.lock(), Err(Error::Invalid)));
        assert_eq!(fs::read(place.path()).unwrap(), b"{}");
    }

    #[test]
    fn writers_take_turns() {
        let (_state, place) = place();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let place = &place;
                scope.spawn(move || {
                    for n in 0..10 {
                        assert_eq!(append(place, [receipt(&format!("writer {writer}"), n)]), 1);
                    }
                });
            }
        });
        let store = place.load().unwrap().unwrap();
        assert_eq!(store.receipts().len(), 40);
        for writer in 0..4 {
            let own = store.receipts().iter().filter(|r| r.origin().as_str() == format!("writer {writer}"));
            assert!(own.map(Receipt::completed_at).eq(0..10), "each writer's receipts are in its order");
        }
    }

    #[test]
    fn another_process_waits_for_the_lock() {
        const PLACE: &str = "RECEIPTS_TEST_STATE";
        let name = "receipts::tests::another_process_waits_for_the_lock";
        if let Some(state) = std::env::var_os(PLACE) {
            append(&Place::new(Path::new(&state), Digest::of("/project")), [receipt("child", 1)]);
            return;
        }
        let (state, place) = place();
        let mut locked = place.lock().unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(PLACE, state.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none(), "it waits");
        locked.append([receipt("parent", 1)]).unwrap();
        drop(locked);
        assert!(child.wait().unwrap().success());
        let store = place.load().unwrap().unwrap();
        let origins: Vec<&str> = store.receipts().iter().map(|r| r.origin().as_str()).collect();
        assert_eq!(origins, ["parent", "child"]);
    }

    #[test]
    fn no_error_tells_what_it_is_about() {
        let (_state, place) = place();
        append(&place, [receipt("secret", 1)]);
        set_mode(&place.path(), 0o644);
        let message = place.load().unwrap_err().to_string();
        assert_eq!(message, "the receipt store could not be used: a file or directory is not private");
    }
}
