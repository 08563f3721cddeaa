//! What the bytes of a split are of, part by part and field by field.
//!
//! Columns belong to one field. A block of a dictionary or of the digest is shared by the fields that have entries in it,
//! in proportion to what these take before the block is packed; a stored list by the fields whose entries name it, in
//! equal parts. So the fields together have all bytes of these parts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use frostline_base::{ByteRange, Error, Result};

use crate::bytes_codec::Cursor;
use crate::dictionary::{Dictionary, Entry, TextKey};
use crate::digest;
use crate::footer::ColumnKind;
use crate::identities::ID_FIELD_NUMBER;
use crate::mapping::ID_COLUMN;
use crate::pairs::PairKey;
use crate::postings::Postings;
use crate::reader::Split;
use crate::table::{Block, KeyRanges, read_key, unpack_block};
use crate::writer::PartBytes;

/// What a field takes, in bytes of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldBytes {
    /// Its columns.
    pub columns: u64,
    /// Its entries in the text dictionary.
    pub text_dictionary: u64,
    /// Its entries in the exact dictionary.
    pub exact_dictionary: u64,
    /// Its pairs of frequent words.
    pub pairs: u64,
    /// Its postings outside the dictionaries.
    pub postings: u64,
    /// What the digest has of it outside the hot footer.
    pub digest: u64,
}

impl FieldBytes {
    /// All of these.
    pub fn all(&self) -> u64 {
        self.columns + self.text_dictionary + self.exact_dictionary + self.pairs + self.postings + self.digest
    }

    /// Adds what it takes in another split.
    pub fn add(&mut self, other: &FieldBytes) {
        self.columns += other.columns;
        self.text_dictionary += other.text_dictionary;
        self.exact_dictionary += other.exact_dictionary;
        self.pairs += other.pairs;
        self.postings += other.postings;
        self.digest += other.digest;
    }
}

/// What the bytes of a split are of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitBytes {
    /// Its parts; together they are the file.
    pub parts: PartBytes,
    /// Its fields, by path; what clients call documents is of `_id`.
    pub fields: BTreeMap<String, FieldBytes>,
}

/// Counts the bytes of a split of which all fields and pages are known, while its blocks are read.
#[derive(Debug)]
pub struct ByteCounts<'s> {
    split: &'s Split,
    parts: PartBytes,
    fields: HashMap<u16, FieldBytes>,
    /// The fields that name each stored list, by its start, and how long it is.
    lists: BTreeMap<u64, (u64, BTreeSet<u16>)>,
}

impl<'s> ByteCounts<'s> {
    /// Of `split`, before its blocks were read.
    pub fn new(split: &'s Split) -> Result<Self> {
        let (mut parts, mut fields) = (PartBytes::default(), HashMap::<u16, FieldBytes>::new());
        let mut lists = BTreeMap::new();
        for (kind, _, bytes) in split.column_kinds() {
            match kind {
                ColumnKind::Source => parts.source += bytes,
                _ => parts.columns += bytes,
            }
            let field = match kind {
                ColumnKind::Field { field, .. } | ColumnKind::FieldNanos { field, .. } => field,
                ColumnKind::Id | ColumnKind::Version | ColumnKind::SeqNo => ID_FIELD_NUMBER,
                _ => continue,
            };
            fields.entry(field).or_default().columns += bytes;
        }
        parts.columns += split.row_group_bytes();
        for field in split.fields() {
            name_list(&mut lists, &split.exists(field.number)?, field.number);
        }
        parts.postings = length(&split.text().lists());
        Ok(ByteCounts { split, parts, fields, lists })
    }

    /// Counts a block of [`Split::text`].
    pub fn text_block(&mut self, block: &Block, bytes: &[u8]) -> Result<()> {
        self.parts.text_dictionary += bytes.len() as u64;
        let field = |entry: &Entry<'_>| TextKey::split(entry.key).map(|key| key.field);
        self.dictionary_block(self.split.text(), block, bytes, field, |of| &mut of.text_dictionary)
    }

    /// Counts a block of [`Split::exact`].
    pub fn exact_block(&mut self, block: &Block, bytes: &[u8]) -> Result<()> {
        self.parts.exact_dictionary += bytes.len() as u64;
        let field = |entry: &Entry<'_>| entry.key.first_chunk().map(|field| u16::from_be_bytes(*field));
        self.dictionary_block(self.split.exact(), block, bytes, field, |of| &mut of.exact_dictionary)
    }

    /// Counts a block of [`Split::pairs`].
    pub fn pairs_block(&mut self, block: &Block, bytes: &[u8]) -> Result<()> {
        self.parts.pairs += bytes.len() as u64;
        let field = |entry: &Entry<'_>| PairKey::split(entry.key).map(|key| key.field);
        self.dictionary_block(self.split.pairs(), block, bytes, field, |of| &mut of.pairs)
    }

    fn dictionary_block(
        &mut self,
        dictionary: &Dictionary,
        block: &Block,
        bytes: &[u8],
        field: impl Fn(&Entry<'_>) -> Option<u16>,
        part: impl Fn(&mut FieldBytes) -> &mut u64,
    ) -> Result<()> {
        let mut raw = BTreeMap::new();
        dictionary.scan(block, bytes, &KeyRanges::all(), |entry| {
            if let Some(field) = field(&entry) {
                *raw.entry(field).or_default() += entry.bytes as u64;
                name_list(&mut self.lists, &entry.postings, field);
            }
        })?;
        self.share(bytes.len() as u64, &raw, part);
        Ok(())
    }

    /// Counts a block of [`Split::digest_table`].
    pub fn digest_block(&mut self, block: &Block, bytes: &[u8]) -> Result<()> {
        self.parts.digest += bytes.len() as u64;
        block.check(bytes)?;
        let unpacked = unpack_block(bytes, digest::BLOCK_RAW_BYTES_MAX)?;
        let (mut cursor, mut key, mut raw) = (Cursor::new(&unpacked), Vec::new(), BTreeMap::new());
        while !cursor.is_empty() {
            let left = cursor.rest().len();
            read_key(&mut cursor, &mut key)?;
            cursor.bytes()?;
            // The times of all documents are of no field.
            if let Some(field) = key.first_chunk() {
                let bytes = (left - cursor.rest().len()) as u64;
                *raw.entry(u16::from_be_bytes(*field)).or_default() += bytes;
            }
        }
        self.share(bytes.len() as u64, &raw, |of| &mut of.digest);
        Ok(())
    }

    /// Counts a block of [`Split::origins_table`].
    pub fn origins_block(&mut self, bytes: &[u8]) {
        self.parts.origins += bytes.len() as u64;
    }

    /// Shares `bytes` among fields in proportion to `weights`.
    fn share(
        &mut self,
        bytes: u64,
        weights: &BTreeMap<u16, u64>,
        part: impl Fn(&mut FieldBytes) -> &mut u64,
    ) {
        let all: u64 = weights.values().sum();
        let (mut weight_before, mut shared) = (0, 0);
        for (field, weight) in weights {
            weight_before += weight;
            let share =
                (u128::from(bytes) * u128::from(weight_before) / u128::from(all.max(1))) as u64 - shared;
            *part(self.fields.entry(*field).or_default()) += share;
            shared += share;
        }
    }

    /// The counts of a file of `file_bytes` whose hot footer is at `footer`, once every block was counted.
    pub fn finish(mut self, file_bytes: u64, footer: &ByteRange) -> Result<SplitBytes> {
        for (bytes, fields) in std::mem::take(&mut self.lists).into_values() {
            let equal = fields.into_iter().map(|field| (field, 1)).collect();
            self.share(bytes, &equal, |of| &mut of.postings);
        }
        let mut parts = self.parts;
        let known = parts.source + parts.columns + parts.text_dictionary + parts.exact_dictionary;
        let known = known + parts.pairs + parts.postings + parts.digest + parts.origins + HEAD_BYTES;
        // What is left before the end of the hot footer is what that left outside.
        let directory = footer.end.checked_sub(known).filter(|bytes| *bytes >= length(footer));
        let parquet = file_bytes.checked_sub(footer.end);
        let (Some(directory), Some(parquet)) = (directory, parquet) else {
            return Err(Error::corrupt("the parts of a split overlap"));
        };
        (parts.footer, parts.parquet_footer) = (directory, parquet + HEAD_BYTES);
        let mut fields = BTreeMap::<String, FieldBytes>::new();
        for field in self.split.fields() {
            let of = self.fields.get(&field.number).copied().unwrap_or_default();
            fields.entry(field.path.clone()).or_default().add(&of);
        }
        if let Some(of) = self.fields.get(&ID_FIELD_NUMBER) {
            fields.entry(ID_COLUMN.to_owned()).or_default().add(of);
        }
        Ok(SplitBytes { parts, fields })
    }
}

/// The file begins with what tells that it is a Parquet file, which is counted as part of the Parquet footer.
const HEAD_BYTES: u64 = 4;

fn length(range: &ByteRange) -> u64 {
    range.end - range.start
}

fn name_list(lists: &mut BTreeMap<u64, (u64, BTreeSet<u16>)>, postings: &Postings, field: u16) {
    if let Postings::Stored { range, .. } = postings {
        lists.entry(range.start).or_insert_with(|| (length(range), BTreeSet::new())).1.insert(field);
    }
}

#[cfg(test)]
mod tests;
