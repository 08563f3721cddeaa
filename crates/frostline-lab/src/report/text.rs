//! Formatting and escaping of text and numbers: nothing in a file becomes markup or a terminal escape.

use std::collections::BTreeMap;

use frostline_show::{escape_html, grouped};

use super::korean::korean;
use crate::record::{How, Mode};
use crate::stats;

/// `text` without what a terminal or a text layout would obey: control characters and those that turn the
/// direction of writing become a visible mark, line ends and tabs a space.
pub(super) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// `text` as it may be in HTML, in an attribute's quotes too.
pub(super) fn escape(text: &str) -> String {
    escape_html(&plain(text))
}

/// `text` as it may be in HTML, where it breaks between the parts of a level or a volume, not within one.
pub(super) fn breaking(text: &str) -> String {
    escape(text).replace('+', "+<wbr>").replace(',', ",<wbr>")
}

/// `text` as it may be in a table of Markdown.
pub(super) fn escape_markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// A text in both languages, of which the page shows one.
pub(super) fn both(english: &str, korean: &str) -> String {
    format!("<span class=en lang=en>{english}</span><span class=ko lang=ko>{korean}</span>")
}

/// A text of a run in both languages, or in English if it has no translation.
pub(super) fn of_run(study: &BTreeMap<String, String>, text: &str) -> String {
    let english = code(text);
    korean(study, text).map_or_else(|| english.clone(), |korean| both(&english, &code(&korean)))
}

/// `text` as it may be in HTML, in which what stands between two backticks is code.
fn code(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escape).collect();
    // Of a backtick without a second one nothing is known.
    if parts.len().is_multiple_of(2) {
        return parts.join("`");
    }
    let mut html = String::new();
    for (at, part) in parts.iter().enumerate() {
        html += &if at % 2 == 1 { format!("<code>{part}</code>") } else { part.clone() };
    }
    html
}

/// A number with three or four figures, its thousands apart; a dash for what is none.
pub(super) fn number(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "−∞" }.to_owned();
    }
    let magnitude = value.abs();
    let digits = match magnitude {
        0.0 => 0,
        m if !(1e-4..1e12).contains(&m) => return format!("{value:.2e}").replace('-', "−"),
        m if m < 0.0995 => 4,
        m if m < 0.9995 => 3,
        m if m < 99.95 => 2,
        m if m < 999.95 => 1,
        _ => 0,
    };
    let text = format!("{magnitude:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    format!("{}{}{rest}", if value < 0.0 { "−" } else { "" }, grouped(whole))
}

/// A configured number, without the zeros that [`number`] gives a measurement.
pub(crate) fn round(value: f64) -> String {
    let text = number(value);
    let (figures, power) = text.split_at(text.find('e').unwrap_or(text.len()));
    let figures =
        if figures.contains('.') { figures.trim_end_matches('0').trim_end_matches('.') } else { figures };
    format!("{figures}{power}")
}

/// The interval of a median of `count` values, or their range, with its confidence, where they are too few for an
/// interval of 95 %.
pub(super) fn interval(low: String, high: String, count: usize) -> String {
    match count {
        0 | 1 => "–".to_owned(),
        few if few < stats::PAIRS_MIN => {
            format!("{low} – {high} (range of {few}: {:.0} %)", range_confidence(few) * 100.0)
        }
        _ => format!("{low} – {high}"),
    }
}

/// How often the range of so many values holds the true median.
pub(super) fn range_confidence(count: usize) -> f64 {
    // The median is outside only if all values are on one side of it.
    1.0 - 0.5_f64.powi(count as i32 - 1)
}

/// A ratio, with three decimals close to 1, where small differences count.
pub(super) fn ratio(value: f64) -> String {
    if (0.01..1.9995).contains(&value) { format!("{value:.3}") } else { number(value) }
}

/// A part of 1 as a percentage.
pub(super) fn percent(part: f64) -> String {
    if part.is_finite() && part.abs() < 10.0 {
        format!("{:.1} %", part * 100.0).replace('-', "−")
    } else {
        format!("{} %", number(part * 100.0))
    }
}

/// A p value.
pub(super) fn p_value(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

/// Bytes in binary units.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let step = (bytes.max(1).ilog2() / 10).min(5);
    format!("{} {}", number(bytes as f64 / 1024_f64.powi(step as i32)), UNITS[step as usize])
}

/// How a cell was had, in English and Korean.
pub(super) fn how(how: How) -> (&'static str, &'static str) {
    match how {
        How::Run => ("run", "실측"),
        How::Emulate => ("emulated", "에뮬레이션"),
        How::Simulate => ("simulated", "시뮬레이션"),
        How::Fixture => ("from a record", "기록 인용"),
        How::Skip => ("left out", "제외"),
    }
}

/// How much was done, in English and Korean.
pub(super) fn mode(mode: Mode) -> (&'static str, &'static str) {
    match mode {
        Mode::Simulate => ("simulation only", "시뮬레이션만 수행"),
        Mode::Quick => ("quick run", "간이 실행"),
        Mode::Full => ("full run", "전체 실행"),
    }
}
