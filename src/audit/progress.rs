//! How far an audit is, for whoever waits for it; and how they end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::scan::counted::Watch;

/// How far an audit is. It counts only what has to be read: what is remembered takes no time.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicU64,
    all_files: AtomicU64,
    bytes: AtomicU64,
    all_bytes: AtomicU64,
    stop: Arc<AtomicBool>,
    left_out: AtomicBool,
}

impl Progress {
    /// Of an audit that ends early once this is set.
    pub fn stopped_by(stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }

    /// How many files of how many were read.
    pub fn files(&self) -> (u64, u64) {
        (self.files.load(Ordering::Relaxed), self.all_files.load(Ordering::Relaxed))
    }

    /// How many bytes of how many were read.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.all_bytes.load(Ordering::Relaxed))
    }

    /// Whether something was left out since the audit was ended early.
    pub fn left_out(&self) -> bool {
        self.left_out.load(Ordering::Relaxed)
    }

    /// So many more files are to be read, of so many bytes.
    pub(super) fn expect(&self, files: u64, bytes: u64) {
        self.all_files.fetch_add(files, Ordering::Relaxed);
        self.all_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes of those have not to be read after all.
    pub(super) fn spare(&self, bytes: u64) {
        let spared = |all: u64| Some(all.saturating_sub(bytes));
        let _always = self.all_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spared);
    }

    /// A file is done; nothing came of it where it is `gone`, or where the audit was ended.
    pub(super) fn done(&self, gone: bool) {
        self.files.fetch_add(1, Ordering::Relaxed);
        if gone && self.stopped() {
            self.left_out.store(true, Ordering::Relaxed);
        }
    }
}

impl Watch for Progress {
    fn read(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
