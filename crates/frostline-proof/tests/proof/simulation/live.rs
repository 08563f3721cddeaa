//! Clients that send documents to a process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use frostline_base::{Error, ErrorKind, Result};
use frostline_ingest::{Append, Appended, Live, LiveOptions, Outcome};
use frostline_split::Mapping;
use futures::future::join_all;
use parking_lot::{Mutex, MutexGuard};

use super::Actor;
use super::actors::index;
use super::tests::line;

/// Numbers of lines from here on are sent by clients.
const FIRST_LINE: i64 = 2_000_000;

/// A process and its clients, each of which sends its requests one after the other until one fails.
#[derive(Debug)]
pub(crate) struct Serve {
    pub(crate) clients: Vec<Vec<Arc<Sent>>>,
    /// A group closes when it has so many bytes.
    pub(crate) group_bytes: u64,
}

/// A request.
pub(crate) struct Sent {
    lines: Vec<i64>,
    /// One with a key may be sent again, also while it is under way.
    key: Option<String>,
    is_done: Mutex<bool>,
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}", self.lines, self.key)
    }
}

/// All requests that clients ever sent.
#[derive(Default)]
pub(crate) struct Requests {
    all: Vec<Arc<Sent>>,
    lines: i64,
}

impl Requests {
    /// A request of so many new lines.
    pub(crate) fn new_request(&mut self, lines: i64, has_key: bool) -> Arc<Sent> {
        let first = FIRST_LINE + self.lines;
        self.lines += lines;
        let request = Arc::new(Sent {
            lines: (first..first + lines).collect(),
            key: has_key.then(|| format!("request {first}")),
            is_done: Mutex::new(false),
        });
        self.all.push(Arc::clone(&request));
        request
    }

    /// The first request with a key that was not acknowledged.
    pub(crate) fn open_request(&self) -> Option<Arc<Sent>> {
        self.all.iter().find(|request| request.key.is_some() && !*request.is_done()).cloned()
    }
}

impl Sent {
    fn is_done(&self) -> MutexGuard<'_, bool> {
        self.is_done.lock()
    }
}

impl Actor {
    /// Takes what clients send until all have sent everything, or failed.
    pub(super) async fn serve(&self, serve: &Serve) -> Result<()> {
        let repository = self.repository();
        let options = LiveOptions {
            group_after: Duration::ZERO,
            group_bytes: serve.group_bytes,
            key_retention: Duration::MAX,
            ..LiveOptions::default()
        };
        let live = Live::new(&repository, &self.catalog(&repository), self.random(), options);
        let client = |requests: &Vec<Arc<Sent>>| {
            let (live, requests) = (live.clone(), requests.clone());
            async move {
                for request in requests {
                    self.send(&live, &request).await?;
                }
                Ok(())
            }
        };
        let ended: Vec<Result<()>> = join_all(serve.clients.iter().map(client)).await;
        live.close().await;
        if live.held_bytes() > 0 {
            return Err(Error::internal("what is held was answered"));
        }
        let failures = ended.into_iter().filter_map(Result::err);
        // That the store fails is no fault of the process.
        let worst =
            failures.min_by_key(|error| matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied));
        worst.map_or(Ok(()), Err)
    }

    async fn send(&self, live: &Live, request: &Sent) -> Result<()> {
        let began = self.ledger().begin(&request.lines);
        let append = Append {
            documents: request.lines.iter().map(|number| line(*number).into()).collect(),
            create: Some(Mapping::dynamic()),
            key: request.key.clone(),
        };
        let Appended { documents, .. } = live.append(&index(), append).await?;
        let ids = request.lines.iter().zip(&documents).filter_map(|(line, outcome)| match outcome {
            Outcome::Landed(id) => Some((*line, id.to_string())),
            Outcome::LandedBefore | Outcome::Refused(_) => None,
        });
        let refused = documents.iter().find(|outcome| matches!(outcome, Outcome::Refused(_)));
        if refused.is_some() || documents.len() != request.lines.len() {
            return Err(Error::internal(format!("{request:?} was answered with {documents:?}")));
        }
        let mut ledger = self.ledger();
        ledger.acknowledge(&request.lines, began);
        ledger.tell_ids(ids.collect(), began);
        *request.is_done() = true;
        Ok(())
    }
}
