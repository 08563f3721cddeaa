//! How long the ways to restore a volume take, and what they cost.
//!
//! Times count from the moment when the volumes are asked for. A volume is *ready* when it can be attached, and at *full
//! speed* when no read waits for a block to be fetched. Constants and prices are in `restores.toml`; what is not
//! published is `None`, not guessed.

mod page;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use frostline_base::{Cost, Error, Result};
use frostline_show::{show_bytes, show_count, suggestion};
use frostline_store::Prices;

pub use page::{dollars, duration, page};

const HOUR_S: f64 = 3_600.0;
const MIB_PER_GIB: f64 = 1_024.0;
const AT_ONCE: Option<f64> = Some(0.0);

/// What is to be restored.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RestoreQuestion {
    /// The size of the volume that the snapshot is of, not that of its data.
    pub size_gib: f64,
    /// Zones that volumes are needed in.
    pub zones: u32,
    /// Volumes, spread evenly over the zones.
    pub copies: u32,
    /// The region, for prices.
    pub region: String,
    /// MiB/s that a volume of one's own takes, for the restore by Frostline.
    pub write_mib_per_s: Option<f64>,
}

/// The ways to restore a volume.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RestorePlan {
    /// What was asked.
    pub question: RestoreQuestion,
    /// The list of constants and prices.
    pub catalogue: String,
    /// When it was last compared with its sources.
    pub checked: String,
    /// One for each way.
    pub options: Vec<RestoreWay>,
}

/// One way.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RestoreWay {
    /// Its name.
    pub name: String,
    /// When all volumes can be used; none where no volume of that size can be restored so.
    pub ready_s: Option<f64>,
    /// When all of them are at full speed; none where the vendor does not say, or where that is impossible.
    pub full_speed_s: Option<f64>,
    /// Dollars; none where the price is not known.
    pub usd: Option<f64>,
    /// Dollars a day if it is left switched on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_day: Option<f64>,
    /// When the volumes of one zone are at full speed, one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies_s: Vec<f64>,
    /// Volumes at full speed at the same moment, once the bucket is full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// What to know.
    pub note: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    name: String,
    checked: String,
    volume_gib_max: f64,
    lazy: Rate,
    fast: Fast,
    provisioned: Rates,
    copy: Rate,
    frostline: Ours,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    mib_per_s: f64,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rates {
    mib_per_s: Vec<f64>,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fast {
    gib_per_hour: f64,
    credits_max: f64,
    snapshot_gib_max: f64,
    hours_billed_min: f64,
    usd_per_hour: BTreeMap<String, f64>,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ours {
    request_mib: f64,
    mount_s: f64,
    mib_per_s: f64,
    prices: BTreeMap<String, String>,
    #[serde(rename = "source")]
    _source: String,
}

/// The ways to restore what is asked for.
pub fn plan(question: RestoreQuestion) -> Result<RestorePlan> {
    let catalogue: Catalogue = toml::from_str(include_str!("../restores.toml"))
        .map_err(|e| Error::internal("the built-in list of restores cannot be read").with_source(e))?;
    question.check(&catalogue)?;
    let mut options = vec![lazy(&catalogue, &question), fast(&catalogue, &question)];
    options.extend(catalogue.provisioned.mib_per_s.iter().map(|rate| provisioned(*rate, &question)));
    options.push(copy(&catalogue, &question));
    options.extend(ours(&catalogue, &question)?);
    let Catalogue { name, checked, .. } = catalogue;
    Ok(RestorePlan { question, catalogue: name, checked, options })
}

impl RestoreQuestion {
    fn check(&self, catalogue: &Catalogue) -> Result<()> {
        let sizes = 1.0..=catalogue.volume_gib_max;
        if !sizes.contains(&self.size_gib) {
            return Err(Error::invalid(format!(
                "a volume must have 1 to {} GiB, not {}: write a size with its unit, such as 500GiB",
                sizes.end(),
                show_bytes((self.size_gib * (1_u64 << 30) as f64) as u64)
            )));
        }
        if self.zones == 0 || self.copies < self.zones || self.copies > 10_000 {
            return Err(Error::invalid(format!(
                "{} cannot be spread over {}: name at least one zone, at least one volume for each zone, and at most 10000 volumes",
                show_count(self.copies.into(), "volume"),
                show_count(self.zones.into(), "zone")
            )));
        }
        if self.write_mib_per_s.is_some_and(|rate| !(0.1..=1e6).contains(&rate)) {
            return Err(Error::invalid("a volume takes between 0.1 and 1000000 MiB/s"));
        }
        match catalogue.fast.usd_per_hour.contains_key(&self.region) {
            true => Ok(()),
            false => {
                let near = suggestion(&self.region, catalogue.fast.usd_per_hour.keys().map(String::as_str));
                Err(Error::invalid(format!("there are no prices of the region {}{near}", self.region)))
            }
        }
    }

    fn seconds_at(&self, mib_per_s: f64) -> f64 {
        self.size_gib * MIB_PER_GIB / mib_per_s
    }

    fn per_zone(&self) -> u32 {
        self.copies.div_ceil(self.zones)
    }
}

fn lazy(catalogue: &Catalogue, question: &RestoreQuestion) -> RestoreWay {
    let rate = catalogue.lazy.mib_per_s;
    RestoreWay {
        name: "lazy".to_owned(),
        ready_s: AT_ONCE,
        full_speed_s: Some(question.seconds_at(rate)),
        usd: Some(0.0),
        note: format!("each block is fetched on first touch; {rate} MiB/s if everything is read"),
        ..RestoreWay::default()
    }
}

fn fast(catalogue: &Catalogue, question: &RestoreQuestion) -> RestoreWay {
    let (fast, name) = (&catalogue.fast, "fast snapshot restore".to_owned());
    if question.size_gib > fast.snapshot_gib_max {
        let note = format!("impossible: only for volumes of at most {} GiB", fast.snapshot_gib_max);
        return RestoreWay { name, note, ..RestoreWay::default() };
    }
    let per_hour = (fast.gib_per_hour / question.size_gib).min(fast.credits_max);
    let bucket = per_hour.max(1.0);
    let optimised_s = question.size_gib / fast.gib_per_hour * HOUR_S;
    let ready = |copy: u32| (f64::from(copy) / per_hour * HOUR_S).max(optimised_s);
    let copies_s: Vec<f64> = (1..=question.per_zone()).map(ready).collect();
    let last_s = ready(question.per_zone());
    let usd_per_hour =
        fast.usd_per_hour.get(&question.region).copied().unwrap_or_default() * f64::from(question.zones);
    RestoreWay {
        name,
        ready_s: Some(last_s),
        full_speed_s: Some(last_s),
        usd: Some(usd_per_hour * (last_s / HOUR_S).max(fast.hours_billed_min)),
        usd_per_day: Some(usd_per_hour * 24.0),
        copies_s,
        at_once: Some(bucket as u32),
        note: format!(
            "{per_hour:.4} credits an hour in each zone, from 0 on; switch it off at once; sized by the volume, not by its data"
        ),
    }
}

fn provisioned(mib_per_s: f64, question: &RestoreQuestion) -> RestoreWay {
    RestoreWay {
        name: format!("initialisation at {mib_per_s} MiB/s"),
        ready_s: AT_ONCE,
        full_speed_s: Some(question.seconds_at(mib_per_s)),
        note: "usable at once, and slow until then".to_owned(),
        ..RestoreWay::default()
    }
}

fn copy(catalogue: &Catalogue, question: &RestoreQuestion) -> RestoreWay {
    let rate = catalogue.copy.mib_per_s;
    let zones = if question.zones > 1 { "; only for the zone of that volume" } else { "" };
    RestoreWay {
        name: "copy of a volume".to_owned(),
        ready_s: AT_ONCE,
        note: format!(
            "of a volume that is there, usable at once, at {rate} MiB/s or more until it is filled{zones}"
        ),
        ..RestoreWay::default()
    }
}

/// A mount, then a restore: both write all of the data, and a mount is used meanwhile.
fn ours(catalogue: &Catalogue, question: &RestoreQuestion) -> Result<[RestoreWay; 2]> {
    let rate = question.write_mib_per_s.unwrap_or(catalogue.frostline.mib_per_s);
    let seconds = question.seconds_at(rate);
    let requests = (question.size_gib * MIB_PER_GIB / catalogue.frostline.request_mib).ceil();
    let gets = (requests * f64::from(question.copies)) as u64;
    let at_once = match question.copies {
        1 => "if the volume takes".to_owned(),
        copies => format!("all {copies} at once, if each takes"),
    };
    let prices = catalogue.frostline.prices.get(&question.region);
    let prices = prices.map(|name| Prices::named(name)).transpose()?;
    let way = |name: &str, ready_s, when: &str| RestoreWay {
        name: name.to_owned(),
        ready_s: Some(ready_s),
        full_speed_s: Some(seconds),
        usd: prices.as_ref().map(|prices| prices.usd(&Cost { gets, ..Cost::default() })),
        note: format!("{when}{at_once} {rate} MiB/s and is full of data; requests to the bucket only"),
        ..RestoreWay::default()
    };
    let mount_s = catalogue.frostline.mount_s.min(seconds);
    Ok([
        way(
            "frostline volume mount",
            mount_s,
            "usable while it is filled, at full speed once it is unmounted; ",
        ),
        way("frostline volume restore", seconds, ""),
    ])
}

#[cfg(test)]
mod tests;
