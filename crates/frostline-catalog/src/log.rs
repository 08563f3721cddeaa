//! The Delta log of one index: its name and its folder.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;

use frostline_base::{IndexName, Result};
use frostline_commits::{CommitLog, Entry, Layout};

use crate::actions::Commit;

/// Delta's names. Few commits come between two refreshes of an index; more are listed.
const LAYOUT: Layout = Layout { checkpoint_ending: "parquet", steps_max: 3 };

/// The Delta log of one index.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) index: IndexName,
    /// The folder below the repository's root that holds the table.
    pub(crate) folder: Path,
    pub(crate) commits: CommitLog<Commit>,
}

impl Log {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, index: IndexName, folder: &str) -> Self {
        let commits = CommitLog::new(store, Path::from(format!("{folder}/_delta_log")), LAYOUT);
        Log { index, folder: Path::from(folder), commits }
    }

    /// The path below the folder that the table uses for a key.
    pub(crate) fn below<'a>(&self, path: &'a Path) -> &'a str {
        let below = path.as_ref().strip_prefix(self.folder.as_ref());
        below.map_or(path.as_ref(), |below| below.trim_start_matches('/'))
    }

    /// The object that an action's path names: other tools write the path as a URI.
    pub(crate) fn object(&self, path: &str) -> Path {
        Path::from(format!("{}/{}", self.folder, decoded(path)))
    }

    pub(crate) fn store(&self) -> &Arc<dyn ObjectStore> {
        self.commits.store()
    }
}

/// The path below the table that an action names: other tools write it as a URI.
pub(crate) fn decoded(path: &str) -> String {
    Path::from_url_path(path).map_or_else(|_| path.to_owned(), String::from)
}

impl Entry for Commit {
    fn decode(number: u64, key: &str, bytes: &[u8]) -> Result<Commit> {
        Commit::parse(number, key, bytes)
    }

    fn encode(&self) -> Result<Vec<u8>> {
        self.render()
    }

    fn id(&self) -> Option<&str> {
        Commit::id(self)
    }

    fn ends_log(&self) -> bool {
        self.drops_index()
    }
}
