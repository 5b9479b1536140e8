//! What the agents' hooks call: the moment at which something was said or done.
//!
//! A hook runs inside the agent's own turn. It prints nothing that the agent could take for an answer, but where a session
//! has to show its name and did not; it waits for nothing that the agent holds back, and when it fails the next one makes
//! that good.

pub mod claude;
pub mod codex;
pub mod install;
mod payload;

pub use payload::Payload;

/// The hooks of the older Node tool, which has this program's name: the commands that its entries call.
pub const OLDER_TOOL: [&str; 6] =
    ["process-turn", "session-start", "prompt-submit", "inject-context", "capture-tool", "codex-hook"];

/// Why a hook failed. Nothing was half written.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What the host gave is no payload of this event.
    #[error("the payload is not one of this event")]
    Payload,
    /// A store cannot be read.
    #[error(transparent)]
    Store(#[from] crate::Error),
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] crate::db::Error),
    /// The receipt store cannot be used.
    #[error(transparent)]
    Receipts(#[from] crate::receipts::Error),
}

impl From<crate::capturing::Failure> for Failure {
    fn from(failure: crate::capturing::Failure) -> Self {
        match failure {
            crate::capturing::Failure::Store(error) => Self::Store(error),
            crate::capturing::Failure::Database(error) => Self::Database(error),
        }
    }
}
