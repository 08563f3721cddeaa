//! The page of `lab measure`: what each path sustains in words, then latency over load and the watch at its limit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use frostline_show::PAGE_TAIL;

use super::chart::{Plane, Scale};
use super::text::{both, escape, number, of_run, round};
use super::{Language, page};
use crate::measure::{Measured, Measurement};

/// Rounds that are drawn; of more, every second one, and so on.
const ROUNDS_MAX: usize = 300;

/// The marks of the lines of latency.
const MEDIAN: &str = "<svg width=22 height=12 aria-hidden=true><line class=front x1=0 x2=22 y1=6 y2=6 /><circle class=median cx=11 cy=6 r=4 /></svg>";
const TAIL: &str = "<svg width=22 height=12 aria-hidden=true><line class=tail x1=0 x2=22 y1=6 y2=6 /></svg>";
const KNEE: &str = "<svg width=22 height=12 aria-hidden=true><circle class=answer cx=11 cy=6 r=5 /></svg>";

/// The page.
pub fn load_page(measurement: &Measurement, language: Language) -> String {
    let names: Vec<String> = measurement.paths.iter().map(|path| path.path.display().to_string()).collect();
    let mut html = page::head(&names.join(", "), language);
    let _ = write_page(&mut html, measurement);
    html.push_str(PAGE_TAIL);
    html
}

fn write_page(html: &mut String, measurement: &Measurement) -> std::fmt::Result {
    let Measurement { load, block_bytes, outstanding, extent, fio, machine, started, paths, .. } =
        measurement;
    writeln!(html, "<h1>{}</h1><ul class=words>", both("What the volumes sustain", "볼륨이 견디는 부하"))?;
    for path in paths {
        writeln!(html, "<li><b>{}</b>: {}", escape(&path.path.display().to_string()), in_words(path))?;
    }
    writeln!(html, "</ul>")?;
    let (kib, mib) = (block_bytes >> 10, extent.data_mib);
    writeln!(
        html,
        "<p class=quiet>{}</p>",
        both(
            &format!(
                "At most {outstanding} outstanding, over {mib} MiB in each path, without the page cache: {}.",
                escape(&load.words())
            ),
            &format!(
                "요청 크기 {kib} KiB, 읽기 {} %, 동시 요청 최대 {outstanding}개, 경로마다 {mib} MiB, 페이지 캐시 없이 측정했습니다.",
                load.read_percent()
            )
        )
    )?;
    for path in paths {
        write_path(html, path, kib)?;
    }
    writeln!(
        html,
        "<p class=key>{}</p><p class=key>{} · {} · {} · {}</p>",
        both(
            "Latency is that of reads or of writes, whichever is longer. Requests are offered evenly: those that come at random wait longer.",
            "지연 시간은 읽기와 쓰기 중 더 긴 쪽입니다. 요청은 일정한 간격으로 보냈으며, 무작위로 도착하는 요청은 더 오래 기다립니다."
        ),
        escape(started),
        escape(fio),
        escape(&machine.cpu),
        escape(&machine.kernel)
    )
}

/// The answer for a path.
fn in_words(path: &Measured) -> String {
    let Some(watched) = &path.watched else { return both("not measured", "측정하지 못함") };
    let (iops, mib) = (number(watched.sustained.iops), number(watched.sustained.mib_per_s));
    let (mut english, mut korean) =
        (format!("{iops} IOPS, {mib} MiB/s"), format!("{iops} IOPS, {mib} MiB/s"));
    if let Some(burst) = &watched.burst {
        let (high, seconds) = (number(burst.level.iops), number(burst.level.seconds));
        english += &format!(", after {high} IOPS for {seconds} s");
        korean += &format!(", 그 전 {seconds}초 동안은 {high} IOPS");
    }
    if let Some(knee) = path.knee.as_ref().filter(|_| path.doubt.is_none()) {
        let (iops, p99) = (number(knee.iops), number(knee.p99_ms));
        english += &format!("; up to {iops} IOPS 99 % are done within {p99} ms");
        korean += &format!("; {iops} IOPS까지는 99 %가 {p99} ms 안에 끝남");
    }
    both(&english, &korean)
}

fn write_path(html: &mut String, path: &Measured, kib: u64) -> std::fmt::Result {
    writeln!(
        html,
        "<h2>{} <small>{}</small></h2>",
        escape(&path.path.display().to_string()),
        volume(&path.volume)
    )?;
    if let Some(why) = &path.failed {
        writeln!(
            html,
            "<ul class=loud><li>{}: {}</ul>",
            both("Failed", "실패"),
            of_run(&BTreeMap::new(), why)
        )?;
    }
    writeln!(html, "<ul>{}</ul><div class=panels>", facts(path, kib))?;
    if path.points.len() > 1 {
        write_curve(html, path)?;
    }
    if !path.rounds.is_empty() {
        write_watch(html, path)?;
    }
    writeln!(html, "</div>")
}

/// `ext4 on /dev/nvme1n1` in both languages.
fn volume(text: &str) -> String {
    let korean = text.split_once(" on ").map(|(kind, device)| format!("{device}의 {kind}"));
    both(&escape(text), &escape(korean.as_deref().unwrap_or(text)))
}

fn facts(path: &Measured, kib: u64) -> String {
    let mut facts = Vec::new();
    if let Some(watched) = &path.watched {
        let (iops, mib) = (number(watched.sustained.iops), number(watched.sustained.mib_per_s));
        let (steady, korean) = match (watched.is_steady, watched.fell_at_end) {
            (true, _) => ("steady", "안정 상태"),
            (_, true) => ("but it fell at the end", "끝에 떨어짐"),
            _ => ("not steady", "안정되지 않음"),
        };
        facts.push(both(
            &format!("Limit: <b>{iops} IOPS</b>, {mib} MiB/s, {steady}"),
            &format!("한계: <b>{iops} IOPS</b>, {mib} MiB/s, {korean}"),
        ));
        facts.push(match &watched.burst {
            Some(burst) => {
                let (high, seconds) = (number(burst.level.iops), number(burst.level.seconds));
                let requests = number(burst.bucket_requests);
                both(
                    &format!("Burst: {high} IOPS for {seconds} s; the bucket held <b>{requests} requests</b> of {kib} KiB beyond the limit"),
                    &format!("버스트: {seconds}초 동안 {high} IOPS. 버킷에는 한계를 넘는 {kib} KiB 요청 <b>{requests}개</b>분이 있었습니다"),
                )
            }
            None if watched.fell_at_end => both(
                "Burst: not known, as the throughput fell too late in the watch",
                "버스트: 처리량이 관찰 끝에 떨어져 알 수 없음",
            ),
            None => both("Burst: none seen", "버스트: 관찰되지 않음"),
        });
    }
    if let Some(knee) = &path.knee {
        let (iops, p50, p99) = (number(knee.iops), number(knee.p50_ms), number(knee.p99_ms));
        facts.push(both(
            &format!("Knee: <b>{iops} IOPS</b>, median {p50} ms, 99th percentile {p99} ms"),
            &format!("꺾이는 점: <b>{iops} IOPS</b>, 중앙값 {p50} ms, 99 백분위수 {p99} ms"),
        ));
    }
    if let Some(doubt) = &path.doubt {
        let pressure = round(doubt.cpu_pressure);
        facts.push(both(
            &format!("Knee: <b>cannot tell</b>: CPUs of this host were waited for {pressure} % of the time, so that latency may be this host's"),
            &format!("꺾이는 점: 이 호스트의 CPU를 기다린 시간이 {pressure} %여서 <b>알 수 없습니다</b>. 지연 시간이 호스트 때문일 수 있습니다"),
        ));
    }
    if let Some(cost) = &path.cost {
        let (usd, volume, region) = (round(cost.usd_per_month), escape(&cost.volume), escape(&cost.region));
        facts.push(both(
            &format!("Cost: ${usd} a month for {volume} in {region}"),
            &format!("비용: {region}의 {volume}, 월 ${usd}"),
        ));
    }
    facts.iter().map(|fact| format!("<li>{fact}</li>")).collect()
}

/// Median and tail by what was served.
fn write_curve(html: &mut String, path: &Measured) -> std::fmt::Result {
    let mut points = path.points.clone();
    points.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    let x = Scale::of_sizes(points.iter().map(|point| point.iops).chain([0.0]));
    let y = Scale::of_sizes(points.iter().flat_map(|point| [point.p50_ms, point.p99_ms]));
    let mut plane = Plane::new(&x, &y);
    let of = |value: fn(&crate::measure::curve::Point) -> f64| -> Vec<(f64, f64)> {
        points.iter().map(|point| (point.iops, value(point))).collect()
    };
    plane.path("tail", &of(|point| point.p99_ms));
    let medians = of(|point| point.p50_ms);
    plane.path("front", &medians);
    for median in &medians {
        plane.dot("median", *median, 4);
    }
    let mut key = format!(
        "<span>{MEDIAN}{}</span> <span>{TAIL}{}</span>",
        both("median", "중앙값"),
        both("99th percentile", "99 백분위수")
    );
    // A ring, since points are too close to each other for a label that belongs to one of them.
    if let Some(knee) = path.knee {
        plane.dot("answer", (knee.iops, knee.p50_ms), 8);
        write!(key, " <span>{KNEE}{}</span>", both("knee", "꺾이는 점"))?;
    }
    writeln!(
        html,
        "<section class=\"panel load\"><h3>{} <small>ms</small></h3><p class=marks>{key}</p>{}<p class=\"key below\">IOPS</p></section>",
        both("Latency over load", "부하에 따른 지연 시간"),
        plane.end(&[])
    )
}

/// IOPS second by second.
fn write_watch(html: &mut String, path: &Measured) -> std::fmt::Result {
    let every = path.rounds.len().div_ceil(ROUNDS_MAX).max(1);
    let mut at_s = 0.0;
    let points: Vec<(f64, f64)> = path
        .rounds
        .chunks(every)
        .map(|rounds| {
            let seconds: f64 = rounds.iter().map(|round| round.seconds).sum();
            at_s += seconds;
            (at_s, rounds.iter().map(|round| round.requests).sum::<f64>() / seconds)
        })
        .collect();
    // From zero, so that a fall is as deep as it looks.
    let x = Scale::of_sizes(points.iter().map(|point| point.0).chain([0.0]));
    let y = Scale::of_sizes(points.iter().map(|point| point.1).chain([0.0]));
    let mut plane = Plane::new(&x, &y);
    plane.path("front", &points);
    writeln!(
        html,
        "<section class=\"panel load\"><h3>{} <small>IOPS</small></h3>{}<p class=\"key below\">{}</p></section>",
        both("Under as much load as it takes", "최대 부하에서"),
        plane.end(&[]),
        both("seconds", "초")
    )
}
