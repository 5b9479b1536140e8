//! The logs of coding agents as values: bytes in, rows, turns and digests out.
//!
//! Nothing here opens a file, reads a clock or looks at the environment, so everything can be tested with literal bytes
//! and resumed at any line. The way of the data:
//!
//! ```text
//! blocks of bytes ─▶ lines::Scanner ─▶ codex::read_line ──▶ codex::Event ─▶ codex::Turns ─▶ completed turns
//!                                   └▶ claude::read_line ─▶ claude::Row ─┬▶ claude::Turns ─▶ turns
//!                                                                        └▶ claude::NameScan ─▶ whether a name was shown
//! ```
//!
//! ```
//! use throughline_parsers::codex::{Turns, read_line};
//! let rollout = concat!(
//!     r#"{"timestamp":"2026-07-01T00:00:00.000Z","type":"event_msg","payload":{"type":"task_started","turn_id":"t1"}}"#, "\n",
//!     r#"{"timestamp":"2026-07-01T00:00:01.000Z","type":"event_msg","payload":{"type":"user_message","message":"ask"}}"#, "\n",
//!     r#"{"timestamp":"2026-07-01T00:00:02.000Z","type":"event_msg","payload":{"type":"agent_message","message":"answer"}}"#, "\n",
//!     r#"{"timestamp":"2026-07-01T00:00:03.000Z","type":"event_msg","payload":{"type":"task_complete","turn_id":"t1"}}"#, "\n",
//! );
//! let mut turns = Turns::default();
//! let mut offset = 0;
//! for line in rollout.split_inclusive('\n') {
//!     for row in read_line(line.as_bytes(), offset, true) {
//!         turns.apply(&row, |_| None).expect("every message is at hand");
//!     }
//!     offset += line.len() as u64;
//! }
//! assert_eq!(turns.turns().iter().filter(|turn| turn.completed().is_some()).count(), 1);
//! ```
#![forbid(unsafe_code)]

pub mod claude;
pub mod codex;
pub mod count;
pub mod json;
pub mod lines;
pub mod pack;
pub mod row;
pub mod text;
pub mod time;
pub mod uuid;
