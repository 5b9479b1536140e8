//! Registering this program's hooks in the agents' settings, and taking them out again.
//!
//! Everything is read and thought through before the first file is written: whatever stands against it leaves all of them
//! as they are. [`entries`] and [`codex`] say what a document becomes, [`mod@file`] puts it in place.

pub mod codex;
pub mod command;
pub mod entries;
pub mod file;
pub mod json;

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use codex::{Config, Switch, Version};
use entries::{Changed, Wanted};
use file::SettingsFile;

use crate::chain::Host;
use crate::stores::Stores;

/// The hooks of each agent: its name of the event, and ours.
const EVENTS: [(Host, &[Hook]); 2] = [
    (Host::Claude, &[("Stop", "stop")]),
    (Host::Codex, &[("Stop", "stop"), ("UserPromptSubmit", "user-prompt-submit"), ("PostToolUse", "post-tool-use")]),
];

/// The hook that is there for the check of session names alone.
const OF_SESSION_NAME: (Host, Hook) = (Host::Claude, ("PreToolUse", "pre-tool-use"));

/// An agent's name of an event, and ours.
type Hook = (&'static str, &'static str);

/// Where the settings are.
#[derive(Clone, Debug)]
pub struct Places {
    /// The user's home.
    pub home: PathBuf,
    /// `$CLAUDE_CONFIG_DIR`, else `.claude` in the home.
    pub claude: PathBuf,
    /// `$CODEX_HOME`, else `.codex` in the home.
    pub codex: PathBuf,
}

impl Places {
    /// The places that the environment names; `None` when the user has no home.
    pub fn from_env() -> Option<Self> {
        let Stores { home, codex_home: codex, .. } = Stores::from_env()?;
        let claude = env::var_os("CLAUDE_CONFIG_DIR").filter(|value| !value.is_empty());
        Some(Self { claude: claude.map_or_else(|| home.join(".claude"), PathBuf::from), codex, home })
    }

    /// The settings of the project around a directory: in the nearest folder upwards, below the home, that has a `.claude`
    /// or a `.git`, else in the directory itself.
    pub fn project_settings(&self, directory: &Path) -> PathBuf {
        let below_home = directory.ancestors().take_while(|folder| *folder != self.home);
        let mut marked = below_home.filter(|folder| [".claude", ".git"].iter().any(|mark| folder.join(mark).exists()));
        marked.next().unwrap_or(directory).join(".claude/settings.json")
    }
}

/// Whose hooks are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those of every agent whose home exists.
    Existing,
    /// Those of these agents, whose homes are made if need be.
    Named {
        /// Claude Code's.
        claude: bool,
        /// Codex'.
        codex: bool,
    },
    /// Claude Code's in the project around this directory.
    Project(PathBuf),
}

/// What to do, and how.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The program to register.
    pub program: &'a Path,
    /// Whose hooks.
    pub which: Which,
    /// Only tell.
    pub dry_run: bool,
    /// Even beside the hooks of the older tool.
    pub force: bool,
    /// With the check of session names.
    pub session_name: bool,
}

/// What was done, or would be.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The files that were looked at.
    pub files: Vec<FileReport>,
    /// What is good to know.
    pub notes: Vec<String>,
    /// What keeps the hooks from doing their work, or may.
    pub warnings: Vec<String>,
}

/// What was done to one file.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// Whose settings.
    pub host: Host,
    /// Where the agent looks for it.
    pub path: PathBuf,
    /// The changes, one line each; none when it was as it should be.
    pub changes: Vec<String>,
    /// Where the file as it was before is kept.
    pub backup: Option<PathBuf>,
}

/// Why nothing was changed; but what [`Error::Io`] and [`Error::Changed`] tell may come when another file was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No agent was named and none is there.
    #[error("neither {} nor {} is there; name an agent with --claude or --codex", .claude.display(), .codex.display())]
    NoAgent {
        /// Claude Code's home.
        claude: PathBuf,
        /// Codex' home.
        codex: PathBuf,
    },
    /// The path of this program cannot be written into settings.
    #[error("the path of this program is no text: {}", .0.display())]
    Program(PathBuf),
    /// A file does not parse, or is not what it should be.
    #[error("{} was left as it is: {why}", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Hooks of the older tool are registered for the same event.
    #[error(
        "{} has the hook `throughline {hook}` of the older tool for {event}: two writers with different rules about turns. \
         Remove it first, or install beside it with --force", .path.display()
    )]
    OlderTool {
        /// The file.
        path: PathBuf,
        /// The event.
        event: String,
        /// The older tool's command.
        hook: &'static str,
    },
    /// The system refused.
    #[error("{} cannot be used: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else wrote to the file meanwhile.
    #[error("{} was changed by another program just now; try again", .path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// A file with what is to become of it.
struct Planned {
    host: Host,
    file: SettingsFile,
    changed: Changed,
}

/// Registers the hooks.
///
/// # Errors
///
/// See [`Error`].
pub fn install(places: &Places, request: &Request<'_>) -> Result<Report, Error> {
    let (mut planned, mut report) = (Vec::new(), Report::default());
    let settings = settings(places, &request.which)?;
    if request.session_name && settings.iter().all(|(host, _)| *host != Host::Claude) {
        report.notes.push("Only Claude Code's hooks look at session names.".to_owned());
    }
    for (host, path) in settings {
        let file = SettingsFile::read(&path)?;
        let unusable = |why| Error::Unusable { path: file.path.clone(), why };
        if !request.force {
            refuse_older_tool(places, request, host, &file)?;
        }
        let wanted = wanted(host, request)?;
        let unwanted: &[Hook] = if request.session_name { &[] } else { &[OF_SESSION_NAME.1] };
        let changed = entries::register(file.text(), host, &wanted, unwanted).map_err(unusable)?;
        if host == Host::Claude && entries::are_disabled(file.text()) {
            report
                .warnings
                .push(format!("{} has disableAllHooks: no hook runs until that is gone", file.path.display()));
        }
        if host == Host::Codex {
            planned.extend(plan_switch(places, &mut report)?);
            if !changed.lines.is_empty() {
                report.notes.push(
                    "Codex runs new and changed hooks only after you have trusted them: it asks when it starts next."
                        .to_owned(),
                );
            }
        }
        planned.push(Planned { host, file, changed });
    }
    if let (Which::Project(_), true) = (&request.which, planned.iter().any(|plan| !plan.changed.lines.is_empty())) {
        report.notes.push("The path in it is this machine's: think before you commit the file.".to_owned());
    }
    if is_in_build_directory(request.program) {
        let program = request.program.display();
        report.warnings.push(format!(
            "{program} lies in a build directory: the hooks end when that is cleaned (install it: cargo install --path .)"
        ));
    }
    carry_out(planned, request.dry_run, report)
}

/// Takes the hooks out.
///
/// # Errors
///
/// See [`Error`].
pub fn uninstall(places: &Places, request: &Request<'_>) -> Result<Report, Error> {
    let (mut planned, mut report) = (Vec::new(), Report::default());
    let which = match &request.which {
        // Where an agent has no home there is nothing to take out, and nothing wrong with that.
        Which::Existing => &Which::Named { claude: true, codex: true },
        which => which,
    };
    for (host, path) in settings(places, which)? {
        let file = SettingsFile::read(&path)?;
        let changed = entries::unregister(file.text(), host);
        let changed = changed.map_err(|why| Error::Unusable { path: file.path.clone(), why })?;
        if host == Host::Codex && !changed.lines.is_empty() {
            report.notes.push("Codex' config.toml is left as it is: other hooks may need what it says.".to_owned());
            if changed.text.contains("\"command\"") {
                // It remembers by position what was trusted.
                report.notes.push("Codex may ask you to trust the hooks again that stood behind these.".to_owned());
            }
        }
        planned.push(Planned { host, file, changed });
    }
    carry_out(planned, request.dry_run, report)
}

/// The settings files in question.
fn settings(places: &Places, which: &Which) -> Result<Vec<(Host, PathBuf)>, Error> {
    let (claude, codex) = match which {
        Which::Project(directory) => return Ok(vec![(Host::Claude, places.project_settings(directory))]),
        Which::Named { claude, codex } => (*claude, *codex),
        Which::Existing => (places.claude.is_dir(), places.codex.is_dir()),
    };
    if !claude && !codex {
        return Err(Error::NoAgent { claude: places.claude.clone(), codex: places.codex.clone() });
    }
    let all = [
        (claude, Host::Claude, places.claude.join("settings.json")),
        (codex, Host::Codex, places.codex.join("hooks.json")),
    ];
    Ok(all.into_iter().filter(|(meant, ..)| *meant).map(|(_, host, path)| (host, path)).collect())
}

/// The hooks of an agent that are always registered: its name of each event, and ours.
pub fn events(host: Host) -> impl Iterator<Item = Hook> {
    hooks(host, false)
}

fn hooks(host: Host, session_name: bool) -> impl Iterator<Item = Hook> {
    let always = EVENTS.into_iter().flat_map(|(of, hooks)| hooks.iter().map(move |hook| (of, *hook)));
    let all = always.chain(session_name.then_some(OF_SESSION_NAME));
    all.filter(move |(of, _)| *of == host).map(|(_, hook)| hook)
}

fn wanted(host: Host, request: &Request<'_>) -> Result<Vec<Wanted>, Error> {
    let wanted = hooks(host, request.session_name).map(|(event, word)| {
        // The end of a turn is always looked at, and refused only so.
        let refuses = request.session_name && (host, word) == (Host::Claude, "stop");
        let program = request.program;
        let command = command::ours(program, host, word, refuses).ok_or_else(|| Error::Program(program.to_owned()))?;
        Ok(Wanted { event, word, command })
    });
    wanted.collect()
}

/// All settings that an agent reads apply at once, so the older tool is looked for in the others too.
fn refuse_older_tool(places: &Places, request: &Request<'_>, host: Host, file: &SettingsFile) -> Result<(), Error> {
    let events: Vec<&str> = hooks(host, request.session_name).map(|(event, _)| event).collect();
    let refuse = |path: &Path, found: Option<(&str, &'static str)>| match found {
        Some((event, hook)) => Err(Error::OlderTool { path: path.to_owned(), event: event.to_owned(), hook }),
        None => Ok(()),
    };
    let found = entries::older_tool(file.text(), &events);
    refuse(&file.path, found.map_err(|why| Error::Unusable { path: file.path.clone(), why })?)?;
    if let Which::Project(_) = request.which {
        let others = [file.path.with_file_name("settings.local.json"), places.claude.join("settings.json")];
        for other in others.iter().filter_map(|path| SettingsFile::read(path).ok()) {
            // One that does not parse registers nothing.
            refuse(&other.path, entries::older_tool(other.text(), &events).unwrap_or_default())?;
        }
    }
    if host == Host::Codex {
        let config = config(places)?;
        refuse(&config.path, parsed(&config)?.older_tool(&events))?;
    }
    Ok(())
}

fn config(places: &Places) -> Result<SettingsFile, Error> {
    SettingsFile::read(&places.codex.join("config.toml"))
}

fn parsed(file: &SettingsFile) -> Result<Config<'_>, Error> {
    Config::parse(file.text()).map_err(|why| Error::Unusable { path: file.path.clone(), why })
}

/// Sees to it that Codex runs hooks at all, as far as its version needs that.
fn plan_switch(places: &Places, report: &mut Report) -> Result<Option<Planned>, Error> {
    let file = config(places)?;
    let path = file.path.clone();
    let config = parsed(&file)?;
    let version = Version::installed();
    let switch = config.switch();
    match (switch, version) {
        (Switch::Off, _) => {
            report.warnings.push(format!("{} has the hooks switched off in [features]", path.display()));
        }
        (_, None) => report.notes.push(format!(
            "There is no codex on PATH that tells its version. Versions before {} need {} = true below [features] in {}.",
            Version::SWITCHED_ON,
            codex::SWITCH,
            path.display()
        )),
        (_, Some(version)) if version < Version::ALL_EVENTS => report.warnings.push(format!(
            "Codex {version} does not know all of these hooks; {} does",
            Version::ALL_EVENTS
        )),
        _ => {}
    }
    if switch != Switch::Unset || !version.is_some_and(Version::needs_switch) {
        return Ok(None);
    }
    let text = config.switched_on().map_err(|why| Error::Unusable { path, why })?;
    let changed = Changed { text, lines: vec![format!("[features] {} = true", codex::SWITCH)] };
    Ok(Some(Planned { host: Host::Codex, file, changed }))
}

/// Whether a program lies where a build puts it: cargo marks its build directories, whatever their names.
pub fn is_in_build_directory(program: &Path) -> bool {
    let named = program.components().any(|part| part.as_os_str() == "target");
    named || program.ancestors().skip(1).take(3).any(|folder| folder.join(".rustc_info.json").exists())
}

fn carry_out(planned: Vec<Planned>, dry_run: bool, mut report: Report) -> Result<Report, Error> {
    for Planned { host, file, changed: Changed { text, lines } } in planned {
        let writes = !lines.is_empty() && !dry_run;
        let backup = if writes { file.replace(&text)? } else { None };
        report.files.push(FileReport { host, path: file.path, changes: lines, backup });
    }
    Ok(report)
}
