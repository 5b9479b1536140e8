//! What a store keeps about itself, so that its newest rollout can be gone on with without reading it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Fault;
use crate::rollout::{Layout, Mix, State};

const NAME: &str = "corpus.json";

/// The newest rollout of a store's project, and how far it is.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The store's seed.
    pub seed: u64,
    /// Its home.
    pub home: PathBuf,
    /// The project's newest rollout.
    pub rollout: PathBuf,
    /// The working directory of its thread.
    pub cwd: String,
    /// What most of its bytes are.
    pub mix: Mix,
    /// How its rows are laid out.
    pub layout: Layout,
    /// How many turns it has, without the one that is open.
    pub turns: u64,
    /// How often something was appended.
    pub appended: u64,
    /// Its ids and its end.
    pub state: State,
}

impl Manifest {
    /// The manifest of the store in this directory.
    ///
    /// # Errors
    /// There is no store with a rollout of its project.
    pub fn read(store: &Path) -> Result<Self, Fault> {
        let text = fs::read(store.join(NAME)).map_err(|error| format!("{NAME}: {error}"))?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Keeps it, in place of what was there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, store: &Path) -> Result<(), Fault> {
        let unnamed = store.join(format!("{NAME}.part"));
        fs::write(&unnamed, serde_json::to_vec(self)?)?;
        Ok(fs::rename(unnamed, store.join(NAME))?)
    }
}
