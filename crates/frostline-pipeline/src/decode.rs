//! Processors that read what a text is written in: `bytes`, `html_strip`, `uri_parts`, `urldecode`.

use frostline_base::Result;

use crate::document::{Document, Done, Path, shown, unfit};
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run};
use crate::text;
use crate::value::{Map, Value};

pub(crate) fn bytes(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    text::simple(options, |text| {
        let size = size(text).ok_or_else(|| {
            unfit(format!(
                "failed to parse [{}] as a size in bytes: it is a number with a unit, such as 10kb",
                shown(text)
            ))
        })?;
        Ok(Value::from(size))
    })
}

/// A size as Elasticsearch writes it. Units are powers of 1,024; only 0 and -1 have none.
fn size(text: &str) -> Option<i64> {
    const UNITS: [(&str, u32); 11] = [
        ("kb", 10),
        ("mb", 20),
        ("gb", 30),
        ("tb", 40),
        ("pb", 50),
        ("k", 10),
        ("m", 20),
        ("g", 30),
        ("t", 40),
        ("p", 50),
        ("b", 0),
    ];
    let text = text.trim().to_ascii_lowercase();
    if let "0" | "-1" = text.as_str() {
        return text.parse().ok();
    }
    let (number, shift) = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))?;
    let number = number.trim();
    if let Ok(whole) = number.parse::<i64>() {
        return (whole >= 0).then(|| whole.checked_mul(1 << shift))?;
    }
    let is_decimal = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let bytes = number.parse::<f64>().ok().filter(|_| is_decimal)? * (1u64 << shift) as f64;
    (bytes < i64::MAX as f64).then_some(bytes as i64)
}

pub(crate) fn urldecode(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    text::simple(options, |text| match decoded(text, true) {
        Some(decoded) => Ok(Value::String(decoded)),
        None => Err(unfit(format!("[{}] has a % without two hexadecimal digits after it", shown(text)))),
    })
}

/// A text without its percent escapes, where a plus is a space if `is_form`.
fn decoded(text: &str, is_form: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            b'+' if is_form => b' ',
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn html_strip(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    text::simple(options, |text| Ok(Value::String(without_tags(text))))
}

/// Elements inside of a line, whose tags leave nothing. Those of others leave the end of a line.
const INLINE: &[&str] = &[
    "a", "abbr", "acronym", "b", "basefont", "bdo", "big", "cite", "code", "dfn", "em", "font", "i", "img",
    "input", "kbd", "label", "q", "s", "samp", "select", "small", "span", "strike", "strong", "sub", "sup",
    "textarea", "tt", "u", "var",
];

const ENTITIES: &[(&str, char)] = &[
    ("amp", '&'),
    ("apos", '\''),
    ("copy", '©'),
    ("euro", '€'),
    ("gt", '>'),
    ("hellip", '…'),
    ("laquo", '«'),
    ("ldquo", '“'),
    ("lsquo", '‘'),
    ("lt", '<'),
    ("mdash", '—'),
    ("middot", '·'),
    ("nbsp", ' '),
    ("ndash", '–'),
    ("quot", '"'),
    ("raquo", '»'),
    ("rdquo", '”'),
    ("reg", '®'),
    ("rsquo", '’'),
    ("sect", '§'),
    ("trade", '™'),
];

fn without_tags(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    // After the last end of a tag there is none, so that each search for one finds it.
    let after_tags = text.len() - text.rfind('>').map_or(0, |last| last + 1);
    while let Some(at) = rest.find(['<', '&']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let tag = if rest.len() > after_tags { tag(rest) } else { None };
        let (kept, after) = tag.or_else(|| entity(rest)).unwrap_or_else(|| {
            let (mark, after) = rest.split_at(1);
            (mark.to_owned(), after)
        });
        plain.push_str(&kept);
        rest = after;
    }
    plain.push_str(rest);
    plain
}

/// What is left of the tag or comment that a text begins with, and what comes after it.
fn tag(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('<')?;
    if let Some(comment) = inside.strip_prefix("!--") {
        return Some((String::new(), comment.find("-->").map_or("", |end| &comment[end + 3..])));
    }
    if inside.starts_with(['!', '?']) {
        return Some((String::new(), &inside[inside.find('>')? + 1..]));
    }
    let name = inside.strip_prefix('/').unwrap_or(inside);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, ':' | '-' | '_'))?;
    let (name, mut after) = name.split_at(end);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    loop {
        let at = after.find(['>', '"', '\''])?;
        let mark = char::from(after.as_bytes()[at]);
        after = &after[at + 1..];
        if mark == '>' {
            break;
        }
        // A quoted value may have the end of a tag in it.
        after = after.split_once(mark).map_or(after, |(_, rest)| rest);
    }
    let name = name.to_ascii_lowercase();
    if let "script" | "style" = name.as_str()
        && !inside.starts_with('/')
    {
        // What is inside is no text.
        let end = format!("</{name}");
        let mut places = after.as_bytes().windows(end.len());
        let found = places.position(|part| part.eq_ignore_ascii_case(end.as_bytes()));
        let after = found.and_then(|at| after[at..].split_once('>')).map_or("", |(_, rest)| rest);
        return Some(("\n".to_owned(), after));
    }
    let kept = if INLINE.contains(&name.as_str()) { "" } else { "\n" };
    Some((kept.to_owned(), after))
}

/// The character that an entity at the beginning of a text means, and what comes after it.
fn entity(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('&')?;
    let end = inside.bytes().take(10).position(|byte| byte == b';')?;
    let (name, after) = (&inside[..end], &inside[end + 1..]);
    let character = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
        None => ENTITIES.iter().find(|(known, _)| *known == name)?.1,
    };
    Some((character.to_string(), after))
}

#[derive(Debug)]
struct UriParts {
    field: Field,
    target: Field,
    keep_original: bool,
    remove_if_successful: bool,
    ignore_missing: bool,
}

pub(crate) fn uri_parts(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let target = options.field("target_field")?;
    Ok(Box::new(UriParts {
        field: options.required_field("field")?,
        target: match target {
            Some(target) => target,
            None => Field::parse("url").map_err(|what| options.wrong("target_field", what))?,
        },
        keep_original: options.flag("keep_original", true)?,
        remove_if_successful: options.flag("remove_if_successful", false)?,
        ignore_missing: options.flag("ignore_missing", false)?,
    }))
}

impl Processor for UriParts {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let path: Path = self.field.path(document)?.into_owned();
        let Some(text) = document.need_text(&path, self.ignore_missing)? else { return Ok(()) };
        let mut parts =
            parts_of(text).ok_or_else(|| unfit(format!("unable to parse URI [{}]", shown(text))))?;
        if self.keep_original {
            parts.insert("original".to_owned(), Value::from(text));
        }
        let target = self.target.path(document)?.into_owned();
        if self.remove_if_successful && target != path {
            document.remove(&path)?;
        }
        document.put(&target, Value::Object(parts))
    }
}

/// The parts of a URI, under the names of the Elastic Common Schema. None where it is not one.
fn parts_of(text: &str) -> Option<Map> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"');
    if text.is_empty() || text.contains(is_odd) {
        return None;
    }
    let mut parts = Map::new();
    let mut put = |name: &str, value: Value| drop(parts.insert(name.to_owned(), value));
    let plain = |text: &str| decoded(text, false);
    let (rest, fragment) = split_off(text, '#');
    let (rest, query) = split_off(rest, '?');
    let scheme_end = rest.find(':').filter(|end| {
        let scheme = &rest[..*end];
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    let (scheme, rest) = match scheme_end {
        Some(end) => (Some(&rest[..end]), &rest[end + 1..]),
        None => (None, rest),
    };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(inside) => {
            let end = inside.find('/').unwrap_or(inside.len());
            (&inside[..end], &inside[end..])
        }
        None => ("", rest),
    };
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    // An address of version 6 has colons, in brackets.
    let (domain, port) = match host.rsplit_once(':') {
        Some((domain, port)) if !port.ends_with(']') => (domain, Some(port).filter(|port| !port.is_empty())),
        _ => (host, None),
    };
    if !domain.is_empty() {
        put("domain", domain.into());
    }
    if let Some(fragment) = fragment {
        put("fragment", plain(fragment)?.into());
    }
    put("path", plain(path)?.into());
    let name = path.rsplit('/').next().unwrap_or_default();
    if let Some((_, extension)) = name.rsplit_once('.').filter(|(_, extension)| !extension.is_empty()) {
        put("extension", plain(extension)?.into());
    }
    if let Some(port) = port {
        put("port", port.parse::<u16>().ok()?.into());
    }
    if let Some(query) = query {
        put("query", plain(query)?.into());
    }
    if let Some(scheme) = scheme {
        put("scheme", scheme.into());
    }
    if let Some(user) = user {
        let user = plain(user)?;
        if let Some((name, password)) = user.split_once(':') {
            put("username", name.into());
            put("password", password.into());
        }
        put("user_info", user.into());
    }
    Some(parts)
}

/// What is before a character, and what after it where it is there.
fn split_off(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

#[cfg(test)]
mod tests;
