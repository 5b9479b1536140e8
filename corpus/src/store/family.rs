//! Rollouts that come out of one another: forks, reverts, and the threads of agents.

use std::path::{Path, PathBuf};

use crate::random::Random;
use crate::rollout::{Base, Layout, Origin, Plan, Written};

/// A family has at most so many rollouts.
const MOST: usize = 6;

/// Rollouts that are made one after another, for each may come out of those before it.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Their numbers, in order. The first one is a person's own.
    pub members: Vec<u64>,
    /// They are of the project.
    pub ours: bool,
}

/// All rollouts as families, in the order of their first members. Of a hundred rollouts of other projects, and of the
/// project, so many join the family that was begun last on their side; the project's last rollout stays alone.
pub fn of(files: u64, of_project: impl Fn(u64) -> bool, shares: [u64; 2], seed: u64) -> Vec<Family> {
    let mut random = Random::part(seed, u64::MAX - 1);
    let mut families: Vec<Family> = Vec::new();
    let mut latest: [Option<usize>; 2] = [None, None];
    let last = (0..files).rev().find(|number| of_project(*number));
    for number in 0..files {
        let ours = of_project(number);
        let side = usize::from(ours);
        let joins = random.percent(shares[side]) && last != Some(number);
        match latest[side] {
            Some(family) if joins && families[family].members.len() < MOST => families[family].members.push(number),
            _ => {
                latest[side] = Some(families.len());
                families.push(Family { members: vec![number], ours });
            }
        }
    }
    families
}

/// How a rollout comes out of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Person,
    Agent,
    Copy,
    Fork,
    Revert,
}

impl Kind {
    pub fn of(origin: &Origin) -> Self {
        match origin {
            Origin::Person => Self::Person,
            Origin::Agent(_) => Self::Agent,
            Origin::Copy(_) => Self::Copy,
            Origin::Fork(_) => Self::Fork,
            Origin::Revert(_) => Self::Revert,
        }
    }
}

const COUNTED: [(Kind, &str); 4] = [
    (Kind::Agent, "agents'"),
    (Kind::Copy, "copied forks"),
    (Kind::Fork, "forks by reference"),
    (Kind::Revert, "reverts"),
];

/// No rollout of any kind.
pub fn none() -> [(&'static str, u64); 4] {
    COUNTED.map(|(_, name)| (name, 0))
}

/// Counts rollouts by their kind.
pub fn count(counts: &mut [(&'static str, u64); 4], kinds: &[Kind]) {
    for ((kind, _), (_, count)) in COUNTED.iter().zip(counts) {
        *count += kinds.iter().filter(|other| *other == kind).count() as u64;
    }
}

/// The rollouts of a family that the next one may come out of.
#[derive(Default)]
pub struct Relatives {
    /// The person's own, which began the family, and behind it what it was reverted to.
    files: Vec<Relative>,
    cwd: String,
    latest: i64,
}

struct Relative {
    thread: String,
    rollout: String,
    path: PathBuf,
    layout: Layout,
    /// Where its turns begin.
    turns: Vec<crate::rollout::Place>,
}

impl Relatives {
    /// Lets the next rollout come out of those that are there, if there are any.
    pub fn relate(&self, plan: &mut Plan, random: &mut Random) {
        let (Some(first), Some(last)) = (self.files.first(), self.files.last()) else { return };
        plan.cwd.clone_from(&self.cwd);
        plan.start = plan.start.max(self.latest + 1000);
        plan.layout = first.layout;
        let (legacy, drawn) = (first.layout == Layout::Legacy, random.below(10));
        plan.origin = match drawn {
            0..4 => Origin::Agent(first.thread.clone()),
            _ if legacy => Origin::Copy(first.cut_within(plan.bytes / 2, random)),
            4..7 => Origin::Fork(first.cut(random)),
            _ => Origin::Revert(last.cut(random)),
        };
    }

    /// Takes a rollout in, if others may come out of it.
    pub fn add(&mut self, plan: &Plan, written: &Written, path: &Path) {
        self.latest = self.latest.max(written.state.now);
        if matches!(plan.origin, Origin::Person | Origin::Revert(_)) {
            self.cwd.clone_from(&plan.cwd);
            self.files.push(Relative {
                thread: written.state.thread.clone(),
                rollout: written.state.rollout.clone(),
                path: path.to_owned(),
                layout: plan.layout,
                turns: written.turns.iter().map(|turn| turn.start).collect(),
            });
        }
    }
}

impl Relative {
    /// Cut in front of any of its turns.
    fn cut(&self, random: &mut Random) -> Base {
        self.cut_at(random.below(self.turns.len() as u64) as usize)
    }

    /// Cut in front of one of the turns that begin within so many bytes, or else of the first one.
    fn cut_within(&self, bytes: u64, random: &mut Random) -> Base {
        let within = self.turns.partition_point(|turn| turn.bytes <= bytes).max(1);
        self.cut_at(random.below(within as u64) as usize)
    }

    fn cut_at(&self, turn: usize) -> Base {
        Base {
            thread: self.thread.clone(),
            rollout: self.rollout.clone(),
            path: self.path.clone(),
            end: self.turns[turn],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rollout_is_in_one_family_and_the_last_of_the_project_alone() {
        for shares in [[0, 0], [20, 0], [50, 50], [100, 100]] {
            let families = of(1000, |number| number % 7 == 6, shares, 3);
            let mut members: Vec<u64> = families.iter().flat_map(|family| family.members.clone()).collect();
            members.sort_unstable();
            assert_eq!(members, Vec::from_iter(0..1000));
            for family in &families {
                assert!(family.members.iter().all(|number| (number % 7 == 6) == family.ours));
                assert!(family.members.is_sorted() && family.members.len() <= MOST);
                assert!(shares[usize::from(family.ours)] > 0 || family.members.len() == 1);
            }
            let last = families.iter().rev().find(|family| family.ours);
            assert_eq!(last.map(|family| &*family.members), Some(&[993][..]));
        }
    }
}
