//! Whether a store that has stopped answering is asked at all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::Result;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::fault::{Fault, Trouble, said, trouble, without_bucket};

/// Knows since when no request was answered. Once that is too long, requests fail at once instead of each waiting by
/// itself, but for one at a time, at most one a second, which finds out whether the store answers again.
pub(crate) struct Outage {
    after: Option<Duration>,
    heard: Mutex<Heard>,
}

struct Heard {
    /// When the store last answered, or when this began.
    answered: Instant,
    silence: Option<Silence>,
}

#[derive(Clone, Copy)]
struct Silence {
    /// When the first request was sent that was not answered.
    since: Instant,
    /// When a request is let through again: not before the one that is under way has had its time.
    probe_at: Instant,
    /// Whether the log says so.
    is_told: bool,
}

/// The time between two requests that are let through.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// How long one of them may take until something of its answer is there, which of a body is its first bytes: somebody waits
/// for it.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// A request that was sent.
#[derive(Debug)]
pub(crate) struct Sent {
    outage: Arc<Outage>,
    at: Instant,
    is_probe: bool,
}

impl Sent {
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// Waits for something of the answer; where the request finds out whether the store answers, no longer than it may take.
    pub(crate) async fn wait<T>(&self, answer: impl Future<Output = T>) -> std::result::Result<T, Fault> {
        match self.is_probe {
            true => tokio::time::timeout_at(self.at + PROBE_MAX, answer).await.map_err(|_| Fault::Timeout),
            false => Ok(answer.await),
        }
    }

    /// Something of the answer is there: the rest may take its time.
    pub(crate) fn is_answered(&mut self) {
        self.is_probe = false;
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if self.is_probe {
            let mut heard = self.outage.heard.lock();
            if let Some(silence) = &mut heard.silence {
                silence.probe_at = Instant::now() + PROBE_EVERY;
            }
        }
    }
}

impl Outage {
    /// None of `after_ms` never makes a request fail at once.
    pub(crate) fn new(after_ms: Option<u64>) -> Arc<Outage> {
        let heard = Heard { answered: Instant::now(), silence: None };
        Arc::new(Outage { after: after_ms.map(Duration::from_millis), heard: Mutex::new(heard) })
    }

    /// Runs one attempt of a request, unless it would be in vain.
    pub(crate) async fn attempt<T>(self: &Arc<Self>, ask: impl Future<Output = Result<T>>) -> Result<T> {
        let (answer, _) = self.begin(ask).await?;
        self.saw(Instant::now(), None);
        Ok(answer)
    }

    /// The same of a request whose answer begins before it is whole: who reads on says when it is [seen](Outage::saw).
    pub(crate) async fn begin<T>(
        self: &Arc<Self>,
        ask: impl Future<Output = Result<T>>,
    ) -> Result<(T, Sent)> {
        let sent = self.admit()?;
        match sent.wait(ask).await.unwrap_or_else(|silent| Err(silent.into())) {
            Ok(answer) => Ok((answer, sent)),
            Err(error) => {
                let error = without_bucket(error);
                self.saw(sent.at, Some(&error));
                Err(error)
            }
        }
    }

    /// An error where the store is not to be asked now.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Sent> {
        let now = Instant::now();
        let mut is_probe = false;
        let mut heard = self.heard.lock();
        if let Some(silence) = heard.silence.as_mut().filter(|silence| self.is_long(silence)) {
            if now < silence.probe_at {
                return Err(Fault::Outage.into());
            }
            silence.probe_at = now + PROBE_MAX;
            is_probe = true;
        }
        Ok(Sent { outage: Arc::clone(self), at: now, is_probe })
    }

    /// What became of a request that was sent then. A refusal is an answer too.
    pub(crate) fn saw(&self, sent: Instant, error: Option<&object_store::Error>) {
        let is_answer = error.is_none_or(|error| trouble(error) == Trouble::Final);
        let mut heard = self.heard.lock();
        if is_answer {
            heard.answered = Instant::now();
            if heard.silence.take().is_some_and(|silence| silence.is_told) {
                tracing::info!("the store answers again");
            }
            return;
        }
        let since = sent.max(heard.answered);
        let first = Silence { since, probe_at: Instant::now() + PROBE_EVERY, is_told: false };
        let silence = heard.silence.get_or_insert(first);
        if self.is_long(silence) && !silence.is_told {
            silence.is_told = true;
            let why = error.map(said).unwrap_or_default();
            tracing::warn!(why, "the store has not answered for {:?}", silence.since.elapsed());
        }
    }

    /// For how long no request was answered, if that is too long.
    pub(crate) fn lasts(&self) -> Option<Duration> {
        let silence = self.heard.lock().silence;
        silence.filter(|silence| self.is_long(silence)).map(|silence| silence.since.elapsed())
    }

    fn is_long(&self, silence: &Silence) -> bool {
        self.after.is_some_and(|after| silence.since.elapsed() >= after)
    }
}

impl fmt::Debug for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outage").field("after", &self.after).field("lasts", &self.lasts()).finish()
    }
}

#[cfg(test)]
mod tests;
