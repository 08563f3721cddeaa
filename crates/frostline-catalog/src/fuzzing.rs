//! Entry points for fuzzers: decoders of the log. Any bytes must give a value or an error.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{IndexName, Result};
use frostline_commits::Entry as _;
use object_store::path::Path;

use crate::actions::Commit;
use crate::checkpoint::Writer;
use crate::repository_log::{self, LogEntry, Registry};
use crate::state::{Base, State};
use crate::{checkpoint, expression};

/// Commit files of the versions from 0 on, parted by blank lines, and the state after them. What was
/// read and is written again is read as the same.
pub fn commits(bytes: &[u8]) {
    let folder = Path::from("logs");
    let text = String::from_utf8_lossy(bytes);
    let files = text.split("\n\n").zip(0..);
    let commits: Result<Vec<Commit>> =
        files.map(|(file, version)| Commit::parse(version, "commit", file.as_bytes())).collect();
    let Ok(commits) = commits else { return };
    for commit in &commits {
        let written = commit.render().map(|written| Commit::parse(commit.version, "commit", &written));
        assert!(matches!(written, Ok(Ok(again)) if again.adds.len() == commit.adds.len()));
    }
    let Ok(state) = State::replay(&folder, Base::default(), &commits) else { return };
    let _ = state.protocol.check_writable();
    assert!(state.splits.iter().all(|(id, _)| state.splits.get(id).is_some()));
    // The same commits once more change nothing that is live.
    let again = state.after(&folder, &commits);
    assert!(again.is_ok_and(|again| again.splits == state.splits && again.foreign == state.foreign));
}

/// A checkpoint object. The Parquet reader may panic, which the caller must catch. The checkpoint that is written from
/// one that can be read is read as the same.
pub fn checkpoint(bytes: &[u8]) {
    let folder = Path::from("logs");
    let path = Path::from("checkpoint");
    let objects = [(path.clone(), Bytes::copy_from_slice(bytes))];
    let written = std::panic::catch_unwind(|| {
        let _ = checkpoint::read_removed(&objects);
        let base = checkpoint::read(&folder, 1, &objects).ok()?;
        let state = Arc::new(State::replay(&folder, base, &[]).ok()?);
        let mut writer = Writer::new(Arc::clone(&state), 0).ok()?;
        objects.iter().try_for_each(|(path, bytes)| writer.take_checkpoint(path, bytes)).ok()?;
        Some((state, writer.finish().ok()?.0))
    });
    let Ok(Some((state, bytes))) = written else { return };
    let again = checkpoint::read(&folder, 1, &[(path, bytes)]);
    assert!(again.is_ok_and(|again| again.splits == state.splits && again.foreign == state.foreign));
}

/// An object of the repository log: an entry, or a checkpoint. What was read as an entry and is written again is read as
/// the same.
pub fn repository_log(bytes: &[u8]) {
    let objects = [(Path::from("checkpoint"), Bytes::copy_from_slice(bytes))];
    let _ = repository_log::read_checkpoint(1, &objects);
    let Ok(entry) = LogEntry::decode(0, "entry", bytes) else { return };
    let again = entry.encode().and_then(|written| LogEntry::decode(0, "entry", &written));
    assert!(again.is_ok_and(|again| again == entry));
    let mut registry = Registry::default();
    if registry.apply(&entry).is_ok() {
        let records = registry.records();
        assert!(records.is_ok_and(|records| records.len() <= entry.puts.len()));
    }
}

/// An index expression.
pub fn expression(text: &str, now_us: i64) {
    let names: Vec<IndexName> =
        ["logs-1", "logs-2024.03.22", "web"].iter().filter_map(|name| name.parse().ok()).collect();
    let indices: BTreeSet<&IndexName> = names.iter().collect();
    let aliases = names.first().zip(names.last());
    let aliases = aliases.map(|(first, last)| (first, vec![last])).into_iter().collect();
    let names = expression::Names { indices, standing_for: aliases, ..expression::Names::default() };
    let _ = expression::resolve(text, now_us, &names, expression::Resolve::default());
}

#[cfg(test)]
mod tests;
