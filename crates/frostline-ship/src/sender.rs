//! Sends the documents of a batch until the server has all of them.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use frostline_base::{Clock, Error, Result};
use frostline_ingest::{Batch, Cancel, Deliver, Delivery, Random, Reject, Rejects};
use parking_lot::Mutex;

use crate::http::{NoAnswer, Post, Reply, Request};
use crate::ledger::Ledger;
use crate::ship::Api;
use crate::{bulk, otlp};

const WAIT_FIRST: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(30);
/// A server may ask for more patience, up to this.
const ASKED_MAX: Duration = Duration::from_secs(300);

/// What became of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Taken,
    /// The server had it before.
    There,
    Again(String),
    Refused(String),
}

/// What became of the documents of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Of each, in order.
    Each(Vec<Verdict>),
    /// So many are refused, and nobody says which.
    Some { refused: usize, why: String },
}

/// How it waits between requests.
pub(crate) type Wait = Arc<dyn Fn(Duration) + Send + Sync>;

/// What all batches share.
pub(crate) struct Sender {
    pub(crate) post: Arc<dyn Post>,
    pub(crate) api: Api,
    pub(crate) index: Option<String>,
    pub(crate) ledger: Mutex<Ledger>,
    /// Mixed into the identities of files, and of streams, which have none of their own.
    pub(crate) shipper: u128,
    pub(crate) stream: u128,
    pub(crate) rejects: Mutex<Box<dyn Write + Send>>,
    pub(crate) refused: Mutex<Rejects>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Random,
    pub(crate) cancel: Cancel,
    pub(crate) wait: Wait,
    pub(crate) retry_for: Option<Duration>,
    pub(crate) tell: Arc<dyn Fn(&str) + Send + Sync>,
    pub(crate) counts: Counts,
    /// Since when no request succeeded, in microseconds since 1970; 0 while they do.
    pub(crate) failing_since_us: AtomicU64,
    /// Whether the server answered any request.
    pub(crate) has_answered: AtomicBool,
}

/// What happened so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) taken: AtomicU64,
    pub(crate) there: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) repeated: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) lines_refused: AtomicU64,
}

/// Why a request is sent again.
struct Again {
    why: String,
    asked: Option<Duration>,
}

/// What came of one request.
enum Sent {
    Answered(Answer),
    Again(Again),
    TooLarge,
}

impl Deliver for Sender {
    fn deliver(&self, batch: Batch) -> Result<bool> {
        let now_ms = || self.clock.now_us() / 1_000;
        self.ledger.lock().begin(&batch.reached, now_ms())?;
        if !batch.refused.lines.is_empty() {
            self.counts.lines_refused.fetch_add(batch.refused.total(), Ordering::Relaxed);
            self.reject(&batch.refused)?;
        }
        let mut parts: Vec<Vec<&Delivery>> = vec![batch.documents.iter().collect()];
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let Some(halves) = self.send(part)? else { return Ok(false) };
            parts.extend(halves);
        }
        self.ledger.lock().end(batch.number, batch.reached, now_ms())?;
        Ok(true)
    }
}

impl Sender {
    /// Sends documents until the server has taken or refused each; `None` if it was stopped before. What is too much for one
    /// request comes back in halves.
    fn send<'a>(&self, mut documents: Vec<&'a Delivery>) -> Result<Option<Vec<Vec<&'a Delivery>>>> {
        let mut attempt = 0;
        loop {
            let named: Vec<(&Delivery, String)> =
                documents.iter().map(|document| (*document, self.id(document))).collect();
            let request = match self.api {
                Api::Bulk => bulk::request(self.index.as_deref().unwrap_or_default(), &named),
                Api::Otlp => otlp::request(self.index.as_deref(), &named),
            };
            let again = match self.request(&request, documents.len())? {
                Sent::Answered(answer) => {
                    self.counts.bytes.fetch_add(request.body.len() as u64, Ordering::Relaxed);
                    let before = documents.len();
                    let (rest, why) = self.settle(documents, answer)?;
                    if rest.is_empty() {
                        self.tell_of_success();
                        return Ok(Some(Vec::new()));
                    }
                    if rest.len() < before {
                        attempt = 0;
                    }
                    documents = rest;
                    Again { why, asked: None }
                }
                Sent::Again(again) => again,
                Sent::TooLarge if documents.len() > 1 => {
                    let half = documents.split_off(documents.len() / 2);
                    return Ok(Some(vec![half, documents]));
                }
                Sent::TooLarge => {
                    let mut rejects = Rejects::default();
                    documents
                        .iter()
                        .for_each(|document| reject(&mut rejects, document, "the server finds it too large"));
                    self.counts.refused.fetch_add(1, Ordering::Relaxed);
                    self.reject(&rejects)?;
                    return Ok(Some(Vec::new()));
                }
            };
            self.tell_of_failure(&again.why)?;
            if self.cancel.is_cancelled() {
                return Ok(None);
            }
            self.counts.repeated.fetch_add(1, Ordering::Relaxed);
            (self.wait)(self.pause_before(attempt, again.asked));
            attempt += 1;
        }
    }

    /// One request. What no repetition can mend is an error.
    fn request(&self, request: &Request, count: usize) -> Result<Sent> {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        let reply = match self.post.post(request) {
            Ok(reply) => reply,
            // A server that once answered is one, whatever is wrong with it now.
            Err(NoAnswer { why, lasting: Some(what_to_do) })
                if !self.has_answered.load(Ordering::Relaxed) =>
            {
                return Err(Error::invalid(format!("the server cannot be spoken to: {why}: {what_to_do}")));
            }
            Err(NoAnswer { why, .. }) => return Ok(Sent::Again(Again { why, asked: None })),
        };
        self.has_answered.store(true, Ordering::Relaxed);
        let said = || said(&reply);
        match reply.status {
            200..=299 => {
                let judge = match self.api {
                    Api::Bulk => bulk::judge,
                    Api::Otlp => otlp::judge,
                };
                Ok(Sent::Answered(judge(&reply, count)?))
            }
            408 | 429 | 500 | 502..=504 => Ok(Sent::Again(Again {
                why: format!("status {}: {}", reply.status, said()),
                asked: reply.retry_after,
            })),
            413 => Ok(Sent::TooLarge),
            401 => Err(Error::denied(format!("the server does not know who asks (status 401): {}", said()))),
            403 => Err(Error::denied(format!("the server does not allow this (status 403): {}", said()))),
            300..=399 => Err(Error::invalid(format!(
                "the server sends elsewhere (status {}): name the address that it means",
                reply.status
            ))),
            status => {
                Err(Error::invalid(format!("the server refuses the request (status {status}): {}", said())))
            }
        }
    }

    /// Counts what became of documents; those that are to be sent again, and why.
    fn settle<'a>(
        &self,
        documents: Vec<&'a Delivery>,
        answer: Answer,
    ) -> Result<(Vec<&'a Delivery>, String)> {
        let (mut rest, mut why) = (Vec::new(), String::new());
        let mut rejects = Rejects::default();
        let counts = &self.counts;
        let add = |counter: &AtomicU64, count: usize| counter.fetch_add(count as u64, Ordering::Relaxed);
        match answer {
            Answer::Each(verdicts) => {
                for (document, verdict) in documents.into_iter().zip(verdicts) {
                    match verdict {
                        Verdict::Taken => drop(add(&counts.taken, 1)),
                        Verdict::There => drop(add(&counts.there, 1)),
                        Verdict::Refused(reason) => {
                            add(&counts.refused, 1);
                            reject(&mut rejects, document, &reason);
                        }
                        Verdict::Again(reason) => {
                            why = reason;
                            rest.push(document);
                        }
                    }
                }
            }
            Answer::Some { refused, why } => {
                add(&counts.taken, documents.len() - refused);
                add(&counts.refused, refused);
                (self.tell)(&format!("the server refuses {refused} of {} records: {why}", documents.len()));
            }
        }
        self.reject(&rejects)?;
        Ok((rest, why))
    }

    /// What a document is called: the client's own `_id`, or where it comes from.
    fn id(&self, document: &Delivery) -> String {
        let salt = if document.is_of_file { self.shipper } else { self.stream };
        document.id.clone().unwrap_or_else(|| format!("{:032x}", document.identity ^ salt))
    }

    /// Writes refused lines before the batch is acknowledged: a stop in between writes them twice rather than never.
    fn reject(&self, rejects: &Rejects) -> Result<()> {
        if rejects.lines.is_empty() {
            return Ok(());
        }
        let mut sink = self.rejects.lock();
        let written = sink.write_all(&rejects.lines).and_then(|()| sink.flush());
        written.map_err(|error| Error::unavailable("cannot write refused lines").with_source(error))?;
        drop(sink);
        let mut all = self.refused.lock();
        if let Some(first) = rejects.first_reason.as_deref().filter(|_| all.total() == 0) {
            (self.tell)(&format!("refused: {first}"));
        }
        all.append(&Rejects { lines: Vec::new(), first_reason: None, counts: rejects.counts.clone() });
        Ok(())
    }

    /// Twice as long each time, half of it by chance, so that many shippers do not come at once.
    fn pause_before(&self, attempt: u32, asked: Option<Duration>) -> Duration {
        let longest = WAIT_FIRST.saturating_mul(1 << attempt.min(10)).min(WAIT_MAX);
        let chance = (self.random)() as u32;
        let pause = longest / 2 + longest.mul_f64(f64::from(chance) / f64::from(u32::MAX)) / 2;
        pause.max(asked.unwrap_or_default().min(ASKED_MAX))
    }

    fn tell_of_failure(&self, why: &str) -> Result<()> {
        let now_us = self.clock.now_us().max(1) as u64;
        let since = self.failing_since_us.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed);
        let since_us = match since {
            Ok(_) => {
                (self.tell)(&format!("the server accepts no documents now: {why}; trying again"));
                now_us
            }
            Err(since_us) => since_us,
        };
        match self.retry_for {
            Some(limit) if now_us.saturating_sub(since_us) >= limit.as_micros() as u64 => {
                Err(Error::unavailable(format!(
                    "the server accepted no documents for {} s: {why}",
                    limit.as_secs()
                )))
            }
            _ => Ok(()),
        }
    }

    fn tell_of_success(&self) {
        let since_us = self.failing_since_us.swap(0, Ordering::Relaxed);
        if since_us > 0 {
            let seconds = (self.clock.now_us() as u64).saturating_sub(since_us) / 1_000_000;
            (self.tell)(&format!("the server takes documents again, after {seconds} s"));
        }
    }
}

fn reject(rejects: &mut Rejects, document: &Delivery, reason: &str) {
    rejects.push(&Reject {
        source: &document.source,
        line: document.line,
        offset: document.offset,
        reason,
        raw: &document.bytes,
        cut: false,
    });
}

/// The start of what the server said, on one line.
fn said(reply: &Reply) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(&reply.body).ok();
    let reason = json.as_ref().and_then(|json| json["error"]["reason"].as_str().or(json["message"].as_str()));
    let text = reason.map_or_else(|| String::from_utf8_lossy(&reply.body).into_owned(), str::to_owned);
    text.split_whitespace().collect::<Vec<&str>>().join(" ").chars().take(300).collect()
}
