use std::collections::BTreeMap;

use frostline_base::ErrorKind;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::text::{bytes, escape, escape_markdown, number, of_run, percent, plain, ratio, round};
use super::*;
use crate::record::{Asked, Cell, Comparison, FORMAT, Gate, How, Machine, Mode, Summary};
use crate::stats;

/// Ways to break out of HTML, Markdown, an attribute or a terminal.
const HOSTILE: [&str; 9] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=y>",
    "' onmouseover='z",
    "</td></table></main>",
    "&lt;b&gt;",
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "| a | b |\n|---|",
    "\u{202e}gnp.exe",
    "",
];

fn map<V>(entries: impl IntoIterator<Item = (&'static str, V)>) -> BTreeMap<String, V> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn summary(unit: &str, values: &[f64]) -> Summary {
    let interval = stats::median_interval(values).expect("there are values");
    let stats::Interval { estimate: median, low, high, .. } = interval;
    Summary {
        unit: unit.to_owned(),
        values: values.to_vec(),
        median,
        low,
        high,
        confidence: Some(interval.confidence),
    }
}

/// Blocks of `level` with a fixed small scatter.
fn values(level: f64) -> Vec<f64> {
    [0.99, 1.01, 1.0, 0.985, 1.004, 1.012, 0.996, 1.007].map(|block| block * level).to_vec()
}

fn cell(layout: &str, class: &str, file_system: &str, level: f64) -> Cell {
    let levels = [("layout", layout), ("class", class), ("fs", file_system)];
    Cell {
        id: levels.map(|(factor, level)| format!("{factor}={level}")).join(","),
        levels: map(levels.map(|(factor, level)| (factor, level.to_owned()))),
        how: How::Emulate,
        why: "emulated volumes, because no cloud is here".into(),
        measured: map([
            ("mib_per_s", summary("MiB/s", &values(level))),
            ("p99_ms", summary("ms", &values(2_000.0 / level))),
        ]),
        modelled: map([("mib_per_s", level * 1.03)]),
        published: map([("mib_per_s", level * 0.8)]),
        voided: 0,
        notes: Vec::new(),
    }
}

fn comparison(
    name: &str,
    (above, below): (&Cell, &Cell),
    expected: Option<(f64, f64)>,
    (modelled, published): (Option<f64>, Option<f64>),
) -> Comparison {
    let values = |cell: &Cell| cell.measured["mib_per_s"].values.clone();
    let mut drifted = values(above);
    drifted.iter_mut().enumerate().for_each(|(at, value)| *value *= 1.0 + 0.002 * (at as f64 - 3.5));
    let ratio = stats::paired_ratio(&drifted, &values(below)).expect("there are pairs");
    let stats::Interval { estimate, low, high, .. } = ratio.interval;
    Comparison {
        name: name.into(),
        numerator: above.id.clone(),
        denominator: below.id.clone(),
        metric: "mib_per_s".into(),
        ratio: estimate,
        low,
        high,
        confidence: Some(ratio.interval.confidence),
        pairs: ratio.pairs as u32,
        smallest_difference: ratio.smallest_difference.unwrap_or(f64::NAN),
        p_holm: Some(ratio.p),
        modelled,
        published,
        expected,
        null_control: false,
        met: expected.map(|(least, most)| least <= estimate && estimate <= most),
    }
}

/// A run as `lab run warm-tier --quick` leaves it.
fn run() -> Run {
    let mut cells = Vec::new();
    for file_system in ["ext4", "xfs", "zfs"] {
        for class in ["st1", "sc1"] {
            for (layout, part) in [("1x8TiB", 1.0), ("2x4TiB", 2.0), ("4x2TiB", 3.9), ("8x1TiB", 3.95)] {
                let level = if class == "st1" { 125.0 } else { 62.0 };
                cells.push(cell(layout, class, file_system, level * part));
            }
        }
    }
    cells[2].voided = 2;
    cells[2].notes = vec!["device_bytes: 3.1 % fewer bytes at the device than at the application".into()];
    cells[23].how = How::Skip;
    cells[23].why = "needs OpenZFS, which is not here".into();
    cells[23].measured.clear();
    let mut null = comparison("the same cell twice", (&cells[0], &cells[0]), None, (None, None));
    null.null_control = true;
    let four = (&cells[2], &cells[0]);
    let eight = (&cells[3], &cells[2]);
    let comparisons = vec![
        comparison("four volumes over one, st1", four, Some((3.6, 4.4)), (Some(4.0), Some(2.7))),
        comparison("eight volumes over four, st1", eight, Some((1.8, 2.2)), (Some(1.0), Some(1.9))),
        null,
    ];
    Run {
        format: FORMAT,
        study: "warm-tier".into(),
        title: "Warm tier on cheap volumes: how many, and under which file system?".into(),
        command: "frostline lab run warm-tier --quick --seed 7".into(),
        asked: Some(Asked { cpu_pressure_max: Some(90.0), ..Asked::default() }),
        started: "2026-11-21T20:00:00Z".into(),
        seed: 7,
        mode: Mode::Quick,
        time_scale: 600.0,
        machine: Machine {
            kernel: "6.12.1".into(),
            cpu: "Generic CPU".into(),
            cpus: 2,
            memory_bytes: 16 << 30,
            os: "Debian GNU/Linux 12".into(),
            hypervisor: Some("kvm".into()),
        },
        tools: map([("fio", "fio-3.33".to_owned()), ("mkfs.xfs", "mkfs.xfs version 6.1.0".to_owned())]),
        file_systems: map([("/mnt/a", "ext4 6a2c0d3e-8f57-4f0e-9c62-0d9a3b1f5e77".to_owned())]),
        devices: map([("/dev/sdb", "wwid naa.5000c500a1b2c3d4, 976773168 sectors".to_owned())]),
        cells,
        comparisons,
        notes: vec!["Volumes are emulated from the published rules of EBS; no cloud was used.".into()],
        korean: map([("The title of nothing", "무".to_owned())]),
        complete: true,
    }
}

fn samples() -> Vec<Sample> {
    let gate = |name: &str, passed| Gate { name: name.into(), what: "read 97 of 100 MiB".into(), passed };
    let sample = |block, passed| Sample {
        cell: run().cells[2].id.clone(),
        block,
        position: 1,
        at_s: 12.5,
        seconds: 5.0,
        values: map([("mib_per_s", 487.5)]),
        gates: vec![gate("device_bytes", passed), gate("steal", true)],
        raw: format!("raw/{block}.json"),
    };
    vec![sample(0, true), sample(1, false), sample(2, false)]
}

/// Every tag that a page may have after its head.
const TAGS: &[&str] = &[
    "head", "body", "html", "input", "nav", "label", "main", "h1", "h2", "h3", "p", "b", "i", "em", "small",
    "br", "span", "ul", "ol", "li", "dl", "dt", "dd", "code", "section", "article", "div", "details",
    "summary", "svg", "path", "line", "rect", "circle", "table", "thead", "tbody", "tr", "th", "td", "wbr",
];

/// What must hold of every page.
fn check_page(page: &str) {
    let body = page.split_once("</style>").expect("a page has a style").1;
    for tag in body.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
        let name = tag.trim_start_matches('/').split(' ').next().unwrap_or_default();
        assert!(TAGS.contains(&name), "{name:?} in {tag:?}");
        assert!(![" src", "href", " on", "style=\"b"].iter().any(|part| tag.contains(part)), "{tag:?}");
    }
    for outside in ["url(", "@import", "NaN", "inf%"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'), "a control character");
    for tag in [
        "main", "section", "article", "div", "table", "ul", "ol", "dl", "svg", "span", "p", "b", "i", "code",
        "details", "title",
    ] {
        let open = [" ", ">"].map(|end| page.matches(&format!("<{tag}{end}")).count()).iter().sum::<usize>();
        assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    // Every place on a drawing is on it.
    for (before, _) in body.match_indices("%\"").map(|(at, _)| body.split_at(at)) {
        let figure = before.rsplit(['"', ':']).next().expect("a split has a part");
        let place: f64 = figure.parse().unwrap_or_else(|_| panic!("{figure:?} is no place"));
        assert!((0.0..=100.0).contains(&place), "{figure}");
    }
    assert_eq!(
        page.matches("<span class=en lang=en>").count(),
        page.matches("<span class=ko lang=ko>").count()
    );
}

#[test]
fn a_page_says_what_was_asked_found_voided_and_where() {
    let run = run();
    let page = html(&run, &samples(), Language::English);
    check_page(&page);
    for text in [
        "how many, and under which file system?",
        "four volumes over one, st1",
        "as expected",
        "not as expected",
        "3.6 – 4.4",
        "Voided by gates: 2",
        "600 times smaller",
        "1 passed, 2 voided",
        "needs OpenZFS, which is not here",
        "null control: no difference, as it must be",
        "No difference was shown",
        "no cloud was used",
        "fio-3.33",
        "16.00 GiB",
        "frostline lab run warm-tier --quick --seed 7",
        "표본 2개가 무효 처리",
        "기대와 다름",
    ] {
        assert!(page.contains(text), "{text}");
    }
    // A chart of each metric, folded after some rows, with a row for each cell that has a figure; a row in the
    // table for each metric. The ratios are a chart of their own.
    assert_eq!(page.matches("<section class=rows>").count(), 1 + 2 * 2);
    assert_eq!(page.matches("<div class=entry>").count(), 3 + 24 + 23 + (1 + 2 * 2));
    let page = page.replace("<wbr>", "");
    assert!(run.cells.iter().all(|cell| page.contains(&format!("<td>{}<td>", cell.id))));
}

#[test]
fn a_page_opens_in_the_language_asked_for_and_holds_both() {
    let (english, korean) = (html(&run(), &[], Language::English), html(&run(), &[], Language::Korean));
    assert!(english.contains("<html lang=en>") && english.contains("id=english checked>"));
    assert!(korean.contains("<html lang=ko>") && korean.contains("id=korean checked>"));
    assert!(english.contains("신뢰구간") && korean.contains("95 % intervals"));
}

#[test]
fn nothing_measured_and_nothing_complete_are_loud() {
    let mut run = run();
    (run.mode, run.complete) = (Mode::Simulate, false);
    for comparison in &mut run.comparisons {
        (comparison.pairs, comparison.ratio, comparison.p_holm) = (0, f64::NAN, None);
    }
    let page = html(&run, &[], Language::English);
    check_page(&page);
    for text in
        ["Nothing was measured", "The run is not complete", "by the model", "null control: not measured"]
    {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("No difference was shown"));
}

#[test]
fn a_null_control_with_a_difference_and_too_few_pairs_are_said() {
    let mut run = run();
    (run.comparisons[2].ratio, run.comparisons[2].low, run.comparisons[2].high) = (1.1, 1.05, 1.2);
    run.comparisons[0].pairs = 5;
    let page = html(&run, &[], Language::English);
    assert!(page.contains("shows a difference where there is none"));
    assert!(page.contains("5 pairs are too few for a test (6 are needed)"));
    assert!(markdown(&run).contains("shows a difference where there is none"));
    // The range of few values misses often, without meaning.
    run.comparisons[2].pairs = 3;
    let page = html(&run, &[], Language::English);
    assert!(
        !page.contains("shows a difference where there is none")
            && page.contains("null control: too few pairs")
    );
    assert!(!markdown(&run).contains("shows a difference where there is none"));
}

#[test]
fn thousands_of_cells_make_a_page_of_bounded_drawings() {
    let mut run = run();
    let original = run.cells[0].clone();
    run.cells = (0..5000)
        .map(|at| {
            let mut cell = original.clone();
            cell.id = format!("n={at},{}", cell.id);
            cell.levels.insert("n".into(), at.to_string());
            cell.levels.insert("class".into(), (at % 70).to_string());
            cell.notes = vec![format!("note {at}")];
            cell.voided = 1;
            cell
        })
        .collect();
    run.comparisons = (0..500).map(|_| run.comparisons[0].clone()).collect();
    let page = html(&run, &samples(), Language::English);
    check_page(&page);
    assert!(page.len() < 8 << 20, "{} bytes", page.len());
    assert!(page.matches("class=strip").count() < 3000 && page.contains("440 more comparisons"));
    assert_eq!(page.matches("<tr class=first><td>n=").count(), 5000, "every cell is in the table");
}

#[test]
fn what_is_asked_is_drawn_first_and_what_never_varies_is_said_once() {
    let mut run = run();
    for cell in &mut run.cells {
        cell.modelled.insert("base_limit_mib_per_s".into(), 320.0);
    }
    let page = html(&run, &[], Language::English);
    check_page(&page);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    let folded = at("2 other metrics");
    assert!(at("<h2><code>mib_per_s</code>") < folded && folded < at("<h2><code>p99_ms</code>"));
    assert!(at("The same in all 24 cells: 320.0") > folded);
}

#[test]
fn what_a_study_translates_is_there_in_both_languages() {
    let mut run = run();
    let name = run.comparisons[0].name.clone();
    let korean = [(run.title.clone(), "제목"), (name.clone(), "비교 <b>")];
    run.korean = korean.map(|(text, korean)| (text, korean.to_owned())).into();
    run.comparisons[0].name = format!("{name}, fs=ext4");
    run.comparisons[2].name = "null control, iops".to_owned();
    let page = html(&run, &[], Language::Korean);
    check_page(&page);
    assert!(page.contains("<span class=ko lang=ko>제목</span>"));
    assert!(page.contains("<span class=ko lang=ko>비교 &lt;b&gt;, fs=ext4</span>"));
    assert!(page.contains("<span class=ko lang=ko>대조군, iops</span>"));
    assert!(page.contains("<title>제목</title>"));
}

#[test]
fn a_run_that_is_older_than_a_translation_has_it() {
    let translated = translated(run()).unwrap();
    assert!(translated.korean.len() > run().korean.len(), "{:?}", translated.korean);
    assert_eq!(translated.korean["The title of nothing"], "무");
    let unknown = super::translated(Run { study: "of my own".to_owned(), ..run() }).unwrap();
    assert_eq!(unknown.korean, run().korean);
}

#[test]
fn what_each_cpu_took_is_a_column_each_and_no_chart_of_its_own() {
    let mut run = run();
    let shares = [("irq_cpu0_percent", 25.0), ("irq_cpu3_percent", 75.0)];
    run.cells[0].measured.extend(shares.map(|(name, value)| (name.to_owned(), summary("%", &[value]))));
    run.cells[1].published.insert("irq_cpu15_percent".to_owned(), 89.95);
    run.cells[1].published.insert("irq_cpu900_percent".to_owned(), 1.0);
    let page = html(&run, &[], Language::English);
    check_page(&page);
    assert_eq!(page.matches("class=cpus").count(), 2);
    assert!(page.contains("<code>irq</code> by CPU") && !page.contains("<code>irq_cpu0_percent"));
    assert!(page.contains("CPU3 75.00 %, CPU0 25.00 %") && page.contains("viewBox=\"0 0 4 100\""));
    assert!(page.contains(&format!("CPU15 {} %", number(89.95))) && page.contains("viewBox=\"0 0 16 100\""));
}

#[test]
fn a_cell_with_a_factor_of_its_own_has_a_chart_of_its_own() {
    let mut run = run();
    let mut control = run.cells[0].clone();
    control.id.push_str(",control=again");
    control.levels.insert("control".into(), "again".into());
    run.cells.push(control);
    let page = html(&run, &[], Language::English);
    assert!(page.contains("<p>class st1 · fs ext4 · control again · layout 1x8TiB</p>"));
}

#[test]
fn an_empty_run_makes_a_page() {
    let empty = Run {
        cells: Vec::new(),
        comparisons: Vec::new(),
        notes: Vec::new(),
        tools: BTreeMap::new(),
        file_systems: BTreeMap::new(),
        devices: BTreeMap::new(),
        ..run()
    };
    check_page(&html(&empty, &[], Language::Korean));
    assert!(markdown(&empty).contains("0 cells"));
    let compared = compare(&empty, &empty).unwrap();
    assert!(compared.cells.is_empty() && compared.changes.is_empty());
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![prop::sample::select(&HOSTILE[..]).prop_map(str::to_owned), ".{0,8}"]
}

fn any_number() -> impl Strategy<Value = f64> {
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        1.0,
        -3.5,
    ];
    prop_oneof![prop::sample::select(special.to_vec()), prop::num::f64::ANY, 0.1..1e4]
}

fn any_cell() -> impl Strategy<Value = Cell> {
    let metric = || prop_oneof![Just("mib_per_s".to_owned()), any_text()];
    let summaries =
        (any_text(), prop::collection::vec(any_number(), 0..5), any_number(), any_number(), any_number())
            .prop_map(|(unit, values, median, low, high)| Summary {
                unit,
                values,
                median,
                low,
                high,
                confidence: None,
            });
    (
        (
            any_text(),
            prop::collection::btree_map(
                prop::sample::select(vec!["a".to_owned(), "<b".to_owned(), "c".to_owned()]),
                any_text(),
                0..3,
            ),
        ),
        prop::sample::select(vec![How::Run, How::Skip, How::Fixture]),
        any_text(),
        prop::collection::btree_map(metric(), summaries, 0..3),
        prop::collection::btree_map(metric(), any_number(), 0..3),
        prop::collection::btree_map(metric(), any_number(), 0..3),
        0..3_u32,
        prop::collection::vec(any_text(), 0..3),
    )
        .prop_map(|((id, levels), how, why, measured, modelled, published, voided, notes)| Cell {
            id,
            levels,
            how,
            why,
            measured,
            modelled,
            published,
            voided,
            notes,
        })
}

fn any_comparison() -> impl Strategy<Value = Comparison> {
    (
        [any_text(), any_text(), any_text()],
        [any_number(), any_number(), any_number(), any_number()],
        [(); 3].map(|()| prop::option::of(any_number())),
        prop::option::of((any_number(), any_number())),
        (0..20_u32, any::<bool>(), any::<Option<bool>>()),
    )
        .prop_map(
            |(
                [name, side, metric],
                [ratio, low, high, smallest_difference],
                [p_holm, modelled, published],
                expected,
                (pairs, null_control, met),
            )| {
                Comparison {
                    name,
                    numerator: side.clone(),
                    denominator: side,
                    metric,
                    ratio,
                    low,
                    high,
                    confidence: None,
                    pairs,
                    smallest_difference,
                    p_holm,
                    modelled,
                    published,
                    expected,
                    null_control,
                    met,
                }
            },
        )
}

fn any_run() -> impl Strategy<Value = Run> {
    (
        [any_text(), any_text(), any_text(), any_text()],
        prop::collection::vec(any_cell(), 0..6),
        prop::collection::vec(any_comparison(), 0..4),
        prop::collection::vec(any_text(), 0..4),
        any_number(),
        any::<(u64, bool)>(),
    )
        .prop_map(
            |([title, command, cpu, tool], cells, comparisons, notes, time_scale, (seed, complete))| Run {
                title,
                command: command.clone(),
                started: command,
                seed,
                complete,
                cells,
                korean: notes.iter().cloned().zip(notes.iter().rev().cloned()).collect(),
                comparisons,
                notes,
                time_scale,
                machine: Machine {
                    cpu,
                    memory_bytes: seed,
                    hypervisor: Some(tool.clone()),
                    ..Machine::default()
                },
                tools: BTreeMap::from([(tool.clone(), tool)]),
                ..run()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_a_run_holds_its_reports_are_sane(first in any_run(), second in any_run()) {
        check_page(&html(&first, &samples(), Language::English));
        let compared = compare(&first, &second).unwrap();
        for text in [markdown(&first), compared.text()] {
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
            prop_assert!(!text.contains("NaN"), "{text:?}");
        }
        let text = markdown(&first);
        // `>` alone begins our warnings; nothing begins a tag.
        prop_assert!(!text.contains('<'), "{text}");
        for line in text.lines().filter(|line| line.starts_with('|')) {
            prop_assert!(line.ends_with('|'), "{line:?}");
        }
        prop_assert!(serde_json::to_string(&compared).is_ok());
    }

    #[test]
    fn any_points_make_a_front(points in prop::collection::vec((any_number(), any_number(), any_text(), any::<bool>()), 0..30)) {
        let points: Vec<Point> = points
            .into_iter()
            .map(|(dollars, mib_per_s, label, on_front)| Point {
                dollars,
                mib_per_s,
                series: label.clone(),
                label,
                on_front,
                is_answer: !on_front,
            })
            .collect();
        check_page(&pareto_page("front", ("Buy <it>.", "구매 <it>."), Some(5.0), &points, &["A <note>.".to_owned()], Language::English));
    }
}

#[test]
fn a_front_is_drawn_and_listed_by_price() {
    let point = |dollars, mib_per_s, label: &str, on_front| Point {
        dollars,
        mib_per_s,
        label: label.into(),
        series: label.rsplit(' ').next().unwrap().into(),
        on_front,
        is_answer: on_front && mib_per_s > 200.0,
    };
    let points = [
        point(400.0, 500.0, "4 x <st1>", true),
        point(90.0, 120.0, "1 x sc1", true),
        point(900.0, 300.0, "gp3", false),
    ];
    let html = pareto(Some(200.0), &points);
    // The answer first, with its number on the chart; what is slower is folded.
    let places = [
        "<ol start=2><li><b>4 x &lt;st1&gt;</b>: ",
        "$400.00 a month",
        "<details>",
        "<ol start=1><li><b>1 x sc1</b>",
    ];
    let places = places.map(|label| html.find(label).unwrap_or_else(|| panic!("{label}: {html}")));
    assert!(places.is_sorted() && !html.contains("<b>gp3"), "{html}");
    // Three points, the ring of the answer, and four marks of the legend; two steps of the front and its mark.
    assert_eq!((html.matches("<circle").count(), html.matches("class=front").count()), (8, 3));
    assert_eq!((html.matches("class=answer").count(), html.matches("\"series s1\"").count()), (2, 2));
    assert_eq!(html.matches("needed all day").count(), 1);
    // An answer that holds a peak by its credits sustains less than that, and is the first of the list all the same.
    let mut points = points.clone();
    (points[0].is_answer, points[1].is_answer) = (false, true);
    let html = pareto(None, &points);
    assert!(html.contains("<ol start=1><li><b>1 x sc1</b>") && !html.contains("needed"), "{html}");
}

#[test]
fn markdown_has_the_answer_and_every_cell() {
    let text = markdown(&run());
    for part in
        ["**2 samples were voided**", "| 3.6 – 4.4 |", "**not as expected**", "null control", "fio-3.33"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // The metric that the comparisons ask for; of the other, each cell but the one that was left out has a figure.
    let rows = text.lines().filter(|line| line.starts_with("| layout=")).count();
    assert_eq!(rows, 24);
    assert!(text.contains("\n23 figures of other metrics are in `run.json`"), "{text}");
}

#[test]
fn a_range_of_few_values_is_not_called_an_interval() {
    let mut run = run();
    run.cells[0].measured = map([("mib_per_s", summary("MiB/s", &[100.0, 120.0, 130.0, 150.0]))]);
    let null = &mut run.comparisons[2];
    (null.low, null.high, null.pairs) = (0.25, 3.5, 4);
    let text = markdown(&run);
    assert!(text.contains("| 0.250 – 3.50 (range of 4: 88 %) | 4 |"), "{text}");
    assert!(text.contains("null control: this run tells nothing below 4.00 times"), "{text}");
    assert!(text.contains("| 100.0 – 150.0 (range of 4: 88 %) | 4 |"), "{text}");
    let page = html(&run, &[], Language::English);
    assert!(page.contains("<td>100.0 – 150.0 (range of 4: 88 %)<td>4"));
    assert!(page.contains("null control: too few pairs"));
    assert!(page.contains("[100.0 – 150.0]</span> <i><span class=en lang=en>range of 4</span>"));
    assert!(page.contains("[0.250 – 3.50], <span class=en lang=en>range of 4 pairs</span>"));
    let asked = &mut run.comparisons[0];
    (asked.low, asked.high, asked.pairs) = (3.5, 4.0, 3);
    assert!(html(&run, &[], Language::English).contains(" times (3.50 to 4.00, the range of 3 pairs)"));
    run.comparisons[0].pairs = 1;
    let page = html(&run, &[], Language::English);
    assert!(page.contains(" times (one pair)") && !page.contains("[3.50 – 4.00]"), "{page}");
}

#[test]
fn comparisons_of_one_name_are_one_sentence() {
    let mut run = run();
    let levels = ["16k", "32k", "64k", "128k"].map(|bs| Comparison {
        name: format!("zfs, four over one, bs={bs}, guests=1"),
        expected: None,
        met: None,
        published: Some(2.7),
        ..run.comparisons[0].clone()
    });
    run.comparisons.splice(0..2, levels);
    run.comparisons[1].published = None;
    (run.comparisons[2].low, run.comparisons[2].high) = (0.9, 4.0);
    run.korean = map([("zfs, four over one", "넷 대 하나".to_owned())]);
    let page = html(&run, &[], Language::English);
    check_page(&page);
    let words = page.split("<ul class=words>").nth(1).unwrap().split("</ul>").next().unwrap();
    assert_eq!(words.matches("<li>").count(), 1, "{words}");
    for part in [
        "넷 대 하나",
        "</b> times at bs=16k, guests=1; ",
        "</b> at bs=64k, guests=1, so no difference was shown; ",
        "bs=128k, guests=1 <b>",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(!words.contains("published"), "one level has no published value: {words}");
    run.comparisons[1].published = Some(2.7);
    assert!(html(&run, &[], Language::English).contains("at bs=128k, guests=1; 2.7 was published."));
}

#[test]
fn what_power_cuts_took_is_the_answer() {
    let mut run = run();
    run.comparisons.clear();
    run.cells.truncate(3);
    for (cell, lost) in run.cells.iter_mut().zip([0.0, 299.0, 0.0]) {
        let one = |value: f64| summary("", &[value]);
        cell.measured = map([("a_metric", one(7.0)), ("cuts", one(500.0)), ("lost_acknowledged", one(lost))]);
        (cell.modelled, cell.published) = Default::default();
    }
    let page = html(&run, &[], Language::English);
    check_page(&page);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    let words = at("<li>1x8TiB, 4x2TiB: <span class=en lang=en>500 power cuts, nothing lost.");
    let lost = at(
        "<li>2x4TiB: <span class=en lang=en>of 500 power cuts, <b>299</b> lost data that fsync had acknowledged.",
    );
    assert!(words < lost && lost < at("<h2><code>lost_acknowledged</code>"));
    assert!(
        at("<h2><code>lost_acknowledged</code>") < at("2 other metrics"),
        "it is the metric that is drawn"
    );
    assert!(!page.contains("asks for no ratio"));
}

#[test]
fn a_legend_has_the_marks_that_are_there() {
    let legend = |run: &Run| {
        let page = html(run, &[], Language::English);
        let legend = page.split("<p class=marks>").nth(1).unwrap();
        legend.split("</p>").next().unwrap().to_owned()
    };
    let mut run = run();
    assert!(["model", "published", "expected"].iter().all(|mark| legend(&run).contains(mark)));
    for comparison in &mut run.comparisons {
        (comparison.modelled, comparison.published, comparison.expected) = (None, None, None);
    }
    assert!(!["model", "published", "expected"].iter().any(|mark| legend(&run).contains(mark)));
}

#[test]
fn runs_are_compared_cell_by_cell_with_what_changed_around_them() {
    let (first, mut second) = (run(), run());
    second.machine.kernel = "6.18.0".into();
    second.tools.remove("fio");
    second.cells[0].measured.insert("mib_per_s".into(), summary("MiB/s", &values(150.0)));
    second.cells[1].measured.clear();
    let compared = compare(&first, &second).unwrap();
    let whats: Vec<&str> = compared.changes.iter().map(|change| change.what.as_str()).collect();
    assert_eq!(whats, ["kernel", "tool fio"]);
    assert_eq!(compared.only_first.len(), 2);
    assert!(compared.only_second.is_empty());
    let differing: Vec<&CellChange> = compared.cells.iter().filter(|cell| cell.differs).collect();
    let [changed] = differing[..] else { panic!("one cell changed: {differing:?}") };
    assert!((changed.ratio - 1.2).abs() < 1e-9 && changed.low < 1.2 && 1.2 < changed.high, "{changed:?}");
    assert_eq!(changed.cell, first.cells[0].id);
    let text = compared.text();
    assert!(text.contains("kernel: 6.12.1 -> 6.18.0") && text.contains("differs, p = "), "{text}");
    assert!(text.contains("no difference shown"), "{text}");

    // Five values a side and 46 tests: whatever the ratio, no p is below 0.05 after correction.
    let (mut few, mut fewer) = (run(), run());
    for run in [&mut few, &mut fewer] {
        let summaries = run.cells.iter_mut().flat_map(|cell| cell.measured.values_mut());
        summaries.for_each(|summary| summary.values.truncate(5));
    }
    fewer.cells[0].measured.insert("mib_per_s".into(), summary("MiB/s", &values(250.0)[..5]));
    let text = compare(&few, &fewer).unwrap().text();
    assert!(
        text.contains("interval excludes 1, not confirmed over all cells") && !text.contains("differs"),
        "{text}"
    );

    second.study = "mount-options".into();
    assert_eq!(compare(&first, &second).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_run_reads_back_and_a_newer_one_is_refused() {
    let mut run = run();
    let text = serde_json::to_string(&run).unwrap();
    // Figures may differ in the last bit, which no report shows.
    let read = parse_run(&text).unwrap();
    assert!(html(&read, &[], Language::English) == html(&run, &[], Language::English));
    assert!(read.cells.len() == run.cells.len() && read.seed == run.seed);
    // What is no number is null in JSON and stays unknown.
    run.comparisons[0].smallest_difference = f64::NAN;
    let read = parse_run(&serde_json::to_string(&run).unwrap()).unwrap();
    assert!(read.comparisons[0].smallest_difference.is_nan());

    let error = parse_run(r#"{"format": 2, "unknown": true}"#).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.what().contains("newer frostline") && error.fact("format") == Some("2"), "{error}");
    for damaged in ["", "[]", "{}", r#"{"format": 1}"#, r#"{"format": "1"}"#, &text[..text.len() - 1]] {
        assert_eq!(parse_run(damaged).unwrap_err().kind(), ErrorKind::Corrupt, "{damaged:.30}");
    }
}

#[test]
fn samples_read_back_up_to_a_line_that_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(read_samples(folder.path()).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(read_run(folder.path()).unwrap_err().kind(), ErrorKind::NotFound);
    let lines: Vec<String> = samples().iter().map(|sample| serde_json::to_string(sample).unwrap()).collect();
    let file = folder.path().join("samples.ndjson");
    std::fs::write(&file, format!("{}\n{}\n{}", lines[0], lines[1], &lines[2][..20])).unwrap();
    assert_eq!(read_samples(folder.path()).unwrap(), samples()[..2]);
    std::fs::write(&file, format!("{}\nnot a sample\n", lines[0])).unwrap();
    let error = read_samples(folder.path()).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("samples.ndjson:2"), "{error}");
}

#[test]
fn real_records_are_valid_by_the_schema_and_broken_ones_are_not() {
    let schema = schema();
    let root = &schema["$defs"]["run"];
    let mut unknown = run();
    unknown.comparisons[0].smallest_difference = f64::NAN;
    for run in [run(), unknown] {
        assert_eq!(violation(&schema, root, &serde_json::to_value(&run).unwrap(), "run"), None);
    }
    for sample in samples() {
        let value = serde_json::to_value(&sample).unwrap();
        assert_eq!(violation(&schema, &schema["$defs"]["sample"], &value, "sample"), None);
    }
    let break_at = |pointer: &str, to: Value| {
        let mut value = serde_json::to_value(run()).unwrap();
        *value.pointer_mut(pointer).unwrap() = to;
        violation(&schema, root, &value, "run")
    };
    for (pointer, to, expected) in [
        ("/format", json!(2), "run.format"),
        ("/seed", json!(-1), "run.seed"),
        ("/mode", json!("fast"), "run.mode"),
        ("/machine/cpus", json!("2"), "run.machine.cpus"),
        ("/cells/0", json!({"id": "x"}), "run.cells[0]"),
        ("/cells/0/measured/mib_per_s/values/0", json!("x"), "run.cells[0].measured.mib_per_s.values[0]"),
        ("/comparisons/0/expected", json!([1.0]), "run.comparisons[0].expected"),
        ("/tools", json!({"fio": 3}), "run.tools.fio"),
    ] {
        assert_eq!(break_at(pointer, to).as_deref(), Some(expected));
    }
    let mut more = serde_json::to_value(run()).unwrap();
    more["surprise"] = json!(1);
    assert_eq!(violation(&schema, root, &more, "run").as_deref(), Some("run.surprise"));
}

/// Where `value` breaks `rule`: those keywords of JSON Schema that ours has. Others are an error of the test.
fn violation(schema: &Value, rule: &Value, value: &Value, at: &str) -> Option<String> {
    let broken = || Some(at.to_owned());
    for (keyword, rule_of) in rule.as_object().expect("a schema is an object") {
        let found = match keyword.as_str() {
            "description" => None,
            "$ref" => {
                let pointer = rule_of.as_str().expect("a reference is text").trim_start_matches('#');
                violation(schema, schema.pointer(pointer).expect("a reference is to something"), value, at)
            }
            "type" => {
                let types = rule_of.as_array().cloned().unwrap_or_else(|| vec![rule_of.clone()]);
                (!types.iter().any(|name| has_type(value, name.as_str().expect("a type is text"))))
                    .then(broken)
                    .flatten()
            }
            "const" => (value != rule_of).then(broken).flatten(),
            "enum" => {
                (!rule_of.as_array().expect("an enum is a list").contains(value)).then(broken).flatten()
            }
            "minimum" => (value.as_f64() < rule_of.as_f64()).then(broken).flatten(),
            "minItems" => {
                (value.as_array().is_some_and(|all| (all.len() as u64) < rule_of.as_u64().unwrap()))
                    .then(broken)
                    .flatten()
            }
            "maxItems" => (value.as_array().is_some_and(|all| all.len() as u64 > rule_of.as_u64().unwrap()))
                .then(broken)
                .flatten(),
            "anyOf" => {
                let rules = rule_of.as_array().expect("anyOf is a list");
                rules.iter().all(|one| violation(schema, one, value, at).is_some()).then(broken).flatten()
            }
            "items" => value
                .as_array()
                .into_iter()
                .flatten()
                .enumerate()
                .find_map(|(item, value)| violation(schema, rule_of, value, &format!("{at}[{item}]"))),
            "required" => {
                let names = rule_of.as_array().expect("required is a list");
                names.iter().any(|name| value.get(name.as_str().unwrap()).is_none()).then(broken).flatten()
            }
            "properties" => {
                rule_of.as_object().unwrap().iter().find_map(|(name, rule)| {
                    violation(schema, rule, value.get(name)?, &format!("{at}.{name}"))
                })
            }
            "additionalProperties" => {
                let known = rule.get("properties").and_then(Value::as_object);
                value.as_object().into_iter().flatten().find_map(|(name, value)| {
                    let at = format!("{at}.{name}");
                    match (known.is_some_and(|known| known.contains_key(name)), rule_of) {
                        (true, _) => None,
                        (false, Value::Bool(_)) => Some(at),
                        (false, rule) => violation(schema, rule, value, &at),
                    }
                })
            }
            other => panic!("the walk does not know {other}"),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("{other} is no type"),
    }
}

#[test]
fn numbers_read_well() {
    for (value, text) in [
        (0.0, "0"),
        (0.01234, "0.0123"),
        (0.5, "0.500"),
        (0.9996, "1.00"),
        (3.966, "3.97"),
        (99.96, "100.0"),
        (123.45, "123.5"),
        (999.96, "1,000"),
        (1_234_567.0, "1,234,567"),
        (-2.5, "−2.50"),
        (1e-9, "1.00e−9"),
        (1e300, "1.00e300"),
        (f64::NAN, "–"),
        (f64::NEG_INFINITY, "−∞"),
    ] {
        assert_eq!(number(value), text);
    }
    for (value, text) in [(3.6, "3.6"), (600.0, "600"), (1e-9, "1e−9"), (0.05, "0.05"), (1200.0, "1,200")] {
        assert_eq!(round(value), text);
    }
    for (value, text) in
        [(0.99487, "0.995"), (1.0076, "1.008"), (3.966, "3.97"), (0.05, "0.050"), (0.001, "0.0010")]
    {
        assert_eq!(ratio(value), text);
    }
    assert_eq!((percent(0.0213), percent(f64::NAN)), ("2.1 %".to_owned(), "– %".to_owned()));
    assert_eq!(
        (bytes(0), bytes(1536), bytes(u64::MAX)),
        ("0 B".into(), "1.50 KiB".into(), "16,384 PiB".into())
    );
}

#[test]
fn a_measurement_has_a_page_with_its_curve_and_its_watch() {
    let page = load_page(&crate::measure::text::tests::example(), Language::English);
    for words in [
        "Limit: <b>80.00 IOPS</b>",
        "the bucket held <b>20,950 requests</b> of 128 KiB",
        "Knee: <b>78.00 IOPS</b>",
        "꺾이는 점: <b>78.00 IOPS</b>",
        "Cost: $92.16 a month for st1:2TiB",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // The knee is a ring on its point, and in the legend.
    assert_eq!(page.matches("class=answer").count(), 2);
    // A curve and a watch of the first path; the second one failed before either.
    assert_eq!(page.matches("class=\"panel load\"").count(), 2);
    assert_eq!(page.matches("Failed").count(), 1);
    assert!(page.contains("/mnt/&lt;b&gt;") && !page.contains("<b> disappeared"), "a path is no markup");
}

#[test]
fn text_cannot_become_markup_or_a_command() {
    assert_eq!(escape("<b onclick=\"x\">&'"), "&lt;b onclick=&quot;x&quot;&gt;&amp;&#39;");
    assert_eq!(escape("5 % – 한국어\n"), "5 % – 한국어 ");
    assert_eq!(of_run(&BTreeMap::new(), "`<b>` is `x`."), "<code>&lt;b&gt;</code> is <code>x</code>.");
    assert_eq!(of_run(&BTreeMap::new(), "a ` alone"), "a ` alone");
    assert_eq!(plain("\u{1b}[31mred\u{202e}"), "\u{fffd}[31mred\u{fffd}");
    assert_eq!(escape_markdown("a|b\n`<x>`*"), "a\\|b \\`&lt;x&gt;\\`\\*");
}

/// [`run`] by the model alone.
fn simulated() -> Run {
    let mut run = run();
    run.mode = Mode::Simulate;
    for cell in &mut run.cells {
        cell.measured.clear();
        cell.published.clear();
    }
    for comparison in &mut run.comparisons {
        comparison.pairs = 0;
    }
    run
}

#[test]
fn a_simulation_is_a_matrix_in_markdown() {
    let mut run = simulated();
    // One that lies outside of the matrix of the others.
    run.cells[0].levels.remove("class");
    let text = markdown(&run);
    assert!(text.contains("## By the model: mib\\_per\\_s, by layout\n"), "{text}");
    assert!(text.contains("| class | fs | 1x8TiB | 2x4TiB | 4x2TiB | 8x1TiB |\n"), "{text}");
    assert!(text.contains("| – | ext4 | 128.8 | – | – | – |\n"), "{text}");
    assert!(text.contains("| sc1 | zfs | 63.86 | 127.7 | 249.1 | 252.2 |\n"), "{text}");
    assert!(!text.contains("## Every cell"), "{text}");
    assert!(text.lines().count() < 60, "{text}");
    // Measured cells have intervals and notes of their own.
    run.mode = Mode::Quick;
    assert!(markdown(&run).contains("## Every cell"));
}

#[test]
fn a_simulation_is_lines_on_a_page() {
    let page = html(&simulated(), &[], Language::English);
    check_page(&page);
    // A chart for each class and a line for each file system over the layouts.
    assert_eq!(page.matches("<section class=\"panel load\">").count(), 2);
    assert_eq!(page.matches("<line class=\"line l2\"").count(), 2 * 3);
    assert!(!page.contains("<section class=panel>"));
}

#[test]
fn a_page_answers_in_words_and_folds_what_is_for_checking() {
    let page = html(&run(), &samples(), Language::English);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    let words = at("Of 2 ratios with an expected range: 1 as expected, 1 not as expected.");
    let chart = at("<section class=rows>");
    assert!(
        at("<h2><span class=en lang=en>The answer") < words
            && words < chart
            && chart < at("<div class=cards>")
    );
    assert!(page.contains("; 2.7 was published."));
    for folded in ["Every cell", "How to read it", "Provenance", "How the cells were had"] {
        assert!(page.contains(&format!("<details><summary><span class=en lang=en>{folded}")), "{folded}");
    }
    let mut many = run();
    many.comparisons = (0..15).map(|_| many.comparisons[0].clone()).collect();
    let page = html(&many, &[], Language::English);
    check_page(&page);
    assert!(page.contains("6 more ratios"));
}

#[test]
fn a_verdict_needs_an_interval_on_one_side() {
    let mut comparison = run().comparisons[0].clone();
    let verdict = |comparison: &mut Comparison, (low, high): (f64, f64)| {
        (comparison.low, comparison.high) = (low, high);
        (comparison.judged(), comparison.is_open())
    };
    // Expected: 3.6 to 4.4.
    assert_eq!(verdict(&mut comparison, (3.7, 4.3)), (Some(true), false));
    assert_eq!(verdict(&mut comparison, (1.0, 3.5)), (Some(false), false));
    assert_eq!(verdict(&mut comparison, (4.5, 9.0)), (Some(false), false));
    assert_eq!(verdict(&mut comparison, (3.0, 4.0)), (None, true));
    assert_eq!(verdict(&mut comparison, (f64::NAN, f64::NAN)), (None, true));
    // All of five pairs on one side happens by chance once in sixteen runs.
    comparison.pairs = 5;
    assert_eq!(verdict(&mut comparison, (1.0, 3.5)), (None, true));
    assert_eq!(verdict(&mut comparison, (3.7, 4.3)), (None, true));
    let mut run = run();
    (run.comparisons[0].low, run.comparisons[0].high) = (0.8, 21.0);
    assert!(markdown(&run).contains("| too scattered to tell, p"), "{}", markdown(&run));
    assert!(html(&run, &[], Language::English).contains("too scattered to tell"));
    run.comparisons[0].pairs = 2;
    assert!(markdown(&run).contains("| too few pairs to tell, p"), "{}", markdown(&run));
    assert!(html(&run, &[], Language::English).contains("too few pairs to tell"));
    // The model alone has no interval.
    comparison.pairs = 0;
    assert_eq!(comparison.judged(), comparison.met);
}
