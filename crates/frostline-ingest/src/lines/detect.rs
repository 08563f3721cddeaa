//! Detects the format of an input by its first lines.

use super::csv::CsvHeader;
use super::{Format, Runtime, combined, container, journald, jsonl, logfmt, syslog};

/// So many lines show a format.
pub(crate) const LINES_MAX: usize = 100;

/// The format of an input that begins with `sample`: the one that more than half of its first 100
/// non-blank lines are in, not counting indented ones, which continue others; else CSV, where the first record can only be a header; else
/// free text, of which no part is lost.
pub(super) fn format_of(sample: &[u8]) -> Format {
    let sample = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
    let lossy = String::from_utf8_lossy(sample);
    let text: &str = &lossy;
    let mut lines: Vec<&str> =
        text.lines().filter(|line| !line.trim_ascii().is_empty()).take(LINES_MAX).collect();
    // The sample ends somewhere inside a line; it only counts where it is the only one.
    if !text.ends_with('\n') && lines.len() > 1 && lines.len() < LINES_MAX {
        lines.pop();
    }
    if lines.iter().any(|line| !is_indented(line)) {
        lines.retain(|line| !is_indented(line));
    }
    let is_majority = |fits: &dyn Fn(&str) -> bool| {
        let fitting = lines.iter().filter(|line| fits(line)).count();
        fitting * 2 > lines.len()
    };
    if lines.first().is_some_and(|line| matches!(jsonl::Action::of(line), Some(jsonl::Action::Add(_))))
        && is_majority(&jsonl::fits)
    {
        return Format::Bulk;
    }
    if is_majority(&|line| container::fits(Runtime::Docker, line)) {
        return Format::Docker;
    }
    if is_majority(&journald::fits) {
        return Format::Journald;
    }
    if is_majority(&jsonl::fits) {
        return if is_majority(&jsonl::needs_time) { Format::Nginx } else { Format::NdJson };
    }
    // Times without a year only have to parse here, whatever the year.
    let now_us = 1_700_000_000_000_000;
    if is_majority(&|line| container::fits(Runtime::Cri, line)) {
        Format::Cri
    } else if is_majority(&combined::fits) {
        Format::Combined
    } else if is_majority(&|line| syslog::fits(line, now_us)) {
        Format::Syslog
    } else if is_majority(&logfmt::fits) {
        Format::Logfmt
    } else if CsvHeader::of_sample(text.as_bytes()).heads(text) {
        Format::Csv
    } else {
        Format::Plain
    }
}

fn is_indented(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}
