//! Writing JSON bytes: an object builder that only appends, so that a line becomes a document without
//! an intermediate tree.

/// Appends the members of one JSON object to a buffer. Keys are not checked: a caller whose input may repeat a
/// key must check that itself.
pub(crate) struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> ObjectWriter<'a> {
    /// Opens an object at the end of `out`.
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        let start = out.len();
        ObjectWriter { out, start }
    }

    /// Goes on with the object at the start of `out`, which has members and no end yet.
    pub(crate) fn after_members(out: &'a mut Vec<u8>) -> Self {
        ObjectWriter { out, start: 0 }
    }

    /// Adds a text value.
    pub(crate) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        push_string(self.out, value);
    }

    /// Adds a text value, or nothing where it is empty or the `-` of web server logs.
    pub(crate) fn text_if_said(&mut self, key: &str, value: &str) {
        if !value.is_empty() && value != "-" {
            self.text(key, value);
        }
    }

    /// Adds one text value, or an array of several.
    pub(crate) fn texts(&mut self, key: &str, values: &[&str]) {
        if let [value] = values {
            return self.text(key, value);
        }
        self.key(key);
        self.out.push(b'[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            push_string(self.out, value);
        }
        self.out.push(b']');
    }

    /// Adds a whole number.
    pub(crate) fn long(&mut self, key: &str, value: i64) {
        self.raw(key, value.to_string().as_bytes());
    }

    /// Adds a time, written as ISO-8601 in UTC.
    pub(crate) fn time(&mut self, key: &str, time_ns: i128) {
        self.key(key);
        self.out.push(b'"');
        crate::times::push_iso(self.out, time_ns);
        self.out.push(b'"');
    }

    /// Adds a value that already is JSON.
    pub(crate) fn raw(&mut self, key: &str, json: &[u8]) {
        self.key(key);
        self.out.extend_from_slice(json);
    }

    /// Adds a key, and returns where its value is to be written as JSON.
    pub(crate) fn value(&mut self, key: &str) -> &mut Vec<u8> {
        self.key(key);
        self.out
    }

    /// Adds members that are written already: `"a":1,"b":2`, or none.
    pub(crate) fn members(&mut self, members: &[u8]) {
        if !members.is_empty() {
            self.separate();
            self.out.extend_from_slice(members);
        }
    }

    /// Adds a value of a format without types. A valid JSON number or boolean has that type,
    /// anything else is text. So `007` and `+1` stay text and nothing is lost.
    pub(crate) fn guessed(&mut self, key: &str, value: &str) {
        if is_json_number(value) || value == "true" || value == "false" {
            self.raw(key, value.as_bytes());
        } else {
            self.text(key, value);
        }
    }

    /// Adds a number where the text is one, text otherwise, nothing for `-`.
    pub(crate) fn number_if_said(&mut self, key: &str, value: &str) {
        if !value.is_empty() && value != "-" {
            self.guessed(key, value);
        }
    }

    /// Closes the object.
    pub(crate) fn finish(self) {
        self.out.push(b'}');
    }

    fn separate(&mut self) {
        if self.out.len() > self.start {
            self.out.push(b',');
        }
    }

    fn key(&mut self, key: &str) {
        self.separate();
        push_string(self.out, key);
        self.out.push(b':');
    }
}

/// Appends `text` as a JSON string with its quotes.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[copied..at]);
        copied = at + 1;
        push_escape(out, byte);
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Whether an object has the field `path`, as a member of that name or inside of members of its parts' names.
pub(crate) fn has_path(object: &[u8], path: &str) -> bool {
    fn has(value: &serde_json::Value, path: &str) -> bool {
        let inner = |at: usize| value.get(&path[..at]).is_some_and(|inner| has(inner, &path[at + 1..]));
        value.get(path).is_some() || path.match_indices('.').any(|(at, _)| inner(at))
    }
    serde_json::from_slice(object).is_ok_and(|object| has(&object, path))
}

/// Whether `text` is a number in JSON's spelling with at most 18 digits: longer ones are identifiers
/// more often than quantities and would lose digits as a double.
pub(crate) fn is_json_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    digits.len() <= 18
        && all_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(all_digits)
}
