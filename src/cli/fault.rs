//! How the observer commands end: one line to stdout, or one fixed line to stderr, whatever happens.
//!
//! Panics, a stdout that is closed or full, and SIGBUS (a mapped file that is cut short while it is read) become the
//! contract's internal error too.

use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::{self, ExitCode};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde::Serialize;
use throughline::{Error, Kind};

/// The fixed error lines of one command.
#[derive(Debug)]
pub struct Contract {
    /// The schema of its answers.
    pub schema: &'static str,
    /// What its error codes begin with.
    pub code: &'static str,
    /// The arguments are wrong.
    pub args: &'static str,
    /// [`Kind::Input`]
    pub input: &'static str,
    /// [`Kind::DbSchema`]
    pub db_schema: &'static str,
    /// [`Kind::DbProject`]
    pub db_project: &'static str,
    /// [`Kind::DbIo`]
    pub db_io: &'static str,
    /// [`Kind::Cancelled`]
    pub cancelled: &'static str,
    /// [`Kind::Internal`]
    pub internal: &'static str,
}

/// Why a command did not answer. What lay behind it is not told: it could hold a path, an id or a body.
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// The arguments are wrong.
    Args,
    /// The library said so.
    Kind(Kind),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Kind(error.kind())
    }
}

/// Runs a command and writes its answer, or its error.
pub fn answer(contract: &Contract, run: impl FnOnce() -> Result<String, Failure>) -> ExitCode {
    end_on_sigbus_with(contract.line(Failure::Kind(Kind::Internal)));
    // The text of a panic could hold anything.
    panic::set_hook(Box::new(|_| {}));
    let internal = Failure::Kind(Kind::Internal);
    let answer = panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(internal));
    while ENDING.swap(true, Ordering::SeqCst) {
        // Another thread is ending the process.
        thread::park();
    }
    match answer.and_then(|line| write(line).map_err(|_| internal)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // There is no better place to say that even this failed.
            drop(io::stderr().write_all(contract.line(failure).as_bytes()));
            ExitCode::FAILURE
        }
    }
}

/// Ends the process with this failure, unless it is about to end anyway: for what cannot wait until the command has run.
pub fn end_now(contract: &Contract, failure: Failure) {
    if !ENDING.swap(true, Ordering::SeqCst) {
        drop(io::stderr().write_all(contract.line(failure).as_bytes()));
        process::exit(1);
    }
}

fn write(mut line: String) -> io::Result<()> {
    if stdout_was_closed() {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    line.push('\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}

impl Contract {
    fn line(&self, failure: Failure) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            schema: &'a str,
            status: &'a str,
            code: String,
            message: &'a str,
        }
        let (suffix, message) = match failure {
            Failure::Args => ("ARGS", self.args),
            Failure::Kind(Kind::Input) => ("INPUT", self.input),
            Failure::Kind(Kind::DbSchema) => ("DB_SCHEMA", self.db_schema),
            Failure::Kind(Kind::DbProject) => ("DB_PROJECT", self.db_project),
            Failure::Kind(Kind::DbIo) => ("DB_IO", self.db_io),
            Failure::Kind(Kind::Cancelled) => ("CANCELLED", self.cancelled),
            Failure::Kind(Kind::Internal) => ("INTERNAL", self.internal),
        };
        let code = format!("{}_{suffix}", self.code);
        let line = Line { schema: self.schema, status: "error", code, message };
        serde_json::to_string(&line).expect("strings can be written") + "\n"
    }
}

/// What the handler of SIGBUS writes.
static ON_SIGBUS: OnceLock<String> = OnceLock::new();

/// Set by the thread that ends the process: the only one that may write a line. Several can meet the end of a file at once.
static ENDING: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_signal: libc::c_int) {
    while ENDING.swap(true, Ordering::SeqCst) {
        // SAFETY: pause is async-signal-safe. The process ends while this thread waits.
        unsafe { libc::pause() };
    }
    let line = ON_SIGBUS.get().map_or("", String::as_str);
    // SAFETY: write and _exit are async-signal-safe; the line is in a static that is set before the handler is, and is
    // never changed after that.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        libc::_exit(1);
    }
}

fn end_on_sigbus_with(line: String) {
    ON_SIGBUS.get_or_init(|| line);
    let handler: extern "C" fn(libc::c_int) = end;
    // SAFETY: the handler only calls async-signal-safe functions, and sigaction is given a zeroed structure with a valid
    // handler and an empty mask. A failure leaves the default, which ends the process as well.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

/// Whether the process was started without a stdout. Rust's runtime puts `/dev/null` in the place of a closed one before
/// `main` runs, and everything written there seems to succeed; so it is looked at before that.
fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look_at_stdout() {
    // SAFETY: fcntl with F_GETFD reads a flag of a descriptor that may well not be there.
    let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1;
    STDOUT_WAS_CLOSED.store(closed, Ordering::Relaxed);
}

// SAFETY: a pointer to a function in this section is called once by the loader, before the runtime and `main`. The
// function needs nothing of either: it makes one system call and stores into an atomic.
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;
