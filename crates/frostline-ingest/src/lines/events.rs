//! Multi-line events, such as stack traces: which line begins an event, and which continues the
//! current one.

use std::str::FromStr;
use std::sync::Arc;

use frostline_base::{Error, Result};
use regex::bytes::Regex;

use super::{Format, syslog};
use crate::times;

/// Whether lines are joined into events.
#[derive(Clone, Debug, Default)]
pub enum Multiline {
    /// In plain text and syslog whose lines begin with a time: a line without one continues the line before it.
    #[default]
    Auto,
    /// Every line is a document.
    Off,
    /// A line that matches begins an event; others continue it. Not in CSV and the formats of containers.
    Pattern(Regex),
}

impl FromStr for Multiline {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Multiline::Auto),
            "off" => Ok(Multiline::Off),
            pattern => Regex::new(pattern).map(Multiline::Pattern).map_err(|error| {
                Error::invalid(format!("{pattern:?} is not auto, off or a valid regular expression"))
                    .with_source(error)
            }),
        }
    }
}

/// Says which lines begin an event.
#[derive(Debug)]
pub(crate) struct Events(Start);

#[derive(Debug)]
enum Start {
    Time,
    Syslog,
    Pattern(Regex),
}

/// What begins an event shows in its first bytes.
const START_BYTES: usize = 512;
const LINES_MAX: usize = 1_000;
/// Times without a year only have to parse here, whatever the year.
const NOW_US: i64 = 1_700_000_000_000_000;

impl Events {
    /// How the lines of an input in `format` that begins with `sample` are joined; `None` where they are not.
    pub(super) fn of(multiline: &Multiline, format: Format, sample: &[u8]) -> Option<Arc<Events>> {
        let events = match (multiline, format) {
            (Multiline::Off, _) | (_, Format::Csv | Format::Docker | Format::Cri) => return None,
            (Multiline::Pattern(pattern), _) => {
                return Some(Arc::new(Events(Start::Pattern(pattern.clone()))));
            }
            (Multiline::Auto, Format::Plain) => Events(Start::Time),
            (Multiline::Auto, Format::Syslog) => Events(Start::Syslog),
            (Multiline::Auto, _) => return None,
        };
        events.tells(sample).then(|| Arc::new(events))
    }

    /// Whether a line begins an event.
    pub(crate) fn is_start(&self, line: &[u8]) -> bool {
        if let Start::Pattern(pattern) = &self.0 {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            return pattern.is_match(line.strip_suffix(b"\r").unwrap_or(line));
        }
        let line = line.get(..START_BYTES).unwrap_or(line);
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or_default(),
        };
        match self.0 {
            Start::Syslog => syslog::begins(text, NOW_US),
            _ => times::leading_time(text, NOW_US).is_some(),
        }
    }

    /// Whether the lines of `sample` begin events often enough: the first, and a quarter of those that are not
    /// indented.
    fn tells(&self, sample: &[u8]) -> bool {
        let sample = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
        let lines =
            sample.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let mut lines = lines.filter(|line| !line[0].is_ascii_whitespace()).take(LINES_MAX).peekable();
        if !lines.peek().is_some_and(|first| self.is_start(first)) {
            return false;
        }
        let (starts, all) =
            lines.fold((0, 0), |(starts, all), line| (starts + usize::from(self.is_start(line)), all + 1));
        starts * 4 >= all
    }
}
