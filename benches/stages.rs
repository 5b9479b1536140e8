//! What each stage of reading costs, beside a bare newline scan over the same bytes.
//!
//! `cargo bench --bench stages` prints the throughput of each; `-- --test` runs each once.

#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::LazyLock;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use throughline::chain::{Chain, Entry, Host};
use throughline_parsers::codex::{Row, Turns, read_line, said_in};
use throughline_parsers::lines::Scanner;
use throughline_parsers::text::{Digest, body, fold};

fn main() {
    divan::main();
}

/// Turns with the rows around them that real rollouts have: mostly tool output.
static ROLLOUT: LazyLock<String> = LazyLock::new(|| {
    let output = "   Compiling parser v0.1.0\\n    Finished dev profile in 0.42s\\n{\\\"ok\\\":true}\\n".repeat(120);
    let mut rows = String::new();
    let mut row = |n: usize, kind: &str, payload: String| {
        let time = format!("2026-07-01T12:{:02}:{:02}.{:03}Z", n / 60 % 60, n % 60, n % 1000);
        rows.push_str(&format!("{{\"timestamp\":\"{time}\",\"type\":\"{kind}\",\"payload\":{payload}}}\n"));
    };
    for n in 0..200 {
        row(n, "event_msg", format!("{{\"type\":\"task_started\",\"turn_id\":\"t{n}\"}}"));
        let ask = "Why does the parser stop at the first bad line?\\nPlease look. ".repeat(4);
        row(n, "event_msg", format!("{{\"type\":\"user_message\",\"message\":\"{ask}\",\"images\":[]}}"));
        for _ in 0..6 {
            row(n, "response_item", format!("{{\"type\":\"function_call_output\",\"output\":\"{output}\"}}"));
            let said = "I looked at the reader and its tests; the next step is to run them. ".repeat(3);
            row(n, "event_msg", format!("{{\"type\":\"agent_message\",\"message\":\"{said}\"}}"));
        }
        row(
            n,
            "event_msg",
            format!("{{\"type\":\"task_complete\",\"turn_id\":\"t{n}\",\"last_agent_message\":\"done\"}}"),
        );
    }
    rows
});

/// The rows that matter, as they stand in the file.
static LINES: LazyLock<Vec<(u64, &'static str)>> = LazyLock::new(|| {
    let block = Scanner::default().scan(ROLLOUT.as_bytes(), ROLLOUT.len(), true);
    block.lines().iter().map(|line| (line.start as u64, &ROLLOUT[line.clone()])).collect()
});

static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| LINES.iter().flat_map(|(at, line)| read_line(line.as_bytes(), *at, true)).collect());

fn bytes_of_lines() -> BytesCount {
    BytesCount::new(LINES.iter().map(|(_, line)| line.len()).sum::<usize>())
}

#[divan::bench]
fn yardstick(bencher: Bencher) {
    bencher
        .counter(BytesCount::of_str(&*ROLLOUT))
        .bench(|| memchr::memchr_iter(b'\n', black_box(ROLLOUT.as_bytes())).count());
}

#[divan::bench]
fn lines(bencher: Bencher) {
    let scanner = Scanner::default();
    bencher
        .counter(BytesCount::of_str(&*ROLLOUT))
        .bench(|| scanner.scan(black_box(ROLLOUT.as_bytes()), ROLLOUT.len(), true));
}

#[divan::bench]
fn decode(bencher: Bencher) {
    let read = || LINES.iter().map(|(at, line)| read_line(black_box(line.as_bytes()), *at, true).len()).sum::<usize>();
    bencher.counter(bytes_of_lines()).bench(read);
}

#[divan::bench]
fn turns(bencher: Bencher) {
    let apply = || {
        let mut turns = Turns::default();
        for row in black_box(&*ROWS) {
            turns.apply(row, |at| said_in(&ROLLOUT.as_bytes()[at.offset as usize..])).unwrap();
        }
        turns
    };
    bencher.counter(bytes_of_lines()).bench(apply);
}

#[divan::bench]
fn chain(bencher: Bencher) {
    let digest = Digest::of("x");
    let entry =
        Entry { origin: digest, user: digest, assistant: digest, completed_at: 1_782_900_000_000, source: digest };
    bencher.bench(|| {
        let mut chain = Chain::new(Host::Codex, digest);
        (0..1000).for_each(|_| chain.push(black_box(entry)));
        chain
    });
}

#[divan::bench]
fn projection(bencher: Bencher) {
    let text = "A body of some lines,\r\nwith caf\u{e9} and an \u{1F680}, as the database has it.\n".repeat(20);
    bencher.counter(BytesCount::of_str(&text)).bench(|| Digest::of(&body(black_box(&text))));
}

#[divan::bench]
fn folding(bencher: Bencher) {
    let text = "A message of some lines,\nwith caf\u{e9} and an \u{1F680}, as the agent writes it.  ".repeat(20);
    bencher.counter(BytesCount::of_str(&text)).bench(|| fold(black_box(&text)));
}
