//! Threads for SQL, whose parser, planner and operators call themselves as deep as a query is nested: the stack of another
//! thread ends after a few dozen levels, and the process with it.

use std::io;
use std::thread::{self, Builder};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::Instrument;
use tracing::instrument::WithSubscriber;

use crate::{Error, Result};

/// The stack of a thread that searches. Plans of SQL call themselves for each step and each level of a type, up to the limits
/// of queries. Only what is used takes memory.
pub const SEARCH_STACK_BYTES: usize = 64 << 20;
/// A level takes up to 300 KB where nothing is optimized. Only what is used takes memory, until the thread ends.
const STACK_BYTES: usize = 256 << 20;

/// Runs `work` on a thread of its own. It ends at its next step where nobody waits for it any more.
pub(crate) async fn on_own<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (mut tell, told) = oneshot::channel();
    let (runtime, work) = (Handle::current(), work.in_current_span().with_current_subscriber());
    let run = move || {
        let done = runtime.block_on(async {
            tokio::select! {
                done = work => Some(done),
                () = tell.closed() => None,
            }
        });
        // Whoever waited may have left by now.
        done.and_then(|done| tell.send(done).ok())
    };
    thread().spawn(run).map_err(no_thread)?;
    told.await.unwrap_or_else(|_| Err(failed()))
}

/// The same of what does not wait.
pub(crate) fn on_own_now<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let running = thread().spawn_scoped(scope, work).map_err(no_thread)?;
        running.join().unwrap_or_else(|_| Err(failed()))
    })
}

fn thread() -> Builder {
    Builder::new().name("sql".to_owned()).stack_size(STACK_BYTES)
}

fn no_thread(error: io::Error) -> Error {
    Error::exhausted("the query has no thread: try again later").with_source(error)
}

fn failed() -> Error {
    Error::internal("a part of the query failed unexpectedly")
}
