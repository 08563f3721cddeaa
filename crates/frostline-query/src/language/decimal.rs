//! Numbers written by a pattern, as Java's `DecimalFormat` does: `0.00`, `#,##0`, `$0.0`, `0%`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Result};

/// Longest pattern.
const PATTERN_CHARS_MAX: usize = 200;
/// Most digits on either side of the point.
const DIGITS_MAX: usize = 30;

/// A pattern. Not supported: exponents, `‰`, `¤`, and an own pattern for negative numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decimal {
    pattern: String,
    prefix: String,
    suffix: String,
    percent: bool,
    integer_min: usize,
    fraction_min: usize,
    fraction_max: usize,
    /// Digits between commas; 0 without any.
    group: usize,
}

impl Decimal {
    /// Reads a pattern. `Invalid` names the character that is not understood, and where it is.
    pub(crate) fn parse(pattern: &str) -> Result<Decimal> {
        let chars: Vec<char> = pattern.chars().collect();
        if chars.len() > PATTERN_CHARS_MAX {
            return Err(Error::invalid(format!("a format has at most {PATTERN_CHARS_MAX} characters")));
        }
        let mut parser = Parser { chars: &chars, at: 0, percent: false, pattern };
        let prefix = parser.literal()?;
        let digits = parser.digits();
        let suffix = parser.literal()?;
        if parser.at < chars.len() {
            return Err(parser.error());
        }
        let (integer, fraction) = match digits.split_once('.') {
            Some((integer, fraction)) => (integer, Some(fraction)),
            None => (digits.as_str(), None),
        };
        let plain: String = integer.chars().filter(|c| *c != ',').collect();
        let after = fraction.unwrap_or_default();
        let sound = !digits.is_empty()
            && !digits.ends_with(',')
            && !plain.trim_start_matches('#').contains('#')
            && !after.trim_start_matches('0').contains(['0', ',', '.'])
            && (!plain.is_empty() || !after.is_empty());
        if !sound {
            return Err(Error::invalid(format!("[{pattern}] is not a pattern of digits such as #,##0.00")));
        }
        let mut integer_min = plain.chars().filter(|c| *c == '0').count();
        let mut fraction_min = after.chars().filter(|c| *c == '0').count();
        // A pattern without any 0 that has a point writes one digit.
        if fraction.is_some() && integer_min + fraction_min == 0 {
            match plain.is_empty() {
                true => fraction_min = 1,
                false => integer_min = 1,
            }
        }
        if plain.len() > DIGITS_MAX || after.len() > DIGITS_MAX {
            return Err(Error::invalid(format!(
                "[{pattern}] has more than {DIGITS_MAX} digits on a side of the point"
            )));
        }
        let group = integer.rsplit_once(',').map_or(0, |(_, last)| last.len());
        let percent = parser.percent;
        let fraction_max = after.len();
        let pattern = pattern.to_owned();
        Ok(Decimal { pattern, prefix, suffix, percent, integer_min, fraction_min, fraction_max, group })
    }

    /// The number, rounded half to even; one beyond the doubles as Java writes it.
    pub(crate) fn text(&self, value: f64) -> String {
        let value = if self.percent { value * 100.0 } else { value };
        if value.is_nan() {
            return "NaN".to_owned();
        }
        if value.is_infinite() {
            let sign = if value > 0.0 { "" } else { "-" };
            return format!("{sign}{}\u{221e}{}", self.prefix, self.suffix);
        }
        let digits = format!("{:.*}", self.fraction_max, value.abs());
        let (integer, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
        let kept = fraction.trim_end_matches('0').len().max(self.fraction_min);
        let fraction = &fraction[..kept];
        let mut integer = integer.trim_start_matches('0').to_owned();
        let wanted = if fraction.is_empty() { self.integer_min.max(1) } else { self.integer_min };
        while integer.len() < wanted {
            integer.insert(0, '0');
        }
        let mut out = String::new();
        if value.is_sign_negative() {
            out.push('-');
        }
        out.push_str(&self.prefix);
        for (at, digit) in integer.chars().enumerate() {
            if self.group > 0 && at > 0 && (integer.len() - at).is_multiple_of(self.group) {
                out.push(',');
            }
            out.push(digit);
        }
        if !fraction.is_empty() {
            out.push('.');
            out.push_str(fraction);
        }
        out + &self.suffix
    }
}

struct Parser<'a> {
    chars: &'a [char],
    at: usize,
    percent: bool,
    pattern: &'a str,
}

impl Parser<'_> {
    fn error(&self) -> Error {
        let found = self.chars.get(self.at).copied().unwrap_or(' ');
        Error::invalid(format!(
            "`{found}` at character {} of the format [{}] is not supported: a format is text and one group of the digits \
             `#` and `0` with `,` and `.`",
            self.at + 1,
            self.pattern
        ))
    }

    /// Text around the digits; within quotes it is anything.
    fn literal(&mut self) -> Result<String> {
        let mut out = String::new();
        let mut quoted = false;
        while let Some(c) = self.chars.get(self.at) {
            match c {
                '\'' if self.chars.get(self.at + 1) == Some(&'\'') => {
                    out.push('\'');
                    self.at += 1;
                }
                '\'' => quoted = !quoted,
                _ if quoted => out.push(*c),
                '#' | '0' | ',' | '.' => break,
                '%' if !self.percent => {
                    self.percent = true;
                    out.push('%');
                }
                ';' | '%' | '\u{2030}' | '\u{a4}' | 'E' | '1'..='9' => return Err(self.error()),
                _ => out.push(*c),
            }
            self.at += 1;
        }
        match quoted {
            true => Err(Error::invalid(format!("the format [{}] has a quote without an end", self.pattern))),
            false => Ok(out),
        }
    }

    fn digits(&mut self) -> String {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let digits: String = rest.iter().take_while(|c| matches!(c, '#' | '0' | ',' | '.')).collect();
        self.at += digits.len();
        digits
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        self.pattern.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Decimal, D::Error> {
        Decimal::parse(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
