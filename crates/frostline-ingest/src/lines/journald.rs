//! Entries of systemd's journal as `journalctl -o json` writes them.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Refusal, TimeRule};
use crate::json::ObjectWriter;

const TIME: &str = "__REALTIME_TIMESTAMP";

/// Whether a line is an entry.
pub(super) fn fits(line: &str) -> bool {
    line.contains("\"__REALTIME_TIMESTAMP\"") && entry(line).is_some()
}

fn entry(line: &str) -> Option<(Map<String, Value>, i64)> {
    let fields: Map<String, Value> = serde_json::from_str(line).ok()?;
    let time_us = fields.get(TIME)?.as_str()?.parse().ok()?;
    Some((fields, time_us))
}

/// Writes the fields under their names. `MESSAGE` is the document's `message`, and the time at which the journal took
/// the entry is its time.
pub(super) fn write(line: &str, rule: &TimeRule, object: &mut ObjectWriter<'_>) -> Result<(), Refusal> {
    let (fields, time_us) =
        entry(line).ok_or_else(|| Refusal::new("the line is not an entry of the journal"))?;
    object.time(&rule.to, i128::from(time_us) * 1_000);
    for (name, value) in fields.iter().filter(|(name, _)| *name != TIME && **name != rule.to) {
        let is_message = name == "MESSAGE";
        if name == "message" && fields.contains_key("MESSAGE") {
            return Err(Refusal::new("the entry has both MESSAGE and message"));
        }
        let name = if is_message { "message" } else { name };
        match texts(value).as_slice() {
            [] => {}
            [one] if is_message => object.text(name, one),
            [one] => object.guessed(name, one),
            several => object.texts(name, &several.iter().map(AsRef::as_ref).collect::<Vec<&str>>()),
        }
    }
    Ok(())
}

/// The values of a field: text; bytes as a list of numbers, where it is no text; or a list of either. One that is null
/// was too large for `journalctl` to show.
fn texts(value: &Value) -> Vec<Cow<'_, str>> {
    match value {
        Value::String(text) => vec![text.into()],
        Value::Array(items) => bytes(items)
            .map(|bytes| vec![String::from_utf8_lossy(&bytes).into_owned().into()])
            .unwrap_or_else(|| items.iter().flat_map(texts).collect()),
        _ => Vec::new(),
    }
}

fn bytes(items: &[Value]) -> Option<Vec<u8>> {
    let byte = |item: &Value| item.as_u64().and_then(|byte| u8::try_from(byte).ok());
    items.iter().map(byte).collect::<Option<Vec<u8>>>().filter(|bytes| !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lines::{Format, LineParser};

    #[test]
    fn entries_become_documents() {
        let line = r#"{"__REALTIME_TIMESTAMP":"1704067200123456","__CURSOR":"s=1;i=2","MESSAGE":[104,195,169],"_PID":"7","PRIORITY":"6","BIG":null,"TWICE":["a",[98]],"_SYSTEMD_UNIT":"ssh.service"}"#;
        let mut parser = LineParser::for_input(Format::Auto, line.as_bytes(), 0);
        assert_eq!(parser.format(), Format::Journald);
        let mut documents: Vec<Value> = Vec::new();
        let mut parse = |line: &str| {
            parser.parse(line.as_bytes(), &mut |document, _| {
                documents.push(serde_json::from_slice(document).unwrap());
            })
        };
        parse(line).unwrap();
        let mut parser = LineParser::for_input(Format::Journald, b"", 0);
        let refused = parser.parse(br#"{"MESSAGE":"no time"}"#, &mut |_, _| {}).unwrap_err();
        assert_eq!(refused.reason(), "the line is not an entry of the journal");
        assert_eq!(
            documents,
            [
                json!({"@timestamp": "2024-01-01T00:00:00.123456Z", "__CURSOR": "s=1;i=2", "message": "hé", "_PID": 7,
                "PRIORITY": 6, "TWICE": ["a", "b"], "_SYSTEMD_UNIT": "ssh.service"})
            ]
        );
    }
}
