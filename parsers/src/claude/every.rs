//! Every row of a transcript, for those who count them.

use std::sync::LazyLock;

use smallvec::SmallVec;

use super::members::Members;
use super::passed::{Transcript, passed_over};
use super::row::{Row, next_row};
use crate::count::{Counting, Name, Seen, Sifted, Table};
use crate::json::Text;
use crate::row::{LineText, Piece};

/// What one row does and says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// What it does to the turns.
    pub row: Row,
    /// The version of the program that wrote it.
    pub writer: Option<String>,
    /// The working directory then.
    pub cwd: Option<String>,
    /// The session that it says it is of.
    pub session: Option<String>,
}

const KNOWN: [&str; 21] = [
    "agent-name",
    "ai-title",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "assistant",
    "atis-latch",
    "attachment",
    "cost-state",
    "custom-title",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "progress",
    "queue-operation",
    "summary",
    "system",
    "tools-used",
    "user",
    "worktree-state",
];

impl Counting for Transcript {
    type Row = Looked;

    fn table() -> &'static Table {
        static TABLE: LazyLock<Table> = LazyLock::new(|| Table::of(&KNOWN));
        &TABLE
    }

    fn sift(start: &[u8]) -> Option<Sifted<'_>> {
        let name = Name { row: passed_over(start)?, inner: b"" };
        Some(Self::table().find(name).map_or(Sifted::Unknown(name), Sifted::Known))
    }

    fn look(line: &[u8], offset: u64, ended: bool, mut each: impl FnMut(Seen<'_, Looked>)) {
        LineText { bytes: line, offset, ended }.for_each_object(next_row, Members::read, |found| {
            match found {
                // Behind something unreadable an object within a row may look like one.
                Piece::Object { value, damaged: true, .. } if !value.has_ids() => {}
                Piece::Object { value, at, .. } => {
                    let kind: SmallVec<[u8; 32]> =
                        value.kind.map_or_else(SmallVec::new, |kind| SmallVec::from_slice(&kind.name()));
                    each(Seen::Row { name: Name { row: &kind, inner: b"" }, at, row: Looked::new(value, at) });
                }
                Piece::Unreadable(why, at) => each(Seen::Unreadable(why, at.len)),
            }
            true
        });
    }
}

impl Looked {
    fn new(members: Members<'_>, at: crate::row::RowRef) -> Self {
        let text = |text: Option<Text<'_>>| text.map(|text| text.decode().into_owned()).filter(|text| !text.is_empty());
        let [writer, cwd, session] = [members.version, members.cwd, members.session_id].map(text);
        Self { row: Row::new(members, at), writer, cwd, session }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str, ended: bool) -> Vec<String> {
        let mut told = Vec::new();
        Transcript::look(line.as_bytes(), 0, ended, |seen| {
            told.push(match seen {
                Seen::Row { name, row, .. } => {
                    format!("{} {:?} {:?}", String::from_utf8_lossy(name.row), row.writer, row.cwd)
                }
                Seen::Unreadable(why, bytes) => format!("{why:?} {bytes}"),
            });
        });
        told
    }

    const ROW: &str = r#"{"parentUuid":null,"cwd":"/p","type":"user","message":{"content":"ask"},"uuid":"u","sessionId":"s","version":"2.1.0"}"#;

    #[test]
    fn rows_tell_what_they_are_and_who_wrote_them() {
        let said = r#"user Some("2.1.0") Some("/p")"#;
        assert_eq!(told(ROW, true), [said]);
        assert_eq!(told(&format!("\0{ROW}\0"), true), ["Hole 1", said, "Hole 1"]);
        assert_eq!(told(&format!("{}{ROW}", &ROW[..20]), true), ["Spliced 20", said]);
        assert_eq!(told(&format!("{ROW}{}", &ROW[..20]), false), [said]);
        // An object within a row that was cut is none.
        assert_eq!(told(r#"{"parentUuid":"cut,"data":{"type":"user","uuid":"u"}}"#, true), ["Spliced 26", "Broken 1"]);
        assert_eq!(told("{}", true), [" None None"]);
    }
}
