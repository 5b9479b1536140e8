//! The agent's own calls of `throughline session-name`, which no check may stand in the way of.

use std::path::Path;

const PROGRAM: &str = "throughline";
const COMMAND: &str = "session-name";

/// Whether a shell command is one simple call of it: words and quotes, and nothing that would do more.
///
/// ```
/// use throughline::session_name::own_command::is_own;
/// assert!(is_own("/usr/bin/throughline session-name set-task 'tidy up'"));
/// assert!(!is_own("throughline session-name retry && rm -r x"));
/// ```
pub fn is_own(command: &str) -> bool {
    if command.contains([';', '&', '|', '<', '>', '$', '`', '\n']) {
        return false;
    }
    let words = shlex::split(command).unwrap_or_default();
    let [program, name, ..] = &words[..] else { return false };
    Path::new(program).file_name().is_some_and(|file| file == PROGRAM) && name == COMMAND
}

/// The command that asks for the name anew, for a shell: with the path of this program, where that makes it one of ours.
pub fn retry(program: &Path) -> String {
    let command = |program: &str| format!("{program} {COMMAND} retry");
    let by_path = program.to_str().and_then(|path| shlex::try_quote(path).ok()).map(|path| command(&path));
    by_path.filter(|by_path| is_own(by_path)).unwrap_or_else(|| command(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simple_call_is_words_and_quotes() {
        for own in [
            "throughline session-name retry",
            " \t/a/b/throughline  session-name status --json ",
            "throughline session-name set-task \"it's (nearly) done\" --label 'A B'",
            "'/my programs/throughline' session-name retry",
            "throughline 'session-name' retry",
            "throughline session-name",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "",
            "throughline",
            "throughline observer-read",
            "throughline-x session-name retry",
            "x/throughline/y session-name retry",
            "nice throughline session-name retry",
            "X=1 throughline session-name retry",
            "echo throughline session-name retry",
            "throughline session-name retry; ls",
            "throughline session-name retry & ls",
            "throughline session-name retry | cat",
            "throughline session-name retry > x",
            "throughline session-name retry < x",
            "throughline session-name set-task \"$(ls)\"",
            "throughline session-name set-task `ls`",
            "throughline session-name retry\nls",
            "throughline session-name set-task 'a & b'",
            "throughline session-name set-task 'open",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn the_command_to_retry_is_a_simple_call_whatever_the_path_is() {
        for (program, command) in [
            ("/usr/bin/throughline", "/usr/bin/throughline session-name retry"),
            ("/my programs/throughline", "'/my programs/throughline' session-name retry"),
            ("/a$b/throughline", "throughline session-name retry"),
            ("/usr/bin/throughline (deleted)", "throughline session-name retry"),
        ] {
            assert_eq!(retry(Path::new(program)), command);
            assert!(is_own(command));
        }
    }
}
