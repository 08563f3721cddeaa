//! The available choices, and the model's result for each.

use frostline_model::catalogue::{Catalogue, Class, Constant, Evidence, Kind, Price};
use frostline_model::{Currency, Instance, Limits, VolumeSpec};

use std::collections::BTreeMap;

use super::local::family;
use super::{Choice, Question};
use crate::measure::load::OUTSTANDING;

/// Sizes to draw beyond the smallest that holds the data, if speed depends on size.
const SIZES: [f64; 9] = [1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0];
/// Rates to try over the least one that is enough, where rates are bought: at the limit itself requests queue.
const SPARE: [f64; 5] = [1.0, 1.05, 1.1, 1.25, 1.5];
/// The largest request that a machine counts as one, bytes.
const MACHINE_UNIT_BYTES: u64 = 256 * 1024;
/// Doublings of a rate that is provisioned; no catalogue has a range of 2^64.
const DOUBLINGS_MAX: usize = 64;
const MIB: f64 = 1_048_576.0;

/// Everything that a candidate is judged by.
pub(super) struct Judge<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) question: &'a Question,
    pub(super) prices: &'a BTreeMap<String, Price>,
    pub(super) instance: Option<Instance>,
}

/// A candidate and the verdict.
pub(super) struct Judged {
    pub(super) choice: Choice,
    /// Sustained, or for the hours a day that were requested.
    pub(super) meets: bool,
    /// While credits last.
    pub(super) meets_for_a_while: bool,
    /// Whether the rate is sustained, whatever the latency.
    is_sustained: bool,
}

impl Judged {
    pub(super) fn is_known(&self) -> bool {
        self.choice.not_known.is_empty()
    }
}

impl Judge<'_> {
    /// Every candidate of a class.
    pub(super) fn class(&self, name: &str) -> Vec<Judged> {
        let Some(class) = self.catalogue.classes.get(name) else { return Vec::new() };
        let specs = (1..=self.question.count_max).flat_map(|count| {
            let specs = self.specs(name, class, count);
            specs.into_iter().map(move |spec| (count, spec))
        });
        specs.filter_map(|(count, spec)| self.judge(class, spec, count)).collect()
    }

    /// Volumes of the class that hold the data in a stripe of `count`.
    pub(super) fn specs(&self, name: &str, class: &Class, count: u32) -> Vec<VolumeSpec> {
        let least = (self.question.data_gib / f64::from(count)).ceil().max(class.gib_min.value);
        if class.model == Kind::Provisioned {
            return self.provisioned(name, class, least, count);
        }
        let most = class.gib_max.value;
        let mut gibs: Vec<f64> = SIZES.iter().map(|times| (least * times).ceil()).collect();
        gibs.push(most);
        // A larger volume is never slower or later, in either regime.
        let least_of = |from: f64, to: f64, is_enough: fn(&Judged) -> bool| {
            let judge = |gib: f64| self.judge(class, VolumeSpec::new(name, gib), count);
            least_gib(from, to, |gib| judge(gib).is_some_and(|judged| is_enough(&judged)))
        };
        let sustains = least_of(least, most, |judged| judged.is_sustained);
        let bursts_to = sustains.map_or(most, |gib| gib - 1.0);
        gibs.extend(sustains.and_then(|from| least_of(from, most, |judged| judged.meets)));
        gibs.extend(least_of(least, bursts_to, |judged| judged.meets));
        gibs.extend(least_of(least, bursts_to, |judged| judged.meets_for_a_while));
        gibs.retain(|gib| (least..=most).contains(gib));
        gibs.into_iter().map(|gib| VolumeSpec::new(name, gib)).collect()
    }

    /// The included rates, those of the need, and doublings up to the maximum, each in the smallest size that allows them.
    fn provisioned(&self, name: &str, class: &Class, gib: f64, count: u32) -> Vec<VolumeSpec> {
        let need = &self.question.need;
        let unit_bytes = (class.unit_kib.value * 1024.0).max(1.0) as u64;
        let mib_per_s = need.most_mib_per_s() / f64::from(count);
        let units = mib_per_s * MIB / need.bytes() * need.units(unit_bytes);
        let sells_throughput = class.included_mib_per_s.is_some();
        let ratio = value(&class.mib_per_s_per_iops_max).unwrap_or(f64::INFINITY);

        let least_iops = value(&class.included_iops).or(value(&class.iops_min)).unwrap_or(1.0);
        // What is included does not depend on the size.
        let included = value(&class.included_iops).unwrap_or(0.0);
        let iops_per_gib = value(&class.iops_per_gib_max).unwrap_or(f64::INFINITY);
        let exact_iops = units.max(mib_per_s / ratio).ceil();
        let mut specs = Vec::new();
        for iops in steps(least_iops, class.iops_max.value, exact_iops) {
            let gib = if iops > included { gib.max((iops / iops_per_gib).ceil()) } else { gib };
            if !sells_throughput {
                specs.push(VolumeSpec { iops: Some(iops), ..VolumeSpec::new(name, gib) });
                continue;
            }
            let least = value(&class.included_mib_per_s).unwrap_or(1.0);
            let most = value(&class.mib_per_s_max).unwrap_or(least).min((ratio * iops).max(least));
            for mib_per_s in steps(least, most, mib_per_s.ceil()) {
                specs.push(VolumeSpec {
                    iops: Some(iops),
                    mib_per_s: Some(mib_per_s),
                    ..VolumeSpec::new(name, gib)
                });
            }
        }
        specs
    }

    pub(super) fn judge(&self, class: &Class, volume: VolumeSpec, count: u32) -> Option<Judged> {
        let limits = volume.limits(self.catalogue).ok()?;
        let need = &self.question.need;
        let each = |drained| f64::from(count) * self.rate(&limits, drained);
        let (unlimited, unlimited_burst) = (each(true), each(false));
        let (base_cap, max_cap) = self.caps();
        let sustained = unlimited.min(base_cap);
        let burst = unlimited_burst.min(max_cap);

        let most = need.most_mib_per_s();
        let meets_rate = |rate: f64| rate >= most * (1.0 - 1e-9);
        let is_sustained = meets_rate(sustained);
        let (from_full, per_day) = self.hours(&limits, count, sustained, burst);
        let is_daily = self.question.busy_hours().is_some_and(|hours| per_day >= hours * (1.0 - 1e-9));
        let capacity = if is_sustained { sustained } else { burst };

        let queue_ms = match is_sustained {
            true => self.queue_ms(unlimited, base_cap, count),
            false => self.queue_ms(unlimited_burst, max_cap, count),
        };
        let latency_ms = value(&class.latency_ms_max).map(|usual| usual + queue_ms);
        let latency = need.latency.map_or(Latency::Met, |bound| match latency_ms {
            _ if queue_ms > bound.ms => Latency::Missed,
            Some(latency_ms) if latency_ms > bound.ms => Latency::Missed,
            Some(_) => Latency::Met,
            None => Latency::NotKnown,
        });
        let price = usd_per_month(class, self.prices, &self.question.region, &volume);
        let copies = self.question.copies;
        let price = price
            .map(|(usd, evidence)| (usd * f64::from(count) * f64::from(copies), evidence))
            .and_then(|(usd, evidence)| {
                let (snapshots, of_snapshots) = self.snapshots()?;
                Ok((usd + snapshots, evidence.max(of_snapshots)))
            });
        let mut not_known: Vec<String> = price.as_ref().err().into_iter().cloned().collect();
        if latency == Latency::NotKnown {
            not_known.push(format!("the catalogue has no latency for {}: measure it", volume.class));
        }
        let (usd_per_month, price_evidence) = price.ok().unzip();
        // A stripe is lost with any of its volumes, the data with all of its copies.
        let loss = |afr: &Option<Constant>| {
            value(afr).map(|afr| (1.0 - (1.0 - afr).powf(f64::from(count))).powf(f64::from(copies)))
        };
        let choice = Choice {
            spec: volume.to_string(),
            count,
            usd_per_month,
            price_evidence,
            sustained_mib_per_s: sustained,
            burst_mib_per_s: burst.max(sustained),
            unlimited_mib_per_s: unlimited,
            hours_from_full: if is_sustained { None } else { from_full },
            hours_per_day: per_day,
            instance_effect: self.instance_effect(unlimited, unlimited_burst),
            yearly_loss_low: loss(&class.afr_low),
            yearly_loss_high: loss(&class.afr_high),
            times_one_volume: loss(&class.afr_high)
                .zip(value(&class.afr_high))
                .map(|(stripe, one)| stripe / one),
            headroom_part: capacity / most - 1.0,
            queue_ms,
            latency_ms,
            not_known,
            volume,
        };
        let in_time = latency != Latency::Missed;
        Some(Judged {
            meets: in_time && (is_sustained || is_daily && meets_rate(burst)),
            is_sustained,
            meets_for_a_while: in_time && meets_rate(burst) && from_full.is_some_and(|hours| hours > 0.0),
            choice,
        })
    }

    /// MiB/s of one volume for the needed pattern.
    fn rate(&self, limits: &Limits, drained: bool) -> f64 {
        let need = &self.question.need;
        limits.iops_of(need.bytes(), need.units(limits.unit_bytes), drained) * need.bytes() / MIB
    }

    /// Dollars a month of the snapshots, or which price is missing.
    fn snapshots(&self) -> Result<(f64, Evidence), String> {
        let Some(gib) = self.question.snapshot_gib else { return Ok((0.0, Evidence::Documented)) };
        let region = &self.question.region;
        let price = self.catalogue.snapshots.get(region).and_then(|price| price.gib.as_ref());
        let price = price.ok_or_else(|| format!("the catalogue has no price of snapshots in {region}"))?;
        Ok((gib * price.value, price.evidence))
    }

    /// MiB/s that the machine lets through, sustained and at its maximum.
    fn caps(&self) -> (f64, f64) {
        let Some(instance) = &self.instance else { return (f64::INFINITY, f64::INFINITY) };
        self.caps_of(instance)
    }

    /// The same of any machine.
    pub(super) fn caps_of(&self, instance: &Instance) -> (f64, f64) {
        let need = &self.question.need;
        let of_iops = need.bytes() / need.units(MACHINE_UNIT_BYTES).max(1.0) / MIB;
        let base = instance.base_mib_per_s().min(instance.base_iops() * of_iops);
        (base, instance.max_mib_per_s().min(instance.max_iops() * of_iops))
    }

    /// Hours at the greatest rate from full credits, and hours of every day: credits spent in these hours beyond the
    /// base must be back in the others, in which the rest of the load is served, and fit into the bucket. The machine's
    /// maximum holds for its documented minutes a day and no more.
    fn hours(&self, limits: &Limits, count: u32, sustained: f64, burst: f64) -> (Option<f64>, f64) {
        let most = self.question.need.most_mib_per_s();
        if most <= sustained * (1.0 + 1e-9) {
            return (None, 24.0);
        }
        let otherwise = self.question.otherwise_mib_per_s();
        if most > burst * (1.0 + 1e-9) || otherwise > sustained * (1.0 + 1e-9) {
            return (Some(0.0), 0.0);
        }
        let spent = self.credits_per_s(limits, most / f64::from(count));
        let mut from_full = f64::INFINITY;
        let mut per_day: f64 = 24.0;
        if spent > limits.base && limits.bursts() {
            from_full = limits.bucket / (spent - limits.base) / 3600.0;
            let quiet = self.credits_per_s(limits, otherwise / f64::from(count));
            per_day = from_full.min(24.0 * (limits.base - quiet).max(0.0) / (spent - quiet));
        }
        let (base_cap, _) = self.caps();
        if let (true, Some(seconds)) = (most > base_cap, self.instance.as_ref().and_then(Instance::burst_s)) {
            from_full = from_full.min(seconds / 3600.0);
            per_day = per_day.min(seconds / 3600.0);
        }
        (from_full.is_finite().then_some(from_full), per_day)
    }

    /// Credits a second that `mib_per_s` of the needed pattern cost one volume.
    fn credits_per_s(&self, limits: &Limits, mib_per_s: f64) -> f64 {
        let need = &self.question.need;
        let units = need.units(limits.unit_bytes);
        let credits = match limits.currency {
            Currency::Mib => units * limits.unit_credits(),
            Currency::Io => units,
        };
        mib_per_s * MIB / need.bytes() * credits
    }

    /// The wait at the limits at the need's percentile, ms, when requests come at random times at the greatest rate:
    /// at one volume of the stripe, then at the machine. No request waits longer than for all that can be outstanding.
    fn queue_ms(&self, of_stripe: f64, of_machine: f64, count: u32) -> f64 {
        let need = &self.question.need;
        let beyond = 1.0 - need.latency.map_or(0.99, |latency| latency.quantile);
        let (block, most) = (need.bytes() / MIB, need.most_mib_per_s());
        let longest_s = |rate: f64| f64::from(OUTSTANDING) * block / rate;
        let at_volume = wait_s(block * f64::from(count) / of_stripe, most / of_stripe, beyond);
        let at_machine = wait_s(block / of_machine, most / of_machine, beyond);
        (at_volume.min(longest_s(of_stripe)) + at_machine.min(longest_s(of_machine))) * 1000.0
    }

    /// The smallest machine of the same family that sustains the need, if the one that was named does not.
    pub(super) fn larger_machine(&self) -> Option<String> {
        let instance = self.instance.as_ref()?;
        let most = self.question.need.most_mib_per_s();
        if self.caps().0 >= most {
            return None;
        }
        let same = |name: &&String| family(name) == family(instance.name());
        let larger = self.catalogue.instances.keys().filter(same);
        let larger = larger.filter_map(|name| Instance::new(self.catalogue, name, 1.0).ok());
        let enough = larger.map(|larger| (self.caps_of(&larger).0, larger)).filter(|(base, _)| *base >= most);
        // Of equal limits the first in the catalogue, which lists a family by size.
        let place = |name: &str| self.catalogue.instances[name].base_mb_per_s.as_ref().map(Constant::at);
        let smallest =
            enough.min_by(|a, b| a.0.total_cmp(&b.0).then_with(|| place(a.1.name()).cmp(&place(b.1.name()))));
        smallest.map(|(_, larger)| larger.name().to_owned())
    }

    fn instance_effect(&self, unlimited: f64, unlimited_burst: f64) -> Option<String> {
        let instance = self.instance.as_ref()?;
        let (base, max) = self.caps();
        let name = instance.name();
        Some(match instance.burst_s() {
            _ if unlimited_burst <= base => format!("{name} does not hold it back"),
            Some(seconds) if unlimited <= base => {
                format!("{name} cuts the burst to {base:.0} MiB/s after {:.0} minutes a day", seconds / 60.0)
            }
            Some(seconds) => format!(
                "{name} cuts {unlimited:.0} MiB/s to {base:.0} ({:.0} for {:.0} minutes a day)",
                unlimited_burst.min(max),
                seconds / 60.0
            ),
            None if unlimited <= base => format!("{name} cuts the burst to {base:.0} MiB/s"),
            None => format!("{name} cuts {unlimited:.0} MiB/s to {base:.0}"),
        })
    }

    /// Why a class has nothing in the lists.
    pub(super) fn refusal(&self, name: &str, judged: &[Judged]) -> String {
        let need = &self.question.need;
        let of_class = || judged.iter().filter(|judged| judged.choice.volume.class == name);
        let Some(best) =
            of_class().max_by(|a, b| a.choice.burst_mib_per_s.total_cmp(&b.choice.burst_mib_per_s))
        else {
            let most = self.catalogue.classes.get(name).map_or(0.0, |class| class.gib_max.value);
            let count = self.question.count_max;
            return format!("no {count} volumes of at most {most} GiB hold the data");
        };
        let choice = &best.choice;
        if choice.burst_mib_per_s < need.most_mib_per_s() * (1.0 - 1e-9) {
            return format!(
                "at most {:.0} MiB/s of this pattern, {:.0} sustained ({} x {})",
                choice.burst_mib_per_s, choice.sustained_mib_per_s, choice.count, choice.spec
            );
        }
        let fast = of_class().map(|judged| &judged.choice).filter(|choice| choice.headroom_part >= -1e-9);
        let latency = |choice: &Choice| choice.latency_ms.unwrap_or(choice.queue_ms);
        let least = fast.map(latency).fold(f64::INFINITY, f64::min);
        format!("fast enough, but its latency is at least {least:.1} ms")
    }
}

/// Dollars a month of one volume and the weakest evidence among the prices, or which price is missing.
pub(crate) fn usd_per_month(
    class: &Class,
    prices: &BTreeMap<String, Price>,
    region: &str,
    volume: &VolumeSpec,
) -> Result<(f64, Evidence), String> {
    let missing = |what: &str| format!("the catalogue has no price {what} of {} in {region}", volume.class);
    let Some(price) = prices.get(&volume.class) else { return Err(missing("per GiB")) };
    let above = |bought: Option<f64>, included: &Option<Constant>| {
        (bought.unwrap_or(0.0) - value(included).unwrap_or(0.0)).max(0.0)
    };
    let [second, third] = [&class.iops_tier_2_above, &class.iops_tier_3_above].map(value);
    let iops = above(volume.iops, &class.included_iops);
    let (to_second, to_third) = (second.unwrap_or(f64::INFINITY), third.unwrap_or(f64::INFINITY));
    let between = |from: f64, to: f64| (iops.min(to) - from).max(0.0);
    let parts = [
        (volume.gib, &price.gib, "per GiB"),
        (between(0.0, to_second), &price.iops, "per IOPS"),
        (between(to_second, to_third), &price.iops_tier_2, "per IOPS of the second tier"),
        (between(to_third, f64::INFINITY), &price.iops_tier_3, "per IOPS of the third tier"),
        (above(volume.mib_per_s, &class.included_mib_per_s), &price.mib_per_s, "per MiB/s"),
    ];
    let (mut usd, mut evidence) = (0.0, Evidence::Documented);
    for (amount, each, what) in parts.into_iter().filter(|(amount, ..)| *amount > 0.0) {
        let each = each.as_ref().ok_or_else(|| missing(what))?;
        usd += amount * each.value;
        evidence = evidence.max(each.evidence);
    }
    Ok((usd, evidence))
}

/// The wait that a part `beyond` of the requests exceeds at a server with constant service time s and use u
/// (M/D/1): a part u of them waits, those on average s / (2 (1 - u)); the tail is taken as exponential, the
/// heavy-traffic form. It grows without bound towards full use.
fn wait_s(service_s: f64, used: f64, beyond: f64) -> f64 {
    if used >= 1.0 {
        return f64::INFINITY;
    }
    service_s / (2.0 * (1.0 - used)) * (used / beyond).ln().max(0.0)
}

#[derive(Clone, Copy, PartialEq)]
enum Latency {
    Met,
    Missed,
    NotKnown,
}

fn value(constant: &Option<Constant>) -> Option<f64> {
    constant.as_ref().map(|constant| constant.value)
}

/// The smallest whole size from `from` to `to` that is enough, if `to` is. Larger sizes must be enough, too.
fn least_gib(from: f64, to: f64, is_enough: impl Fn(f64) -> bool) -> Option<f64> {
    if from > to || !is_enough(to) {
        return None;
    }
    let (mut below, mut enough) = (from - 1.0, to);
    // Beyond 2^53 there are no whole sizes between.
    while enough - below > 1.0 {
        let middle = ((below + enough) / 2.0).floor();
        if middle <= below || middle >= enough {
            break;
        }
        match is_enough(middle) {
            true => enough = middle,
            false => below = middle,
        }
    }
    Some(enough)
}

/// From `least` by doubling to `most`, and `exact` with some spare where these are between.
pub(super) fn steps(least: f64, most: f64, exact: f64) -> Vec<f64> {
    let doubled = std::iter::successors(Some(least), |step| Some((step * 2.0).max(1.0)));
    let mut steps: Vec<f64> = doubled.take(DOUBLINGS_MAX).take_while(|step| *step < most).collect();
    steps.push(most);
    let spare = SPARE.map(|spare| (exact * spare).ceil());
    steps.extend(spare.into_iter().filter(|step| *step > least && *step < most));
    steps
}
