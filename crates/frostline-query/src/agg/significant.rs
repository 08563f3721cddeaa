//! How unusual the terms of some documents are among others: the scores of `significant_terms` and `significant_text`.
//!
//! A score is of four counts: the documents that have the term, and all, in the foreground and in the background.

use serde::{Deserialize, Serialize};

use super::chosen::Chosen;
use super::format::ValueFormat;
use super::keys::{Common, FieldIndex};

/// A `significant_terms`, or a `significant_text`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Significant {
    pub field: FieldIndex,
    pub common: Common,
    pub size: usize,
    pub min_doc_count: u64,
    pub chosen: Chosen,
    pub format: Option<ValueFormat>,
    pub heuristic: Heuristic,
    /// Which of the hidden aggregations counts the background.
    pub background: usize,
}

/// How the four counts become a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Heuristic {
    Jlh,
    MutualInformation(Sets),
    ChiSquare(Sets),
    Distance { is_superset: bool },
    Percentage,
}

/// How the foreground and the background are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sets {
    /// Whether the background has the documents of the foreground, too.
    pub is_superset: bool,
    /// Whether terms that are rarer in the foreground are significant.
    pub negatives: bool,
}

/// How many documents have a term, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub with: u64,
    pub all: u64,
}

impl Share {
    fn part(self) -> f64 {
        if self.all == 0 { 0.0 } else { self.with as f64 / self.all as f64 }
    }
}

/// The documents by whether they are of the foreground and have the term, as doubles, which may be negative where a
/// background is no superset.
struct Table {
    both: f64,
    only_term: f64,
    only_foreground: f64,
    neither: f64,
}

impl Table {
    fn new(front: Share, back: Share, is_superset: bool) -> Table {
        let (with, all) = (front.with as f64, front.all as f64);
        let (back_with, back_all) = (back.with as f64, back.all as f64);
        // Those of the background that are not of the foreground.
        let (rest_with, rest_all) =
            if is_superset { (back_with - with, back_all - all) } else { (back_with, back_all) };
        Table { both: with, only_term: rest_with, only_foreground: all - with, neither: rest_all - rest_with }
    }

    fn term(&self) -> f64 {
        self.both + self.only_term
    }

    fn foreground(&self) -> f64 {
        self.both + self.only_foreground
    }

    fn all(&self) -> f64 {
        self.foreground() + self.only_term + self.neither
    }

    /// Whether the term is rarer in the foreground than outside of it.
    fn is_negative(&self) -> bool {
        let outside = self.only_term + self.neither;
        self.foreground() > 0.0 && outside > 0.0 && self.both / self.foreground() < self.only_term / outside
    }
}

impl Heuristic {
    /// The score; a term whose score is not above 0 is not significant.
    pub(super) fn score(self, front: Share, back: Share) -> f64 {
        let score = match self {
            Heuristic::Jlh => jlh(front, back),
            Heuristic::Percentage if back.with == 0 => 0.0,
            Heuristic::Percentage => front.with as f64 / back.with as f64,
            Heuristic::MutualInformation(sets) => {
                let table = Table::new(front, back, sets.is_superset);
                if table.is_negative() && !sets.negatives { 0.0 } else { mutual_information(&table) }
            }
            Heuristic::ChiSquare(sets) => {
                let table = Table::new(front, back, sets.is_superset);
                if table.is_negative() && !sets.negatives { 0.0 } else { chi_square(&table) }
            }
            Heuristic::Distance { is_superset } => nearness(&Table::new(front, back, is_superset)),
        };
        if score.is_finite() { score } else { 0.0 }
    }
}

/// The change of the share, times the factor by which it changes. A term that the background does not have is taken to be
/// in one of its documents.
fn jlh(front: Share, back: Share) -> f64 {
    let back = Share { with: back.with.max(1), ..back };
    let (front, back) = (front.part(), back.part());
    if back <= 0.0 || front <= back { 0.0 } else { (front - back) * (front / back) }
}

/// Manning, Raghavan and Schütze, Introduction to Information Retrieval, 13.5.1.
fn mutual_information(table: &Table) -> f64 {
    let (term, foreground, all) = (table.term(), table.foreground(), table.all());
    let cell = |count: f64, row: f64, column: f64| match count > 0.0 {
        true => count / all * (all * count / (row * column)).log2(),
        false => 0.0,
    };
    cell(table.both, term, foreground)
        + cell(table.only_term, term, all - foreground)
        + cell(table.only_foreground, all - term, foreground)
        + cell(table.neither, all - term, all - foreground)
}

/// The same, 13.5.2.
fn chi_square(table: &Table) -> f64 {
    let (term, foreground, all) = (table.term(), table.foreground(), table.all());
    let difference = table.both * table.neither - table.only_foreground * table.only_term;
    all * difference * difference / (term * (all - term) * foreground * (all - foreground))
}

/// e to the minus normalized distance of Cilibrasi and Vitányi, The Google Similarity Distance.
fn nearness(table: &Table) -> f64 {
    let (term, foreground, both) = (table.term(), table.foreground(), table.both);
    if both <= 0.0 {
        return 0.0;
    }
    if term == foreground && term == both {
        return 1.0;
    }
    let (term, foreground) = (term.ln(), foreground.ln());
    let distance = (term.max(foreground) - both.ln()) / (table.all().ln() - term.min(foreground));
    (-distance).exp()
}

#[cfg(test)]
mod tests;
