//! One live split, as the catalog knows it: where it is, how to open it, when its rows are from.

use std::collections::BTreeMap;

use object_store::path::Path;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use frostline_base::{ByteRange, Error, ObjectRef, Result, SplitId};
use frostline_split::{Sealed, parse_date};

use crate::actions::{Add, Remove};

const FOOTER: &str = "frostline.footer";
const ROWS: &str = "frostline.rows";
const ROWS_WITHOUT_TIME: &str = "frostline.rowsWithoutTime";
const TIME_MIN: &str = "frostline.timeMin";
const TIME_MAX: &str = "frostline.timeMax";
const UNPACKED_BYTES: &str = "frostline.unpackedBytes";
const MERGED: &str = "frostline.merged";
const CHECKSUM: &str = "frostline.checksum";

/// One live split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitEntry {
    /// Its identity.
    pub id: SplitId,
    /// Its object; the key is below the repository's root.
    pub object: ObjectRef,
    /// Where its hot footer is in the object: one read of this range opens the split.
    pub footer: ByteRange,
    /// Rows, those without a time included.
    pub rows: u64,
    /// Its first and last time, both inside, in microseconds; `None` when no row has a time.
    pub times: Option<(i64, i64)>,
    /// Rows that have no time.
    pub rows_without_time: u64,
    /// About how much memory its documents took before they were compressed, which is what writing them
    /// again takes; `None` where its writer did not say.
    pub unpacked_bytes: Option<u64>,
    /// Whether merging wrote it, which packs better than ingest does. Damage to this changes only what is merged, so the
    /// checksum leaves it out.
    pub is_merged: bool,
}

impl SplitEntry {
    /// A split that was written so, not by merging, and whose object has this key.
    pub fn new(id: SplitId, key: String, sealed: &Sealed) -> SplitEntry {
        SplitEntry {
            id,
            object: ObjectRef { key, bytes: sealed.bytes },
            footer: sealed.footer.clone(),
            rows: u64::from(sealed.rows),
            times: sealed.times,
            rows_without_time: u64::from(sealed.rows_without_time),
            unpacked_bytes: Some(sealed.unpacked_bytes),
            is_merged: false,
        }
    }
}

/// A live file that another tool committed. Frostline cannot search it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignFile {
    /// The path below the index, as the commit names it.
    pub path: String,
    /// Its length.
    pub bytes: u64,
}

/// A live file: one of ours, or not.
pub(crate) enum LiveFile {
    Split(SplitEntry),
    Foreign(ForeignFile),
}

/// The path of a split's object below its index. The first two digits of the identity, which is random,
/// come first, so that no prefix of the bucket runs hot.
pub(crate) fn split_path(id: SplitId) -> String {
    let id = id.to_string();
    let hash = id.get(..2).unwrap_or_default();
    format!("{hash}/{id}.parquet")
}

/// The key of a split's object below the repository's root.
pub(crate) fn split_key(folder: &Path, id: SplitId) -> String {
    format!("{folder}/{}", split_path(id))
}

/// The split that a path names, where it is one of ours.
pub(crate) fn split_of_path(path: &str) -> Option<SplitId> {
    let (_, file) = path.split_once('/')?;
    let id: SplitId = file.strip_suffix(".parquet")?.parse().ok()?;
    (split_path(id) == path).then_some(id)
}

impl SplitEntry {
    /// Refuses an entry whose numbers contradict each other, before it is written and after it is read.
    pub(crate) fn check(&self, folder: &Path) -> Result<(), String> {
        let footer = &self.footer;
        if self.object.key != split_key(folder, self.id) {
            return Err(format!("its key is not {}", split_key(folder, self.id)));
        }
        if footer.start >= footer.end || footer.end > self.object.bytes || self.object.bytes > i64::MAX as u64
        {
            return Err(format!("its footer {footer:?} is not inside its {} bytes", self.object.bytes));
        }
        if self.rows_without_time > self.rows || self.times.is_none() != (self.rows_without_time == self.rows)
        {
            return Err(format!(
                "{} of {} rows without a time contradict its times",
                self.rows_without_time, self.rows
            ));
        }
        if self.times.is_some_and(|(min, max)| min > max) {
            return Err("its first time is after its last".to_owned());
        }
        Ok(())
    }

    /// The action that makes it live.
    pub(crate) fn to_add(&self, now_ms: i64, data_change: bool) -> Add {
        Add {
            path: split_path(self.id),
            partition_values: BTreeMap::new(),
            size: self.object.bytes as i64, // `check` refuses more than i64::MAX
            modification_time: now_ms,
            data_change,
            stats: Some(self.statistics().to_json()),
            tags: Some(self.tags()),
            deletion_vector: None,
        }
    }

    /// The action that ends its life.
    pub(crate) fn to_remove(&self, now_ms: i64, data_change: bool) -> Remove {
        Remove {
            path: split_path(self.id),
            deletion_timestamp: Some(now_ms),
            data_change,
            size: Some(self.object.bytes as i64),
        }
    }

    fn tags(&self) -> BTreeMap<String, Option<String>> {
        let mut tags = BTreeMap::new();
        let mut set = |key: &str, value: String| tags.insert(key.to_owned(), Some(value));
        set(FOOTER, format!("{}-{}", self.footer.start, self.footer.end));
        set(ROWS, self.rows.to_string());
        if self.rows_without_time > 0 {
            set(ROWS_WITHOUT_TIME, self.rows_without_time.to_string());
        }
        if let Some((min, max)) = self.times {
            set(TIME_MIN, min.to_string());
            set(TIME_MAX, max.to_string());
        }
        if let Some(bytes) = self.unpacked_bytes {
            set(UNPACKED_BYTES, bytes.to_string());
        }
        if self.is_merged {
            set(MERGED, "true".to_owned());
        }
        set(CHECKSUM, format!("{:016x}", self.checksum()));
        tags
    }

    /// The XXH3 (64 bits, seed 0) of the identity and all numbers: a log's objects carry no checksum of their own.
    fn checksum(&self) -> u64 {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend(self.id.to_string().as_bytes());
        let (min, max) = self.times.unwrap_or_default();
        let numbers = [
            self.object.bytes,
            self.footer.start,
            self.footer.end,
            self.rows,
            self.rows_without_time,
            u64::from(self.times.is_some()),
            min as u64,
            max as u64,
            u64::from(self.unpacked_bytes.is_some()),
            self.unpacked_bytes.unwrap_or_default(),
        ];
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        xxh3_64(&bytes)
    }

    /// Delta statistics, which other tools prune by. Bounds that RFC 3339 cannot write are left out.
    pub(crate) fn statistics(&self) -> Statistics {
        let times = self.times.filter(|(min, max)| rfc3339(*min).is_some() && rfc3339(*max).is_some());
        Statistics {
            rows: i64::try_from(self.rows).ok(),
            rows_without_time: i64::try_from(self.rows_without_time).ok(),
            time_min: times.map(|(min, _)| min),
            time_max: times.map(|(_, max)| max),
        }
    }
}

/// What Delta statistics say about the rows of a file and their times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    pub(crate) rows: Option<i64>,
    pub(crate) rows_without_time: Option<i64>,
    pub(crate) time_min: Option<i64>,
    pub(crate) time_max: Option<i64>,
}

impl Statistics {
    /// Reads the text of an action; what it does not say, or not so that it can be read, is `None`.
    pub(crate) fn parse(text: &str) -> Statistics {
        let stats: Value = serde_json::from_str(text).unwrap_or_default();
        let long = |at: &str| stats.pointer(at)?.as_i64();
        let time = |at: &str| {
            let text = stats.pointer(at)?.as_str()?;
            let time = text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond);
            // The last hours of the calendar.
            time.or_else(|| parse_date(text))
        };
        Statistics {
            rows: long("/numRecords"),
            rows_without_time: long("/nullCount/_timestamp"),
            time_min: time("/minValues/_timestamp"),
            time_max: time("/maxValues/_timestamp"),
        }
    }

    /// The text that [`Statistics::parse`] reads.
    fn to_json(self) -> String {
        let mut stats = json!({
            "numRecords": self.rows,
            "nullCount": { "_timestamp": self.rows_without_time },
        });
        for (key, time) in [("minValues", self.time_min), ("maxValues", self.time_max)] {
            if let Some(time) = time.and_then(rfc3339) {
                stats[key] = json!({ "_timestamp": time });
            }
        }
        stats.to_string()
    }
}

fn rfc3339(time_us: i64) -> Option<String> {
    const EPOCH: jiff::civil::DateTime = jiff::civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let time = EPOCH.checked_add(jiff::SignedDuration::from_micros(time_us)).ok()?;
    let written = format!("{time:.6}Z");
    // Years outside 0000 to 9999 are written with a sign, which other readers refuse.
    written.starts_with(|c: char| c.is_ascii_digit()).then_some(written)
}

/// The file that an `add` names. Foreign is what lies where no split does. A split whose tags are missing, make no
/// sense or do not match their checksum is `Corrupt`, and the message names the log object `at`.
pub(crate) fn live_file<'a>(
    folder: &Path,
    at: &str,
    path: &str,
    size: i64,
    tags: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<LiveFile> {
    let corrupt = |what: String| Error::corrupt(what).with("object", at).with("split", path);
    let bytes = u64::try_from(size).map_err(|_| corrupt("a file's size is negative".to_owned()))?;
    let foreign = || LiveFile::Foreign(ForeignFile { path: path.to_owned(), bytes });
    let Some(id) = split_of_path(path) else { return Ok(foreign()) };
    let mut parsed = Tags::default();
    for (key, value) in tags {
        parsed.take(key, value).map_err(corrupt)?;
    }
    let lost = || corrupt("a split's entry has lost its tags".to_owned());
    let footer = parsed.footer.ok_or_else(lost)?;
    let times = parsed.time_min.zip(parsed.time_max);
    let object = ObjectRef { key: split_key(folder, id), bytes };
    let Tags { rows, rows_without_time, unpacked_bytes, is_merged, checksum, .. } = parsed;
    let entry = SplitEntry { id, object, footer, rows, times, rows_without_time, unpacked_bytes, is_merged };
    entry.check(folder).map_err(|why| corrupt(format!("a split's entry contradicts itself: {why}")))?;
    if checksum.is_some_and(|checksum| checksum != entry.checksum()) {
        return Err(corrupt("the checksum of a split's entry does not match".to_owned()));
    }
    Ok(LiveFile::Split(entry))
}

#[derive(Default)]
struct Tags {
    footer: Option<ByteRange>,
    rows: u64,
    rows_without_time: u64,
    time_min: Option<i64>,
    time_max: Option<i64>,
    unpacked_bytes: Option<u64>,
    is_merged: bool,
    /// Absent in entries of earlier versions.
    checksum: Option<u64>,
}

impl Tags {
    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            FOOTER => {
                let (start, end) = value.split_once('-').ok_or("a footer tag is not START-END")?;
                self.footer = Some(number(key, start)?..number(key, end)?);
            }
            ROWS => self.rows = number(key, value)?,
            ROWS_WITHOUT_TIME => self.rows_without_time = number(key, value)?,
            TIME_MIN => self.time_min = Some(number(key, value)?),
            TIME_MAX => self.time_max = Some(number(key, value)?),
            UNPACKED_BYTES => self.unpacked_bytes = Some(number(key, value)?),
            MERGED => self.is_merged = value == "true",
            CHECKSUM => {
                let checksum = u64::from_str_radix(value, 16);
                self.checksum =
                    Some(checksum.map_err(|_| format!("tag {key} is not 16 hexadecimal digits"))?);
            }
            _ => {}
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("tag {key} is not a number: {value:?}"))
}

#[cfg(test)]
mod tests;
