//! The figures, and the table that shows them.

use anyhow::Result;
use frostline_show::{Table, say, show_bytes, show_count};
use serde::Serialize;

use super::names::Shares;
use super::questions::{Design, Pass, Question};
use super::regions::Judged;
use super::segments::Size;
use crate::report::{median, show_ms};
use crate::tiers::Check;
use crate::trial::Sample;

/// What one measurement took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) ms: f64,
    /// Of all threads, the simulated store included.
    pub(super) processor_ms: Option<f64>,
    /// The most memory of the process meanwhile.
    pub(super) memory_bytes: Option<u64>,
    pub(super) gets: u64,
    pub(super) puts: u64,
    pub(super) bytes_fetched: u64,
    pub(super) bytes_used: u64,
    /// Reads of which each waited for the one before.
    pub(super) rounds: u64,
    /// Splits of which anything was read, from the store or the cache.
    pub(super) splits: u64,
    /// Needle segments of which anything was read.
    pub(super) pages: u64,
}

impl Figures {
    /// Of something that was measured while something else was.
    pub(super) fn of(sample: &Sample) -> Figures {
        Figures {
            ms: sample.ms,
            gets: sample.gets,
            bytes_fetched: sample.bytes_fetched,
            bytes_used: sample.bytes_used,
            ..Figures::default()
        }
    }
}

/// What is measured beside the questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) enum Step {
    Commit(Design),
    Mount(Design),
    Open(Design),
    /// A part of opening.
    Directories,
    Regions,
    Segments,
    Packs,
}

impl Step {
    pub(super) const ALL: [Step; 10] = [
        Step::Segments,
        Step::Packs,
        Step::Open(Design::Segments),
        Step::Directories,
        Step::Open(Design::EverySplit),
        Step::Commit(Design::Segments),
        Step::Commit(Design::EverySplit),
        Step::Mount(Design::Segments),
        Step::Mount(Design::EverySplit),
        Step::Regions,
    ];

    pub(super) fn name(self) -> String {
        let name = match self {
            Step::Commit(_) => "commit one more split",
            Step::Mount(_) => "mount: fetch all hot footers",
            Step::Open(_) => "open catalog and segments",
            Step::Directories => "of which segments",
            Step::Segments => "merge runs into segments",
            Step::Packs => "pack hot footers",
            Step::Regions => "fetch the first region of each split",
        };
        name.to_owned()
    }

    pub(super) fn design(self) -> &'static str {
        match self {
            Step::Commit(design) | Step::Mount(design) | Step::Open(design) => design.name(),
            Step::Segments | Step::Packs | Step::Directories => Design::Segments.name(),
            Step::Regions => "whole regions",
        }
    }
}

/// Measurements of one thing.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    pub(super) what: String,
    pub(super) design: &'static str,
    pub(super) pass: &'static str,
    /// The middle of each figure by itself.
    pub(super) median: Figures,
    pub(super) ms_min: f64,
    pub(super) ms_max: f64,
    pub(super) samples: Vec<Figures>,
}

impl Cell {
    /// None without samples.
    pub(super) fn of(
        what: String,
        design: &'static str,
        pass: &'static str,
        samples: Vec<Figures>,
    ) -> Option<Cell> {
        let count =
            |figure: fn(&Figures) -> u64| median(samples.iter().map(|s| figure(s) as f64)).map(|m| m as u64);
        let ms = || samples.iter().map(|sample| sample.ms);
        let median = Figures {
            ms: median(ms())?,
            processor_ms: median(samples.iter().filter_map(|sample| sample.processor_ms)),
            memory_bytes: median(samples.iter().filter_map(|s| s.memory_bytes.map(|bytes| bytes as f64)))
                .map(|bytes| bytes as u64),
            gets: count(|sample| sample.gets)?,
            puts: count(|sample| sample.puts)?,
            bytes_fetched: count(|sample| sample.bytes_fetched)?,
            bytes_used: count(|sample| sample.bytes_used)?,
            rounds: count(|sample| sample.rounds)?,
            splits: count(|sample| sample.splits)?,
            pages: count(|sample| sample.pages)?,
        };
        let (ms_min, ms_max) = (ms().fold(f64::INFINITY, f64::min), ms().fold(0.0, f64::max));
        Some(Cell { what, design, pass, median, ms_min, ms_max, samples })
    }
}

/// A published time of a question for one term with five hits, or of the dashboard.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Published {
    pub(super) what: &'static str,
    pub(super) first_ms: f64,
    pub(super) repeat_ms: f64,
}

/// Of the study of 2021, with a cache of 5 %.
pub(super) fn published() -> Vec<Published> {
    vec![
        Published { what: "one term, 4 TB in 50 shards", first_ms: 6_257.0, repeat_ms: 76.0 },
        Published { what: "one term, 1 PB in 12,500 shards", first_ms: 554_000.0, repeat_ms: 127_000.0 },
        Published { what: "dashboard, 4 TB in 50 shards", first_ms: 282_800.0, repeat_ms: 11_100.0 },
    ]
}

/// Everything that was measured, and on what.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) splits: usize,
    /// Splits that are really there.
    pub(super) bases: usize,
    pub(super) base_documents: u64,
    pub(super) base_bytes: u64,
    pub(super) footer_bytes: u64,
    /// Of all splits.
    pub(super) documents: u64,
    pub(super) data_bytes: u64,
    pub(super) seed: u64,
    pub(super) profile: String,
    pub(super) runs: usize,
    pub(super) cache_bytes: u64,
    pub(super) segments: Size,
    pub(super) steps: Vec<Cell>,
    pub(super) cells: Vec<Cell>,
    pub(super) published: Vec<Published>,
    pub(super) judged: Vec<Judged>,
    pub(super) checks: Vec<Check>,
    pub(super) total_s: f64,
}

/// Requests for each split that a needle is in, beside those of the segments and one.
const HIT_GETS_MAX: u64 = 4;
const ROUNDS_MAX: u64 = 5;
const FETCHED_FOR_USED_MAX: f64 = 1.3;

/// What the counts must keep to where needle segments are asked; they are the same on every machine.
pub(super) fn checks(
    answers: &[(Design, Question, Pass, Figures)],
    shares: &Shares,
    segments: usize,
) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut check = |what: String, measured: f64, limit: f64| {
        checks.push(Check { what, measured, limit, holds: measured <= limit });
    };
    let middle = |question: Question, pass: Pass, figure: fn(&Figures) -> f64| {
        let same = answers
            .iter()
            .filter(|(design, q, p, _)| (*design, *q, *p) == (Design::Segments, question, pass));
        median(same.map(|(.., figures)| figure(figures)))
    };
    for question in [Question::Absent, Question::One, Question::Five] {
        let (name, splits) = (question.name(shares), question.hits(shares).unwrap_or_default());
        if let Some(gets) = middle(question, Pass::First, |figures| figures.gets as f64) {
            let limit = segments as u64 + 1 + HIT_GETS_MAX * splits;
            check(format!("{name}, first: GETs"), gets, limit as f64);
        }
        if let Some(rounds) = middle(question, Pass::First, |figures| figures.rounds as f64) {
            check(format!("{name}, first: rounds"), rounds, ROUNDS_MAX as f64);
        }
        if let Some(gets) = middle(question, Pass::Repeat, |figures| figures.gets as f64) {
            check(format!("{name}, repeat: GETs"), gets, 0.0);
        }
    }
    let ratio = |figures: &Figures| figures.bytes_fetched as f64 / figures.bytes_used.max(1) as f64;
    if let Some(ratio) = middle(Question::Dashboard, Pass::First, ratio) {
        check("dashboard, first: bytes fetched for each byte used".to_owned(), ratio, FETCHED_FOR_USED_MAX);
    }
    checks
}

/// The size of a split of which 800 are 4 TB and 200,000 are 1 PB.
const SPLIT_BYTES_MEANT: f64 = 5e9;
/// Bytes of a generated document, about.
const DOCUMENT_BYTES: f64 = 835.0;

impl Report {
    /// How many times as many documents a split of 5 GB would have.
    pub(super) fn scale(&self) -> f64 {
        SPLIT_BYTES_MEANT / (self.base_documents as f64 * DOCUMENT_BYTES)
    }

    /// What is real, what is not, in sentences.
    pub(super) fn setting(&self) -> String {
        format!(
            "{} of {} documents each, {} of which are really there ({} each, hot footers of {}). A split of 5 GB of documents has \
             {:.0} times as many documents and terms: its GETs, round trips and hot footer are as here, its dictionaries are deeper. \
             Store simulated, profile {}, seeds from {}; medians of {}; cache of {}.",
            show_count(self.splits as u64, "split"),
            self.base_documents,
            self.bases,
            show_bytes(self.base_bytes),
            show_bytes(self.footer_bytes),
            self.scale(),
            self.profile,
            self.seed,
            self.runs,
            show_bytes(self.cache_bytes)
        )
    }

    /// What the segments are, in a sentence.
    pub(super) fn segments(&self) -> String {
        let Size { segments, bytes, directory_bytes, pages, pairs } = &self.segments;
        format!(
            "{} of {} with {} pages and directories of {}; {} pairs of a term and a split, {:.1} bits each.",
            show_count(*segments as u64, "needle segment"),
            show_bytes(*bytes),
            pages,
            show_bytes(*directory_bytes),
            pairs,
            *bytes as f64 * 8.0 / (*pairs).max(1) as f64
        )
    }

    /// The published times beside the model of the published design.
    pub(super) fn judgements(&self) -> Vec<String> {
        let published = self.published.iter().map(|published| {
            format!(
                "published: {}: first {}, repeat {}",
                published.what,
                show_ms(published.first_ms),
                show_ms(published.repeat_ms)
            )
        });
        let judged = self.judged.iter().map(|judged| {
            format!(
                "the published design by the model of this store, {}: {} GETs of 16 MiB, {}; published {}, {:.1} times the model",
                judged.what,
                judged.gets,
                show_ms(judged.modelled_ms),
                show_ms(judged.published_ms),
                judged.published_ms / judged.modelled_ms
            )
        });
        published.chain(judged).collect()
    }

    pub(super) fn print(&self) -> Result<()> {
        say!("{}\n{}\n", self.setting(), self.segments())?;
        say!("{}", table(&self.cells))?;
        say!("{}", table(&self.steps))?;
        for line in self.judgements() {
            say!("{line}")?;
        }
        for check in &self.checks {
            let verdict = if check.holds { "ok" } else { "NOT HELD" };
            say!("{verdict}: {}: {:.2} (at most {})", check.what, check.measured, check.limit)?;
        }
        say!("{:.1} s in all.", self.total_s)?;
        Ok(())
    }
}

/// The columns of every table.
pub(super) const COLUMNS: [&str; 13] = [
    "what",
    "design",
    "pass",
    "time>",
    "least>",
    "most>",
    "GETs>",
    "fetched>",
    "used>",
    "rounds>",
    "splits>",
    "processor>",
    "memory>",
];

/// The text of a cell by column.
pub(super) fn row(cell: &Cell) -> Vec<String> {
    let Figures { ms, processor_ms, memory_bytes, gets, bytes_fetched, bytes_used, rounds, splits, .. } =
        &cell.median;
    vec![
        cell.what.clone(),
        cell.design.to_owned(),
        cell.pass.to_owned(),
        show_ms(*ms),
        show_ms(cell.ms_min),
        show_ms(cell.ms_max),
        gets.to_string(),
        show_bytes(*bytes_fetched),
        show_bytes(*bytes_used),
        rounds.to_string(),
        splits.to_string(),
        processor_ms.map_or("–".to_owned(), show_ms),
        memory_bytes.map_or("–".to_owned(), show_bytes),
    ]
}

/// A cell in one line.
pub(super) fn line(cell: &Cell) -> String {
    let row = row(cell);
    let (what, figures) = row.split_at(3);
    let what: Vec<&str> = what.iter().filter(|text| !text.is_empty()).map(String::as_str).collect();
    let named = |(column, figure): (&&str, &String)| format!("{} {figure}", column.trim_end_matches('>'));
    let figures: Vec<String> = COLUMNS[3..].iter().zip(figures).map(named).collect();
    format!("{}: {}", what.join(", "), figures.join(", "))
}

fn table(cells: &[Cell]) -> Table {
    let mut table = Table::new(&COLUMNS);
    cells.iter().for_each(|cell| table.row(row(cell)));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_checked_for_the_segments_alone() {
        let shares = Shares::of(12_500);
        let figures =
            |gets, rounds| Figures { gets, rounds, bytes_fetched: 14, bytes_used: 10, ..Figures::default() };
        let answers = [
            (Design::Segments, Question::Absent, Pass::First, figures(14, 1)),
            (Design::Segments, Question::Absent, Pass::Repeat, figures(1, 0)),
            (Design::Segments, Question::Five, Pass::First, figures(35, 6)),
            (Design::EverySplit, Question::Absent, Pass::First, figures(25_000, 200)),
            (Design::Segments, Question::Dashboard, Pass::First, figures(9, 9)),
        ];
        let verdicts: Vec<(f64, f64, bool)> = checks(&answers, &shares, 13)
            .into_iter()
            .map(|check| (check.measured, check.limit, check.holds))
            .collect();
        let expected = [
            (14.0, 14.0, true),
            (1.0, 5.0, true),
            (1.0, 0.0, false),
            (35.0, 34.0, false),
            (6.0, 5.0, false),
            (1.4, 1.3, false),
        ];
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn a_cell_has_the_middle_of_each_figure() {
        let sample = |ms, gets, memory_bytes| Figures { ms, gets, memory_bytes, ..Figures::default() };
        let samples = vec![sample(9.0, 1, None), sample(3.0, 7, Some(10)), sample(4.0, 2, Some(30))];
        let cell = Cell::of("q".to_owned(), "d", "first", samples).unwrap();
        assert_eq!(cell.median, sample(4.0, 2, Some(20)));
        assert_eq!((cell.ms_min, cell.ms_max), (3.0, 9.0));
        assert_eq!(row(&cell).len(), COLUMNS.len());
        assert!(
            line(&cell).starts_with("q, d, first: time 4.00 ms, least 3.00 ms, most 9.00 ms, GETs 2, "),
            "{}",
            line(&cell)
        );
        assert!(Cell::of("q".to_owned(), "d", "first", Vec::new()).is_none());
    }
}
