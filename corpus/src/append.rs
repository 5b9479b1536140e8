//! A store goes on: rows behind its newest rollout, and what a hook would store of them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use throughline::db::capture::{Capture, Said};

use crate::Fault;
use crate::random::Random;
use crate::rollout::{Shape, Turn, Writer};
use crate::store::{Manifest, open_database, texts};
use crate::text::Pool;
use crate::units::Bytes;

/// What is to be appended.
#[derive(clap::Args)]
pub struct Arguments {
    /// The directory that the store was made in.
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    #[command(flatten)]
    what: What,
    /// The mean size of a whole turn.
    #[arg(long, default_value = "8KiB")]
    pub turn_bytes: Bytes,
    /// Leave the database as it is, so that the turns wait for their bodies.
    #[arg(long)]
    pub without_bodies: bool,
}

/// One of the things that can be appended.
#[derive(Clone, Copy, clap::Args)]
#[group(required = true, multiple = false)]
pub struct What {
    /// So many whole turns; none may be open.
    #[arg(long, value_name = "NUMBER")]
    turns: Option<u64>,
    /// About so many bytes of the open turn, which begins with them if none is open.
    #[arg(long)]
    bytes: Option<Bytes>,
    /// The end of the open turn.
    #[arg(long)]
    finish: bool,
}

/// Appends to the newest rollout of the store's project.
///
/// Rows are written at once, and then the database, so that a read in between finds the turns without their bodies.
///
/// # Errors
/// There is no such store, its rollout is not as it was left, or it cannot be written.
pub fn append(arguments: &Arguments) -> Result<(), Fault> {
    let mut manifest = Manifest::read(&arguments.store)?;
    if fs::metadata(&manifest.rollout)?.len() != manifest.state.end.bytes {
        return Err("the rollout is not as it was left".into());
    }
    let first = manifest.turns + 1;
    let (rows, turns) = make(&mut manifest, arguments)?;
    OpenOptions::new().append(true).open(&manifest.rollout)?.write_all(&rows)?;
    if !arguments.without_bodies {
        store(&manifest, first, &turns)?;
    }
    manifest.write(&arguments.store)?;
    println!("rollout {}", manifest.rollout.display());
    println!("bytes {}", rows.len());
    println!("turns {} more, {} in all", turns.len(), manifest.turns);
    Ok(())
}

/// Makes the rows and takes the manifest behind them.
fn make(manifest: &mut Manifest, arguments: &Arguments) -> Result<(Vec<u8>, Vec<Turn>), Fault> {
    manifest.appended += 1;
    // Other random numbers than those of any rollout and of any time before.
    let mut random = Random::part(manifest.seed.wrapping_add(1), manifest.appended);
    let pool = Pool::new(&mut random);
    let shape = Shape { cwd: manifest.cwd.clone(), mix: manifest.mix, layout: manifest.layout };
    let (mut rows, mut turns) = (Vec::new(), Vec::new());
    let open = manifest.state.open.is_some();
    let mut writer = Writer::resume(&shape, &pool, &mut random, &mut rows, manifest.state.clone());
    match arguments.what {
        What { turns: Some(_), .. } if open => return Err("a turn is open: --finish it first".into()),
        What { turns: Some(count), .. } => {
            for _ in 0..count {
                turns.push(writer.turn_of_about(arguments.turn_bytes.0)?);
            }
        }
        What { bytes: Some(bytes), .. } => {
            if !open {
                writer.begin_turn(bytes.0, false)?;
            }
            writer.go_on_to(manifest.state.end.bytes + bytes.0)?;
        }
        _ if open => turns.push(writer.complete_turn()?),
        _ => return Err("no turn is open".into()),
    }
    manifest.state = writer.finish()?;
    manifest.turns += turns.len() as u64;
    Ok((rows, turns))
}

/// Stores the texts of turns that completed, the first of them being of this number.
fn store(manifest: &Manifest, first: u64, turns: &[Turn]) -> Result<(), Fault> {
    if turns.is_empty() {
        return Ok(());
    }
    let mut database = open_database(&manifest.home)?;
    let session = format!("codex:{}", manifest.state.thread);
    let capture = Capture::begin(&mut database)?;
    for (number, turn) in (first as i64..).zip(turns) {
        let at = turn.completed_at.ok_or("an appended turn completes")?;
        let (user, assistant) = texts(turn);
        let said = |text| Some(Said { text, at });
        capture.keep_session(&session, &manifest.cwd, at)?;
        capture.insert_turn(&session, &session, number, said(&user), said(&assistant))?;
    }
    Ok(capture.commit()?)
}
