//! Makes rollouts and stores of any size, and measures the yardstick they are read against.
//!
//! Everything made is made up, but rows are spelled, sized and ordered as Codex writes them, so that what is measured on
//! it holds for real logs. The same seed makes the same bytes.
//!
//! ```
//! use corpus::random::Random;
//! use corpus::rollout::{self, Layout, Mix, Origin, Plan};
//! use corpus::text::Pool;
//!
//! let mut random = Random::new(1);
//! let pool = Pool::new(&mut random);
//! let plan = Plan {
//!     cwd: "/home/me/project".to_owned(),
//!     bytes: 100_000,
//!     mix: Mix::Tool,
//!     layout: Layout::Legacy,
//!     turn_bytes: 20_000,
//!     turns: None,
//!     open_turn: None,
//!     start: corpus::units::END,
//!     origin: Origin::Person,
//! };
//! let mut bytes = Vec::new();
//! let written = rollout::write(&plan, &pool, &mut random, &mut bytes)?;
//! assert_eq!(written.state.end.bytes, bytes.len() as u64);
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod append;
pub mod progress;
pub mod random;
pub mod rollout;
pub mod scan;
pub mod store;
pub mod text;
pub mod units;

/// Why something could not be made; it ends the program.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;
