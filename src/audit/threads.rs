//! Threads as they are reported, whichever host wrote them.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use throughline_parsers::count::{Count, Table};
use throughline_parsers::text::Digest;

use super::record::{Counts, Log, Pair, Record, TextBytes, Turns, table};
use super::report;
use crate::chain::Host;

/// How many rows there are of each type.
#[derive(Clone, Debug, Default)]
pub struct Types {
    /// Of the known types of each host, by their numbers in its table.
    known: Vec<(&'static Table, Vec<Count>)>,
    unknown: BTreeMap<String, Count>,
}

impl Types {
    /// Adds the rows of a log of the host with that table.
    pub fn add(&mut self, table: &'static Table, counts: &Counts) {
        let known = self.known(table);
        counts.known.iter().for_each(|(n, count)| known[usize::from(*n)].merge(*count));
        for (name, count) in &counts.unknown {
            self.unknown.entry(name.clone()).or_default().merge(*count);
        }
    }

    fn known(&mut self, table: &'static Table) -> &mut [Count] {
        let known = self.known.iter().position(|(known, _)| std::ptr::eq(*known, table)).unwrap_or_else(|| {
            self.known.push((table, vec![Count::default(); table.names().len()]));
            self.known.len() - 1
        });
        &mut self.known[known].1
    }

    /// All of them by name.
    pub fn by_name(&self) -> BTreeMap<String, Count> {
        let mut all = self.unknown.clone();
        for (table, counts) in &self.known {
            for (name, count) in table.names().iter().zip(counts).filter(|(_, count)| count.rows > 0) {
                all.entry((*name).to_owned()).or_default().merge(*count);
            }
        }
        all
    }
}

impl AddAssign for Types {
    fn add_assign(&mut self, other: Self) {
        for (table, counts) in other.known {
            self.known(table).iter_mut().zip(counts).for_each(|(known, count)| known.merge(count));
        }
        for (name, count) in other.unknown {
            self.unknown.entry(name).or_default().merge(count);
        }
    }
}

/// One thread, not yet put into its project.
#[derive(Debug)]
pub struct Thread<'r> {
    /// The program that wrote it.
    pub host: Host,
    /// Its id.
    pub id: String,
    /// Its working directory, as it is written.
    pub cwd: Option<String>,
    /// What names its project where no working directory does: the digest of its receipt store.
    pub store: Option<Digest>,
    /// The threads that could have begun it, if it is a sub-agent's: the best one first.
    pub begun_by: Option<Vec<String>>,
    /// Its current file is among the archived ones.
    pub archived: bool,
    /// Its chain.
    pub pairs: Vec<Pair>,
    /// How many of the pairs are receipts.
    pub receipts: u64,
    /// Its turns.
    pub turns: Turns,
    /// Their texts.
    pub text_bytes: TextBytes,
    /// When its last row was written.
    pub last_row_at: Option<i64>,
    /// The versions of the programs that wrote it, in order.
    pub writers: Vec<String>,
    /// Its files.
    pub files: Vec<report::File>,
    /// The rows of each of them.
    pub rows: Vec<(&'static Table, &'r Counts)>,
    /// The session under which the database has its bodies.
    pub session: String,
    /// Of how many pairs; `None` where that cannot be read.
    pub bodies_present: Option<u64>,
}

impl<'r> Thread<'r> {
    /// A thread of which nothing is known yet.
    pub fn new(host: Host, id: String, session: String) -> Self {
        Self {
            host,
            id,
            cwd: None,
            store: None,
            begun_by: None,
            archived: false,
            pairs: Vec::new(),
            receipts: 0,
            turns: Turns::default(),
            text_bytes: TextBytes::default(),
            last_row_at: None,
            writers: Vec::new(),
            files: Vec::with_capacity(1),
            rows: Vec::with_capacity(1),
            session,
            bodies_present: Some(0),
        }
    }

    /// Adds one of its files.
    pub fn add_file<L: Log>(&mut self, record: &'r Record<L>) {
        self.files.push(file(record));
        self.rows.push((table::<L>(), &record.counts));
        self.last_row_at = self.last_row_at.max(record.counts.last_row_at);
        for writer in &record.counts.writers {
            if let Err(place) = self.writers.binary_search(writer) {
                self.writers.insert(place, writer.clone());
            }
        }
    }
}

/// A file as it is reported.
pub fn file<L: Log>(record: &Record<L>) -> report::File {
    let counts = &record.counts;
    report::File {
        path: record.path.to_string_lossy().into_owned(),
        bytes: record.stamps.size,
        rows: counts.rows(),
        unreadable_rows: counts.unreadable_rows(),
        unreadable: report::Unreadables::of(&counts.unreadable),
        unknown_types: counts.unknown.iter().map(|(name, count)| (name.clone(), count.rows)).collect(),
    }
}
