//! Changes the settings of an index.

use frostline_base::Result;
use frostline_catalog::{Change, Index, Settings};

/// The index with its settings as `set` leaves them. Commits nothing where that changes none.
pub(crate) async fn change(index: Index, set: impl FnOnce(&mut Settings)) -> Result<Index> {
    let mut settings = index.settings().clone();
    set(&mut settings);
    if settings == *index.settings() {
        return Ok(index);
    }
    let operation = "settings".to_owned();
    index.commit(Change { settings: Some(settings), operation, ..Change::default() }).await
}
