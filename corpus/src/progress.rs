//! A progress bar for what takes longer than a second, where somebody looks.

use std::io::{self, IsTerminal, Write};
use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is done sooner has no bar.
const PATIENCE: Duration = Duration::from_secs(1);

const BAR: &str = "{wide_bar} {bytes} of {total_bytes}, {eta} left";

/// How many of some bytes are written.
pub struct Progress {
    bar: ProgressBar,
    since: Instant,
    shown: Once,
}

impl Progress {
    /// Of about so many bytes none is written.
    pub fn of(bytes: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template(BAR).expect("the template is a constant that the tests use"));
        Self { bar, since: Instant::now(), shown: Once::new() }
    }

    /// A writer that counts here what goes through it.
    pub fn through<W: Write>(&self, out: W) -> impl Write {
        Through { out, progress: self }
    }

    fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
        if self.since.elapsed() > PATIENCE && io::stderr().is_terminal() {
            self.shown.call_once(|| self.bar.set_draw_target(ProgressDrawTarget::stderr()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

struct Through<'p, W> {
    out: W,
    progress: &'p Progress,
}

impl<W: Write> Write for Through<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.progress.add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_goes_through_is_counted_and_unchanged() {
        let progress = Progress::of(10);
        let mut out = Vec::new();
        progress.through(&mut out).write_all(b"seven b").unwrap();
        assert_eq!((progress.bar.position(), &*out), (7, &b"seven b"[..]));
        assert!(progress.bar.is_hidden());
    }
}
