//! `frostline volume`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use frostline_base::{Cost, told};
use frostline_node::Node;
use frostline_show::{
    Table, byte_progress, end_progress, is_in_background, note, parse_bytes, printable, say, say_json,
    show_bytes, show_count,
};
use frostline_volume::plan::{self, RestoreQuestion};
use frostline_volume::{
    Change, Consistency, Entry, FillStage, Mount, MountMode, MountOptions, MountStatus, Mounted,
    Node as Kind, Prune, RestoreOptions, Selection, Snapshot, SnapshotName, SnapshotOptions, Summaries,
    Tablespace, TablespaceMapping, Time, Unmounted, VolumeFault, VolumeKey, Volumes,
};
use serde_json::{Value, json};

use crate::Outcome;
use crate::args::{
    self, Volume, VolumeGiven, VolumeMount, VolumePlan, VolumePrune, VolumeRestore, VolumeSnapshot,
};
use crate::commands::ingest;
use crate::config::Config;
use crate::stopping::{INTERRUPTED, Stops, outlive_the_terminal};

/// Changed paths that are named after a snapshot, and faults after a check.
const NAMED_MAX: usize = 20;
/// Offsets that are named for a damaged file.
const OFFSETS_MAX: usize = 5;
const HOUR_MS: f64 = 3_600_000.0;

pub(crate) async fn run(config: &Config, given: VolumeGiven) -> Result<Outcome> {
    let key = given.key_file.as_deref();
    match given.command {
        Volume::Key { file } => make_key(config, &file),
        Volume::Snapshot(given) => snapshot(config, given, key).await,
        Volume::List { name } => list(config, name.as_deref()).await,
        Volume::Show { snapshot, files } => show(config, &snapshot, files, key).await,
        Volume::Diff { older, newer } => diff(config, &older, &newer, key).await,
        Volume::Verify { snapshots } => verify(config, &snapshots, key).await,
        Volume::Prune(given) => prune(config, given).await,
        Volume::Plan(given) => plan_restore(config, given),
        Volume::Mount(given) => mount(config, given, key).await,
        Volume::Guard { directory } => {
            frostline_volume::guard(&directory).await?;
            Ok(Outcome::Done)
        }
        Volume::Umount { directory } => umount(config, &directory).await,
        Volume::Status { directory } => status(config, &directory),
        Volume::Restore(given) => restore(config, given, key).await,
    }
}

/// The volumes of the repository, and what is spent on them.
struct Session {
    node: Node,
    volumes: Volumes,
}

impl Session {
    fn of(node: Node) -> Session {
        let volumes = Volumes::new(node.repository(), Arc::clone(node.clock()), ingest::random());
        Session { node, volumes }
    }

    fn cost(&self) -> (Cost, f64) {
        let cost = self.node.repository().meter().cost();
        (cost, self.node.repository().prices().usd(&cost))
    }

    fn cost_json(&self) -> Value {
        let (cost, usd) = self.cost();
        let mut document = json!(cost);
        document["usd"] = json!(usd);
        document
    }

    fn note_cost(&self, config: &Config) {
        let (cost, usd) = self.cost();
        let requests = cost.gets + cost.puts + cost.lists + cost.deletes + cost.heads;
        let dollars = if usd > 0.0 { format!(", ${usd:.6}") } else { String::new() };
        note!(
            "{:.1} s, {} ({} read, {} written){dollars}",
            config.started.elapsed().as_secs_f64(),
            show_count(requests, "request"),
            show_bytes(cost.bytes_read),
            show_bytes(cost.bytes_written),
        );
    }

    /// The same with the key in this file.
    fn with_key(self, file: Option<&Path>) -> Result<Session> {
        let key = file.map(read_key).transpose()?;
        Ok(Session { volumes: self.volumes.with_key(key), ..self })
    }

    async fn find(&self, name: &str) -> Result<Snapshot> {
        let name: SnapshotName = name.parse()?;
        let found = self.volumes.find(&name).await;
        found.with_context(|| format!("in {}", self.node.repository().url()))
    }
}

async fn snapshot(config: &Config, given: VolumeSnapshot, key: Option<&Path>) -> Result<Outcome> {
    let session = Session::of(config.node_made()?).with_key(key)?;
    let cancel = Arc::new(AtomicBool::new(false));
    let options = SnapshotOptions {
        host: host(),
        rehash: given.rehash,
        crash_consistent: given.crash_consistent,
        freeze: given.freeze,
        postgres: given.postgres,
        exclude: patterns("--exclude", &given.exclude)?,
        one_file_system: given.one_file_system,
        cancel: Arc::clone(&cancel),
        ..SnapshotOptions::default()
    };
    let bar = byte_progress(None, "read");
    let stopping = tokio::spawn(stop_on_signals(cancel));
    let show = |at: frostline_volume::SnapshotProgress| {
        bar.set_length(at.bytes);
        bar.set_position(at.read_bytes);
        bar.set_message(format!("{} stored", show_bytes(at.stored_bytes)));
    };
    let taken = session.volumes.snapshot(&given.directory, &given.name.parse()?, &options, show).await;
    stopping.abort();
    bar.finish_and_clear();
    let taken = taken?;
    if config.json {
        let mut document = describe(&taken.snapshot);
        document["changed"] = json!(taken.changed);
        document["lost"] = json!(taken.lost);
        if let Some(summaries) = &taken.summaries {
            document["wal_summaries"] = match summaries {
                Summaries::Used(bytes) => json!({ "used": true, "unread_bytes": bytes }),
                Summaries::Unused(reason) => json!({ "used": false, "reason": reason }),
            };
        }
        document["cost"] = session.cost_json();
        say_json(&document)?;
        return Ok(Outcome::Done);
    }
    let (snapshot, totals) = (&taken.snapshot, &taken.snapshot.totals);
    say!(
        "{}: {} ({}), {} read, {} stored",
        snapshot.name(),
        show_count(totals.files, "file"),
        show_bytes(totals.bytes),
        show_bytes(totals.read_bytes),
        show_bytes(totals.stored_bytes)
    )?;
    note_some("changed while it was read, so files may be of different moments", &taken.changed);
    note_some("lost or of another length, so this snapshot stores their data again", &taken.lost);
    match &taken.summaries {
        Some(Summaries::Used(bytes)) => {
            note!("WAL summaries: {} were known to be unchanged and not read", show_bytes(*bytes));
        }
        Some(Summaries::Unused(reason)) => note!("WAL summaries were not used: {}", printable(reason)),
        None => {}
    }
    session.note_cost(config);
    Ok(Outcome::Done)
}

/// The patterns of an option. A slash at the end of one means nothing.
fn patterns(option: &str, given: &[String]) -> Result<Vec<glob::Pattern>> {
    let pattern = |text: &String| {
        glob::Pattern::new(text.trim_end_matches('/'))
            .with_context(|| format!("{option} {text:?} is not a pattern"))
    };
    given.iter().map(pattern).collect()
}

/// Notes what is true of these names, and shows some of them.
fn note_some(what: &str, names: &[String]) {
    if names.is_empty() {
        return;
    }
    note!("{what}:");
    names.iter().take(NAMED_MAX).for_each(|name| note!("  {}", printable(name)));
    if names.len() > NAMED_MAX {
        note!("  and {} more", names.len() - NAMED_MAX);
    }
}

fn read_key(file: &Path) -> Result<VolumeKey> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    VolumeKey::parse(&text).with_context(|| file.display().to_string())
}

/// Makes a key, readable for its owner only. A file that is there stays as it is.
fn make_key(config: &Config, file: &Path) -> Result<Outcome> {
    let draw = ingest::random();
    let key = VolumeKey::from_random([draw(), draw()]);
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(file);
    if opened.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists) {
        bail!(
            "{} already exists and is not replaced, because snapshots may need its key: pass it with --key-file, or name \
             another file",
            file.display()
        );
    }
    opened
        .and_then(|mut opened| {
            opened.write_all(key.text().as_bytes())?;
            opened.sync_all()
        })
        .with_context(|| format!("cannot write a new key to {}", file.display()))?;
    if config.json {
        say_json(&json!({ "key": key.id(), "file": file }))?;
    } else {
        say!(
            "{}: the key {}. Keep a copy elsewhere: without it nobody can read the snapshots",
            file.display(),
            key.id()
        )?;
    }
    Ok(Outcome::Done)
}

/// The name of this machine.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// The first Ctrl-C, SIGTERM or SIGHUP stops the work in an orderly way, the second one at once.
async fn stop_on_signals(cancel: Arc<AtomicBool>) {
    let Ok(mut stops) = Stops::new() else { return };
    loop {
        stops.next().await;
        if cancel.swap(true, Ordering::Relaxed) {
            end_progress();
            std::process::exit(INTERRUPTED.into());
        }
        note!("stopping; press Ctrl-C again to stop at once");
    }
}

fn describe(snapshot: &Snapshot) -> Value {
    let mut document = json!(snapshot);
    document["name"] = json!(snapshot.name().to_string());
    document
}

async fn list(config: &Config, name: Option<&str>) -> Result<Outcome> {
    let session = Session::of(config.node()?);
    let all = match name.map(str::parse).transpose()? {
        Some(volume) => session.volumes.list_of(&volume).await,
        None => session.volumes.list().await,
    };
    let all = all.with_context(|| format!("in {}", session.node.repository().url()))?;
    if config.json {
        let snapshots: Vec<Value> = all.iter().map(describe).collect();
        say_json(&json!({ "snapshots": snapshots, "cost": session.cost_json() }))?;
        return Ok(Outcome::Done);
    }
    if all.is_empty() {
        note!("no snapshots in {}", session.node.repository().url());
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&["snapshot", "taken", "files>", "bytes>", "stored>", "from", "consistency"]);
    for snapshot in &all {
        table.row(vec![
            snapshot.name().to_string(),
            show_time(snapshot.started_ms),
            snapshot.totals.files.to_string(),
            show_bytes(snapshot.totals.bytes),
            show_bytes(snapshot.totals.stored_bytes),
            origin(snapshot),
            consistency(snapshot.consistency).to_owned(),
        ]);
    }
    say!("{table}")?;
    session.note_cost(config);
    Ok(Outcome::Done)
}

/// Where a snapshot is from, which those that are encrypted do not tell.
fn origin(snapshot: &Snapshot) -> String {
    match snapshot.key {
        Some(key) => format!("encrypted ({key})"),
        None => printable(&format!("{}:{}", snapshot.host, snapshot.directory)),
    }
}

fn consistency(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Unchanged => "unchanged",
        Consistency::Frozen => "frozen",
        Consistency::Backup => "backup",
        Consistency::Changing => "changing",
    }
}

fn show_time(time_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(time_ms / 1_000 * 1_000)
        .map_or_else(|_| time_ms.to_string(), |time| time.to_string())
}

async fn show(config: &Config, name: &str, files: bool, key: Option<&Path>) -> Result<Outcome> {
    let session = Session::of(config.node()?).with_key(key)?;
    let snapshot = session.find(name).await?;
    let entries = if files { session.volumes.entries(&snapshot).await? } else { Vec::new() };
    if config.json {
        let mut document = describe(&snapshot);
        if files {
            document["entries"] = entries.iter().map(describe_entry).collect();
        }
        document["cost"] = session.cost_json();
        say_json(&document)?;
        return Ok(Outcome::Done);
    }
    let totals = &snapshot.totals;
    let mut table = Table::new(&["snapshot", &snapshot.name().to_string()]);
    for (what, value) in [
        ("id", snapshot.id.to_string()),
        ("from", origin(&snapshot)),
        ("encrypted", snapshot.key.map_or("no".to_owned(), |key| format!("with the key {key}"))),
        ("taken", show_time(snapshot.started_ms)),
        ("finished", show_time(snapshot.finished_ms)),
        ("consistency", consistency(snapshot.consistency).to_owned()),
        ("entries", totals.entries.to_string()),
        ("files", totals.files.to_string()),
        ("bytes of files", show_bytes(totals.bytes)),
        ("bytes of data", show_bytes(totals.data_bytes)),
        ("read for it", show_bytes(totals.read_bytes)),
        ("stored for it", show_bytes(totals.stored_bytes)),
        ("chunks stored whole", totals.chunks_full.to_string()),
        ("chunks stored as pages", totals.chunks_delta.to_string()),
    ] {
        table.row(vec![what.to_owned(), value]);
    }
    say!("{table}")?;
    entries.iter().try_for_each(|entry| say!("{}", entry_line(entry)))?;
    session.note_cost(config);
    Ok(Outcome::Done)
}

fn describe_entry(entry: &Entry) -> Value {
    let Entry { meta, node, .. } = entry;
    let (kind, bytes) = match node {
        Kind::Directory => ("directory", 0),
        Kind::File { bytes, .. } => ("file", *bytes),
        Kind::Symlink(_) => ("symlink", 0),
        Kind::HardLink(_) => ("hardlink", 0),
    };
    let mut document = json!({
        "path": entry.show(), "kind": kind, "bytes": bytes, "mode": format!("{:o}", meta.mode),
        "uid": meta.uid, "gid": meta.gid, "modified": modified(&meta.modified).to_string(),
    });
    if let Kind::Symlink(target) | Kind::HardLink(target) = node {
        document["target"] = json!(String::from_utf8_lossy(target));
    }
    document
}

/// A line as of `ls -l`: kind and permissions, owner, group, size, time of modification, path.
fn entry_line(entry: &Entry) -> String {
    let Entry { meta, node, .. } = entry;
    let (kind, bytes, of, target) = match node {
        Kind::Directory => ('d', 0, "", &[][..]),
        Kind::File { bytes, .. } => ('-', *bytes, "", &[][..]),
        Kind::Symlink(target) => ('l', 0, " -> ", target.as_slice()),
        Kind::HardLink(target) => ('h', 0, " link to ", target.as_slice()),
    };
    format!(
        "{kind}{} {:>5} {:>5} {bytes:>12} {:.0} {}{of}{}",
        meta.permissions(),
        meta.uid,
        meta.gid,
        modified(&meta.modified),
        printable(&entry.show()),
        printable(&String::from_utf8_lossy(target)),
    )
}

fn modified(time: &Time) -> jiff::Timestamp {
    let nanos = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let last = if nanos < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    jiff::Timestamp::from_nanosecond(nanos).unwrap_or(last)
}

async fn diff(config: &Config, older: &str, newer: &str, key: Option<&Path>) -> Result<Outcome> {
    let session = Session::of(config.node()?).with_key(key)?;
    let (older, newer) = (session.find(older).await?, session.find(newer).await?);
    let differences = session.volumes.diff(&older, &newer).await?;
    if config.json {
        say_json(&json!({
            "older": older.name().to_string(), "newer": newer.name().to_string(),
            "differences": differences, "cost": session.cost_json(),
        }))?;
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&["", "changed chunks>", "path"]);
    for difference in &differences {
        let change = match difference.change {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Modified => "modified",
            Change::Metadata => "metadata",
        };
        let bytes = if difference.bytes > 0 { show_bytes(difference.bytes) } else { String::new() };
        table.row(vec![change.to_owned(), bytes, printable(&difference.path)]);
    }
    if differences.is_empty() {
        note!("no difference");
    } else {
        say!("{table}")?;
    }
    session.note_cost(config);
    Ok(Outcome::Done)
}

async fn verify(config: &Config, names: &[String], key: Option<&Path>) -> Result<Outcome> {
    let session = Session::of(config.node()?).with_key(key)?;
    let mut snapshots = Vec::new();
    for name in names {
        snapshots.push(session.find(name).await?);
    }
    if names.is_empty() {
        snapshots = session.volumes.list().await?;
    }
    let bar = byte_progress(None, "read");
    let show = |read, total| {
        bar.set_length(total);
        bar.set_position(read);
    };
    let verified = session.volumes.verify(&snapshots, show).await;
    bar.finish_and_clear();
    let verified = verified?;
    if config.json {
        let mut document = json!(verified);
        document["cost"] = session.cost_json();
        say_json(&document)?;
    } else {
        say_faults(&verified.faults)?;
        for unread in &verified.unread {
            say!("{}: not read: {}", unread.snapshot, unread.what)?;
        }
        say!(
            "{}: {} ({}) are as they were written; {} found",
            show_count(verified.snapshots, "snapshot"),
            show_count(verified.chunks, "chunk"),
            show_bytes(verified.bytes),
            show_count(verified.faults.len() as u64, "fault")
        )?;
        if let Some(advice) = repair(&verified.faults) {
            note!("to repair data that the directory still has: {advice}");
        }
        session.note_cost(config);
    }
    let is_all_sound = verified.faults.is_empty() && verified.unread.is_empty();
    Ok(if is_all_sound { Outcome::Done } else { Outcome::Partial })
}

/// Names each damaged object and the files that need it.
fn say_faults(faults: &[VolumeFault]) -> Result<()> {
    let mut by_object: BTreeMap<(&str, &str), Vec<&VolumeFault>> = BTreeMap::new();
    for fault in faults {
        let object = fault.object.as_deref().unwrap_or_default();
        by_object.entry((&fault.snapshot, object)).or_default().push(fault);
    }
    for ((snapshot, object), faults) in by_object {
        let mut files: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for fault in &faults {
            let Some(file) = &fault.file else { continue };
            files.entry(file).or_default().extend(fault.offset);
        }
        let count = match files.len() as u64 {
            0 => String::new(),
            count => format!(" ({})", show_count(count, "file")),
        };
        let what = faults.first().map_or("", |fault| &fault.what);
        let object = if what.contains(object) { String::new() } else { format!("{object}: ") };
        say!("{snapshot}: {object}{}{count}", printable(what))?;
        for (file, mut offsets) in files {
            offsets.sort_unstable();
            let shown: Vec<String> = offsets.iter().take(OFFSETS_MAX).map(u64::to_string).collect();
            let more = match offsets.len().saturating_sub(OFFSETS_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            say!("  {} at {}{more}", printable(file), shown.join(", "))?;
        }
    }
    Ok(())
}

/// What to do about damaged packs. A pack that is gone needs no deletion.
fn repair(faults: &[VolumeFault]) -> Option<&'static str> {
    let of_packs =
        || faults.iter().filter(|fault| fault.object.as_ref().is_some_and(|o| o.ends_with(".pack")));
    match (of_packs().any(|fault| !fault.gone), of_packs().any(|fault| fault.gone)) {
        (true, false) => Some("delete the damaged packs, then take a snapshot of the volume"),
        (true, true) => {
            Some("delete the damaged packs that are still there, then take a snapshot of the volume")
        }
        (false, true) => Some("take a snapshot of the volume"),
        (false, false) => None,
    }
}

async fn prune(config: &Config, given: VolumePrune) -> Result<Outcome> {
    let session = Session::of(config.node()?);
    let wanted = Prune {
        remove: given.snapshots.iter().map(|name| whole_name(name)).collect::<Result<_>>()?,
        keep_last: given.keep.keep_last,
        keep_daily: given.keep.keep_daily,
        keep_weekly: given.keep.keep_weekly,
        keep_monthly: given.keep.keep_monthly,
        volume: given.name.as_deref().map(str::parse).transpose()?,
        retain_ms: milliseconds(given.retain_hours)?,
        abandoned_ms: milliseconds(given.abandoned_hours)?,
        dry_run: given.dry_run,
    };
    let pruned = session.volumes.prune(&wanted).await?;
    if config.json {
        let mut document = json!(pruned);
        document["cost"] = session.cost_json();
        say_json(&document)?;
        return Ok(Outcome::Done);
    }
    let would = if pruned.dry_run { "would be " } else { "" };
    if pruned.decisions.is_empty() {
        pruned.removed.iter().try_for_each(|name| say!("{would}removed {name}"))?;
    } else {
        let mut table = Table::new(&["snapshot", "taken", "", "why"]);
        for of in &pruned.decisions {
            let decision = if of.stays { "keep" } else { "remove" };
            let taken = show_time(of.started_ms);
            table.row(vec![of.snapshot.clone(), taken, decision.to_owned(), of.reasons.join(", ")]);
        }
        say!("{table}")?;
        let told = |name: &&String| pruned.decisions.iter().any(|of| of.snapshot == **name);
        let others = pruned.removed.iter().filter(|name| !told(name));
        others.into_iter().try_for_each(|name| say!("{would}removed {name}"))?;
    }
    for name in &pruned.needed {
        say!("{name} stays: a snapshot that is being written builds on it")?;
    }
    if pruned.abandoned > 0 {
        say!("{} {would}given up", show_count(pruned.abandoned, "unfinished snapshot"))?;
    }
    say!(
        "{} ({}) {would}deleted; kept for now, of removed snapshots: {} ({})",
        show_count(pruned.deleted.len() as u64, "object"),
        show_bytes(pruned.deleted_bytes),
        show_count(pruned.retained, "object"),
        show_bytes(pruned.retained_bytes)
    )?;
    session.note_cost(config);
    Ok(Outcome::Done)
}

/// The name of one snapshot: a volume's newest is never removed by mistake.
fn whole_name(name: &str) -> Result<SnapshotName> {
    let parsed: SnapshotName = name.parse()?;
    if parsed.number.is_none() {
        bail!("{name} is a volume: name a snapshot such as {name}@3, or use --name {name} --keep-last N");
    }
    Ok(parsed)
}

fn milliseconds(hours: f64) -> Result<i64> {
    if !(0.0..=1e6).contains(&hours) {
        bail!("{hours} is not a number of hours");
    }
    Ok((hours * HOUR_MS) as i64)
}

async fn restore(config: &Config, given: VolumeRestore, key: Option<&Path>) -> Result<Outcome> {
    let tablespaces = given.tablespaces.iter().map(|given| mapping(given)).collect::<Result<_>>()?;
    let selection = Selection {
        include: patterns("--include", &given.include)?,
        exclude: patterns("--exclude", &given.exclude)?,
    };
    let directory = given.directory.as_path();
    let session = Session::of(config.node()?).with_key(key)?;
    let snapshot = session.find(&given.snapshot).await?;
    let cancel = Arc::new(AtomicBool::new(false));
    let options =
        RestoreOptions { tablespaces, selection, cancel: Arc::clone(&cancel), ..RestoreOptions::default() };
    let bar = byte_progress(None, "in place");
    let stopping = tokio::spawn(stop_on_signals(cancel));
    let show = |at: frostline_volume::RestoreProgress| {
        bar.set_length(at.bytes);
        bar.set_position(at.done_bytes);
    };
    let restored = session.volumes.restore(&snapshot, directory, &options, show).await;
    stopping.abort();
    bar.finish_and_clear();
    let restored = restored?;
    let outcome = if restored.faults.is_empty() { Outcome::Done } else { Outcome::Partial };
    if config.json {
        say_json(&json!({
            "snapshot": snapshot.name().to_string(), "directory": directory.display().to_string(),
            "include": given.include, "exclude": given.exclude,
            "entries": restored.entries, "files": restored.files,
            "written_bytes": restored.written_bytes, "found_bytes": restored.found_bytes,
            "owners_not_set": restored.owners_not_set, "set_ids_not_set": restored.set_ids_not_set,
            "attributes_not_set": restored.attributes_not_set,
            "faults": restored.faults,
            "tablespaces": restored.tablespaces.iter().map(|of| json!({
                "number": of.number, "location": of.location, "directory": of.directory.display().to_string(),
            })).collect::<Vec<_>>(),
            "cost": session.cost_json(),
        }))?;
        return Ok(outcome);
    }
    let is_partial = if restored.faults.is_empty() { "" } else { ", without the damaged files" };
    let what = match restored.entries < snapshot.totals.entries {
        true => format!(
            "{} of the {} entries of {} are",
            restored.entries,
            snapshot.totals.entries,
            snapshot.name()
        ),
        false => format!("{} is", snapshot.name()),
    };
    say!(
        "{what} in {}{is_partial}: {} written, {} found in place",
        directory.display(),
        show_bytes(restored.written_bytes),
        show_bytes(restored.found_bytes)
    )?;
    say_faults(&restored.faults)?;
    if !restored.faults.is_empty() {
        note!(
            "the restore is not complete: run it again once these objects are back. To do without these files, remove \
             {}/.frostline-restore, but only if the last run ended with status 3, as this one did",
            directory.display()
        );
    }
    for Tablespace { number, location, directory } in &restored.tablespaces {
        say!("tablespace {number}, which was in {}, is in {}", printable(location), directory.display())?;
    }
    for (count, what) in [
        (restored.owners_not_set, "owner"),
        (restored.set_ids_not_set, "set-user-ID or set-group-ID mode"),
        (restored.attributes_not_set, "extended attribute"),
    ] {
        if count > 0 {
            note!("{} could not be set: run as root on a file system that has them", show_count(count, what));
        }
    }
    if snapshot.consistency == Consistency::Changing {
        note!("the directory changed while this snapshot was taken: files may be of different moments");
    }
    session.note_cost(config);
    Ok(outcome)
}

/// A tablespace and its directory, as `OLD=NEW`. A backslash precedes `=` in a path.
fn mapping(given: &str) -> Result<TablespaceMapping> {
    let parts = given.match_indices('=').find(|(at, _)| !given[..*at].ends_with('\\'));
    let parts = parts.map(|(at, _)| (&given[..at], &given[at + 1..]));
    let (old, new) = parts
        .filter(|(old, new)| !old.is_empty() && !new.is_empty())
        .with_context(|| format!("--tablespace {given:?} is not OLD=NEW, such as /ssd/space=/srv/space"))?;
    let path = |text: &str| text.replace("\\=", "=").into();
    Ok(TablespaceMapping { old: path(old), new: path(new) })
}

async fn mount(config: &Config, given: VolumeMount, key: Option<&Path>) -> Result<Outcome> {
    outlive_the_terminal()?;
    let session = Session::of(config.node()?).with_key(key)?;
    let rate = given.rate.as_deref().map(parse_bytes).transpose().context("--rate")?;
    if rate == Some(0) {
        bail!("--rate 0 fetches nothing: use --no-hydrate");
    }
    let mode = match given.mode {
        // The kernel lets programs read zeros when both processes of the other one are killed.
        args::MountMode::Auto | args::MountMode::Fuse => MountMode::Fuse,
        args::MountMode::Fanotify => MountMode::Fanotify,
    };
    let options = MountOptions {
        mode,
        guardian: ["volume", "guard"].map(std::ffi::OsString::from).to_vec(),
        hydrate: !given.no_hydrate,
        rate,
        ..MountOptions::default()
    };
    let mount = session.volumes.mount(&given.snapshot.parse()?, &given.directory, &options).await?;
    let (snapshot, mounted) = match mount {
        Mount::Mounted(mounted) => (mounted.snapshot().clone(), Some(mounted)),
        Mount::Whole(snapshot) => (*snapshot, None),
    };
    let directory = given.directory.display().to_string();
    let said = if config.json {
        say_json(&json!({
            "snapshot": snapshot.name().to_string(), "directory": directory, "is_whole": mounted.is_none(),
            "cost": session.cost_json(),
        }))
    } else if mounted.is_some() {
        say!("{} is mounted on {directory}", snapshot.name())
    } else {
        say!("{} is in {directory}: all of its data was there, so nothing is mounted", snapshot.name())
    };
    if let Some(mounted) = &mounted {
        // Whoever reads this may be gone. The mount is for others.
        if let Some(newer) = mounted.newer() {
            note!(
                "this goes on with the incomplete mount of {}; {newer} is newer: mount that on another directory",
                snapshot.name()
            );
        }
    } else {
        said?;
    }
    if snapshot.consistency == Consistency::Changing {
        note!("the directory changed while this snapshot was taken: files may be of different moments");
    }
    session.note_cost(config);
    if let Some(mounted) = mounted {
        serve(*mounted, &given.directory).await?;
        session.note_cost(config);
    }
    Ok(Outcome::Done)
}

/// Serves a mount until somebody unmounts it; a signal does, but not the end of the terminal.
async fn serve(mounted: Mounted, shown: &Path) -> Result<()> {
    let directory = mounted.directory().clone();
    let is_stopping = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_stopping);
    let stopping = tokio::spawn(async move {
        let Ok(mut stops) = Stops::beyond_the_terminal() else { return };
        loop {
            stops.next().await;
            asked.store(true, Ordering::Relaxed);
            if let Err(error) = frostline_volume::unmount_snapshot(&directory).await {
                note!("{}", told(&error));
            }
        }
    });
    let bar = byte_progress(None, "in place");
    let show = |status: &MountStatus| {
        bar.set_length(status.bytes);
        bar.set_position(status.done_bytes);
        bar.set_message(show_demand(status));
        if status.is_whole && status.mode == MountMode::Fuse && !bar.is_finished() {
            bar.finish_and_clear();
            note!(
                "all data is in place: frostline volume umount {} leaves an ordinary directory",
                status.directory
            );
        }
    };
    let unmounted = mounted.serve(show).await;
    stopping.abort();
    bar.finish_and_clear();
    let unmounted = unmounted?;
    // In the background, the command that unmounted it says the same at the same terminal.
    if is_stopping.load(Ordering::Relaxed) || !is_in_background() {
        note_unmounted(shown, unmounted)?;
    }
    Ok(())
}

fn show_demand(status: &MountStatus) -> String {
    let damaged = match status.damaged_chunks {
        0 => String::new(),
        damaged => format!(", {} cannot be read", show_count(damaged, "chunk")),
    };
    let filling = status.filling.map_or_else(String::new, |stage| format!("; now {}", stage_name(stage)));
    format!("{} hits, {} misses{damaged}{filling}", status.demand_hits, status.demand_misses)
}

/// What is filled, for people.
fn stage_name(stage: FillStage) -> &'static str {
    match stage {
        FillStage::Start => "what the server starts with",
        FillStage::Autoprewarm => "autoprewarm.blocks",
        FillStage::Trace => "what earlier mounts read first",
        FillStage::Rest => "all else",
    }
}

fn show_order(status: &MountStatus) -> String {
    let shown: Vec<String> = status
        .order
        .iter()
        .map(|part| format!("{} ({})", stage_name(part.stage), show_bytes(part.bytes)))
        .collect();
    if shown.is_empty() { "not known".to_owned() } else { shown.join(", ") }
}

fn note_unmounted(directory: &Path, unmounted: Unmounted) -> Result<()> {
    let shown = directory.display();
    match unmounted {
        Unmounted::Whole => note!("{shown} is an ordinary directory"),
        Unmounted::Incomplete => {
            let status = frostline_volume::mount_status(directory)?;
            note!(
                "{shown} is not complete: {} absent; run frostline volume mount {} {shown} to go on",
                show_bytes(status.bytes.saturating_sub(status.done_bytes)),
                status.snapshot
            );
        }
    }
    Ok(())
}

async fn umount(config: &Config, directory: &Path) -> Result<Outcome> {
    let unmounted = frostline_volume::unmount_snapshot(directory).await?;
    let shown = directory.display().to_string();
    if config.json {
        say_json(&json!({ "directory": shown, "is_whole": unmounted == Unmounted::Whole }))?;
    } else {
        note_unmounted(directory, unmounted)?;
    }
    Ok(Outcome::Done)
}

fn status(config: &Config, directory: &Path) -> Result<Outcome> {
    let status = frostline_volume::mount_status(directory)?;
    if config.json {
        say_json(&status)?;
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&["snapshot", &status.snapshot]);
    for (what, value) in status_rows(&status) {
        table.row(vec![what.to_owned(), value]);
    }
    say!("{table}")?;
    Ok(Outcome::Done)
}

fn status_rows(status: &MountStatus) -> Vec<(&'static str, String)> {
    let damaged = match status.damaged_chunks {
        damaged if damaged > 0 && !status.is_whole => {
            Some(format!("{} cannot be read", show_count(damaged, "chunk")))
        }
        _ => None,
    };
    let left = match (&damaged, status.eta_s) {
        _ if status.is_whole => "nothing".to_owned(),
        (Some(damaged), _) => format!("never: {damaged}"),
        (None, eta) => eta.map_or_else(|| "not known".to_owned(), |s| plan::duration(s as f64)),
    };
    let served = if status.is_served { "yes" } else { "no: mount it again" };
    let mut rows = vec![
        ("mounted", served.to_owned()),
        ("with", if status.mode == MountMode::Fuse { "fuse" } else { "fanotify" }.to_owned()),
        ("in place", format!("{} of {}", show_bytes(status.done_bytes), show_bytes(status.bytes))),
        ("whole", if status.is_whole { "yes" } else { "no" }.to_owned()),
        ("a second", show_bytes(status.bytes_per_s)),
        ("left", left),
        ("reads and writes that found their data", status.demand_hits.to_string()),
        ("those that waited for it", status.demand_misses.to_string()),
        ("chunks that cannot be read", status.damaged_chunks.to_string()),
        ("filled in this order", show_order(status)),
    ];
    rows.extend(status.filling.map(|stage| ("filled now", stage_name(stage).to_owned())));
    let trouble = status.trouble.as_deref().map(printable);
    let pause = trouble.or_else(|| damaged.filter(|_| status.is_served && status.filling.is_none()));
    rows.extend(pause.map(|why| ("filling pauses because", why)));
    rows
}

fn plan_restore(config: &Config, given: VolumePlan) -> Result<Outcome> {
    let size = parse_bytes(&given.size).context("--size")?;
    let rate = given.write_rate.as_deref().map(parse_bytes).transpose().context("--write-rate")?;
    let plan = plan::plan(RestoreQuestion {
        size_gib: size as f64 / (1_u64 << 30) as f64,
        zones: given.az,
        copies: given.copies,
        region: given.region,
        write_mib_per_s: rate.map(|rate| rate as f64 / (1_u64 << 20) as f64),
    })?;
    if let Some(path) = &given.html {
        std::fs::write(path, plan::page(&plan))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if config.json {
        say_json(&plan)?;
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&["way", "ready>", "full speed>", "US dollars>", ""]);
    for way in &plan.options {
        let of_possible = |known: Option<String>, unknown: &str| match way.ready_s {
            Some(_) => known.unwrap_or_else(|| unknown.to_owned()),
            None => String::new(),
        };
        table.row(vec![
            way.name.clone(),
            way.ready_s.map_or_else(|| "impossible".to_owned(), plan::duration),
            of_possible(way.full_speed_s.map(plan::duration), "not published"),
            of_possible(way.usd.map(plan::dollars), "not known"),
            way.note.clone(),
        ]);
    }
    say!("{table}")?;
    for way in plan.options.iter().filter(|way| !way.copies_s.is_empty()) {
        let times: Vec<String> = way.copies_s.iter().take(NAMED_MAX).map(|s| plan::duration(*s)).collect();
        say!("{}, volumes of a zone at full speed one after the other: {}", way.name, times.join(", "))?;
        if let Some(usd) = way.usd_per_day {
            say!("{}, left on: ${} a day", way.name, plan::dollars(usd))?;
        }
    }
    note!("constants and prices: {} ({})", plan.catalogue, plan.checked);
    Ok(Outcome::Done)
}
