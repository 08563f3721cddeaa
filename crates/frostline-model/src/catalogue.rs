//! The documented performance and prices of a cloud's volumes and machines, at one date.
//!
//! A catalogue is a TOML file: three are built in (`ebs-2023`, `ebs-2025-09`, `ebs-2026-09`), and a user's own file adds
//! another cloud. Every number in it is a [`Constant`] with its source and evidence. A number
//! that is not known is absent, and results that need it say so; it is never taken as 0.
//!
//! An invalid file is refused with line and column and, for a mistyped name, a suggestion.

use std::collections::BTreeMap;
use std::path::Path;

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use frostline_show::{nearest, suggestion};

/// How many names an error lists.
const SHOWN_MAX: usize = 8;
const BUILT_IN: [(&str, &str); 3] = [
    ("ebs-2023", include_str!("../catalogue/ebs-2023.toml")),
    ("ebs-2025-09", include_str!("../catalogue/ebs-2025-09.toml")),
    ("ebs-2026-09", include_str!("../catalogue/ebs-2026-09.toml")),
];

/// One cloud at one date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Its name, such as `ebs-2023`.
    pub name: String,
    /// When it was true, `YYYY-MM` or `YYYY-MM-DD`.
    pub date: String,
    /// Whose volumes these are.
    pub cloud: String,
    /// What a reader must know about the file as a whole.
    #[serde(default)]
    pub note: String,
    /// Text by the key that constants name.
    pub sources: BTreeMap<String, String>,
    /// Volume classes by name.
    pub classes: BTreeMap<String, Class>,
    /// Prices by region, then by class.
    #[serde(default)]
    pub regions: BTreeMap<String, BTreeMap<String, Price>>,
    /// Prices of snapshots by region: `gib` for each GiB that they hold.
    #[serde(default)]
    pub snapshots: BTreeMap<String, Price>,
    /// Limits of machines by name of the type; those of `machines` are added when a file is read.
    #[serde(default)]
    pub instances: BTreeMap<String, InstanceType>,
    /// Limits of many machines with one source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<Machines>,
    /// Disks of the machines themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<Local>,
}

/// Limits of many machines, as one table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machines {
    /// Key of [`Catalogue::sources`].
    pub source: String,
    /// How well the limits are known.
    pub evidence: Evidence,
    /// How long a maximum that is higher than the base holds in 24 hours.
    pub burst_minutes_per_day: Option<Constant>,
    /// By type: base and maximum MB/s, base and maximum IOPS.
    pub limits: BTreeMap<String, Spanned<[f64; 4]>>,
}

/// Disks that machines have themselves: what is on them is lost when the machine stops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Local {
    /// Key of [`Catalogue::sources`].
    pub source: String,
    /// How well the disks are known.
    pub evidence: Evidence,
    /// Key of [`Catalogue::sources`] for the prices.
    pub price_source: String,
    /// How well the prices are known.
    pub price_evidence: Evidence,
    /// By type: count, GB (10^9 bytes) of each, and read and write IOPS of 4 KiB of all together.
    pub disks: BTreeMap<String, Spanned<[f64; 4]>>,
    /// Dollars an hour of the machine, by region and type.
    #[serde(default)]
    pub usd_per_hour: BTreeMap<String, BTreeMap<String, Spanned<f64>>>,
}

/// How well a constant is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// The vendor's documentation says so.
    Documented,
    /// Follows from documented or published figures.
    Computed,
    /// From a page that is not the vendor's.
    Secondary,
    /// Remembered or assumed.
    Unverified,
}

/// A number with where it is from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "ConstantInFile")]
pub struct Constant {
    /// The number, in the unit that the field's name says.
    pub value: f64,
    /// Key of [`Catalogue::sources`].
    pub source: String,
    /// How well it is known.
    pub evidence: Evidence,
    /// Where it stands in its file, in bytes.
    #[serde(skip)]
    at: usize,
}

impl Constant {
    /// Where it stands in its file, in bytes.
    pub fn at(&self) -> usize {
        self.at
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstantInFile {
    value: Spanned<f64>,
    source: String,
    evidence: Evidence,
}

impl From<ConstantInFile> for Constant {
    fn from(read: ConstantInFile) -> Self {
        let at = read.value.span().start;
        Constant { value: read.value.into_inner(), source: read.source, evidence: read.evidence, at }
    }
}

/// How the speed of a class is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Base and burst MiB/s grow with the size; a bucket of MiB (st1, sc1).
    ThroughputCredits,
    /// Base IOPS grow with the size; a bucket of I/O operations (gp2).
    IopsCredits,
    /// What was bought, always (gp3, io2).
    Provisioned,
}

macro_rules! constants {
    ($(#[$of:meta])* $name:ident { $($(#[$meta:meta])* $field:ident,)* }) => {
        $(#[$of])*
        #[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$meta])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $field: Option<Constant>,)*
        }
        impl $name {
            /// The constants that are there, by name.
            pub fn constants(&self) -> impl Iterator<Item = (&'static str, &Constant)> {
                [$((stringify!($field), self.$field.as_ref()),)*].into_iter().filter_map(|(name, constant)| Some((name, constant?)))
            }
        }
    };
}

constants! {
    /// Dollars a month for one class in one region.
    Price {
        /// Per GiB.
        gib,
        /// Per provisioned IOPS above what is included.
        iops,
        /// Per provisioned IOPS above the class's `iops_tier_2_above`.
        iops_tier_2,
        /// Per provisioned IOPS above the class's `iops_tier_3_above`.
        iops_tier_3,
        /// Per provisioned MiB/s above what is included.
        mib_per_s,
    }
}

constants! {
    /// What a machine lets through to all of its volumes together.
    InstanceType {
        /// MB/s (10^6 bytes) that it sustains.
        base_mb_per_s,
        /// MB/s that it holds for `burst_minutes_per_day`, sustained without one.
        max_mb_per_s,
        /// I/O operations a second that it sustains.
        base_iops,
        /// I/O operations a second while it bursts.
        max_iops,
        /// How long the maximum holds in 24 hours; absent where it is sustained.
        burst_minutes_per_day,
    }
}

/// One class of volumes: which constants it needs depends on its `model`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name in words.
    pub title: String,
    /// How its speed is decided.
    pub model: Kind,
    /// Least size, GiB.
    pub gib_min: Constant,
    /// Greatest size, GiB.
    pub gib_max: Constant,
    /// Largest I/O that counts as one, KiB: larger ones are split, sequential smaller ones merged.
    pub unit_kib: Constant,
    /// Most I/O operations (of `unit_kib`) a second.
    pub iops_max: Constant,
    /// Most MiB/s; for classes with throughput credits the burst decides.
    pub mib_per_s_max: Option<Constant>,
    /// Volumes up to `small_gib` have `small_mib_per_s_max` instead (gp2).
    pub small_gib: Option<Constant>,
    /// See `small_gib`.
    pub small_mib_per_s_max: Option<Constant>,
    /// Base MiB/s for each TiB: the rate at which credits come.
    pub base_mib_per_s_per_tib: Option<Constant>,
    /// Most base MiB/s.
    pub base_mib_per_s_max: Option<Constant>,
    /// Burst MiB/s for each TiB.
    pub burst_mib_per_s_per_tib: Option<Constant>,
    /// Most burst MiB/s.
    pub burst_mib_per_s_max: Option<Constant>,
    /// Credits that the bucket holds for each TiB, MiB.
    pub bucket_mib_per_tib: Option<Constant>,
    /// Base IOPS for each GiB: the rate at which credits come.
    pub base_iops_per_gib: Option<Constant>,
    /// Least base IOPS.
    pub base_iops_min: Option<Constant>,
    /// IOPS while credits last.
    pub burst_iops: Option<Constant>,
    /// Credits that the bucket holds, I/O operations.
    pub bucket_ios: Option<Constant>,
    /// Part of the bucket that a new volume starts with.
    pub initial_credit_part: Option<Constant>,
    /// Least IOPS that can be bought.
    pub iops_min: Option<Constant>,
    /// IOPS in the price of the space.
    pub included_iops: Option<Constant>,
    /// MiB/s in the price of the space.
    pub included_mib_per_s: Option<Constant>,
    /// IOPS above which another price holds.
    pub iops_tier_2_above: Option<Constant>,
    /// IOPS above which a third price holds.
    pub iops_tier_3_above: Option<Constant>,
    /// Most IOPS for each GiB.
    pub iops_per_gib_max: Option<Constant>,
    /// Most MiB/s for each provisioned IOPS.
    pub mib_per_s_per_iops_max: Option<Constant>,
    /// Latency that the vendor names as usual below the limits, ms; it names no percentile.
    pub latency_ms_max: Option<Constant>,
    /// Part of the expected rate that is promised.
    pub promise_rate_part: Option<Constant>,
    /// Part of the time for which it is promised.
    pub promise_time_part: Option<Constant>,
    /// Annual failure rate, low end of the vendor's range, as a part of 1.
    pub afr_low: Option<Constant>,
    /// Annual failure rate, high end.
    pub afr_high: Option<Constant>,
}

impl Class {
    /// The constants that are there, by name.
    pub fn constants(&self) -> impl Iterator<Item = (&'static str, &Constant)> {
        [
            ("gib_min", Some(&self.gib_min)),
            ("gib_max", Some(&self.gib_max)),
            ("unit_kib", Some(&self.unit_kib)),
            ("iops_max", Some(&self.iops_max)),
            ("mib_per_s_max", self.mib_per_s_max.as_ref()),
            ("small_gib", self.small_gib.as_ref()),
            ("small_mib_per_s_max", self.small_mib_per_s_max.as_ref()),
            ("base_mib_per_s_per_tib", self.base_mib_per_s_per_tib.as_ref()),
            ("base_mib_per_s_max", self.base_mib_per_s_max.as_ref()),
            ("burst_mib_per_s_per_tib", self.burst_mib_per_s_per_tib.as_ref()),
            ("burst_mib_per_s_max", self.burst_mib_per_s_max.as_ref()),
            ("bucket_mib_per_tib", self.bucket_mib_per_tib.as_ref()),
            ("base_iops_per_gib", self.base_iops_per_gib.as_ref()),
            ("base_iops_min", self.base_iops_min.as_ref()),
            ("burst_iops", self.burst_iops.as_ref()),
            ("bucket_ios", self.bucket_ios.as_ref()),
            ("initial_credit_part", self.initial_credit_part.as_ref()),
            ("iops_min", self.iops_min.as_ref()),
            ("included_iops", self.included_iops.as_ref()),
            ("included_mib_per_s", self.included_mib_per_s.as_ref()),
            ("iops_tier_2_above", self.iops_tier_2_above.as_ref()),
            ("iops_tier_3_above", self.iops_tier_3_above.as_ref()),
            ("iops_per_gib_max", self.iops_per_gib_max.as_ref()),
            ("mib_per_s_per_iops_max", self.mib_per_s_per_iops_max.as_ref()),
            ("latency_ms_max", self.latency_ms_max.as_ref()),
            ("promise_rate_part", self.promise_rate_part.as_ref()),
            ("promise_time_part", self.promise_time_part.as_ref()),
            ("afr_low", self.afr_low.as_ref()),
            ("afr_high", self.afr_high.as_ref()),
        ]
        .into_iter()
        .filter_map(|(name, constant)| Some((name, constant?)))
    }

    /// The constant of that name.
    ///
    /// # Errors
    ///
    /// `Invalid` if this class does not have it.
    pub(crate) fn need(&self, name: &str) -> Result<f64> {
        let found = self.constants().find(|(known, _)| *known == name);
        found.map(|(_, constant)| constant.value).ok_or_else(|| {
            Error::invalid(format!(
                "the catalogue gives no `{name}` for {}, which its model needs",
                self.title
            ))
        })
    }

    /// The names that this model cannot do without.
    fn required(&self) -> &'static [&'static str] {
        match self.model {
            Kind::ThroughputCredits => &[
                "base_mib_per_s_per_tib",
                "base_mib_per_s_max",
                "burst_mib_per_s_per_tib",
                "burst_mib_per_s_max",
                "bucket_mib_per_tib",
            ],
            Kind::IopsCredits => {
                &["mib_per_s_max", "base_iops_per_gib", "base_iops_min", "burst_iops", "bucket_ios"]
            }
            Kind::Provisioned => &["mib_per_s_max"],
        }
    }
}

impl Catalogue {
    /// Names of the catalogues that are built in, oldest first.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// A catalogue that is built in.
    ///
    /// # Errors
    ///
    /// `NotFound`, with the nearest name, if there is none of that name.
    pub fn built_in(name: &str) -> Result<Catalogue> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(text, name),
            None => Err(Error::not_found(format!(
                "no catalogue is named `{name}`{}",
                suggestion(name, Self::built_in_names())
            ))),
        }
    }

    /// The newest catalogue that is built in.
    pub fn latest() -> Catalogue {
        let (name, text) = BUILT_IN[BUILT_IN.len() - 1];
        Self::parse(text, name).expect("a test reads every catalogue that is built in")
    }

    /// A catalogue by the name of one that is built in, or else by the path of a file.
    ///
    /// # Errors
    ///
    /// As [`built_in`](Self::built_in) where the argument looks like a name, and [`load`](Self::load) for a path.
    pub fn named(name_or_path: &str) -> Result<Catalogue> {
        let looks_like_path = name_or_path.contains(['/', '\\']) || name_or_path.ends_with(".toml");
        if looks_like_path { Self::load(Path::new(name_or_path)) } else { Self::built_in(name_or_path) }
    }

    /// A user's own file.
    ///
    /// # Errors
    ///
    /// `NotFound` if it cannot be read, otherwise as [`parse`](Self::parse).
    pub fn load(path: &Path) -> Result<Catalogue> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::not_found(format!("the catalogue {} cannot be read", path.display())).with_source(error)
        })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// A catalogue from its text; `origin` names it in errors.
    ///
    /// # Errors
    ///
    /// `Invalid` with line, column and the nearest known name for anything that cannot be used.
    pub fn parse(text: &str, origin: &str) -> Result<Catalogue> {
        let mut catalogue: Catalogue = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            Error::invalid(format!("{}: {}", place(text, origin, at), with_nearest_field(error.message())))
        })?;
        catalogue.check().map_err(|(at, what)| match at {
            Some(at) => Error::invalid(format!("{}: {what}", place(text, origin, at))),
            None => Error::invalid(format!("{origin}: {what}")),
        })?;
        catalogue.take_machines();
        Ok(catalogue)
    }

    /// Makes the rows of `machines` types like the others.
    fn take_machines(&mut self) {
        let Some(machines) = &self.machines else { return };
        for (name, row) in &machines.limits {
            let constant = |value: f64| {
                let (source, evidence) = (machines.source.clone(), machines.evidence);
                Some(Constant { value, source, evidence, at: row.span().start })
            };
            let [base_mb, max_mb, base_iops, max_iops] = *row.get_ref();
            let bursts = max_mb > base_mb || max_iops > base_iops;
            let kind = InstanceType {
                base_mb_per_s: constant(base_mb),
                max_mb_per_s: constant(max_mb),
                base_iops: constant(base_iops),
                max_iops: constant(max_iops),
                burst_minutes_per_day: machines.burst_minutes_per_day.clone().filter(|_| bursts),
            };
            self.instances.entry(name.clone()).or_insert(kind);
        }
    }

    /// The class of that name.
    ///
    /// # Errors
    ///
    /// `NotFound` with the nearest name.
    pub fn class(&self, name: &str) -> Result<&Class> {
        self.classes.get(name).ok_or_else(|| self.unknown("volume class", name, self.classes.keys()))
    }

    /// The type of machine of that name.
    ///
    /// # Errors
    ///
    /// `NotFound` with the nearest name.
    pub fn instance(&self, name: &str) -> Result<&InstanceType> {
        self.instances.get(name).ok_or_else(|| self.unknown("instance type", name, self.instances.keys()))
    }

    /// The prices of that region, by class.
    ///
    /// # Errors
    ///
    /// `NotFound` with the nearest name.
    pub fn region(&self, name: &str) -> Result<&BTreeMap<String, Price>> {
        self.regions.get(name).ok_or_else(|| self.unknown("region", name, self.regions.keys()))
    }

    fn unknown<'a>(&self, what: &str, name: &str, known: impl Iterator<Item = &'a String>) -> Error {
        let mut known: Vec<&str> = known.map(String::as_str).collect();
        let all = known.len();
        let near = match nearest(name, known.iter().copied()) {
            // Those that begin alike, where nobody would read all of them.
            None if all > SHOWN_MAX => {
                let alike =
                    |known: &&str| known.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
                known.sort_by_key(|known| std::cmp::Reverse(alike(known)));
                known.truncate(SHOWN_MAX);
                format!("; the nearest of {all}: {}", known.join(", "))
            }
            _ => suggestion(name, known),
        };
        Error::not_found(format!("the catalogue {} has no {what} `{name}`{near}", self.name))
    }

    /// The first thing that is wrong, with its place in the file if it has one.
    fn check(&self) -> Result<(), (Option<usize>, String)> {
        for (name, class) in &self.classes {
            self.check_class(name, class)?;
        }
        for (region, prices) in &self.regions {
            for (class, price) in prices {
                if !self.classes.contains_key(class) {
                    let at = price.constants().next().map(|(_, constant)| constant.at);
                    let near = suggestion(class, self.classes.keys().map(String::as_str));
                    return Err((
                        at,
                        format!("region {region} prices `{class}`, which is not a class here{near}"),
                    ));
                }
                price.constants().try_for_each(|(field, constant)| self.check_constant(field, constant))?;
            }
        }
        for price in self.snapshots.values() {
            price.constants().try_for_each(|(field, constant)| self.check_constant(field, constant))?;
        }
        self.check_tables()?;
        for (name, instance) in &self.instances {
            instance.constants().try_for_each(|(field, constant)| self.check_constant(field, constant))?;
            check_instance(name, instance)?;
        }
        Ok(())
    }

    /// The rows of `machines` and `local`.
    fn check_tables(&self) -> Result<(), (Option<usize>, String)> {
        let source = |field: &str, source: &String| match self.sources.contains_key(source) {
            true => Ok(()),
            false => {
                let near = suggestion(source, self.sources.keys().map(String::as_str));
                Err((
                    None,
                    format!("`{field}` names the source `{source}`, which [sources] does not have{near}"),
                ))
            }
        };
        let row = |name: &str, row: &Spanned<[f64; 4]>, rule: fn(&[f64; 4]) -> bool, what: &str| {
            let is_number = row.get_ref().iter().all(|value| (f64::MIN_POSITIVE..=1e15).contains(value));
            match is_number && rule(row.get_ref()) {
                true => Ok(()),
                false => Err((Some(row.span().start), format!("{name}: {what}"))),
            }
        };
        if let Some(machines) = &self.machines {
            source("machines.source", &machines.source)?;
            if let Some(minutes) = &machines.burst_minutes_per_day {
                self.check_constant("burst_minutes_per_day", minutes)?;
            }
            for (name, limits) in &machines.limits {
                let rule =
                    |[base, most, base_iops, most_iops]: &[f64; 4]| base <= most && base_iops <= most_iops;
                row(
                    name,
                    limits,
                    rule,
                    "this is [base MB/s, maximum MB/s, base IOPS, maximum IOPS], all above 0",
                )?;
            }
        }
        if let Some(local) = &self.local {
            source("local.source", &local.source)?;
            source("local.price_source", &local.price_source)?;
            for (name, disks) in &local.disks {
                let rule = |disks: &[f64; 4]| disks[0].fract() == 0.0;
                row(name, disks, rule, "this is [disks, GB of each, read IOPS, write IOPS], all above 0")?;
            }
            for (name, usd) in local.usd_per_hour.values().flatten() {
                if !local.disks.contains_key(name) {
                    let near = suggestion(name, local.disks.keys().map(String::as_str));
                    let what = format!("[local.disks] has no `{name}`{near}");
                    return Err((Some(usd.span().start), what));
                }
                if !(f64::MIN_POSITIVE..=1e15).contains(usd.get_ref()) {
                    return Err((Some(usd.span().start), format!("{name}: a price is a number above 0")));
                }
            }
        }
        Ok(())
    }

    fn check_class(&self, name: &str, class: &Class) -> Result<(), (Option<usize>, String)> {
        class.constants().try_for_each(|(field, constant)| self.check_constant(field, constant))?;
        for needed in class.required() {
            let found = class.constants().find(|(field, _)| field == needed);
            match found {
                Some((_, constant)) if constant.value > 0.0 => {}
                Some((_, constant)) => {
                    return Err((Some(constant.at), format!("`{needed}` of {name} must be above 0")));
                }
                None => {
                    return Err((
                        Some(class.gib_min.at),
                        format!("{name} needs `{needed}`, which its model uses"),
                    ));
                }
            }
        }
        for (low, high) in [(&class.gib_min, &class.gib_max)]
            .into_iter()
            .chain(class.afr_low.as_ref().zip(class.afr_high.as_ref()))
        {
            if low.value > high.value {
                return Err((
                    Some(low.at),
                    format!("{name}: {} is more than its upper end {}", low.value, high.value),
                ));
            }
        }
        let whole = [&class.gib_min, &class.unit_kib, &class.iops_max]
            .into_iter()
            .find(|constant| constant.value <= 0.0);
        whole.map_or(Ok(()), |constant| Err((Some(constant.at), format!("{name}: this must be above 0"))))
    }

    fn check_constant(&self, field: &str, constant: &Constant) -> Result<(), (Option<usize>, String)> {
        // No volume, rate or price is close to the upper end; beyond it sums would be meaningless.
        if !(0.0..=1e15).contains(&constant.value) {
            return Err((Some(constant.at), format!("`{field}` must be a number from 0 up to 10^15")));
        }
        let is_part = field.ends_with("_part") || field.starts_with("afr_");
        if is_part && constant.value > 1.0 {
            return Err((Some(constant.at), format!("`{field}` is a part of 1, not {}", constant.value)));
        }
        if !self.sources.contains_key(&constant.source) {
            let near = suggestion(&constant.source, self.sources.keys().map(String::as_str));
            return Err((
                Some(constant.at),
                format!(
                    "`{field}` names the source `{}`, which [sources] does not have{near}",
                    constant.source
                ),
            ));
        }
        Ok(())
    }
}

fn check_instance(name: &str, instance: &InstanceType) -> Result<(), (Option<usize>, String)> {
    let pairs = [
        ("base_mb_per_s", &instance.base_mb_per_s, "max_mb_per_s", &instance.max_mb_per_s),
        ("base_iops", &instance.base_iops, "max_iops", &instance.max_iops),
    ];
    for (base_name, base, max_name, max) in pairs {
        match (base, max) {
            (Some(base), Some(max)) if base.value > 0.0 && base.value <= max.value => {}
            (Some(base), Some(_)) => {
                return Err((
                    Some(base.at),
                    format!("{name}: `{base_name}` must be above 0 and not above `{max_name}`"),
                ));
            }
            _ => return Err((None, format!("{name} needs `{base_name}` and `{max_name}`"))),
        }
    }
    Ok(())
}

/// `origin: line L, column C`, counted from 1.
pub(crate) fn place(text: &str, origin: &str, at: usize) -> String {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    format!("{origin}: line {line}, column {column}")
}

/// An unknown field's message ends with all fields; the nearest one says more.
pub(crate) fn with_nearest_field(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((word, known)) if message.starts_with("unknown ") && !known.is_empty() => {
            let (what, _) = message.split_once(',').unwrap_or((message, ""));
            format!("{what}{}", suggestion(word, known.iter().copied()))
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
