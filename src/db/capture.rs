//! The write side: the texts of turns go into the database, in one transaction.
//!
//! Readers take the pairs of a session in the order of (`created_at`, `id`) and look for a chain in them, so that order
//! is what matters here: `created_at` never decreases along a session, whatever the clock does.
//!
//! ```
//! use throughline::db::{capture::{Capture, Said}, schema};
//!
//! let home = tempfile::tempdir()?;
//! let mut database = schema::open(&schema::path(home.path()))?;
//! let capture = Capture::begin(&mut database)?;
//! capture.keep_session("a session", "/home/me/project", 1_770_000_000_000)?;
//! let user = Said { text: "hi", at: 1_770_000_000_000 };
//! let assistant = Said { text: "hello", at: 1_770_000_002_000 };
//! capture.insert_turn("a session", "a session", 1, Some(user), Some(assistant))?;
//! capture.commit()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Params, Row, Transaction, TransactionBehavior, params};
use throughline_parsers::json::MAX_WHOLE;
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use throughline_parsers::text;

use super::Error;

/// Stores a Codex thread: afterwards its session holds exactly these turns, in this order.
///
/// What is stored already is left alone up to the first turn that differs or stands out of order; from there on the rows
/// are deleted and inserted again. If nothing differs, nothing is written. Tells whether a turn was written or deleted.
///
/// # Errors
///
/// The database cannot be read or written; then it is as before.
pub fn store_codex_thread(
    database: &mut Connection,
    thread: &str,
    project_path: &str,
    turns: &[CodexTurn<'_>],
    now: i64,
) -> Result<bool, Error> {
    let capture = Capture::begin(database)?;
    let changed = capture.store_codex_thread(thread, project_path, turns, now)?;
    capture.commit()?;
    Ok(changed)
}

/// A turn of a Codex thread. A role without text has no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodexTurn<'a> {
    /// Its ordinal among the thread's numbered turns, from 1.
    pub turn_number: i64,
    /// The user's text.
    pub user: Option<&'a str>,
    /// The assistant's text.
    pub assistant: Option<&'a str>,
    /// When it completed, in milliseconds; `None` while it has not.
    pub completed_at: Option<i64>,
}

/// What one side of a turn said, and when, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// The text.
    pub text: &'a str,
    /// The row's own time.
    pub at: i64,
}

/// One transaction of writing. It ends as if it had not begun unless it is committed.
#[derive(Debug)]
pub struct Capture<'c> {
    transaction: Transaction<'c>,
}

impl<'c> Capture<'c> {
    /// Waits for its turn to write, at most as long as the connection's busy wait.
    ///
    /// # Errors
    ///
    /// Somebody else kept the database for too long, or it cannot be used.
    pub fn begin(database: &'c mut Connection) -> Result<Self, Error> {
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        Ok(Self { transaction })
    }

    /// Makes everything that was written durable.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn commit(self) -> Result<(), Error> {
        Ok(self.transaction.commit()?)
    }

    /// The open transaction, for questions about what is stored.
    #[must_use]
    pub fn transaction(&self) -> &Transaction<'c> {
        &self.transaction
    }

    /// Makes the session's row, or marks it as updated now; a row that is there keeps its project.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn keep_session(&self, session: &str, project_path: &str, now: i64) -> Result<(), Error> {
        self.transaction
            .prepare_cached(
                "INSERT INTO sessions (session_id, project_path, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)
                 ON CONFLICT (session_id) DO UPDATE SET updated_at = excluded.updated_at",
            )?
            .execute(params![session, project_path, now])?;
        Ok(())
    }

    /// Makes the session's row, or moves it to this project if it has another one.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn move_session(&self, session: &str, project_path: &str, now: i64) -> Result<(), Error> {
        self.transaction
            .prepare_cached(
                "INSERT INTO sessions (session_id, project_path, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)
                 ON CONFLICT (session_id) DO UPDATE
                 SET project_path = excluded.project_path, updated_at = excluded.updated_at
                 WHERE project_path <> excluded.project_path",
            )?
            .execute(params![session, project_path, now])?;
        Ok(())
    }

    /// The same as [`store_codex_thread`], within this transaction.
    ///
    /// # Errors
    ///
    /// The database cannot be read or written.
    pub fn store_codex_thread(
        &self,
        thread: &str,
        project_path: &str,
        turns: &[CodexTurn<'_>],
        now: i64,
    ) -> Result<bool, Error> {
        let session = format!("codex:{thread}");
        self.move_session(&session, project_path, now)?;
        self.store_exactly(&session, START, turns, now)
    }

    /// The same where the session holds all turns up to this place already: afterwards it holds exactly these behind it.
    ///
    /// # Errors
    ///
    /// The database cannot be read or written.
    pub fn store_codex_turns_behind(
        &self,
        place: Place,
        thread: &str,
        project_path: &str,
        turns: &[CodexTurn<'_>],
        now: i64,
    ) -> Result<bool, Error> {
        let session = format!("codex:{thread}");
        self.move_session(&session, project_path, now)?;
        self.store_exactly(&session, place, turns, now)
    }

    /// What a session holds of one origin, in sums.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn sums_of(&self, session: &str, origin: &str) -> Result<Sums, Error> {
        // In the order of the times, which is nearly that of the rows: by the origin each row would be looked for.
        self.sums("session_id = ?1 AND +origin_session_id = ?2", params![session, origin])
    }

    /// The same of the rows with greater ids than this: those that were inserted since it was the greatest.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn sums_since(&self, session: &str, origin: &str, last_id: i64) -> Result<Sums, Error> {
        // By the ids, not by the session: of these rows there are few.
        self.sums("id > ?3 AND +session_id = ?1 AND origin_session_id = ?2", params![session, origin, last_id])
    }

    /// What a session holds up to a place, in sums.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn sums_up_to(&self, session: &str, (created_at, id): Place) -> Result<Sums, Error> {
        // Nearly all rows are older, and need no other look.
        let older = self.sums("session_id = ?1 AND created_at < ?2", params![session, created_at])?;
        let place = params![session, created_at, id];
        Ok(older.and(self.sums("session_id = ?1 AND created_at = ?2 AND id <= ?3", place)?))
    }

    /// What a session holds behind one place up to another, in sums.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn sums_between(&self, session: &str, from: Place, to: Place) -> Result<Sums, Error> {
        self.sums(
            "session_id = ?1 AND (created_at, id) > (?2, ?3) AND (created_at, id) <= (?4, ?5)",
            params![session, from.0, from.1, to.0, to.1],
        )
    }

    fn sums(&self, which: &str, of: impl Params) -> Result<Sums, Error> {
        let mut sums = self.transaction.prepare_cached(&format!(
            "SELECT count(*), ifnull(max(id), 0), ifnull(sum(octet_length(text)), 0) FROM bodies WHERE {which}"
        ))?;
        Ok(sums.query_row(of, |row| Ok(Sums { count: row.get(0)?, last_id: row.get(1)?, octets: row.get(2)? }))?)
    }

    /// The texts that a session holds behind a place: number, role and text.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn texts_behind(&self, session: &str, place: Place) -> Result<Vec<(i64, String, String)>, Error> {
        let mut texts = self.transaction.prepare_cached(
            "SELECT turn_number, role, text FROM bodies WHERE session_id = ?1 AND (created_at, id) > (?2, ?3)",
        )?;
        let texts =
            texts.query_map(params![session, place.0, place.1], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(texts.collect::<rusqlite::Result<_>>()?)
    }

    /// Where the last row of a turn stands; the start where the turn has none.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn place_of(&self, session: &str, turn_number: i64) -> Result<Place, Error> {
        let mut place = self.transaction.prepare_cached(
            "SELECT created_at, id FROM bodies WHERE session_id = ?1 AND origin_session_id = ?1 AND turn_number = ?2
             ORDER BY created_at DESC, id DESC LIMIT 1",
        )?;
        let place = place.query_row(params![session, turn_number], |row| Ok((row.get(0)?, row.get(1)?)));
        Ok(place.optional()?.unwrap_or(START))
    }

    /// Inserts the rows of one turn behind everything the session has.
    ///
    /// # Errors
    ///
    /// The database cannot be written, or the session has a row of this origin, number and role.
    pub fn insert_turn(
        &self,
        session: &str,
        origin: &str,
        turn_number: i64,
        user: Option<Said<'_>>,
        assistant: Option<Said<'_>>,
    ) -> Result<(), Error> {
        for (role, said) in [(USER, user), (ASSISTANT, assistant)] {
            let Some(Said { text, at }) = said else { continue };
            // The user's row, being in front, bounds the assistant's too.
            let created_at = at.max(self.latest(session)?);
            self.transaction
                .prepare_cached(
                    "INSERT INTO bodies
                     (session_id, origin_session_id, turn_number, role, text, token_count, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .execute(params![session, origin, turn_number, role, text, token_count(text), created_at])?;
        }
        Ok(())
    }

    /// The greatest time that the session has among the rows that readers count, whatever their origin; 0 if it has none.
    fn latest(&self, session: &str) -> Result<i64, Error> {
        let mut latest = self.transaction.prepare_cached(
            "SELECT created_at FROM bodies
             WHERE session_id = ?1 AND created_at <= ?2 AND typeof(created_at) = 'integer'
             ORDER BY created_at DESC LIMIT 1",
        )?;
        let mut rows = latest.query(params![session, MAX_WHOLE])?;
        Ok(rows.next()?.map_or(Ok(0), |row| row.get(0))?)
    }

    fn store_exactly(&self, session: &str, place: Place, turns: &[CodexTurn<'_>], now: i64) -> Result<bool, Error> {
        let (kept, end) = self.stored_start(session, place, turns)?;
        let deleted = self.delete_behind(session, end)?;
        for turn in &turns[kept..] {
            let at = turn.completed_at.unwrap_or(now);
            let said = |text| Said { text, at };
            self.insert_turn(session, session, turn.turn_number, turn.user.map(said), turn.assistant.map(said))?;
        }
        let changed = deleted > 0 || kept < turns.len();
        if changed {
            self.touch_session(session, now)?;
        }
        Ok(changed)
    }

    /// How many turns from the first on are stored behind a place as they should be, and where the last of them ends.
    fn stored_start(&self, session: &str, place: Place, turns: &[CodexTurn<'_>]) -> Result<(usize, Place), Error> {
        let mut stored = self.transaction.prepare_cached(
            "SELECT id, created_at, origin_session_id, turn_number, role, text FROM bodies
             WHERE session_id = ?1 AND (created_at, id) > (?2, ?3) ORDER BY created_at, id",
        )?;
        let mut rows = stored.query(params![session, place.0, place.1])?;
        let mut end = place;
        for (equal, turn) in turns.iter().enumerate() {
            let mut end_of_turn = end;
            for wanted in wanted_rows(session, turn) {
                end_of_turn = match rows.next()? {
                    Some(row) if wanted.is(row)? => (row.get(1)?, row.get(0)?),
                    _ => return Ok((equal, end)),
                };
            }
            end = end_of_turn;
        }
        Ok((turns.len(), end))
    }

    fn delete_behind(&self, session: &str, (created_at, id): Place) -> Result<usize, Error> {
        let mut delete = self
            .transaction
            .prepare_cached("DELETE FROM bodies WHERE session_id = ?1 AND (created_at, id) > (?2, ?3)")?;
        Ok(delete.execute(params![session, created_at, id])?)
    }

    fn touch_session(&self, session: &str, now: i64) -> Result<(), Error> {
        self.transaction
            .prepare_cached("UPDATE sessions SET updated_at = ?2 WHERE session_id = ?1")?
            .execute(params![session, now])?;
        Ok(())
    }
}

const USER: &str = "user";
const ASSISTANT: &str = "assistant";

/// Where a row stands in its session: (`created_at`, `id`).
pub type Place = (i64, i64);
/// In front of every row.
pub const START: Place = (i64::MIN, i64::MIN);
/// Behind every row.
pub const END: Place = (i64::MAX, i64::MAX);

/// What tells whether rows of a session are those that were stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// How many there are.
    pub count: i64,
    /// The greatest id.
    pub last_id: i64,
    /// The length of all texts, in bytes.
    pub octets: i64,
}

impl Sums {
    /// Those of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let last_id = self.last_id.max(other.last_id);
        Self { count: self.count + other.count, last_id, octets: self.octets + other.octets }
    }
}

impl Pack for Sums {
    fn pack(&self, packer: &mut Packer) {
        [self.count, self.last_id, self.octets].into_iter().for_each(|number| packer.signed(number));
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self { count: unpacker.signed()?, last_id: unpacker.signed()?, octets: unpacker.signed()? })
    }
}

/// A row as it should be stored.
struct Wanted<'a> {
    session: &'a str,
    turn_number: i64,
    role: &'static str,
    text: &'a str,
}

fn wanted_rows<'a>(session: &'a str, turn: &CodexTurn<'a>) -> impl Iterator<Item = Wanted<'a>> {
    let turn_number = turn.turn_number;
    [(USER, turn.user), (ASSISTANT, turn.assistant)]
        .into_iter()
        .filter_map(move |(role, text)| text.map(|text| Wanted { session, turn_number, role, text }))
}

impl Wanted<'_> {
    /// Whether the row of `keep_equal_turns` is this one. SQLite keeps values of any type in any column.
    fn is(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let text = |value: ValueRef<'_>, text: &str| matches!(value, ValueRef::Text(bytes) if bytes == text.as_bytes());
        Ok(matches!(row.get_ref(1)?, ValueRef::Integer(at) if at <= MAX_WHOLE)
            && text(row.get_ref(2)?, self.session)
            && row.get_ref(3)? == ValueRef::Integer(self.turn_number)
            && text(row.get_ref(4)?, self.role)
            && text(row.get_ref(5)?, self.text))
    }
}

/// A guess at the tokens of a text, the same as the Node tool's: a quarter of its UTF-16 units, halves rounded up.
fn token_count(text: &str) -> i64 {
    (text::utf16_len(text) as i64 + 2) / 4
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::db::schema;
    use tempfile::TempDir;

    const NOW: i64 = 1_000_000;

    fn database() -> (TempDir, Connection) {
        let home = TempDir::new().unwrap();
        let database = schema::open(&schema::path(home.path())).unwrap();
        (home, database)
    }

    /// (id, turn_number, role, text, created_at) of a session's rows, in the order of readers.
    type Stored = (i64, i64, String, String, i64);

    fn stored(database: &Connection, session: &str) -> Vec<Stored> {
        let mut query = database
            .prepare(
                "SELECT id, turn_number, role, text, created_at FROM bodies
                 WHERE session_id = ? ORDER BY created_at, id",
            )
            .unwrap();
        let rows =
            query.query_map([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)));
        rows.unwrap().map(Result::unwrap).collect()
    }

    fn texts(database: &Connection, session: &str) -> Vec<(i64, String)> {
        stored(database, session).into_iter().map(|row| (row.1, row.3)).collect()
    }

    fn session(database: &Connection, session: &str) -> (String, i64, i64) {
        database
            .query_row(
                "SELECT project_path, created_at, updated_at FROM sessions WHERE session_id = ?",
                [session],
                |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)),
            )
            .unwrap()
    }

    fn said(text: &str, at: i64) -> Option<Said<'_>> {
        Some(Said { text, at })
    }

    fn turn<'a>(turn_number: i64, user: &'a str, assistant: &'a str, completed_at: i64) -> CodexTurn<'a> {
        let text = |text: &'a str| (!text.is_empty()).then_some(text);
        let completed_at = (completed_at > 0).then_some(completed_at);
        CodexTurn { turn_number, user: text(user), assistant: text(assistant), completed_at }
    }

    fn store(database: &mut Connection, turns: &[CodexTurn<'_>]) -> Vec<Stored> {
        store_codex_thread(database, "t", "/p", turns, NOW).unwrap();
        stored(database, "codex:t")
    }

    #[test]
    fn tokens_are_a_quarter_of_the_units_halves_up() {
        let counts = ["", "a", "ab", "abc", "abcdef", "🚀🚀🚀", "é"].map(token_count);
        assert_eq!(counts, [0, 0, 1, 1, 2, 2, 0]);
    }

    #[test]
    fn an_existing_session_keeps_its_project() {
        let (_home, mut database) = database();
        for (path, now) in [("/first", 5), ("/second", 7)] {
            let capture = Capture::begin(&mut database).unwrap();
            capture.keep_session("s", path, now).unwrap();
            capture.commit().unwrap();
        }
        assert_eq!(session(&database, "s"), ("/first".into(), 5, 7));
    }

    #[test]
    fn what_is_not_committed_did_not_happen() {
        let (_home, mut database) = database();
        let capture = Capture::begin(&mut database).unwrap();
        capture.keep_session("s", "/p", NOW).unwrap();
        capture.insert_turn("s", "s", 1, said("u", 1), said("a", 2)).unwrap();
        drop(capture);
        assert!(stored(&database, "s").is_empty());
    }

    #[test]
    fn time_never_goes_back_along_a_session() {
        let (_home, mut database) = database();
        let capture = Capture::begin(&mut database).unwrap();
        capture.insert_turn("s", "a", 1, said("u1", 100), said("a1", 90)).unwrap();
        capture.insert_turn("s", "b", 1, said("u2", 50), said("a2", 200)).unwrap();
        capture.insert_turn("s", "a", 2, None, said("a3", 150)).unwrap();
        capture.insert_turn("other", "a", 1, said("x", 10), None).unwrap();
        capture.commit().unwrap();
        let times: Vec<i64> = stored(&database, "s").iter().map(|row| row.4).collect();
        assert_eq!(times, [100, 100, 100, 200, 200]);
        assert_eq!(stored(&database, "other")[0].4, 10);
    }

    #[test]
    fn what_was_added_completes_the_sums() {
        let (_home, mut database) = database();
        let capture = Capture::begin(&mut database).unwrap();
        capture.insert_turn("s", "a", 1, said("one", 1), said("two", 2)).unwrap();
        let known = capture.sums_of("s", "a").unwrap();
        assert_eq!(known, Sums { count: 2, last_id: 2, octets: 6 });
        assert_eq!(capture.sums_since("s", "a", known.last_id).unwrap(), Sums::default());
        // Rows of others stand between.
        capture.insert_turn("s", "b", 1, said("other", 3), None).unwrap();
        capture.insert_turn("other", "a", 1, said("other", 4), None).unwrap();
        capture.insert_turn("s", "a", 2, None, said("three", 5)).unwrap();
        let added = capture.sums_since("s", "a", known.last_id).unwrap();
        assert_eq!(added, Sums { count: 1, last_id: 5, octets: 5 });
        assert_eq!(known.and(added), capture.sums_of("s", "a").unwrap());
    }

    #[test]
    fn rows_that_no_reader_counts_bound_no_time() {
        let (_home, mut database) = database();
        let odd = "INSERT INTO bodies (session_id, origin_session_id, turn_number, role, text, created_at) VALUES";
        database
            .execute_batch(&format!(
                "{odd} ('s', 's', 1, 'user', 'x', 'late'); {odd} ('s', 's', 2, 'user', 'x', 9007199254740993);"
            ))
            .unwrap();
        let capture = Capture::begin(&mut database).unwrap();
        capture.insert_turn("s", "s", 3, said("u", 5), None).unwrap();
        capture.commit().unwrap();
        let at: i64 =
            database.query_row("SELECT created_at FROM bodies WHERE turn_number = 3", [], |r| r.get(0)).unwrap();
        assert_eq!(at, 5);
    }

    #[test]
    fn the_columns_are_filled() {
        let (_home, mut database) = database();
        store(&mut database, &[turn(1, "question", "a\0b", 7)]);
        let rows: Vec<(String, String, i64, i64)> = database
            .prepare("SELECT origin_session_id, role, token_count, length(CAST(text AS BLOB)) FROM bodies")
            .unwrap()
            .query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows, [("codex:t".into(), "user".into(), 2, 8), ("codex:t".into(), "assistant".into(), 1, 3)]);
    }

    #[test]
    fn storing_a_thread_again_writes_nothing() {
        let (_home, mut database) = database();
        let turns = [turn(1, "u1", "a1", 10), turn(3, "u3", "a3", 20), turn(2, "u2", "", 0)];
        let first = store(&mut database, &turns);
        assert_eq!(
            first.iter().map(|row| (row.1, row.4)).collect::<Vec<_>>(),
            [(1, 10), (1, 10), (3, 20), (3, 20), (2, NOW)]
        );
        let changes = database.total_changes();
        store_codex_thread(&mut database, "t", "/p", &turns, NOW + 5).unwrap();
        assert_eq!(stored(&database, "codex:t"), first);
        assert_eq!(database.total_changes(), changes);
        assert_eq!(session(&database, "codex:t"), ("/p".into(), NOW, NOW));
    }

    #[test]
    fn a_thread_that_grows_keeps_its_rows() {
        let (_home, mut database) = database();
        let first = store(&mut database, &[turn(1, "u1", "a1", 10), turn(2, "u2", "", 0)]);
        let second = store(&mut database, &[turn(1, "u1", "a1", 10), turn(2, "u2", "a2", 20), turn(3, "u3", "", 0)]);
        assert_eq!(second[..2], first[..2]);
        assert_eq!(second.iter().map(|row| row.4).collect::<Vec<_>>(), [10, 10, 20, 20, NOW]);
        assert!(second[2].0 > first[2].0, "the turn that got its answer is stored anew");
    }

    #[test]
    fn a_changed_turn_in_the_middle_is_repaired_with_all_behind_it() {
        let (_home, mut database) = database();
        let mut turns = [turn(1, "u1", "a1", 10), turn(2, "u2", "a2", 20), turn(3, "u3", "a3", 30)];
        let first = store(&mut database, &turns);
        turns[1].assistant = Some("changed");
        let second = store(&mut database, &turns);
        assert_eq!(second[..2], first[..2]);
        assert!(second[2..].iter().all(|row| row.0 > first[5].0));
        assert_eq!(second.iter().map(|row| &row.3[..]).collect::<Vec<_>>(), ["u1", "a1", "u2", "changed", "u3", "a3"]);
        assert_eq!(second.iter().map(|row| row.4).collect::<Vec<_>>(), [10, 10, 20, 20, 30, 30]);
    }

    #[test]
    fn turns_that_are_gone_or_out_of_order_are_put_right() {
        let (_home, mut database) = database();
        let [a, b, c] = [turn(1, "u1", "a1", 10), turn(2, "u2", "a2", 20), turn(3, "u3", "a3", 30)];
        store(&mut database, &[a, b, c]);
        assert_eq!(store(&mut database, &[a, c]).len(), 4);
        let swapped = store(&mut database, &[c, a]);
        assert_eq!(swapped.iter().map(|row| (row.1, row.4)).collect::<Vec<_>>(), [(3, 30), (3, 30), (1, 30), (1, 30)]);
        assert_eq!(store(&mut database, &[c]), swapped[..2]);
        assert!(store(&mut database, &[]).is_empty());
    }

    #[test]
    fn rows_that_are_not_the_threads_own_are_removed() {
        let (_home, mut database) = database();
        let turns = [turn(1, "u1", "a1", 10), turn(2, "u2", "a2", 20)];
        let first = store(&mut database, &turns);
        for odd in [
            "UPDATE bodies SET origin_session_id = 'x' WHERE id = 3",
            "UPDATE bodies SET text = CAST(text AS BLOB) WHERE id = 4",
            "INSERT INTO bodies (session_id, origin_session_id, turn_number, role, text, created_at)
             VALUES ('codex:t', 'codex:t', 9, 'user', 'x', 'late')",
            "INSERT INTO bodies (session_id, origin_session_id, turn_number, role, text, created_at)
             VALUES ('codex:t', 'codex:t', 1, 'tool', 'x', 15)",
        ] {
            database.execute_batch(odd).unwrap();
            let second = store(&mut database, &turns);
            assert_eq!(second[..2], first[..2], "{odd}");
            assert_eq!(texts(&database, "codex:t").len(), 4, "{odd}");
        }
    }

    #[test]
    fn the_project_follows_the_thread() {
        let (_home, mut database) = database();
        store(&mut database, &[turn(1, "u", "a", 1)]);
        store_codex_thread(&mut database, "t", "/moved", &[turn(1, "u", "a", 1)], NOW + 1).unwrap();
        assert_eq!(session(&database, "codex:t"), ("/moved".into(), NOW, NOW + 1));
    }
}
