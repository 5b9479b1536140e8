//! A bar for what takes longer than a second, where somebody looks.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is done sooner has no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many of how many are done.
pub struct Progress {
    bar: ProgressBar,
    since: Instant,
}

impl Progress {
    /// Nothing is done yet of these.
    pub fn of(what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} {msg}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what);
        Self { bar, since: Instant::now() }
    }

    /// So many of so many are done.
    pub fn done(&self, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        if self.bar.is_hidden() && self.since.elapsed() > PATIENCE && io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
