//! The figures, and the table that shows them.

use anyhow::Result;
use frostline_show::{Table, say, show_bytes, show_count};
use serde::Serialize;

use super::questions::Design;
use super::regions::Judged;
use crate::report::{median, show_ms};

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
}

/// What is measured beside the questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) enum Step {
    Commit(Design),
    Mount(Design),
    Open(Design),
    Regions,
}

impl Step {
    pub(super) const ALL: [Step; 4] = [
        Step::Open(Design::EverySplit),
        Step::Commit(Design::EverySplit),
        Step::Mount(Design::EverySplit),
        Step::Regions,
    ];

    pub(super) fn name(self) -> String {
        let name = match self {
            Step::Commit(_) => "commit one more split",
            Step::Mount(_) => "mount: fetch all hot footers",
            Step::Open(_) => "open the catalog",
            Step::Regions => "fetch the first region of each split",
        };
        name.to_owned()
    }

    pub(super) fn design(self) -> &'static str {
        match self {
            Step::Commit(design) | Step::Mount(design) | Step::Open(design) => design.name(),
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
    pub(super) steps: Vec<Cell>,
    pub(super) cells: Vec<Cell>,
    pub(super) published: Vec<Published>,
    pub(super) judged: Vec<Judged>,
    pub(super) total_s: f64,
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
        say!("{}\n", self.setting())?;
        say!("{}", table(&self.cells))?;
        say!("{}", table(&self.steps))?;
        for line in self.judgements() {
            say!("{line}")?;
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

fn table(cells: &[Cell]) -> Table {
    let mut table = Table::new(&COLUMNS);
    cells.iter().for_each(|cell| table.row(row(cell)));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_middle_of_each_figure() {
        let sample = |ms, gets, memory_bytes| Figures { ms, gets, memory_bytes, ..Figures::default() };
        let samples = vec![sample(9.0, 1, None), sample(3.0, 7, Some(10)), sample(4.0, 2, Some(30))];
        let cell = Cell::of("q".to_owned(), "d", "first", samples).unwrap();
        assert_eq!(cell.median, sample(4.0, 2, Some(20)));
        assert_eq!((cell.ms_min, cell.ms_max), (3.0, 9.0));
        assert_eq!(row(&cell).len(), COLUMNS.len());
        assert!(Cell::of("q".to_owned(), "d", "first", Vec::new()).is_none());
    }
}
