//! How many times the yardstick each stage takes, measured in turn with it.

use std::time::{Duration, Instant};

use crate::work::{STAGES, Stage, YARDSTICK};

/// A sample is at least so long.
const SAMPLE: Duration = Duration::from_millis(3);

/// Prints a line for each of these stages, or for all: its name, its ratio to the yardstick, and the nanoseconds of both.
pub fn print(rounds: usize, names: &[&str]) {
    let stages = STAGES.iter().filter(|stage| names.is_empty() || names.contains(&stage.name));
    let mut measured: Vec<_> = stages.map(|stage| (stage, repeats(stage), Vec::new(), Vec::new())).collect();
    let yardstick_repeats = repeats(&YARDSTICK);
    for _ in 0..rounds {
        for (stage, repeats, times, yardsticks) in &mut measured {
            yardsticks.push(sample(&YARDSTICK, yardstick_repeats));
            times.push(sample(stage, *repeats));
        }
    }
    for (stage, _, times, yardsticks) in measured {
        let (time, yardstick) = (median(times), median(yardsticks));
        println!("{} {:.6} {:.0} {:.0}", stage.name, time / yardstick, time, yardstick);
    }
}

/// How often a stage has to run for a sample. The first run, which makes its input, does not count.
fn repeats(stage: &Stage) -> u32 {
    stage.run();
    let mut repeats = 1;
    while sample(stage, repeats) * f64::from(repeats) < SAMPLE.as_nanos() as f64 {
        repeats *= 2;
    }
    repeats
}

/// Nanoseconds of one run.
fn sample(stage: &Stage, repeats: u32) -> f64 {
    let start = Instant::now();
    (0..repeats).for_each(|_| stage.run());
    start.elapsed().as_nanos() as f64 / f64::from(repeats)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
