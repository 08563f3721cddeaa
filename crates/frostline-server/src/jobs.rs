//! What requests begin and do not wait for, such as merging an index.
//!
//! The answer to such a request names a task, and `GET /_tasks/{task_id}` tells whether it is done and what came of it: of
//! those that run, and of the last that have ended. They are this server's, and end with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use frostline_base::Error;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::watch;

use crate::error::{ApiError, Result};
use crate::searches::Task;

/// Those that run at once; further ones are refused.
const RUNNING_MAX: usize = 16;
/// Those that have ended and are remembered.
const ENDED_MAX: usize = 100;

/// What was begun, by the number of its task.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<BTreeMap<u64, Job>>);

/// What a request began.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) task: Arc<Task>,
    ended: watch::Receiver<Option<Result<Value>>>,
}

impl Jobs {
    /// Begins what ends with an answer. An error of status 429 where too many run.
    pub(crate) fn begin(
        &self,
        task: Task,
        job: impl Future<Output = Result<Value>> + Send + 'static,
    ) -> Result<()> {
        let mut all = self.all();
        let ended: Vec<u64> =
            all.iter().filter(|(_, job)| job.result().is_some()).map(|(number, _)| *number).collect();
        if all.len() - ended.len() >= RUNNING_MAX {
            return Err(ApiError::busy(format!("{RUNNING_MAX} tasks run that nobody waits for: try again")));
        }
        for number in ended.iter().take((ended.len() + 1).saturating_sub(ENDED_MAX)) {
            all.remove(number);
        }
        let (tell, ended) = watch::channel(None);
        all.insert(task.number, Job { task: Arc::new(task), ended });
        tokio::spawn(async move { tell.send_replace(Some(job.await)) });
        Ok(())
    }

    /// Those that run.
    pub(crate) fn running(&self) -> Vec<Task> {
        let all = self.all();
        let running = all.values().filter(|job| job.result().is_none());
        running.map(|job| Task::clone(&job.task)).collect()
    }

    /// The one of that number.
    pub(crate) fn get(&self, number: u64) -> Option<Job> {
        self.all().get(&number).cloned()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Job>> {
        // The map is whole even if a thread died while it held the lock.
        self.0.lock()
    }
}

impl Job {
    /// What came of it; none while it runs.
    pub(crate) fn result(&self) -> Option<Result<Value>> {
        let broken = || Err(Error::internal("the task ended without a result").into());
        let result = self.ended.borrow().clone();
        result.or_else(|| self.ended.has_changed().is_err().then(broken))
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self) {
        // Who tells it is gone then, which is an end, too.
        let _ = self.ended.wait_for(Option::is_some).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;
    use tokio::sync::oneshot;

    use super::*;

    fn task(number: u64) -> Task {
        let (about, begun) = (String::new(), Instant::now());
        Task { number, api: "indices.forcemerge", about, opaque_id: None, begun_us: 0, begun }
    }

    #[tokio::test]
    async fn the_last_that_ended_are_remembered_and_few_run() {
        let jobs = Jobs::default();
        for number in 0..ENDED_MAX as u64 + 5 {
            jobs.begin(task(number), async move { Ok(json!(number)) }).unwrap();
            jobs.get(number).unwrap().wait().await;
        }
        assert!(jobs.get(4).is_none() && jobs.running().is_empty());
        assert_eq!(jobs.get(5).unwrap().result().unwrap().unwrap(), json!(5));
        let mut ends = Vec::new();
        for number in 1_000..1_000 + RUNNING_MAX as u64 {
            let (end, ended) = oneshot::channel::<()>();
            jobs.begin(task(number), async move {
                ended.await.map(|()| json!(1)).map_err(|_| ApiError::invalid("cut"))
            })
            .unwrap();
            ends.push(end);
        }
        assert_eq!(jobs.running().len(), RUNNING_MAX);
        assert_eq!(jobs.begin(task(2_000), async { Ok(json!(1)) }).unwrap_err().status, 429);
        drop(ends);
        let mut last = jobs.get(1_000).unwrap();
        last.wait().await;
        assert_eq!(last.result().unwrap().unwrap_err().reason, "cut");
    }

    #[tokio::test]
    async fn one_that_dies_has_ended() {
        let jobs = Jobs::default();
        jobs.begin(task(1), async { panic!("as the test wants it") }).unwrap();
        let mut job = jobs.get(1).unwrap();
        job.wait().await;
        assert_eq!(job.result().unwrap().unwrap_err().status, 500);
        assert!(jobs.running().is_empty());
    }
}
