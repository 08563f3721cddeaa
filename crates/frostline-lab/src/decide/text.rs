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

/// What to buy, as a sentence in English and in Korean; `larger` is the machine that would let the need through.
pub(super) fn answer(decision: &Decision, larger: Option<&str>) -> (String, String) {
    let question = &decision.question;
    let machine = match (&question.instance, larger) {
        (Some(instance), Some(larger)) => (
            format!(
                " {instance} does not sustain this rate: {larger} is the smallest of its family that does."
            ),
            format!(" {instance}는 이 처리량을 지속하지 못합니다. 같은 계열에서는 {larger}부터 가능합니다."),
        ),
        (Some(instance), None) if decision.meets.is_empty() => (
            format!(" See what {instance} lets through below."),
            format!(" {instance}가 허용하는 처리량은 아래에 있습니다."),
        ),
        _ => Default::default(),
    };
    let known = decision.meets.first().map(|choice| (choice, ("", ""))).or_else(|| {
        let words = ("Nothing sustains this need. ", "이 부하를 계속 감당하는 볼륨은 없습니다. ");
        decision.while_credits_last.first().map(|choice| (choice, words))
    });
    let Some((choice, before)) = known else {
        let (english, korean) = without_volumes(decision);
        return (english + &machine.0, korean + &machine.1);
    };
    let usd = choice.usd_per_month.unwrap_or(f64::NAN);
    let (mib, daily) = (choice.sustained_mib_per_s, choice.hours_per_day);
    let how = match (choice.hours_from_full, question.busy_hours()) {
        (None, _) => {
            let more = (choice.headroom_part * 100.0).round();
            let more = match more < 1.0 {
                true => ("no more than needed".to_owned(), "필요한 만큼".to_owned()),
                false => (format!("{more:.0} % more than needed"), format!("필요한 것보다 {more:.0} % 많음")),
            };
            (
                format!("sustains {mib:.0} MiB/s of this pattern, {}", more.0),
                format!("이 패턴에서 지속 처리량 {mib:.0} MiB/s, {}", more.1),
            )
        }
        (Some(_), Some(hours)) if before.0.is_empty() => (
            format!(
                "holds the peak for {daily:.1} hours of every day, of which {hours} are needed, and sustains {mib:.0} MiB/s"
            ),
            format!("매일 피크를 {daily:.1}시간 유지(필요한 시간은 {hours}시간), 지속 처리량 {mib:.0} MiB/s"),
        ),
        (Some(hours), _) => (
            format!(
                "holds it for {hours:.1} hours from full credits, {daily:.1} hours of every day, and then {mib:.0} MiB/s"
            ),
            format!(
                "크레딧이 가득 차 있으면 {hours:.1}시간, 매일 {daily:.1}시간 유지하고 그 뒤에는 {mib:.0} MiB/s"
            ),
        ),
    };
    let volumes = phrase(choice, question.copies);
    (
        format!("{}Buy {}: ${usd:.2} a month, {}.{}", before.0, volumes.0, how.0, machine.0),
        format!("{}{} 구매: 월 ${usd:.2}, {}.{}", before.1, volumes.1, how.1, machine.1),
    )
}

/// What there is instead, if no volumes are known to meet the need.
fn without_volumes(decision: &Decision) -> (String, String) {
    let question = &decision.question;
    let mut words = (
        "No volumes in the catalogue are known to meet this need.".to_owned(),
        "이 조건을 만족한다고 알려진 볼륨이 카탈로그에 없습니다.".to_owned(),
    );
    if let Some(choice) = decision.not_known.first() {
        let (volumes, unknown) = (phrase(choice, question.copies), choice.not_known.join(", and "));
        words.0 += &format!(" {} would, except that {unknown}.", volumes.0);
        words.1 += &format!(" {}는 가능할 수 있으나 알려지지 않은 것이 있습니다: {unknown}.", volumes.1);
    }
    if let Some(choice) = decision.local.first() {
        let what = match question.need.latency {
            Some(_) => (
                "may, but their latency is not documented",
                "로는 가능할 수 있으나 지연 시간이 문서에 없습니다",
            ),
            None => ("do", "로는 가능합니다"),
        };
        words.0 += &format!(" The disks of {} itself {}.", choice.machine, what.0);
        words.1 += &format!(" {}의 자체 디스크{}.", choice.machine, what.1);
    }
    words
}

/// `4 volumes of st1:2TiB, striped`.
fn phrase(choice: &Choice, copies: u32) -> (String, String) {
    let volumes = show_count(u64::from(choice.count), "volume");
    let striped = if choice.count > 1 { (", striped", "(스트라이프)") } else { ("", "") };
    let copies = match copies {
        1 => Default::default(),
        copies => (format!(" for each of {copies} copies"), format!(", 복제본 {copies}개 각각")),
    };
    (
        format!("{volumes} of {}{}{}", choice.spec, striped.0, copies.0),
        format!("{} 볼륨 {}개{}{}", choice.spec, choice.count, striped.1, copies.1),
    )
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
    // A power of ten counts as itself, whatever the rounding.
    let digits =
        if percent > 0.0 { (-(percent * 1.001).log10().floor()).clamp(1.0, 12.0) as usize } else { 1 };
    format!("{percent:.digits$} %")
}
