//! The ordered scan of a transcript, from where the last one left it.

use std::io;
use std::ops::Range;
use std::path::Path;

use throughline_parsers::claude::{MissingRow, NameScan, Reason, Row, Verdict};

use crate::cache::Cache;
use crate::scan::followed::{Follow, Followed};
use crate::scan::transcript::Transcript;

/// Whether a transcript shows this name where it had to. One that is not there, or cannot be read, is none.
pub fn verdict(transcript: &Path, name: &str, cache: Option<&Cache>) -> Verdict {
    let scanned = scan(transcript, cache).ok().flatten();
    scanned.map_or(Verdict::Unavailable(Reason::MissingTranscript), |scanned| scanned.state().verdict(name))
}

fn scan(path: &Path, cache: Option<&Cache>) -> io::Result<Option<Followed<NameScan>>> {
    let Some(transcript) = Transcript::open(path)? else { return Ok(None) };
    let scanned = Followed::read(path, &transcript, None, cache)?;
    if let Some(cache) = cache.filter(|_| scanned.read >= WORTH_STORING) {
        scanned.store(cache);
    }
    Ok(Some(scanned))
}

/// So many bytes are read again in the time that it takes to remember that they were read.
const WORTH_STORING: u64 = 256 << 10;

impl Follow for NameScan {
    const WHAT: &'static str = "names";

    fn follow(&mut self, row: &Row, _: impl FnMut(Range<u64>) -> Option<Vec<u8>>) -> Result<bool, MissingRow> {
        Ok(self.apply(row))
    }

    fn recent(&self) -> u64 {
        // Few rows change anything, and each of them decides.
        0
    }
}
