//! Encryption of what is stored, with a key that its owner keeps.
//!
//! - Each object is sealed with AES-256-GCM under a key of its own, which is derived from the owner's key and the
//!   object's name. The nonce of a part is its offset. An object is written once, so no nonce is used twice with a key,
//!   and a part that is moved, within an object or to another one, does not open.
//! - Digests and sums of contents are in what is sealed: they tell nothing to who has no key.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use frostline_base::{Error, Result};

use crate::log::Snapshot;

/// How the text of a key begins.
const PREFIX: &str = "frostline-volume-key-1:";
/// What sealing adds to a part.
#[cfg(test)]
pub(crate) const TAG_BYTES: usize = 16;

/// The secret that a volume is encrypted with: 256 random bits.
#[derive(Clone, PartialEq, Eq)]
pub struct VolumeKey([u8; 32]);

/// What tells keys apart, and says nothing of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId([u8; 8]);

impl VolumeKey {
    /// A key of random bits.
    pub fn from_random(bits: [u128; 2]) -> VolumeKey {
        let mut secret = [0; 32];
        let (first, second) = secret.split_at_mut(16);
        first.copy_from_slice(&bits[0].to_be_bytes());
        second.copy_from_slice(&bits[1].to_be_bytes());
        VolumeKey(secret)
    }

    /// Reads what [`VolumeKey::text`] wrote. The error does not show it.
    pub fn parse(text: &str) -> Result<VolumeKey> {
        let digits = text.trim().strip_prefix(PREFIX).unwrap_or_default();
        // A hash has as many digits as a key.
        let secret = blake3::Hash::from_hex(digits);
        secret.map(|secret| VolumeKey(*secret.as_bytes())).map_err(|_| {
            Error::invalid(format!("is not a key: a key is {PREFIX:?} and 64 hexadecimal digits"))
        })
    }

    /// The line that a key is kept as.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}\n", blake3::Hash::from_bytes(self.0).to_hex())
    }

    /// What snapshots name it by.
    pub fn id(&self) -> KeyId {
        let derived = blake3::derive_key("frostline-volume 1: the name of a key", &self.0);
        derived.first_chunk().copied().map_or(KeyId([0; 8]), KeyId)
    }

    /// What seals and opens the parts of an object.
    pub(crate) fn of(&self, object: &str) -> Result<Seal> {
        let objects = blake3::derive_key("frostline-volume 1: the keys of objects", &self.0);
        let key = blake3::keyed_hash(&objects, object.as_bytes());
        let key = UnboundKey::new(&AES_256_GCM, key.as_bytes());
        let key = key.map_err(|_| Error::internal("a derived key is not of the length of a key"))?;
        Ok(Seal(LessSafeKey::new(key)))
    }
}

/// `Denied` unless `given` is the key of this snapshot.
pub(crate) fn check<'a>(given: Option<&'a VolumeKey>, snapshot: &Snapshot) -> Result<Option<&'a VolumeKey>> {
    let denied = |what| Err(Error::denied(what));
    match (snapshot.key, given) {
        (None, _) => Ok(None),
        (Some(id), Some(key)) if key.id() == id => Ok(Some(key)),
        (Some(id), None) => denied(format!(
            "{} is encrypted with the key {id}: give the file that has it with --key-file",
            snapshot.name()
        )),
        (Some(id), Some(key)) => denied(format!(
            "{} is encrypted with the key {id}, and the one that was given is {}",
            snapshot.name(),
            key.id()
        )),
    }
}

/// The key of one object.
#[derive(Debug)]
pub(crate) struct Seal(LessSafeKey);

impl Seal {
    /// The part of an object that begins there. It becomes 16 bytes longer.
    pub(crate) fn seal(&self, offset: u64, mut part: Vec<u8>) -> Result<Vec<u8>> {
        let sealed = self.0.seal_in_place_append_tag(nonce(offset), Aad::empty(), &mut part);
        sealed.map_err(|_| Error::internal("a part of an object is too long to be encrypted"))?;
        Ok(part)
    }

    /// `Corrupt` unless this is what was sealed there.
    pub(crate) fn open(&self, offset: u64, sealed: &[u8]) -> Result<Vec<u8>> {
        let mut part = sealed.to_vec();
        let opened = self.0.open_in_place(nonce(offset), Aad::empty(), &mut part);
        let length = opened
            .map_err(|_| {
                Error::corrupt("what is encrypted is not what was written there").with("at", offset)
            })?
            .len();
        part.truncate(length);
        Ok(part)
    }
}

fn nonce(offset: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&offset.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

impl fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VolumeKey({})", self.id())
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for KeyId {
    type Error = Error;

    fn try_from(text: String) -> Result<KeyId> {
        let is_name = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let bits = u64::from_str_radix(&text, 16).ok().filter(|_| is_name);
        let bits = bits.ok_or_else(|| Error::invalid(format!("{text:?} is not the name of a key")))?;
        Ok(KeyId(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests;
