//! What each stage of reading costs, beside a bare newline scan over the same bytes.
//!
//! ```sh
//! cargo bench --package corpus                # the time and throughput of each stage
//! cargo bench --package corpus -- decode      # of one
//! cargo bench --package corpus -- --test      # runs each once
//! ```
//!
//! `benches/check` compares the stages with the figures that were accepted. For that the same program has three more ways
//! to be run: `--make FOLDER`, `--once FOLDER STAGE TIMES` and `--ratios FOLDER ROUNDS [STAGE…]`.

#![allow(missing_docs, clippy::unwrap_used)]

mod input;
mod ratios;
mod work;

use std::env;
use std::path::Path;

use divan::Bencher;
use divan::counter::BytesCount;

use crate::work::Stage;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments.as_slice() {
        ["--make", folder] => input::make(Path::new(folder)),
        ["--once", folder, stage, times] => {
            input::take(Path::new(folder));
            let stage = Stage::named(stage);
            (0..times.parse().unwrap()).for_each(|_| stage.run());
        }
        ["--ratios", folder, rounds, ref stages @ ..] => {
            input::take(Path::new(folder));
            ratios::print(rounds.parse().unwrap(), stages);
        }
        _ => {
            let folder = tempfile::tempdir().unwrap();
            input::make(folder.path());
            input::take(folder.path());
            divan::main();
        }
    }
}

fn bench(bencher: Bencher, stage: &Stage) {
    bencher.counter(BytesCount::new((stage.bytes)())).bench(|| stage.run());
}

#[divan::bench]
fn yardstick(bencher: Bencher) {
    bench(bencher, &work::YARDSTICK);
}

#[divan::bench]
fn lines(bencher: Bencher) {
    bench(bencher, &work::LINES);
}

#[divan::bench]
fn classify(bencher: Bencher) {
    bench(bencher, &work::CLASSIFY);
}

#[divan::bench]
fn decode(bencher: Bencher) {
    bench(bencher, &work::DECODE);
}

#[divan::bench]
fn turns(bencher: Bencher) {
    bench(bencher, &work::TURNS);
}

#[divan::bench]
fn fold(bencher: Bencher) {
    bench(bencher, &work::FOLD);
}

#[divan::bench]
fn body(bencher: Bencher) {
    bench(bencher, &work::BODY);
}

#[divan::bench]
fn chain(bencher: Bencher) {
    bench(bencher, &work::CHAIN);
}

#[divan::bench]
fn projection(bencher: Bencher) {
    bench(bencher, &work::PROJECTION);
}

#[divan::bench]
fn cold_read(bencher: Bencher) {
    bench(bencher, &work::COLD_READ);
}

#[divan::bench]
fn poll(bencher: Bencher) {
    bench(bencher, &work::POLL);
}
