//! Partial answers in the repository, where other machines find them.
//!
//! One object has the answers of one question over many splits of one index. It is written by whoever had to read much
//! to answer, and read by whoever has to answer the same question and does not know the answers of some splits. It may
//! be missing, damaged, old or replaced by another machine's at any time: that costs reads, never an answer. What a
//! split answers never changes, so an old object is right, and only lacks newer splits.

use std::collections::BTreeMap;

use frostline_base::{ErrorKind, Meter};
use frostline_catalog::answers_key;
use frostline_store::Repository;
use xxhash_rust::xxh3::Xxh3;

use super::entry::{VERSION, sealed, unsealed};
use crate::Result;

/// One object is not larger.
const OBJECT_BYTES_MAX: u64 = 64 << 20;
/// At most what an answer takes in the object beside its own bytes.
const ENTRY_BYTES: u64 = 32;

/// Which answers are worth sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worth {
    /// Those for which so many bytes were read, or more: what took less is found again as fast.
    pub read_bytes_min: u64,
    /// Those that are so many times smaller than what was read.
    pub times_smaller: u64,
}

impl Default for Worth {
    fn default() -> Worth {
        Worth { read_bytes_min: 1 << 20, times_smaller: 8 }
    }
}

/// The repository as the place of shared answers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) repository: Repository,
    pub(crate) worth: Worth,
}

/// A question over the splits of one index: its object in the repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Question {
    key: String,
}

/// The answers of splits to one question.
pub(crate) type Answers = BTreeMap<u128, Vec<u8>>;

impl Question {
    /// The question that these parts make up, to the index that has this split.
    pub(crate) fn new(split_key: &str, parts: &[&[u8]]) -> Question {
        let mut hash = Xxh3::with_seed(VERSION);
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Question { key: answers_key(split_key, hash.digest128()) }
    }
}

impl Shared {
    /// What other machines have answered; nothing where that cannot be read.
    pub(crate) async fn read(&self, question: &Question, meter: &Meter) -> Answers {
        match self.try_read(&question.key, meter).await {
            Ok(answers) => answers,
            Err(error) => {
                tracing::warn!(key = question.key, ?error, "shared answers are not used");
                Answers::default()
            }
        }
    }

    async fn try_read(&self, key: &str, meter: &Meter) -> Result<Answers> {
        let bytes = match self.repository.get_up_to(key, OBJECT_BYTES_MAX, meter).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Answers::default()),
            Err(error) => return Err(error),
        };
        let damaged = || crate::Error::corrupt("an object of shared answers is damaged").with("object", key);
        let body = unsealed(&bytes).ok_or_else(damaged)?;
        postcard::from_bytes(body).map_err(|e| damaged().with_source(e))
    }

    /// Writes answers that took `read` bytes to find, if they are worth it, with as many of the `older` ones as there
    /// is room for. A failure is only logged.
    pub(crate) async fn write(
        &self,
        question: &Question,
        answers: Answers,
        older: Answers,
        read: u64,
        meter: &Meter,
    ) {
        let bytes = |answers: &Answers| -> u64 {
            answers.values().map(|answer| answer.len() as u64 + ENTRY_BYTES).sum()
        };
        let mut total = bytes(&answers);
        if total.saturating_mul(self.worth.times_smaller) > read || total > OBJECT_BYTES_MAX / 2 {
            return;
        }
        let mut all = answers;
        for (key, answer) in older {
            total += answer.len() as u64 + ENTRY_BYTES;
            if total > OBJECT_BYTES_MAX / 2 {
                break;
            }
            all.entry(key).or_insert(answer);
        }
        let Ok(body) = postcard::to_allocvec(&all) else { return };
        if let Err(error) = self.repository.put_metered(&question.key, sealed(body).into(), meter).await {
            tracing::warn!(key = question.key, ?error, "answers are not shared");
        }
    }
}
