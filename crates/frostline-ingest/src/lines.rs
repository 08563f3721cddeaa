//! Parses lines of log files into documents.
//!
//! A [`LineParser`] takes one line (for CSV one record) at a time and returns the JSON bytes of its
//! documents, with `@timestamp` if the line has a time. JSON lines are passed on unchanged. A line
//! that cannot be parsed is a [`Refusal`]; it produces no output and does not affect the next line. Invalid UTF-8 and
//! NUL bytes refuse
//! a line in every format, because they could not be returned unchanged. `docs/ingest.md` lists the field names.

mod combined;
mod container;
mod csv;
mod detect;
mod escapes;
mod events;
mod journald;
mod jsonl;
mod logfmt;
pub(crate) mod syslog;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use frostline_base::{Error, Result};

use crate::json::ObjectWriter;
use crate::times;

pub(crate) use container::{Runtime, Unfinished};
pub use csv::CsvHeader;
pub(crate) use detect::LINES_MAX as SAMPLE_LINES;
pub(crate) use events::Events;
pub use events::Multiline;
pub(crate) use jsonl::announces_document;
pub(crate) use jsonl::is_pretty;

/// Why one line or document is not taken. It comes from reading that line and from nothing else, and is no
/// error of the run: a store that fails can never become a refused line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// A refusal with its reason, a sentence without a full stop.
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Refusal(reason.into())
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.0
    }
}

/// How the lines of an input are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Decided from the first lines of each input by majority.
    #[default]
    Auto,
    /// A JSON object a line, taken unchanged; also arrays of objects.
    NdJson,
    /// As [`Format::NdJson`], but the time is in a field of nginx or another usual name and becomes
    /// `@timestamp`; nginx's `\xHH` escapes are understood.
    Nginx,
    /// What Elasticsearch's `_bulk` takes: lines that say `index` or `create`, with the `_id` if there is one, and documents
    /// as [`Format::Nginx`].
    Bulk,
    /// The combined or common log format of web servers.
    Combined,
    /// RFC 5424, RFC 3164, and the files that syslog daemons write.
    Syslog,
    /// `key=value key="two words"`.
    Logfmt,
    /// A header row, then a record a row; fields may be quoted. Comma, semicolon or tab.
    Csv,
    /// Docker's `json-file`: the messages of a container, with `stream`.
    Docker,
    /// What Kubernetes' container runtimes write, likewise.
    Cri,
    /// Entries of the journal from `journalctl -o json`.
    Journald,
    /// Free text: the line is the field `message`.
    Plain,
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format).ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
            Error::invalid(format!("{name:?} is not a format: use one of {}", known.join(", ")))
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, format)| format == self);
        f.write_str(found.map_or("auto", |(name, _)| name))
    }
}

const NAMES: [(&str, Format); 15] = [
    ("auto", Format::Auto),
    ("ndjson", Format::NdJson),
    ("json-lines-from-nginx", Format::Nginx),
    ("bulk", Format::Bulk),
    ("combined", Format::Combined),
    ("syslog", Format::Syslog),
    ("logfmt", Format::Logfmt),
    ("csv", Format::Csv),
    ("docker", Format::Docker),
    ("cri", Format::Cri),
    ("journald", Format::Journald),
    ("plain", Format::Plain),
    ("json", Format::NdJson),
    ("apache", Format::Combined),
    ("nginx", Format::Combined),
];

/// Where a line's time is found and where it goes.
#[derive(Clone, Debug)]
struct TimeRule {
    /// The field to look at first.
    from: Option<String>,
    /// The field that gets the time.
    to: String,
    now_us: i64,
}

impl TimeRule {
    /// The fields to look at: the wanted one, the one that the time goes to, then the usual ones.
    fn candidates<'a>(&'a self, usual: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
        self.from.as_deref().into_iter().chain([self.to.as_str()]).chain(usual.iter().copied())
    }
}

/// Turns the lines of one input into documents. Cloning is cheap, so that the blocks of one input can be
/// parsed at the same time.
#[derive(Clone, Debug)]
pub struct LineParser {
    format: Format,
    /// Whether a line that does not fit the format is kept as free text.
    keeps_misfits: bool,
    time: TimeRule,
    header: Option<Arc<CsvHeader>>,
    /// What the input's name says of its container, as members of a document.
    place: Arc<[u8]>,
    document: Vec<u8>,
}

impl LineParser {
    /// The parser for an input that begins with `sample` (64 KiB are plenty). With [`Format::Auto`] the
    /// sample decides the format. `now_us` gives a year to times that have none.
    pub fn for_input(format: Format, sample: &[u8], now_us: i64) -> Self {
        let time = TimeRule { from: None, to: "@timestamp".into(), now_us };
        let decided = if format == Format::Auto { detect::format_of(sample) } else { format };
        let keeps_misfits = format == Format::Auto && decided != Format::Csv;
        let header = (decided == Format::Csv).then(|| Arc::new(CsvHeader::of_sample(sample)));
        LineParser {
            format: decided,
            keeps_misfits,
            time,
            header,
            place: Arc::default(),
            document: Vec::new(),
        }
    }

    /// The same parser for an input of this name: the path of a container's log says which one it is.
    #[must_use]
    pub fn of(mut self, name: &str) -> Self {
        if self.runtime().is_some() {
            self.place = container::place_of(name).into();
        }
        self
    }

    /// The runtime that writes the lines, if it is one of containers.
    pub(crate) fn runtime(&self) -> Option<Runtime> {
        match self.format {
            Format::Docker => Some(Runtime::Docker),
            Format::Cri => Some(Runtime::Cri),
            _ => None,
        }
    }

    /// The same parser, reading the time from the field `from` first and writing it to the field `to`, the
    /// one that the index takes its time from. `from` matters to formats whose fields are named by the input:
    /// CSV, logfmt and JSON.
    #[must_use]
    pub fn with_time_field(mut self, from: Option<String>, to: &str) -> Self {
        let moves = from.as_deref().is_some_and(|from| from != to);
        if moves && self.format == Format::NdJson {
            self.format = Format::Nginx;
        }
        self.time.from = from;
        to.clone_into(&mut self.time.to);
        self
    }

    /// The format in use; never [`Format::Auto`].
    pub fn format(&self) -> Format {
        self.format
    }

    /// The columns of the header, for CSV.
    pub fn columns(&self) -> &[String] {
        self.header.as_ref().map_or(&[], |header| header.names())
    }

    /// Whether the documents of `sample`'s whole lines all lack the field to try first for the time.
    /// Says nothing of formats that have no fields of that kind, or where there is no document.
    pub(crate) fn lacks_time_field(&self, sample: &[u8]) -> bool {
        let Some(field) = self.time.from.as_deref() else { return false };
        if matches!(self.format, Format::Combined | Format::Syslog | Format::Plain)
            || self.runtime().is_some()
        {
            return false;
        }
        if self.format == Format::Csv {
            return !self.columns().iter().any(|name| name.eq_ignore_ascii_case(field));
        }
        // What these formats write beside the line's own fields is none of them.
        let mut parser = self.clone();
        parser.time = TimeRule { from: None, to: String::new(), ..parser.time };
        let (mut documents, mut having) = (0, 0);
        let end = memchr::memrchr(b'\n', sample).unwrap_or(sample.len());
        for line in sample[..end].split(|byte| *byte == b'\n') {
            // Refused lines are counted when all lines are read.
            let _ = parser.parse(line, &mut |document, _| {
                documents += 1;
                having += usize::from(crate::json::has_path(document, field));
            });
        }
        documents > 0 && having == 0
    }

    /// Whether nothing can follow on a line that has no end yet: its JSON is closed.
    pub(crate) fn is_closed(&self, line: &[u8]) -> bool {
        let unfinished = |runtime| {
            let lines = line.split(|byte| *byte == b'\n');
            lines.fold(Unfinished::default(), |unfinished, line| unfinished.after(runtime, line))
        };
        if self.runtime().is_some_and(|runtime| !unfinished(runtime).is_none()) {
            return false;
        }
        // What announces a document has an end of its own, and so has the start of a message.
        let last = match self.format {
            Format::Bulk | Format::Docker => line.rsplit(|byte| *byte == b'\n').next().unwrap_or(line),
            _ => line,
        };
        self.is_json() && readable(last).is_ok_and(jsonl::is_closed)
    }

    /// Whether its lines are JSON.
    pub(crate) fn is_json(&self) -> bool {
        matches!(
            self.format,
            Format::NdJson | Format::Nginx | Format::Bulk | Format::Docker | Format::Journald
        )
    }

    /// Whether a quoted field may continue over the next line.
    pub fn quotes_span_lines(&self) -> bool {
        self.format == Format::Csv
    }

    /// The same parser at a later time, which gives its year to times that have none.
    #[must_use]
    pub fn at(mut self, now_us: i64) -> Self {
        self.time.now_us = now_us;
        self
    }

    /// How the lines of an input that begins with `sample` are joined into events; `None` where they are not.
    pub(crate) fn events(&self, multiline: &Multiline, sample: &[u8]) -> Option<Arc<Events>> {
        Events::of(multiline, self.format, sample)
    }

    /// Takes one line without its line end and hands each document in it to `take`, with the `_id` that it is given: usually
    /// one, none for blank lines and headers.
    pub fn parse(&mut self, line: &[u8], take: &mut dyn FnMut(&[u8], Option<&str>)) -> Result<(), Refusal> {
        let text = readable(line)?;
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        if self.format == Format::Bulk {
            return self.parse_bulk(text, take);
        }
        let take = &mut |document: &[u8]| take(document, None);
        if let Some(runtime) = self.runtime() {
            return self.parse_container(runtime, text, take);
        }
        match self.format {
            Format::NdJson | Format::Nginx if self.keeps_misfits && jsonl::is_text(text) => {
                self.parse_plain(text, take)
            }
            Format::NdJson | Format::Auto => jsonl::unchanged(text, take),
            Format::Nginx => jsonl::with_time(text, &self.time, &mut self.document, take),
            _ => self.parse_text(text, take),
        }
    }

    /// A document after the line that announces it, or either alone.
    fn parse_bulk(&mut self, text: &str, take: &mut dyn FnMut(&[u8], Option<&str>)) -> Result<(), Refusal> {
        let mut id: Option<String> = None;
        for line in text.lines().filter(|line| !line.trim_ascii().is_empty()) {
            match jsonl::Action::of(line) {
                Some(jsonl::Action::Add(given)) => id = given?,
                Some(jsonl::Action::Change) => {
                    return Err(Refusal::new("update and delete are refused: send them to the server"));
                }
                None => {
                    let take = &mut |document: &[u8]| take(document, id.take().as_deref());
                    jsonl::with_time(line, &self.time, &mut self.document, take)?;
                }
            }
        }
        match id {
            Some(id) => Err(Refusal::new(format!("no document follows the line with the _id {id:?}"))),
            None => Ok(()),
        }
    }

    /// The messages of lines that belong together. One line that is of another format is kept as text.
    fn parse_container(
        &mut self,
        runtime: Runtime,
        text: &str,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Refusal> {
        if self.keeps_misfits && !text.contains('\n') && !container::fits(runtime, text) {
            return self.parse_plain(text, take);
        }
        container::messages(runtime, text, &self.time, &self.place, &mut self.document, take)
    }

    fn parse_text(&mut self, text: &str, take: &mut dyn FnMut(&[u8])) -> Result<(), Refusal> {
        self.document.clear();
        let mut object = ObjectWriter::new(&mut self.document);
        let written = match self.format {
            Format::Combined => combined::write(text, &self.time, &mut object),
            Format::Syslog => syslog::write(text, &self.time, &mut object),
            Format::Journald => journald::write(text, &self.time, &mut object),
            Format::Logfmt => logfmt::write(text, &self.time, &mut object),
            Format::Csv => match &self.header {
                Some(header) if header.is(text) => return Ok(()),
                Some(header) => header.write(text, &self.time, &mut object),
                None => Err(Refusal::new("the file has no header row")),
            },
            _ => write_plain(text, &self.time, &mut object),
        };
        object.finish();
        if let Err(error) = written {
            if !self.keeps_misfits {
                return Err(error);
            }
            return self.parse_plain(text, take);
        }
        take(&self.document);
        Ok(())
    }

    fn parse_plain(&mut self, text: &str, take: &mut dyn FnMut(&[u8])) -> Result<(), Refusal> {
        self.document.clear();
        let mut object = ObjectWriter::new(&mut self.document);
        write_plain(text, &self.time, &mut object)?;
        object.finish();
        take(&self.document);
        Ok(())
    }
}

/// Free text: the whole line is `message`; a time at its start is also `@timestamp`.
fn write_plain(text: &str, time: &TimeRule, object: &mut ObjectWriter<'_>) -> Result<(), Refusal> {
    if let Some((time_ns, _)) = times::leading_time(text.trim_ascii_start(), time.now_us) {
        object.time(&time.to, time_ns);
    }
    object.text("message", text);
    Ok(())
}

fn readable(line: &[u8]) -> Result<&str, Refusal> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if let Some(at) = memchr::memchr(0, line) {
        return Err(Refusal::new(format!("NUL byte at byte {at} of the line")));
    }
    std::str::from_utf8(line)
        .map_err(|error| Refusal::new(format!("invalid UTF-8 at byte {} of the line", error.valid_up_to())))
}

#[cfg(test)]
mod tests;
