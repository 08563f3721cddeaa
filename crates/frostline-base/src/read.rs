//! The one question that every reader asks: these bytes of that object, please.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use crate::{ByteRange, ErrorKind, Meter, Result};

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

    /// Like [`ReadRanges::read_ranges`], past every cache on the way, which then keeps what was read now: for bytes that
    /// did not decode. See [`read_decoded`].
    fn read_again<'a>(
        &'a self,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Bytes>>> + Send + 'a>>;
}

/// Reads these ranges and decodes them. Where `decode` fails with `Corrupt`, a cache may hold bytes that were damaged when
/// it fetched them, so they are read again past every cache, once, and the second failure counts.
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
            decode(reader.read_again(object, ranges, share, meter).await?)
        }
        answer => answer,
    }
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
