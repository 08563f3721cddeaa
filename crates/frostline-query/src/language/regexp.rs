//! Lucene regular expressions in the syntax of the `regex` crate.
//!
//! The result is anchored at both ends, and was compiled once to check it. Lucene's
//! complement `~` and intersection `&` have no counterpart and are refused with their position.

use std::fmt::Write as _;

use crate::{Error, Result};

/// Most characters of an expression.
const LENGTH_MAX: usize = 1_000;

/// Deepest nesting of groups.
const DEPTH_MAX: usize = 50;

/// Translates an expression; `flags` is as Elasticsearch has it (`ALL`, `NONE`, `INTERVAL|ANYSTRING`).
pub(crate) fn translate(text: &str, flags: &str) -> Result<String> {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() > LENGTH_MAX {
        return Err(Error::invalid(format!("the regular expression is longer than {LENGTH_MAX} characters")));
    }
    let mut parser = Parser { chars: &chars, position: 0, depth: 0, flags: Flags::parse(flags)? };
    let body = parser.union()?;
    if parser.position < chars.len() {
        return Err(parser.error(parser.position, "unexpected )"));
    }
    let pattern = format!(r"\A(?:{body})\z");
    regex::Regex::new(&pattern).map_err(|error| {
        Error::invalid(format!("the regular expression [{text}] is too large")).with_source(error)
    })?;
    Ok(pattern)
}

#[derive(Clone, Copy)]
struct Flags {
    complement: bool,
    interval: bool,
    intersection: bool,
    any_string: bool,
    empty: bool,
}

impl Flags {
    fn parse(text: &str) -> Result<Flags> {
        let mut flags = Flags {
            complement: false,
            interval: false,
            intersection: false,
            any_string: false,
            empty: false,
        };
        for name in text.split('|').map(str::trim) {
            match name.to_ascii_uppercase().as_str() {
                "ALL" | "" => {
                    flags = Flags {
                        complement: true,
                        interval: true,
                        intersection: true,
                        any_string: true,
                        empty: true,
                    }
                }
                "NONE" => {}
                "COMPLEMENT" => flags.complement = true,
                "INTERVAL" => flags.interval = true,
                "INTERSECTION" => flags.intersection = true,
                "ANYSTRING" => flags.any_string = true,
                "EMPTY" => flags.empty = true,
                _ => return Err(Error::invalid(format!("[{name}] is not a flag of regular expressions"))),
            }
        }
        Ok(flags)
    }
}

struct Parser<'a> {
    chars: &'a [char],
    position: usize,
    depth: usize,
    flags: Flags,
}

impl Parser<'_> {
    fn error(&self, position: usize, what: &str) -> Error {
        let text: String = self.chars.iter().collect();
        Error::invalid(format!("{what} at character {} of the regular expression [{text}]", position + 1))
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.position).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.position += 1;
        Some(c)
    }

    fn skip(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.position += usize::from(found);
        found
    }

    fn union(&mut self) -> Result<String> {
        let mut out = self.concatenation()?;
        while self.skip('|') {
            out.push('|');
            out.push_str(&self.concatenation()?);
        }
        Ok(out)
    }

    fn concatenation(&mut self) -> Result<String> {
        let mut out = String::new();
        while self.peek().is_some_and(|c| c != '|' && c != ')') {
            out.push_str(&self.repetition()?);
        }
        Ok(out)
    }

    fn repetition(&mut self) -> Result<String> {
        let mut out = self.atom()?;
        while let Some(c) = self.peek() {
            let quantifier = match c {
                '?' | '*' | '+' => {
                    self.position += 1;
                    c.to_string()
                }
                '{' => self.counts()?,
                _ => break,
            };
            // A group of its own, so that the next quantifier repeats the whole instead of making it lazy.
            out = format!("(?:{out}{quantifier})");
        }
        Ok(out)
    }

    /// `{2}`, `{2,}` or `{2,5}`.
    fn counts(&mut self) -> Result<String> {
        let start = self.position;
        self.position += 1;
        let least = self.number();
        let comma = self.skip(',');
        let most = if comma { self.number() } else { None };
        let Some(least) = least.filter(|_| self.skip('}')) else {
            return Err(self.error(start, "expected {n}, {n,} or {n,m}"));
        };
        match (comma, most) {
            (_, Some(most)) if most < least => Err(self.error(start, "the counts are the wrong way round")),
            (true, Some(most)) => Ok(format!("{{{least},{most}}}")),
            (true, None) => Ok(format!("{{{least},}}")),
            (false, _) => Ok(format!("{{{least}}}")),
        }
    }

    fn number(&mut self) -> Option<u32> {
        let mut digits = String::new();
        while let Some(c) = self.peek().filter(char::is_ascii_digit) {
            digits.push(c);
            self.position += 1;
        }
        digits.parse().ok()
    }

    fn atom(&mut self) -> Result<String> {
        let start = self.position;
        let Some(c) = self.next() else { return Ok(String::new()) };
        match c {
            '(' => self.group(start),
            '[' => self.class(start),
            '"' => self.literal_string(start),
            '.' => Ok("(?s:.)".to_owned()),
            '?' | '*' | '+' => Err(self.error(start, "nothing to repeat")),
            '{' => Err(self.error(start, "nothing to repeat")),
            '\\' => match self.next() {
                Some(c) => Ok(named_class(c).map_or_else(|| literal(c), |set| format!("[{set}]"))),
                None => Err(self.error(start, "nothing to escape")),
            },
            '@' if self.flags.any_string => Ok("(?s:.*)".to_owned()),
            '#' if self.flags.empty => Ok(r"[^\s\S]".to_owned()),
            '<' if self.flags.interval => self.interval(start),
            '~' if self.flags.complement => Err(self.error(
                start,
                "the complement ~ is not supported (use must_not, or flags NONE for the character itself)",
            )),
            '&' if self.flags.intersection => Err(self.error(
                start,
                "the intersection & is not supported (use two regexp clauses, or flags NONE for the character itself)",
            )),
            c => Ok(literal(c)),
        }
    }

    fn group(&mut self, start: usize) -> Result<String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error(start, "groups are nested too deep"));
        }
        let inner = self.union()?;
        self.depth -= 1;
        if !self.skip(')') {
            return Err(self.error(start, "( is not closed"));
        }
        Ok(format!("(?:{inner})"))
    }

    fn literal_string(&mut self, start: usize) -> Result<String> {
        let mut out = String::from("(?:");
        loop {
            match self.next() {
                Some('"') => break,
                Some(c) => out.push_str(&literal(c)),
                None => return Err(self.error(start, "\" is not closed")),
            }
        }
        out.push(')');
        Ok(out)
    }

    fn class(&mut self, start: usize) -> Result<String> {
        let mut out = String::from(if self.skip('^') { "[^" } else { "[" });
        let mut empty = true;
        loop {
            let at = self.position;
            let first = match self.next() {
                None => return Err(self.error(start, "[ is not closed")),
                Some(']') if empty => return Err(self.error(start, "[] holds no character")),
                Some(']') => break,
                Some('\\') => match self.next() {
                    None => return Err(self.error(at, "nothing to escape")),
                    Some(c) => match named_class(c) {
                        Some(set) => {
                            let _ = write!(out, "[{set}]");
                            empty = false;
                            continue;
                        }
                        None => c,
                    },
                },
                Some(c) => c,
            };
            empty = false;
            out.push_str(&code(first));
            let is_range =
                self.peek() == Some('-') && self.chars.get(self.position + 1).is_some_and(|c| *c != ']');
            if is_range {
                self.position += 1;
                let last = match self.next() {
                    Some('\\') => self.next(),
                    other => other,
                };
                let last = last.ok_or_else(|| self.error(start, "[ is not closed"))?;
                if last < first {
                    return Err(self.error(at, "the range is the wrong way round"));
                }
                let _ = write!(out, "-{}", code(last));
            }
        }
        out.push(']');
        Ok(out)
    }

    /// `<1-100>`: a number between the two; as wide as both, if they are equally wide.
    fn interval(&mut self, start: usize) -> Result<String> {
        let mut text = String::new();
        loop {
            match self.next() {
                Some('>') => break,
                Some(c) if c.is_ascii_digit() || c == '-' => text.push(c),
                Some(_) | None => return Err(self.error(start, "expected an interval like <1-100>")),
            }
        }
        let bounds = text.split_once('-').and_then(|(from, to)| {
            let width = if from.len() == to.len() { from.len() } else { 0 };
            Some((from.parse::<u32>().ok()?, to.parse::<u32>().ok()?, width))
        });
        let Some((from, to, width)) = bounds else {
            return Err(self.error(start, "expected an interval like <1-100>"));
        };
        let (from, to) = (from.min(to), from.max(to));
        Ok(interval_pattern(from, to, width))
    }
}

fn named_class(c: char) -> Option<&'static str> {
    match c {
        'd' => Some("0-9"),
        'D' => Some("^0-9"),
        'w' => Some("a-zA-Z0-9_"),
        'W' => Some("^a-zA-Z0-9_"),
        's' => Some(r" \t\n\r"),
        'S' => Some(r"^ \t\n\r"),
        _ => None,
    }
}

fn code(c: char) -> String {
    format!(r"\x{{{:x}}}", u32::from(c))
}

fn literal(c: char) -> String {
    regex::escape(c.encode_utf8(&mut [0; 4]))
}

fn interval_pattern(from: u32, to: u32, width: usize) -> String {
    let mut parts = Vec::new();
    let mut start = u64::from(from);
    let end = u64::from(to);
    while start <= end {
        // The largest block of 10, 100, … numbers that begins here and ends inside.
        // Blocks of numbers below 10 are written with fewer digits than others: they stand alone.
        let mut block = 1_u64;
        while start > 0
            && start.is_multiple_of(block * 10)
            && start + block * 10 - 1 <= end
            && same_width(start, start + block * 10 - 1)
        {
            block *= 10;
        }
        parts.push(block_pattern(start, block, end, width));
        start += block * steps(start, block, end);
    }
    let padding = if width == 0 { "0*" } else { "" };
    format!("(?:{padding}(?:{}))", parts.join("|"))
}

fn same_width(a: u64, b: u64) -> bool {
    a.to_string().len() == b.to_string().len()
}

/// How many blocks in a row differ in one digit only.
fn steps(start: u64, block: u64, end: u64) -> u64 {
    let digit = start / block % 10;
    let fitting = (end + 1 - start) / block;
    fitting.min(10 - digit).max(1)
}

fn block_pattern(start: u64, block: u64, end: u64, width: usize) -> String {
    let free = block.ilog10() as usize;
    let digit = start / block % 10;
    let last = digit + steps(start, block, end) - 1;
    let head = start / block / 10;
    let head_text = if head == 0 { String::new() } else { head.to_string() };
    let zeros = "0".repeat(width.saturating_sub(head_text.len() + 1 + free));
    let mut out = format!("{zeros}{head_text}[{digit}-{last}]");
    if free > 0 {
        let _ = write!(out, "[0-9]{{{free}}}");
    }
    out
}

#[cfg(test)]
mod tests;
