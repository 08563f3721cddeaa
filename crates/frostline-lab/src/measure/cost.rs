//! What a volume of a given type costs, and what its class promises beside what was measured.

use std::path::Path;

use frostline_base::{Error, Result};
use frostline_model::VolumeSpec;
use frostline_model::catalogue::{Catalogue, Evidence};
use serde::{Deserialize, Serialize};

use super::load::Load;
use crate::decide::candidate::usd_per_month;

/// Price and promise of one volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The volume, such as gp3:500GiB.
    pub volume: String,
    /// Region of the price.
    pub region: String,
    /// Name of the catalogue.
    pub catalogue: String,
    /// Dollars a month.
    pub usd_per_month: f64,
    /// How well the price is known.
    pub evidence: Evidence,
    /// What the class promises of such requests for ever, IOPS.
    pub promised_iops: f64,
    /// The same while credits last; absent where nothing bursts.
    pub promised_burst_iops: Option<f64>,
    /// Requests that a full bucket pays for beyond those that are promised for ever.
    pub promised_bucket_requests: Option<f64>,
}

/// The cost of `text`, which is a volume such as `st1:2TiB`, or a class alone: then its size is that of the file system
/// at `path`.
///
/// # Errors
/// Invalid for a volume that there is not; NotFound for a region or a price that the catalogue lacks: none is made up.
pub fn cost(catalogue: &Catalogue, region: &str, text: &str, path: &Path, load: Load) -> Result<Cost> {
    let spec = match text.contains(':') {
        true => VolumeSpec::parse(catalogue, text)?,
        false => VolumeSpec::parse(catalogue, &format!("{text}:{}GiB", gib(path)?))?,
    };
    let limits = spec.limits(catalogue)?;
    let class = catalogue.class(&spec.class)?;
    let (usd, evidence) =
        usd_per_month(class, catalogue.region(region)?, region, &spec).map_err(Error::not_found)?;
    // Requests that follow each other are merged into the class's unit.
    let iops = |drained| match load.is_random() {
        true => limits.random_iops(load.block_bytes(), drained),
        false => limits.sequential_mib_per_s(drained) * frostline_model::MIB / load.block_bytes() as f64,
    };
    let (promised_iops, burst) = (iops(true), iops(false));
    let bursts = limits.bursts() && burst > promised_iops;
    // Credits beyond the base, at the requests that one pays for.
    let requests_of_a_credit = promised_iops / limits.base;
    Ok(Cost {
        volume: spec.to_string(),
        region: region.to_owned(),
        catalogue: catalogue.name.clone(),
        usd_per_month: usd,
        evidence,
        promised_iops,
        promised_burst_iops: bursts.then_some(burst),
        promised_bucket_requests: bursts.then_some(limits.bucket * requests_of_a_credit),
    })
}

/// The size of the file system, as one would order the volume.
fn gib(path: &Path) -> Result<f64> {
    let stat = rustix::fs::statvfs(path)
        .map_err(|e| crate::host::io(e.into(), "cannot ask for the size of", path))?;
    Ok((stat.f_blocks.saturating_mul(stat.f_frsize) as f64 / (1_u64 << 30) as f64).ceil())
}

#[cfg(test)]
mod tests;
