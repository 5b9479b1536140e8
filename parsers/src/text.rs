//! Text and digests of the contract: white space, folding, bodies, SHA-256, cuts by UTF-16 units.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// A SHA-256 digest; shown as 64 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of a text's UTF-8 bytes.
    ///
    /// ```
    /// use throughline_parsers::text::Digest;
    /// assert!(Digest::of("").to_string().starts_with("e3b0c44298fc1c14"));
    /// ```
    pub fn of(text: &str) -> Self {
        Self::of_bytes(text.as_bytes())
    }

    /// The digest of bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of the canonical [`body`] of a text.
    pub fn of_body(text: &str) -> Self {
        Self::of(&body(text))
    }

    /// The digest that is written so: exactly 64 lowercase hex digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = lower_hex(pair[0])? << 4 | lower_hex(pair[1])?;
        }
        Some(Self(digest))
    }

    /// The 64 lowercase hex digits, as bytes.
    pub fn hex(&self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 64];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        hex
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hex = self.hex();
        // Hex digits are ASCII.
        f.write_str(str::from_utf8(&hex).map_err(|_| std::fmt::Error)?)
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

fn lower_hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// White space as ECMAScript has it: not U+0085, but U+FEFF.
pub fn is_space(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{feff}')
}

/// A Codex message text: every run of white space is one space, both ends are trimmed.
///
/// ```
/// assert_eq!(throughline_parsers::text::fold("\u{feff} a\r\n\u{a0}b\u{85} "), "a b\u{85}");
/// ```
pub fn fold(text: &str) -> String {
    let mut folder = Folder::with_capacity(text.len());
    folder.push_str(text);
    folder.finish()
}

/// Takes text piece by piece.
pub trait Sink {
    /// Takes the next piece.
    fn push_str(&mut self, text: &str);
    /// Takes the next character.
    fn push(&mut self, c: char);
}

impl Sink for String {
    fn push_str(&mut self, text: &str) {
        self.push_str(text);
    }

    fn push(&mut self, c: char) {
        self.push(c);
    }
}

/// Folds text that comes in pieces.
#[derive(Debug, Default)]
pub struct Folder {
    out: String,
    /// White space came behind what is there.
    gap: bool,
}

impl Folder {
    /// With room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { out: String::with_capacity(bytes), gap: false }
    }

    /// The folded text.
    pub fn finish(self) -> String {
        self.out
    }

    /// Takes text that is folded already and not empty.
    fn push_folded(&mut self, text: &str) {
        if std::mem::take(&mut self.gap) && !self.out.is_empty() {
            self.out.push(' ');
        }
        self.out.push_str(text);
    }
}

impl Sink for Folder {
    fn push_str(&mut self, text: &str) {
        let mut rest = text;
        loop {
            let words = rest.trim_start_matches(is_space);
            self.gap |= words.len() < rest.len();
            if words.is_empty() {
                return;
            }
            let (folded, behind) = words.split_at(folded_len(words));
            self.push_folded(folded);
            rest = behind;
        }
    }

    fn push(&mut self, c: char) {
        if is_space(c) { self.gap = true } else { self.push_folded(c.encode_utf8(&mut [0; 4])) }
    }
}

/// How much of a text that begins with a word is folded already: its words up to white space that is not one space
/// between two of them.
fn folded_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    'text: while at < bytes.len() {
        at += plain_len(&bytes[at..]);
        // Here, within eight bytes, stands something else; or the end is near.
        let near = bytes.len().min(at + 8);
        while at < near {
            let one_space = bytes[at] == b' ' && bytes.get(at + 1) != Some(&b' ');
            if one_space || matches!(bytes[at], b'!'..=b'~') {
                at += 1;
                continue;
            }
            match text[at..].chars().next().filter(|c| !is_space(*c)) {
                Some(c) => at += c.len_utf8(),
                None => break 'text,
            }
        }
    }
    // One space may stand in front of the white space that ended it, or of the end.
    at - usize::from(at > 0 && bytes[at - 1] == b' ')
}

/// How many bytes stand before the first eight, looked at together, that are not plain ASCII with single spaces.
fn plain_len(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    const SPACES: u64 = ONES * b' ' as u64;
    // The top bit of a byte is set where that is a space, and possibly where it is `!` behind one: too careful is no mistake.
    let spaces = |word: u64| (word ^ SPACES).wrapping_sub(ONES) & !(word ^ SPACES);
    let mut at = 0;
    while let Some(nine) = bytes[at..].first_chunk::<9>() {
        let [a, b, c, d, e, f, g, h, next] = *nine;
        let word = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let following = word >> 8 | u64::from(next) << 56;
        let control = word.wrapping_sub(SPACES) & !word;
        if (control | word | spaces(word) & spaces(following)) & TOPS != 0 {
            break;
        }
        at += 8;
    }
    at
}

/// The canonical form of a body: NFC, line ends are LF, both ends trimmed.
///
/// ```
/// assert_eq!(throughline_parsers::text::body(" e\u{301}\r\nx\ry\n"), "é\nx\ny");
/// ```
pub fn body(text: &str) -> Cow<'_, str> {
    let text = match nfc(text) {
        text if text.contains('\r') => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        text => text,
    };
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_matches(is_space)),
        Cow::Owned(text) => Cow::Owned(text.trim_matches(is_space).to_owned()),
    }
}

/// Unicode normalization form C.
pub fn nfc(text: &str) -> Cow<'_, str> {
    // Below U+0300, whose UTF-8 begins with CC, every text is in that form.
    let is_low = text.bytes().fold(true, |low, byte| low & (byte < 0xCC));
    if is_low || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    }
}

/// The digest of the canonical body of messages joined by a blank line, taken message by message.
///
/// This is the digest of the joined text's [`body`]: a folded message has no line end and no white space at its ends, and
/// nothing composes with or moves across a line feed, so the pieces can be normalized one by one.
#[derive(Clone, Debug, Default)]
pub struct JoinedBody(Option<Sha256>);

impl JoinedBody {
    /// Adds a folded, non-empty message.
    pub fn push(&mut self, folded: &str) {
        debug_assert!(!folded.is_empty(), "messages without text are not joined");
        let hasher = match &mut self.0 {
            Some(hasher) => {
                hasher.update(b"\n\n");
                hasher
            }
            none => none.insert(Sha256::new()),
        };
        hasher.update(nfc(folded).as_bytes());
    }

    /// The digest; `None` when no message was added.
    pub fn finish(self) -> Option<Digest> {
        self.0.map(|hasher| Digest(hasher.finalize().into()))
    }
}

/// Length in UTF-16 code units.
pub fn utf16_len(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// The longest end of `text` within `limit` UTF-16 code units that does not halve a surrogate pair, and its length in units.
///
/// ```
/// assert_eq!(throughline_parsers::text::tail("a🚀b", 2), ("b", 1));
/// ```
pub fn tail(text: &str, limit: usize) -> (&str, usize) {
    let mut units = 0;
    for (at, c) in text.char_indices().rev() {
        if units + c.len_utf16() > limit {
            return (&text[at + c.len_utf8()..], units);
        }
        units += c.len_utf16();
    }
    (text, units)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn digests_read_only_their_own_spelling() {
        let digest = Digest::of("x");
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(Digest::from_hex(&digest.to_string().to_uppercase()), None);
        assert_eq!(Digest::from_hex(&digest.to_string()[1..]), None);
    }

    #[test]
    fn joined_body_is_the_body_of_the_joined_text() {
        for messages in
            [vec![], vec!["a"], vec!["e\u{301}", "\u{301}x", "y"], vec!["각", "\u{11a8}"], vec!["\u{2126}\u{85}", "b"]]
        {
            let mut joined = JoinedBody::default();
            let folded: Vec<_> =
                messages.iter().map(|message| fold(message)).filter(|message| !message.is_empty()).collect();
            folded.iter().for_each(|message| joined.push(message));
            let whole = (!folded.is_empty()).then(|| Digest::of_body(&folded.join("\n\n")));
            assert_eq!(joined.finish(), whole, "{messages:?}");
        }
    }

    #[test]
    fn folding_is_splitting_at_white_space() {
        let spaces =
            ["", " ", "  ", "\t", "\r\n", "\u{a0}", "\u{1680}", "\u{2028}", "\u{3000}", "\u{feff}", " \u{2003} "];
        for before in spaces {
            for between in spaces {
                for word in ["a", "é", "\u{2030}", "\u{3042}", "\u{85}", "🚀", "ﬀ"] {
                    let text = format!("{before}{word}{between}b{word} {before}");
                    let words: Vec<_> = text.split(is_space).filter(|word| !word.is_empty()).collect();
                    assert_eq!(fold(&text), words.join(" "), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn tails_keep_pairs_whole() {
        assert_eq!(tail("🚀🚀", 3), ("🚀", 2));
        assert_eq!(tail("🚀🚀", 4), ("🚀🚀", 4));
        assert_eq!(tail("abc", 0), ("", 0));
        assert_eq!(tail("", 5), ("", 0));
    }
}
