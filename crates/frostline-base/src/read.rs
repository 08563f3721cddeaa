//! The one question that every reader asks: these bytes of that object, please.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use crate::{ByteRange, Meter, Result};

/// Reads ranges of immutable objects. A store answers it from the bucket, a cache from what is near.
pub trait ReadRanges: Send + Sync + Debug {
    /// The bytes of each range, in the order asked. Ranges may overlap and need not be sorted; all are
    /// asked for at the same time. Fails with `NotFound` where the object is absent and with `Corrupt`
    /// where a range reaches past its end. What it costs is added to `meter`.
    fn read_ranges<'a>(
        &'a self,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Bytes>>> + Send + 'a>>;
}

/// An immutable object: once written under this key its bytes never change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// The key below the repository's root, with `/` between its parts.
    pub key: String,
    /// The object's length.
    pub bytes: u64,
}

/// What kind of bytes a reader wants, so that a cache can keep one kind from evicting another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// Hot footers: what opening a split needs.
    Footer,
    /// Dictionary blocks and postings.
    Index,
    /// Column pages.
    Column,
    /// Pages of `_source`.
    Source,
}
