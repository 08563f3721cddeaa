//! Logfmt: `key=value` pairs separated by spaces, values quoted where they hold spaces.

use super::{Refusal, TimeRule};
use crate::json::ObjectWriter;
use crate::times;

/// The keys that hold the time when the caller names none.
const TIME_KEYS: [&str; 6] = ["@timestamp", "time", "ts", "timestamp", "t", "datetime"];

/// Each pair becomes a member, a bare word is `true`, and the last of two equal keys does not hide the
/// first: the values become an array.
pub(super) fn write(line: &str, rule: &TimeRule, object: &mut ObjectWriter<'_>) -> Result<(), Refusal> {
    let pairs = pairs_of(line)?;
    let time = |key: &str| {
        let (_, value) = pairs.iter().find(|(known, _)| *known == key)?;
        times::whole_time(value.as_deref()?, rule.now_us)
    };
    let time_ns = rule.candidates(&TIME_KEYS).find_map(time);
    if let Some(time_ns) = time_ns {
        object.time(&rule.to, time_ns);
    }
    for (index, (key, value)) in pairs.iter().enumerate() {
        let earlier = pairs[..index].iter().any(|(known, _)| known == key);
        if earlier || (*key == rule.to && time_ns.is_some()) {
            continue;
        }
        let later = pairs[index + 1..].iter().filter(|(known, _)| known == key);
        let values: Vec<Option<&str>> =
            std::iter::once(value.as_deref()).chain(later.map(|(_, value)| value.as_deref())).collect();
        write_values(key, &values, object);
    }
    Ok(())
}

/// Whether a line has at least two pairs with values and hardly any bare words.
pub(super) fn fits(line: &str) -> bool {
    pairs_of(line).is_ok_and(|pairs| {
        let with_value = pairs.iter().filter(|(_, value)| value.is_some()).count();
        with_value >= 2 && with_value * 4 >= pairs.len() * 3
    })
}

type Pair<'a> = (&'a str, Option<std::borrow::Cow<'a, str>>);

fn pairs_of(line: &str) -> Result<Vec<Pair<'_>>, Refusal> {
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    let mut rest = line.trim_ascii();
    while !rest.is_empty() {
        if pairs.len() >= PAIRS_MAX {
            return Err(Refusal::new(format!("the line has more than {PAIRS_MAX} pairs")));
        }
        let end = rest.find(|c: char| c == '=' || c.is_ascii_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        if key.is_empty() || key.contains(['"', '{', '}']) {
            return Err(Refusal::new(format!("{key:?} is not a key of logfmt")));
        }
        let (value, after) = match after.strip_prefix('=') {
            Some(value) => value_of(value)?,
            None => (None, after),
        };
        pairs.push((key, value));
        rest = after.trim_ascii_start();
    }
    if pairs.iter().all(|(_, value)| value.is_none()) {
        return Err(Refusal::new("the line has no key=value pair"));
    }
    Ok(pairs)
}

/// Looking for equal keys is quadratic; this many pairs in one line are not logfmt.
const PAIRS_MAX: usize = 2_000;

fn value_of(text: &str) -> Result<(Option<std::borrow::Cow<'_, str>>, &str), Refusal> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
        return Ok((Some(text[..end].into()), &text[end..]));
    };
    let mut escaped = false;
    let end = quoted.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    });
    let end = end.ok_or_else(|| Refusal::new("a quoted value is not closed"))?;
    let value = &quoted[..end];
    let value = if value.contains('\\') { unescaped(value).into() } else { value.into() };
    Ok((Some(value), &quoted[end + 1..]))
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some(c @ ('"' | '\\')) => plain.push(c),
            Some(c) => plain.extend(['\\', c]),
            None => plain.push('\\'),
        }
    }
    plain
}

fn write_values(key: &str, values: &[Option<&str>], object: &mut ObjectWriter<'_>) {
    match values {
        [Some(value)] => object.guessed(key, value),
        [None] => object.raw(key, b"true"),
        several => {
            let texts: Vec<&str> = several.iter().map(|value| value.unwrap_or("true")).collect();
            object.texts(key, &texts);
        }
    }
}
