//! The answer as text.

use std::collections::BTreeMap;

use frostline_show::show_count;

use super::{Choice, Decision, FrontPoint, LocalChoice};

/// Choices of each class that a list prints; the JSON has all.
const SHOWN: usize = 3;

/// The front is printed up to so many times the rate that is needed, and so many points of it; the JSON and the page
/// have all of it.
const FRONT_TIMES: f64 = 4.0;
const FRONT_SHOWN: usize = 12;

/// The decision as lines.
pub fn text(decision: &Decision) -> Vec<String> {
    let question = &decision.question;
    let on = question.instance.as_ref().map_or_else(String::new, |instance| format!(" on {instance}"));
    let hours = question.hours_per_day.map_or_else(String::new, |hours| format!(", {hours} h a day"));
    let mut lines = vec![
        decision.answer.clone(),
        String::new(),
        format!(
            "Need: {} ({:.0} IOPS) over {:.0} GiB in {}{on}{hours} (catalogue {}, {})",
            question.need,
            question.need.iops(),
            question.data_gib,
            question.region,
            decision.catalogue,
            decision.catalogue_date
        ),
    ];
    list(&mut lines, "Meets it", &decision.meets, question.copies);
    list(&mut lines, "Only while credits last", &decision.while_credits_last, question.copies);
    list(&mut lines, "Would meet it, but something is not known", &decision.not_known, question.copies);
    local(&mut lines, &decision.local);
    if !decision.refused.is_empty() {
        lines.push(String::new());
        lines.push("Does not meet it:".to_owned());
        lines.extend(decision.refused.iter().map(|(class, why)| format!("  {class}: {why}")));
    }
    lines.push(String::new());
    lines.push("Dollars a month vs sustained MiB/s of every choice:".to_owned());
    let enough =
        |point: &&FrontPoint| point.sustained_mib_per_s >= question.need.most_mib_per_s() * FRONT_TIMES;
    let shown =
        decision.front.iter().position(|point| enough(&point)).map_or(decision.front.len(), |at| at + 1);
    // Of many, some that are equally far apart, with both ends.
    let every = shown.saturating_sub(1).div_ceil(FRONT_SHOWN - 1).max(1);
    let is_shown = |at: usize| at.is_multiple_of(every) || at + 1 == shown;
    for (_, point) in decision.front[..shown].iter().enumerate().filter(|(at, _)| is_shown(*at)) {
        let (usd, mib_per_s) = (point.usd_per_month, point.sustained_mib_per_s);
        lines.push(format!(
            "  ${usd:>10.2}/month  {mib_per_s:>7.1} MiB/s ({:.1} burst)  {}",
            point.burst_mib_per_s, point.what
        ));
    }
    if let Some(last) = decision.front[shown..].last() {
        let (usd, mib_per_s) = (last.usd_per_month, last.sustained_mib_per_s);
        lines.push(format!(
            "  and faster ones, up to ${usd:.2}/month and {mib_per_s:.1} MiB/s (--html draws all)"
        ));
    }
    lines.push(String::new());
    lines.extend(decision.notes.iter().cloned());
    lines
}

/// What to buy, as a sentence; `larger` is the machine that would let the need through.
pub(super) fn answer(decision: &Decision, larger: Option<&str>) -> String {
    let question = &decision.question;
    let machine = match (&question.instance, larger) {
        (Some(instance), Some(larger)) => {
            format!(
                " {instance} does not sustain this rate: {larger} is the smallest of its family that does."
            )
        }
        (Some(instance), None) if decision.meets.is_empty() => {
            format!(" See what {instance} lets through below.")
        }
        _ => String::new(),
    };
    let known = decision.meets.first().map(|choice| (choice, "")).or_else(|| {
        decision.while_credits_last.first().map(|choice| (choice, "Nothing sustains this need. "))
    });
    let Some((choice, before)) = known else {
        let unknown = decision.not_known.first().map_or_else(String::new, |choice| {
            format!(
                " {} would, except that {}.",
                phrase(choice, question.copies),
                choice.not_known.join(", and ")
            )
        });
        let own = decision.local.first().map_or_else(String::new, |choice| {
            let what = if question.need.latency.is_some() {
                "may, but their latency is not documented"
            } else {
                "do"
            };
            format!(" The disks of {} itself {what}.", choice.machine)
        });
        return format!("No volumes in the catalogue are known to meet this need.{unknown}{own}{machine}");
    };
    let usd = choice.usd_per_month.unwrap_or(f64::NAN);
    let how = match (choice.hours_from_full, question.busy_hours()) {
        (None, _) => {
            let more = (choice.headroom_part * 100.0).round();
            let more = if more < 1.0 {
                "no more than needed".to_owned()
            } else {
                format!("{more:.0} % more than needed")
            };
            format!("sustains {:.0} MiB/s of this pattern, {more}", choice.sustained_mib_per_s)
        }
        (Some(_), Some(hours)) if before.is_empty() => format!(
            "holds the peak for {:.1} hours of every day, of which {hours} are needed, and sustains {:.0} MiB/s",
            choice.hours_per_day, choice.sustained_mib_per_s
        ),
        (Some(hours), _) => format!(
            "holds it for {hours:.1} hours from full credits, {:.1} hours of every day, and then {:.0} MiB/s",
            choice.hours_per_day, choice.sustained_mib_per_s
        ),
    };
    format!("{before}Buy {}: ${usd:.2} a month, {how}.{machine}", phrase(choice, question.copies))
}

/// `4 volumes of st1:2TiB, striped`.
fn phrase(choice: &Choice, copies: u32) -> String {
    let volumes = show_count(u64::from(choice.count), "volume");
    let striped = if choice.count > 1 { ", striped" } else { "" };
    let copies = if copies > 1 { format!(" for each of {copies} copies") } else { String::new() };
    format!("{volumes} of {}{striped}{copies}", choice.spec)
}

/// Machines with disks of their own.
fn local(lines: &mut Vec<String>, choices: &[LocalChoice]) {
    if choices.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push("Disks of the machine itself, in its price and lost when it stops:".to_owned());
    for choice in choices.iter().take(SHOWN) {
        let usd = match (choice.usd_per_month, choice.price_evidence) {
            (Some(usd), Some(evidence)) => {
                format!("${usd:.2}/month with the machine ({})", format!("{evidence:?}").to_lowercase())
            }
            (Some(_), None) => "nothing more: it is the machine that you have".to_owned(),
            (None, _) => "price not known".to_owned(),
        };
        lines.push(format!(
            "  {}: {usd}; {}, {:.0} GiB; at least {:.0} MiB/s; latency not documented",
            choice.machine,
            show_count(u64::from(choice.disks), "disk"),
            choice.gib,
            choice.least_mib_per_s
        ));
    }
}

/// `4 x st1:2TiB`.
pub(super) fn what(choice: &Choice) -> String {
    format!("{} x {}", choice.count, choice.spec)
}

fn list(lines: &mut Vec<String>, title: &str, choices: &[Choice], copies: u32) {
    if choices.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push(format!("{title}:"));
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    for choice in choices {
        let so_far = shown.entry(&choice.volume.class).or_default();
        *so_far += 1;
        if *so_far <= SHOWN {
            lines.push(line(choice, copies));
        }
    }
    let more: Vec<String> = shown
        .into_iter()
        .filter(|(_, count)| *count > SHOWN)
        .map(|(class, count)| format!("{} of {class}", count - SHOWN))
        .collect();
    if !more.is_empty() {
        lines.push(format!("  and in other counts: {}", more.join(", ")));
    }
}

fn line(choice: &Choice, copies: u32) -> String {
    let usd =
        choice.usd_per_month.map_or_else(|| "price not known".to_owned(), |usd| format!("${usd:.2}/month"));
    let evidence =
        choice.price_evidence.map_or_else(String::new, |evidence| format!(" ({evidence:?})").to_lowercase());
    let mut parts =
        vec![format!("{usd}{evidence}"), format!("{:.0} MiB/s sustained", choice.sustained_mib_per_s)];
    if choice.burst_mib_per_s > choice.sustained_mib_per_s * 1.001 {
        parts.push(format!("{:.0} in a burst", choice.burst_mib_per_s));
    }
    if let Some(hours) = choice.hours_from_full {
        parts.push(format!("{hours:.1} h from full, {:.1} h a day", choice.hours_per_day));
    }
    parts.push(format!("{:+.0} % headroom", choice.headroom_part * 100.0));
    if let Some(latency_ms) = choice.latency_ms {
        parts.push(format!("latency {latency_ms:.1} ms"));
    }
    if let (Some(low), Some(high), Some(times)) =
        (choice.yearly_loss_low, choice.yearly_loss_high, choice.times_one_volume)
    {
        let times = if copies == 1 { format!(" ({times:.1} x one volume)") } else { String::new() };
        let (low, high) = (percent(low), percent(high));
        let odds = if low == high { high } else { format!("{low} to {high}") };
        parts.push(format!("lost in a year {odds}{times}"));
    }
    parts.extend(choice.instance_effect.clone());
    parts.extend(choice.not_known.iter().cloned());
    format!("  {}: {}", what(choice), parts.join("; "))
}

/// With the decimals that the first figure needs.
fn percent(part: f64) -> String {
    let percent = part * 100.0;
    let digits = if percent > 0.0 { (-percent.log10().floor()).clamp(1.0, 12.0) as usize } else { 1 };
    format!("{percent:.digits$} %")
}
