//! Syslog as it is sent: messages in a stream, and the documents of messages.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use frostline_base::{Error, Result};

use crate::json::ObjectWriter;
use crate::lines::{Refusal, syslog as line};

/// The longest message that a stream may announce; what is beyond the limit of a [`Framer`] is skipped.
const COUNT_MAX: usize = 16 << 20;

/// A message, and whether its end is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its bytes, which are not empty.
    pub bytes: Vec<u8>,
    /// Whether it was longer than the limit, or the stream ended inside it.
    pub is_cut: bool,
}

/// Finds the messages of a stream (RFC 6587): each begins with its length (`37 <13>1 …`), or ends with a line feed.
#[derive(Debug)]
pub struct Framer {
    bytes_max: usize,
    message: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between messages.
    Between,
    /// In digits that may be a length; they are also in the message.
    Digits(usize),
    /// In a message of which so many bytes are to come.
    Counted { left: usize, is_cut: bool },
    /// In a message that ends with a line feed.
    Line { is_cut: bool },
}

impl Framer {
    /// For messages of which at most so many bytes are kept.
    pub fn new(bytes_max: usize) -> Framer {
        Framer { bytes_max, message: Vec::new(), state: State::Between }
    }

    /// Whether no message has begun.
    pub fn is_between(&self) -> bool {
        self.state == State::Between
    }

    /// Takes more of the stream, and hands each message that is whole to `take`. `Invalid` where a length is larger than
    /// any message: where the next one begins is then not known.
    pub fn push(&mut self, mut bytes: &[u8], take: &mut dyn FnMut(Message)) -> Result<()> {
        while let Some((first, after)) = bytes.split_first() {
            match self.state {
                State::Between => match first {
                    // What follows a message of a length, and empty lines.
                    b'\n' | b'\r' | 0 => bytes = after,
                    b'1'..=b'9' => {
                        self.message.push(*first);
                        self.state = State::Digits(usize::from(first - b'0'));
                        bytes = after;
                    }
                    _ => self.state = State::Line { is_cut: false },
                },
                State::Digits(count) => match first {
                    b'0'..=b'9' if self.message.len() < 9 => {
                        self.message.push(*first);
                        self.state = State::Digits(count * 10 + usize::from(first - b'0'));
                        bytes = after;
                    }
                    b' ' if count > COUNT_MAX => {
                        (self.state, self.message) = (State::Between, Vec::new());
                        let what = format!("a message of {count} bytes is longer than {COUNT_MAX}");
                        return Err(Error::invalid(what));
                    }
                    b' ' => {
                        self.message.clear();
                        self.state = State::Counted { left: count, is_cut: false };
                        bytes = after;
                    }
                    _ => self.state = State::Line { is_cut: false },
                },
                State::Counted { left, is_cut } => {
                    let (ours, others) = bytes.split_at(left.min(bytes.len()));
                    let is_cut = self.keep(ours) || is_cut;
                    bytes = others;
                    match left - ours.len() {
                        0 => self.end(is_cut, take),
                        left => self.state = State::Counted { left, is_cut },
                    }
                }
                State::Line { is_cut } => {
                    let end = memchr::memchr(b'\n', bytes);
                    let (ours, others) = bytes.split_at(end.unwrap_or(bytes.len()));
                    let is_cut = self.keep(ours) || is_cut;
                    bytes = others;
                    match end {
                        Some(_) => self.end(is_cut, take),
                        None => self.state = State::Line { is_cut },
                    }
                }
            }
        }
        Ok(())
    }

    /// What came of the last message where the stream ended inside it. A line is whole without its line feed.
    pub fn finish(mut self) -> Option<Message> {
        let is_cut = match self.state {
            State::Between => return None,
            State::Counted { .. } => true,
            State::Line { is_cut } => is_cut,
            State::Digits(_) => false,
        };
        let mut last = None;
        self.end(is_cut, &mut |message| last = Some(message));
        last
    }

    /// Keeps what fits; whether anything does not.
    fn keep(&mut self, bytes: &[u8]) -> bool {
        let fitting = bytes.len().min(self.bytes_max.saturating_sub(self.message.len()));
        self.message.extend_from_slice(&bytes[..fitting]);
        fitting < bytes.len()
    }

    fn end(&mut self, is_cut: bool, take: &mut dyn FnMut(Message)) {
        self.state = State::Between;
        let bytes = std::mem::take(&mut self.message);
        if !bytes.is_empty() {
            take(Message { bytes, is_cut });
        }
    }
}

/// The document of a message that came from `peer`; none where it is blank. One that is not syslog is kept as it is,
/// in `message`, with the reason in `syslog.unparsed`.
pub fn document(message: &Message, peer: IpAddr, received_us: i64) -> Option<Vec<u8>> {
    let trimmed = message.bytes.trim_ascii_start();
    let end = trimmed.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | b' ' | 0))?;
    let bytes = &trimmed[..=end];
    let text = String::from_utf8_lossy(bytes);
    let mut out = Vec::with_capacity(bytes.len() + 256);
    if let Err(refusal) = write(&text, received_us, &mut out) {
        write_unparsed(&text, &refusal, received_us, &mut out);
    }
    let mut object = ObjectWriter::after_members(&mut out);
    object.text("source.ip", &peer.to_canonical().to_string());
    if message.is_cut {
        object.raw("syslog.truncated", b"true");
    }
    if std::str::from_utf8(bytes).is_err() {
        object.text("syslog.raw", &BASE64_STANDARD.encode(bytes));
    }
    object.finish();
    Some(out)
}

/// Writes the members of a message, without the end of the object.
fn write(text: &str, received_us: i64, out: &mut Vec<u8>) -> std::result::Result<(), Refusal> {
    let mut object = ObjectWriter::new(out);
    let has_time = line::write_received(text, received_us, &mut object)?;
    if !has_time {
        object.time("@timestamp", i128::from(received_us) * 1_000);
    }
    Ok(())
}

fn write_unparsed(text: &str, refusal: &Refusal, received_us: i64, out: &mut Vec<u8>) {
    out.clear();
    let mut object = ObjectWriter::new(out);
    object.time("@timestamp", i128::from(received_us) * 1_000);
    line::write_priority_of(text, &mut object);
    object.text("message", text);
    object.text("syslog.unparsed", refusal.reason());
}

#[cfg(test)]
mod tests;
