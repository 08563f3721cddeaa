//! Formatting of figures: medians, times with a unit, and the table of the study.

use serde::Serialize;

use crate::study::{Row, Tier};
use crate::trial::Sample;
use frostline_show::Table;
use frostline_show::show_bytes;

/// One cell of the study: a row in a tier.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) row: Row,
    pub(crate) tier: Tier,
    pub(crate) published_ms: Option<f64>,
    /// The middle of each figure by itself.
    pub(crate) median: Sample,
    pub(crate) ms_min: f64,
    pub(crate) ms_max: f64,
    /// As they came.
    pub(crate) samples: Vec<Sample>,
}

impl Cell {
    /// The cell of these samples; none without samples.
    pub(crate) fn of(row: Row, tier: Tier, samples: Vec<Sample>) -> Option<Cell> {
        let count =
            |figure: fn(&Sample) -> u64| median(samples.iter().map(|s| figure(s) as f64)).map(|m| m as u64);
        let middle = Sample {
            ms: median(samples.iter().map(|sample| sample.ms))?,
            gets: count(|sample| sample.gets)?,
            bytes_fetched: count(|sample| sample.bytes_fetched)?,
            bytes_used: count(|sample| sample.bytes_used)?,
        };
        let ms = || samples.iter().map(|sample| sample.ms);
        let (ms_min, ms_max) = (ms().fold(f64::INFINITY, f64::min), ms().fold(0.0, f64::max));
        Some(Cell {
            row,
            tier,
            published_ms: row.published_ms(tier),
            median: middle,
            ms_min,
            ms_max,
            samples,
        })
    }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let is_even = values.len().is_multiple_of(2);
    Some(if is_even { (values.get(middle.checked_sub(1)?)? + upper) / 2.0 } else { upper })
}

/// A time with three digits and the unit that fits.
pub(crate) fn show_ms(ms: f64) -> String {
    let (value, unit) = match ms {
        ms if ms < 999.5 => (ms, "ms"),
        ms if ms < 599_500.0 => (ms / 1e3, "s"),
        ms => (ms / 60e3, "min"),
    };
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {unit}")
}

/// The study's table: a line for each cell, the published figure beside ours.
pub(crate) fn table(cells: &[Cell]) -> Table {
    let columns =
        ["question", "tier", "published>", "here>", "least>", "most>", "GETs>", "fetched>", "used>"];
    let mut table = Table::new(&columns);
    let mut last = None;
    for cell in cells {
        let name = if last == Some(cell.row) { "" } else { cell.row.name() };
        last = Some(cell.row);
        table.row(vec![
            name.to_owned(),
            cell.tier.name().to_owned(),
            cell.published_ms.map_or("–".to_owned(), show_ms),
            show_ms(cell.median.ms),
            show_ms(cell.ms_min),
            show_ms(cell.ms_max),
            cell.median.gets.to_string(),
            show_bytes(cell.median.bytes_fetched),
            show_bytes(cell.median.bytes_used),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        for (values, middle) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![9.0, 1.0], Some(5.0)),
            (vec![5.0, 1.0, 2.0], Some(2.0)),
        ] {
            assert_eq!(median(values.iter().copied()), middle, "{values:?}");
        }
    }

    #[test]
    fn a_cell_keeps_its_samples_and_the_middle_of_each_figure() {
        let sample = |ms, gets| Sample { ms, gets, bytes_fetched: gets * 10, bytes_used: gets * 9 };
        let cell = Cell::of(
            Row::NeedleFirst,
            Tier::Frozen5,
            vec![sample(30.0, 3), sample(10.0, 5), sample(20.0, 4)],
        )
        .unwrap();
        assert_eq!(cell.median, sample(20.0, 4));
        assert_eq!((cell.ms_min, cell.ms_max, cell.samples.len()), (10.0, 30.0, 3));
        assert_eq!(cell.published_ms, Some(6_257.0));
        assert!(Cell::of(Row::Mount, Tier::Hot, Vec::new()).is_none());
    }

    #[test]
    fn times_have_three_digits() {
        let shown = [
            (0.0, "0.00 ms"),
            (7.256, "7.26 ms"),
            (76.0, "76.0 ms"),
            (999.4, "999 ms"),
            (999.6, "1.00 s"),
            (282_800.0, "283 s"),
            (4_344_000.0, "72.4 min"),
        ];
        for (ms, text) in shown {
            assert_eq!(show_ms(ms), text);
        }
    }
}
