//! Whether the session has shown its name, looked at before each tool and at the end of each turn.
//!
//! Something is refused only where a reply can be read that should have shown the name and does not. Without evidence, and
//! where the check itself fails, all goes on as if there was no name: the reason goes to stderr and into the diagnostics, and
//! the name stays pending.

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use serde_json::{Value, json};
use throughline_parsers::claude::{Reason, Verdict, block};
use throughline_parsers::text::Digest;

use super::transcript_path;
use crate::clock::now_ms;
use crate::hooks::Payload;
use crate::receipts::SessionId;
use crate::session_name::diagnostics::{Event, Log, Outcome, Trouble};
use crate::session_name::state::{self, Place, State};
use crate::session_name::{own_command, verdict};
use crate::stores::Stores;

/// What the host and the user are told; nothing where all is well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The answer that refuses something, one line of JSON for stdout.
    pub refusal: Option<String>,
    /// Why nothing is refused though a name may not have been shown, a word for stderr.
    pub reason: Option<&'static str>,
}

/// A check of one session's name.
struct Check<'c> {
    event: Event,
    stores: &'c Stores,
    payload: &'c Payload,
    program: &'c Path,
    session: SessionId,
    log: &'c Log,
}

/// Looks before a tool is used. `program` is what the agent calls to ask for the name anew.
pub fn pre_tool_use(stores: &Stores, payload: Option<&Payload>, program: &Path) -> Told {
    guarded(Event::PreToolUse, stores, payload, program, |check| check.before_tool())
}

/// Looks at the end of a turn, after that has been stored. Only where it `may_refuse` it does; and where it may not, it says
/// nothing of sessions that have no name.
pub fn stop(stores: &Stores, payload: &Payload, program: &Path, may_refuse: bool) -> Told {
    guarded(Event::Stop, stores, Some(payload), program, |check| check.at_stop(may_refuse))
}

/// Whatever goes wrong within allows, and is logged.
fn guarded(
    event: Event,
    stores: &Stores,
    payload: Option<&Payload>,
    program: &Path,
    look: impl FnOnce(&Check<'_>) -> Result<Told, Trouble>,
) -> Told {
    if payload.is_some_and(|payload| payload.text("agent_id").is_some()) {
        // A sub-agent's: the session's name is not its to show.
        return Told::default();
    }
    let log = &Log::below(&stores.state_home);
    let session = payload.and_then(|payload| payload.text("session_id")).and_then(SessionId::new);
    let digest = session.as_ref().map(|session| Digest::of(session.as_str()));
    let looked = panic::catch_unwind(AssertUnwindSafe(|| {
        let (payload, session) = payload.zip(session).ok_or(Trouble::Payload)?;
        look(&Check { event, stores, payload, program, session, log })
    }));
    match looked.unwrap_or(Err(Trouble::Internal)) {
        Ok(told) => told,
        Err(trouble) => let_through(log, event, digest, Outcome::Failed(trouble)),
    }
}

/// It goes on, and why is told.
fn let_through(log: &Log, event: Event, session: Option<Digest>, outcome: Outcome) -> Told {
    log.record(event, session, outcome);
    Told { refusal: None, reason: Some(outcome.reason()) }
}

impl Check<'_> {
    fn before_tool(&self) -> Result<Told, Trouble> {
        let Some(state) = self.place().load()?.filter(State::is_pending) else { return Ok(Told::default()) };
        let is_bash = self.payload.text("tool_name") == Some("Bash");
        if is_bash && self.payload.command().is_some_and(own_command::is_own) {
            return Ok(Told::default());
        }
        match self.verdict(&state.name) {
            Verdict::Present => self.see(&state.name),
            Verdict::Unavailable(reason) => Ok(self.unavailable(reason)),
            Verdict::Absent => Ok(self.refuse(&json!({"hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": self.instruction(&state.name),
            }}))),
        }
    }

    fn at_stop(&self, may_refuse: bool) -> Result<Told, Trouble> {
        let Some(state) = self.place().load()? else {
            if may_refuse {
                self.log.observe(false, Verdict::Absent);
            }
            return Ok(Told::default());
        };
        if state.was_refused() && self.payload.flag("stop_hook_active") == Some(false) {
            self.change(State::begin_turn)?;
        }
        if !state.is_pending() {
            self.log.observe(false, Verdict::Present);
            return Ok(Told::default());
        }
        let verdict = self.verdict(&state.name);
        self.log.observe(true, verdict);
        match verdict {
            Verdict::Present => self.see(&state.name),
            Verdict::Unavailable(reason) => Ok(self.unavailable(reason)),
            Verdict::Absent if !may_refuse => Ok(Told::default()),
            Verdict::Absent if self.change(State::refuse)? == Some(true) => {
                Ok(self.refuse(&json!({"decision": "block", "reason": self.instruction(&state.name)})))
            }
            Verdict::Absent => Ok(let_through(self.log, self.event, Some(self.digest()), Outcome::LetGo)),
        }
    }

    fn verdict(&self, name: &str) -> Verdict {
        let path = transcript_path(self.stores, self.payload);
        path.map_or(Verdict::Unavailable(Reason::MissingTranscript), |path| {
            verdict(&path, name, self.stores.cache.as_ref())
        })
    }

    fn see(&self, name: &str) -> Result<Told, Trouble> {
        self.change(|state| state.see(name, now_ms()))?;
        Ok(Told::default())
    }

    fn unavailable(&self, reason: Reason) -> Told {
        let_through(self.log, self.event, Some(self.digest()), Outcome::Unavailable(reason))
    }

    fn refuse(&self, refusal: &Value) -> Told {
        self.log.record(self.event, Some(self.digest()), Outcome::Refused);
        Told { refusal: Some(refusal.to_string()), reason: None }
    }

    /// What the agent has to do.
    fn instruction(&self, name: &str) -> String {
        let (block, command) = (block(name), own_command::retry(self.program));
        format!(
            "The name of this session was not shown. Run this command by itself:\n\n{command}\n\nThen begin your next \
             reply with exactly this block, and go on below it:\n\n{block}"
        )
    }

    /// Changes the state; `None` where it is gone.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> Result<Option<T>, Trouble> {
        Ok(self.place().change(|state| state.as_mut().map(change))?)
    }

    fn place(&self) -> Place {
        Place::of(&self.stores.state_home, &self.session)
    }

    fn digest(&self) -> Digest {
        Digest::of(self.session.as_str())
    }
}

impl From<state::Error> for Trouble {
    fn from(_: state::Error) -> Self {
        Self::State
    }
}
