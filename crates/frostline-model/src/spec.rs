//! The specification of a volume, and its limits by the catalogue.

use std::fmt;
use std::str::FromStr;

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};

use frostline_show::suggestion;

use crate::catalogue::{Catalogue, Class, Kind};

/// A volume as one would order it: `st1:2TiB`, `gp3:8TiB,iops=16000,mbps=1000`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// Name of its class in the catalogue.
    pub class: String,
    /// Size.
    pub gib: f64,
    /// Provisioned IOPS, for classes that sell them.
    pub iops: Option<f64>,
    /// Provisioned MiB/s, for classes that sell them.
    pub mib_per_s: Option<f64>,
}

/// What the credits of a class count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Currency {
    /// MiB (st1, sc1).
    Mib,
    /// I/O units (gp2; also gp3 and io2, which have no bucket).
    Io,
}

/// The limits of one volume. All of them hold at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// What `base`, `burst` and `bucket` count.
    pub currency: Currency,
    /// Units of the currency a second that are always there.
    pub base: f64,
    /// The same while credits last; not above `base` where nothing bursts.
    pub burst: f64,
    /// Credits that the bucket can hold; 0 where nothing bursts.
    pub bucket: f64,
    /// Most I/O units a second.
    pub iops: f64,
    /// Most MiB/s.
    pub mib_per_s: f64,
    /// Largest I/O that counts as one, and the size that smaller sequential ones are merged into.
    pub unit_bytes: u64,
}

impl Limits {
    /// The same volume with all its rates and its bucket divided by `by`, so that a host too slow for the volume can
    /// emulate it: a burst lasts as long, and every ratio between volumes is kept.
    pub fn slowed(&self, by: f64) -> Limits {
        Limits {
            base: self.base / by,
            burst: self.burst / by,
            bucket: self.bucket / by,
            iops: self.iops / by,
            mib_per_s: self.mib_per_s / by,
            ..self.clone()
        }
    }
}

impl VolumeSpec {
    /// A volume of `class` with what is included.
    pub fn new(class: impl Into<String>, gib: f64) -> VolumeSpec {
        VolumeSpec { class: class.into(), gib, iops: None, mib_per_s: None }
    }

    /// Reads `CLASS:SIZE[,iops=N][,mbps=N]`; the class must be in the catalogue, the size is in GiB or TiB.
    ///
    /// # Errors
    ///
    /// `Invalid` with the position (counted from 1) and the nearest known word.
    pub fn parse(catalogue: &Catalogue, text: &str) -> Result<VolumeSpec> {
        let wrong =
            |at: usize, what: String| Error::invalid(format!("`{text}`, position {}: {what}", at + 1));
        let (class, rest) = text.split_once(':').unwrap_or((text, ""));
        if !catalogue.classes.contains_key(class) {
            let near = suggestion(class, catalogue.classes.keys().map(String::as_str));
            return Err(wrong(0, format!("no volume class `{class}` in {}{near}", catalogue.name)));
        }
        let mut at = class.len() + 1;
        let mut parts = rest.split(',');
        let size = parts.next().unwrap_or_default();
        let gib = parse_gib(size).map_err(|what| wrong(at.min(text.len()), what))?;
        let mut spec = VolumeSpec::new(class, gib);
        at += size.len() + 1;
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let field = match key {
                "iops" => &mut spec.iops,
                "mbps" => &mut spec.mib_per_s,
                _ => {
                    return Err(wrong(at, format!("no option `{key}`{}", suggestion(key, ["iops", "mbps"]))));
                }
            };
            let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
            let value_at = (at + key.len() + 1).min(text.len());
            *field =
                Some(number.ok_or_else(|| {
                    wrong(value_at, format!("`{key}` needs a number above 0, not `{value}`"))
                })?);
            at += part.len() + 1;
        }
        Ok(spec)
    }

    /// What the catalogue promises for this volume.
    ///
    /// # Errors
    ///
    /// `NotFound` for an unknown class; `Invalid` for a size, IOPS or MiB/s that the class does not have.
    pub fn limits(&self, catalogue: &Catalogue) -> Result<Limits> {
        let class = catalogue.class(&self.class)?;
        let (least, most) = (class.gib_min.value, class.gib_max.value);
        if !(least..=most).contains(&self.gib) {
            return Err(Error::invalid(format!(
                "{} volumes have {least} to {most} GiB, not {}",
                self.class, self.gib
            )));
        }
        if class.model != Kind::Provisioned && (self.iops.is_some() || self.mib_per_s.is_some()) {
            return Err(Error::invalid(format!(
                "{} volumes have the speed of their size; none can be bought",
                self.class
            )));
        }
        match class.model {
            Kind::ThroughputCredits => self.throughput_credits(class),
            Kind::IopsCredits => self.iops_credits(class),
            Kind::Provisioned => self.provisioned(class),
        }
    }

    /// base = min(base per TiB x S, cap), burst likewise, bucket = S x 2^20 MiB: hdd-vols.md.
    fn throughput_credits(&self, class: &Class) -> Result<Limits> {
        let tib = self.gib / 1024.0;
        let base = (class.need("base_mib_per_s_per_tib")? * tib).min(class.need("base_mib_per_s_max")?);
        let burst = (class.need("burst_mib_per_s_per_tib")? * tib).min(class.need("burst_mib_per_s_max")?);
        let bursts = burst > base;
        Ok(Limits {
            currency: Currency::Mib,
            base,
            burst,
            bucket: if bursts { class.need("bucket_mib_per_tib")? * tib } else { 0.0 },
            iops: class.iops_max.value,
            mib_per_s: class.mib_per_s_max.as_ref().map_or(burst.max(base), |constant| constant.value),
            unit_bytes: unit_bytes(class),
        })
    }

    /// base = clamp(3 x GiB, 100, 16,000) IOPS, burst 3,000, bucket 5.4 million: general-purpose.md.
    fn iops_credits(&self, class: &Class) -> Result<Limits> {
        let per_gib = class.need("base_iops_per_gib")? * self.gib;
        let base = per_gib.max(class.need("base_iops_min")?).min(class.iops_max.value);
        let burst = class.need("burst_iops")?;
        let is_small = class.small_gib.as_ref().is_some_and(|small| self.gib <= small.value);
        Ok(Limits {
            currency: Currency::Io,
            base,
            burst,
            bucket: if burst > base { class.need("bucket_ios")? } else { 0.0 },
            iops: class.iops_max.value,
            mib_per_s: class.need(if is_small { "small_mib_per_s_max" } else { "mib_per_s_max" })?,
            unit_bytes: unit_bytes(class),
        })
    }

    /// What was bought, within the ratios to the size and to each other: general-purpose.md, provisioned-iops.md.
    fn provisioned(&self, class: &Class) -> Result<Limits> {
        let value =
            |constant: &Option<crate::catalogue::Constant>| constant.as_ref().map(|constant| constant.value);
        let included = value(&class.included_iops).unwrap_or(0.0);
        let iops = match self.iops.or(value(&class.included_iops)) {
            Some(iops) => iops,
            None => return Err(Error::invalid(format!("{} needs `iops=`: none are included", self.class))),
        };
        let by_size = value(&class.iops_per_gib_max).map_or(f64::INFINITY, |ratio| ratio * self.gib);
        let most = class.iops_max.value.min(by_size.max(included));
        let least = value(&class.iops_min).unwrap_or(included);
        if !(least..=most).contains(&iops) {
            let what = format!("{} of {} GiB has {least} to {most} IOPS, not {iops}", self.class, self.gib);
            return Err(Error::invalid(what));
        }
        let by_iops = value(&class.mib_per_s_per_iops_max).map_or(f64::INFINITY, |ratio| ratio * iops);
        let included = value(&class.included_mib_per_s);
        let most = class.need("mib_per_s_max")?.min(by_iops.max(included.unwrap_or(0.0)));
        let mib_per_s = match (self.mib_per_s, included) {
            (Some(_), None) => {
                return Err(Error::invalid(format!(
                    "{} sells no MiB/s of its own: they follow its IOPS",
                    self.class
                )));
            }
            (None, None) => most,
            (wanted, Some(included)) => wanted.unwrap_or(included),
        };
        if !(included.unwrap_or(0.0)..=most).contains(&mib_per_s) {
            let least = included.unwrap_or(0.0);
            let what =
                format!("{} with {iops} IOPS has {least} to {most} MiB/s, not {mib_per_s}", self.class);
            return Err(Error::invalid(what));
        }
        let unit_bytes = unit_bytes(class);
        Ok(Limits {
            currency: Currency::Io,
            base: iops,
            burst: iops,
            bucket: 0.0,
            iops,
            mib_per_s,
            unit_bytes,
        })
    }
}

fn unit_bytes(class: &Class) -> u64 {
    (class.unit_kib.value * 1024.0).max(1.0) as u64
}

impl Limits {
    /// Whether it is faster while credits last.
    pub fn bursts(&self) -> bool {
        self.burst > self.base
    }

    /// Seconds for which a full bucket pays when `spent` units of the currency are served a second; absent where
    /// it never runs out.
    pub fn burst_seconds(&self, spent: f64) -> Option<f64> {
        (self.bursts() && spent > self.base).then(|| self.bucket / (spent.min(self.burst) - self.base))
    }

    /// I/O operations a second of `bytes` each at random places, while credits last or (`drained`) after.
    pub fn random_iops(&self, bytes: u64, drained: bool) -> f64 {
        let units = bytes.div_ceil(self.unit_bytes).max(1) as f64;
        self.iops_of(bytes.max(1) as f64, units, drained)
    }

    /// Requests a second of `bytes` and `units` each on average.
    pub fn iops_of(&self, bytes: f64, units: f64, drained: bool) -> f64 {
        let rate = if drained { self.base } else { self.burst.max(self.base) };
        let by_credits = rate / (units * self.unit_credits());
        let by_bytes = self.mib_per_s * super::MIB / bytes;
        by_credits.min(self.iops / units).min(by_bytes)
    }

    /// MiB/s of `bytes` each at random places.
    pub fn random_mib_per_s(&self, bytes: u64, drained: bool) -> f64 {
        self.random_iops(bytes, drained) * bytes as f64 / super::MIB
    }

    /// MiB/s of one sequential stream, whose requests are merged into whole units.
    pub fn sequential_mib_per_s(&self, drained: bool) -> f64 {
        self.random_mib_per_s(self.unit_bytes, drained)
    }
}

/// The least number of volumes that `total_gib` must be split into for the greatest sum of bursts, and that sum in
/// MiB/s of sequential work: more volumes add nothing. At most `most` volumes; sizes that the class does not have are
/// left out.
pub fn best_count(catalogue: &Catalogue, class: &str, total_gib: f64, most: u32) -> Option<(u32, f64)> {
    let burst_of = |count: u32| {
        let limits = VolumeSpec::new(class, total_gib / f64::from(count)).limits(catalogue).ok()?;
        Some((count, f64::from(count) * limits.sequential_mib_per_s(false)))
    };
    (1..=most).filter_map(burst_of).fold(None, |best: Option<(u32, f64)>, (count, burst)| match best {
        Some((_, so_far)) if burst <= so_far * (1.0 + 1e-9) => best,
        _ => Some((count, burst)),
    })
}

/// A size such as `2TiB`, `500GiB` or `512` (GiB), above 0, in GiB; the error is a sentence for the caller to place.
fn parse_gib(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 4] =
        [("MiB", 1.0 / 1024.0), ("GiB", 1.0), ("TiB", 1024.0), ("PiB", 1_048_576.0)];
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let gib_each = match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
        Some((_, gib)) => *gib,
        None if unit.is_empty() => 1.0,
        None => return Err(format!("no unit `{unit}`{}", suggestion(unit, UNITS.map(|(name, _)| name)))),
    };
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number * gib_each),
        _ => Err(format!("a size is a number above 0 and a unit, such as 2TiB, not `{text}`")),
    }
}

impl FromStr for VolumeSpec {
    type Err = Error;

    /// Reads a spec of a class in the newest catalogue that is built in; [`VolumeSpec::parse`] takes another.
    fn from_str(text: &str) -> Result<VolumeSpec> {
        Self::parse(&Catalogue::latest(), text)
    }
}

impl fmt::Display for VolumeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, gib, iops, mib_per_s } = self;
        match gib % 1024.0 == 0.0 {
            true => write!(f, "{class}:{}TiB", gib / 1024.0)?,
            false => write!(f, "{class}:{gib}GiB")?,
        }
        iops.map_or(Ok(()), |iops| write!(f, ",iops={iops}"))?;
        mib_per_s.map_or(Ok(()), |mib_per_s| write!(f, ",mbps={mib_per_s}"))
    }
}
