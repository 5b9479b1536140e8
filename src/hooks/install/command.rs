//! Commands in the agents' settings: how ours are written, and how to tell whose one is.

use std::path::Path;

use crate::chain::Host;
use crate::hooks::OLDER_TOOL;

/// What lets a hook refuse the end of a turn, where the session's name was not shown.
const SESSION_NAME: &str = "--session-name";

/// The command line of one of our hooks, as a shell reads it, also one that may refuse something for a session's name;
/// `None` for a program whose path is no text.
pub fn ours(program: &Path, host: Host, event: &str, session_name: bool) -> Option<String> {
    let program = shlex::try_quote(program.to_str()?).ok()?;
    let command = format!("{program} hook {} {event}", host.name());
    Some(if session_name { format!("{command} {SESSION_NAME}") } else { command })
}

/// The event of one of our hooks, wherever its program lies: `stop` of `/old/place/throughline hook claude stop`.
pub fn event_of_ours(command: &str, host: Host) -> Option<String> {
    parts(command, host).map(|(_, event)| event)
}

/// The program and the event of one of our hooks, wherever its program lies.
///
/// A command that does more than call the hook is somebody's own.
pub fn parts(command: &str, host: Host) -> Option<(String, String)> {
    let words = shlex::split(command)?;
    match &words[..] {
        [program, hook, name, event, options @ ..] if is_named(program, &["throughline"]) => {
            let is_ours = hook == "hook" && name == host.name() && (options.is_empty() || options == [SESSION_NAME]);
            is_ours.then(|| (program.clone(), event.clone()))
        }
        _ => None,
    }
}

/// The hook of the older tool that is called somewhere in a command line, be it by way of `node …/throughline.mjs` or
/// `npx throughline@0.10.0`.
pub fn older_tool(command: &str) -> Option<&'static str> {
    // Read loosely: what stands in front, behind or around it does not matter.
    let words: Vec<&str> = command.split(|c: char| c.is_whitespace() || "'\"`();&|<>".contains(c)).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.windows(2).find_map(|pair| {
        let hook = OLDER_TOOL.into_iter().find(|hook| *hook == pair[1])?;
        is_named(pair[0], &["throughline", "throughline.mjs", "throughline.js", "throughline.cmd"]).then_some(hook)
    })
}

/// Whether a program's path or package has one of these names.
fn is_named(program: &str, names: &[&str]) -> bool {
    let file = program.rsplit(['/', '\\']).next().unwrap_or_default();
    names.contains(&file.split('@').next().unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_for_the_shell_where_needed_and_recognised() {
        for (program, written) in [
            ("/usr/bin/throughline", "/usr/bin/throughline"),
            ("/my programs/throughline", "'/my programs/throughline'"),
            ("/it's/throughline", "\"/it's/throughline\""),
            ("/a$b/throughline", "'/a$b/throughline'"),
        ] {
            for (session_name, option) in [(false, ""), (true, " --session-name")] {
                let command = ours(Path::new(program), Host::Claude, "stop", session_name).unwrap();
                assert_eq!(command, format!("{written} hook claude stop{option}"));
                assert_eq!(event_of_ours(&command, Host::Claude).as_deref(), Some("stop"));
                assert_eq!(event_of_ours(&command, Host::Codex), None);
                assert_eq!(older_tool(&command), None);
            }
        }
        for foreign in [
            "throughline hook claude",
            "throughline hook claude stop && date",
            "throughline hook claude stop --session-name --more",
            "throughline hook claude stop --more",
            "nice throughline hook claude stop",
            "throughline-notify hook claude stop",
            "throughline 'hook claude stop",
            "throughline process-turn",
        ] {
            assert_eq!(event_of_ours(foreign, Host::Claude), None, "{foreign}");
        }
    }

    #[test]
    fn hooks_of_the_older_tool_are_recognised_however_they_are_called() {
        for (command, hook) in [
            ("throughline process-turn", "process-turn"),
            ("/usr/local/bin/throughline codex-hook --event stop", "codex-hook"),
            ("node \"/my programs/bin/throughline.mjs\" session-start", "session-start"),
            ("'/usr/bin/node' '/x/throughline.mjs' 'prompt-submit'", "prompt-submit"),
            ("npx -y throughline@0.10.0 inject-context", "inject-context"),
            ("cd /x && throughline capture-tool; true", "capture-tool"),
            ("node C:\\x\\throughline.mjs process-turn", "process-turn"),
        ] {
            assert_eq!(older_tool(command), Some(hook), "{command}");
        }
        for other in
            ["throughline hook codex stop", "process-turn", "other process-turn", "my-throughline process-turn"]
        {
            assert_eq!(older_tool(other), None, "{other}");
        }
    }
}
