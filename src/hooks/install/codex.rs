//! What Codex needs beside the entries: its version, and the switch of its hooks in `config.toml`.

use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use toml_edit::{DocumentMut, Item, TableLike};

use super::command;
use crate::paths::Resolved;

/// The switch in `[features]` as the versions that need it know it.
pub const SWITCH: &str = "codex_hooks";
/// Its name in later versions, which need it no more.
const LATER_SWITCH: &str = "hooks";

/// The version of Codex: its first three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// The first one that has hooks.
    pub const FIRST_HOOKS: Self = Self(0, 114, 0);
    /// The first one that knows all the events that are registered.
    pub const ALL_EVENTS: Self = Self(0, 117, 0);
    /// The first one whose hooks are on without a switch.
    pub const SWITCHED_ON: Self = Self(0, 124, 0);
    /// The first one that runs only hooks that the user has trusted.
    pub const ASKS_FOR_TRUST: Self = Self(0, 129, 0);

    /// Whether its hooks have to be switched on.
    pub fn needs_switch(self) -> bool {
        (Self::FIRST_HOOKS..Self::SWITCHED_ON).contains(&self)
    }

    /// The version in an answer like `codex-cli 0.171.0`.
    pub fn parse(answer: &str) -> Option<Self> {
        let word = answer.lines().find(|line| line.starts_with("codex"))?.split_whitespace().last()?;
        let mut numbers = word.split(['.', '-', '+']).map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self(next()?, next()?, next()?))
    }

    /// The version of the program `codex` on PATH, if it tells it soon.
    pub fn installed() -> Option<Self> {
        // A file, not a pipe, which something that it leaves running could keep open.
        let mut answers = tempfile::tempfile().ok()?;
        let mut codex = Command::new("codex");
        codex.arg("--version").stdin(Stdio::null()).stdout(answers.try_clone().ok()?).stderr(Stdio::null());
        let mut codex = codex.spawn().ok()?;
        let until = Instant::now() + Duration::from_secs(5);
        while codex.try_wait().ok()?.is_none() {
            if Instant::now() > until {
                // It has not answered; what becomes of it does not matter.
                drop(codex.kill());
                drop(codex.wait());
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let mut answer = String::new();
        answers.rewind().ok()?;
        answers.take(1000).read_to_string(&mut answer).ok()?;
        Self::parse(&answer)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// How `config.toml` has the switch of the hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// It does not say.
    Unset,
    /// On.
    On,
    /// Off.
    Off,
}

/// A `config.toml` as far as it matters here.
#[derive(Clone, Debug)]
pub struct Config<'t> {
    text: &'t str,
    document: DocumentMut,
}

impl<'t> Config<'t> {
    /// Parses it.
    ///
    /// # Errors
    ///
    /// It is no TOML. The text says where.
    pub fn parse(text: &'t str) -> Result<Self, String> {
        let document = text.parse::<DocumentMut>();
        let document = document.map_err(|error| {
            let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count()) + 1;
            format!("{} on line {line}", error.message().trim().replace('\n', ", "))
        })?;
        Ok(Self { text, document })
    }

    /// How it has the switch, under whichever name.
    pub fn switch(&self) -> Switch {
        let features = self.document.get("features").and_then(Item::as_table_like);
        let value = |name| features.and_then(|features| features.get(name)).and_then(Item::as_bool);
        match value(LATER_SWITCH).or(value(SWITCH)) {
            None => Switch::Unset,
            Some(true) => Switch::On,
            Some(false) => Switch::Off,
        }
    }

    /// The text with the switch on, and nothing else changed.
    ///
    /// # Errors
    ///
    /// `features` is no table, or the switch cannot be put in without touching the rest.
    pub fn switched_on(&self) -> Result<String, String> {
        let mut document = self.document.clone();
        let features = document.entry("features").or_insert_with(toml_edit::table);
        let features = features.as_table_like_mut().ok_or("its \"features\" is no table")?;
        features.insert(SWITCH, toml_edit::value(true));
        let mut new = document.to_string();
        if self.text.contains("\r\n") {
            // Lines are written with their line feed alone.
            new = new.replace("\r\n", "\n").replace('\n', "\r\n");
        }
        if is_insertion(self.text, &new) {
            Ok(new)
        } else {
            Err(format!("{SWITCH} cannot be added without touching the rest of it"))
        }
    }

    /// Whether the user has trusted the hook at a place of a hooks file: the group among those of the event, and the place in
    /// the group. (Whether it is still the same hook, only Codex can tell.)
    pub fn trusts(&self, hooks: &Path, event: &str, (group, number): (usize, usize)) -> bool {
        let end = format!(":{}:{group}:{number}", snake_case(event));
        let state = self.document.get("hooks").and_then(Item::as_table_like).and_then(|hooks| hooks.get("state"));
        let is_trusted = |(key, hook): (&str, &Item)| {
            let path = key.strip_suffix(&end).map(Path::new);
            let value = |name| hook.as_table_like().and_then(|hook| hook.get(name));
            path.and_then(Resolved::new).is_some_and(|path| Some(path) == Resolved::new(hooks))
                && value("trusted_hash").and_then(Item::as_str).is_some()
                && value("enabled").and_then(Item::as_bool) != Some(false)
        };
        state.and_then(Item::as_table_like).is_some_and(|state| state.iter().any(is_trusted))
    }

    /// The hook of the older tool that is registered here for one of these events, and the event.
    pub fn older_tool<'e>(&self, events: &[&'e str]) -> Option<(&'e str, &'static str)> {
        let hooks = self.document.get("hooks")?.as_table_like()?;
        events.iter().find_map(|event| {
            let groups = tables(hooks.get(event)?);
            let entries = groups.into_iter().filter_map(|group| group.get("hooks")).flat_map(tables);
            let mut commands = entries.filter_map(|entry| entry.get("command")?.as_str());
            Some((*event, commands.find_map(command::older_tool)?))
        })
    }
}

/// An event's name as the keys of the state have it: `UserPromptSubmit` is `user_prompt_submit`.
fn snake_case(event: &str) -> String {
    let mut name = String::new();
    for letter in event.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// The tables of an array, however it is written.
fn tables(item: &Item) -> Vec<&dyn TableLike> {
    match (item.as_array_of_tables(), item.as_array()) {
        (Some(tables), _) => tables.iter().map(|table| table as &dyn TableLike).collect(),
        (_, Some(array)) => array.iter().filter_map(|value| Some(value.as_inline_table()? as &dyn TableLike)).collect(),
        _ => Vec::new(),
    }
}

/// Whether `new` is `old` with one piece put in.
fn is_insertion(old: &str, new: &str) -> bool {
    let same = |(a, b): &(u8, u8)| a == b;
    let front = old.bytes().zip(new.bytes()).take_while(same).count();
    let back = old.bytes().rev().zip(new.bytes().rev()).take_while(same).count();
    new.len() >= old.len() && front + back >= old.len()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn on(text: &str) -> String {
        let new = Config::parse(text).unwrap().switched_on().unwrap();
        assert_eq!(Config::parse(&new).unwrap().switch(), Switch::On);
        new
    }

    #[test]
    fn versions_are_read_from_the_program_s_answer() {
        assert_eq!(Version::parse("codex-cli 0.171.0\n"), Some(Version(0, 171, 0)));
        assert_eq!(Version::parse("WARNING: x\ncodex-cli 0.124.0-alpha.3\n"), Some(Version(0, 124, 0)));
        for none in ["", "codex", "codex-cli 1.2", "0.1.2", "codex-cli x.y.z"] {
            assert_eq!(Version::parse(none), None, "{none}");
        }
        assert!(Version(0, 123, 9) < Version::SWITCHED_ON && Version(1, 0, 0) > Version::SWITCHED_ON);
    }

    #[test]
    fn the_switch_is_put_in_and_the_rest_stays() {
        let cases = [
            ("", "[features]\ncodex_hooks = true\n"),
            ("a = 1 # one\n", "a = 1 # one\n\n[features]\ncodex_hooks = true\n"),
            ("[features]\n", "[features]\ncodex_hooks = true\n"),
            (
                "# c\n[ features ] # here\n  web =  true # x\n\n[b]\nc = 'd'\n",
                "# c\n[ features ] # here\n  web =  true # x\ncodex_hooks = true\n\n[b]\nc = 'd'\n",
            ),
            ("features.web = true\nb=1\n", "features.web = true\nfeatures.codex_hooks = true\nb=1\n"),
            ("features = { web = true }\n", "features = { web = true , codex_hooks = true }\n"),
            ("a = 1\r\n[features]\r\nb = true\r\n", "a = 1\r\n[features]\r\nb = true\r\ncodex_hooks = true\r\n"),
            (
                "[features]\nweb = true\n# trusted\n[hooks.state.\"x:stop:0:0\"]\nt = \"h\"\n",
                "[features]\nweb = true\ncodex_hooks = true\n# trusted\n[hooks.state.\"x:stop:0:0\"]\nt = \"h\"\n",
            ),
        ];
        for (old, new) in cases {
            assert_eq!(on(old), new);
        }
    }

    #[test]
    fn what_is_no_toml_or_has_another_shape_is_told() {
        let error = Config::parse("a = 1\nb = [\n").unwrap_err();
        assert!(error.ends_with("on line 2") || error.ends_with("on line 3"), "{error}");
        assert!(Config::parse("features = 1\n").unwrap().switched_on().is_err());
        // Both kinds of line ends: one of them would not survive.
        assert!(Config::parse("a = 1\nb = 2\r\n").unwrap().switched_on().is_err());
    }

    #[test]
    fn the_switch_is_read_under_both_names() {
        for (text, switch) in [
            ("", Switch::Unset),
            ("features.codex_hooks = true", Switch::On),
            ("[features]\nhooks = false\ncodex_hooks = true", Switch::Off),
            ("features = { hooks = true }", Switch::On),
        ] {
            assert_eq!(Config::parse(text).unwrap().switch(), switch, "{text}");
        }
    }

    #[test]
    fn a_hook_is_trusted_by_its_place_in_its_file() {
        let text = "[hooks.state.\"/h/.codex/hooks.json:post_tool_use:0:1\"]\ntrusted_hash = \"x\"\n\
                    [hooks.state.\"/h/.codex/hooks.json:stop:0:0\"]\ntrusted_hash = \"x\"\nenabled = false\n";
        let config = Config::parse(text).unwrap();
        let trusts = |path: &str, event, place| config.trusts(Path::new(path), event, place);
        assert!(trusts("/h/.codex/hooks.json", "PostToolUse", (0, 1)));
        assert!(trusts("/h/x/..//.codex/hooks.json", "PostToolUse", (0, 1)));
        for (path, event, place) in [
            ("/h/.codex/hooks.json", "PostToolUse", (1, 1)),
            ("/h/.codex/hooks.json", "Stop", (0, 0)),
            ("/g/.codex/hooks.json", "PostToolUse", (0, 1)),
        ] {
            assert!(!trusts(path, event, place), "{path} {event} {place:?}");
        }
        assert!(!Config::parse("hooks = 1").unwrap().trusts(Path::new("/h"), "Stop", (0, 0)));
    }

    #[test]
    fn the_older_tool_is_found_in_tables() {
        for text in [
            "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"throughline codex-hook stop\"\n",
            "hooks.Stop = [{ hooks = [{ command = 'throughline codex-hook stop' }] }]\n",
        ] {
            let config = Config::parse(text).unwrap();
            assert_eq!(config.older_tool(&["PostToolUse", "Stop"]), Some(("Stop", "codex-hook")));
            assert_eq!(config.older_tool(&["PostToolUse"]), None);
        }
        assert_eq!(Config::parse("[hooks.state.x]\ny = 1").unwrap().older_tool(&["Stop"]), None);
    }
}
