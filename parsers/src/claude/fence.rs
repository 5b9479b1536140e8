//! The block that shows a session's name: a fence, the name, the fence.

use crate::text::is_space;

/// The block that shows this name, without a line feed behind it.
///
/// ```
/// assert_eq!(throughline_parsers::claude::block("Session - tidy up"), "```\nSession - tidy up\n```");
/// ```
pub fn block(name: &str) -> String {
    // A fence is longer than any that could stand within.
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{name}\n{fence}")
}

/// The one line of the block that a text begins with; anything may follow the block.
pub(super) fn shown(text: &str) -> Option<&str> {
    let lead = text.trim_start_matches(is_space);
    let fence = &lead[..lead.len() - lead.trim_start_matches('`').len()];
    if fence.len() < 3 {
        return None;
    }
    let (opening, rest) = first_line(&lead[fence.len()..]);
    let (name, rest) = first_line(rest?);
    let (closing, _) = first_line(rest?);
    let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.+#-".contains(&byte));
    (is_word(trimmed(opening)) && closing.strip_prefix(fence).map(trimmed) == Some("")).then_some(name)
}

/// The first line, and what stands behind its end if it has one: LF, CR LF or CR.
fn first_line(text: &str) -> (&str, Option<&str>) {
    match text.find(['\n', '\r']) {
        Some(end) => {
            let behind = &text[end..];
            (&text[..end], behind.strip_prefix("\r\n").or(behind.get(1..)))
        }
        None => (text, None),
    }
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_shows_its_name() {
        for (text, name) in [
            ("```\na name\n```", Some("a name")),
            ("\u{feff} \n```text\na name\n```\nand more", Some("a name")),
            ("`````\t sh+.#_-9 \na name\n`````  ", Some("a name")),
            ("```\r\na name\r\n```\r\nmore", Some("a name")),
            ("```\ra name\r```", Some("a name")),
            ("```\n a name \n```", Some(" a name ")),
            ("```\n\n```", Some("")),
            ("```\na name\n````", None),
            ("````\na name\n```", None),
            ("```\na name\n```x", None),
            ("```\na name\n ```", None),
            ("```\na name\nmore\n```", None),
            ("```two words\na name\n```", None),
            ("```é\na name\n```", None),
            ("```\na name", None),
            ("```\na name\n", None),
            ("```a name```", None),
            ("``\na name\n``", None),
            ("~~~\na name\n~~~", None),
            ("x```\na name\n```", None),
            ("a name", None),
            ("```", None),
            ("", None),
        ] {
            assert_eq!(shown(text), name, "{text:?}");
        }
    }

    #[test]
    fn the_block_of_a_name_shows_it_whatever_it_is() {
        for name in ["a name", "", "```", "a ```` b", "`"] {
            assert_eq!(shown(&block(name)), Some(name));
            assert_eq!(shown(&format!("{}\n{name}", block(name))), Some(name));
        }
    }
}
