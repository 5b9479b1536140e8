//! What the texts of rows say about them: the host marks much of what it writes itself by nothing else.

use std::borrow::Cow;

use crate::text::is_space;

/// What the host reports under the user's name.
const REPORTS: [&str; 5] =
    ["<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>", "<bash-stdout>", "<bash-stderr>"];
const REMINDER: (&str, &str) = ("<system-reminder>", "</system-reminder>");
const INTERRUPT: &str = "[Request interrupted by user";
const STOP_FEEDBACK: &str = "Stop hook feedback";
const NO_RESPONSE: &str = "No response requested.";
const ERRORS: [&str; 3] = ["API Error", "You've hit your session limit", "You've reached your"];

/// Nothing but white space.
pub(super) fn is_blank(text: &str) -> bool {
    text.trim_start_matches(is_space).is_empty()
}

/// A user text that is neither a prompt nor an interrupt.
pub(super) fn is_no_prompt(text: &str) -> bool {
    let lead = lead(text);
    lead.is_empty() || REPORTS.iter().any(|report| lead.starts_with(report)) || is_reminders(lead)
}

/// What the host writes when the user stops the agent.
pub(super) fn is_interrupt(text: &str) -> bool {
    lead(text).starts_with(INTERRUPT)
}

/// What a Stop hook told the agent to act on.
pub(super) fn is_stop_feedback(text: &str) -> bool {
    lead(text).starts_with(STOP_FEEDBACK)
}

/// What the host says in the agent's place where there is nothing to say.
pub(super) fn is_no_response(text: &str) -> bool {
    text == NO_RESPONSE
}

/// An error that the host reports in the agent's place.
pub(super) fn is_error(text: &str) -> bool {
    ERRORS.iter().any(|error| text.starts_with(error))
}

/// A prompt as it was meant: a slash command is wrapped in tags.
pub(super) fn as_asked(text: String) -> String {
    command(lead(&text)).unwrap_or(text)
}

fn lead(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// Whole reminders and nothing else.
fn is_reminders(lead: &str) -> bool {
    let mut rest = lead;
    while let Some((_, behind)) = rest.strip_prefix(REMINDER.0).and_then(|rest| rest.split_once(REMINDER.1)) {
        rest = behind.trim_start_matches(is_space);
    }
    rest.is_empty() && !lead.is_empty()
}

/// `/name arguments` of a wrapped slash command.
fn command(lead: &str) -> Option<String> {
    if !lead.starts_with("<command-name>") && !lead.starts_with("<command-message>") {
        return None;
    }
    let name = tagged(lead, "<command-name>", "</command-name>")?;
    let arguments = tagged(lead, "<command-args>", "</command-args>").unwrap_or_default();
    let words = [name, arguments].map(|word| word.trim_matches(is_space));
    let command: Cow<'_, str> = match words {
        [name, ""] => name.into(),
        ["", arguments] => arguments.into(),
        [name, arguments] => format!("{name} {arguments}").into(),
    };
    (!command.is_empty()).then(|| command.into_owned())
}

/// What stands in the first such element.
fn tagged<'t>(text: &'t str, open: &str, close: &str) -> Option<&'t str> {
    Some(text.split_once(open)?.1.split_once(close)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reminders_alone_are_no_prompt() {
        for (text, no_prompt) in [
            ("<system-reminder>a</system-reminder>", true),
            (" <system-reminder>a\nb</system-reminder>\n<system-reminder></system-reminder>\u{feff} ", true),
            ("<system-reminder><system-reminder>a</system-reminder>", true),
            ("<system-reminder>a</system-reminder> x", false),
            ("<system-reminder>a</system-reminder></system-reminder>", false),
            ("x <system-reminder>a</system-reminder>", false),
            ("<system-reminder>a", false),
            ("\n<bash-stdout>a", true),
            ("a<bash-stdout>", false),
            ("\u{feff}\u{3000}", true),
            ("\u{85}", false),
        ] {
            assert_eq!(is_no_prompt(text), no_prompt, "{text:?}");
        }
    }

    #[test]
    fn commands_are_unwrapped() {
        for (text, asked) in [
            ("<command-name>/x</command-name>", "/x"),
            (
                " \n<command-message>x</command-message>\n<command-name>/x</command-name>\n<command-args> a b\n</command-args>",
                "/x a b",
            ),
            ("<command-name>/x</command-name><command-args></command-args>", "/x"),
            ("<command-name> </command-name><command-args>a</command-args>", "a"),
            ("<command-name></command-name>", "<command-name></command-name>"),
            ("<command-message>/x</command-message>", "<command-message>/x</command-message>"),
            ("<command-name>/x", "<command-name>/x"),
            ("see <command-name>/x</command-name>", "see <command-name>/x</command-name>"),
        ] {
            assert_eq!(as_asked(text.to_owned()), asked);
        }
    }
}
