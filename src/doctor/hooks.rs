//! The hooks in the agents' settings: whether every event is registered, and what its command would run.

use std::path::{Path, PathBuf};

use super::program::{self, Which};
use super::{Check, Finding, Surroundings, quoted};
use crate::chain::Host;
use crate::hooks::install::codex::{Config, SWITCH, Switch, Version};
use crate::hooks::install::entries::{self, Registered};
use crate::hooks::install::file::SettingsFile;
use crate::hooks::install::{events, is_in_build_directory};

/// Looks at the settings of both agents.
pub fn check(around: &Surroundings) -> Vec<Finding> {
    [Host::Claude, Host::Codex].into_iter().flat_map(|host| Agent::look(around, host).findings()).collect()
}

/// An agent with what its settings say of hooks.
struct Agent<'s> {
    around: &'s Surroundings,
    host: Host,
    /// Our hooks, and the file that each is registered in.
    hooks: Vec<(PathBuf, Registered)>,
    /// One of its files is there.
    has_settings: bool,
    /// One of them cannot be understood: it may well register hooks.
    is_unclear: bool,
    findings: Vec<Finding>,
}

impl<'s> Agent<'s> {
    fn look(around: &'s Surroundings, host: Host) -> Self {
        let mut agent =
            Self { around, host, hooks: Vec::new(), has_settings: false, is_unclear: false, findings: Vec::new() };
        for path in settings(around, host) {
            match SettingsFile::read(&path) {
                Ok(file) => agent.take(file),
                Err(error) => agent.unclear(error.to_string(), &path),
            }
        }
        agent
    }

    /// Takes in what a file says.
    fn take(&mut self, file: SettingsFile) {
        let path = file.path.clone();
        match entries::registered(file.text(), self.host) {
            Ok(hooks) => self.hooks.extend(hooks.into_iter().map(|hook| (path.clone(), hook))),
            Err(why) => self.unclear(format!("{} cannot be understood: {why}", path.display()), &path),
        }
        if self.host == Host::Claude && entries::are_disabled(file.text()) {
            let what = format!("{} has disableAllHooks: no hook runs", path.display());
            self.problem(what, "remove disableAllHooks", &path);
        }
        let names: Vec<&str> = events(self.host).map(|(event, _)| event).collect();
        if let Ok(Some((event, hook))) = entries::older_tool(file.text(), &names) {
            self.older_tool(&path, event, hook);
        }
        self.has_settings |= file.is_there();
    }

    fn findings(mut self) -> Vec<Finding> {
        let home = home(self.around, self.host);
        if !self.has_settings && !self.is_unclear && !home.is_dir() {
            let what = format!("{} has no home here, so there is nothing to register", self.host.title());
            return vec![Finding::note(Check::Hooks, what).of(self.host).about(home)];
        }
        self.look_at_events();
        self.look_at_programs();
        if self.host == Host::Codex {
            self.look_at_config();
        }
        if self.findings.iter().all(|finding| finding.advice.is_none()) {
            self.say_fine();
        }
        self.findings
    }

    /// Every event has to be registered, and an agent has to wait for its hook.
    fn look_at_events(&mut self) {
        let title = self.host.title();
        let registered = |(event, word): (&'static str, &'static str)| {
            self.hooks.iter().filter(move |(_, hook)| (&hook.event[..], &hook.word[..]) == (event, word))
        };
        let is_missing = |event: &(&'static str, &'static str)| registered(*event).next().is_none();
        let missing: Vec<&str> = events(self.host).filter(is_missing).map(|(event, _)| event).collect();
        let again: Vec<(&str, PathBuf)> = events(self.host)
            .flat_map(|event| registered(event).skip(1).map(move |(path, _)| (event.0, path.clone())))
            .collect();
        if !missing.is_empty() && !self.is_unclear {
            let what = format!("{title} does not call throughline at {}", missing.join(", "));
            self.problem(what, &self.install(), &home(self.around, self.host));
        }
        for (event, path) in again {
            let what = format!("{} calls throughline once more at {event}, which does no harm", path.display());
            self.findings.push(Finding::note(Check::Hooks, what).of(self.host).about(path));
        }
        for (path, Registered { event, .. }) in self.hooks.clone().into_iter().filter(|(_, hook)| hook.is_async) {
            // An agent that ends kills the hooks that it does not wait for.
            let what = format!("{title} does not wait for the hook at {event}: what was said last can be lost");
            self.problem(what, &self.install(), &path);
        }
    }

    /// What the registered commands would run.
    fn look_at_programs(&mut self) {
        let mut programs: Vec<(PathBuf, String)> = Vec::new();
        for (path, hook) in &self.hooks {
            if programs.iter().all(|(_, program)| *program != hook.program) {
                programs.push((path.clone(), hook.program.clone()));
            }
        }
        for (settings, program) in programs {
            let title = self.host.title();
            let Some(path) = self.find(&program) else {
                let what =
                    format!("{title} calls {program}, which is not there (registered in {})", settings.display());
                self.problem(what, &self.install(), &settings);
                continue;
            };
            let name = path.display();
            match Which::at(&path, &self.around.program) {
                Which::Nothing => {
                    let what = format!("{title} calls {name}, which is gone or cannot be run");
                    self.problem(what, &self.install(), &path);
                }
                Which::Script => {
                    let what = format!(
                        "{title} calls {name}, {}: it does not know these hooks",
                        program::named(Which::Script)
                    );
                    self.problem(what, &self.install(), &path);
                }
                _ if is_in_build_directory(&path) => {
                    let what = format!("{title} calls {name} in a build directory: the hooks end when that is cleaned");
                    self.problem(what, "cargo install --path . && throughline install", &path);
                }
                Which::Other => {
                    let what = format!("{title} calls {name}, {}", program::named(Which::Other));
                    let note = Finding::note(Check::Hooks, what).of(self.host).about(path);
                    self.findings.push(note);
                }
                Which::This => {}
            }
        }
    }

    /// Where the program of a command is; of a bare name the first on PATH.
    fn find(&self, program: &str) -> Option<PathBuf> {
        let path = Path::new(program);
        if path.is_absolute() {
            return Some(path.to_owned());
        }
        let on_path = self.around.search_path.iter().map(|folder| folder.join(program));
        let mut runnable = on_path.filter(|path| Which::at(path, &self.around.program) != Which::Nothing);
        if program.contains('/') { None } else { runnable.next() }
    }

    /// What Codex needs beside the entries: that hooks are on, and that the user has trusted these.
    fn look_at_config(&mut self) {
        let path = self.around.places.codex.join("config.toml");
        let file = match SettingsFile::read(&path) {
            Ok(file) => file,
            Err(error) => return self.unclear(error.to_string(), &path),
        };
        let config = match Config::parse(file.text()) {
            Ok(config) => config,
            Err(why) => return self.unclear(format!("{} cannot be understood: {why}", path.display()), &path),
        };
        let names: Vec<&str> = events(Host::Codex).map(|(event, _)| event).collect();
        if let Some((event, hook)) = config.older_tool(&names) {
            self.older_tool(&path, event, hook);
        }
        if self.hooks.is_empty() {
            return;
        }
        let version = Version::installed();
        match (config.switch(), version) {
            (Switch::Off, _) => {
                let what = format!("{} has the hooks switched off in [features]", path.display());
                self.problem(what, "switch them on there", &path);
            }
            (Switch::Unset, Some(version)) if version.needs_switch() => {
                let what = format!("Codex {version} runs no hooks without {SWITCH} = true below [features]");
                self.problem(what, &self.install(), &path);
            }
            (_, Some(version)) if version < Version::ALL_EVENTS => {
                let what = format!("Codex {version} does not know all of these hooks");
                self.problem(what, &format!("update Codex to {} or later", Version::ALL_EVENTS), &path);
            }
            _ => {}
        }
        let is_trusted = |(path, hook): &(PathBuf, Registered)| config.trusts(path, &hook.event, hook.place);
        let untrusted: Vec<&str> =
            self.hooks.iter().filter(|hook| !is_trusted(hook)).map(|(_, hook)| &hook.event[..]).collect();
        if !untrusted.is_empty() && version.is_some_and(|version| version >= Version::ASKS_FOR_TRUST) {
            let what = format!("Codex runs the hooks at {} only when you have trusted them", untrusted.join(", "));
            self.problem(what, "start codex: it asks", &path);
        }
    }

    fn say_fine(&mut self) {
        let mut events: Vec<&str> = self.hooks.iter().map(|(_, hook)| &hook.event[..]).collect();
        events.dedup();
        let what = format!("{} calls throughline at {}", self.host.title(), events.join(", "));
        let fine = Finding::fine(Check::Hooks, what).of(self.host);
        let path = self.hooks.first().map(|(path, _)| path.clone());
        self.findings.push(Finding { path, ..fine });
        let user = settings(self.around, self.host).into_iter().next();
        if self.hooks.iter().all(|(path, _)| Some(path) != user.as_ref()) {
            let what = format!("{} does so in this project only", self.host.title());
            self.findings.push(Finding::note(Check::Hooks, what).of(self.host));
        }
    }

    fn older_tool(&mut self, path: &Path, event: &str, hook: &str) {
        let what = format!("{} has the hook `throughline {hook}` of the older Node tool for {event}", path.display());
        let advice = format!("remove it from {}: two writers follow different rules about turns", quoted(path));
        self.problem(what, &advice, path);
    }

    fn unclear(&mut self, what: String, path: &Path) {
        self.is_unclear = true;
        self.problem(what, "repair it", path);
    }

    fn problem(&mut self, what: String, advice: &str, path: &Path) {
        self.findings.push(Finding::problem(Check::Hooks, what, advice).of(self.host).about(path));
    }

    fn install(&self) -> String {
        format!("throughline install --{}", self.host.name())
    }
}

fn home(around: &Surroundings, host: Host) -> PathBuf {
    match host {
        Host::Claude => around.places.claude.clone(),
        Host::Codex => around.places.codex.clone(),
    }
}

/// The files that an agent reads here: the user's first.
fn settings(around: &Surroundings, host: Host) -> Vec<PathBuf> {
    let home = home(around, host);
    match host {
        Host::Codex => vec![home.join("hooks.json")],
        Host::Claude => {
            let user = home.join("settings.json");
            let project = around.places.project_settings(&around.directory);
            let of_project = [project.with_file_name("settings.local.json"), project];
            let others: Vec<PathBuf> = of_project.into_iter().filter(|path| *path != user).collect();
            [vec![user], others].concat()
        }
    }
}
