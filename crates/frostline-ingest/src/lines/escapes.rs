//! `\xHH`, as nginx and Apache write the bytes that are not printable ASCII.

/// The character whose bytes in UTF-8 a text begins with, each written as `\xHH`, and the bytes of text it takes.
pub(super) fn escaped_char(text: &str) -> Option<(char, usize)> {
    let mut bytes = [0; 4];
    for count in 1..=bytes.len() {
        bytes[count - 1] = escaped_byte(text.get(4 * (count - 1)..)?)?;
        match std::str::from_utf8(&bytes[..count]) {
            Ok(character) => return Some((character.chars().next()?, 4 * count)),
            Err(error) if error.error_len().is_some() => return None,
            Err(_) => {}
        }
    }
    None
}

/// The byte of the `\xHH` that a text begins with.
pub(super) fn escaped_byte(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("\\x")?.get(..2)?;
    let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    u8::from_str_radix(hex, 16).ok().filter(|_| is_hex)
}
