//! The backup that a running PostgreSQL allows: its directory may change while it is read, and the log of that time
//! makes it consistent when the server starts on it.
//!
//! `psql` talks to the server, because it knows every form of connection string, of authentication and of encryption
//! that PostgreSQL's own library does. One session lasts from the start of the backup until its log was read:
//! 1. A temporary replication slot keeps the log. The server drops it with the session, however that ends.
//! 2. `pg_backup_start` makes a checkpoint, and has whole pages logged from then on.
//! 3. The directory is read, without what is of one run of the server only; see [`is_left_out`].
//! 4. `pg_backup_stop` tells where the log has to be replayed from, which becomes the file `backup_label`, and until
//!    where. The files of the log in between are stored, too.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bytes::Bytes;
use serde::Deserialize;

use frostline_base::{Error, Result};

use crate::scan::{self, Found, below};
use crate::tree::{Meta, Time};

/// The file that is copied in one piece, because the server reads nothing before it.
pub(super) const CONTROL: &[u8] = b"global/pg_control";
/// What tells a server that it starts on a backup.
pub(super) const LABEL: &[u8] = b"backup_label";
const LOG: &str = "pg_wal";
/// The first version with the functions that are called.
const VERSION_MIN: u32 = 150_000;
/// How often the control file is read until two reads are equal.
const CONTROL_READS_MAX: usize = 1_000;

/// A backup that the server has begun.
#[derive(Debug)]
pub(super) struct Backup {
    session: Session,
    server: Server,
    pub(super) control: Bytes,
}

/// A backup that is over, but for reading its log: until this is dropped, the server keeps it.
#[derive(Debug)]
pub(super) struct Stopped {
    _session: Session,
    pub(super) label: Bytes,
    /// Files of the log.
    pub(super) log: Vec<Found>,
}

#[derive(Debug, Deserialize)]
struct Server {
    version: u32,
    is_standby: bool,
    system: String,
    port: String,
    segment_bytes: u64,
    tablespaces: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Stop {
    lsn: String,
    label: String,
    tablespaces: Vec<String>,
}

const TABLESPACES: &str = "(SELECT coalesce(json_agg(spcname || ' in ' || pg_tablespace_location(oid)), '[]') \
     FROM pg_tablespace WHERE spcname NOT IN ('pg_default', 'pg_global'))";

impl Backup {
    /// Begins a backup of the server that runs on `directory`.
    pub(super) fn begin(conninfo: &str, directory: &Path, name: &str) -> Result<Backup> {
        let mut session = Session::open(conninfo)?;
        session.tell(
            "SET client_min_messages = error; SET statement_timeout = 0; SET idle_session_timeout = 0; SET lock_timeout = 0;",
        )?;
        let server: Server = session.ask(&format!(
            "SELECT json_build_object('version', current_setting('server_version_num')::int, \
             'is_standby', pg_is_in_recovery(), 'port', current_setting('port'), \
             'system', (SELECT system_identifier::text FROM pg_control_system()), \
             'segment_bytes', (SELECT setting::bigint FROM pg_settings WHERE name = 'wal_segment_size'), \
             'tablespaces', {TABLESPACES});"
        ))?;
        server.check(directory)?;
        session.ask::<serde_json::Value>(&format!(
            "SELECT to_json(slot_name) FROM pg_create_physical_replication_slot('frostline_{name}', true, true);"
        ))?;
        session.ask::<serde_json::Value>(&format!(
            "SELECT to_json(pg_backup_start('frostline {name}', fast => true)::text);"
        ))?;
        let control = read_control(directory)?;
        Ok(Backup { session, server, control })
    }

    /// Ends the backup. The directory may have been read until now.
    pub(super) fn stop(mut self, directory: &Path) -> Result<Stopped> {
        let stop: Stop = self.session.ask(&format!(
            "SELECT json_build_object('lsn', lsn::text, 'label', labelfile, 'tablespaces', {TABLESPACES}) \
             FROM pg_backup_stop(wait_for_archive => false);"
        ))?;
        check_tablespaces(&stop.tablespaces)?;
        let names = segments(&stop.label, &stop.lsn, self.server.segment_bytes)?;
        let mut log = Vec::new();
        for name in &names {
            let found = log_file(directory, name).map_err(|e| {
                e.context(
                    "the server no longer has the log that the snapshot needs: see max_slot_wal_keep_size",
                )
            })?;
            log.push(found);
        }
        let folder = directory.join(LOG);
        let failed = |e: std::io::Error| scan::failed("list", &folder, &e);
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(name) = name.to_str().filter(|name| name.ends_with(".history")) {
                log.push(log_file(directory, name)?);
            }
        }
        Ok(Stopped { _session: self.session, label: Bytes::from(stop.label), log })
    }
}

impl Stopped {
    /// The file that tells the server to replay the log.
    pub(super) fn label_file(&self, root: &Meta, now_ms: i64) -> Found {
        let nanos = (now_ms.rem_euclid(1_000) * 1_000_000) as u32;
        let time = Time { seconds: now_ms.div_euclid(1_000), nanos };
        let meta = Meta {
            mode: 0o600,
            modified: time,
            changed: time,
            inode: 0,
            attributes: Vec::new(),
            ..root.clone()
        };
        Found::given(LABEL, self.label.len() as u64, meta)
    }
}

impl Server {
    /// `Invalid` unless it runs on this directory, and a backup of it is possible.
    fn check(&self, directory: &Path) -> Result<()> {
        let refused = |what: String| Err(Error::invalid(what));
        if self.version < VERSION_MIN {
            return refused(format!(
                "--postgres needs PostgreSQL 15 or later, and the server has version {}",
                self.version / 10_000
            ));
        }
        if self.is_standby {
            return refused(
                "the server is a standby: take the snapshot of its primary, or of the stopped standby"
                    .to_owned(),
            );
        }
        let control = directory.join("global/pg_control");
        let bytes = std::fs::read(&control).map_err(|e| scan::failed("read", &control, &e))?;
        let system = bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes).to_string());
        // Its process writes its port there, in the fourth line.
        let port = std::fs::read_to_string(directory.join("postmaster.pid"))
            .ok()
            .and_then(|text| text.lines().nth(3).map(|line| line.trim().to_owned()));
        if system.as_ref() != Some(&self.system) || port.as_ref() != Some(&self.port) {
            return refused(format!(
                "the server that --postgres names does not run on {}: name its data_directory",
                directory.display()
            ));
        }
        check_tablespaces(&self.tablespaces)
    }
}

fn check_tablespaces(tablespaces: &[String]) -> Result<()> {
    match tablespaces {
        [] => Ok(()),
        some => Err(Error::refused(format!(
            "the server has tablespaces outside of its directory ({}), which --postgres does not store",
            some.join(", ")
        ))),
    }
}

/// Two reads that are equal: a read may meet a write in the middle.
fn read_control(directory: &Path) -> Result<Bytes> {
    let path = below(directory, CONTROL);
    let read = || std::fs::read(&path).map_err(|e| scan::failed("read", &path, &e));
    let mut before = read()?;
    for _ in 0..CONTROL_READS_MAX {
        let now = read()?;
        if now == before {
            return Ok(Bytes::from(now));
        }
        before = now;
    }
    Err(Error::unavailable(format!("{} does not stop changing", path.display())))
}

fn log_file(directory: &Path, name: &str) -> Result<Found> {
    let path = format!("{LOG}/{name}").into_bytes();
    let full = below(directory, &path);
    let meta = std::fs::symlink_metadata(&full).map_err(|e| scan::failed("look at", &full, &e))?;
    scan::found(&full, path, &meta)
}

/// The files of the log from where the label begins to where the backup ended.
fn segments(label: &str, end: &str, segment_bytes: u64) -> Result<Vec<String>> {
    /// More than a backup that is read to its end can have.
    const SEGMENTS_MAX: u64 = 1 << 20;
    let strange = |what: &str| {
        Error::internal(format!("PostgreSQL tells {what} in an unknown form"))
            .with("label", label)
            .with("end", end)
    };
    let line = label.lines().find_map(|line| line.strip_prefix("START WAL LOCATION: "));
    let (start, file) =
        line.and_then(|line| line.split_once(" (file ")).ok_or_else(|| strange("the start"))?;
    let timeline = file.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let timeline = timeline.ok_or_else(|| strange("the timeline"))?;
    let (start, end) = (position(start), position(end));
    let (start, end) = start.zip(end).filter(|(start, end)| start < end).ok_or_else(|| strange("the end"))?;
    if !segment_bytes.is_power_of_two() || !(1 << 20..=1 << 30).contains(&segment_bytes) {
        return Err(strange("the size of a segment"));
    }
    // The byte at `end` is not needed.
    let numbers = start / segment_bytes..(end - 1) / segment_bytes + 1;
    if numbers.end - numbers.start > SEGMENTS_MAX {
        return Err(strange("the end"));
    }
    let in_each = (1 << 32) / segment_bytes;
    Ok(numbers
        .map(|number| format!("{timeline:08X}{:08X}{:08X}", number / in_each, number % in_each))
        .collect())
}

/// A position in the log, such as `16/B374D848`.
fn position(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let number = |text| u32::from_str_radix(text, 16).ok().map(u64::from);
    Some(number(high)? << 32 | number(low)?)
}

/// What a backup leaves out: what is of one run of the server, and its log, which is added at the end.
pub(crate) fn is_left_out(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let is_temporary = name.starts_with(b"pgsql_tmp") || name.starts_with(b"pg_internal.init");
    is_temporary
        || match (first, second) {
            (b"pg_wal", Some(inner)) => !matches!(inner, b"archive_status" | b"summaries") || inner != name,
            (
                b"pg_dynshmem" | b"pg_notify" | b"pg_replslot" | b"pg_serial" | b"pg_snapshots"
                | b"pg_stat_tmp" | b"pg_subtrans",
                Some(_),
            ) => true,
            (first, None) => {
                matches!(
                    first,
                    b"backup_label"
                        | b"backup_manifest"
                        | b"current_logfiles.tmp"
                        | b"postgresql.auto.conf.tmp"
                        | b"postmaster.opts"
                        | b"postmaster.pid"
                        | b"tablespace_map"
                ) || first.starts_with(b".s.PGSQL.")
            }
            _ => false,
        }
}

/// `psql`, one statement and one line of answer at a time.
#[derive(Debug)]
struct Session {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Session {
    fn open(conninfo: &str) -> Result<Session> {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1", "-d", conninfo]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = psql.spawn().map_err(|e| {
            Error::refused(format!("cannot run psql, PostgreSQL's client, which --postgres needs: {e}"))
        })?;
        let no_pipe = || Error::internal("a process has no pipe");
        let (to, from) = (child.stdin.take(), child.stdout.take().ok_or_else(no_pipe)?);
        Ok(Session { child, to, from: BufReader::new(from) })
    }

    /// Sends a statement without an answer.
    fn tell(&mut self, sql: &str) -> Result<()> {
        let sent = match &mut self.to {
            Some(to) => writeln!(to, "{sql}").and_then(|()| to.flush()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        sent.map_err(|_| self.failure())
    }

    /// The one line that a statement answers, which is JSON.
    fn ask<T: for<'a> Deserialize<'a>>(&mut self, sql: &str) -> Result<T> {
        self.tell(sql)?;
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => {}
            _ => return Err(self.failure()),
        }
        serde_json::from_str(&line).map_err(|e| {
            Error::internal("psql answers in an unknown form").with("line", line.trim()).with_source(e)
        })
    }

    /// Why it ended.
    fn failure(&mut self) -> Error {
        self.to = None;
        let mut text = String::new();
        if let Some(errors) = &mut self.child.stderr {
            // Without its message there is still the failure.
            let _ = errors.take(4_096).read_to_string(&mut text);
        }
        Error::invalid(format!("PostgreSQL refused the backup: {}", text.trim()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The server ends the backup, and drops the slot, when the session does.
        self.to = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests;
