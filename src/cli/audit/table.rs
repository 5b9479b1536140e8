//! A report as a table for people: a line for each project, and below it what needs a look.

use std::fmt::Write as _;

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use throughline::audit::Report;
use throughline::audit::report::{Project, Thread};

use crate::cli::size;

/// How a table is to look.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    colored: bool,
    /// How many columns there are; as many as are needed where nobody says.
    width: Option<usize>,
}

impl Style {
    /// For a terminal (or what `COLUMNS` says), or for a file.
    pub fn new(colored: bool, to_file: bool) -> Self {
        let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let terminal = || Some(usize::from(rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?.ws_col));
        let width = if to_file { None } else { said.or_else(terminal).filter(|width| *width > 0) };
        Self { colored, width }
    }
}

/// What a column shows.
struct Column {
    head: &'static str,
    kind: Kind,
    cell: fn(&Project) -> String,
    /// When the cell is something to look at.
    warns: fn(&Project) -> bool,
    /// Where there is no room for all columns, those with the greatest rank are left out.
    rank: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It stands right.
    Number,
    /// Its middle is left out where there is no room.
    Text,
    /// A text that is never cut.
    Short,
}

const COLUMNS: [Column; 14] = [
    Column { head: "project", kind: Kind::Text, cell: place, warns: |project| project.root.is_none(), rank: 0 },
    number("threads", |project| own_threads(project).to_string(), |_| false, 7),
    number("pairs", |project| project.sums.pairs.to_string(), |_| false, 0),
    number("completed", |project| project.sums.turns.completed.to_string(), |_| false, 5),
    number("open", |project| project.sums.turns.open.to_string(), |project| project.sums.turns.open > 0, 1),
    number("aborted", |project| project.sums.turns.aborted.to_string(), |_| false, 8),
    number("failed", |project| project.sums.turns.failed.to_string(), |project| project.sums.turns.failed > 0, 4),
    number("undone", |project| project.sums.turns.rolled_back.to_string(), |_| false, 9),
    number("bodies", bodies, |project| project.sums.bodies_present != Some(project.sums.pairs), 3),
    number("size", |project| size(project.rows.bytes), |_| false, 6),
    number("rows", |project| project.rows.rows.to_string(), |_| false, 10),
    number("bad", |project| project.rows.unreadable_rows.to_string(), |project| project.rows.unreadable_rows > 0, 2),
    Column { head: "last completion", kind: Kind::Short, cell: last, warns: |_| false, rank: 0 },
    Column { head: "current", kind: Kind::Short, cell: current, warns: |project| project.ambiguous, rank: 6 },
];

const fn number(head: &'static str, cell: fn(&Project) -> String, warns: fn(&Project) -> bool, rank: u8) -> Column {
    Column { head, kind: Kind::Number, cell, warns, rank }
}

/// The report as text.
pub fn of(report: &Report, style: Style) -> String {
    let mut out = String::new();
    if !report.projects.is_empty() {
        let (table, left_out) = table(report, style);
        out = table + "\n";
        if !left_out.is_empty() {
            // Writing into a string does not fail.
            let _written = writeln!(out, "No room for: {}.", left_out.join(", "));
        }
    }
    notes(report, &mut out);
    out
}

/// A column that is shown: its cells, and how wide it is.
struct Shown {
    column: &'static Column,
    cells: Vec<String>,
    width: usize,
}

/// The table, and which columns it has no room for.
fn table(report: &Report, style: Style) -> (String, Vec<&'static str>) {
    let (columns, left_out) = fitting(&report.projects, style.width);
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    match style.colored {
        true => table.enforce_styling(),
        false => table.force_no_tty(),
    };
    let cell = |shown: &Shown, text: &str| Cell::new(cut(text, shown.width)).set_alignment(shown.column.alignment());
    let head = |shown: &Shown| {
        let cell = cell(shown, shown.column.head);
        if style.colored { cell.add_attribute(Attribute::Bold) } else { cell }
    };
    table.set_header(columns.iter().map(head).collect::<Vec<_>>());
    for (n, project) in report.projects.iter().enumerate() {
        let cell = |shown: &Shown| {
            let cell = cell(shown, &shown.cells[n]);
            if style.colored && (shown.column.warns)(project) { cell.fg(Color::Yellow) } else { cell }
        };
        table.add_row(columns.iter().map(cell).collect::<Vec<_>>());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP as u16));
    }
    (table.lines().map(|line| line.trim_end().to_owned() + "\n").collect(), left_out)
}

/// How far apart columns stand.
const GAP: usize = 2;
/// No column becomes narrower.
const NARROWEST: usize = 16;

impl Column {
    fn alignment(&self) -> CellAlignment {
        if self.kind == Kind::Number { CellAlignment::Right } else { CellAlignment::Left }
    }
}

/// The columns that there is room for, texts cut as far as they have to be; and what the others are called.
fn fitting(projects: &[Project], most: Option<usize>) -> (Vec<Shown>, Vec<&'static str>) {
    let shown = |column: &'static Column| {
        let cells: Vec<String> = projects.iter().map(column.cell).collect();
        let width = cells.iter().map(|cell| width(cell)).chain([width(column.head)]).max().unwrap_or(0);
        Shown { column, cells, width }
    };
    let mut columns: Vec<Shown> = COLUMNS.iter().map(shown).collect();
    let mut left_out = Vec::new();
    let needed = |columns: &[Shown], of: fn(&Shown) -> usize| {
        columns.iter().map(of).sum::<usize>() + GAP * columns.len().saturating_sub(1)
    };
    let least = |shown: &Shown| if shown.column.kind == Kind::Text { shown.width.min(NARROWEST) } else { shown.width };
    while most.is_some_and(|most| needed(&columns, least) > most) {
        let last = columns.iter().enumerate().max_by_key(|(_, shown)| shown.column.rank);
        let Some((n, _)) = last.filter(|(_, shown)| shown.column.rank > 0) else { break };
        left_out.push(columns.remove(n).column.head);
    }
    while most.is_some_and(|most| needed(&columns, |shown| shown.width) > most) {
        let cuttable = columns.iter_mut().filter(|shown| shown.width > least(shown));
        match cuttable.max_by_key(|shown| shown.width) {
            Some(widest) => widest.width -= 1,
            None => break,
        }
    }
    (columns, left_out)
}

fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// How many columns a character takes on a terminal.
fn char_width(c: char) -> usize {
    unicode_width::UnicodeWidthChar::width(c).unwrap_or(0)
}

/// The text with its middle left out, so that it fits.
fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(1);
    let fit = |chars: &mut dyn Iterator<Item = char>, room: usize| {
        let mut used = 0;
        let fits = |c: &char| {
            used += char_width(*c);
            used <= room
        };
        chars.take_while(fits).collect::<Vec<char>>()
    };
    let first = fit(&mut text.chars(), room / 2);
    let rest = room - first.iter().copied().map(char_width).sum::<usize>();
    let last = fit(&mut text.chars().rev(), rest);
    first.into_iter().chain(['…']).chain(last.into_iter().rev()).collect()
}

fn place(project: &Project) -> String {
    match (&project.root, project.project_sha256) {
        (Some(root), _) => plain(root),
        (None, Some(digest)) => format!("(unknown path, {}…)", &digest.to_string()[..12]),
        (None, None) => "(no directory)".to_owned(),
    }
}

/// A text without what could command a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn bodies(project: &Project) -> String {
    let present = project.sums.bodies_present.map_or_else(|| "?".to_owned(), |present| present.to_string());
    format!("{present}/{}", project.sums.pairs)
}

fn last(project: &Project) -> String {
    project.sums.last_completed_at.map_or_else(|| "never".to_owned(), moment)
}

fn current(project: &Project) -> String {
    let host = project.current.as_ref().map_or("", |current| current.host.name());
    if project.ambiguous { "ambiguous".to_owned() } else { host.to_owned() }
}

fn own_threads(project: &Project) -> usize {
    project.threads.iter().filter(|thread| !thread.sub_agent).count()
}

/// A moment where this machine is.
fn moment(at: i64) -> String {
    let Ok(moment) = Timestamp::from_millisecond(at) else { return "?".to_owned() };
    TimeZone::system().to_datetime(moment).strftime("%Y-%m-%d %H:%M").to_string()
}

/// What stands below the table.
fn notes(report: &Report, out: &mut String) {
    let totals = &report.totals;
    // Writing into a string does not fail.
    let mut line = |text: String| {
        let _written = writeln!(out, "{text}");
    };
    let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    line(format!(
        "{}, {} with {}; {} in {}{}.",
        plural(totals.projects, "project"),
        plural(totals.threads, "thread"),
        plural(totals.pairs, "pair"),
        size(totals.bytes),
        plural(totals.rows, "row"),
        if totals.unreadable_rows > 0 { format!(", {} unreadable", totals.unreadable_rows) } else { String::new() },
    ));
    for project in &report.projects {
        for (name, count) in &project.rows.unknown_types {
            line(format!("unknown type: {} in {}", plural(*count, &format!("row {}", plain(name))), place(project)));
        }
        for thread in project.threads.iter().flat_map(|thread| std::iter::once(thread).chain(&thread.children)) {
            unreadable_rows(thread).for_each(&mut line);
        }
    }
    for file in &report.files_of_no_thread {
        line(format!("of no thread: {}", plain(&file.path)));
    }
    for unreadable in &report.unreadable {
        line(format!("not read: {}: {}", plain(&unreadable.path), plain(&unreadable.reason)));
    }
    if !report.complete {
        line("NOT COMPLETE: this is what was read until it was ended.".to_owned());
    }
}

fn unreadable_rows(thread: &Thread) -> impl Iterator<Item = String> {
    thread.files.iter().filter(|file| file.unreadable_rows > 0).map(|file| {
        let what = [
            (file.unreadable.broken, "broken"),
            (file.unreadable.spliced, "cut before another row"),
            (file.unreadable.holes, "holes"),
        ];
        let what: Vec<_> =
            what.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
        format!("unreadable rows: {} in {}", what.join(", "), plain(&file.path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_in_its_middle() {
        assert_eq!(cut("/home/me/project", 16), "/home/me/project");
        assert_eq!(cut("/home/me/project", 9), "/hom…ject");
        assert_eq!(cut("日本語の文章", 6), "日…章");
        assert_eq!(cut("日本語の文章", 7), "日…文章");
        assert_eq!(cut("abc", 1), "…");
    }

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(plain("/a\u{1b}[31m\nb"), "/a\u{fffd}[31m\u{fffd}b");
    }
}
