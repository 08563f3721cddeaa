//! Escaping of text before it is shown: nothing that was read from a host reaches a terminal, a page
//! or a shell unescaped.

use std::fmt::Write as _;

/// `text` with everything escaped that a terminal acts upon: control characters (C0, DEL, C1) other than
/// line feed and tab, and the characters that change the direction of text.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() && c != '\n' && c != '\t') || is_format(c) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Invisible characters that reorder or hide what surrounds them (Unicode TR 36, 2.8).
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// [`clean`], on one line and of at most `chars` characters.
pub(crate) fn line(text: &str, chars: usize) -> String {
    let one: String =
        text.chars().map(|c| if matches!(c, '\n' | '\t') { ' ' } else { c }).take(chars).collect();
    clean(&one)
}

/// `text` as one word of a POSIX shell.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:,=%+-@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", line(text, 4096).replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
