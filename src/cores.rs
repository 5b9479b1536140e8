//! Where threads run. One that has just begun often stands on the core of the thread that began it, though another one is
//! idle: then the two take turns until the scheduler looks around, some milliseconds later. A poll is over by then.

/// What a thread that is about to be started does first: it goes to another core than the calling thread's.
pub fn elsewhere<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let here = Core::here();
    move || {
        here.leave();
        work()
    }
}

/// A core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Core(#[cfg(any(target_os = "linux", target_os = "android"))] usize);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Core {
    /// The one that the calling thread is on.
    fn here() -> Self {
        // SAFETY: the call takes nothing and touches no memory of ours. (That of `rustix` looks for the system's own library
        // in a way that ends a process under valgrind.)
        let core = unsafe { libc::sched_getcpu() };
        // What is no core is none of those that one may go to.
        Self(usize::try_from(core).unwrap_or(usize::MAX))
    }

    /// Has the calling thread go to another one, if it may; after that it can go anywhere again.
    fn leave(self) {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

        let Ok(all) = sched_getaffinity(None) else { return };
        let mut others = all;
        if self.0 < CpuSet::MAX_CPU {
            others.unset(self.0);
        }
        if others.count() > 0 && others != all {
            // Where that is not allowed, it stays where it is.
            let _ = sched_setaffinity(None, &others).and_then(|()| sched_setaffinity(None, &all));
        }
    }
}

/// Elsewhere the system is left to it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Core {
    /// The one that the calling thread is on.
    fn here() -> Self {
        Self()
    }

    /// Has the calling thread go to another one, if it may.
    fn leave(self) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    #[test]
    fn a_thread_goes_to_another_core_and_may_come_back() {
        let all = sched_getaffinity(None).unwrap();
        let here = Core::here();
        let there = std::thread::spawn(move || {
            here.leave();
            assert_eq!(sched_getaffinity(None).unwrap(), all);
            // Where there is but one, it stays.
            let mut one = CpuSet::new();
            one.set(Core::here().0);
            sched_setaffinity(None, &one).unwrap();
            Core::here().leave();
            assert_eq!(sched_getaffinity(None).unwrap(), one);
            Core::here()
        });
        assert!(all.is_set(there.join().unwrap().0));
    }
}
