//! Repositories made before there was a repository log: what lies in their folders becomes its first entry.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;

use frostline_base::{ErrorKind, IndexName, Result};
use frostline_commits::objects;

use super::{AT_ONCE, Shared};
use crate::actions::Commit;
use crate::repository_log::{LogEntry, Record, Registry};

impl Shared {
    /// The newest state of the repository log. Where there is none, the log is begun with the indices that are there.
    pub(crate) async fn registry(&self) -> Result<Arc<Registry>> {
        match self.repository_log.read().await? {
            Some(registry) => Ok(registry),
            None => self.repository_log.begin(self.adopt().await?).await,
        }
    }

    /// The newest state of the repository log, or what it would begin with. Writes nothing.
    pub(super) async fn registry_as_read(&self) -> Result<Arc<Registry>> {
        if let Some(registry) = self.repository_log.read().await? {
            return Ok(registry);
        }
        let mut registry = Registry::default();
        registry.apply(&self.adopt().await?)?;
        Ok(Arc::new(registry))
    }

    /// The entry that names every table that lies in a folder of its own. One LIST for the folders; for each, one
    /// LIST and one GET.
    async fn adopt(&self) -> Result<LogEntry> {
        let root = Path::default();
        let found = self.store.list_with_delimiter(None).await.map_err(|e| objects::failed(e, &root))?;
        let names =
            found.common_prefixes.iter().filter_map(|folder| folder.filename()?.parse::<IndexName>().ok());
        let looks = names.collect::<BTreeSet<_>>().into_iter().map(|name| self.look_at(name));
        let found: Vec<Option<Record>> = futures::stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
        let mut entry = self.entry("adopt");
        entry.puts = found.into_iter().flatten().collect();
        Ok(entry)
    }

    async fn look_at(&self, name: IndexName) -> Result<Option<Record>> {
        let log = self.table(&name, name.as_str());
        let listing = log.commits.list_from(0).await?;
        let newest = match listing.newest() {
            None => None,
            Some(version) => match log.commits.entry(version).await {
                // A commit that cannot be read is an index in need of repair, not an absent one.
                Err(e) if e.kind() == ErrorKind::Corrupt => None,
                read => read?,
            },
        };
        let table = newest.as_ref().and_then(Commit::table_id).map(str::to_owned);
        let begins = listing.entries.contains_key(&0) || listing.checkpoint().is_some();
        if begins && !newest.is_some_and(|newest| newest.drops_index()) {
            return self.live(&name, table, name.as_str()).map(Some);
        }
        // What is left of a deletion that was cut short: deleting again finishes it.
        (!listing.is_empty()).then(|| self.retired(&name, table, name.as_str(), false)).transpose()
    }
}
