//! How a value is written: its text in a document, and back.
//!
//! A spelling gives the same bytes for the same value for ever: splits are stored that rely on it. A change of what
//! one of them writes is a new version of the renderer, and the old one stays.

use std::io::Write;
use std::ops::RangeInclusive;

use crate::document::{Value, plain_length};
use crate::mapping::ValueType;
use crate::values::{Moment, ip_address, parse_ip, parse_zone};

/// How a scalar is written, without the quotes of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Text, with these characters escaped.
    Text(Escapes),
    Boolean,
    Long,
    Big,
    /// A double in the fewest digits that read back the same.
    Shortest,
    /// A double with so many decimals.
    Decimals(u8),
    Ip(Address),
    Date(Form),
    /// A value of this type that no spelling gives: its bytes are in the residual.
    Literal(ValueType),
    /// Likewise the time.
    LiteralTime,
}

/// What is escaped beside quotes, backslashes and control characters; flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Escapes(u8);

/// How an address is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Canonical,
    /// All eight groups, without zeros before them.
    Groups,
    /// An IPv4 address as `::ffff:a.b.c.d`.
    Mapped,
    /// Canonical, in capitals.
    Capitals,
}

/// How a date is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `yyyy-MM-ddTHH:mm:ss`, with a fraction.
    Iso(Fraction),
    /// `yyyy-MM-dd HH:mm:ss`, with a fraction.
    Spaced(Fraction),
    /// `yyyy/MM/dd HH:mm:ss`, with a fraction.
    Slashed(Fraction),
    /// `dd/MMM/yyyy:HH:mm:ss`.
    WebServer,
    /// `yyyy-MM-dd`.
    Day,
    /// `yyyy-MM-ddTHH:mm`.
    Minute,
    /// A number since 1970, of which a second has so many, with so many decimals.
    Epoch { per_second_log10: u8, decimals: u8 },
}

/// The digits of a second after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fraction {
    /// So many, at most nine.
    Digits(u8),
    /// None that is a zero at the end.
    Fewest,
}

const SLASH: u8 = 1;
const ASCII_ONLY: u8 = 2;
const HTML: u8 = 4;
const APOSTROPHE: u8 = 8;
const CAPITALS: u8 = 16;
const ESCAPES: RangeInclusive<u8> = 0..=31;

const DECIMALS_MAX: u8 = 17;
const FRACTION_DIGITS_MAX: u8 = 9;

const EPOCHS: [(u8, u8); 6] = [(0, 0), (3, 0), (6, 0), (9, 0), (0, 3), (0, 6)];

// The bytes of spellings; `"` and `\` are none of them.
const TEXT: u8 = 0x60;
const DECIMALS: u8 = 0x30;
const SHORTEST: u8 = 0x42;
const LONG: u8 = 0x43;
const BIG: u8 = 0x44;
const BOOLEAN: u8 = 0x45;
const IP: u8 = 0x46;
const LITERAL: u8 = 0x50;
// Of dates.
const ISO: u8 = 0x30;
const SPACED: u8 = 0x40;
const SLASHED: u8 = 0x50;
const WEB_SERVER: u8 = 0x60;
const DAY: u8 = 0x61;
const MINUTE: u8 = 0x62;
const EPOCH: u8 = 0x63;
const LITERAL_TIME: u8 = 0x7a;
const FEWEST: u8 = 10;

const ADDRESSES: [Address; 4] = [Address::Canonical, Address::Groups, Address::Mapped, Address::Capitals];
const LITERALS: [ValueType; 7] = [
    ValueType::Boolean,
    ValueType::Long,
    ValueType::Double,
    ValueType::Big,
    ValueType::Date,
    ValueType::Ip,
    ValueType::Text,
];

impl Spelling {
    /// Its byte among those of the spellings of dates, or among those of all others.
    pub(super) fn code(self) -> u8 {
        let place = |of: Option<usize>| of.unwrap_or_default() as u8;
        match self {
            Spelling::Text(Escapes(flags)) => TEXT + flags,
            Spelling::Boolean => BOOLEAN,
            Spelling::Long => LONG,
            Spelling::Big => BIG,
            Spelling::Shortest => SHORTEST,
            Spelling::Decimals(count) => DECIMALS + count,
            Spelling::Ip(address) => IP + place(ADDRESSES.iter().position(|a| *a == address)),
            Spelling::Literal(ty) => LITERAL + place(LITERALS.iter().position(|t| *t == ty)),
            Spelling::LiteralTime => LITERAL_TIME,
            Spelling::Date(form) => match form {
                Form::Iso(fraction) => ISO + fraction.code(),
                Form::Spaced(fraction) => SPACED + fraction.code(),
                Form::Slashed(fraction) => SLASHED + fraction.code(),
                Form::WebServer => WEB_SERVER,
                Form::Day => DAY,
                Form::Minute => MINUTE,
                Form::Epoch { per_second_log10, decimals } => {
                    EPOCH + place(EPOCHS.iter().position(|e| *e == (per_second_log10, decimals)))
                }
            },
        }
    }

    /// The spelling of this byte, which is not that of a date.
    pub(super) fn of_code(code: u8) -> Option<Spelling> {
        let after = |start: u8| code.checked_sub(start);
        let at = |start: u8| after(start).map(usize::from);
        Some(match code {
            SHORTEST => Spelling::Shortest,
            LONG => Spelling::Long,
            BIG => Spelling::Big,
            BOOLEAN => Spelling::Boolean,
            _ => {
                let text = after(TEXT).filter(|flags| ESCAPES.contains(flags));
                let decimals = after(DECIMALS).filter(|count| *count <= DECIMALS_MAX);
                let ip = at(IP).and_then(|at| ADDRESSES.get(at));
                let literal = at(LITERAL).and_then(|at| LITERALS.get(at));
                let text = text.map(|flags| Spelling::Text(Escapes(flags)));
                let found = text.or(decimals.map(Spelling::Decimals)).or(ip.copied().map(Spelling::Ip));
                found.or(literal.copied().map(Spelling::Literal))?
            }
        })
    }

    /// The spelling of this byte of a date.
    pub(super) fn of_date_code(code: u8) -> Option<Spelling> {
        let fraction = |start: u8| code.checked_sub(start).and_then(Fraction::of_code);
        Some(Spelling::Date(match code {
            LITERAL_TIME => return Some(Spelling::LiteralTime),
            WEB_SERVER => Form::WebServer,
            DAY => Form::Day,
            MINUTE => Form::Minute,
            _ => {
                let epoch = code.checked_sub(EPOCH).and_then(|at| EPOCHS.get(usize::from(at)));
                let iso = fraction(ISO).map(Form::Iso).or(fraction(SPACED).map(Form::Spaced));
                let form = iso.or(fraction(SLASHED).map(Form::Slashed));
                form.or(epoch
                    .map(|(log10, decimals)| Form::Epoch { per_second_log10: *log10, decimals: *decimals }))?
            }
        }))
    }

    /// The type of the values that it writes.
    pub(super) fn ty(self) -> ValueType {
        match self {
            Spelling::Text(_) => ValueType::Text,
            Spelling::Boolean => ValueType::Boolean,
            Spelling::Long => ValueType::Long,
            Spelling::Big => ValueType::Big,
            Spelling::Shortest | Spelling::Decimals(_) => ValueType::Double,
            Spelling::Ip(_) => ValueType::Ip,
            Spelling::Date(_) | Spelling::LiteralTime => ValueType::Date,
            Spelling::Literal(ty) => ty,
        }
    }

    /// The first of the likely spellings that gives `written` for the value, and how many bytes it gives: what
    /// follows these is the zone of a date. `last` is the one that the field had before: fields keep to one.
    pub(super) fn of(
        value: &Value<'_>,
        written: &str,
        last: Option<Spelling>,
        scratch: &mut Vec<u8>,
    ) -> Option<(Spelling, usize)> {
        let mut gives = |spelling: Spelling| {
            scratch.clear();
            let length = match spelling {
                Spelling::Date(form) => form.length_in(written)?,
                _ => written.len(),
            };
            let (text, zone) = written.split_at_checked(length)?;
            spelling.write(value, parse_zone(zone)?, scratch)?;
            (scratch.as_slice() == text.as_bytes()).then_some((spelling, length))
        };
        if let Some(found) = last.and_then(&mut gives) {
            return Some(found);
        }
        let was_date = matches!(last, Some(Spelling::Date(_)));
        match value {
            Value::Text(text) => gives(Spelling::Text(Escapes::seen(text, written))),
            Value::Boolean(_) => gives(Spelling::Boolean),
            Value::Long(_) => gives(Spelling::Long),
            Value::Big(_) => gives(Spelling::Big),
            Value::Double(_) => {
                let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len());
                let exact = u8::try_from(decimals).ok().filter(|count| *count <= DECIMALS_MAX);
                gives(Spelling::Shortest).or_else(|| gives(Spelling::Decimals(exact?)))
            }
            Value::Ip(_) => ADDRESSES.into_iter().map(Spelling::Ip).find_map(gives),
            Value::Date(_) => Form::likely(written, was_date).map(Spelling::Date).find_map(gives),
        }
    }

    /// Whether all that it writes are numbers, true and false.
    pub(super) fn is_of_numbers(self) -> bool {
        let is_number = matches!(self, Spelling::Long | Spelling::Shortest | Spelling::Decimals(_));
        is_number || matches!(self, Spelling::Boolean | Spelling::Date(Form::Epoch { .. }))
    }

    /// Whether a text is written as it is, but for the characters that JSON does not allow.
    pub(super) fn is_plain_text(self) -> bool {
        matches!(self, Spelling::Text(Escapes(flags)) if flags & !CAPITALS == 0)
    }

    /// Appends the value as it is written here, a date in a zone so many seconds east of UTC. `None`, with some of it
    /// appended, where it cannot be written so.
    pub(super) fn write(self, value: &Value<'_>, offset_s: i32, out: &mut Vec<u8>) -> Option<()> {
        match (self, value) {
            (Spelling::Text(escapes), Value::Text(text)) => escapes.write(text, out),
            (Spelling::Boolean, Value::Boolean(truth)) => {
                out.extend_from_slice(if *truth { b"true" } else { b"false" });
            }
            (Spelling::Long, Value::Long(number)) => {
                out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
            }
            (Spelling::Big, Value::Big(digits)) => out.extend_from_slice(digits.as_bytes()),
            // There is one zero, as in columns.
            (Spelling::Shortest, Value::Double(number)) if number.is_finite() => {
                write_shortest(number + 0.0, out)?;
            }
            (Spelling::Decimals(count), Value::Double(number)) if number.is_finite() => {
                write_decimals(number + 0.0, count, out)?;
            }
            (Spelling::Ip(address), Value::Ip(text)) => address.write(text, out)?,
            (Spelling::Date(form), Value::Date(moment)) => form.write(*moment, offset_s, out)?,
            _ => return None,
        }
        Some(())
    }
}

impl Escapes {
    /// The escapes that `written`, which stands for `text`, seems to have.
    fn seen(text: &str, written: &str) -> Escapes {
        if !written.contains('\\') {
            return Escapes::default();
        }
        let hidden = |characters: &[char]| text.contains(characters) && !written.contains(characters);
        let is_capital = |escape: &str| escape.bytes().take(4).any(|b| b.is_ascii_uppercase());
        let flags = [
            (SLASH, written.contains("\\/")),
            (ASCII_ONLY, written.is_ascii() && !text.is_ascii()),
            (HTML, hidden(&['<', '>', '&', '\u{2028}', '\u{2029}'])),
            (APOSTROPHE, hidden(&['\''])),
            (CAPITALS, written.split("\\u").skip(1).any(is_capital)),
        ];
        Escapes(flags.iter().filter(|(_, is_seen)| *is_seen).fold(0, |flags, (flag, _)| flags | flag))
    }

    fn write(self, text: &str, out: &mut Vec<u8>) {
        let mut rest = text;
        while !rest.is_empty() {
            let plain = self.plain_length(rest.as_bytes());
            // Where an ASCII character ends it, that is a boundary.
            let (head, tail) = rest.split_at_checked(plain).unwrap_or((rest, ""));
            out.extend_from_slice(head.as_bytes());
            let mut characters = tail.chars();
            if let Some(c) = characters.next() {
                self.write_character(c, out);
            }
            rest = characters.as_str();
        }
    }

    /// Bytes before the first that may be escaped.
    fn plain_length(self, bytes: &[u8]) -> usize {
        if Spelling::Text(self).is_plain_text() {
            return plain_length(bytes);
        }
        let may_be_escaped =
            |b: &u8| !matches!(b, b' ' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b':' | b'_');
        bytes.iter().position(may_be_escaped).unwrap_or(bytes.len())
    }

    fn write_character(self, c: char, out: &mut Vec<u8>) {
        let has = |flag: u8| self.0 & flag != 0;
        let short = match c {
            '"' | '\\' => Some(c as u8),
            '\u{8}' => Some(b'b'),
            '\u{c}' => Some(b'f'),
            '\n' => Some(b'n'),
            '\r' => Some(b'r'),
            '\t' => Some(b't'),
            '/' if has(SLASH) => Some(b'/'),
            _ => None,
        };
        if let Some(short) = short {
            return out.extend_from_slice(&[b'\\', short]);
        }
        let escaped = match c {
            '\0'..'\u{20}' => true,
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if has(HTML) => true,
            '\'' => has(APOSTROPHE),
            c => has(ASCII_ONLY) && !c.is_ascii(),
        };
        if !escaped {
            return out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let digits: &[u8; 16] = if has(CAPITALS) { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
            out.extend_from_slice(b"\\u");
            out.extend([12, 8, 4, 0].map(|shift| digits[usize::from(*unit >> shift & 15)]));
        }
    }
}

/// `1.50`: a double with so many decimals.
fn write_decimals(number: f64, count: u8, out: &mut Vec<u8>) -> Option<()> {
    // Decimals of which a double is the nearest are also the nearest to it, if the distance of doubles is less than one of
    // them: their digits are a number below 2^51.
    const DIGITS_MAX: f64 = (1_u64 << 51) as f64;
    let unit = 10_u64.pow(u32::from(count));
    let digits = (number.abs() * unit as f64).round();
    if count > 15 || digits >= DIGITS_MAX || digits / unit as f64 != number.abs() {
        return write!(out, "{number:.*}", usize::from(count)).ok();
    }
    let digits = digits as u64;
    if number < 0.0 {
        out.push(b'-');
    }
    out.extend_from_slice(itoa::Buffer::new().format(digits / unit).as_bytes());
    if count > 0 {
        out.push(b'.');
        let start = out.len();
        out.resize(start + usize::from(count), b'0');
        let mut left = digits % unit;
        for digit in out.get_mut(start..)?.iter_mut().rev() {
            *digit += (left % 10) as u8;
            left /= 10;
        }
    }
    Some(())
}

/// `1.5`, `2.0`, `1e21`, `1.5e-7`: an exponent below 0.00001 and from 1e16 on.
fn write_shortest(number: f64, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    write!(out, "{number:e}").ok()?;
    let written = out.get(start..)?;
    let mark = written.iter().position(|b| *b == b'e')?;
    let exponent: i32 = std::str::from_utf8(written.get(mark + 1..)?).ok()?.parse().ok()?;
    if !(-5..16).contains(&exponent) {
        return Some(());
    }
    let is_negative = written.first() == Some(&b'-');
    let mut digits = [0u8; 24];
    let mut count = 0;
    for digit in written.get(..mark)?.iter().filter(|b| b.is_ascii_digit()) {
        *digits.get_mut(count)? = *digit;
        count += 1;
    }
    out.truncate(start + usize::from(is_negative));
    let whole = usize::try_from(exponent + 1).unwrap_or(0);
    if whole == 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', usize::try_from(-1 - exponent).unwrap_or(0)));
        out.extend_from_slice(digits.get(..count)?);
        return Some(());
    }
    let (head, tail) = digits.get(..count)?.split_at(whole.min(count));
    out.extend_from_slice(head);
    out.extend(std::iter::repeat_n(b'0', whole - head.len()));
    out.push(b'.');
    out.extend_from_slice(if tail.is_empty() { b"0" } else { tail });
    Some(())
}

impl Address {
    fn write(self, text: &str, out: &mut Vec<u8>) -> Option<()> {
        if self == Address::Canonical {
            out.extend_from_slice(text.as_bytes());
            return Some(());
        }
        let bytes = parse_ip(text)?;
        let start = out.len();
        match (self, ip_address(&bytes)) {
            (Address::Mapped, std::net::IpAddr::V4(address)) => write!(out, "::ffff:{address}").ok()?,
            (Address::Groups, std::net::IpAddr::V6(address)) => {
                for (at, group) in address.segments().into_iter().enumerate() {
                    let colon = if at == 0 { "" } else { ":" };
                    write!(out, "{colon}{group:x}").ok()?;
                }
            }
            (Address::Capitals, std::net::IpAddr::V6(_)) => {
                out.extend_from_slice(text.as_bytes());
                out.get_mut(start..)?.make_ascii_uppercase();
            }
            _ => return None,
        }
        Some(())
    }
}

impl Fraction {
    fn code(self) -> u8 {
        match self {
            Fraction::Digits(count) => count,
            Fraction::Fewest => FEWEST,
        }
    }

    fn of_code(code: u8) -> Option<Fraction> {
        match code {
            FEWEST => Some(Fraction::Fewest),
            _ => (code <= FRACTION_DIGITS_MAX).then_some(Fraction::Digits(code)),
        }
    }
}

/// Bytes of `yyyy-MM-ddTHH:mm:ss`.
const SECONDS_BYTES: usize = 19;

impl Form {
    /// The forms that `written` may have, the likelier first.
    fn likely(written: &str, was_date: bool) -> impl Iterator<Item = Form> {
        let bytes = written.as_bytes();
        let fraction = match fraction_bytes(bytes) {
            0 => Fraction::Digits(0),
            with_point => Fraction::Digits((with_point - 1) as u8),
        };
        let pattern = match (bytes.get(4), bytes.get(10), bytes.get(16)) {
            (Some(b'-'), Some(b'T'), Some(b':')) => Some(Form::Iso as fn(Fraction) -> Form),
            (Some(b'-'), Some(b' '), Some(b':')) => Some(Form::Spaced as fn(Fraction) -> Form),
            (Some(b'/'), Some(b' '), Some(b':')) => Some(Form::Slashed as fn(Fraction) -> Form),
            _ => None,
        };
        let other = match (bytes.get(2), bytes.get(4), bytes.get(10)) {
            (Some(b'/'), ..) => Some(Form::WebServer),
            (_, Some(b'-'), None) => Some(Form::Day),
            (_, Some(b'-'), Some(b'T')) => Some(Form::Minute),
            _ => None,
        };
        let epochs = EPOCHS.map(|(per_second_log10, decimals)| Form::Epoch { per_second_log10, decimals });
        let epochs = epochs.into_iter().filter(move |_| pattern.is_none() && other.is_none());
        // A field that had another number of digits before leaves out zeros.
        let fractions = [was_date.then_some(Fraction::Fewest), Some(fraction)];
        let patterns = fractions.into_iter().flatten().filter_map(move |fraction| Some(pattern?(fraction)));
        patterns.chain(other.filter(|_| pattern.is_none())).chain(epochs)
    }

    /// How many bytes of `written` have this form: what follows is the zone.
    fn length_in(self, written: &str) -> Option<usize> {
        let length = match self {
            Form::Iso(_) | Form::Spaced(_) | Form::Slashed(_) => {
                SECONDS_BYTES + fraction_bytes(written.as_bytes())
            }
            Form::WebServer => 20,
            Form::Day => 10,
            Form::Minute => 16,
            Form::Epoch { .. } => written.len(),
        };
        (length <= written.len()).then_some(length)
    }

    fn write(self, moment: Moment, offset_s: i32, out: &mut Vec<u8>) -> Option<()> {
        if let Form::Epoch { per_second_log10, decimals } = self {
            return write_epoch(moment, (per_second_log10, decimals), out);
        }
        let Moment { time_us, nanos } = moment;
        let local = time_us.checked_add(i64::from(offset_s) * 1_000_000)?;
        let seconds = local.div_euclid(1_000_000);
        let fraction_ns = local.rem_euclid(1_000_000) as u32 * 1_000 + u32::from(nanos);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as u32);
        let (year, month, day) = civil(days)?;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let [m, d, h, min, s] = [month, day, hour, minute, second].map(two_digits);
        let y = [two_digits(year / 100), two_digits(year % 100)].concat();
        let (date_mark, between) = match self {
            Form::WebServer => {
                const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
                let name = MONTHS.chunks(3).nth(month as usize - 1)?;
                [&d[..], b"/", name, b"/", &y, b":", &h, b":", &min, b":", &s]
                    .iter()
                    .for_each(|part| out.extend_from_slice(part));
                return Some(());
            }
            Form::Spaced(_) => (b'-', b' '),
            Form::Slashed(_) => (b'/', b' '),
            _ => (b'-', b'T'),
        };
        [&y[..], &[date_mark], &m, &[date_mark], &d].iter().for_each(|part| out.extend_from_slice(part));
        if self == Form::Day {
            return Some(());
        }
        [&[between][..], &h, b":", &min].iter().for_each(|part| out.extend_from_slice(part));
        match self {
            Form::Iso(fraction) | Form::Spaced(fraction) | Form::Slashed(fraction) => {
                out.push(b':');
                out.extend_from_slice(&s);
                write_fraction(fraction, fraction_ns, out);
            }
            _ => (),
        }
        Some(())
    }
}

/// Bytes of the point and the digits after the seconds.
fn fraction_bytes(written: &[u8]) -> usize {
    let digits = |rest: &[u8]| rest.iter().take_while(|b| b.is_ascii_digit()).count();
    match written.get(SECONDS_BYTES..) {
        Some([b'.', rest @ ..]) => 1 + digits(rest).min(usize::from(FRACTION_DIGITS_MAX)),
        _ => 0,
    }
}

fn write_fraction(fraction: Fraction, ns: u32, out: &mut Vec<u8>) {
    let mut digits = *b".000000000";
    let mut rest = ns;
    for digit in digits[1..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let count = match fraction {
        Fraction::Digits(count) => usize::from(count.min(FRACTION_DIGITS_MAX)),
        Fraction::Fewest => digits[1..].iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1),
    };
    if count > 0 {
        out.extend_from_slice(&digits[..=count]);
    }
}

fn two_digits(number: u32) -> [u8; 2] {
    [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8]
}

/// Year, month and day of a day since 1970-01-01, in the years that have four digits.
fn civil(days: i64) -> Option<(u32, u32, u32)> {
    // Years that begin in March, from the year 0 on, in eras of 400 years.
    let days = days.checked_add(719_468)?;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let year = u32::try_from(year).ok().filter(|year| *year <= 9_999)?;
    Some((year, month as u32, day as u32))
}

fn write_epoch(moment: Moment, form: (u8, u8), out: &mut Vec<u8>) -> Option<()> {
    let time_us = moment.time_us;
    match form {
        (9, _) => write!(out, "{}", moment.ns()).ok(),
        (per_second_log10, 0) => {
            let unit = 10_i64.pow(6_u32.checked_sub(u32::from(per_second_log10))?);
            (time_us % unit == 0).then_some(())?;
            write!(out, "{}", time_us / unit).ok()
        }
        (_, decimals) => {
            let time_us = u64::try_from(time_us).ok()?;
            let unit = 10_u64.pow(6_u32.checked_sub(u32::from(decimals))?);
            let (seconds, fraction) = (time_us / 1_000_000, time_us % 1_000_000);
            (fraction % unit == 0).then_some(())?;
            write!(out, "{seconds}.{:0width$}", fraction / unit, width = usize::from(decimals)).ok()
        }
    }
}
