//! The search for line feeds and row starts, compiled for the processor at hand.

use throughline_parsers::lines::{NextStop, Scanner, next_stop};

/// A scanner that finds its way as fast as this processor can.
pub fn scanner() -> Scanner {
    fastest().map_or_else(Scanner::default, Scanner::new)
}

#[cfg(target_arch = "x86_64")]
fn fastest() -> Option<NextStop> {
    // SAFETY: the function needs AVX2 and nothing else, and is only called where that has been detected.
    is_x86_feature_detected!("avx2").then_some(|bytes, from| unsafe { x86::next_stop_avx2(bytes, from) })
}

#[cfg(not(target_arch = "x86_64"))]
fn fastest() -> Option<NextStop> {
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    /// How far ahead bytes are fetched into the cache: the processor's own prefetching ends at each page, which leaves a
    /// scan of memory waiting.
    const AHEAD: usize = 2048;
    const LINE: usize = 64;

    /// The portable search, in instructions of AVX2.
    #[target_feature(enable = "avx2")]
    pub fn next_stop_avx2(bytes: &[u8], from: usize) -> usize {
        super::next_stop(bytes, from, |bytes, at| {
            let ahead = bytes.as_ptr().wrapping_add(at + AHEAD).cast::<i8>();
            // A hint: it reads nothing into the program and does not fault, whatever the address.
            _mm_prefetch::<_MM_HINT_T0>(ahead);
            _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(LINE));
        })
    }
}

#[cfg(test)]
mod tests {
    use throughline_parsers::lines::next_stop;

    #[test]
    fn the_fastest_search_is_the_portable_one() {
        let Some(fastest) = super::fastest() else { return };
        let text = format!("{}\n{}{{\"timestamp\":\"x\n", "{x}".repeat(200), "{ztym".repeat(100));
        for from in 0..=text.len() {
            assert_eq!(fastest(text.as_bytes(), from), next_stop(text.as_bytes(), from, |_, _| {}), "from {from}");
        }
    }
}
