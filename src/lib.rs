//! Reads the completed turns of coding agents (OpenAI Codex, Anthropic Claude Code) from the agents' own logs.
//!
//! An *Observer* asks which turns of a project have completed since it last looked. [`observer::read`] answers by a strict
//! contract: completed turns only, each once, in order, with bodies only when they are proven equal to what completed.
//!
//! ```
//! use throughline::observer::read::{Request, Status, read};
//! use throughline::{Mapping, Stores};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! # let project = home.path();
//! let stores = Stores::below(home.path()); // Stores::from_env() for the user's own
//! let first = read(&stores, &Request::snapshot(project), Mapping::Never)?;
//! assert_eq!(first.status, Status::Snapshot);
//!
//! // Later: what has completed behind that cursor?
//! let cursor = first.through_cursor.as_deref();
//! let next = read(&stores, &Request { after: cursor, ..Request::snapshot(project) }, Mapping::Never)?;
//! assert_eq!(next.status, Status::Delta);
//! assert!(next.turns.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! Instead of asking again and again, [`observer::wait`] sleeps until there is something to ask for; [`events`] wake it.
//!
//! The data goes one way: [`scan`] finds rollouts and their rows, `throughline-parsers` makes turns of them, [`hosts`]
//! makes a [`chain`] per thread, [`observer`] chooses the entries that are asked for, [`db`] projects their bodies. What was
//! read once is remembered in the [`cache`], so that the next read costs what changed. What writes goes through
//! [`private_file`]: [`receipts`], the cache and the database. Another question than the Observer's is whether a session has
//! shown its name: [`session_name`].

pub mod audit;
pub mod cache;
pub mod capturing;
pub mod chain;
pub mod clock;
mod cores;
pub mod db;
pub mod demo;
pub mod doctor;
pub mod error;
pub mod events;
pub mod hooks;
pub mod hosts;
pub mod lock;
pub mod observer;
pub mod paths;
pub mod private_file;
pub mod receipts;
pub mod remembered;
pub mod resolving;
pub mod scan;
pub mod session_name;
pub mod stores;

pub use error::{Error, Kind};
pub use scan::file::Mapping;
pub use stores::Stores;
