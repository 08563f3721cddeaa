//! One shared fetch for all readers that want the same pages at the same time.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::Error;
use tokio::sync::watch;

/// Bytes of pages, by page number.
pub(crate) type Pages = HashMap<u64, Bytes>;

/// A fetch in progress.
#[derive(Debug)]
pub(crate) struct Flight(watch::Sender<Option<Landing>>);

/// How a fetch ended.
#[derive(Clone, Debug)]
pub(crate) enum Landing {
    /// The pages.
    Here(Arc<Pages>),
    /// The fetch failed. Waiting readers fail with it; later readers try again.
    Failed(Error),
    /// The fetching reader was cancelled. Waiting readers fetch for themselves.
    Abandoned,
}

impl Flight {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Flight(watch::Sender::new(None)))
    }

    /// Notifies all waiting readers; only the first call has an effect.
    pub(crate) fn land(&self, landing: Landing) {
        self.0.send_if_modified(|state| {
            let first = state.is_none();
            if first {
                *state = Some(landing);
            }
            first
        });
    }

    pub(crate) async fn landed(&self) -> Landing {
        let mut receiver = self.0.subscribe();
        match receiver.wait_for(Option::is_some).await {
            Ok(state) => state.clone().unwrap_or(Landing::Abandoned),
            Err(_) => Landing::Abandoned,
        }
    }
}
