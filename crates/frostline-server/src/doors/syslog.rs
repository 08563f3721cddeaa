//! Syslog over UDP, TCP and TLS.
//!
//! Messages of all clients wait in one [`Queue`] of bounded memory, from which a task stores them in batches. Where it is
//! full, TCP clients are not read from, and datagrams are dropped and counted. Nothing is acknowledged, as syslog has no way
//! to: what came over TCP is lost only if this process ends before it is stored.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use frostline_base::{Clock, Error};
use frostline_ingest::syslog::{Framer, Message, document};
use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UdpSocket;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::api::bulk;
use crate::api::names::{self, Required};
use crate::auth::Client;
use crate::doors::grpc::call;
use crate::error::Result;
use crate::scope::Privilege;
use crate::settings::Settings;
use crate::state::{Call, State};

/// What is read from a connection at once.
const READ_BYTES: usize = 16 << 10;
/// What a document takes while it waits besides its bytes.
const DOCUMENT_BYTES: usize = 256;
/// Documents that are stored together have about so many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// Batches that are stored at the same time.
const BATCHES_MAX: usize = 4;
/// How long it takes to try again after an error.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long closing a connection may take.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(1);
/// How often drops are logged.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Documents that wait to be stored.
#[derive(Clone)]
pub(crate) struct Queue {
    documents: mpsc::UnboundedSender<Waiting>,
    /// The memory that they may take, in bytes.
    room: Arc<Semaphore>,
    room_max: usize,
    clock: Arc<dyn Clock>,
    dropped: Arc<AtomicU64>,
}

/// A document and its share of the memory.
struct Waiting {
    document: Bytes,
    _room: OwnedSemaphorePermit,
}

/// What takes documents out of the queue.
pub(crate) struct Storer {
    documents: mpsc::UnboundedReceiver<Waiting>,
    state: Arc<State>,
}

/// A queue of its own memory, and what is to run for it until all queues of it are dropped.
pub(crate) fn queue(state: &Arc<State>) -> (Queue, Storer) {
    let (sender, documents) = mpsc::unbounded_channel();
    let room_max = state.settings.syslog_held_bytes_max;
    let queue = Queue {
        documents: sender,
        room: Arc::new(Semaphore::new(room_max)),
        room_max,
        clock: Arc::clone(state.node.clock()),
        dropped: Arc::default(),
    };
    (queue, Storer { documents, state: Arc::clone(state) })
}

impl Queue {
    /// The document of a message, and the memory that it takes.
    fn document(&self, message: &Message, peer: IpAddr) -> Option<(Bytes, u32)> {
        let document = document(message, peer, self.clock.now_us())?;
        let bytes = (document.len() + DOCUMENT_BYTES).min(self.room_max);
        Some((document.into(), u32::try_from(bytes).unwrap_or(u32::MAX)))
    }

    /// Puts a message into the queue once there is room.
    async fn put(&self, message: &Message, peer: IpAddr) {
        let Some((document, bytes)) = self.document(message, peer) else { return };
        // The semaphore is never closed, and the storer ends after every queue.
        if let Ok(room) = Arc::clone(&self.room).acquire_many_owned(bytes).await {
            let _ = self.documents.send(Waiting { document, _room: room });
        }
    }

    /// Puts a message into the queue if there is room, and else drops it.
    fn offer(&self, message: &Message, peer: IpAddr) {
        let Some((document, bytes)) = self.document(message, peer) else { return };
        match Arc::clone(&self.room).try_acquire_many_owned(bytes) {
            Ok(room) => drop(self.documents.send(Waiting { document, _room: room })),
            Err(_) => drop(self.dropped.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Takes the messages of a connection until it ends or the server stops, in which case what has come is kept.
pub(crate) async fn receive(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
    queue: Queue,
    mut stopped: watch::Receiver<()>,
    settings: &Settings,
) -> frostline_base::Result<()> {
    let mut framer = Framer::new(settings.syslog_message_bytes_max);
    let mut bytes = vec![0; READ_BYTES];
    let mut messages = Vec::new();
    let mut waits_until = Instant::now() + settings.syslog_idle_max;
    let ended = loop {
        let read = tokio::select! {
            // The sender says nothing: it is dropped.
            _ = stopped.changed() => break Ok(()),
            read = timeout_at(waits_until, stream.read(&mut bytes)) => read,
        };
        let read = match read {
            Ok(Ok(0)) => break Ok(()),
            Ok(Ok(read)) => bytes.get(..read).unwrap_or_default(),
            Ok(Err(error)) => break Err(Error::unavailable("the connection broke").with_source(error)),
            Err(_) => break Err(Error::unavailable("the client sent nothing for too long")),
        };
        let was_between = framer.is_between();
        let pushed = framer.push(read, &mut |message| messages.push(message));
        let is_whole = !messages.is_empty();
        for message in messages.drain(..) {
            queue.put(&message, peer.ip()).await;
        }
        if let Err(error) = pushed {
            break Err(error);
        }
        // A message that has begun has its time, however little of it comes at once.
        if framer.is_between() {
            waits_until = Instant::now() + settings.syslog_idle_max;
        } else if is_whole || was_between {
            waits_until = Instant::now() + settings.body_pause_max;
        }
    };
    if let Some(message) = framer.finish() {
        queue.put(&message, peer.ip()).await;
    }
    // TLS tells its client that this is the end; who does not take it is not waited for.
    let _ = timeout(CLOSE_TIME_MAX, stream.shutdown()).await;
    ended
}

/// Takes datagrams, a message each, until the server stops.
pub(crate) async fn receive_datagrams(socket: UdpSocket, queue: Queue, mut stopped: watch::Receiver<()>) {
    let mut bytes = vec![0; usize::from(u16::MAX)];
    let mut reported = Reported { at: Instant::now(), dropped: 0 };
    loop {
        let received = tokio::select! {
            _ = stopped.changed() => break,
            () = tokio::time::sleep_until(reported.at + REPORT_EVERY) => {
                reported.report(&queue, true);
                continue;
            }
            received = socket.recv_from(&mut bytes) => received,
        };
        match received {
            Ok((read, peer)) => {
                let bytes = bytes.get(..read).unwrap_or_default().to_vec();
                queue.offer(&Message { bytes, is_cut: false }, peer.ip());
                reported.report(&queue, false);
            }
            Err(error) => tracing::debug!(%error, "a datagram was not received"),
        }
    }
    reported.report(&queue, true);
}

/// Datagrams that were dropped, as far as that is logged.
struct Reported {
    at: Instant,
    dropped: u64,
}

impl Reported {
    /// Logs further drops: the first one at once, others from time to time.
    fn report(&mut self, queue: &Queue, is_due: bool) {
        let dropped = queue.dropped.load(Ordering::Relaxed);
        if dropped != self.dropped && (is_due || self.dropped == 0) {
            tracing::warn!(
                dropped = dropped - self.dropped,
                dropped_in_all = dropped,
                "syslog datagrams were dropped: more came than is stored in time"
            );
            (self.at, self.dropped) = (Instant::now(), dropped);
        } else if is_due {
            self.at = Instant::now();
        }
    }
}

impl Storer {
    /// Stores what comes, and returns once all queues are dropped and all that they had is stored.
    pub(crate) async fn run(mut self) {
        let mut batches = JoinSet::new();
        while let Some(first) = self.documents.recv().await {
            let (mut batch, mut bytes) = (vec![first], 0);
            while bytes < BATCH_BYTES
                && let Ok(next) = self.documents.try_recv()
            {
                bytes += next.document.len();
                batch.push(next);
            }
            if batches.len() >= BATCHES_MAX {
                batches.join_next().await;
            }
            batches.spawn(store(Arc::clone(&self.state), batch));
        }
        while batches.join_next().await.is_some() {}
    }
}

/// Stores a batch: what cannot be stored now is tried again, and a document that its index or a pipeline refuses is
/// dropped and logged.
async fn store(state: Arc<State>, batch: Vec<Waiting>) {
    let client = Client { user: "syslog".to_owned(), ..Client::anonymous() };
    let client = Client { scope: client.scope.to(Privilege::Write), ..client };
    let call = call(&state, client, HeaderMap::new());
    let mut left: Vec<Bytes> = batch.iter().map(|waiting| waiting.document.clone()).collect();
    while let Err(error) = try_store(&call, &mut left).await {
        let messages = left.len();
        tracing::warn!(reason = error.reason, messages, "syslog messages wait: they cannot be stored");
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Stores documents. After an error those are left that are to be tried again.
async fn try_store(call: &Call, left: &mut Vec<Bytes>) -> Result<()> {
    let index = &call.state.settings.syslog_index;
    // Where the index itself takes nothing, no document is at fault.
    let name = names::resolved(&call.state, index)?;
    names::target(&call.state, &call.client.scope, &name, Required::default()).await?;
    let mut outcomes = bulk::store(call, index, left.clone()).await?.into_iter();
    let (mut refused, mut why, mut later) = (0_u64, String::new(), None);
    left.retain(|_| match outcomes.next() {
        Some(Err(error)) if error.status.is_client_error() && error.try_again_s.is_none() => {
            if refused == 0 {
                why = error.reason;
            }
            refused += 1;
            false
        }
        Some(Err(error)) => {
            later = Some(error);
            true
        }
        Some(Ok(())) | None => false,
    });
    if refused > 0 {
        tracing::warn!(
            reason = why,
            messages = refused,
            "syslog messages were dropped: the index refuses them"
        );
    }
    later.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
