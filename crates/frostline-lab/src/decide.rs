//! Which volumes to buy: those that meet a need, with dollars per month, and risk beside speed.
//!
//! [`decide`] tries every class of the catalogue in stripes of 1 to 16 volumes, larger volumes if speed
//! depends on size, and steps of provisioned rates, and compares the model's result for each with the
//! [`Need`]. There are three lists: choices that meet the need continuously, choices that meet it only while credits
//! last, and choices that
//! cannot be evaluated because the catalogue lacks a price or a latency. Machines whose own disks meet it are listed
//! beside them.
//!
//! The rates are those of a raw stripe (ext4 or XFS with direct I/O and chunks no smaller than a request),
//! from the formulas of [`Limits`](frostline_model::Limits); no cache, no compression.

pub mod args;
pub(crate) mod candidate;
mod local;
mod need;
mod text;

use std::collections::BTreeMap;

use frostline_base::{Error, Result};
use frostline_model::catalogue::{Catalogue, Evidence};
use frostline_model::{Instance, VolumeSpec};
use serde::{Deserialize, Serialize};

use candidate::{Judge, Judged};

pub use local::LocalChoice;
pub use need::{LatencyNeed, Need, Peak};
pub use text::text;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The work.
    pub need: Need,
    /// Data to hold, GiB.
    pub data_gib: f64,
    /// Where prices are from.
    pub region: String,
    /// Type of the machine, if its cap counts.
    pub instance: Option<String>,
    /// Hours a day for which the need holds, and nothing in the others; absent means always.
    pub hours_per_day: Option<f64>,
    /// Most volumes in a stripe.
    pub count_max: u32,
    /// Copies of the data, each of which can take the whole load.
    pub copies: u32,
    /// GiB that snapshots hold.
    pub snapshot_gib: Option<f64>,
}

impl Question {
    /// Hours a day of the greatest rate; absent if it is all there is.
    fn busy_hours(&self) -> Option<f64> {
        self.need.peak.map(|peak| peak.hours_per_day).or(self.hours_per_day)
    }

    /// MiB/s that are needed all day, if any are.
    fn all_day_mib_per_s(&self) -> Option<f64> {
        self.hours_per_day.is_none_or(|hours| hours >= 24.0).then_some(self.need.base_mib_per_s())
    }

    /// MiB/s in the other hours.
    fn otherwise_mib_per_s(&self) -> f64 {
        self.need.peak.map_or(0.0, |_| self.need.base_mib_per_s())
    }
}

/// One way to meet the need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Each volume.
    pub volume: VolumeSpec,
    /// The same as one would type it.
    pub spec: String,
    /// Volumes in the stripe of one copy.
    pub count: u32,
    /// Dollars a month of all copies and snapshots; absent where the catalogue does not know a price that it takes.
    pub usd_per_month: Option<f64>,
    /// The weakest evidence among the prices.
    pub price_evidence: Option<Evidence>,
    /// MiB/s of the needed pattern that it sustains, machine included.
    pub sustained_mib_per_s: f64,
    /// MiB/s while every credit lasts, machine included.
    pub burst_mib_per_s: f64,
    /// MiB/s sustained, without the machine.
    pub unlimited_mib_per_s: f64,
    /// Hours for which full credits pay at the needed rate; absent where it is met sustained. The machine's minutes
    /// count.
    pub hours_from_full: Option<f64>,
    /// Hours every day for which the needed rate can be had if nothing is asked in the others; 24 where it is met sustained.
    pub hours_per_day: f64,
    /// What the machine does to it; absent without one.
    pub instance_effect: Option<String>,
    /// Least yearly odds that the data is lost: one volume lost is all of its stripe lost, and no copy is replaced.
    pub yearly_loss_low: Option<f64>,
    /// Greatest of them.
    pub yearly_loss_high: Option<f64>,
    /// How many times the odds of one volume of the class that is.
    pub times_one_volume: Option<f64>,
    /// What it can do over what is needed, less 1, in the regime that meets the need; for IOPS and MiB/s alike,
    /// since requests have one size.
    pub headroom_part: f64,
    /// Waiting at the limits at the needed rate, ms, at the need's percentile (99th without one).
    pub queue_ms: f64,
    /// `queue_ms` and the vendor's usual latency; absent where the vendor names none.
    pub latency_ms: Option<f64>,
    /// What is not known and keeps it out of the ranking; empty otherwise.
    pub not_known: Vec<String>,
}

/// One point of the Pareto front: nothing cheaper holds as much, by more than [`FRONT_STEP`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrontPoint {
    /// Dollars a month.
    pub usd_per_month: f64,
    /// Sustained MiB/s of the needed pattern.
    pub sustained_mib_per_s: f64,
    /// MiB/s while credits last.
    pub burst_mib_per_s: f64,
    /// Greatest yearly odds that the stripe is lost.
    pub yearly_loss_high: Option<f64>,
    /// Which volumes, such as `4 x st1:2TiB`.
    pub what: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The answer in words: what to buy.
    pub answer: String,
    /// The same in Korean, for the page.
    #[serde(skip)]
    pub answer_korean: String,
    /// What was asked.
    pub question: Question,
    /// Name of the catalogue.
    pub catalogue: String,
    /// When it was true.
    pub catalogue_date: String,
    /// What meets the need sustained, or for the hours a day that were requested, cheapest first (at one price, fewest volumes
    /// first).
    pub meets: Vec<Choice>,
    /// What meets it only while credits last, cheapest first.
    pub while_credits_last: Vec<Choice>,
    /// What would meet it if a price or a latency that the catalogue does not know is good enough.
    pub not_known: Vec<Choice>,
    /// Machines whose own disks meet it, cheapest first; what is on them is lost when the machine stops.
    pub local: Vec<LocalChoice>,
    /// By class that has nothing in the lists: what is the nearest that it comes.
    pub refused: BTreeMap<String, String>,
    /// Dollars against MiB/s, cheapest first, whether the need is met or not.
    pub front: Vec<FrontPoint>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Answers the question from the catalogue.
///
/// # Errors
///
/// `NotFound` with the nearest name for an unknown region or machine; `Invalid` for data or hours that make no
/// sense.
pub fn decide(catalogue: &Catalogue, question: &Question) -> Result<Decision> {
    check(question)?;
    let instance =
        question.instance.as_deref().map(|name| Instance::new(catalogue, name, 1.0)).transpose()?;
    let judge = Judge { catalogue, question, prices: catalogue.region(&question.region)?, instance };
    let judged: Vec<Judged> = catalogue.classes.keys().flat_map(|class| judge.class(class)).collect();

    let list = |wanted: fn(&Judged) -> bool| cheapest_each(judged.iter().filter(|judged| wanted(judged)));
    let mut decision = Decision {
        answer: String::new(),
        answer_korean: String::new(),
        question: question.clone(),
        catalogue: catalogue.name.clone(),
        catalogue_date: catalogue.date.clone(),
        meets: list(|judged| judged.is_known() && judged.meets),
        while_credits_last: list(|judged| judged.is_known() && !judged.meets && judged.meets_for_a_while),
        not_known: list(|judged| !judged.is_known() && (judged.meets || judged.meets_for_a_while)),
        local: local::choices(catalogue, question),
        refused: BTreeMap::new(),
        front: front(&judged),
        notes: notes(catalogue, question),
    };
    for class in catalogue.classes.keys() {
        let lists = [&decision.meets, &decision.while_credits_last, &decision.not_known];
        if !lists.into_iter().flatten().any(|choice| choice.volume.class == *class) {
            decision.refused.insert(class.clone(), judge.refusal(class, &judged));
        }
    }
    (decision.answer, decision.answer_korean) = text::answer(&decision, judge.larger_machine().as_deref());
    Ok(decision)
}

fn check(question: &Question) -> Result<()> {
    let rules = [
        (question.data_gib > 0.0 && question.data_gib.is_finite(), "the data is a size above 0"),
        (
            question.hours_per_day.is_none_or(|hours| hours > 0.0 && hours <= 24.0),
            "a day has more than 0 and up to 24 hours",
        ),
        ((1..=128).contains(&question.count_max), "a stripe has 1 to 128 volumes"),
        ((1..=16).contains(&question.copies), "there are 1 to 16 copies"),
        (
            question.snapshot_gib.is_none_or(|gib| gib > 0.0 && gib.is_finite()),
            "what snapshots hold is a size above 0",
        ),
        (
            question.hours_per_day.is_none() || question.need.peak.is_none(),
            "--hours-per-day goes with a need without `peak`, which has its own hours",
        ),
    ];
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(Error::invalid(rule)),
        None => Ok(()),
    }
}

/// The cheapest of each class and count, by dollars; those without a price last.
fn cheapest_each<'a>(judged: impl Iterator<Item = &'a Judged>) -> Vec<Choice> {
    let mut best: BTreeMap<(&str, u32), &Choice> = BTreeMap::new();
    let usd = |choice: &Choice| choice.usd_per_month.unwrap_or(f64::INFINITY);
    for Judged { choice, .. } in judged {
        let place = best.entry((&choice.volume.class, choice.count)).or_insert(choice);
        if usd(choice) < usd(place) {
            *place = choice;
        }
    }
    let mut choices: Vec<Choice> = best.into_values().cloned().collect();
    // At one price fewer volumes are the smaller risk.
    let cents = |choice: &Choice| (usd(choice) * 100.0).round();
    choices.sort_by(|a, b| cents(a).total_cmp(&cents(b)).then(a.count.cmp(&b.count)));
    choices
}

/// A point of the front holds so many times more than the one before; sizes in whole GiB make smaller steps.
pub const FRONT_STEP: f64 = 1.02;

fn front(judged: &[Judged]) -> Vec<FrontPoint> {
    let point = |choice: &Choice| {
        Some(FrontPoint {
            usd_per_month: choice.usd_per_month?,
            sustained_mib_per_s: choice.sustained_mib_per_s,
            burst_mib_per_s: choice.burst_mib_per_s,
            yearly_loss_high: choice.yearly_loss_high,
            what: text::what(choice),
        })
    };
    let mut points: Vec<FrontPoint> = judged.iter().filter_map(|judged| point(&judged.choice)).collect();
    points.sort_by(|a, b| {
        a.usd_per_month
            .total_cmp(&b.usd_per_month)
            .then(b.sustained_mib_per_s.total_cmp(&a.sustained_mib_per_s))
    });
    let mut most = 0.0;
    points.retain(|point| {
        let is_more = point.sustained_mib_per_s > most * FRONT_STEP;
        most = if is_more { point.sustained_mib_per_s } else { most };
        is_more
    });
    points
}

fn notes(catalogue: &Catalogue, question: &Question) -> Vec<String> {
    let mut notes = vec![
        "Rates are the model's for a raw stripe with chunks no smaller than a request; no cache, no compression.".to_owned(),
        format!(
            "A stripe is lost when one of its volumes is. {}",
            match (question.copies, question.snapshot_gib) {
                (1, None) => "Dollars are for one copy without snapshots (--copies, --snapshots).".to_owned(),
                (1, Some(gib)) => format!("Dollars include {gib:.0} GiB of snapshots."),
                (copies, snapshots) => format!(
                    "Dollars are for {copies} copies{}; the odds are that all are lost in one year and none is replaced.",
                    snapshots.map_or_else(String::new, |gib| format!(" and {gib:.0} GiB of snapshots"))
                ),
            }
        ),
    ];
    if question.need.peak.is_some() {
        notes.push(
            "The peak counts as one stretch every day: bursts that are spread over the day ask for less."
                .to_owned(),
        );
    }
    notes.extend((!catalogue.note.is_empty()).then(|| catalogue.note.clone()));
    let assumed = catalogue.classes.iter().filter(|(_, class)| {
        class.initial_credit_part.as_ref().is_some_and(|constant| constant.evidence == Evidence::Unverified)
    });
    let assumed: Vec<&str> = assumed.map(|(name, _)| name.as_str()).collect();
    if !assumed.is_empty() {
        notes.push(format!(
            "Hours from full: that a new volume starts full is not documented for {}.",
            assumed.join(", ")
        ));
    }
    if question.need.latency.is_some() {
        notes.push("Where a latency is given it is the vendor's usual one, which names no percentile, and the wait at the limits for requests that come at random (M/D/1), at most that for 64 outstanding ones.".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests;
