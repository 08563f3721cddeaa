//! Tablespaces of PostgreSQL in a snapshot, and where they are restored.
//!
//! A snapshot has them inside of the server's directory, with links from where the server looks for them. So they are
//! restored there, unless the caller names another directory: what a snapshot says never decides that.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use frostline_base::{Error, Result};
use frostline_store::Repository;

use crate::reader::{assemble, fetch};
use crate::scan;
use crate::snapshot::{TABLESPACE_LINKS, TABLESPACE_MAP};
use crate::tree::{Entry, Node, Tree};

/// No map is longer.
const MAP_BYTES_MAX: u64 = 1 << 20;

/// A tablespace that is restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tablespace {
    /// The number by which the server knows it.
    pub number: String,
    /// Where it was.
    pub location: String,
    /// Where it is.
    pub directory: PathBuf,
}

/// Where a tablespace is to be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablespaceMapping {
    /// Where it was, or its number.
    pub old: PathBuf,
    /// A directory that is new or empty.
    pub new: PathBuf,
}

/// A tablespace of a snapshot.
#[derive(Debug)]
pub(super) struct InSnapshot {
    number: String,
    location: Vec<u8>,
    /// Its directory in the tree.
    path: Vec<u8>,
}

/// A directory of the tree that is restored elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) path: Vec<u8>,
    pub(super) place: PathBuf,
    link: Vec<u8>,
}

/// The tablespaces of a snapshot.
pub(super) async fn read(repository: &Repository, tree: &Tree) -> Result<Vec<InSnapshot>> {
    let Some(entry) = find(tree, TABLESPACE_MAP.as_bytes()) else { return Ok(Vec::new()) };
    let Node::File { bytes, chunks, .. } = &entry.node else { return Ok(Vec::new()) };
    if *bytes > MAP_BYTES_MAX {
        return Err(Error::corrupt("a snapshot has more tablespaces than a server").with("bytes", bytes));
    }
    let chunks = &tree.chunks[chunks.clone()];
    let pieces = fetch(repository, &tree.packs, chunks.iter()).await?;
    let mut map = Vec::new();
    for chunk in chunks {
        map.extend(assemble(tree.key.as_ref(), &tree.packs, chunk, &pieces)?);
    }
    let in_tree = |(number, location): (String, Vec<u8>)| {
        let link = find(tree, format!("{TABLESPACE_LINKS}/{number}").as_bytes())?;
        let Node::Symlink(target) = &link.node else { return None };
        let path = target.strip_prefix(b"../")?.to_vec();
        let is_there = find(tree, &path).is_some_and(|entry| entry.node == Node::Directory);
        is_there.then_some(InSnapshot { number, location, path })
    };
    Ok(lines(&map).into_iter().filter_map(in_tree).collect())
}

/// The lines of a map: a number, and a path in which a backslash precedes a backslash or an end of line.
fn lines(map: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut lines = vec![Vec::new()];
    let mut bytes = map.iter();
    while let Some(byte) = bytes.next() {
        let (byte, is_escaped) = match byte {
            b'\\' => (bytes.next().unwrap_or(byte), true),
            byte => (byte, false),
        };
        match lines.last_mut() {
            Some(line) if is_escaped || *byte != b'\n' => line.push(*byte),
            _ => lines.push(Vec::new()),
        }
    }
    let parts = |line: Vec<u8>| {
        let space = line.iter().position(|byte| *byte == b' ')?;
        let number = std::str::from_utf8(&line[..space]).ok()?.parse::<u32>().ok()?;
        Some((number.to_string(), line[space + 1..].to_vec()))
    };
    lines.into_iter().filter_map(parts).collect()
}

pub(super) fn find<'a>(tree: &'a Tree, path: &[u8]) -> Option<&'a Entry> {
    let at = tree.entries.binary_search_by(|entry| entry.path.as_slice().cmp(path)).ok()?;
    tree.entries.get(at)
}

/// Where those tablespaces are restored that the caller has a place for.
pub(super) fn resolve(
    tablespaces: &[InSnapshot],
    selected: &Tree,
    directory: &Path,
    mappings: &[TablespaceMapping],
) -> Result<Vec<Moved>> {
    let mut moved: Vec<Moved> = Vec::new();
    for TablespaceMapping { old, new } in mappings {
        let is_meant = |of: &&InSnapshot| {
            old.as_os_str() == OsStr::new(&of.number) || old.as_os_str().as_bytes() == of.location
        };
        let found = tablespaces.iter().find(is_meant).ok_or_else(|| unknown(tablespaces, old))?;
        if !found.is_in(selected) {
            return Err(Error::invalid(format!(
                "--include and --exclude leave out the tablespace {}: change them, or leave out its --tablespace",
                old.display()
            )));
        }
        let (place, root) = (absolute(new)?, absolute(directory)?);
        if place.starts_with(&root) || root.starts_with(&place) {
            return Err(Error::invalid(format!(
                "{} must be outside of {} and must not contain it: name another directory, or leave out --tablespace to \
                 restore the tablespace inside",
                new.display(),
                directory.display()
            )));
        }
        let is_taken = |other: &Moved| {
            other.path == found.path || other.place.starts_with(&place) || place.starts_with(&other.place)
        };
        if moved.iter().any(is_taken) {
            return Err(Error::invalid(format!(
                "two tablespaces, or one of them twice, cannot be restored into {}: name a directory for each",
                new.display()
            )));
        }
        let link = format!("{TABLESPACE_LINKS}/{}", found.number).into_bytes();
        moved.push(Moved { path: found.path.clone(), place, link });
    }
    Ok(moved)
}

fn unknown(tablespaces: &[InSnapshot], old: &Path) -> Error {
    let named = |of: &InSnapshot| format!("{} ({})", of.number, String::from_utf8_lossy(&of.location));
    let all: Vec<String> = tablespaces.iter().map(named).collect();
    let all = if all.is_empty() { "no tablespaces".to_owned() } else { all.join(", ") };
    Error::invalid(format!("the snapshot has no tablespace {}: it has {all}", old.display()))
}

/// The one name of what may not be there yet.
fn absolute(path: &Path) -> Result<PathBuf> {
    if let Ok(there) = std::fs::canonicalize(path) {
        return Ok(there);
    }
    let absolute = std::path::absolute(path).map_err(|e| scan::failed("find", path, &e))?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = std::fs::canonicalize(parent).map_err(|e| scan::failed("find", parent, &e))?;
            Ok(parent.join(name))
        }
        _ => Ok(absolute),
    }
}

/// Has the server's links lead to where its tablespaces are restored.
pub(super) fn relink(tree: &mut Tree, moved: &[Moved]) {
    for entry in &mut tree.entries {
        if let Some(moved) = moved.iter().find(|moved| moved.link == entry.path) {
            entry.node = Node::Symlink(moved.place.as_os_str().as_bytes().to_vec());
        }
    }
}

impl InSnapshot {
    pub(super) fn is_in(&self, tree: &Tree) -> bool {
        find(tree, &self.path).is_some()
    }

    /// As the caller sees it.
    pub(super) fn shown(&self, directory: &Path, moved: &[Moved]) -> Tablespace {
        let elsewhere = moved.iter().find(|moved| moved.path == self.path);
        Tablespace {
            number: self.number.clone(),
            location: String::from_utf8_lossy(&self.location).into_owned(),
            directory: elsewhere
                .map_or_else(|| scan::below(directory, &self.path), |moved| moved.place.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
