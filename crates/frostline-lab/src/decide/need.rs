//! Parses a need from one line.

use std::fmt;
use std::str::FromStr;

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};

use frostline_show::suggestion;

/// A need such as `randread bs=128k p99<=20ms 300MiB/s`, in any order:
///
/// | word | meaning |
/// |---|---|
/// | `read` `write` `rw` `randread` `randwrite` `randrw` | pattern, as in fio; one of them |
/// | `bs=128k`, `bs=16k,256k` | size of a request (k, m; powers of 1,024), or of reads and of writes; 128k if absent |
/// | `mix=75` | reads in a hundred requests, for `rw` and `randrw`; 50 if absent |
/// | `300MiB/s`, `2400iops` | the rate of reads and writes together; at least one of them; of both, the higher one counts |
/// | `peak=500MiB/s,2h` | a higher rate for so many hours of every day, in one stretch |
/// | `p50<=5ms` `p99<=20ms` `p999<=50ms` | latency; at most one of them |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// Whether places are random.
    pub random: bool,
    /// Reads in a hundred requests.
    pub read_percent: f64,
    /// Size of a read.
    pub read_bytes: u64,
    /// Size of a write.
    pub write_bytes: u64,
    /// The rate of both together, outside the peak.
    pub mib_per_s: f64,
    /// Requests a second outside the peak, if `mib_per_s` in requests of these sizes would be fewer: their requests are
    /// smaller than those of the peak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<f64>,
    /// The rate at the busiest hours.
    pub peak: Option<Peak>,
    /// Most latency.
    pub latency: Option<LatencyNeed>,
}

/// A bound on a percentile of the latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyNeed {
    /// The part of the requests that must be no slower, such as 0.99.
    pub quantile: f64,
    /// The bound.
    pub ms: f64,
}

/// A higher rate for a part of every day.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The rate.
    pub mib_per_s: f64,
    /// Hours of it in a day, in one stretch.
    pub hours_per_day: f64,
}

const PATTERNS: [(&str, bool, Option<f64>); 6] = [
    ("read", false, Some(100.0)),
    ("write", false, Some(0.0)),
    ("rw", false, None),
    ("randread", true, Some(100.0)),
    ("randwrite", true, Some(0.0)),
    ("randrw", true, None),
];
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];
const KEYS: [&str; 3] = ["bs", "mix", "peak"];
/// Hours of a peak; the whole day is no peak.
const PEAK_HOURS_MAX: f64 = 23.99;
const MIB: f64 = 1_048_576.0;

/// What has been read so far.
#[derive(Default)]
struct Words {
    pattern: Option<(bool, Option<f64>)>,
    blocks: Option<(u64, u64)>,
    mix: Option<f64>,
    rate: Rates,
    peak: Option<(Rates, f64)>,
    latency: Option<LatencyNeed>,
}

/// A rate in one or both of its units.
#[derive(Clone, Copy, Default)]
struct Rates {
    mib_per_s: Option<f64>,
    iops: Option<f64>,
}

impl FromStr for Need {
    type Err = Error;

    /// Reads the words above.
    ///
    /// # Errors
    ///
    /// `Invalid` with the position (counted from 1) and the nearest known word.
    fn from_str(text: &str) -> Result<Need> {
        let mut words = Words::default();
        for (at, word) in positions(text) {
            words.take(word).map_err(|(within, what)| {
                let position = text[..at].chars().count() + word[..within].chars().count() + 1;
                Error::invalid(format!("the need `{text}`, position {position}: {what}"))
            })?;
        }
        words.finish().map_err(|what| Error::invalid(format!("the need `{text}`: {what}")))
    }
}

/// Words with the byte at which each begins.
fn positions(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace().map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

impl Words {
    fn take(&mut self, word: &str) -> Result<(), (usize, String)> {
        if let Some((name, bound)) = word.split_once("<=") {
            return self.take_latency(name, bound);
        }
        if let Some((key, value)) = word.split_once('=') {
            return self.take_setting(key, value);
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return self.take_rate(word);
        }
        let Some((_, random, reads)) = PATTERNS.iter().find(|(name, ..)| *name == word) else {
            let known =
                PATTERNS.iter().map(|(name, ..)| *name).chain(["bs=128k", "mix=75", "p99<=20ms", "300MiB/s"]);
            return Err((0, format!("no word `{word}`{}", suggestion(word, known))));
        };
        once(&mut self.pattern, (*random, *reads), "pattern")
    }

    fn take_latency(&mut self, name: &str, bound: &str) -> Result<(), (usize, String)> {
        let Some((_, quantile)) = QUANTILES.iter().find(|(known, _)| *known == name) else {
            return Err((
                0,
                format!("no percentile `{name}`{}", suggestion(name, QUANTILES.map(|(known, _)| known))),
            ));
        };
        let bound_at = name.len() + 2;
        let (number, unit_at, unit) = number_and_unit(bound).map_err(|what| (bound_at, what))?;
        let ms = match unit {
            "us" => number / 1000.0,
            "ms" => number,
            "s" => number * 1000.0,
            _ => {
                return Err((
                    bound_at + unit_at,
                    format!("no unit `{unit}`{}", suggestion(unit, ["ms", "us", "s"])),
                ));
            }
        };
        once(&mut self.latency, LatencyNeed { quantile: *quantile, ms }, "latency")
    }

    fn take_setting(&mut self, key: &str, value: &str) -> Result<(), (usize, String)> {
        let value_at = key.len() + 1;
        let in_value = |(at, what): (usize, String)| (value_at + at, what);
        match key {
            "bs" => {
                let (reads, writes) = value.split_once(',').unwrap_or((value, value));
                let in_writes = |(at, what): (usize, String)| (value_at + reads.len() + 1 + at, what);
                let reads_bytes = block_bytes(reads).map_err(in_value)?;
                once(&mut self.blocks, (reads_bytes, block_bytes(writes).map_err(in_writes)?), "bs")
            }
            "peak" => self.take_peak(value).map_err(in_value),
            "mix" => match value.trim_end_matches('%').parse::<f64>() {
                Ok(mix) if (0.0..=100.0).contains(&mix) => once(&mut self.mix, mix, "mix"),
                _ => Err((value_at, format!("`mix` is the reads in a hundred, 0 to 100, not `{value}`"))),
            },
            _ => Err((0, format!("no setting `{key}`{}", suggestion(key, KEYS)))),
        }
    }

    /// `500MiB/s,2h`.
    fn take_peak(&mut self, value: &str) -> Result<(), (usize, String)> {
        let Some((rate, hours)) = value.split_once(',') else {
            return Err((
                value.len(),
                "a peak is a rate and its hours a day, such as 500MiB/s,2h".to_owned(),
            ));
        };
        let mut rates = Rates::default();
        rates.take(rate)?;
        let hours_at = rate.len() + 1;
        let (number, unit_at, unit) = number_and_unit(hours).map_err(|what| (hours_at, what))?;
        let hours = match unit {
            "h" => number,
            "m" | "min" => number / 60.0,
            _ => {
                return Err((
                    hours_at + unit_at,
                    format!("no unit `{unit}`{}", suggestion(unit, ["h", "min"])),
                ));
            }
        };
        if hours > PEAK_HOURS_MAX {
            return Err((hours_at, "a peak is shorter than the day".to_owned()));
        }
        once(&mut self.peak, (rates, hours), "peak")
    }

    fn take_rate(&mut self, word: &str) -> Result<(), (usize, String)> {
        self.rate.take(word)
    }

    fn finish(self) -> Result<Need, String> {
        let known = PATTERNS.map(|(name, ..)| name).join(", ");
        let (random, reads) = self.pattern.ok_or_else(|| format!("it needs a pattern: {known}"))?;
        if reads.is_some() && self.mix.is_some() {
            return Err("`mix` goes with rw and randrw".to_owned());
        }
        let (read_bytes, write_bytes) = self.blocks.unwrap_or((128 * 1024, 128 * 1024));
        let read_percent = reads.or(self.mix).unwrap_or(50.0);
        let mut need = Need {
            random,
            read_percent,
            read_bytes,
            write_bytes,
            mib_per_s: 0.0,
            requests_per_s: None,
            peak: None,
            latency: self.latency,
        };
        let rate = |rates: Rates| {
            let by_iops = rates.iops.map(|iops| iops * need.bytes() / MIB);
            rates.mib_per_s.unwrap_or(0.0).max(by_iops.unwrap_or(0.0))
        };
        let most = rate(self.rate);
        if most <= 0.0 {
            return Err("it needs a rate, such as 300MiB/s or 2400iops".to_owned());
        }
        let peak = self.peak.map(|(rates, hours_per_day)| Peak { mib_per_s: rate(rates), hours_per_day });
        if let Some(peak) = peak.filter(|peak| peak.mib_per_s <= most) {
            let peak = peak.mib_per_s;
            return Err(format!("a peak of {peak} MiB/s is not above the rate of {most} MiB/s"));
        }
        // Only requests outside a peak can have sizes of their own.
        need = match self.rate {
            Rates { mib_per_s: Some(mib_per_s), iops } if peak.is_some() && mib_per_s < most => {
                Need { mib_per_s, requests_per_s: iops, peak, ..need }
            }
            _ => Need { mib_per_s: most, peak, ..need },
        };
        Ok(need)
    }
}

impl Rates {
    fn take(&mut self, word: &str) -> Result<(), (usize, String)> {
        let (number, unit_at, unit) = number_and_unit(word).map_err(|what| (0, what))?;
        match unit.to_ascii_lowercase().as_str() {
            "mib/s" => once(&mut self.mib_per_s, number, "MiB/s"),
            "gib/s" => once(&mut self.mib_per_s, number * 1024.0, "MiB/s"),
            "mb/s" => once(&mut self.mib_per_s, number * 1e6 / MIB, "MiB/s"),
            "iops" => once(&mut self.iops, number, "iops"),
            "" => Err((unit_at, format!("a unit is missing: write {word}iops or {word}MiB/s"))),
            _ => Err((
                unit_at,
                format!("no unit `{unit}`{}", suggestion(unit, ["MiB/s", "GiB/s", "MB/s", "iops"])),
            )),
        }
    }
}

fn once<T>(place: &mut Option<T>, value: T, what: &str) -> Result<(), (usize, String)> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err((0, format!("a second {what}; one is enough"))),
    }
}

/// A number above 0, where its unit begins, and the unit.
fn number_and_unit(text: &str) -> Result<(f64, usize, &str), String> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    match text[..at].parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok((number, at, &text[at..])),
        _ => Err(format!("`{text}` should begin with a number above 0")),
    }
}

/// `128k`, `1m`, `4096`, at most 64 MiB.
fn block_bytes(text: &str) -> Result<u64, (usize, String)> {
    let (number, at, unit) = number_and_unit(text).map_err(|what| (0, what))?;
    let each = match unit.to_ascii_lowercase().trim_end_matches("ib") {
        "" | "b" => 1.0,
        "k" => 1024.0,
        "m" => 1_048_576.0,
        _ => return Err((at, format!("no unit `{unit}`{}", suggestion(unit, ["k", "m"])))),
    };
    let bytes = number * each;
    match (1.0..=67_108_864.0).contains(&bytes) && bytes.fract() == 0.0 {
        true => Ok(bytes as u64),
        false => Err((0, format!("a request has 1 byte to 64 MiB, not `{text}`"))),
    }
}

impl Need {
    /// Bytes of a request on average.
    pub fn bytes(&self) -> f64 {
        self.average(self.read_bytes as f64, self.write_bytes as f64)
    }

    /// Units of `unit_bytes` that a request costs on average: at random places whole ones, while requests that follow
    /// each other are merged.
    pub fn units(&self, unit_bytes: u64) -> f64 {
        let units = |bytes: u64| match self.random {
            true => bytes.div_ceil(unit_bytes).max(1) as f64,
            false => bytes as f64 / unit_bytes as f64,
        };
        self.average(units(self.read_bytes), units(self.write_bytes))
    }

    /// The greatest rate, MiB/s.
    pub fn most_mib_per_s(&self) -> f64 {
        self.peak.map_or(self.mib_per_s, |peak| peak.mib_per_s)
    }

    /// The rate outside the peak that covers both its MiB/s and its requests, in requests of these sizes.
    pub fn base_mib_per_s(&self) -> f64 {
        self.mib_per_s.max(self.requests_per_s.unwrap_or(0.0) * self.bytes() / MIB)
    }

    /// That rate in requests a second.
    pub fn iops(&self) -> f64 {
        self.base_mib_per_s() * MIB / self.bytes()
    }

    fn average(&self, read: f64, write: f64) -> f64 {
        let reads = self.read_percent / 100.0;
        read * reads + write * (1.0 - reads)
    }
}

/// `128k`, or the bytes of a size that has no whole KiB.
fn show_block(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) { format!("{}k", bytes / 1024) } else { bytes.to_string() }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = PATTERNS.iter().find(|(_, random, reads)| {
            *random == self.random && reads.is_none_or(|reads| reads == self.read_percent)
        });
        write!(f, "{} bs={}", pattern.map_or("rw", |(name, ..)| name), show_block(self.read_bytes))?;
        if self.write_bytes != self.read_bytes {
            write!(f, ",{}", show_block(self.write_bytes))?;
        }
        if ![0.0, 100.0].contains(&self.read_percent) {
            write!(f, " mix={}", self.read_percent)?;
        }
        if let Some(latency) = self.latency {
            let name = QUANTILES.iter().find(|(_, quantile)| *quantile == latency.quantile);
            write!(f, " {}<={}ms", name.map_or("p99", |(name, _)| name), latency.ms)?;
        }
        write!(f, " {}MiB/s", self.mib_per_s)?;
        if let Some(requests) = self.requests_per_s {
            write!(f, " {requests}iops")?;
        }
        match self.peak {
            Some(Peak { mib_per_s, hours_per_day }) => write!(f, " peak={mib_per_s}MiB/s,{hours_per_day}h"),
            None => Ok(()),
        }
    }
}
