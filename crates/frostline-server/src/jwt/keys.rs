//! The keys of an issuer, as they were read last.

use std::sync::Arc;

use frostline_base::{Error, Result, chain};
use parking_lot::{Mutex, MutexGuard};

use crate::jwt::issuer::Issuer;
use crate::jwt::signature::{self, Key};

/// Keys that are older are read anew, beside the requests.
const FRESH_US: i64 = 300_000_000;
/// How often that is tried, also for a key that is not known.
const TRY_EVERY_US: i64 = 10_000_000;
/// Keys that could not be read anew for so long do not count any more.
const AGE_MAX_US: i64 = 86_400_000_000;

/// The keys of an issuer.
pub(super) struct Keys {
    issuer: Issuer,
    known: Mutex<Known>,
    /// One reads at a time; others wait for what it finds.
    reading: tokio::sync::Mutex<()>,
}

struct Known {
    keys: Arc<[Key]>,
    read_us: i64,
    tried_us: i64,
}

impl Keys {
    pub(super) fn new(issuer: Issuer) -> Keys {
        let known = Known { keys: Arc::new([]), read_us: i64::MIN, tried_us: i64::MIN };
        Keys { issuer, known: Mutex::new(known), reading: tokio::sync::Mutex::default() }
    }

    /// The key of this id. `Unavailable` where no keys are known, and `NotFound` where those that are do not have it.
    pub(super) async fn find(
        self: &Arc<Keys>,
        algorithm: &str,
        id: Option<&str>,
        now_us: i64,
    ) -> Result<Key> {
        if let Some(key) = self.known_key(algorithm, id, now_us) {
            let is_due = {
                let known = self.known();
                is_before(known.read_us, now_us, FRESH_US) && is_before(known.tried_us, now_us, TRY_EVERY_US)
            };
            if is_due {
                let keys = Arc::clone(self);
                tokio::spawn(async move { keys.read_again(now_us).await });
            }
            return Ok(key);
        }
        self.read_again(now_us).await;
        self.known_key(algorithm, id, now_us).ok_or_else(|| {
            match is_before(self.known().read_us, now_us, AGE_MAX_US) {
                true => Error::unavailable("the keys of the issuer of tokens cannot be read now: try again"),
                false => Error::not_found("its key is not one of the issuer's"),
            }
        })
    }

    fn known_key(&self, algorithm: &str, id: Option<&str>, now_us: i64) -> Option<Key> {
        let known = self.known();
        if is_before(known.read_us, now_us, AGE_MAX_US) {
            return None;
        }
        let mut suitable = known.keys.iter().filter(|key| key.is_for(algorithm));
        match id {
            Some(id) => suitable.find(|key| key.id.as_deref() == Some(id)).cloned(),
            // Nothing is tried out: without an id there is no choice.
            None => suitable.next().filter(|_| known.keys.len() == 1).cloned(),
        }
    }

    /// Reads the keys unless somebody has just tried. Where that fails, those that were read before count.
    async fn read_again(&self, now_us: i64) {
        let _turn = self.reading.lock().await;
        if !is_before(self.known().tried_us, now_us, TRY_EVERY_US) {
            return;
        }
        if let Err(error) = self.read(now_us).await {
            tracing::warn!(
                error = chain(&error),
                "the keys of the issuer of tokens are those that were read before"
            );
        }
    }

    /// Reads the keys.
    pub(super) async fn load(&self, now_us: i64) -> Result<()> {
        let _turn = self.reading.lock().await;
        self.read(now_us).await
    }

    async fn read(&self, now_us: i64) -> Result<()> {
        self.known().tried_us = now_us;
        let keys = signature::parse(&self.issuer.read().await?)?;
        let mut known = self.known();
        (known.keys, known.read_us) = (keys.into(), now_us);
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // It is whole even if a thread died while it held the lock.
        self.known.lock()
    }
}

/// Whether this was so long ago.
fn is_before(then_us: i64, now_us: i64, age_us: i64) -> bool {
    then_us <= now_us.saturating_sub(age_us)
}
