//! Refused lines, with the reason.
//!
//! A reject is one line of NDJSON: `source`, `line` (from 1), `offset` (in the decompressed input), `reason`,
//! and the raw line as `raw`, or as `raw_base64` if it is not UTF-8. Of a line longer than 1 MiB there is only the
//! start, marked
//! `"cut":true`.

use std::collections::BTreeMap;

use crate::json::ObjectWriter;

const RAW_BYTES_MAX: usize = 1 << 20;
const REASONS_MAX: usize = 50;
/// Characters of a reason that a message shows.
const SHOWN_MAX: usize = 500;

/// The rejects of one batch as NDJSON, and how many there were for each kind of reason.
#[derive(Debug, Default)]
pub struct Rejects {
    /// NDJSON.
    pub lines: Vec<u8>,
    /// The reason of the first one.
    pub first_reason: Option<String>,
    /// How many there are of each kind of reason.
    pub counts: BTreeMap<String, u64>,
}

/// One refused line.
#[derive(Clone, Copy)]
pub struct Reject<'a> {
    /// The input's name.
    pub source: &'a str,
    /// The line, from 1.
    pub line: u64,
    /// Its offset in the decompressed input.
    pub offset: u64,
    /// Why it is refused.
    pub reason: &'a str,
    /// The line.
    pub raw: &'a [u8],
    /// Whether `raw` is only the start of the line: the rest was not held.
    pub cut: bool,
}

impl Rejects {
    /// Adds one.
    pub fn push(&mut self, reject: &Reject<'_>) {
        self.count(kind_of(reject.reason), 1);
        self.first_reason.get_or_insert_with(|| cut_short(reject.reason));
        let mut object = ObjectWriter::new(&mut self.lines);
        object.text("source", reject.source);
        object.long("line", reject.line.min(i64::MAX as u64) as i64);
        object.long("offset", reject.offset.min(i64::MAX as u64) as i64);
        object.text("reason", reject.reason);
        let raw = reject.raw.get(..RAW_BYTES_MAX).unwrap_or(reject.raw);
        match std::str::from_utf8(raw) {
            Ok(raw) => object.text("raw", raw),
            Err(_) => object.text("raw_base64", &base64(raw)),
        }
        if reject.cut || raw.len() < reject.raw.len() {
            object.raw("cut", b"true");
        }
        object.finish();
        self.lines.push(b'\n');
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Appends others, never keeping more than 50 kinds.
    pub fn append(&mut self, others: &Rejects) {
        self.lines.extend_from_slice(&others.lines);
        others.counts.iter().for_each(|(kind, count)| self.count(kind.clone(), *count));
    }

    fn count(&mut self, kind: String, by: u64) {
        let is_room = self.counts.len() < REASONS_MAX || self.counts.contains_key(&kind);
        let kind = if is_room { kind } else { "other reasons".to_owned() };
        *self.counts.entry(kind).or_default() += by;
    }
}

/// A reason as a message shows it, however much of the line it quotes.
fn cut_short(reason: &str) -> String {
    match reason.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &reason[..end]),
        None => reason.to_owned(),
    }
}

/// A reason without what differs from line to line: what is quoted, numbers that are no part of a name and no limit, and
/// facts in brackets.
fn kind_of(reason: &str) -> String {
    let reason = reason.split(" [").next().unwrap_or(reason);
    let mut kind = String::with_capacity(reason.len());
    let (mut in_quotes, mut in_number) = (false, false);
    for c in reason.chars() {
        let is_kept =
            in_number || kind.ends_with(|c: char| c.is_alphabetic() || c == '-') || kind.ends_with("than ");
        in_number = c.is_ascii_digit() && is_kept;
        if c == '"' || c == '`' {
            if !in_quotes {
                kind.push('…');
            }
            in_quotes = !in_quotes;
        } else if in_quotes {
        } else if in_number || !c.is_ascii_digit() {
            kind.push(c);
        } else if !kind.ends_with('#') {
            kind.push('#');
        }
    }
    kind.chars().take(200).collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let is_used = digit <= group.len();
            text.push(if is_used {
                char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests;
