//! Where searches run: on threads of their own, so that connections are served meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use frostline_base::{Error, STAGE};
use frostline_query::SEARCH_STACK_BYTES;
use http::StatusCode;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tracing::{Instrument, info_span};

use crate::error::{ApiError, Result};
use crate::settings::Settings;

/// Threads for searches, with a limit of how many run at once and how many wait.
pub(crate) struct Searches {
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    /// One for each search that runs or waits.
    places: Arc<Semaphore>,
    /// One for each search that runs.
    turns: Arc<Semaphore>,
    places_max: usize,
    running_max: usize,
    refused: AtomicU64,
    tasks: Mutex<Tasks>,
}

/// The searches that run or wait, by number.
#[derive(Default)]
struct Tasks {
    begun: u64,
    open: BTreeMap<u64, Open>,
}

struct Open {
    task: Task,
    cancel: oneshot::Sender<()>,
}

/// A search that runs or waits.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) number: u64,
    /// The API's name.
    pub(crate) api: &'static str,
    /// What was asked for.
    pub(crate) about: String,
    /// The client's name of it.
    pub(crate) opaque_id: Option<String>,
    pub(crate) begun_us: i64,
    pub(crate) begun: Instant,
}

/// Takes a task off the list.
struct Listed<'a> {
    searches: &'a Searches,
    number: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.searches.list().open.remove(&self.number);
    }
}

impl Searches {
    pub(crate) fn new(settings: &Settings) -> frostline_base::Result<Searches> {
        let mut runtime = Builder::new_multi_thread();
        // A search that computes for long holds its thread: no other one waits for that.
        runtime.worker_threads(settings.searches_max.max(1));
        let runtime =
            runtime.thread_name("search").thread_stack_size(SEARCH_STACK_BYTES).enable_all().build();
        let runtime =
            runtime.map_err(|e| Error::unavailable("cannot start the threads of searches").with_source(e))?;
        let places_max = settings.searches_max + settings.searches_waiting_max;
        Ok(Searches {
            runtime: Some(runtime),
            places: Arc::new(Semaphore::new(places_max)),
            turns: Arc::new(Semaphore::new(settings.searches_max)),
            places_max,
            running_max: settings.searches_max,
            refused: AtomicU64::new(0),
            tasks: Mutex::default(),
        })
    }

    /// Runs a search once it is its turn. It ends at its next step where nobody waits for it any more, or it is
    /// cancelled. An error of status 429 where too many wait already.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        task: Task,
        search: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (cancel, cancelled) = oneshot::channel();
        let listed = self.put(task, cancel);
        tokio::select! {
            answer = self.run_in_turn(search) => answer,
            Ok(()) = cancelled => {
                let reason = format!("task cancelled [by user request], number {}", listed.number);
                Err(ApiError::new(StatusCode::BAD_REQUEST, "task_cancelled_exception", reason))
            }
        }
    }

    /// The searches that run or wait, oldest first.
    pub(crate) fn tasks(&self) -> Vec<Task> {
        self.list().open.values().map(|open| open.task.clone()).collect()
    }

    /// A number that no search has, for what is a task only while it is answered.
    pub(crate) fn next_number(&self) -> u64 {
        let mut tasks = self.list();
        tasks.begun += 1;
        tasks.begun
    }

    /// Cancels a search. Whether it was there.
    pub(crate) fn cancel(&self, number: u64) -> bool {
        let open = self.list().open.remove(&number);
        open.is_some_and(|open| open.cancel.send(()).is_ok())
    }

    /// How many run, and how many wait.
    pub(crate) fn load(&self) -> (usize, usize) {
        let held = self.places_max - self.places.available_permits();
        let running = self.running_max - self.turns.available_permits();
        (running, held.saturating_sub(running))
    }

    /// How many were refused because too many ran or waited.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn put(&self, task: Task, cancel: oneshot::Sender<()>) -> Listed<'_> {
        let mut tasks = self.list();
        tasks.begun += 1;
        let number = tasks.begun;
        tasks.open.insert(number, Open { task: Task { number, ..task }, cancel });
        Listed { searches: self, number }
    }

    fn list(&self) -> MutexGuard<'_, Tasks> {
        // The list is whole even if a thread died while it held the lock.
        self.tasks.lock()
    }

    async fn run_in_turn<T: Send + 'static>(
        &self,
        search: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            ApiError::busy(format!("{} searches run or wait: try again", self.places_max))
        })?;
        let ended = |e| Error::internal("a search ended without an answer").with_source(e);
        let waiting = info_span!(target: STAGE, "wait for thread");
        let turn = Arc::clone(&self.turns).acquire_owned().instrument(waiting).await;
        let turn = turn.map_err(|e| Error::internal("searches have no turns").with_source(e))?;
        let Some(runtime) = &self.runtime else {
            return Err(Error::unavailable("the server stops").into());
        };
        // Dropping the set ends its task.
        let mut task = JoinSet::new();
        let run = async move {
            let answer = search.await;
            drop((place, turn));
            answer
        };
        task.spawn_on(run.in_current_span(), runtime.handle());
        match task.join_next().await {
            Some(joined) => joined.map_err(ended)?,
            None => Err(Error::internal("a search was not started").into()),
        }
    }

    /// Takes that many turns, so that searches wait.
    #[cfg(test)]
    pub(crate) fn turns(&self, count: u32) -> tokio::sync::OwnedSemaphorePermit {
        Arc::clone(&self.turns).try_acquire_many_owned(count).unwrap()
    }

    /// Returns once that many searches run or wait.
    #[cfg(test)]
    pub(crate) async fn waiting(&self, count: usize) {
        while self.places.available_permits() != self.places_max - count {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Searches {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Others may still run, on threads that must not wait for them.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    fn searches(searches_max: usize, searches_waiting_max: usize) -> Arc<Searches> {
        let settings = Settings { searches_max, searches_waiting_max, ..Settings::default() };
        Arc::new(Searches::new(&settings).unwrap())
    }

    fn task() -> Task {
        let (number, begun_us, begun) = (0, 0, Instant::now());
        Task { number, api: "search", about: "/_search".to_owned(), opaque_id: None, begun_us, begun }
    }

    /// Runs a search that says when it has begun and when it has ended, and never answers.
    fn endless(on: &Arc<Searches>) -> (tokio::task::JoinHandle<Result<()>>, [oneshot::Receiver<()>; 2]) {
        let ((began, begun), (ended, ends)) = (oneshot::channel::<()>(), oneshot::channel::<()>());
        let on = Arc::clone(on);
        let run = async move {
            let search = async move {
                began.send(()).unwrap();
                let _ended = ended;
                pending().await
            };
            on.run(task(), search).await
        };
        (tokio::spawn(run), [begun, ends])
    }

    #[tokio::test]
    async fn searches_beyond_the_limit_wait_and_then_are_refused() {
        let searches = searches(1, 1);
        let (first, [begun, _]) = endless(&searches);
        begun.await.unwrap();
        let mut waiting = Box::pin(searches.run(task(), async { Ok(7) }));
        assert!(futures::poll!(&mut waiting).is_pending());
        let refused = searches.run(task(), async { Ok(()) }).await.unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.kind), (429, "es_rejected_execution_exception"));
        first.abort();
        assert_eq!(waiting.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_search_ends_where_nobody_waits_for_it() {
        let searches = searches(1, 0);
        let (task, [begun, ended]) = endless(&searches);
        begun.await.unwrap();
        task.abort();
        // The sender is dropped with the search.
        assert!(ended.await.is_err());
        searches.waiting(0).await;
    }

    #[tokio::test]
    async fn a_search_is_listed_until_it_ends_and_can_be_cancelled() {
        let searches = searches(1, 1);
        let (running, [begun, ended]) = endless(&searches);
        begun.await.unwrap();
        let (waiting, _told) = endless(&searches);
        searches.waiting(2).await;
        assert_eq!(searches.load(), (1, 1));
        let numbers: Vec<u64> = searches.tasks().iter().map(|task| task.number).collect();
        assert_eq!(numbers, [1, 2]);
        for task in [running, waiting] {
            let number = searches.tasks()[0].number;
            assert!(searches.cancel(number) && !searches.cancel(number));
            let error = task.await.unwrap().unwrap_err();
            assert_eq!((error.status.as_u16(), error.kind), (400, "task_cancelled_exception"));
        }
        assert!(ended.await.is_err());
        assert!(searches.tasks().is_empty());
        searches.waiting(0).await;
        assert_eq!(searches.load(), (0, 0));
    }

    #[tokio::test]
    async fn a_search_that_holds_its_thread_delays_nobody_else() {
        let searches = searches(1, 0);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let mut busy = Box::pin(searches.run(task(), async move { Ok(released.recv().is_ok()) }));
        // This test has one thread, which the search does not hold.
        assert!(futures::poll!(&mut busy).is_pending());
        release.send(()).unwrap();
        assert!(busy.await.unwrap());
    }

    #[tokio::test]
    async fn searches_that_hold_their_threads_delay_no_other() {
        let cores = std::thread::available_parallelism().unwrap().get();
        let searches = searches(cores + 2, 0);
        let (mut busy, mut release) = (Vec::new(), Vec::new());
        for _ in 0..=cores {
            let ((began, begun), (send, receive)) = (oneshot::channel(), std::sync::mpsc::channel::<()>());
            let on = Arc::clone(&searches);
            let search = async move {
                began.send(()).unwrap();
                Ok(receive.recv().is_ok())
            };
            busy.push(tokio::spawn(async move { on.run(task(), search).await }));
            release.push(send);
            // Each has a thread before the next one begins.
            begun.await.unwrap();
        }
        assert_eq!(searches.run(task(), async { Ok(7) }).await.unwrap(), 7);
        release.into_iter().for_each(|one| one.send(()).unwrap());
        for one in busy {
            assert!(one.await.unwrap().unwrap());
        }
    }

    #[tokio::test]
    async fn a_search_that_panics_is_an_error_of_its_own() {
        let searches = searches(1, 0);
        let panicked = searches.run(task(), async { (0..0).next().map(Ok::<u8, ApiError>).unwrap() }).await;
        assert_eq!(panicked.unwrap_err().status.as_u16(), 500);
        assert_eq!(searches.run(task(), async { Ok(7) }).await.unwrap(), 7);
    }
}
