//! The chain of one thread: its completed pairs as hashes, with a rolling digest over them.

use std::ops::Range;

use sha2::digest::common::hazmat::SerializableState;
use sha2::{Digest as _, Sha256};
use throughline_parsers::pack::{Pack, Packer, Unpacker};
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

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
        }
    }
}

/// One completed pair, as it stands in the chain. Host and thread are the chain's.
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

/// One completed pair.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// SHA-256 of the canonical user text.
    pub user: Digest,
    /// SHA-256 of the canonical assistant text.
    pub assistant: Digest,
    /// When the turn completed, in milliseconds since the epoch.
    pub completed_at: i64,
    /// Where it completed: one of the places of its chain.
    pub place: Place,
    /// Its number there.
    pub number: u64,
}

/// So many pairs, or fewer, come behind those that are known.
const FEW: usize = 16;

/// One of the places that completions of a chain stand at: a rollout, or receipts of one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// Where a chain ends: what is known of a thread without its pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The number of its pairs, from 1.
    pub length: usize,
    /// The digest over them.
    pub digest: Digest,
    /// When the last one completed, in milliseconds since the epoch.
    pub completed_at: i64,
}

impl End {
    /// What orders threads: the latest completion, then the digest of the thread. (A thread has one source of its end, so
    /// that this decides nothing behind them.)
    pub fn rank(&self, thread: Digest) -> (i64, Digest) {
        (self.completed_at, thread)
    }
}

/// The completed pairs of one thread in the order in which they completed.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The program that wrote the thread.
    pub host: Host,
    /// SHA-256 of the thread's id.
    pub thread: Digest,
    /// SHA-256 of the origin session, and what stands in front of a number in the text of a source.
    places: Vec<(Digest, String)>,
    /// So many pairs in front are not at hand.
    settled: usize,
    pairs: Vec<Pair>,
    prefixes: Vec<Digest>,
    rolling: Rolling,
}

impl Chain {
    /// A thread without completed pairs.
    pub fn new(host: Host, thread: Digest) -> Self {
        Self::behind(host, thread, 0)
    }

    /// A thread of which so many pairs, the first ones, are not at hand. Some that are known have to be
    /// [pushed](Self::push_known) first.
    pub fn behind(host: Host, thread: Digest, settled: usize) -> Self {
        let (places, pairs, prefixes) = (Vec::new(), Vec::new(), Vec::new());
        Self { host, thread, places, settled, pairs, prefixes, rolling: Rolling::default() }
    }

    /// The number of pairs in front that are not at hand: of these there are no entries, and no digest up to one of them.
    pub fn settled(&self) -> usize {
        self.settled
    }

    /// A place for pairs of the same origin session. The source of each is written as this text with its number behind.
    pub fn place(&mut self, origin: Digest, source: &str) -> Place {
        let known = self.places.iter().rposition(|(of, text)| (*of, text.as_str()) == (origin, source));
        let place = known.unwrap_or_else(|| {
            self.places.push((origin, source.to_owned()));
            self.places.len() - 1
        });
        Place(u32::try_from(place).expect("a chain has no more places than pairs, and fewer of these than 2^32"))
    }

    /// Adds the pair that completed next.
    pub fn push(&mut self, pair: Pair) {
        self.rolling.push(self.host, self.thread, &self.entry(&pair));
        self.prefixes.push(self.rolling.digest());
        self.pairs.push(pair);
    }

    /// Adds the pairs that completed next, of which the digests over all of the chain up to each of them are known, and
    /// what these rolled on to.
    pub fn push_known(&mut self, pairs: impl IntoIterator<Item = Pair>, prefixes: Vec<Digest>, rolling: Rolling) {
        // Room for them and a few that come behind, at once: a long chain is not to be moved while it grows.
        self.pairs.reserve(prefixes.len() + FEW);
        self.pairs.extend(pairs);
        match self.prefixes.is_empty() {
            true => self.prefixes = prefixes,
            false => self.prefixes.extend(prefixes),
        }
        debug_assert_eq!(self.pairs.len(), self.prefixes.len(), "each pair has its digest");
        self.rolling = rolling;
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.settled + self.pairs.len()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some of the pairs; those that are not there are left out.
    pub fn entries(&self, range: Range<usize>) -> Vec<Entry> {
        debug_assert!(range.start >= self.settled, "what is asked for is at hand");
        let [start, end] = [range.start, range.end].map(|at| at.saturating_sub(self.settled).min(self.pairs.len()));
        self.pairs[start.min(end)..end].iter().map(|pair| self.entry(pair)).collect()
    }

    /// The digest of a source is made when its entry is asked for: of a long chain few are.
    fn entry(&self, pair: &Pair) -> Entry {
        let Pair { user, assistant, completed_at, place: Place(place), number } = *pair;
        let (origin, source) = &self.places[place as usize];
        Entry { origin: *origin, user, assistant, completed_at, source: Digest::of(&format!("{source}{number}")) }
    }

    /// The pairs that are at hand.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Where it ends; `None` when it has no pair.
    pub fn end(&self) -> Option<End> {
        let (last, digest) = (self.pairs.last()?, *self.prefixes.last()?);
        Some(End { length: self.len(), digest, completed_at: last.completed_at })
    }

    /// The digests up to the first pair that is at hand, the second one, and so on.
    pub fn prefixes(&self) -> &[Digest] {
        &self.prefixes
    }

    /// What its digest has rolled on to.
    pub fn rolling(&self) -> &Rolling {
        &self.rolling
    }

    /// The digest of the first `length` pairs; `None` when there are not so many.
    pub fn prefix(&self, length: usize) -> Option<Digest> {
        match length {
            0 => Some(Digest::of("")),
            n => {
                debug_assert!(n > self.settled, "what is asked for is at hand");
                self.prefixes.get(n.checked_sub(self.settled + 1)?).copied()
            }
        }
    }
}

/// The digest of entries as if they were a chain of their own.
pub fn digest_of(host: Host, thread: Digest, entries: &[Entry]) -> Digest {
    let mut rolling = Rolling::default();
    entries.iter().for_each(|entry| rolling.push(host, thread, entry));
    rolling.digest()
}

/// SHA-256 over entries: fields joined by NUL, entries joined by LF.
#[derive(Clone, Debug, Default)]
pub struct Rolling {
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

/// The state holds up to 63 bytes in clear; of a chain these are hashes and times.
impl Pack for Rolling {
    fn pack(&self, packer: &mut Packer) {
        self.begun.pack(packer);
        packer.counted(&self.hasher.serialize());
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let begun = bool::unpack(unpacker)?;
        let state = unpacker.counted()?.try_into().ok()?;
        Some(Self { hasher: Sha256::deserialize(state).ok()?, begun })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn push(chain: &mut Chain, n: u64) {
        let digest = |what| Digest::of(&format!("{what}{n}"));
        let place = if n == 2 { chain.place(digest("o"), "/p\0") } else { chain.place(Digest::of("o"), "claude:") };
        let pair = Pair { user: digest("u"), assistant: digest("a"), completed_at: n as i64, place, number: n };
        chain.push(pair);
    }

    #[test]
    fn a_prefix_is_the_digest_of_its_spelled_entries() {
        let thread = Digest::of("t");
        let mut chain = Chain::new(Host::Codex, thread);
        (1..=3).for_each(|n| push(&mut chain, n));
        let spell = |e: &Entry| {
            let fields = [e.origin, e.user, e.assistant].map(|digest| digest.to_string()).join("\0");
            format!("codex\0{thread}\0{fields}\0{}\0{}", e.completed_at, e.source)
        };
        let sources = chain.entries(0..3).iter().map(|entry| (entry.origin, entry.source)).collect::<Vec<_>>();
        let spelled = [("o", "claude:1"), ("o2", "/p\x002"), ("o", "claude:3")];
        assert_eq!(sources, spelled.map(|(origin, source)| (Digest::of(origin), Digest::of(source))));
        for length in 0..=3 {
            let entries = chain.entries(0..length);
            let text: Vec<_> = entries.iter().map(spell).collect();
            assert_eq!(chain.prefix(length), Some(Digest::of(&text.join("\n"))));
            assert_eq!(digest_of(Host::Codex, thread, &entries), chain.prefix(length).unwrap());
        }
        assert_eq!(chain.prefix(4), None);
        assert!(chain.entries(5..9).is_empty());
    }

    #[test]
    fn a_chain_rolls_on_from_where_it_was_saved() {
        let mut whole = Chain::new(Host::Codex, Digest::of("t"));
        for n in 0..=4 {
            let mut packer = Packer::default();
            whole.rolling().pack(&mut packer);
            let rolling = Rolling::unpack(&mut Unpacker::new(&packer.finish())).unwrap();
            let mut again = Chain::new(Host::Codex, whole.thread);
            again.places.clone_from(&whole.places);
            again.push_known(whole.pairs().to_vec(), whole.prefixes().to_vec(), rolling);
            push(&mut whole, n);
            push(&mut again, n);
            assert_eq!(again.end(), whole.end());
            assert_eq!(again.prefixes(), whole.prefixes());
        }
    }
}
