//! Everything that is remembered, compared with a full read.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::{Content, Subject, as_text, cache_of};
use crate::cache::Cache;
use crate::hosts::codex::verify::{self, Anew};
use crate::scan::followed::{Follow, Followed};
use crate::stores::Stores;

/// What a comparison of everything came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `throughline.cache_verify.v1`
    pub schema: &'static str,
    /// Where the cache is.
    #[serde(serialize_with = "as_text")]
    pub directory: PathBuf,
    /// How many files are as a full read finds it.
    pub equal: usize,
    /// How many are so as far as a read would rely on them.
    pub outdated: usize,
    /// How many are not whole, and so not used.
    pub damaged: usize,
    /// Of how many the subject could not be read.
    pub unreadable: usize,
    /// How many are different from what a full read finds: answers can be wrong.
    pub different: usize,
    /// Every file.
    pub files: Vec<Checked>,
}

/// A file that was compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// Its name in the directory.
    pub file: String,
    /// What the comparison came to.
    pub verdict: Verdict,
    /// The rollouts and working directories that are not as they are remembered.
    #[serde(serialize_with = "as_texts", skip_serializing_if = "BTreeSet::is_empty")]
    pub differing: BTreeSet<PathBuf>,
    /// What it is about, if it is whole.
    #[serde(flatten)]
    pub subject: Option<Subject>,
}

/// What the comparison of a file came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All is as a full read finds it.
    Equal,
    /// So is what a read would rely on; the rest would be read anew.
    Outdated,
    /// The file is not whole, and not used.
    Damaged,
    /// What it is about cannot be read.
    Unreadable,
    /// A full read finds something else.
    Different,
}

impl Report {
    /// Whether everything could be compared, and nothing was different.
    pub fn is_sound(&self) -> bool {
        self.different + self.unreadable == 0
    }
}

/// Compares everything that is remembered with what a full read finds. Nothing is written.
pub fn verify(stores: &Stores) -> Report {
    let cache = cache_of(stores);
    let mut paths: Vec<PathBuf> = cache.files().into_iter().map(|file| file.0).collect();
    paths.retain(|path| path.extension().is_none_or(|end| end != "tmp"));
    paths.sort();
    let mut roots: Vec<PathBuf> = paths.iter().filter_map(|path| root_of(path)).collect();
    roots.push(stores.sessions_root());
    let mut anew = Anew::new(&cache, roots);
    let files: Vec<Checked> = paths.iter().filter_map(|path| checked(&mut anew, path)).collect();
    let count = |verdict| files.iter().filter(|file| file.verdict == verdict).count();
    Report {
        schema: "throughline.cache_verify.v1",
        directory: cache.directory().to_owned(),
        equal: count(Verdict::Equal),
        outdated: count(Verdict::Outdated),
        damaged: count(Verdict::Damaged),
        unreadable: count(Verdict::Unreadable),
        different: count(Verdict::Different),
        files,
    }
}

/// The sessions root that a file is about.
fn root_of(path: &Path) -> Option<PathBuf> {
    let (about, blocks) = Cache::open(path)?;
    match Content::of(about, blocks?)? {
        Content::Root(root, _) | Content::Project(root, ..) => Some(root),
        Content::Rollout(_) | Content::Turns(_) | Content::Names(_) | Content::Captured(..) => None,
    }
}

/// Compares one file; `None` when it is gone.
fn checked(anew: &mut Anew<'_>, path: &Path) -> Option<Checked> {
    let (mut subject, verdict) = compared(anew, path)?;
    let (mut verdict, mut differing) = (verdict, BTreeSet::new());
    if let Ok(Some(verify::Verdict::Different(first))) = &verdict {
        // What an agent wrote between two looks is no difference: only what is found again, by new looks, is one.
        let (subject_again, again) = compared(&mut anew.again(), path)?;
        if let Ok(Some(verify::Verdict::Different(second))) = &again {
            differing = first & second;
        }
        (subject, verdict) = (subject_again, again);
    }
    let verdict = match verdict {
        Ok(Some(verify::Verdict::Different(_))) if differing.is_empty() => Verdict::Outdated,
        Ok(Some(verify::Verdict::Different(_))) => Verdict::Different,
        Ok(Some(verify::Verdict::Outdated)) => Verdict::Outdated,
        Ok(Some(verify::Verdict::Equal)) => Verdict::Equal,
        Ok(None) => Verdict::Damaged,
        Err(_) => Verdict::Unreadable,
    };
    Some(Checked { file: path.file_name()?.to_str()?.to_owned(), verdict, differing, subject })
}

type Compared = (Option<Subject>, io::Result<Option<verify::Verdict>>);

/// Compares one file with what is found anew; no verdict when it is not whole.
fn compared(anew: &mut Anew<'_>, path: &Path) -> Option<Compared> {
    let (about, blocks) = Cache::open(path).filter(|_| path.exists())?;
    let Some(content) = blocks.and_then(|blocks| Content::of(about, blocks)) else { return Some((None, Ok(None))) };
    let subject = Some(content.subject());
    let verdict = match content {
        Content::Root(root, tree) => anew.root(&root, tree).map(Some),
        Content::Project(root, project, saved) => anew.project(&root, &project, &saved),
        Content::Rollout(checkpoint) => anew.rollout(&checkpoint).map(Some),
        Content::Turns(followed) => followed_anew(&followed).map(Some),
        Content::Names(followed) => followed_anew(&followed).map(Some),
        // Who uses it compares it with the database and the log: there is nothing that it could hide.
        Content::Captured(..) => Ok(Some(verify::Verdict::Equal)),
    };
    Some((subject, verdict))
}

/// Compares what was made of a transcript with what is made of it from its start.
fn followed_anew<S: Follow>(followed: &Followed<S>) -> io::Result<verify::Verdict> {
    Ok(match followed.is_as_read_anew()? {
        None => verify::Verdict::Outdated,
        Some(true) => verify::Verdict::Equal,
        Some(false) => verify::Verdict::Different(BTreeSet::from([followed.path.clone()])),
    })
}

fn as_texts<S: Serializer>(paths: &BTreeSet<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
