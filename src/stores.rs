//! Where the stores are: the homes of the user, of Codex and of this program's own state.

use std::env;
use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::cache::Cache;
use crate::paths;

/// The places that a read looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stores {
    /// The user's home.
    pub home: PathBuf,
    /// `$CODEX_HOME`, else `.codex` in the home.
    pub codex_home: PathBuf,
    /// `$CLAUDE_CONFIG_DIR`, else `.claude` in the home.
    pub claude_home: PathBuf,
    /// `$XDG_STATE_HOME`, else `.local/state` in the home.
    pub state_home: PathBuf,
    /// `$XDG_CACHE_HOME`, else `.cache` in the home.
    pub cache_home: PathBuf,
    /// What is remembered between reads, in the cache home; `None` with `THROUGHLINE_CACHE=off`.
    pub cache: Option<Cache>,
}

impl Stores {
    /// The places below one home, as they are when no variable says otherwise.
    pub fn below(home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        let cache_home = home.join(".cache");
        let cache = Some(Cache::below(&cache_home));
        let (codex_home, claude_home) = (home.join(".codex"), home.join(".claude"));
        Self { codex_home, claude_home, state_home: home.join(".local/state"), cache_home, cache, home }
    }

    /// The places that the environment names; an empty variable is an unset one. `None` when the user has no home, neither
    /// in `$HOME` nor in the user database.
    pub fn from_env() -> Option<Self> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let defaults = Self::below(set("HOME").or_else(home_in_user_database)?);
        let cache_home = set("XDG_CACHE_HOME").filter(|caches| caches.is_absolute()).unwrap_or(defaults.cache_home);
        let off = env::var_os("THROUGHLINE_CACHE").is_some_and(|value| value == "off");
        Some(Self {
            claude_home: set("CLAUDE_CONFIG_DIR").unwrap_or(defaults.claude_home),
            codex_home: set("CODEX_HOME").unwrap_or(defaults.codex_home),
            state_home: set("XDG_STATE_HOME").unwrap_or(defaults.state_home),
            cache: (!off).then(|| Cache::below(&cache_home)),
            cache_home,
            home: defaults.home,
        })
    }

    /// The root of Codex' rollouts, as it stands in digests: `//`, `.` and `..` collapsed as text.
    pub fn sessions_root(&self) -> PathBuf {
        paths::collapsed(&self.codex_home.join("sessions"))
    }

    /// Waits until what a read had to remember is written: nothing of it goes on behind it.
    pub fn finish(&self) {
        self.cache.iter().for_each(Cache::finish);
    }

    /// The folder of Claude's transcripts.
    pub fn transcripts_root(&self) -> PathBuf {
        paths::collapsed(&self.claude_home.join("projects"))
    }

    /// The database of bodies.
    pub fn database(&self) -> PathBuf {
        crate::db::schema::path(&self.home)
    }
}

fn home_in_user_database() -> Option<PathBuf> {
    // SAFETY: getpwuid takes any id. Its answer is null or points to a record that stays until the next call of its
    // family, and the string is copied before this function returns. Nothing else in this program calls that family, and
    // this is called once, before any thread is started.
    let home = unsafe {
        let user = libc::getpwuid(libc::getuid());
        if user.is_null() || (*user).pw_dir.is_null() {
            return None;
        }
        CStr::from_ptr((*user).pw_dir).to_bytes().to_vec()
    };
    Some(PathBuf::from(OsString::from_vec(home))).filter(|home| !home.as_os_str().is_empty())
}
