//! Capture: the texts of Codex' threads go from their rollouts into the database.
//!
//! Hooks do this for the thread that calls them; [`threads`] does it for those that were written without hooks. (Claude's
//! transcripts get their bodies from the Stop hook only: without it nothing proves that a turn is complete.)

use std::thread;

use rusqlite::Connection;
use throughline_parsers::codex::Uuid;
use throughline_parsers::pack::{Pack, Packer, Unpacker};

use crate::clock::now_ms;
use crate::cores::elsewhere;
use crate::db::capture::{Capture, CodexTurn, END, Place, START, Sums};
use crate::db::{self, schema};
use crate::error::Error;
use crate::hosts::codex::captured::{self, Behind};
use crate::hosts::codex::session;
use crate::hosts::codex::texts::{Texts, Threads, TurnTexts};
use crate::paths::Resolved;
use crate::scan::checkpoint::Reader;
use crate::scan::file::Mapping;
use crate::stores::Stores;

/// Which threads are captured.
#[derive(Clone, Copy, Debug)]
pub enum Which<'w> {
    /// This one.
    Thread(Uuid),
    /// Those of a project.
    Project(&'w Resolved),
    /// All.
    All,
}

/// Why capture could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A store cannot be read.
    #[error(transparent)]
    Store(#[from] Error),
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] db::Error),
}

/// A thread that was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The thread.
    pub thread: Uuid,
    /// Its working directory.
    pub cwd: String,
    /// How many turns of it the database has now.
    pub turns: usize,
    /// Whether the database had others before.
    pub changed: bool,
}

/// Captures one thread, which has been captured before and will be again: what was stored and what was read are remembered,
/// and where they are still so, only what is new is read and compared.
///
/// # Errors
/// As for [`threads`].
pub fn thread(stores: &Stores, thread: Uuid, mapping: Mapping) -> Result<(), Failure> {
    let Some(cache) = &stores.cache else {
        return threads(stores, Which::Thread(thread), mapping, |_, _| {}).map(drop);
    };
    if go_on(stores, Reader::new(Some(cache), mapping), thread)? {
        return Ok(());
    }
    let mut threads = Threads::look(stores, mapping)?;
    let Some(texts) = threads.texts(thread)? else { return Ok(()) };
    let mut database = schema::open(&stores.database())?;
    let capture = Capture::begin(&mut database)?;
    let Some(texts) = of_now(texts, &mut threads)? else { return Ok(()) };
    store_within(&capture, &texts, now_ms())?;
    let note = texts.captured.as_ref().map(|captured| Note::default().of_now(&capture, captured)).transpose()?;
    capture.commit()?;
    if let (Some(captured), Some(note)) = (texts.captured, note) {
        captured.store(cache, &stores.sessions_root(), note.packed());
    }
    Ok(())
}

/// Goes on with a thread from where its last capture left it; false where that cannot be done, and it has to be read whole:
/// then every failure shows.
fn go_on(stores: &Stores, reader: Reader<'_>, thread: Uuid) -> Result<bool, Failure> {
    let root = stores.sessions_root();
    let Some(note) = captured::Captured::note(reader, &root, thread) else { return Ok(false) };
    // The log is read on while the database is opened.
    let read_on = || {
        let (known, found) = captured::Captured::load(reader, &root, thread)?;
        known.read_on(reader).ok()?.filter(|_| found == note)
    };
    thread::scope(|scope| {
        let log = scope.spawn(elsewhere(read_on));
        let mut database = schema::open(&stores.database())?;
        let capture = Capture::begin(&mut database)?;
        let session = session(thread);
        // Where the rows are those that the last capture left, nobody has stored more than was read now.
        let note = Note::unpack(&note).map(|note| Ok::<_, db::Error>(note.holds(&capture, &session)?.then_some(note)));
        let note = note.transpose()?.flatten();
        let (Some(note), Some((behind, known))) = (note, log.join().unwrap_or_default()) else { return Ok(false) };
        let stored = capture.texts_behind(&session, note.place)?;
        let turns: Vec<_> = behind.iter().map(|behind| as_stored(behind, &stored)).collect();
        capture.store_codex_turns_behind(note.place, &thread.to_string(), &known.cwd, &turns, now_ms())?;
        let note = note.of_now(&capture, &known)?.packed();
        capture.commit()?;
        if let Some(cache) = reader.cache {
            let root = root.clone();
            cache.aside(move |cache| known.store(cache, &root, note));
            drop(database);
            cache.finish();
        }
        Ok(true)
    })
}

/// What is to be in the database of a turn, where these texts are: number, role and text.
fn as_stored<'b>(behind: &'b Behind, stored: &'b [(i64, String, String)]) -> CodexTurn<'b> {
    let number = match behind {
        Behind::Read(turn) => return turn.as_stored(),
        Behind::AsStored(number) => *number,
    };
    let text = |role: &str| {
        let text = stored.iter().find(|(of, its, _)| *of == number && its == role);
        text.map(|(_, _, text)| text.as_str())
    };
    CodexTurn { turn_number: number, user: text("user"), assistant: text("assistant"), completed_at: None }
}

/// What the database has of the settled turns of a thread after a capture.
struct Note {
    sums: Sums,
    /// Where they end.
    place: Place,
    /// What stood behind them.
    behind: Sums,
}

impl Default for Note {
    fn default() -> Self {
        Self { sums: Sums::default(), place: START, behind: Sums::default() }
    }
}

impl Note {
    /// The same when more turns are settled.
    fn of_now(self, capture: &Capture<'_>, captured: &captured::Captured) -> Result<Self, db::Error> {
        let session = session(captured.thread);
        let place = captured.last.map_or(Ok(START), |last| capture.place_of(&session, last))?;
        let sums = self.sums.and(capture.sums_between(&session, self.place, place)?);
        Ok(Self { sums, place, behind: capture.sums_between(&session, place, END)? })
    }

    /// Whether the rows of the thread are still those that the capture left.
    fn holds(&self, capture: &Capture<'_>, session: &str) -> Result<bool, db::Error> {
        Ok(capture.sums_up_to(session, self.place)? == self.sums
            && capture.sums_between(session, self.place, END)? == self.behind)
    }

    fn packed(&self) -> Vec<u8> {
        let mut packer = Packer::default();
        self.sums.pack(&mut packer);
        self.behind.pack(&mut packer);
        [self.place.0, self.place.1].into_iter().for_each(|number| packer.signed(number));
        packer.finish()
    }

    fn unpack(bytes: &[u8]) -> Option<Self> {
        let mut unpacker = Unpacker::new(bytes);
        let (sums, behind) = (Sums::unpack(&mut unpacker)?, Sums::unpack(&mut unpacker)?);
        Some(Self { sums, behind, place: (unpacker.signed()?, unpacker.signed()?) })
    }
}

/// Captures threads, and tells before each one how many of how many are done.
///
/// # Errors
/// A folder cannot be listed, a rollout cannot be read, or the database cannot be written. What was captured until then
/// stays.
pub fn threads(
    stores: &Stores,
    which: Which<'_>,
    mapping: Mapping,
    mut done: impl FnMut(usize, usize),
) -> Result<Vec<Captured>, Failure> {
    let mut threads = Threads::look(stores, mapping)?;
    let ids = match which {
        Which::Thread(thread) => vec![thread],
        Which::Project(project) => threads.ids(Some(project)),
        Which::All => threads.ids(None),
    };
    let mut database = None;
    let mut captured = Vec::new();
    for (n, thread) in ids.iter().enumerate() {
        done(n, ids.len());
        let Some(texts) = threads.texts(*thread)? else { continue };
        if database.is_none() {
            database = Some(schema::open(&stores.database())?);
        }
        if let Some(database) = &mut database {
            captured.extend(store(database, &mut threads, texts)?);
        }
    }
    Ok(captured)
}

/// Who waits for the database can be overtaken by others who have read more since: so what was read counts only if it is
/// still so once the others are kept out. Else it is read again then.
fn store(database: &mut Connection, threads: &mut Threads<'_>, read: Texts) -> Result<Option<Captured>, Failure> {
    let capture = Capture::begin(database)?;
    let Some(texts) = of_now(read, threads)? else { return Ok(None) };
    let changed = store_within(&capture, &texts, now_ms())?;
    capture.commit()?;
    Ok(Some(Captured { thread: texts.thread, cwd: texts.cwd, turns: texts.turns.len(), changed }))
}

fn of_now(read: Texts, threads: &mut Threads<'_>) -> Result<Option<Texts>, Failure> {
    Ok(match read.are_of_now() {
        true => Some(read),
        false => threads.texts(read.thread)?,
    })
}

/// Stores the texts of a thread as of a moment, in milliseconds since the epoch; tells whether the database had others.
///
/// # Errors
/// The database cannot be written; then it is as before.
pub fn store_texts(database: &mut Connection, texts: &Texts, now: i64) -> Result<bool, db::Error> {
    let capture = Capture::begin(database)?;
    let changed = store_within(&capture, texts, now)?;
    capture.commit()?;
    Ok(changed)
}

fn store_within(capture: &Capture<'_>, texts: &Texts, now: i64) -> Result<bool, db::Error> {
    let turns: Vec<_> = texts.turns.iter().map(TurnTexts::as_stored).collect();
    capture.store_codex_thread(&texts.thread.to_string(), &texts.cwd, &turns, now)
}

impl TurnTexts {
    fn as_stored(&self) -> CodexTurn<'_> {
        CodexTurn {
            turn_number: self.number,
            user: self.user.as_deref(),
            assistant: self.assistant.as_deref(),
            completed_at: self.completed_at,
        }
    }
}
