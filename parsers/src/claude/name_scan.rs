//! Whether a session has shown its name: the ordered scan.
//!
//! A session's name has to be shown once, as the block that the next visible reply begins with. "Next" is counted from the
//! answer of the tool that gave the name, the mint evidence, which opens a *window*, or opens it anew. The scan takes
//! the rows in file order and tells what can be read of that, and nothing more: `absent` is said only where a reply that
//! can be read came first and began with something else. Where a row cannot be read, or a tool was asked for before
//! anything was said, the reply that should have come first may stand where nobody sees it: that is no evidence.
//!
//! The scan does not know which name somebody will ask for. It keeps a window for every name that was given, by sixteen bytes
//! of its digest, beside the uuids of the rows (to know repeats). So it holds no text, can be saved behind any LF like
//! [`Turns`](super::Turns), and one saved state serves whatever the name is.
//!
//! ```
//! use throughline_parsers::claude::{NameScan, Verdict, read_line};
//! let rows = [
//!     r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"{\"suggested_session_name\":\"Session - x\",\"first_of_session\":true}"}]}}"#,
//!     r#"{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"}]}}"#,
//!     r#"{"type":"assistant","message":{"content":[{"type":"text","text":"```\nSession - x\n```\nI begin."}]}}"#,
//! ];
//! let mut scan = NameScan::default();
//! for row in rows.iter().flat_map(|row| read_line(row.as_bytes(), 0, true)) {
//!     scan.apply(&row);
//! }
//! assert_eq!(scan.verdict("Session - x"), Verdict::Present);
//! ```

use std::collections::BTreeMap;

use super::key::Key;
use super::row::Row;
use super::seen::Seen;
use super::sight::{Opening, Sight};
use crate::pack::{Pack, Packer, Unpacker};

/// Whether a name was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was.
    Present,
    /// The first reply that was to show it can be read, and does not.
    Absent,
    /// That cannot be told.
    Unavailable(Reason),
}

/// Why it cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no transcript that can be read.
    MissingTranscript,
    /// No tool gave that name.
    NoMint,
    /// Nothing was said since.
    NoVisibleReply,
    /// A tool was asked for before anything was said.
    ToolBeforeReply,
    /// A row could not be read: it may have held the reply, or an explicit retry.
    CorruptRow,
}

impl Reason {
    /// Its name in answers and diagnostics.
    pub fn name(self) -> &'static str {
        match self {
            Self::MissingTranscript => "missing_transcript",
            Self::NoMint => "no_mint",
            Self::NoVisibleReply => "no_visible_reply",
            Self::ToolBeforeReply => "tool_before_reply",
            Self::CorruptRow => "corrupt_row",
        }
    }
}

/// What the rows so far say of all the names that were given.
#[derive(Clone, Debug, Default)]
pub struct NameScan {
    windows: BTreeMap<Key, Window>,
    seen: Seen,
}

/// The window of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    /// Nothing was said yet.
    Open,
    /// It is open, but a tool was asked for first: only a match counts.
    ToolFirst,
    /// It is open, but something could not be read: only a match counts.
    Corrupt,
    /// The first reply was a mismatch. Only another mint opens it again.
    Mismatched,
    /// The same, and what could not be read behind it may have been that mint.
    MismatchedCorrupt,
    /// A reply was a match, which settles it.
    Shown,
}

impl NameScan {
    /// Takes the next row, and tells whether it changed what is known of any name.
    pub fn apply(&mut self, row: &Row) -> bool {
        if row.uuid.is_some_and(|uuid| !self.seen.insert(uuid)) {
            return false;
        }
        let mut changed = false;
        match &row.sight {
            Sight::None => {}
            Sight::Unreadable => {
                self.windows.values_mut().for_each(|window| changed |= window.becomes(window.unreadable()));
            }
            Sight::Minted(names) => {
                for name in names {
                    let before = self.windows.get(name).copied();
                    let after = before.map_or(Window::Open, Window::minted);
                    changed |= before != Some(after);
                    self.windows.insert(*name, after);
                }
            }
            Sight::Reply { begins_with_tool, text } => {
                for (name, window) in &mut self.windows {
                    let matches = text.map(|opening| opening == Opening::Block(*name));
                    changed |= window.becomes(window.reply(*begins_with_tool, matches));
                }
            }
        }
        changed
    }

    /// Whether this name was shown, by the rows so far.
    pub fn verdict(&self, name: &str) -> Verdict {
        match self.windows.get(&Key::of(name)) {
            None => Verdict::Unavailable(Reason::NoMint),
            Some(Window::Open) => Verdict::Unavailable(Reason::NoVisibleReply),
            Some(Window::ToolFirst) => Verdict::Unavailable(Reason::ToolBeforeReply),
            Some(Window::Corrupt | Window::MismatchedCorrupt) => Verdict::Unavailable(Reason::CorruptRow),
            Some(Window::Mismatched) => Verdict::Absent,
            Some(Window::Shown) => Verdict::Present,
        }
    }
}

impl Window {
    const ALL: [Self; 6] =
        [Self::Open, Self::ToolFirst, Self::Corrupt, Self::Mismatched, Self::MismatchedCorrupt, Self::Shown];

    /// Behind a mint.
    fn minted(self) -> Self {
        if self == Self::Shown { self } else { Self::Open }
    }

    /// Behind something that cannot be read.
    fn unreadable(self) -> Self {
        match self {
            Self::Open => Self::Corrupt,
            Self::Mismatched => Self::MismatchedCorrupt,
            as_before => as_before,
        }
    }

    /// Behind a row of the agent; `matches` says whether its text matches, if there is one that can be seen.
    fn reply(self, begins_with_tool: bool, matches: Option<bool>) -> Self {
        let before = if begins_with_tool && self == Self::Open { Self::ToolFirst } else { self };
        match (before, matches) {
            (Self::Open | Self::ToolFirst | Self::Corrupt, Some(true)) => Self::Shown,
            (Self::Open, Some(false)) => Self::Mismatched,
            _ => before,
        }
    }

    /// Whether it was something else before.
    fn becomes(&mut self, next: Self) -> bool {
        std::mem::replace(self, next) != next
    }
}

impl Pack for Window {
    fn pack(&self, packer: &mut Packer) {
        packer.number(*self as u64);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Self::ALL.get(unpacker.index()?).copied()
    }
}

impl Pack for NameScan {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.windows.len() as u64);
        for (name, window) in &self.windows {
            name.pack(packer);
            window.pack(packer);
        }
        self.seen.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let mut windows = BTreeMap::new();
        for _ in 0..unpacker.number()? {
            windows.insert(Key::unpack(unpacker)?, Window::unpack(unpacker)?);
        }
        Some(Self { windows, seen: Seen::unpack(unpacker)? })
    }
}
