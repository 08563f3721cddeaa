//! Parses the times of log lines, as nanoseconds since 1970-01-01 UTC.
//!
//! A time without a zone is UTC. A time without a year (RFC 3164, klog) gets the latest year that
//! does not put it more than a day after `now_us`.

use frostline_split::epoch_unit_ns;

const DAY_NS: i128 = 86_400_000_000_000;
const SECOND_NS: i128 = 1_000_000_000;

/// Appends `yyyy-MM-ddTHH:mm:ss.SSSZ`, with six or nine digits of fraction where the time needs them.
pub(crate) fn push_iso(out: &mut Vec<u8>, time_ns: i128) {
    let (year, month, day) = civil_from_days(time_ns.div_euclid(DAY_NS) as i64);
    let in_day = time_ns.rem_euclid(DAY_NS) as i64;
    let (seconds, nanos) = (in_day / 1_000_000_000, in_day % 1_000_000_000);
    push_digits(out, year, 4);
    for (separator, value) in
        [(b'-', month), (b'-', day), (b'T', seconds / 3600), (b':', seconds / 60 % 60), (b':', seconds % 60)]
    {
        out.push(separator);
        push_digits(out, value, 2);
    }
    out.push(b'.');
    if nanos % 1_000_000 == 0 {
        push_digits(out, nanos / 1_000_000, 3);
    } else if nanos % 1_000 == 0 {
        push_digits(out, nanos / 1_000, 6);
    } else {
        push_digits(out, nanos, 9);
    }
    out.push(b'Z');
}

/// The time at the start of a line and the number of bytes it takes, in any known spelling; brackets
/// around it belong to it.
pub(crate) fn leading_time(line: &str, now_us: i64) -> Option<(i128, usize)> {
    let open = usize::from(line.starts_with('['));
    let mut scan = Scan { bytes: line.as_bytes(), at: open };
    let time_ns = scan.any_time(now_us)?;
    if open == 1 {
        scan.byte(b']')?;
    }
    match scan.peek() {
        Some(next) if next.is_ascii_alphanumeric() => None,
        _ => Some((time_ns, scan.at)),
    }
}

/// The time that is all of `text`: any known spelling, or seconds, milliseconds, microseconds or
/// nanoseconds since 1970 by their size.
pub(crate) fn whole_time(text: &str, now_us: i64) -> Option<i128> {
    if let Some(time_ns) = epoch(text) {
        return Some(time_ns);
    }
    match leading_time(text, now_us)? {
        (time_ns, end) if end == text.len() => Some(time_ns),
        _ => None,
    }
}

/// The time of RFC 3164, `Oct 11 22:14:15`, and its length.
pub(crate) fn rfc3164(text: &str, now_us: i64) -> Option<(i128, usize)> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0 };
    Some((scan.month_first(now_us)?, scan.at))
}

/// The time of ISO-8601 and its length; `T` may be a space, the fraction may follow a comma.
pub(crate) fn iso(text: &str) -> Option<(i128, usize)> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0 };
    Some((scan.iso()?, scan.at))
}

/// The time of the common log format, `17/May/2015:10:05:03 +0000`.
pub(crate) fn common_log(text: &str) -> Option<i128> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0 };
    scan.common_log().filter(|_| scan.at == text.len())
}

fn epoch(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.len() < 9 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let value = whole.parse::<i64>().ok()?;
    let unit_ns = i128::from(epoch_unit_ns(value.unsigned_abs()));
    Some(i128::from(value) * unit_ns + fraction_ns(fraction.as_bytes()) * unit_ns / SECOND_NS)
}

fn fraction_ns(digits: &[u8]) -> i128 {
    let padded = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    padded.fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'))
}

fn push_digits(out: &mut Vec<u8>, value: i64, digits: u32) {
    for digit in (0..digits).rev() {
        out.push(b'0' + (value / 10_i64.pow(digit) % 10) as u8);
    }
}

/// Days since 1970-01-01 of a date of the Gregorian calendar. Years are counted from March, so that
/// the leap day is a year's last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * from_march + 2) / 5 + 1)
}

/// The year at a time.
fn year_at(time_ns: i128) -> i64 {
    civil_from_days(time_ns.div_euclid(DAY_NS) as i64).0
}

/// A date and a time of day whose parts are in range.
fn nanos(date: (i64, i64, i64), of_day_ns: i128, offset_minutes: i64) -> Option<i128> {
    let (year, month, day) = date;
    let days = (1..=12).contains(&month).then(|| days_from_civil(year, month, day))?;
    // 31 February comes back as a day of March.
    let exists = day >= 1 && civil_from_days(days) == date;
    let time_ns = i128::from(days) * DAY_NS + of_day_ns - i128::from(offset_minutes) * 60 * SECOND_NS;
    // A zone may move a time into a year that four digits do not write.
    (exists && (0..=9999).contains(&year_at(time_ns))).then_some(time_ns)
}

/// The latest time on that day of a year that is not more than a day after `now_us`.
fn latest(month: i64, day: i64, of_day_ns: i128, now_us: i64) -> Option<i128> {
    let latest = i128::from(now_us) * 1_000 + DAY_NS;
    // 29 February may need to go back up to eight years.
    let years = (0..=8).map(|back| year_at(latest) - back);
    let mut times = years.filter_map(|year| nanos((year, month, day), of_day_ns, 0));
    times.find(|time_ns| *time_ns <= latest)
}

/// Reads times out of bytes; after a `None` its position means nothing.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn any_time(&mut self, now_us: i64) -> Option<i128> {
        let start = self.at;
        let readers = [Scan::iso, Scan::common_log, Scan::ctime, Scan::epoch_seconds];
        for read in readers {
            self.at = start;
            if let Some(time_ns) = read(self) {
                return Some(time_ns);
            }
        }
        for read in [Scan::klog, Scan::month_first] {
            self.at = start;
            if let Some(time_ns) = read(self, now_us) {
                return Some(time_ns);
            }
        }
        None
    }

    /// `2024-05-01T10:00:00.123+02:00` and its relatives with `/`, a space and a comma. The time of
    /// day is required: a date alone at the start of a line says too little.
    fn iso(&mut self) -> Option<i128> {
        let year = self.digits(4)?;
        let separator = self.next()?;
        if separator != b'-' && separator != b'/' {
            return None;
        }
        let month = self.digits(2)?;
        self.byte(separator)?;
        let day = self.digits(2)?;
        if !matches!(self.next()?, b'T' | b't' | b' ') {
            return None;
        }
        let of_day = self.time_of_day()?;
        let offset = self.zone();
        nanos((year, month, day), of_day, offset)
    }

    /// `17/May/2015:10:05:03 +0000`.
    fn common_log(&mut self) -> Option<i128> {
        let day = self.digits(2)?;
        self.byte(b'/')?;
        let month = self.month()?;
        self.byte(b'/')?;
        let year = self.digits(4)?;
        self.byte(b':')?;
        let of_day = self.time_of_day()?;
        let offset = self.zone();
        nanos((year, month, day), of_day, offset)
    }

    /// `Sat Oct 10 12:00:00.123 2020`, as `ctime` and Apache's error log write it.
    fn ctime(&mut self) -> Option<i128> {
        const DAYS: [&[u8]; 7] = [b"Mon ", b"Tue ", b"Wed ", b"Thu ", b"Fri ", b"Sat ", b"Sun "];
        let name = self.bytes.get(self.at..self.at + 4)?;
        if !DAYS.contains(&name) {
            return None;
        }
        self.at += 4;
        let (month, day, of_day) = self.month_day_time()?;
        self.byte(b' ')?;
        let year = self.digits(4)?;
        nanos((year, month, day), of_day, 0)
    }

    /// `1446249499.322`: ten digits, a point and a fraction, then white space or the end.
    fn epoch_seconds(&mut self) -> Option<i128> {
        let start = self.at;
        let end = self.bytes[start..].iter().position(|b| *b != b'.' && !b.is_ascii_digit());
        let end = end.map_or(self.bytes.len(), |length| start + length);
        let text = std::str::from_utf8(&self.bytes[start..end]).ok()?;
        let point = text.find('.')?;
        self.at = end;
        epoch(text).filter(|_| point == 10 && text.len() > 11)
    }

    /// `Oct 11 22:14:15`, without a year.
    fn month_first(&mut self, now_us: i64) -> Option<i128> {
        let (month, day, of_day) = self.month_day_time()?;
        latest(month, day, of_day, now_us)
    }

    /// `E1011 22:14:15.123456`, as klog and glog write it: a level, the month and the day, without a year.
    fn klog(&mut self, now_us: i64) -> Option<i128> {
        if !matches!(self.next()?, b'I' | b'W' | b'E' | b'F') {
            return None;
        }
        let (month, day) = (self.digits(2)?, self.digits(2)?);
        self.byte(b' ')?;
        let of_day = self.time_of_day()?;
        latest(month, day, of_day, now_us)
    }

    fn month_day_time(&mut self) -> Option<(i64, i64, i128)> {
        let month = self.month()?;
        self.byte(b' ')?;
        let day = if self.peek() == Some(b' ') {
            self.at += 1;
            self.digits(1)?
        } else if self.bytes.get(self.at + 1) == Some(&b' ') {
            self.digits(1)?
        } else {
            self.digits(2)?
        };
        self.byte(b' ')?;
        Some((month, day, self.time_of_day()?))
    }

    /// `HH:mm`, then optionally `:ss` and a fraction after `.` or `,`.
    fn time_of_day(&mut self) -> Option<i128> {
        let hour = self.digits(2)?;
        self.byte(b':')?;
        let minute = self.digits(2)?;
        let mut second = 0;
        if self.peek() == Some(b':') {
            self.at += 1;
            second = self.digits(2)?;
        }
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        // A leap second counts as the second before it, so that times stay in their minute.
        Some(i128::from(hour * 3600 + minute * 60 + second.min(59)) * SECOND_NS + self.fraction())
    }

    fn fraction(&mut self) -> i128 {
        let is_mark = matches!(self.peek(), Some(b'.' | b','));
        if !is_mark || !self.bytes.get(self.at + 1).is_some_and(u8::is_ascii_digit) {
            return 0;
        }
        let digits = &self.bytes[self.at + 1..];
        let length = digits.iter().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
        self.at += 1 + length;
        fraction_ns(&digits[..length])
    }

    /// The zone's minutes east of UTC: `Z`, ` UTC`, `±hh`, `±hhmm`, `±hh:mm`, with or without a space
    /// before; nothing is UTC.
    fn zone(&mut self) -> i64 {
        let start = self.at;
        if let Some(offset) = self.zone_said() {
            return offset;
        }
        self.at = start;
        0
    }

    fn zone_said(&mut self) -> Option<i64> {
        if self.peek() == Some(b' ') {
            self.at += 1;
        }
        let rest = &self.bytes[self.at..];
        if rest.starts_with(b"UTC") || rest.starts_with(b"GMT") {
            self.at += 3;
            return Some(0);
        }
        let sign = match self.next()? {
            b'Z' | b'z' => return Some(0),
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let hours = self.digits(2)?;
        if self.peek() == Some(b':') {
            self.at += 1;
        }
        let minutes = if self.peek().is_some_and(|b| b.is_ascii_digit()) { self.digits(2)? } else { 0 };
        (hours <= 18 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
    }

    fn month(&mut self) -> Option<i64> {
        const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
        let name = self.bytes.get(self.at..self.at + 3)?;
        let index = MONTHS.chunks(3).position(|month| month == name)?;
        self.at += 3;
        Some(index as i64 + 1)
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let digits = self.bytes.get(self.at..self.at + count)?;
        self.at += count;
        let all = digits.iter().all(u8::is_ascii_digit);
        all.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    }

    fn byte(&mut self, expected: u8) -> Option<()> {
        self.next().filter(|byte| *byte == expected).map(|_| ())
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests;
