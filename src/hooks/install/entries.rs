//! Our entries in a settings file of either agent: both have the same shape.
//!
//! `{"hooks": {"<event>": [{"matcher"?: …, "hooks": [{"type": "command", "command": …, "timeout"?: seconds}]}]}}`

use std::ops::Range;

use jsonc_parser::ast::{Array, Object, ObjectProp, Value};
use serde_json::json;

use super::command;
use super::json::{self, Container, Edit, Item, append, edited, is_alone, member, place, quoted, remove};
use crate::chain::Host;

/// How many seconds an agent waits for one of our hooks.
const TIMEOUT: u32 = 10;

/// An entry that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The agent's name of the event.
    pub event: &'static str,
    /// Our name of it, the last word of the command.
    pub word: &'static str,
    /// The command line.
    pub command: String,
}

/// A document with its changes made, and a line for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The document.
    pub text: String,
    /// What was changed.
    pub lines: Vec<String>,
}

/// Registers the wanted entries; the older ones of ours for the same hooks are brought up to date. Those of ours for the
/// unwanted hooks, told by the agent's name of the event and ours, are removed.
///
/// # Errors
///
/// The document does not parse, or does not have the shape above where it matters. The text says what is wrong.
pub fn register(text: &str, host: Host, wanted: &[Wanted], unwanted: &[(&str, &str)]) -> Result<Changed, String> {
    let mut changed = Changed { text: text.to_owned(), lines: Vec::new() };
    if json::parse(text)?.is_none() {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        changed.text += &format!("{gap}{{}}\n");
    }
    for wanted in wanted {
        // One edit at a time, each on a fresh parse, until there is nothing left to do.
        while let Some((edit, line)) = next_edit(&changed.text, host, wanted)? {
            changed.text = edited(&changed.text, edit);
            changed.lines.push(format!("{}: {line}", wanted.event));
        }
    }
    remove_all(&mut changed, host, |event, word| unwanted.contains(&(event, word)))?;
    Ok(changed)
}

/// Removes every entry of ours for this agent, and the containers that held nothing else.
///
/// # Errors
///
/// The document does not parse, or its hooks are no object.
pub fn unregister(text: &str, host: Host) -> Result<Changed, String> {
    let mut changed = Changed { text: text.to_owned(), lines: Vec::new() };
    remove_all(&mut changed, host, |_, _| true)?;
    Ok(changed)
}

/// Removes the entries of ours whose event, in the agent's name and in ours, is not wanted.
fn remove_all(changed: &mut Changed, host: Host, is_unwanted: impl Fn(&str, &str) -> bool) -> Result<(), String> {
    while let Some((edit, line)) = next_removal(&changed.text, host, &is_unwanted)? {
        changed.text = edited(&changed.text, edit);
        changed.lines.push(line);
    }
    Ok(())
}

/// One of our hooks, as a document has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The agent's name of the event.
    pub event: String,
    /// Our name of the event, the last word of the command.
    pub word: String,
    /// The program that is called.
    pub program: String,
    /// The place of its group among those of the event, and its place in the group, from 0.
    pub place: (usize, usize),
    /// The agent does not wait for it.
    pub is_async: bool,
}

/// Every hook of ours for this agent.
///
/// # Errors
///
/// The document does not parse, or its hooks are no object.
pub fn registered(text: &str, host: Host) -> Result<Vec<Registered>, String> {
    let document = json::parse(text)?;
    let Some(hooks) = hooks_of(document.as_ref())? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for event in &hooks.properties {
        // What has another shape holds nothing of ours.
        let Value::Array(groups) = &event.value else { continue };
        for (group, entries) in groups.elements.iter().map(entries_in).enumerate() {
            for Entry { number, object, .. } in entries.unwrap_or_default() {
                if let Some((program, word)) = command_of(object).and_then(|command| command::parts(command, host)) {
                    let (event, place) = (event.name.as_str().to_owned(), (group, number));
                    found.push(Registered { event, word, program, place, is_async: asynchronous(object).is_some() });
                }
            }
        }
    }
    Ok(found)
}

/// The hook of the older tool that is registered for one of these events, and the event.
///
/// # Errors
///
/// As for [`register`].
pub fn older_tool<'e>(text: &str, events: &[&'e str]) -> Result<Option<(&'e str, &'static str)>, String> {
    let document = json::parse(text)?;
    let Some(hooks) = hooks_of(document.as_ref())? else { return Ok(None) };
    for event in events {
        let Some(groups) = groups_of(hooks, event)? else { continue };
        for entry in entries_of(event, groups)? {
            if let Some(hook) = command::older_tool(&command_line(entry.object)) {
                return Ok(Some((event, hook)));
            }
        }
    }
    Ok(None)
}

/// Whether Claude Code's switch against all hooks is on.
pub fn are_disabled(text: &str) -> bool {
    let Ok(Some(Value::Object(root))) = json::parse(text) else { return false };
    matches!(member(&root, "disableAllHooks").map(|member| &member.value), Some(Value::BooleanLit(on)) if on.value)
}

/// One hook in a group.
struct Entry<'o, 'a> {
    list: &'o Array<'a>,
    number: usize,
    object: &'o Object<'a>,
}

fn next_edit(text: &str, host: Host, wanted: &Wanted) -> Result<Option<(Edit, String)>, String> {
    let Wanted { event, word, command } = wanted;
    let document = json::parse(text)?;
    let Some(Value::Object(root)) = document.as_ref() else { return Err("it is no object".to_owned()) };
    let group = json!({"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT}]});
    let added = format!("added {command}");
    let Some(hooks) = hooks_of(document.as_ref())? else {
        let hooks = json!({*event: [group]});
        return Ok(Some((append(text, &root.into(), &Item::Member("hooks", &hooks)), added)));
    };
    let Some(groups) = groups_of(hooks, event)? else {
        return Ok(Some((append(text, &hooks.into(), &Item::Member(event, &json!([group]))), added)));
    };
    let entries = entries_of(event, groups)?;
    let is_ours = |entry: &&Entry<'_, '_>| {
        command_of(entry.object).is_some_and(|command| command::event_of_ours(command, host).as_deref() == Some(word))
    };
    let mut ours = entries.iter().filter(is_ours);
    let Some(first) = ours.next() else {
        return Ok(Some((append(text, &groups.into(), &Item::Element(&group)), added)));
    };
    if let Some(second) = ours.next() {
        let line = format!("removed {}, which is there twice", command_of(second.object).unwrap_or_default());
        return Ok(Some((removal(text, root, hooks, groups, second), line)));
    }
    Ok(corrected(text, first.object, command))
}

/// Brings an entry of ours up to date. What somebody has added to it stays, a timeout of their own too.
fn corrected(text: &str, entry: &Object<'_>, wanted: &str) -> Option<(Edit, String)> {
    let command = member(entry, "command")?;
    let old = command_of(entry)?;
    if old != wanted {
        return Some((vec![(place(&command.value), quoted(wanted))], format!("{wanted} in the place of {old}")));
    }
    if let Some(on) = asynchronous(entry) {
        // An agent that ends kills the hooks that it does not wait for.
        return Some((vec![(on, "false".to_owned())], "async: false".to_owned()));
    }
    if member(entry, "timeout").is_some() {
        return None;
    }
    let edit = append(text, &entry.into(), &Item::Member("timeout", &json!(TIMEOUT)));
    Some((edit, format!("timeout: {TIMEOUT}")))
}

/// Where an entry says that it is not to be waited for.
fn asynchronous(entry: &Object<'_>) -> Option<Range<usize>> {
    match member(entry, "async").map(|member| &member.value) {
        Some(Value::BooleanLit(on)) if on.value => Some(place(on)),
        _ => None,
    }
}

fn next_removal(
    text: &str,
    host: Host,
    is_unwanted: impl Fn(&str, &str) -> bool,
) -> Result<Option<(Edit, String)>, String> {
    let document = json::parse(text)?;
    let Some(hooks) = hooks_of(document.as_ref())? else { return Ok(None) };
    let Some(Value::Object(root)) = document.as_ref() else { return Ok(None) };
    for event in &hooks.properties {
        // What has another shape holds nothing of ours.
        let Value::Array(groups) = &event.value else { continue };
        for entry in groups.elements.iter().flat_map(|group| entries_in(group).unwrap_or_default()) {
            let command = command_of(entry.object).unwrap_or_default();
            if command::event_of_ours(command, host).is_some_and(|word| is_unwanted(event.name.as_str(), &word)) {
                let line = format!("{}: removed {command}", event.name.as_str());
                return Ok(Some((removal(text, root, hooks, groups, &entry), line)));
            }
        }
    }
    Ok(None)
}

/// Takes an entry out, with the containers around it that hold nothing else.
fn removal(text: &str, root: &Object<'_>, hooks: &Object<'_>, groups: &Array<'_>, entry: &Entry<'_, '_>) -> Edit {
    let list = Container::from(entry.list);
    let mut objects = groups.elements.iter().filter_map(Value::as_object).map(Container::from);
    let group = objects.find(|group| within(&list.place, &group.place));
    // A group that says more than its hooks is somebody's, and stays with an empty list.
    let group = group.filter(|group| group.items.len() == 1 && is_alone(text, &list));
    let Some(mut inner) = group else { return remove(text, &list, entry.number) };
    let mut number = 0;
    // From the inside out: what is alone in its container takes that with it.
    for outer in [Container::from(groups), hooks.into(), root.into()] {
        match outer.items.iter().position(|item| within(&inner.place, item)) {
            Some(holder) if is_alone(text, &inner) => (inner, number) = (outer, holder),
            _ => break,
        }
    }
    remove(text, &inner, number)
}

fn within(inner: &Range<usize>, outer: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

fn hooks_of<'o, 'a>(document: Option<&'o Value<'a>>) -> Result<Option<&'o Object<'a>>, String> {
    match document {
        None => Ok(None),
        Some(Value::Object(root)) => match only_member(root, "hooks")?.map(|hooks| &hooks.value) {
            None => Ok(None),
            Some(Value::Object(hooks)) => Ok(Some(hooks)),
            Some(_) => Err("its \"hooks\" is no object".to_owned()),
        },
        Some(_) => Err("it is no object".to_owned()),
    }
}

fn groups_of<'o, 'a>(hooks: &'o Object<'a>, event: &str) -> Result<Option<&'o Array<'a>>, String> {
    match only_member(hooks, event)?.map(|groups| &groups.value) {
        None => Ok(None),
        Some(Value::Array(groups)) => Ok(Some(groups)),
        Some(_) => Err(format!("its hooks for {event} are no array")),
    }
}

fn entries_of<'o, 'a>(event: &str, groups: &'o Array<'a>) -> Result<Vec<Entry<'o, 'a>>, String> {
    let entries = groups.elements.iter().map(|group| {
        entries_in(group).ok_or_else(|| format!("among its hooks for {event} is something other than groups of hooks"))
    });
    Ok(entries.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The entries of a group; `None` if it is none.
fn entries_in<'o, 'a>(group: &'o Value<'a>) -> Option<Vec<Entry<'o, 'a>>> {
    let list = member(group.as_object()?, "hooks")?.value.as_array()?;
    let entries = list.elements.iter().enumerate();
    entries.map(|(number, entry)| Some(Entry { list, number, object: entry.as_object()? })).collect()
}

/// The member of this name. Of two of them an agent may take either, so that is an error.
fn only_member<'o, 'a>(object: &'o Object<'a>, name: &str) -> Result<Option<&'o ObjectProp<'a>>, String> {
    let mut members = object.properties.iter().filter(|member| member.name.as_str() == name);
    match (members.next(), members.next()) {
        (_, Some(_)) => Err(format!("\"{name}\" is in it twice")),
        (member, None) => Ok(member),
    }
}

fn command_of<'o>(entry: &'o Object<'_>) -> Option<&'o str> {
    Some(member(entry, "command")?.value.as_string_lit()?.value.as_ref())
}

/// The command with the arguments that may stand beside it.
fn command_line(entry: &Object<'_>) -> String {
    let mut line = command_of(entry).unwrap_or_default().to_owned();
    let arguments = member(entry, "args").and_then(|member| member.value.as_array());
    for argument in arguments.iter().flat_map(|list| &list.elements).filter_map(Value::as_string_lit) {
        line += " ";
        line += &argument.value;
    }
    line
}

#[cfg(test)]
#[path = "entries_tests.rs"]
mod tests;
