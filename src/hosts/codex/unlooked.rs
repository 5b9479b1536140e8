//! Members of which it is to be told whether they can have changed: each costs a look at a file, and of many of these half
//! are another core's.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::members::record_in;
use crate::scan::root::Root;

/// So many are looked at in one go.
const FEW: usize = 16;

/// Remembered members that are to be looked at. Whoever has time takes the next few.
#[derive(Debug)]
pub struct Unlooked {
    root: Root,
    bytes: Arc<Vec<u8>>,
    /// The number of each member, and where its record stands.
    ranges: Vec<(usize, Range<usize>)>,
    /// The first of these that nobody has taken.
    next: AtomicUsize,
    looked: Mutex<Looked>,
    /// Somebody has looked at the last of what was taken.
    all: Condvar,
}

#[derive(Debug, Default)]
struct Looked {
    count: usize,
    changed: Vec<usize>,
}

impl Unlooked {
    /// These records, below this root.
    pub fn new(root: Root, bytes: Arc<Vec<u8>>, ranges: Vec<(usize, Range<usize>)>) -> Self {
        Self { root, bytes, ranges, next: AtomicUsize::new(0), looked: Mutex::default(), all: Condvar::new() }
    }

    /// Looks at them until all are taken.
    pub fn look(&self) {
        loop {
            let start = self.next.fetch_add(FEW, Ordering::Relaxed);
            let Some(taken) = self.ranges.get(start..self.ranges.len().min(start.saturating_add(FEW))) else { return };
            if taken.is_empty() {
                return;
            }
            let can_have_changed = |(_, range): &&(usize, Range<usize>)| {
                !record_in(&self.bytes, range).is_some_and(|record| record.is_unchanged(&self.root))
            };
            let changed: Vec<usize> = taken.iter().filter(can_have_changed).map(|(n, _)| *n).collect();
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            looked.changed.extend(changed);
            looked.count += taken.len();
            if looked.count == self.ranges.len() {
                self.all.notify_all();
            }
        }
    }

    /// The root that they are below.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Has nobody look any more: nobody asks.
    pub fn forget(&self) {
        self.next.store(self.ranges.len(), Ordering::Relaxed);
    }

    /// The numbers of those that can have changed, in order.
    pub fn changed(&self) -> Vec<usize> {
        self.look();
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lacking = |looked: &mut Looked| looked.count < self.ranges.len();
        let mut looked = self.all.wait_while(looked, is_lacking).unwrap_or_else(PoisonError::into_inner);
        let mut changed = std::mem::take(&mut looked.changed);
        changed.sort_unstable();
        changed
    }
}
