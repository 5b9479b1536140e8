//! The chain of one thread: its completed pairs as hashes, with a rolling digest over them.

use sha2::{Digest as _, Sha256};
use throughline_parsers::text::Digest;

/// The agent program that wrote a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// Anthropic Claude Code.
    Claude,
    /// OpenAI Codex.
    Codex,
}

impl Host {
    /// Its name in tokens and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }
}

/// One completed pair. Host and thread are the chain's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// SHA-256 of the origin session.
    pub origin: Digest,
    /// SHA-256 of the canonical user text.
    pub user: Digest,
    /// SHA-256 of the canonical assistant text.
    pub assistant: Digest,
    /// When the turn completed, in milliseconds since the epoch.
    pub completed_at: i64,
    /// SHA-256 of where the completion stands.
    pub source: Digest,
}

/// The completed pairs of one thread in the order in which they completed.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The program that wrote the thread.
    pub host: Host,
    /// SHA-256 of the thread's id.
    pub thread: Digest,
    entries: Vec<Entry>,
    prefixes: Vec<Digest>,
    rolling: Rolling,
}

impl Chain {
    /// A thread without completed pairs.
    pub fn new(host: Host, thread: Digest) -> Self {
        Self { host, thread, entries: Vec::new(), prefixes: Vec::new(), rolling: Rolling::default() }
    }

    /// Adds the pair that completed next.
    pub fn push(&mut self, entry: Entry) {
        self.rolling.push(self.host, self.thread, &entry);
        self.prefixes.push(self.rolling.digest());
        self.entries.push(entry);
    }

    /// The pairs.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The digest of the first `length` pairs; `None` when there are not so many.
    pub fn prefix(&self, length: usize) -> Option<Digest> {
        match length {
            0 => Some(Rolling::default().digest()),
            n => self.prefixes.get(n - 1).copied(),
        }
    }

    /// The digest of a part of the chain as if it were one of its own.
    pub fn digest_of(&self, entries: &[Entry]) -> Digest {
        let mut rolling = Rolling::default();
        entries.iter().for_each(|entry| rolling.push(self.host, self.thread, entry));
        rolling.digest()
    }
}

/// SHA-256 over entries: fields joined by NUL, entries joined by LF.
#[derive(Clone, Debug, Default)]
struct Rolling {
    hasher: Sha256,
    begun: bool,
}

impl Rolling {
    fn push(&mut self, host: Host, thread: Digest, entry: &Entry) {
        let completed_at = entry.completed_at.to_string();
        let [thread, origin, user] = [thread.hex(), entry.origin.hex(), entry.user.hex()];
        let [assistant, source] = [entry.assistant.hex(), entry.source.hex()];
        let fields: [&[u8]; 7] =
            [host.name().as_bytes(), &thread, &origin, &user, &assistant, completed_at.as_bytes(), &source];
        // One call per entry: the hasher then works on whole blocks.
        let mut bytes = Vec::with_capacity(384);
        if std::mem::replace(&mut self.begun, true) {
            bytes.push(b'\n');
        }
        for (n, field) in fields.into_iter().enumerate() {
            if n > 0 {
                bytes.push(0);
            }
            bytes.extend_from_slice(field);
        }
        self.hasher.update(&bytes);
    }

    fn digest(&self) -> Digest {
        Digest(self.hasher.clone().finalize().into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entry(n: i64) -> Entry {
        let digest = |what| Digest::of(&format!("{what}{n}"));
        Entry { origin: digest("o"), user: digest("u"), assistant: digest("a"), completed_at: n, source: digest("s") }
    }

    #[test]
    fn a_prefix_is_the_digest_of_its_spelled_entries() {
        let thread = Digest::of("t");
        let mut chain = Chain::new(Host::Codex, thread);
        (1..=3).for_each(|n| chain.push(entry(n)));
        let spell = |e: &Entry| {
            let fields = [e.origin, e.user, e.assistant].map(|digest| digest.to_string()).join("\0");
            format!("codex\0{thread}\0{fields}\0{}\0{}", e.completed_at, e.source)
        };
        for length in 0..=3 {
            let text: Vec<_> = chain.entries()[..length].iter().map(spell).collect();
            assert_eq!(chain.prefix(length), Some(Digest::of(&text.join("\n"))));
            assert_eq!(chain.digest_of(&chain.entries()[..length]), chain.prefix(length).unwrap());
        }
        assert_eq!(chain.prefix(4), None);
    }
}
