//! Packs: copies of the hot footers of many splits in one object, so that opening thousands takes tens of requests.
//!
//! ```text
//! "FROSTPK1" | version u32 = 1 | count u32 | count x (split 16 bytes, length u32) | XXH3-64 of all before, u64
//! hot footers, in that order
//! ```
//!
//! Integers are little-endian. A hot footer has its own checksum and identity, so a pack can be incomplete, out of date
//! or damaged: whoever reads a footer in it opens the split as ever, and where that fails reads the split's own.

use std::collections::HashMap;

use frostline_base::{ByteRange, Error, Result, SplitId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::bytes_codec::Cursor;

const MAGIC: &[u8; 8] = b"FROSTPK1";
const FORMAT_VERSION: u32 = 1;
const CHECKSUM_BYTES: usize = 8;
/// Magic, version and count.
const HEAD_BYTES: usize = MAGIC.len() + 8;
/// An identity and a length.
const ENTRY_BYTES: usize = 20;
/// As many splits are named by the catalog. Larger packs are few, and their directories name them.
const NAMED_MAX: usize = 64;

/// The directory of a pack: which splits it has, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Pack {
    places: HashMap<SplitId, ByteRange>,
}

impl Pack {
    /// The kind of file that a pack is for the catalog, and the ending of its name.
    pub const KIND: &'static str = "pack";
    /// No pack has more splits.
    pub const SPLITS_MAX: usize = 1_024;
    /// A hot footer of more bytes is not packed.
    pub const FOOTER_BYTES_MAX: u64 = 64 << 10;

    /// Where the directory of a pack of so many splits is.
    pub fn directory(splits: usize) -> ByteRange {
        0..(HEAD_BYTES + splits * ENTRY_BYTES + CHECKSUM_BYTES) as u64
    }

    /// Opens a pack of `bytes` bytes by its [directory](Pack::directory).
    pub fn open(directory: &[u8], bytes: u64) -> Result<Pack> {
        let wrong = |what: &str| Error::corrupt(format!("a pack of hot footers {what}"));
        let (checked, sum) = directory
            .split_last_chunk::<CHECKSUM_BYTES>()
            .filter(|(checked, _)| checked.starts_with(MAGIC) && checked.len() >= HEAD_BYTES)
            .ok_or_else(|| wrong("does not begin as one"))?;
        if xxh3_64(checked).to_le_bytes() != *sum {
            return Err(wrong("has a directory whose checksum does not match"));
        }
        Pack::decode(&checked[MAGIC.len()..], directory.len() as u64, bytes)
    }

    /// What follows the magic; the contents are from `start` on.
    pub(crate) fn decode(checked: &[u8], start: u64, bytes: u64) -> Result<Pack> {
        let wrong = |what: &str| Error::corrupt(format!("a pack of hot footers {what}"));
        let mut cursor = Cursor::new(checked);
        let version = cursor.u32_le()?;
        if version != FORMAT_VERSION {
            let what = format!(
                "a pack of hot footers has format {version}, this program reads {FORMAT_VERSION}: use a newer version"
            );
            return Err(Error::invalid(what));
        }
        let count = cursor.u32_le()? as usize;
        if count > Pack::SPLITS_MAX || cursor.rest().len() != count * ENTRY_BYTES {
            return Err(wrong("has a directory of another length than it states"));
        }
        let (mut places, mut at) = (HashMap::with_capacity(count), start);
        for _ in 0..count {
            let bits = cursor.take(16)?.iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte));
            let end = at + u64::from(cursor.u32_le()?);
            places.insert(SplitId::from_random(bits), at..end);
            at = end;
        }
        if at != bytes {
            return Err(wrong("has not the length of its contents"));
        }
        Ok(Pack { places })
    }

    /// Where the hot footer of a split is.
    pub fn place(&self, split: SplitId) -> Option<&ByteRange> {
        self.places.get(&split)
    }

    /// The splits that it has, in no order.
    pub fn splits(&self) -> impl Iterator<Item = SplitId> + '_ {
        self.places.keys().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// A pack of these hot footers, in the order of their times, and what a catalog says of it.
    pub fn write(mut footers: Vec<PackedFooter>) -> Result<(Vec<u8>, PackAbout)> {
        if footers.len() > Pack::SPLITS_MAX {
            return Err(Error::invalid(format!("a pack has at most {} splits", Pack::SPLITS_MAX)));
        }
        footers.sort_by_key(|of| (of.times, of.split));
        let mut file = MAGIC.to_vec();
        file.extend(FORMAT_VERSION.to_le_bytes());
        file.extend((footers.len() as u32).to_le_bytes());
        for PackedFooter { split, footer, .. } in &footers {
            let length = u32::try_from(footer.len()).ok().filter(|l| u64::from(*l) <= Pack::FOOTER_BYTES_MAX);
            let length = length.ok_or_else(|| Error::invalid("a hot footer is too long for a pack"))?;
            file.extend(split.bits().to_be_bytes());
            file.extend(length.to_le_bytes());
        }
        file.extend(xxh3_64(&file).to_le_bytes());
        footers.iter().for_each(|of| file.extend(&of.footer));
        let all = || footers.iter().map(|of| of.times);
        let first = all().map(|times| times.map(|(first, _)| first)).min().flatten();
        let last = all().flatten().map(|(_, last)| last).max();
        let named = footers.len() <= NAMED_MAX;
        let about = PackAbout {
            format: FORMAT_VERSION,
            splits: footers.len(),
            // None where one has none.
            times: first.zip(last),
            named: footers.iter().map(|of| of.split).filter(|_| named).collect(),
        };
        Ok((file, about))
    }
}

/// The hot footer of a split that is packed.
#[derive(Clone, Debug)]
pub struct PackedFooter {
    /// The split.
    pub split: SplitId,
    /// Its first and last time, in microseconds; none where no row has one.
    pub times: Option<(i64, i64)>,
    /// The hot footer.
    pub footer: Vec<u8>,
}

/// What a catalog says of a pack beside its object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackAbout {
    /// The version of the format.
    pub format: u32,
    /// How many splits it has.
    pub splits: usize,
    /// Their first and last time, in microseconds; absent where a split has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<(i64, i64)>,
    /// These splits, where they are 64 or fewer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<SplitId>,
}

impl PackAbout {
    /// What a catalog says. None where it is no pack that this version can read: it has no split then.
    pub fn read(about: &Value) -> Option<PackAbout> {
        let about = PackAbout::deserialize(about).ok()?;
        (about.format == FORMAT_VERSION && about.splits <= Pack::SPLITS_MAX).then_some(about)
    }

    /// The same as a catalog keeps it.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Whether every split that it has is gone, as far as it names them.
    pub fn is_dead(&self, is_live: impl Fn(SplitId) -> bool) -> bool {
        !self.named.is_empty() && !self.named.iter().any(|split| is_live(*split))
    }
}

#[cfg(test)]
mod tests;
