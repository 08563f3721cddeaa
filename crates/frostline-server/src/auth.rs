//! Who a request comes from, and what it may do.
//!
//! API keys and users are records of the repository, so that every server over it knows them. Of a key only the hash is
//! kept: it has 256 random bits, which nobody guesses. Passwords can be guessed, so that their hashes are slow; whoever
//! has been let in is remembered by this process for as long as the record does not change.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use frostline_base::Error;
use frostline_catalog::Records;
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap};
use parking_lot::Mutex;
use ring::{digest, hmac, pbkdf2};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::error::{ApiError, Result};
use crate::jwt::Jwt;
use crate::limits::Attempts;
use crate::metrics::Refusal;
use crate::scope::{Cluster, Grant, Scope, Snapshots};
use crate::state::State;

/// The kinds of the records.
pub(crate) const API_KEY: &str = "api_key";
pub(crate) const USER: &str = "user";
/// Records that are older are read anew, so that a key that another server has invalidated ends soon.
const RECORDS_AGE_MAX_US: i64 = 5_000_000;
/// How often an unknown name makes them read anew.
const UNKNOWN_AGE_MIN_US: i64 = 1_000_000;
/// How slow the hash of a password is.
const ITERATIONS: NonZeroU32 = match NonZeroU32::new(if cfg!(test) { 1_000 } else { 600_000 }) {
    Some(iterations) => iterations,
    None => NonZeroU32::MIN,
};
/// Passwords that are hashed at once.
const HASHES_AT_ONCE: usize = 2;
/// Passwords that wait for that.
const HASHES_WAITING_MAX: usize = 64;
/// Passwords that are remembered.
const REMEMBERED_MAX: usize = 1_000;
/// The longest password.
const PASSWORD_BYTES_MAX: usize = 1_000;

/// A key or a user, as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Credential {
    /// What the key is for; of a user the full name.
    #[serde(default)]
    pub(crate) name: String,
    /// Of the secret, in base64.
    pub(crate) hash: String,
    /// Of a password, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) salt: Option<String>,
    /// How slow the hash of a password is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) iterations: Option<NonZeroU32>,
    /// Who made it.
    #[serde(default)]
    pub(crate) owner: String,
    pub(crate) created_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) invalidated_ms: Option<i64>,
    /// What it may do with which indices; none for everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grants: Option<Vec<Grant>>,
    /// Whether it may read figures of the server without being allowed everything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) monitor: bool,
    /// The role descriptors that a key was made with, as they were given.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) role_descriptors: Value,
    /// What it may do with snapshots without being allowed everything.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub(crate) snapshots: Snapshots,
    /// What else it may do without being allowed everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) cluster: Vec<Cluster>,
    /// The roles that a user was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) roles: Vec<String>,
    /// What the client wants to be kept with it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) metadata: Value,
}

fn is_nothing(snapshots: &Snapshots) -> bool {
    *snapshots == Snapshots::Nothing
}

impl Credential {
    /// Whether it lets anybody in.
    pub(crate) fn is_active(&self, now_ms: i64) -> bool {
        self.invalidated_ms.is_none() && self.expires_ms.is_none_or(|expires_ms| expires_ms > now_ms)
    }
}

/// Who a request comes from.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// A user's name, or that of the owner of a key.
    pub(crate) user: String,
    /// The key's id and name.
    pub(crate) key: Option<(String, String)>,
    pub(crate) roles: Vec<String>,
    pub(crate) realm: Realm,
    pub(crate) scope: Scope,
}

/// What knows a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Realm {
    /// Nobody is asked.
    Anonymous,
    /// The repository.
    Native,
    /// The issuer of tokens.
    Jwt,
}

impl Client {
    /// Whoever it is, where nobody is asked.
    pub(crate) fn anonymous() -> Client {
        Client {
            user: "anonymous".to_owned(),
            key: None,
            roles: Vec::new(),
            realm: Realm::Anonymous,
            scope: Scope::all(),
        }
    }

    /// How it is called in logs and errors.
    pub(crate) fn describe(&self) -> String {
        match &self.key {
            Some((id, _)) => format!("API key id [{id}] of user [{}]", self.user),
            None if self.realm == Realm::Jwt => format!("user [{}] of the issuer of tokens", self.user),
            None => format!("user [{}]", self.user),
        }
    }
}

/// What tells clients from others.
pub(crate) struct Auth {
    /// Whether a request must say who it comes from; otherwise everybody may do everything.
    pub(crate) is_required: bool,
    records_us: AtomicI64,
    /// Of this process alone.
    secret: hmac::Key,
    /// Passwords that were right, by what this process hashes of them and their record.
    remembered: Mutex<BTreeMap<Vec<u8>, ()>>,
    hashing: Semaphore,
    /// One for each password that is hashed or waits for it.
    to_hash: Semaphore,
    attempts: Attempts,
    /// What knows users by tokens.
    pub(crate) jwt: Option<Jwt>,
}

impl Auth {
    pub(crate) fn new(is_required: bool, jwt: Option<Jwt>, random: &frostline_ingest::Random) -> Auth {
        Auth {
            is_required,
            jwt,
            records_us: AtomicI64::new(i64::MIN),
            secret: hmac::Key::new(hmac::HMAC_SHA256, &draw(random)),
            remembered: Mutex::default(),
            hashing: Semaphore::new(HASHES_AT_ONCE),
            to_hash: Semaphore::new(HASHES_AT_ONCE + HASHES_WAITING_MAX),
            attempts: Attempts::default(),
        }
    }

    /// Who sends a request with these headers from this address. An error of status 401 where that is not known, and of 429
    /// where it cannot be found out now.
    pub(crate) async fn client(&self, state: &State, headers: &HeaderMap, address: IpAddr) -> Result<Client> {
        if !self.is_required {
            return Ok(Client::anonymous());
        }
        let given = headers.get(AUTHORIZATION).map(|header| header.to_str().unwrap_or_default());
        let given =
            given.ok_or_else(|| unauthenticated("missing authentication credentials for REST request"))?;
        let (scheme, token) = given.split_once(' ').unwrap_or((given, ""));
        if let Some(jwt) = &self.jwt
            && scheme.eq_ignore_ascii_case("bearer")
        {
            return jwt.client(token.trim(), state.node.clock().now_us()).await;
        }
        let pair = BASE64_STANDARD.decode(token.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = pair.as_deref().and_then(|pair| pair.split_once(':'));
        match (scheme.to_ascii_lowercase().as_str(), pair) {
            ("apikey", Some((id, secret))) => self.of_key(state, id, secret).await,
            ("basic", Some((user, password))) => self.of_user(state, user, password, address).await,
            _ => Err(unauthenticated("unable to read the credentials of the header Authorization")),
        }
    }

    async fn of_key(&self, state: &State, id: &str, secret: &str) -> Result<Client> {
        let key = self.find(state, API_KEY, id).await?;
        // A key that is not there takes as long as one that is.
        let stored = key.as_ref().map_or_else(String::new, |key| key.hash.clone());
        let is_right = self.are_equal(stored.as_bytes(), hash_of_key(secret).as_bytes());
        let now_ms = state.node.clock().now_us() / 1_000;
        match key.filter(|key| is_right && key.is_active(now_ms)) {
            Some(key) => Ok(Client {
                user: key.owner,
                key: Some((id.to_owned(), key.name)),
                roles: Vec::new(),
                realm: Realm::Native,
                scope: Scope::of(key.grants)
                    .monitoring(key.monitor)
                    .with_snapshots(key.snapshots)
                    .with_cluster(key.cluster),
            }),
            None => Err(unauthenticated("unable to authenticate with this API key")),
        }
    }

    async fn of_user(&self, state: &State, name: &str, password: &str, address: IpAddr) -> Result<Client> {
        let wrong = || unauthenticated("unable to authenticate the user with this password");
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(wrong());
        }
        let user = self.find(state, USER, name).await?;
        let hash = user.as_ref().map_or_else(String::new, |user| user.hash.clone());
        let fingerprint = hmac::sign(&self.secret, format!("{name}\0{hash}\0{password}").as_bytes());
        let fingerprint = fingerprint.as_ref().to_vec();
        if !self.remembered().contains_key(&fingerprint) {
            self.attempts
                .take(address, state.node.clock().now_us())
                .inspect_err(|_| state.metrics.refused(Refusal::Attempts))?;
            let salt = user.as_ref().and_then(|user| user.salt.clone()).unwrap_or_default();
            let iterations = user.as_ref().and_then(|user| user.iterations).unwrap_or(ITERATIONS);
            let hashed = self.hash(password, &salt, iterations).await?;
            if !self.are_equal(hash.as_bytes(), hashed.as_bytes()) {
                return Err(wrong());
            }
            self.attempts.give_back(address);
            let mut remembered = self.remembered();
            if remembered.len() >= REMEMBERED_MAX {
                remembered.clear();
            }
            remembered.insert(fingerprint, ());
        }
        let user = user.ok_or_else(wrong)?;
        Ok(Client {
            user: name.to_owned(),
            key: None,
            roles: user.roles,
            realm: Realm::Native,
            scope: Scope::of(user.grants),
        })
    }

    /// The slow hash of a password. An error of status 429 where too many wait for theirs.
    pub(crate) async fn hash(&self, password: &str, salt: &str, iterations: NonZeroU32) -> Result<String> {
        let _place = self
            .to_hash
            .try_acquire()
            .map_err(|_| ApiError::busy("too many passwords wait to be checked: try again"))?;
        let turn = self.hashing.acquire().await;
        let _turn = turn.map_err(|e| Error::internal("passwords are not hashed").with_source(e))?;
        let (password, salt) = (password.to_owned(), salt.to_owned());
        let hashed = tokio::task::spawn_blocking(move || {
            let mut hash = [0; digest::SHA256_OUTPUT_LEN];
            let (salt, password) = (salt.as_bytes(), password.as_bytes());
            pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, password, &mut hash);
            BASE64_STANDARD.encode(hash)
        });
        Ok(hashed.await.map_err(|e| Error::internal("a password was not hashed").with_source(e))?)
    }

    /// The record of a key or a user.
    async fn find(&self, state: &State, kind: &str, name: &str) -> Result<Option<Credential>> {
        let mut records = self.records(state, RECORDS_AGE_MAX_US).await?;
        if records.other(kind, name).is_none() {
            records = self.records(state, UNKNOWN_AGE_MIN_US).await?;
        }
        records.other(kind, name).map(read).transpose()
    }

    /// Records that are not older than so much. Where the repository cannot be read, those that are known count.
    async fn records(&self, state: &State, age_max_us: i64) -> Result<Records> {
        let (catalog, now_us) = (state.node.catalog(), state.node.clock().now_us());
        let seen = catalog.seen_records();
        let read_us = self.records_us.load(Ordering::Relaxed);
        if let Some(seen) = &seen
            && read_us > now_us.saturating_sub(age_max_us)
        {
            return Ok(seen.clone());
        }
        match (catalog.records().await, seen) {
            (Ok(records), _) => {
                self.records_us.store(now_us, Ordering::Relaxed);
                Ok(records)
            }
            (Err(error), Some(seen)) => {
                tracing::warn!(?error, "keys and users are those that were read before");
                Ok(seen)
            }
            (Err(error), None) => Err(error.into()),
        }
    }

    /// Whether two texts are equal, found out in a time that does not depend on where they differ.
    fn are_equal(&self, a: &[u8], b: &[u8]) -> bool {
        hmac::verify(&self.secret, a, hmac::sign(&self.secret, b).as_ref()).is_ok()
    }

    fn remembered(&self) -> parking_lot::MutexGuard<'_, BTreeMap<Vec<u8>, ()>> {
        // The map is whole even if a thread died while it held the lock.
        self.remembered.lock()
    }
}

pub(crate) fn read(record: &Value) -> Result<Credential> {
    let read = Credential::deserialize(record);
    Ok(read.map_err(|e| Error::corrupt("a key or a user in the repository cannot be read").with_source(e))?)
}

/// The hash of an API key.
pub(crate) fn hash_of_key(secret: &str) -> String {
    BASE64_STANDARD.encode(digest::digest(&digest::SHA256, secret.as_bytes()))
}

/// 256 random bits.
fn draw(random: &frostline_ingest::Random) -> [u8; 32] {
    let mut bits = [0; 32];
    bits[..16].copy_from_slice(&random().to_be_bytes());
    bits[16..].copy_from_slice(&random().to_be_bytes());
    bits
}

/// A secret that nobody guesses, as text.
pub(crate) fn secret(random: &frostline_ingest::Random) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(draw(random))
}

/// What is kept of a password.
pub(crate) async fn password(state: &State, password: &str) -> Result<Credential> {
    if !(6..=PASSWORD_BYTES_MAX).contains(&password.len()) {
        return Err(ApiError::invalid(format!("a password has 6 to {PASSWORD_BYTES_MAX} bytes")));
    }
    let salt = secret(&state.random);
    let hash = state.auth.hash(password, &salt, ITERATIONS).await?;
    Ok(Credential { salt: Some(salt), iterations: Some(ITERATIONS), ..of_hash(state, hash) })
}

/// A credential of this hash that may do everything.
pub(crate) fn of_hash(state: &State, hash: String) -> Credential {
    Credential {
        name: String::new(),
        hash,
        salt: None,
        iterations: None,
        owner: String::new(),
        created_ms: state.node.clock().now_us() / 1_000,
        expires_ms: None,
        invalidated_ms: None,
        grants: None,
        monitor: false,
        role_descriptors: Value::Null,
        snapshots: Snapshots::Nothing,
        cluster: Vec::new(),
        roles: Vec::new(),
        metadata: Value::Null,
    }
}

/// A key as clients send it.
pub(crate) fn encoded(id: &str, secret: &str) -> String {
    BASE64_STANDARD.encode(format!("{id}:{secret}"))
}

pub(crate) fn unauthenticated(reason: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "security_exception", reason)
}
