//! Text to fill rows with: made once, then cut into pieces.

use std::fmt::Write;

use crate::random::Random;

const POOL_BYTES: usize = 8 << 20;
const PROSE_BYTES: usize = 1 << 20;

/// Made-up text that rows are cut from.
pub struct Pool {
    /// Lines of tool output as they stand in a JSON string, each with its escaped line feed.
    escaped: String,
    line_starts: Vec<usize>,
    /// Prose as it stands in a JSON string, cut at spaces.
    prose: String,
    base64: String,
}

impl Pool {
    /// Makes the text.
    pub fn new(random: &mut Random) -> Self {
        let mut escaped = String::with_capacity(POOL_BYTES + 256);
        let mut line_starts = Vec::new();
        while escaped.len() < POOL_BYTES {
            line_starts.push(escaped.len());
            push_line(&mut escaped, random);
        }
        let prose = escape(&prose(random, PROSE_BYTES as u64));
        Self { escaped, line_starts, prose, base64: base64(random) }
    }

    /// Whole lines of tool output as they stand in a JSON string, of this size or a little more.
    pub fn escaped(&self, random: &mut Random, bytes: u64) -> &str {
        let bytes = (bytes as usize).min(POOL_BYTES / 2);
        let starts = &self.line_starts;
        let last_start = starts.partition_point(|start| start + bytes < POOL_BYTES);
        let first = starts[random.below(last_start.max(1) as u64) as usize];
        let end = starts.partition_point(|start| *start < first + bytes);
        &self.escaped[first..starts.get(end).copied().unwrap_or(self.escaped.len())]
    }

    /// Instructions and other prose as it stands in a JSON string, of about this size.
    pub fn prose(&self, random: &mut Random, bytes: u64) -> &str {
        let bytes = (bytes as usize).min(PROSE_BYTES / 2);
        // Behind a space neither a character nor an escape is cut.
        let cut = |at: usize| at + self.prose[at..].find(' ').map_or(self.prose.len() - at, |space| space + 1);
        let first = random.below((self.prose.len() - bytes) as u64) as usize;
        let [first, end] = [first, first + bytes].map(|at| cut(self.prose.floor_char_boundary(at)));
        &self.prose[first..end]
    }

    /// Base64 of this size.
    pub fn base64(&self, random: &mut Random, bytes: u64) -> &str {
        let bytes = (bytes as usize).min(POOL_BYTES / 2);
        let first = random.below((POOL_BYTES - bytes) as u64) as usize;
        &self.base64[first..first + bytes]
    }
}

/// Prose of about this size, not escaped, with letters that are not ASCII. As in people's own rollouts, about one byte in
/// eighty has to be escaped in a JSON string: a line end or a quote.
pub fn prose(random: &mut Random, bytes: u64) -> String {
    let mut text = String::from("So");
    while (text.len() as u64) < bytes {
        text.push_str(match random.below(24) {
            0 => random.pick(&["\n", "\n\n", "\n- "]),
            1..4 => random.pick(&[", ", ". ", ": "]),
            _ => " ",
        });
        match random.below(60) {
            0 => _ = write!(text, "\"{}\"", random.pick(WORDS)),
            1..5 => _ = write!(text, "`{}`", random.pick(WORDS)),
            _ => text.push_str(random.pick(WORDS)),
        }
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

fn push_line(text: &mut String, random: &mut Random) {
    let mut word = || random.pick(WORDS);
    let [a, b, c, d] = [word(), word(), word(), word()];
    let number = random.between(1, 2000);
    let written = match random.below(7) {
        0 => write!(text, r#"src/{a}/{b}.rs:{number}:    let {c} = {d}(\"{a}\")?;"#),
        1 => write!(text, r"\tmodified:   {a}/{b}_{c}.py"),
        2 => write!(text, r"test {a}::{b}_{c}_{d} ... ok"),
        3 => write!(text, r#"{number:>6}\t    if ({a} == null) {{ return {b}[\"{c}\"]; }} // {d}"#),
        4 => write!(text, r"2026-07-01 12:{:02}:{:02} INFO {a}: {b} {c} → {d}", number % 60, number % 59),
        5 => write!(text, r"C:\\{a}\\{b}\\{c}.cs({number},{}): warning: {d} {a} {b}", number % 80),
        _ => write!(text, r"{a} {b} {c} {d} {b} {a}, {number} {c} {d}; {a} {c} {b} ({d})"),
    };
    written.expect("a String takes everything");
    text.push_str(r"\n");
}

fn base64(random: &mut Random) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(POOL_BYTES + 10);
    while text.len() < POOL_BYTES {
        let bits = random.bits();
        text.extend((0..10).map(|digit| char::from(DIGITS[(bits >> (6 * digit) & 63) as usize])));
    }
    text
}

const WORDS: &[&str] = &[
    "parser", "buffer", "the", "offset", "row", "column", "index", "value", "of", "a", "stream", "reader", "writer",
    "test", "config", "server", "client", "request", "response", "handler", "naïve", "error", "result", "cache",
    "queue", "worker", "thread", "lock", "state", "event", "and", "to", "schema", "table", "query", "cursor", "page",
    "token", "größe", "key", "session", "user", "message", "tool", "output", "is", "file", "path", "line", "build",
    "release", "branch", "commit",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pieces_have_their_size_and_are_json() {
        let mut random = Random::new(1);
        let pool = Pool::new(&mut random);
        for bytes in [0, 1, 100, 10_000, 4_000_000] {
            let piece = pool.escaped(&mut random, bytes);
            assert!((bytes..bytes + 200).contains(&(piece.len() as u64)));
            serde_json::from_str::<String>(&format!("\"{piece}\"")).unwrap();
            assert_eq!(pool.base64(&mut random, bytes).len() as u64, bytes);
        }
        for bytes in [0, 1, 100, 30_000] {
            let piece = pool.prose(&mut random, bytes);
            assert!((bytes.saturating_sub(50)..bytes + 50).contains(&(piece.len() as u64)));
            serde_json::from_str::<String>(&format!("\"{piece}\"")).unwrap();
        }
        assert!(prose(&mut random, 500).len() < 530);
    }
}
