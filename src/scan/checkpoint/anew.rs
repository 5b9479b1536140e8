//! A checkpoint beside what a read from the start of its rollout finds: for the doubtful, no read needs it.

use std::io;

use throughline_parsers::pack::{Pack, Packer};

use super::{Checkpoint, ReadRollout};
use crate::scan::file::{Mapping, Rollout};
use crate::scan::folders::Listed;
use crate::scan::reading::{Contents, State};
use crate::scan::stamps::Moment;

impl Checkpoint {
    /// Its rollout, with the name of the file that is there; `None` when the path is no rollout's.
    pub fn listed(&self) -> Option<Listed> {
        let path = &self.of.path;
        let mut listed = Listed::named(path.parent()?, path.file_name()?.to_str()?)?;
        listed.name.packed = !path.exists();
        Some(listed)
    }

    /// Whether a read would rely on it.
    ///
    /// # Errors
    /// The rollout cannot be looked at.
    pub fn is_relied_on(&self, listed: &Listed, rollout: &Rollout) -> io::Result<bool> {
        Ok(self.is_whole(listed)? || self.has_only_grown(rollout))
    }

    /// Reads the rollout from its start up to the offset of the checkpoint.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_anew(&self, rollout: &Rollout) -> io::Result<ReadRollout> {
        let mut state = State::default();
        if self.state.first.as_ref().is_some_and(|(_, at)| at.span().end > self.state.offset) {
            // It was read from a line that had no LF yet.
            state.first = rollout.first_object()?;
        }
        // Nobody waits for this, and agents may cut a file meanwhile: what is not mapped raises no signal.
        let contents = rollout.read(state, Some(self.state.offset), Mapping::Never)?;
        let contents: Contents = contents.map_err(io::Error::other)?;
        let (stamps, packed) = (rollout.stamps, rollout.packed);
        Ok(ReadRollout { contents, stamps, taken: Moment(i64::MIN), chained: None, packed, settled: None, proof: None })
    }

    /// Whether that found what the checkpoint says of the rollout.
    pub fn says(&self, read: &ReadRollout) -> bool {
        let (this, found) = (&self.state, &read.contents.state);
        (&this.first, this.copied, this.offset, &this.rows) == (&found.first, found.copied, found.offset, &found.rows)
            && packed(&this.turns) == packed(&found.turns)
    }
}

/// A value as it is saved: some leave out there what can be told from the rest.
pub fn packed(value: &impl Pack) -> Vec<u8> {
    let mut packer = Packer::default();
    value.pack(&mut packer);
    packer.finish()
}
