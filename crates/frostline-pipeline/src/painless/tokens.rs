//! The words of a script, each with its position.

use frostline_base::{Error, Result};

use crate::document::shown;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    Text(String),
    Int(i32),
    Long(i64),
    /// One more than the largest of these: only with a minus it is one, the smallest.
    IntAfterMinus,
    LongAfterMinus,
    Float(f32),
    Double(f64),
    /// A pattern with its flags.
    Pattern(String, String),
    Symbol(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Name(name) => write!(f, "[{}]", shown(name)),
            Token::Text(text) => write!(f, "['{}']", shown(text)),
            Token::Int(number) => write!(f, "[{number}]"),
            Token::Long(number) => write!(f, "[{number}]"),
            Token::IntAfterMinus => write!(f, "[{INT_AFTER_MINUS}]"),
            Token::LongAfterMinus => write!(f, "[{LONG_AFTER_MINUS}L]"),
            Token::Float(number) => write!(f, "[{number}]"),
            Token::Double(number) => write!(f, "[{number}]"),
            Token::Pattern(pattern, _) => write!(f, "[/{}/]", shown(pattern)),
            Token::Symbol(symbol) => write!(f, "[{symbol}]"),
        }
    }
}

const INT_AFTER_MINUS: u64 = i32::MIN.unsigned_abs() as u64;
const LONG_AFTER_MINUS: u64 = i64::MIN.unsigned_abs();

/// Longer ones before those that they begin with.
const SYMBOLS: &[&str] = &[
    ">>>=", "===", "!==", "==~", ">>>", "<<=", ">>=", "=~", "==", "!=", "<=", ">=", "&&", "||", "?.", "?:",
    "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "->", "::", "<<", ">>", "<", ">", "!", "(",
    ")", "[", "]", "{", "}", ".", ",", ";", "-", "+", "*", "/", "%", "?", ":", "=", "&", "|", "^", "~",
];

pub(super) fn invalid(what: impl std::fmt::Display, at: usize) -> Error {
    Error::invalid(format!("{what} at position {at}"))
}

pub(super) fn tokens(source: &str) -> Result<Vec<(Token, usize)>> {
    let mut tokens: Vec<(Token, usize)> = Vec::new();
    let mut rest = source;
    loop {
        rest = rest.trim_start();
        let at = source.len() - rest.len();
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").ok_or_else(|| invalid("a comment without an end", at))?;
            rest = &comment[end + 2..];
            continue;
        }
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let (token, length) = match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
                let length = rest.find(is_other).unwrap_or(rest.len());
                (Token::Name(rest[..length].to_owned()), length)
            }
            '0'..='9' => number(rest, at)?,
            '\'' | '"' => text(rest, first).ok_or_else(|| invalid("a text without an end", at))?,
            '/' if begins_value(tokens.last()) => {
                pattern(rest).ok_or_else(|| invalid("a pattern without an end", at))?
            }
            _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => (Token::Symbol(symbol), symbol.len()),
                None => return Err(invalid(format!("unexpected character [{first}]"), at)),
            },
        };
        tokens.push((token, at));
        rest = &rest[length..];
    }
}

/// Whether a value begins after this token, so that a slash is no division.
fn begins_value(last: Option<&(Token, usize)>) -> bool {
    match last {
        None => true,
        Some((Token::Symbol(symbol), _)) => !matches!(*symbol, ")" | "]" | "++" | "--"),
        Some((Token::Name(name), _)) => matches!(name.as_str(), "return" | "in" | "else"),
        Some(_) => false,
    }
}

fn number(rest: &str, at: usize) -> Result<(Token, usize)> {
    let wrong = || invalid("a number that is not understood", at);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let length = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let is_long = hex[length..].starts_with(['l', 'L']);
        let end = length + usize::from(is_long);
        if hex[end..].starts_with(is_word) {
            return Err(wrong());
        }
        // As in Java, the bits count.
        let token = match is_long {
            true => u64::from_str_radix(&hex[..length], 16).ok().map(|bits| Token::Long(bits as i64)),
            false => u32::from_str_radix(&hex[..length], 16).ok().map(|bits| Token::Int(bits as i32)),
        };
        return Ok((token.ok_or_else(wrong)?, end + 2));
    }
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut length = digits(rest);
    let mut is_whole = true;
    if let Some(fraction) = rest[length..].strip_prefix('.')
        && fraction.starts_with(|c: char| c.is_ascii_digit())
    {
        is_whole = false;
        length += 1 + digits(fraction);
    }
    if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let count = digits(unsigned);
        if count > 0 {
            is_whole = false;
            length += 1 + (exponent.len() - unsigned.len()) + count;
        }
    }
    let text = &rest[..length];
    // What begins with 0 is octal in Java.
    if is_whole && text.len() > 1 && text.starts_with('0') {
        return Err(wrong());
    }
    let suffix = rest[length..].chars().next().filter(|c| "lLdDfF".contains(*c));
    let end = length + suffix.map_or(0, char::len_utf8);
    if rest[end..].starts_with(is_word) {
        return Err(wrong());
    }
    let token = match suffix {
        Some('l' | 'L') if is_whole => match text.parse() {
            Ok(LONG_AFTER_MINUS) => Some(Token::LongAfterMinus),
            Ok(number) => i64::try_from(number).ok().map(Token::Long),
            Err(_) => None,
        },
        Some('l' | 'L') => None,
        Some('f' | 'F') => text.parse().ok().map(Token::Float),
        Some(_) => text.parse().ok().map(Token::Double),
        None if is_whole => match (text.parse(), text.parse::<i64>()) {
            (Ok(number), _) => Some(Token::Int(number)),
            (_, Ok(number)) if number as u64 == INT_AFTER_MINUS => Some(Token::IntAfterMinus),
            (_, Ok(_)) => return Err(invalid(format!("[{text}] is no int: write [{text}L] for a long"), at)),
            _ => return Err(invalid(format!("[{}] is no int", shown(text)), at)),
        },
        None => text.parse().ok().map(Token::Double),
    };
    Ok((token.ok_or_else(wrong)?, end))
}

/// The text until its quote, with the length of all.
fn text(rest: &str, quote: char) -> Option<(Token, usize)> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    loop {
        match chars.next()? {
            (_, '\\') => match chars.next()?.1 {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                c @ ('\\' | '\'' | '"') => text.push(c),
                _ => return None,
            },
            (at, c) if c == quote => return Some((Token::Text(text), at + 1)),
            (_, c) => text.push(c),
        }
    }
}

/// The pattern until its slash, with its flags and the length of all.
fn pattern(rest: &str) -> Option<(Token, usize)> {
    let mut pattern = String::new();
    let mut chars = rest.char_indices().skip(1);
    loop {
        match chars.next()? {
            (_, '\n') => return None,
            (_, '\\') => match chars.next()?.1 {
                '\n' => return None,
                '/' => pattern.push('/'),
                c => pattern.extend(['\\', c]),
            },
            (at, '/') => {
                let flags = &rest[at + 1..];
                let length = flags.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(flags.len());
                return Some((Token::Pattern(pattern, flags[..length].to_owned()), at + 1 + length));
            }
            (_, c) => pattern.push(c),
        }
    }
}
