//! The search for line feeds and row starts, in the instructions of the processor at hand.

use throughline_parsers::codex::Rollout;
use throughline_parsers::lines::{NextStop, Scanner, Spelling};

/// A scanner that finds its way as fast as this processor can.
pub fn scanner() -> Scanner {
    scanner_of()
}

/// The same for any spelling. One that has Codex' plain search gets the fastest there is.
pub fn scanner_of<S: Spelling>() -> Scanner<S> {
    let is_codex = std::ptr::fn_addr_eq(S::NEXT_STOP, <Rollout as Spelling>::NEXT_STOP);
    fastest().filter(|_| is_codex).map_or_else(Scanner::default, Scanner::new)
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
    use std::arch::x86_64::{
        __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_and_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256,
        _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
    };

    use throughline_parsers::lines::{ROW_MARK, next_stop};

    /// So many bytes are looked at together, and those that tell a row start.
    const STRIDE: usize = 128;
    const WITH_MARKS: usize = STRIDE + ROW_MARK.1;
    /// How far ahead bytes are fetched into the cache: the processor's own prefetching ends at each page, which leaves a
    /// scan of memory waiting.
    const AHEAD: usize = 4096;
    const LINE: usize = 64;

    /// [`next_stop`] in instructions of AVX2.
    #[target_feature(enable = "avx2")]
    pub fn next_stop_avx2(bytes: &[u8], from: usize) -> usize {
        let [line_feed, start, mark] = [b'\n', ROW_MARK.0, ROW_MARK.2].map(|byte| _mm256_set1_epi8(byte.cast_signed()));
        let stops = |stride: &[u8; WITH_MARKS], n: usize| {
            let (here, behind) = (load(stride, n), load(stride, n + ROW_MARK.1));
            let row = _mm256_and_si256(_mm256_cmpeq_epi8(here, start), _mm256_cmpeq_epi8(behind, mark));
            _mm256_or_si256(_mm256_cmpeq_epi8(here, line_feed), row)
        };
        let mut at = from;
        while let Some(stride) = bytes[at..].first_chunk::<WITH_MARKS>() {
            let ahead = bytes.as_ptr().wrapping_add(at + AHEAD).cast::<i8>();
            // A hint: it reads nothing into the program and does not fault, whatever the address.
            _mm_prefetch::<_MM_HINT_T0>(ahead);
            _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(LINE));
            let [a, b, c, d] = [0, 32, 64, 96].map(|n| stops(stride, n));
            let (ab, cd) = (_mm256_or_si256(a, b), _mm256_or_si256(c, d));
            if _mm256_movemask_epi8(_mm256_or_si256(ab, cd)) != 0 {
                let bits = |part| u64::from(_mm256_movemask_epi8(part).cast_unsigned());
                let (low, high) = (bits(a) | bits(b) << 32, bits(c) | bits(d) << 32);
                let found = if low != 0 { low.trailing_zeros() } else { 64 + high.trailing_zeros() };
                return at + found as usize;
            }
            at += STRIDE;
        }
        next_stop(bytes, at)
    }

    #[target_feature(enable = "avx2")]
    fn load(stride: &[u8; WITH_MARKS], n: usize) -> __m256i {
        debug_assert!(n + 32 <= WITH_MARKS);
        // SAFETY: the instruction reads 32 bytes from any address; those are within the array, since `n` is at most
        // STRIDE - 32 + 4 and the array has STRIDE + 4.
        unsafe { _mm256_loadu_si256(stride.as_ptr().add(n).cast()) }
    }
}

#[cfg(test)]
mod tests {
    use throughline_parsers::lines::next_stop;

    #[test]
    fn the_fastest_search_is_the_plain_one() {
        let Some(fastest) = super::fastest() else { return };
        let row = "{\"timestamp\":\"";
        let text = [
            "{x}".repeat(200),
            "\n".to_owned(),
            "{ztym".repeat(100),
            row.to_owned(),
            "x".repeat(300),
            "\n{".to_owned(),
        ];
        let text = text.concat();
        for from in 0..=text.len() {
            for to in [text.len(), from + (text.len() - from) / 2] {
                let bytes = &text.as_bytes()[..to];
                assert_eq!(fastest(bytes, from), next_stop(bytes, from), "from {from} to {to}");
            }
        }
    }
}
