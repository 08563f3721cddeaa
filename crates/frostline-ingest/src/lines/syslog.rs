//! Syslog: RFC 5424, RFC 3164, and the same without a priority as daemons write to files.

use std::collections::HashMap;

use super::{Refusal, TimeRule};
use crate::json::ObjectWriter;
use crate::times;

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];
const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Parameters of structured data, and the bytes of their names: documents have few fields more, and none longer.
const PARAMS_MAX: usize = 4_000;
const PARAM_NAME_BYTES_MAX: usize = 1_000;

/// Writes one syslog line. It needs a time; the priority may be missing.
pub(super) fn write(line: &str, time: &TimeRule, object: &mut ObjectWriter<'_>) -> Result<(), Refusal> {
    write_telling(line, time, object).map(drop)
}

/// The same for a message that was received at `now_us`, with its time in `@timestamp`; whether it has one.
pub(crate) fn write_received(
    line: &str,
    now_us: i64,
    object: &mut ObjectWriter<'_>,
) -> Result<bool, Refusal> {
    write_telling(line, &TimeRule { from: None, to: "@timestamp".to_owned(), now_us }, object)
}

/// Writes the priority of a message that is no syslog besides.
pub(crate) fn write_priority_of(line: &str, object: &mut ObjectWriter<'_>) {
    write_priority(priority_of(line).map_or(None, |(priority, _)| priority), object);
}

/// Writes a line; whether it has a time.
fn write_telling(line: &str, time: &TimeRule, object: &mut ObjectWriter<'_>) -> Result<bool, Refusal> {
    let (priority, rest) = priority_of(line)?;
    if let Some(after) = rest.strip_prefix("1 ").filter(|_| priority.is_some()) {
        write_priority(priority, object);
        return write_5424(after, time, object);
    }
    let (time_ns, end) =
        header_time(rest, time.now_us).ok_or_else(|| Refusal::new("the line has no syslog time"))?;
    object.time(&time.to, time_ns);
    write_priority(priority, object);
    write_3164(&rest[end..], object);
    Ok(true)
}

/// Whether a line can only be syslog: it has a priority, or it begins with a time as daemons write it, the name of a
/// host and that of a program. Lines of many other programs begin with a time and two words.
pub(super) fn fits(line: &str, now_us: i64) -> bool {
    let Ok((priority, rest)) = priority_of(line) else { return false };
    if priority.is_some() {
        return true;
    }
    let Some((_, end)) = header_time(rest, now_us) else { return false };
    let (time, rest) = rest.split_at(end);
    // `2024/05/01`, `2024-05-01 10:00:00` and `10:00:00,123` are others' ways to write it.
    let is_daemons = match time.as_bytes() {
        [b'0'..=b'9', ..] => time.contains('T') && !time.contains(['/', ',']),
        _ => true,
    };
    let mut words = rest.split_ascii_whitespace();
    is_daemons
        && words.next().is_some_and(is_host)
        && words.next().and_then(|word| word.strip_suffix(':')).is_some_and(is_tag)
}

/// Whether a line begins with what a line of syslog does: a priority or a time.
pub(super) fn begins(line: &str, now_us: i64) -> bool {
    priority_of(line).is_ok_and(|(priority, rest)| priority.is_some() || header_time(rest, now_us).is_some())
}

/// Levels, which stand where others have a host or a program.
const LEVELS: [&str; 10] =
    ["TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "LOG"];

fn is_level(word: &str) -> bool {
    // A host may well be called so in small letters.
    word != "log" && LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
}

/// Whether a word can be the name or the address of a host, perhaps with those of relays.
fn is_host(word: &str) -> bool {
    let in_names = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/' | '@');
    word.chars().all(in_names)
        && word.contains(|c: char| c.is_alphabetic() || matches!(c, '.' | ':'))
        && !is_level(word)
}

/// Whether a word without its colon can be `program` or `program[pid]`.
fn is_tag(word: &str) -> bool {
    let program = word.split_once('[').map_or(word, |(program, _)| program);
    program.starts_with(|c: char| c.is_alphabetic() || matches!(c, '/' | '(' | '_' | '-' | '%'))
        && !program.contains([':', '"', '=', ',', ';', '{', '<'])
        && !is_level(program)
}

fn header_time(text: &str, now_us: i64) -> Option<(i128, usize)> {
    let written =
        times::rfc3164(text, now_us).or_else(|| times::iso(text).filter(|_| !text.contains(" - - ")));
    written.filter(|(_, end)| text[*end..].starts_with(' '))
}

fn priority_of(line: &str) -> Result<(Option<i64>, &str), Refusal> {
    let Some(inner) = line.strip_prefix('<') else { return Ok((None, line)) };
    let number = inner.split_once('>').filter(|(number, _)| matches!(number.len(), 1..=3));
    let (number, rest) = number.ok_or_else(|| Refusal::new("the syslog priority is not closed"))?;
    match number.parse::<u8>() {
        Ok(priority) if priority <= 191 => Ok((Some(i64::from(priority)), rest)),
        _ => Err(Refusal::new(format!("{number:?} is not a syslog priority of 0 to 191"))),
    }
}

fn write_priority(priority: Option<i64>, object: &mut ObjectWriter<'_>) {
    let Some(priority) = priority else { return };
    object.long("syslog.priority", priority);
    if let Some(facility) = FACILITIES.get(priority as usize / 8) {
        object.text("syslog.facility", facility);
    }
    if let Some(severity) = SEVERITIES.get(priority as usize % 8) {
        object.text("syslog.severity", severity);
    }
}

/// ` host program[pid]: message`; a word that ends the tag, or that cannot be a host name, is not a host.
fn write_3164(text: &str, object: &mut ObjectWriter<'_>) {
    let text = text.trim_ascii_start();
    let (first, after) = text.split_once(' ').unwrap_or((text, ""));
    let rest = if first.ends_with(':') || after.is_empty() || !is_host(first) {
        text
    } else {
        object.text("host.name", first);
        after.trim_ascii_start()
    };
    match tag_of(rest) {
        Some((program, pid, message)) => {
            object.text("process.name", program);
            if let Some(pid) = pid {
                object.guessed("process.pid", pid);
            }
            object.text("message", message);
        }
        None => object.text("message", rest),
    }
}

/// `program[pid]: message` or `program: message`.
fn tag_of(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let (tag, message) = text.split_once(':')?;
    let message = message.strip_prefix(' ').unwrap_or(message);
    if tag.is_empty() || tag.len() > 128 || tag.contains(char::is_whitespace) {
        return None;
    }
    match tag.strip_suffix(']').and_then(|tag| tag.rsplit_once('[')) {
        Some((program, pid)) if !program.is_empty() => Some((program, Some(pid), message)),
        _ => Some((tag, None, message)),
    }
}

/// `TIME HOST PROGRAM PID MSGID DATA MESSAGE` after the version, `-` for what is not said; whether the time is said.
fn write_5424(text: &str, rule: &TimeRule, object: &mut ObjectWriter<'_>) -> Result<bool, Refusal> {
    let mut words = text.splitn(6, ' ');
    let mut word =
        |what: &str| words.next().ok_or_else(|| Refusal::new(format!("the syslog line has no {what}")));
    let (time, host, program) = (word("time")?, word("host")?, word("program")?);
    let (pid, message_id, rest) = (word("process id")?, word("message id")?, word("structured data")?);
    if time != "-" {
        let whole = times::iso(time).filter(|(_, end)| *end == time.len());
        let (time_ns, _) =
            whole.ok_or_else(|| Refusal::new(format!("{time:?} is not a time of RFC 5424")))?;
        object.time(&rule.to, time_ns);
    }
    object.text_if_said("host.name", host);
    object.text_if_said("process.name", program);
    object.number_if_said("process.pid", pid);
    object.text_if_said("syslog.msgid", message_id);
    let message = write_structured(rest, object)?;
    let message = message.trim_ascii_start();
    object.text("message", message.strip_prefix('\u{feff}').unwrap_or(message));
    Ok(time != "-")
}

/// `[id name="value" …][…]`, each parameter as `syslog.data.<id>.<name>`, with all values of one that is repeated;
/// returns what follows.
fn write_structured<'a>(text: &'a str, object: &mut ObjectWriter<'_>) -> Result<&'a str, Refusal> {
    let mut rest = text;
    if let Some(after) = rest.strip_prefix('-') {
        return Ok(after);
    }
    let broken = || Refusal::new("the structured data of the syslog line is malformed");
    let mut found: Vec<(String, String)> = Vec::new();
    while let Some(element) = rest.strip_prefix('[') {
        let end = element.find([' ', ']']).ok_or_else(broken)?;
        let (id, mut params) = element.split_at(end);
        while let Some(param) = params.strip_prefix(' ') {
            let (name, value) = param.trim_ascii_start().split_once("=\"").ok_or_else(broken)?;
            let (value, after) = param_value(value).ok_or_else(broken)?;
            if found.len() == PARAMS_MAX || id.len() + name.len() > PARAM_NAME_BYTES_MAX {
                return Err(Refusal::new("the structured data of the syslog line is too large"));
            }
            found.push((format!("syslog.data.{id}.{name}"), value));
            params = after;
        }
        rest = params.strip_prefix(']').ok_or_else(broken)?;
    }
    if rest.len() == text.len() {
        return Err(broken());
    }
    let mut values: HashMap<&str, Vec<&str>> = HashMap::new();
    for (key, value) in &found {
        values.entry(key).or_default().push(value);
    }
    for (key, _) in &found {
        if let Some(values) = values.remove(key.as_str()) {
            object.texts(key, &values);
        }
    }
    Ok(rest)
}

/// The value up to its closing quote; `\"`, `\\` and `\]` are what they escape.
fn param_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                c @ ('"' | '\\' | ']') => value.push(c),
                c => value.extend(['\\', c]),
            },
            c => value.push(c),
        }
    }
    None
}
