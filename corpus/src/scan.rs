//! The yardstick: nothing that looks at every byte of a file can be faster than finding its newlines.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use memmap2::Mmap;

/// What a scan found, and how long it took, from opening the file on.
pub struct Scanned {
    /// How many newlines there are.
    pub newlines: usize,
    /// How long it took.
    pub time: Duration,
}

/// Counts the newlines of a file, split into as many parts as threads.
///
/// # Errors
/// It cannot be opened or mapped.
pub fn newlines(path: &Path, threads: usize) -> io::Result<Scanned> {
    let start = Instant::now();
    let file = File::open(path)?;
    // SAFETY: the bytes are only read, and any bytes will do; a file cut short meanwhile ends this program, which holds
    // nothing to lose.
    let bytes = unsafe { Mmap::map(&file)? };
    let part_bytes = bytes.len().div_ceil(threads).max(1);
    let newlines = thread::scope(|scope| {
        let parts: Vec<_> =
            bytes.chunks(part_bytes).map(|part| scope.spawn(|| memchr::memchr_iter(b'\n', part).count())).collect();
        parts.into_iter().map(|part| part.join().expect("counting does not panic")).sum()
    });
    Ok(Scanned { newlines, time: start.elapsed() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_newline_is_counted_once() {
        let file = std::env::temp_dir().join(format!("corpus-scan-{}", std::process::id()));
        std::fs::write(&file, "a\n\nbc\nd").unwrap();
        for threads in 1..=9 {
            assert_eq!(newlines(&file, threads).unwrap().newlines, 3);
        }
        std::fs::remove_file(&file).unwrap();
    }
}
