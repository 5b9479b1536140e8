//! Hooks of the older Node tool, which has this program's name.
//!
//! An agent whose settings still register them would call us instead. They are told so, and end well: an agent takes an
//! error of a hook seriously, and there is nothing here that is worth stopping it for.

use std::process::ExitCode;

use throughline::hooks::OLDER_TOOL;

/// Whether the command is a hook of the older tool.
pub fn is_hook(command: &str) -> bool {
    OLDER_TOOL.contains(&command)
}

/// Says what the command is, and does nothing.
pub fn decline(command: &str) -> ExitCode {
    super::complain(&format!("throughline: {command} is a hook of the older tool; see: throughline install"));
    ExitCode::SUCCESS
}
