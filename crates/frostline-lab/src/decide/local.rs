//! Machines with disks of their own: fast, in the price of the machine, and empty after it stops.

use frostline_model::catalogue::{Catalogue, Evidence};
use serde::{Deserialize, Serialize};

use super::Question;

/// What the vendor counts operations in, bytes.
const OPERATION_BYTES: u64 = 4096;
const HOURS_PER_MONTH: f64 = 730.0;
const GB_PER_GIB: f64 = 1_073_741_824.0 / 1e9;
const MIB: f64 = 1_048_576.0;

/// A machine whose own disks meet the need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalChoice {
    /// Type of the machine.
    pub machine: String,
    /// Its disks.
    pub disks: u32,
    /// GiB of all of them.
    pub gib: f64,
    /// MiB/s of the needed pattern that its documented operations of 4 KiB amount to: at least so many.
    pub least_mib_per_s: f64,
    /// Dollars a month of all copies, the machines included; 0 where it is the machine that was named and there is one
    /// copy; absent where the catalogue knows no price.
    pub usd_per_month: Option<f64>,
    /// How well the price is known.
    pub price_evidence: Option<Evidence>,
}

/// The smallest machine of each family that meets the need, cheapest first; those without a price last.
pub(super) fn choices(catalogue: &Catalogue, question: &Question) -> Vec<LocalChoice> {
    let Some(local) = &catalogue.local else { return Vec::new() };
    let need = &question.need;
    let prices = local.usd_per_hour.get(&question.region);
    let mut choices: Vec<LocalChoice> = Vec::new();
    for (machine, row) in &local.disks {
        let [disks, gb, read_iops, write_iops] = *row.get_ref();
        let gib = disks * gb / GB_PER_GIB;
        let reads = need.read_percent / 100.0;
        let operations = |bytes: u64| bytes.div_ceil(OPERATION_BYTES) as f64;
        let seconds = reads * operations(need.read_bytes) / read_iops
            + (1.0 - reads) * operations(need.write_bytes) / write_iops;
        let least_mib_per_s = need.bytes() / seconds / MIB;
        if gib < question.data_gib || least_mib_per_s < need.most_mib_per_s() {
            continue;
        }
        let is_there = question.instance.as_ref() == Some(machine) && question.copies == 1;
        let usd = prices.and_then(|prices| prices.get(machine)).map(|usd| *usd.get_ref());
        let usd = usd.map(|usd| usd * HOURS_PER_MONTH * f64::from(question.copies));
        choices.push(LocalChoice {
            machine: machine.clone(),
            disks: disks as u32,
            gib,
            least_mib_per_s,
            usd_per_month: if is_there { Some(0.0) } else { usd },
            price_evidence: usd.filter(|_| !is_there).map(|_| local.price_evidence),
        });
    }
    let usd = |choice: &LocalChoice| choice.usd_per_month.unwrap_or(f64::INFINITY);
    choices.sort_by(|a, b| usd(a).total_cmp(&usd(b)).then(a.gib.total_cmp(&b.gib)));
    let mut families: Vec<String> = Vec::new();
    choices.retain(|choice| {
        let family = family(&choice.machine).to_owned();
        let is_first = !families.contains(&family);
        families.push(family);
        is_first || question.instance.as_ref() == Some(&choice.machine)
    });
    choices
}

/// `r7g` of `r7g.xlarge`.
pub(super) fn family(machine: &str) -> &str {
    machine.split_once('.').map_or(machine, |(family, _)| family)
}
