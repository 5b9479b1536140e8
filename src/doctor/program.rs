//! This program among others of its name: a shell runs the first one on PATH, a hook the one that was registered.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{Check, Finding, Surroundings, quoted};

/// What calls itself `throughline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// This program, or a copy of it.
    This,
    /// Another program.
    Other,
    /// A script, as the older Node tool is one.
    Script,
    /// Nothing that can be run.
    Nothing,
}

impl Which {
    /// What stands at a path.
    pub fn at(path: &Path, this: &Path) -> Self {
        let (Ok(found), Ok(own)) = (fs::metadata(path), fs::metadata(this)) else { return Self::Nothing };
        if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
            return Self::Nothing;
        }
        let is_same = (found.dev(), found.ino()) == (own.dev(), own.ino());
        if is_same || (found.len() == own.len() && fs::read(path).ok() == fs::read(this).ok()) {
            return Self::This;
        }
        let mut start = [0; 2];
        let is_script = File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!";
        if is_script { Self::Script } else { Self::Other }
    }
}

/// Looks for every `throughline` on PATH.
pub fn check(around: &Surroundings) -> Vec<Finding> {
    let mut programs: Vec<(PathBuf, Which)> = Vec::new();
    for path in around.search_path.iter().map(|folder| folder.join("throughline")) {
        let which = Which::at(&path, &around.program);
        let is_known = |(known, _): &(PathBuf, Which)| fs::canonicalize(known).ok() == fs::canonicalize(&path).ok();
        if which != Which::Nothing && !programs.iter().any(is_known) {
            programs.push((path, which));
        }
    }
    let this = programs.iter().position(|(_, which)| *which == Which::This);
    let mut findings = Vec::new();
    for (n, (path, which)) in programs.iter().enumerate() {
        let name = path.display();
        let finding = match which {
            Which::This => Finding::fine(Check::Program, format!("{name} is this program")),
            _ if this.is_some_and(|this| this < n) => {
                Finding::note(Check::Program, format!("{name}, {}, comes behind this program on PATH", named(*which)))
            }
            _ => Finding::problem(
                Check::Program,
                format!("{name}, {}, is what `throughline` means on PATH", named(*which)),
                format!("remove {}, or put the directory of {} in front of it", quoted(path), quoted(&around.program)),
            ),
        };
        findings.push(finding.about(path));
    }
    if programs.is_empty() {
        let what = format!("this program is not on PATH: {}", around.program.display());
        findings.push(Finding::note(Check::Program, what).about(&around.program));
    }
    findings
}

/// What another program is called.
pub fn named(which: Which) -> &'static str {
    match which {
        Which::Script => "a script as the older Node tool is one",
        _ => "another program or another build of it",
    }
}
