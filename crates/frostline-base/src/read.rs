//! The one interface through which every reader reads: ranges of an immutable object.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use crate::{ByteRange, ErrorKind, Meter, Result};

/// What a read gives, when it ends.
pub type Reading<'a> = Pin<Box<dyn Future<Output = Result<Vec<Bytes>>> + Send + 'a>>;

/// Reads ranges of immutable objects, from a store or through a cache.
pub trait ReadRanges: Send + Sync + Debug {
    /// The bytes of each range, in the order given. Ranges may overlap and need not be sorted; all are
    /// requested at the same time. Fails with `NotFound` if the object is absent, and with `Corrupt`
    /// if a range reaches past its end. The cost is added to `meter`.
    fn read_by<'a>(
        &'a self,
        caches: Caches,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Reading<'a>;

    /// [`ReadRanges::read_by`] asking the caches first.
    fn read_ranges<'a>(
        &'a self,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Reading<'a> {
        self.read_by(Caches::Ask, object, ranges, share, meter)
    }
}

/// What a read does with the caches on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// Reads what they have from them.
    Ask,
    /// Bypasses them all; they then store what was read: for bytes that did not decode. See [`read_decoded`].
    Bypass,
}

/// Reads these ranges and decodes them. If `decode` fails with `Corrupt`, the cached bytes may have been damaged when
/// they were fetched. They are then read once more, bypassing every cache, and a second failure is returned.
pub async fn read_decoded<T>(
    reader: &dyn ReadRanges,
    object: &ObjectRef,
    ranges: &[ByteRange],
    share: Share,
    meter: &Meter,
    mut decode: impl FnMut(Vec<Bytes>) -> Result<T>,
) -> Result<T> {
    match decode(reader.read_ranges(object, ranges, share, meter).await?) {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            decode(reader.read_by(Caches::Bypass, object, ranges, share, meter).await?)
        }
        answer => answer,
    }
}

/// An immutable object: once written under this key, its bytes never change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// The key below the repository's root, with `/` between its parts.
    pub key: String,
    /// The object's length.
    pub bytes: u64,
}

/// What kind of bytes a reader wants, so that a cache can prevent one kind from evicting another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// Hot footers, which are needed to open splits.
    Footer,
    /// Dictionary blocks and postings.
    Index,
    /// Column pages.
    Column,
    /// Pages of `_source`.
    Source,
}
