//! Further files of an index, which are not splits, such as packs of hot footers or needle segments.
//!
//! The log names each with a `domainMetadata` action: `frostline.file/` and the file's path. Every writer of the
//! table must preserve such actions in checkpoints, a removal deletes them, and a commit costs only
//! what it changes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use object_store::path::Path;

use frostline_base::{Error, ObjectRef, Result, SplitId};

use crate::actions::DomainMetadata;

const DOMAIN: &str = "frostline.file/";
/// By Delta's rule, other tools ignore names that begin with an underscore.
const FOLDER: &str = "_files";

/// A further file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileEntry {
    /// Its identity: random, as a split's.
    pub id: SplitId,
    /// Its kind: 1 to 16 letters of a-z, the extension of its name.
    pub kind: String,
    /// Its object; the key is that of [`crate::Index::file_key`].
    pub object: ObjectRef,
    /// Data defined by its kind, such as the splits that it covers.
    pub about: Value,
}

/// What the log records about a file, in addition to its path.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    bytes: u64,
    about: Value,
}

/// The path of a further file's object below its index.
pub(crate) fn file_path(id: SplitId, kind: &str) -> String {
    let id = id.to_string();
    let hash = id.get(..2).unwrap_or_default();
    format!("{FOLDER}/{hash}/{id}.{kind}")
}

/// The identity and the kind that a path names, where it is that of a further file.
pub(crate) fn file_of_path(path: &str) -> Option<(SplitId, &str)> {
    let (id, kind) = path.strip_prefix(FOLDER)?.get(4..)?.split_once('.')?;
    let id: SplitId = id.parse().ok()?;
    (is_kind(kind) && file_path(id, kind) == path).then_some((id, kind))
}

fn is_kind(kind: &str) -> bool {
    (1..=16).contains(&kind.len()) && kind.bytes().all(|b| b.is_ascii_lowercase())
}

impl FileEntry {
    /// Its path below its index, by which the log knows it.
    pub(crate) fn path(&self) -> String {
        file_path(self.id, &self.kind)
    }

    /// Refuses an entry that the log cannot represent.
    pub(crate) fn check(&self, folder: &Path) -> Result<()> {
        let key = format!("{folder}/{}", self.path());
        if is_kind(&self.kind) && self.object.key == key {
            return Ok(());
        }
        Err(Error::invalid("a further file has another kind or key than its index gives it")
            .with("kind", &self.kind)
            .with("key", &self.object.key))
    }

    /// The action that names it.
    pub(crate) fn to_action(&self) -> Result<DomainMetadata> {
        let said = Said { bytes: self.object.bytes, about: self.about.clone() };
        let configuration = serde_json::to_string(&said)
            .map_err(|e| Error::internal("a further file cannot be written as JSON").with_source(e))?;
        Ok(DomainMetadata { domain: domain(&self.path()), configuration, removed: false })
    }
}

/// The action that removes the file of that path.
pub(crate) fn removal(path: &str) -> DomainMetadata {
    DomainMetadata { domain: domain(path), configuration: "{}".to_owned(), removed: true }
}

fn domain(path: &str) -> String {
    format!("{DOMAIN}{path}")
}

/// The path of the file that an action is about, and the file unless it was removed. `None` for a domain that is not ours.
pub(crate) fn read(
    folder: &Path,
    at: &str,
    action: &DomainMetadata,
) -> Result<Option<(String, Option<FileEntry>)>> {
    let Some(path) = action.domain.strip_prefix(DOMAIN) else { return Ok(None) };
    let corrupt = || {
        Error::corrupt("a further file's entry cannot be read")
            .with("object", at)
            .with("domain", &action.domain)
    };
    let (id, kind) = file_of_path(path).ok_or_else(corrupt)?;
    if action.removed {
        return Ok(Some((path.to_owned(), None)));
    }
    let said: Said = serde_json::from_str(&action.configuration).map_err(|e| corrupt().with_source(e))?;
    let object = ObjectRef { key: format!("{folder}/{path}"), bytes: said.bytes };
    let entry = FileEntry { id, kind: kind.to_owned(), object, about: said.about };
    Ok(Some((path.to_owned(), Some(entry))))
}

#[cfg(test)]
mod tests;
