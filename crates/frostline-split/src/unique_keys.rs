//! JSON in which no object has a key twice.

use std::collections::BTreeSet;

use serde::de::{Error, IgnoredAny};

/// Nested objects and arrays, the limit of `serde_json`.
const DEPTH_MAX: usize = 127;

/// Refuses texts that are not JSON, and objects with a key twice, because which value counts would be a guess. A number may
/// exceed every double.
pub fn check_unique_keys(json: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<IgnoredAny>(json)?;
    // From here on, the text is JSON. The keys of each open object; an array has none.
    let mut open: Vec<Option<BTreeSet<String>>> = Vec::new();
    let (mut at, mut is_key) = (0, false);
    while let Some(byte) = json.get(at) {
        let begin = at;
        at += 1;
        match byte {
            b'{' | b'[' if open.len() == DEPTH_MAX => {
                return Err(wrong("recursion limit exceeded", json, at));
            }
            b'{' | b'[' => {
                is_key = *byte == b'{';
                open.push(is_key.then(BTreeSet::new));
            }
            b'}' | b']' => drop(open.pop()),
            b',' => is_key = matches!(open.last(), Some(Some(_))),
            b':' => is_key = false,
            b'"' => {
                at += text_length(&json[at..]);
                let text: String =
                    serde_json::from_slice(&json[begin..at]).map_err(|e| wrong(&unplaced(&e), json, at))?;
                if let Some(Some(keys)) = open.last_mut().filter(|_| is_key)
                    && let Some(key) = keys.replace(text)
                {
                    return Err(wrong(&format!("duplicate key [{key}]"), json, at));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The remaining bytes of a string, including its closing quote.
fn text_length(rest: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = rest.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(rest.len(), |end| end + 1)
}

/// An error at the byte before `at`.
fn wrong(what: &str, json: &[u8], at: usize) -> serde_json::Error {
    let before = &json[..at];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
    serde_json::Error::custom(format_args!("{what} at line {line} column {column}"))
}

/// What is wrong, without the position, which refers to one string only.
fn unplaced(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::check_unique_keys;

    #[test]
    fn a_key_is_given_once_in_each_object() {
        let check = |json: &str, error: Option<&str>| {
            let found = check_unique_keys(json.as_bytes()).map_err(|e| e.to_string());
            assert_eq!(found.err().as_deref(), error, "{json}");
        };
        check(r#"{"a":{"a":["a","a",{"a":1},{"a":"\"a"}]},"b":"a","":{}}"#, None);
        check(r#" [1e400, -0, 12345678901234567890123, {"a":1.10}] "#, None);
        check(r#""a""#, None);
        check("{\"a\":1,\n \"a\":2}", Some("duplicate key [a] at line 2 column 4"));
        check(r#"{"a":[{"b":1e400,"\u0062":1}]}"#, Some("duplicate key [b] at line 1 column 25"));
        check(r#"{"a":"\ud800"}"#, Some("unexpected end of hex escape at line 1 column 13"));
        check("{\"a\":1", Some("EOF while parsing an object at line 1 column 6"));
        check(r#"{"a":1} {}"#, Some("trailing characters at line 1 column 9"));
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        check(&deep(127), None);
        check(&deep(128), Some("recursion limit exceeded at line 1 column 128"));
        check(&deep(100_000), Some("recursion limit exceeded at line 1 column 128"));
        assert!(check_unique_keys(b"\"\xff\"").is_err());
    }
}
