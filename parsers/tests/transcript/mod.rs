//! Transcripts read in every way that there is, and what is seen of their turns.

use std::ops::Range;

use throughline_parsers::claude::{Row, Transcript, Turn, Turns, read_line};
use throughline_parsers::lines::{Joiner, Line, Scanner, Spelling};
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use throughline_parsers::text::Digest;

/// What is seen of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it was asked.
    pub asked_at: Option<i64>,
    /// What was asked in all.
    pub user: String,
    /// Index, time and text of each reply, digest of its message's text up to there.
    pub replies: Vec<(u64, Option<i64>, String, Digest)>,
    /// The answer in all and behind each reply (index, time, text), and what was asked for it.
    pub answers: Vec<(Option<Answer>, String)>,
    /// Whether it ended, was aborted, failed, has completed.
    pub flags: [bool; 4],
}

/// Index, time and text.
pub type Answer = (u64, Option<i64>, String);

/// The bytes of a file.
pub fn bytes_of<'d>(data: &'d [u8]) -> impl Fn(Range<u64>) -> Option<&'d [u8]> + Copy {
    move |span| data.get(span.start as usize..span.end as usize)
}

/// The lines of a file with their offsets, and whether each is ended.
pub fn lines(data: &[u8]) -> impl Iterator<Item = (&[u8], u64, bool)> {
    let mut offset = 0;
    data.split_inclusive(|byte| *byte == b'\n').map(move |line| {
        let at = offset;
        offset += line.len() as u64;
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        (text, at, text.len() < line.len())
    })
}

/// Every line read, in one go.
pub fn read(data: &[u8]) -> Turns {
    let mut turns = Turns::default();
    for row in lines(data).flat_map(|(line, offset, ended)| read_line(line, offset, ended)) {
        turns.apply(&row, bytes_of(data)).unwrap();
    }
    turns
}

/// The rows of the lines that the scanner finds in blocks of such sizes.
pub fn scanned_rows(data: &[u8], mut size: impl FnMut() -> usize) -> Vec<Row> {
    let (scanner, mut joiner, mut rows) = (Scanner::<Transcript>::default(), Joiner::default(), Vec::new());
    let mut read = |line: Line| {
        let bytes = &data[line.span.start as usize..line.span.end as usize];
        rows.extend(read_line(bytes, line.span.start, line.ended));
    };
    let mut base = 0;
    while base < data.len() {
        let len = size().min(data.len() - base);
        let bytes = &data[base..data.len().min(base + len + Transcript::LOOKAHEAD)];
        let block = scanner.scan(bytes, len, base == 0 || data[base - 1] == b'\n');
        joiner.join(&block, len).into_iter().for_each(&mut read);
        for line in block.lines() {
            read(Line { span: (base + line.start) as u64..(base + line.end) as u64, ended: true });
        }
        base += len;
    }
    joiner.finish().into_iter().for_each(&mut read);
    rows
}

/// The state as bytes.
pub fn saved(turns: &Turns) -> Vec<u8> {
    let mut packer = Packer::default();
    turns.pack(&mut packer);
    packer.finish()
}

/// The state that was saved.
pub fn taken_up(saved: &[u8]) -> Turns {
    let mut unpacker = Unpacker::new(saved);
    let turns = Turns::unpack(&mut unpacker).unwrap();
    assert!(unpacker.is_at_end());
    turns
}

/// What is seen of the turns.
pub fn seen(turns: &Turns, data: &[u8]) -> Vec<Seen> {
    let all = turns.since(0).unwrap();
    assert_eq!(all.len() as u64, turns.count());
    assert_eq!(turns.since(turns.count()).unwrap(), []);
    let last = turns.count().saturating_sub(1);
    assert_eq!(turns.since(last).unwrap(), all[last as usize..]);
    all.iter().map(|turn| seen_of(turn, data)).collect()
}

fn seen_of(turn: &Turn, data: &[u8]) -> Seen {
    let bytes = bytes_of(data);
    let afters = || std::iter::once(None).chain(turn.replies.iter().map(|reply| Some(reply.index)));
    let answer = |after| {
        let text = turn.answer_text(after, bytes).unwrap();
        turn.answer(after).map(|answer| (answer.index, answer.time, text.unwrap()))
    };
    Seen {
        asked_at: turn.asked_at,
        user: turn.user_text(None, bytes).unwrap(),
        replies: turn
            .replies
            .iter()
            .map(|reply| (reply.index, reply.time, reply.said.text(bytes).unwrap(), reply.whole))
            .collect(),
        answers: afters().map(|after| (answer(after), turn.user_text(after, bytes).unwrap())).collect(),
        flags: [turn.ended, turn.aborted, turn.failed, turn.completed(false)],
    }
}
