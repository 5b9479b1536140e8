//! The rows of one line that matter, as events.

use memchr::memmem;
use smallvec::SmallVec;

use super::event::{Event, read_object, read_row, read_text};
use super::meta::Meta;
use crate::json::Reader;
use crate::row::{LineText, Piece, RowRef};

/// How a row begins, as Codex writes it.
pub(crate) const ROW_START: &[u8] = b"{\"timestamp\":\"";

/// A row that matters, and where its object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it does.
    pub event: Event,
    /// Where it stands.
    pub at: RowRef,
}

/// The rows that matter of one line, in order. `offset` is where the line begins in its file (a byte order mark at 0 is
/// blank); `ended` says that its LF is there: of an unterminated line only the whole objects at its start count, for more
/// bytes may follow.
pub fn read_line(line: &[u8], offset: u64, ended: bool) -> SmallVec<[Row; 1]> {
    let mut rows = SmallVec::new();
    if let Some((event, len)) = read_row(line) {
        rows.extend(event.map(|event| Row { event, at: RowRef { offset, len: len as u64 } }));
        return rows;
    }
    for_each_object(line, offset, ended, |event, at| {
        rows.extend(event.map(|event| Row { event, at }));
        true
    });
    rows
}

/// The first object of a line, if one can be read: whether it is a `session_meta`, and then what it says.
pub fn first_object(line: &[u8], offset: u64, ended: bool) -> Option<(Option<Meta>, RowRef)> {
    let mut first = None;
    for_each_object(line, offset, ended, |event, at| {
        first = Some(match event {
            Some(Event::Meta(meta)) => (Some(*meta), at),
            _ => (None, at),
        });
        false
    });
    first
}

/// The folded text of the message in a row that was read before, of a completion its `last_agent_message`; `None` when no
/// such row stands there any more.
pub fn said_in(object: &[u8]) -> Option<String> {
    read_text(&mut Reader::new(object, 0)).ok().flatten()
}

/// Calls `found` with every object of the line and the event it is, if it is one, until that answers false.
fn for_each_object(line: &[u8], offset: u64, ended: bool, mut found: impl FnMut(Option<Event>, RowRef) -> bool) {
    let next_row = |bytes: &[u8]| memmem::find(bytes, ROW_START);
    LineText { bytes: line, offset, ended }.for_each_object(next_row, read_object, |piece| match piece {
        Piece::Object { value, at, .. } => found(value, at),
        Piece::Unreadable(..) => true,
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TWO: &str = r#"{"timestamp":"x","type":"event_msg","payload":{"type":"agent_message","message":"two"}}"#;

    fn texts(line: &str, ended: bool) -> Vec<String> {
        let said = |row: Row| match row.event {
            Event::Said { message, .. } => message.text,
            other => panic!("{other:?}"),
        };
        read_line(line.as_bytes(), 7, ended).into_iter().map(said).collect()
    }

    #[test]
    fn several_objects_of_a_line_are_each_a_row() {
        assert_eq!(texts(&format!("\0\0 {TWO}\0{TWO} 7 [] {TWO}\r"), true), ["two", "two", "two"]);
    }

    #[test]
    fn a_whole_row_behind_a_cut_one_is_found_unless_its_line_may_go_on() {
        let line = format!("{}{TWO}", &TWO[..40]);
        assert_eq!(texts(&line, true), ["two"]);
        assert_eq!(texts(&line, false), [""; 0]);
        assert_eq!(texts(&format!("{TWO}{}", &TWO[..40]), false), ["two"]);
    }

    #[test]
    fn the_eighth_unreadable_piece_ends_a_line() {
        let cut = &TWO[..20];
        assert_eq!(texts(&format!("{}{TWO}", cut.repeat(7)), true), ["two"]);
        assert_eq!(texts(&format!("{}{TWO}", cut.repeat(8)), true), [""; 0]);
    }

    #[test]
    fn rows_are_where_they_say() {
        let line = format!("junk{TWO} {TWO}");
        for row in read_line(line.as_bytes(), 100, true) {
            let from = (row.at.offset - 100) as usize;
            assert_eq!(said_in(&line.as_bytes()[from..from + row.at.len as usize]).unwrap(), "two");
        }
    }

    #[test]
    fn a_byte_order_mark_is_blank_at_the_start_of_a_file_only() {
        let line = format!("\u{feff}{TWO}");
        assert_eq!(read_line(line.as_bytes(), 0, false).len(), 1);
        assert_eq!(read_line(line.as_bytes(), 1, false).len(), 0);
    }

    #[test]
    fn the_first_object_decides() {
        let meta = r#"{"timestamp":"x","type":"session_meta","payload":{"id":"a","cwd":"/p"}}"#;
        let (first, at) = first_object(format!("[] {meta}{TWO}").as_bytes(), 0, true).unwrap();
        assert_eq!((first.unwrap().cwd.unwrap(), at.offset), ("/p".to_owned(), 3));
        assert_eq!(first_object(TWO.as_bytes(), 0, true).unwrap().0, None);
        assert_eq!(first_object(b"[] null", 0, true), None);
    }
}
