//! The hooks by which the agents call this program.

pub mod install;

/// The hooks of the older Node tool, which has this program's name: the commands that its entries call.
pub const OLDER_TOOL: [&str; 6] =
    ["process-turn", "session-start", "prompt-submit", "inject-context", "capture-tool", "codex-hook"];
