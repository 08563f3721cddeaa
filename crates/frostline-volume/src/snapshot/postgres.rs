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
//!
//! A tablespace is a directory elsewhere, to which the server has a link. The snapshot has it in a directory of its own,
//! and the link leads there, so that what is restored is complete and touches no other server's tablespace. Only links
//! that the server names are followed, and in the directory to which one leads only the server's own is read.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Deserialize;

use frostline_base::{Error, Result};

use super::psql::{Session, position};
use super::summaries::{self, Changed, MARKS, Mark, Pages, Relation};
use crate::scan::{self, Found, Scan, Scope, below};
use crate::tree::{Meta, SnapshotId, Time};

/// The file that is copied in one piece, because the server reads nothing before it.
pub(super) const CONTROL: &[u8] = b"global/pg_control";
/// What tells a server that it starts on a backup.
pub(super) const LABEL: &[u8] = b"backup_label";
const LOG: &str = "pg_wal";
/// Where the snapshot has tablespaces, by their numbers.
pub(crate) const TABLESPACES: &str = "frostline_tablespaces";
/// Their numbers, and where the server has them.
pub(crate) const TABLESPACE_MAP: &str = "frostline_tablespaces/tablespace_map";
/// Where the server has links to them.
pub(crate) const TABLESPACE_LINKS: &str = "pg_tblspc";
/// The first version with the functions that are called.
const VERSION_MIN: u32 = 150_000;
/// How often the control file is read until two reads are equal.
const CONTROL_READS_MAX: usize = 1_000;

/// A backup that the server has begun.
#[derive(Debug)]
pub(super) struct Backup {
    session: Session,
    server: Server,
    conninfo: String,
    /// Where it began.
    start: String,
    timeline: u32,
    pub(super) control: Bytes,
    tablespaces: Vec<Tablespace>,
}

/// A tablespace outside of the server's own.
#[derive(Debug)]
struct Tablespace {
    number: String,
    /// Where its link leads.
    place: PathBuf,
    /// Where the snapshot has it.
    path: Vec<u8>,
    /// Whether that is where it is.
    is_inside: bool,
}

/// A backup that is over, but for reading its log: until this is dropped, the server keeps it.
#[derive(Debug)]
pub(super) struct Stopped {
    _session: Session,
    pub(super) label: Bytes,
    /// Where the server has its tablespaces; empty if it has none.
    pub(super) tablespace_map: Bytes,
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
    /// Whether it sums up its log.
    has_summaries: bool,
    checksums: String,
    block_bytes: u64,
    file_bytes: u64,
    /// The directory of this server in a tablespace.
    folder: String,
    tablespaces: Vec<SqlTablespace>,
}

#[derive(Debug, Deserialize)]
struct Stop {
    lsn: String,
    label: String,
    tablespace_map: String,
    tablespaces: Vec<SqlTablespace>,
}

/// What tells one tablespace from another.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct SqlTablespace {
    number: String,
    location: String,
}

const SQL_TABLESPACES: &str = "(SELECT coalesce(json_agg(json_build_object('number', oid::text, \
     'location', pg_tablespace_location(oid)) ORDER BY oid), '[]') \
     FROM pg_tablespace WHERE spcname NOT IN ('pg_default', 'pg_global'))";

impl Backup {
    /// Begins a backup of the server that runs on `directory`.
    pub(super) fn begin(conninfo: &str, directory: &Path, name: &str) -> Result<Backup> {
        if !directory.join("PG_VERSION").exists() {
            return Err(Error::invalid(format!(
                "{} is not a data directory of PostgreSQL: name the one in its setting data_directory",
                directory.display()
            )));
        }
        let mut session = Session::open(conninfo)?;
        session.tell(
            "SET client_min_messages = error; SET statement_timeout = 0; SET idle_session_timeout = 0; SET lock_timeout = 0;",
        )?;
        let server: Server = session.ask(&format!(
            "SELECT json_build_object('version', current_setting('server_version_num')::int, \
             'is_standby', pg_is_in_recovery(), 'port', current_setting('port'), \
             'system', (SELECT system_identifier::text FROM pg_control_system()), \
             'segment_bytes', (SELECT setting::bigint FROM pg_settings WHERE name = 'wal_segment_size'), \
             'has_summaries', coalesce(current_setting('summarize_wal', true), 'off') = 'on', \
             'checksums', current_setting('data_checksums'), 'block_bytes', current_setting('block_size')::bigint, \
             'file_bytes', (SELECT setting::bigint FROM pg_settings WHERE name = 'segment_size') \
             * current_setting('block_size')::bigint, \
             'folder', (SELECT 'PG_' || current_setting('server_version_num')::int / 10000 || '_' || catalog_version_no \
             FROM pg_control_system()), 'tablespaces', {SQL_TABLESPACES});"
        ))?;
        server.check(directory)?;
        let tablespaces = server.tablespaces.iter().map(|tablespace| tablespace.find(directory));
        let tablespaces = tablespaces.collect::<Result<_>>()?;
        session.ask::<serde_json::Value>(&format!(
            "SELECT to_json(slot_name) FROM pg_create_physical_replication_slot('frostline_{name}', true, true);"
        ))?;
        let start = session
            .ask(&format!("SELECT to_json(pg_backup_start('frostline {name}', fast => true)::text);"))?;
        // The control file has that of the checkpoint that was just made.
        let timeline = session.ask("SELECT to_json(timeline_id) FROM pg_control_checkpoint();")?;
        let control = read_control(directory)?;
        let conninfo = conninfo.to_owned();
        Ok(Backup { session, server, conninfo, start, timeline, control, tablespaces })
    }

    /// What the directory will remember of this snapshot. None where the server sums up nothing.
    pub(super) fn mark(&self, snapshot: SnapshotId) -> Option<Mark> {
        let Server { system, checksums, block_bytes, file_bytes, .. } = &self.server;
        let (system, checksums) = (system.clone(), checksums.clone());
        let (timeline, block_bytes, file_bytes) = (self.timeline, *block_bytes, *file_bytes);
        let pages = Pages { system, timeline, checksums, block_bytes, file_bytes };
        let start = self.start.clone();
        self.server.has_summaries.then_some(Mark { snapshot, start, pages })
    }

    /// What changed since the snapshot that left this mark, or why that is not known.
    pub(super) fn changed(&self, base: &Mark) -> Result<Changed, String> {
        let now = self.mark(base.snapshot).ok_or("the server keeps no summaries")?;
        Changed::since(base, &now, &self.conninfo)
    }

    /// The relation that a file of the snapshot is the main fork of, and the file's number in it.
    pub(super) fn relation(&self, path: &[u8]) -> Option<(Relation, u64)> {
        const DEFAULT: u32 = 1_663;
        const GLOBAL: u32 = 1_664;
        if let Some(rest) = path.strip_prefix(b"base/") {
            return summaries::relation(DEFAULT, rest);
        }
        if let Some(name) = path.strip_prefix(b"global/") {
            return summaries::relation_in(GLOBAL, 0, std::str::from_utf8(name).ok()?);
        }
        self.tablespaces.iter().find_map(|tablespace| {
            let rest = path.strip_prefix(tablespace.path.as_slice())?.strip_prefix(b"/")?;
            let rest = rest.strip_prefix(self.server.folder.as_bytes())?.strip_prefix(b"/")?;
            summaries::relation(tablespace.number.parse().ok()?, rest)
        })
    }

    /// Adds the tablespaces to what was found in the server's directory, and has the links lead to where they are then.
    pub(super) fn add_tablespaces(&self, scan: &mut Scan, directory: &Path, scope: &Scope) -> Result<()> {
        for Tablespace { number, place, path, is_inside } in &self.tablespaces {
            let link = format!("{TABLESPACE_LINKS}/{number}");
            scan.relink(link.as_bytes(), &[b"../", path.as_slice()].concat());
            if *is_inside {
                continue;
            }
            if scan.has(path) {
                return Err(Error::invalid(format!(
                    "the server has its tablespace {number} in {}, and {} is of another one: move that out of the \
                     server's directory",
                    place.display(),
                    below(directory, path).display()
                )));
            }
            let (folder, name) = (TABLESPACES.as_bytes(), self.server.folder.as_bytes());
            scan.graft(folder, path.clone(), place, name, scope)?;
        }
        Ok(())
    }

    /// Ends the backup. The directory may have been read until now.
    pub(super) fn stop(mut self, directory: &Path) -> Result<Stopped> {
        let stop: Stop = self.session.ask(&format!(
            "SELECT json_build_object('lsn', lsn::text, 'label', labelfile, \
             'tablespace_map', coalesce(spcmapfile, ''), 'tablespaces', {SQL_TABLESPACES}) \
             FROM pg_backup_stop(wait_for_archive => false);"
        ))?;
        if stop.tablespaces != self.server.tablespaces {
            // Replaying their log would make and remove directories where the server has them.
            return Err(Error::conflict(
                "a tablespace was made, moved or removed during the backup: take the snapshot again",
            ));
        }
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
        let (label, tablespace_map) = (stop.label.into(), stop.tablespace_map.into());
        Ok(Stopped { _session: self.session, label, tablespace_map, log })
    }
}

impl Stopped {
    /// The files that are in no directory, and what is in them: the one that tells the server to replay the log, and
    /// where tablespaces were.
    pub(super) fn files(&self, root: &Meta, now_ms: i64) -> Vec<(Found, Bytes)> {
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
        let files = [(LABEL, &self.label), (TABLESPACE_MAP.as_bytes(), &self.tablespace_map)];
        let files = files.into_iter().filter(|(_, bytes)| !bytes.is_empty());
        files
            .map(|(path, bytes)| (Found::given(path, bytes.len() as u64, meta.clone()), bytes.clone()))
            .collect()
    }
}

impl SqlTablespace {
    fn find(&self, directory: &Path) -> Result<Tablespace> {
        let link = directory.join(TABLESPACE_LINKS).join(&self.number);
        let meta = std::fs::symlink_metadata(&link).map_err(|e| scan::failed("look at", &link, &e))?;
        if !meta.is_symlink() {
            return Err(Error::refused(format!(
                "{} is a tablespace in place (allow_in_place_tablespaces), on which no backup starts: move what is in it \
                 to another one",
                link.display()
            )));
        }
        let place = std::fs::canonicalize(&link).map_err(|e| scan::failed("find", &link, &e))?;
        let inside = place.strip_prefix(directory).map(|inside| inside.as_os_str().as_bytes().to_vec());
        let (number, is_inside) = (self.number.clone(), inside.is_ok());
        let path = inside.unwrap_or_else(|_| format!("{TABLESPACES}/{number}").into_bytes());
        Ok(Tablespace { number, place, path, is_inside })
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
        Ok(())
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
    let gone = || Error::not_found(format!("there is no {}", full.display()));
    scan::found(&full, path)?.ok_or_else(gone)
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

/// What a backup leaves out: what is of one run of the server, and its log, which is added at the end.
pub(crate) fn is_left_out(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let is_temporary = name.starts_with(b"pgsql_tmp") || name.starts_with(b"pg_internal.init");
    is_temporary
        || [TABLESPACE_MAP, MARKS].iter().any(|left_out| path == left_out.as_bytes())
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

#[cfg(test)]
mod tests;
