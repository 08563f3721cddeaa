//! Values of one metric in rows and columns: what a simulation says, in one look.

use std::collections::BTreeMap;

use super::page::varying_factors;
use crate::record::{Cell, Run};

/// The model's values of one metric.
pub(super) struct Matrix<'a> {
    /// Its name.
    pub(super) metric: &'a str,
    /// The factors of a row's labels.
    pub(super) by: Vec<&'a str>,
    /// The factor of the columns: the one with the most levels.
    pub(super) across: &'a str,
    /// Its levels, in the order of cells.
    pub(super) columns: Vec<&'a str>,
    /// In the order of cells.
    pub(super) rows: Vec<Row<'a>>,
}

/// One combination of the other factors.
pub(super) struct Row<'a> {
    /// Levels of [`Matrix::by`]; a dash for a factor that the cells lack.
    pub(super) labels: Vec<&'a str>,
    /// Value by index of the column.
    pub(super) values: BTreeMap<usize, f64>,
}

impl<'a> Matrix<'a> {
    /// Those of the metrics that the study asks about. What depends on no column is in the comparisons alone.
    pub(super) fn of(run: &'a Run) -> Vec<Matrix<'a>> {
        let mut metrics: Vec<&str> = Vec::new();
        for comparison in &run.comparisons {
            if !metrics.contains(&comparison.metric.as_str()) {
                metrics.push(&comparison.metric);
            }
        }
        let depends = |matrix: &Matrix<'_>| {
            matrix.rows.iter().any(|row| {
                let mut values = row.values.values();
                values.next().is_some_and(|first| values.any(|value| value != first))
            })
        };
        metrics.into_iter().filter_map(|metric| Matrix::new(run, metric)).filter(depends).collect()
    }

    fn new(run: &'a Run, metric: &'a str) -> Option<Matrix<'a>> {
        let cells: Vec<&Cell> = run.cells.iter().filter(|cell| cell.modelled.contains_key(metric)).collect();
        let factors = varying_factors(&cells);
        let count = |factor: &&str| {
            let levels = cells.iter().filter_map(|cell| cell.levels.get(*factor));
            levels.collect::<std::collections::BTreeSet<_>>().len()
        };
        let across = factors.iter().copied().max_by_key(|factor| count(factor))?;
        let by: Vec<&str> = factors.into_iter().filter(|factor| *factor != across).collect();
        let (mut columns, mut rows): (Vec<&str>, Vec<Row<'_>>) = (Vec::new(), Vec::new());
        for cell in cells {
            let level = |factor: &str| cell.levels.get(factor).map_or("–", String::as_str);
            let column = columns.iter().position(|column| *column == level(across)).unwrap_or_else(|| {
                columns.push(level(across));
                columns.len() - 1
            });
            let labels: Vec<&str> = by.iter().map(|factor| level(factor)).collect();
            let row = rows.iter().position(|row| row.labels == labels).unwrap_or_else(|| {
                rows.push(Row { labels, values: BTreeMap::new() });
                rows.len() - 1
            });
            rows[row].values.insert(column, cell.modelled[metric]);
        }
        Some(Matrix { metric, by, across, columns, rows })
    }
}
