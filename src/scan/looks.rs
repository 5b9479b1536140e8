//! Files and folders of which it is to be told whether they can have changed. Each costs a look, and of many of these half
//! are another core's.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// So many are looked at in one go.
const FEW: usize = 16;

/// What a look finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It can only be as it was.
    Same,
    /// It can have changed.
    Changed,
    /// It can have changed, and then nobody asks for the others.
    Enough,
}

type Look = dyn Fn(usize) -> Found + Send + Sync;

/// Things that are to be looked at, numbered from 0. Whoever has time takes the next few.
pub struct Looks {
    count: usize,
    look: Box<Look>,
    /// The first one that nobody has taken.
    next: AtomicUsize,
    looked: Mutex<Looked>,
    /// Somebody has looked at the last of what was taken.
    all: Condvar,
}

#[derive(Debug, Default)]
struct Looked {
    count: usize,
    changed: Vec<usize>,
    /// Nobody asks for the others.
    enough: bool,
}

impl Looks {
    /// So many, each to be looked at so.
    pub fn new(count: usize, look: impl Fn(usize) -> Found + Send + Sync + 'static) -> Self {
        let look = Box::new(look);
        Self { count, look, next: AtomicUsize::new(0), looked: Mutex::default(), all: Condvar::new() }
    }

    /// Looks at them until all are taken.
    pub fn look(&self) {
        loop {
            let start = self.next.fetch_add(FEW, Ordering::Relaxed);
            let taken = start..self.count.min(start.saturating_add(FEW));
            if taken.is_empty() {
                return;
            }
            let count = taken.len();
            let found: Vec<(usize, Found)> =
                taken.map(|n| (n, (self.look)(n))).filter(|(_, f)| *f != Found::Same).collect();
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            looked.count += count;
            if found.iter().any(|(_, found)| *found == Found::Enough) {
                looked.enough = true;
                self.next.store(self.count, Ordering::Relaxed);
            }
            looked.changed.extend(found.into_iter().map(|(n, _)| n));
            if looked.enough || looked.count == self.count {
                self.all.notify_all();
            }
        }
    }

    /// The numbers of those that can have changed, in order; `None` where not all had to be looked at.
    pub fn changed(&self) -> Option<Vec<usize>> {
        self.look();
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lacking = |looked: &mut Looked| !looked.enough && looked.count < self.count;
        let mut looked = self.all.wait_while(looked, is_lacking).unwrap_or_else(PoisonError::into_inner);
        let mut changed = std::mem::take(&mut looked.changed);
        changed.sort_unstable();
        Some(changed).filter(|_| !looked.enough)
    }
}

impl fmt::Debug for Looks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Looks").field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use std::thread;

    /// Looks at so many with four threads; what the look finds is told for each number.
    fn look_at(count: usize, found: fn(usize) -> Found) -> (Option<Vec<usize>>, Vec<usize>) {
        let times: Arc<Vec<AtomicUsize>> = Arc::new((0..count).map(|_| AtomicUsize::new(0)).collect());
        let of_looks = Arc::clone(&times);
        let looks = Arc::new(Looks::new(count, move |n| {
            of_looks[n].fetch_add(1, Ordering::Relaxed);
            found(n)
        }));
        let others: Vec<_> =
            (0..3).map(|_| Arc::clone(&looks)).map(|looks| thread::spawn(move || looks.look())).collect();
        let changed = looks.changed();
        others.into_iter().for_each(|other| other.join().unwrap());
        (changed, times.iter().map(|times| times.load(Ordering::Relaxed)).collect())
    }

    #[test]
    fn each_is_looked_at_once_by_whoever_has_time() {
        for count in [0, 1, FEW, 10 * FEW + 3] {
            let (changed, times) = look_at(count, |n| if n % 7 == 0 { Found::Changed } else { Found::Same });
            assert_eq!(changed, Some((0..count).filter(|n| n % 7 == 0).collect()));
            assert!(times.iter().all(|times| *times == 1));
        }
    }

    #[test]
    fn one_can_be_enough() {
        let (changed, times) = look_at(1000 * FEW, |n| if n == 3 { Found::Enough } else { Found::Same });
        assert_eq!(changed, None);
        assert!(times.iter().all(|times| *times <= 1) && times.iter().sum::<usize>() < 1000 * FEW);
    }
}
