//! What stands in front of a rollout's turns: who it is, and what it took over from another one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};

use super::rows::json;
use super::{Base, Origin, Plan, Writer};
use crate::units::stamp;

impl<W: Write> Writer<'_, W> {
    /// The first row, and behind it the history that a fork copied.
    pub(super) fn header(&mut self, plan: &Plan) -> io::Result<()> {
        self.session_meta(plan)?;
        match &plan.origin {
            Origin::Copy(base) => self.copied(base),
            _ => Ok(()),
        }
    }

    fn session_meta(&mut self, plan: &Plan) -> io::Result<()> {
        let (thread, cwd, pool) = (self.state.thread.clone(), json(&self.shape.cwd), self.pool);
        let room = (plan.bytes / 2).clamp(500, 20_000);
        let bytes = self.random.magnitude(500, room);
        let instructions = pool.prose(self.random, bytes);
        let session = match &plan.origin {
            Origin::Agent(parent) => parent,
            _ => &thread,
        };
        let session = if self.paginated() { format!(r#""session_id":"{session}","#) } else { String::new() };
        let history = if self.paginated() { r#","history_mode":"paginated""# } else { "" };
        let Relations { of, source, base } = Relations::of(&plan.origin);
        let at = stamp(self.state.now);
        self.row(
            "session_meta",
            format_args!(
                r#"{session}"id":"{thread}",{of}"timestamp":"{at}","cwd":{cwd},"originator":"codex-tui","cli_version":"0.150.0","source":{source},"model_provider":"openai","base_instructions":{{"text":"{instructions}"}}{history}{base},"git":{{"commit_hash":"0123456789abcdef0123456789abcdef01234567","branch":"main"}}"#
            ),
        )
    }

    /// The rows of the base, its own first row among them, stamped anew as Codex does.
    fn copied(&mut self, base: &Base) -> io::Result<()> {
        let mut rows = BufReader::new(File::open(&base.path)?.take(base.end.bytes));
        let mut row = Vec::new();
        while rows.read_until(b'\n', &mut row)? > 0 {
            let behind = row.strip_prefix(ROW_START).and_then(|rest| rest.get(STAMP_BYTES..));
            let behind = behind.ok_or_else(|| io::Error::other("a row does not begin with its time"))?;
            self.out.write_all(ROW_START)?;
            self.out.write_all(stamp(self.state.now).as_bytes())?;
            self.out.write_all(behind)?;
            row.clear();
        }
        Ok(())
    }
}

const ROW_START: &[u8] = br#"{"timestamp":""#;
const STAMP_BYTES: usize = "2026-07-01T12:00:00.000Z".len();

/// The parts of a first row that say where the rollout comes from.
struct Relations {
    /// Behind the id.
    of: String,
    source: String,
    /// Behind the mode of the history.
    base: String,
}

impl Relations {
    fn of(origin: &Origin) -> Self {
        let persons = r#""cli","thread_source":"user""#.to_owned();
        let (of, source, base) = match origin {
            Origin::Person => (String::new(), persons, String::new()),
            Origin::Agent(parent) => (
                format!(r#""parent_thread_id":"{parent}","#),
                format!(
                    r#"{{"subagent":{{"thread_spawn":{{"parent_thread_id":"{parent}","depth":1}}}}}},"thread_source":"subagent""#
                ),
                String::new(),
            ),
            Origin::Copy(base) => (format!(r#""forked_from_id":"{}","#, base.thread), persons, String::new()),
            Origin::Fork(base) => (
                format!(r#""forked_from_id":"{}","forked_from_ordinal_exclusive":{},"#, base.thread, base.end.ordinal),
                persons,
                history_base(base),
            ),
            Origin::Revert(base) => (String::new(), persons, history_base(base)),
        };
        Self { of, source, base }
    }
}

fn history_base(base: &Base) -> String {
    format!(
        r#","history_base":{{"thread_id":"{}","end_ordinal_exclusive":{},"end_byte_offset":{}}}"#,
        base.rollout, base.end.ordinal, base.end.bytes
    )
}
