//! The combined log format of Apache and nginx, and the common format it extends.

use super::escapes::escaped_char;
use super::{Refusal, TimeRule};
use crate::json::ObjectWriter;
use crate::times;

/// `clientip ident auth [time] "request" response bytes "referrer" "agent"`. The last two may be missing
/// (common format), a virtual host may come first, the last quote may be cut off (a torn line), and what
/// follows the agent is kept as `rest`.
pub(super) fn write(line: &str, time: &TimeRule, object: &mut ObjectWriter<'_>) -> Result<(), Refusal> {
    let parts =
        Parts::split(line).ok_or_else(|| Refusal::new("the line is not in the combined log format"))?;
    let time_ns = times::common_log(parts.time)
        .ok_or_else(|| Refusal::new(format!("{:?} is not a time of the combined log format", parts.time)))?;
    object.time(&time.to, time_ns);
    object.text_if_said("vhost", parts.vhost);
    object.text_if_said("clientip", parts.client);
    object.text_if_said("ident", parts.ident);
    write_text(parts.auth, "auth", object);
    write_request(parts.request, object);
    object.number_if_said("response", parts.response);
    object.number_if_said("bytes", parts.bytes);
    write_text(parts.referrer, "referrer", object);
    write_text(parts.agent, "agent", object);
    object.text_if_said("rest", parts.rest);
    Ok(())
}

/// Whether a line is in this format.
pub(super) fn fits(line: &str) -> bool {
    Parts::split(line).is_some_and(|parts| times::common_log(parts.time).is_some())
}

struct Parts<'a> {
    vhost: &'a str,
    client: &'a str,
    ident: &'a str,
    auth: &'a str,
    time: &'a str,
    request: &'a str,
    response: &'a str,
    bytes: &'a str,
    referrer: &'a str,
    agent: &'a str,
    rest: &'a str,
}

impl<'a> Parts<'a> {
    fn split(line: &'a str) -> Option<Self> {
        let (head, rest) = line.split_once(" [")?;
        let (time, rest) = rest.split_once("] \"")?;
        let (request, rest) = until_quote(rest);
        let mut words = head.split_ascii_whitespace();
        let (mut vhost, mut client) = ("", words.next()?);
        let mut ident = words.next()?;
        // A user name may hold spaces; a fourth word with a dash in third place is a virtual host.
        let mut auth = head[offset_in(head, ident) + ident.len()..].trim_ascii();
        if let Some(user) = auth.strip_prefix("- ").filter(|_| ident != "-") {
            (vhost, client, ident, auth) = (client, ident, "-", user);
        }
        let rest = rest.trim_ascii_start();
        let (response, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (bytes, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (referrer, rest) = quoted(rest);
        let (agent, rest) = quoted(rest);
        let is_status = response.len() == 3 && response.bytes().all(|b| b.is_ascii_digit());
        let is_parts = (is_status || response == "-") && !auth.is_empty();
        let rest = rest.trim_ascii();
        is_parts.then_some(Parts {
            vhost,
            client,
            ident,
            auth,
            time,
            request,
            response,
            bytes,
            referrer,
            agent,
            rest,
        })
    }
}

fn offset_in(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// What is in quotes at the start, and what follows. A missing closing quote ends at the line's end.
fn quoted(text: &str) -> (&str, &str) {
    match text.trim_ascii_start().strip_prefix('"') {
        Some(inner) => until_quote(inner),
        None => ("", text),
    }
}

/// Splits at the first quote that is not escaped.
fn until_quote(text: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

/// `GET /a?b=c HTTP/1.1`; anything else is kept whole as `request`.
fn write_request(request: &str, object: &mut ObjectWriter<'_>) {
    let words = request.split_once(' ').and_then(|(verb, rest)| Some((verb, rest.rsplit_once(' ')?)));
    match words {
        Some((verb, (target, protocol))) if protocol.starts_with("HTTP/") => {
            object.text_if_said("verb", verb);
            write_text(target, "request", object);
            write_text(target.split(['?', '#']).next().unwrap_or(target), "path", object);
            object.text("httpversion", &protocol[5..]);
        }
        _ => write_text(request, "request", object),
    }
}

/// Web servers escape quotes, backslashes and control bytes in quoted parts.
fn write_text(text: &str, key: &str, object: &mut ObjectWriter<'_>) {
    if text.contains('\\') {
        object.text_if_said(key, &unescaped(text));
    } else {
        object.text_if_said(key, text);
    }
}

/// `\"`, `\\` and the `\xHH` of a character that can be shown are what they escape; the rest stays as written, such as
/// control characters and half a character.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        if let Some((c, bytes)) = escaped_char(&rest[at..]).filter(|(c, _)| !c.is_control()) {
            plain.push(c);
            rest = &rest[at + bytes..];
            continue;
        }
        let escaped = rest[at + 1..].chars().next();
        match escaped {
            Some(c @ ('"' | '\\')) => plain.push(c),
            Some(c) => plain.extend(['\\', c]),
            None => plain.push('\\'),
        }
        rest = &rest[at + 1 + escaped.map_or(0, char::len_utf8)..];
    }
    plain.push_str(rest);
    plain
}
