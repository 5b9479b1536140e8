//! Bars for what takes longer than a second, where somebody looks.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use throughline::audit;

/// What is done sooner has no bar.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a bar that nobody moves looks by itself.
const TICK: Duration = Duration::from_millis(100);

/// How many of how many are done.
pub struct Progress {
    bar: ProgressBar,
    since: Instant,
}

impl Progress {
    /// Nothing is done yet of these.
    pub fn of(what: &'static str) -> Self {
        let progress = Self::with_template("{wide_bar} {pos} of {len} {msg}, {eta} left");
        progress.bar.set_message(what);
        progress
    }

    fn with_template(template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, since: Instant::now() }
    }

    /// So many of so many are done.
    pub fn done(&self, done: usize, all: usize) {
        self.at(done as u64, all as u64);
    }

    fn at(&self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done.min(all));
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

/// Does it, with a bar that shows how far an audit is.
pub fn beside<T>(audit: &audit::Progress, work: impl FnOnce() -> T) -> T {
    let (done, ended) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let bar = Progress::with_template(
                "{wide_bar} {bytes} of {total_bytes}, {msg} files, {bytes_per_sec}, {eta} left",
            );
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let ((files, all_files), (bytes, all_bytes)) = (audit.files(), audit.bytes());
                bar.bar.set_message(format!("{files} of {all_files}"));
                bar.at(bytes, all_bytes);
            }
        });
        let result = work();
        drop(done);
        result
    })
}
