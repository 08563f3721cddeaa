//! How much one client may ask, and how often one address may try passwords.
//!
//! Rates are token buckets. Of a bucket only the time is kept at which it is full again: taking a token moves it by the
//! time that a token takes to come back.

use std::collections::HashMap;
use std::net::IpAddr;

use parking_lot::{Mutex, MutexGuard};

use crate::error::{ApiError, Result};
use crate::settings::Settings;

/// Clients and addresses that are remembered before those that may do anything are forgotten.
const REMEMBERED_MAX: usize = 10_000;
/// Wrong passwords that an address may send at once.
const ATTEMPTS_AT_ONCE: i64 = 10;
/// After that, one in so much time.
const ATTEMPT_EVERY_US: i64 = 6_000_000;
const SECOND_US: i64 = 1_000_000;

/// A rate, and how much of it may come at once.
#[derive(Clone, Copy, Debug)]
struct Rate {
    every_us: i64,
    at_once: i64,
}

impl Rate {
    /// Takes a token of a bucket that is full again at `full_us`, which moves; or says after how many microseconds there
    /// is one.
    fn take(self, full_us: &mut i64, now_us: i64) -> std::result::Result<(), i64> {
        let slack_us = self.every_us.saturating_mul(self.at_once);
        // Not later than it can be, also where the clock was set back.
        *full_us = (*full_us).clamp(now_us, now_us.saturating_add(slack_us));
        let next_us = full_us.saturating_add(self.every_us);
        let wait_us = next_us.saturating_sub(now_us.saturating_add(slack_us));
        if wait_us > 0 {
            return Err(wait_us);
        }
        *full_us = next_us;
        Ok(())
    }
}

/// What each key and each user may ask.
#[derive(Debug)]
pub(crate) struct ClientLimits {
    rate: Option<Rate>,
    at_once_max: Option<u32>,
    clients: Mutex<HashMap<String, Asking>>,
}

/// What a client is asking.
#[derive(Clone, Copy, Debug, Default)]
struct Asking {
    running: u32,
    full_us: i64,
}

/// The place of a request among those of its client.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    limits: &'a ClientLimits,
    who: String,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(asking) = self.limits.clients().get_mut(&self.who) {
            asking.running = asking.running.saturating_sub(1);
        }
    }
}

impl ClientLimits {
    pub(crate) fn new(settings: &Settings) -> ClientLimits {
        let rate = settings.key_rate.map(|rate| {
            let rate = i64::from(rate.get());
            Rate { every_us: (SECOND_US / rate).max(1), at_once: rate }
        });
        let at_once_max = settings.key_concurrency.map(std::num::NonZeroU32::get);
        ClientLimits { rate, at_once_max, clients: Mutex::default() }
    }

    /// A place for a request of this client; none where there is no limit. An error of status 429 where it asks too much.
    pub(crate) fn begin(&self, who: &str, now_us: i64) -> Result<Option<Place<'_>>> {
        if self.rate.is_none() && self.at_once_max.is_none() {
            return Ok(None);
        }
        let mut clients = self.clients();
        if clients.len() >= REMEMBERED_MAX {
            clients.retain(|_, asking| asking.running > 0 || asking.full_us > now_us);
        }
        let asking = clients.entry(who.to_owned()).or_default();
        if let Some(at_once_max) = self.at_once_max.filter(|at_once_max| asking.running >= *at_once_max) {
            return Err(ApiError::busy(format!("{who} has {at_once_max} requests at once: try again")));
        }
        if let Some(rate) = self.rate
            && let Err(wait_us) = rate.take(&mut asking.full_us, now_us)
        {
            let reason = format!("{who} made {} requests within a second: try again", rate.at_once);
            return Err(ApiError::busy_for(reason, wait_us));
        }
        asking.running += 1;
        Ok(Some(Place { limits: self, who: who.to_owned() }))
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<String, Asking>> {
        // The map is whole even if a thread died while it held the lock.
        self.clients.lock()
    }
}

/// Passwords that addresses try. Those that are right do not count.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<IpAddr, i64>>);

impl Attempts {
    const RATE: Rate = Rate { every_us: ATTEMPT_EVERY_US, at_once: ATTEMPTS_AT_ONCE };

    /// Counts an attempt. An error of status 429 where this address has made too many.
    pub(crate) fn take(&self, address: IpAddr, now_us: i64) -> Result<()> {
        let mut addresses = self.addresses();
        if addresses.len() >= REMEMBERED_MAX {
            addresses.retain(|_, full_us| *full_us > now_us);
            // Who has that many addresses is kept back by the queue of hashes alone.
            if addresses.len() >= REMEMBERED_MAX {
                addresses.clear();
            }
        }
        let full_us = addresses.entry(network(address)).or_default();
        Self::RATE.take(full_us, now_us).map_err(|wait_us| {
            let reason = "too many wrong passwords from this address: try again later";
            ApiError::busy_for(reason.to_owned(), wait_us)
        })
    }

    /// The password of an attempt was right.
    pub(crate) fn give_back(&self, address: IpAddr) {
        if let Some(full_us) = self.addresses().get_mut(&network(address)) {
            *full_us = full_us.saturating_sub(ATTEMPT_EVERY_US);
        }
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, i64>> {
        // The map is whole even if a thread died while it held the lock.
        self.0.lock()
    }
}

/// What one subscriber has: an address of version 4, or the first 64 bits of one of version 6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn limits(rate: u32, at_once: u32) -> ClientLimits {
        let settings = Settings {
            key_rate: NonZeroU32::new(rate),
            key_concurrency: NonZeroU32::new(at_once),
            ..Settings::default()
        };
        ClientLimits::new(&settings)
    }

    #[test]
    fn a_client_asks_so_often_and_then_as_tokens_come_back() {
        let limits = limits(4, 0);
        let ask = |who: &str, now_us: i64| limits.begin(who, now_us).map(drop).map_err(|e| e.try_again_s);
        for _ in 0..4 {
            assert_eq!(ask("a", 0), Ok(()));
        }
        assert_eq!(ask("a", 0), Err(Some(1)));
        assert_eq!(ask("b", 0), Ok(()));
        assert_eq!(ask("a", 249_999), Err(Some(1)));
        assert_eq!(ask("a", 250_000), Ok(()));
        assert_eq!(ask("a", 250_001), Err(Some(1)));
        // A bucket holds no more than one second's tokens, and a clock that is set back empties none for long.
        for _ in 0..4 {
            assert_eq!(ask("a", 3_600_000_000), Ok(()));
        }
        assert_eq!(ask("a", 3_600_000_000), Err(Some(1)));
        assert_eq!(ask("a", 0), Err(Some(1)));
        assert_eq!(ask("a", 1_000_000), Ok(()));
    }

    #[test]
    fn a_client_has_so_many_requests_at_once() {
        let limits = limits(0, 2);
        let (first, _second) = (limits.begin("a", 0).unwrap(), limits.begin("a", 0).unwrap());
        assert_eq!(limits.begin("a", 0).unwrap_err().status.as_u16(), 429);
        assert!(limits.begin("b", 0).is_ok());
        drop(first);
        assert!(limits.begin("a", 0).is_ok());
        assert!(self::limits(0, 0).begin("a", 0).unwrap().is_none());
    }

    #[test]
    fn clients_that_ask_nothing_are_forgotten() {
        let limits = limits(1, 0);
        let held = limits.begin("held", 0).unwrap();
        for number in 0..REMEMBERED_MAX {
            limits.begin(&number.to_string(), 0).unwrap();
        }
        assert!(limits.clients().len() > REMEMBERED_MAX);
        limits.begin("new", 2 * SECOND_US).unwrap();
        let mut left: Vec<String> = limits.clients().keys().cloned().collect();
        left.sort_unstable();
        assert_eq!(left, ["held", "new"]);
        drop(held);
    }

    #[test]
    fn an_address_tries_so_many_passwords() {
        let attempts = Attempts::default();
        let of = |text: &str| text.parse::<IpAddr>().unwrap();
        let (here, other) = (of("192.0.2.1"), of("2001:db8::1"));
        for _ in 0..ATTEMPTS_AT_ONCE {
            attempts.take(here, 0).unwrap();
        }
        let refused = attempts.take(of("::ffff:192.0.2.1"), 0).unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.try_again_s), (429, Some(6)));
        attempts.take(other, 0).unwrap();
        attempts.give_back(here);
        attempts.take(here, 0).unwrap();
        assert_eq!(attempts.take(here, 3_000_001).unwrap_err().try_again_s, Some(3));
        attempts.take(here, 6_000_000).unwrap();
        // Addresses of one network are one.
        for number in 1..ATTEMPTS_AT_ONCE {
            attempts.take(of(&format!("2001:db8::{number}:1")), 0).unwrap();
        }
        assert!(attempts.take(other, 0).is_err());
        attempts.take(of("2001:db8:0:1::1"), 0).unwrap();
    }

    #[test]
    fn addresses_beyond_number_are_forgotten() {
        let attempts = Attempts::default();
        for number in 0..=REMEMBERED_MAX as u32 {
            attempts.take(IpAddr::V4(number.into()), 0).unwrap();
        }
        assert_eq!(attempts.addresses().len(), 1);
    }
}
