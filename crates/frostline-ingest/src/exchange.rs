//! Exchanges what is beside the splits of an index, such as needle segments and packs, while other writers do so too.

use frostline_base::{ErrorKind, Result};
use frostline_catalog::{Change, FileEntry, Index};
use frostline_store::Repository;

/// Commits that are lost to other writers before it is left to the next run.
const CONFLICTS_MAX: u32 = 8;

/// Exchanges of one run.
pub(crate) struct Exchange<'r> {
    repository: &'r Repository,
    operation: &'static str,
    conflicts: u32,
}

impl<'r> Exchange<'r> {
    pub(crate) fn new(repository: &'r Repository, operation: &'static str) -> Self {
        Exchange { repository, operation, conflicts: 0 }
    }

    /// Puts an uploaded file in the place of others, in one commit. False where another writer was first: `index` is then as
    /// that left it, and the file is deleted.
    pub(crate) async fn commit(
        &mut self,
        index: &mut Index,
        added: Option<&FileEntry>,
        removed: Vec<FileEntry>,
    ) -> Result<bool> {
        let change = Change {
            files_add: added.into_iter().cloned().collect(),
            files_remove: removed,
            operation: self.operation.to_owned(),
            ..Change::default()
        };
        match index.commit(change).await {
            Ok(changed) => {
                *index = changed;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::Conflict && self.conflicts < CONFLICTS_MAX => {
                self.conflicts += 1;
                self.repository.delete(added.iter().map(|added| &added.object.key)).await?;
                *index = index.refresh().await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
