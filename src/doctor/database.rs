//! The database of bodies: whether it can be read and written.

use rustix::fs::{Access, access};

use super::{Check, Finding, Surroundings, number, quoted};
use crate::db::examining::{self, Condition};
use crate::db::{Error, schema};

/// Looks at the database.
pub fn check(around: &Surroundings) -> Vec<Finding> {
    let path = schema::path(&around.stores.home);
    let name = path.display();
    let aside = format!(
        "move {} away, with what SQLite has beside it: the hooks make a new one, and throughline capture --all stores \
         Codex' turns again",
        quoted(&path)
    );
    let finding = match examining::condition(&path) {
        Ok(None) => Finding::note(Check::Database, format!("{name} is made when the first turn is stored")),
        Ok(Some(Condition { damage: Some(damage), .. })) => {
            Finding::problem(Check::Database, format!("{name} is damaged: {damage}"), aside)
        }
        Ok(Some(_)) if !is_writable(around) => {
            let advice = format!("make {} and its directory writable for you", quoted(&path));
            Finding::problem(Check::Database, format!("{name} cannot be written"), advice)
        }
        Ok(Some(Condition { version, sessions, .. })) => {
            Finding::fine(Check::Database, format!("{name}, version {version}, {}", number(sessions, "session")))
                .counting(sessions)
        }
        Err(Error::Version(version)) => {
            Finding::problem(Check::Database, format!("database version {version}"), "migrate it with the Node tool")
        }
        Err(Error::Sqlite(error)) => {
            Finding::problem(Check::Database, format!("{name} cannot be read: {error}"), aside)
        }
        Err(error) => Finding::problem(Check::Database, format!("{name}: {error}"), aside),
    };
    vec![finding.about(path)]
}

/// SQLite writes files beside the database, too.
fn is_writable(around: &Surroundings) -> bool {
    let path = schema::path(&around.stores.home);
    [Some(path.as_path()), path.parent()].into_iter().flatten().all(|path| access(path, Access::WRITE_OK).is_ok())
}
