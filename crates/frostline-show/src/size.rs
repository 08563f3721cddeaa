//! Numbers of bytes and of things.

use std::fmt;

/// Why a text is not a number of bytes.
#[derive(Debug)]
pub struct SizeError(String);

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SizeError {}

/// Reads a number of bytes: `1048576`, `64MiB`, `10GB`, `1.5g`.
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => {
            return Err(SizeError(format!(
                "{text:?} is not a size: write bytes or a unit such as KiB, MB, GiB"
            )));
        }
    };
    let number: f64 = number
        .parse()
        .map_err(|_| SizeError(format!("{text:?} is not a size: start with a number, such as 64MiB")))?;
    Ok((number * factor as f64) as u64)
}

/// A number of bytes for people: three digits and a unit of 1,000.
pub fn show_bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1_000.0;
        unit += 1;
    }
    let decimals = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {}", units[unit])
}

/// `1 split`, `2 splits`.
pub fn show_count(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A whole number with commas between thousands, such as `1,234,567`.
pub fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [(0_u64, "0"), (999, "999"), (1_000, "1,000"), (2_000_000, "2,000,000")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn sizes_are_read_with_units() {
        for (text, bytes) in [("12", 12), ("1KiB", 1024), ("1.5 GB", 1_500_000_000), ("2g", 2 << 30)] {
            assert_eq!(parse_bytes(text).ok(), Some(bytes), "{text}");
        }
        for text in ["", "x", "1 parsec", "1..2"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_with_three_digits() {
        for (bytes, text) in
            [(0, "0 B"), (999, "999 B"), (1_000, "1.00 kB"), (12_345, "12.3 kB"), (999_900, "1.00 MB")]
        {
            assert_eq!(show_bytes(bytes), text);
        }
    }
}
