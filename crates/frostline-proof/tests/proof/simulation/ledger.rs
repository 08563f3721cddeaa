//! What every line must be: there, perhaps there, or gone.

use std::collections::{BTreeMap, BTreeSet};

/// All lines that were ever written to files, by number.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    lines: BTreeMap<i64, State>,
    /// The `_id`s of lines that were seen since the last deletion.
    ids: BTreeMap<i64, String>,
    /// How often a deletion of the index began or ended.
    deletions: u64,
    /// Deletions that are under way: while there are any, nothing is sure.
    deleting: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its ingestion was acknowledged.
    Sure,
    /// Nobody knows.
    Perhaps,
    /// It was in an index that is deleted.
    Gone,
}

/// A moment in the ledger.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    sure: BTreeSet<i64>,
    deletions: u64,
}

impl Ledger {
    /// Lines that may land from now on, unless they are there already.
    pub(crate) fn begin(&mut self, lines: &[i64]) -> u64 {
        for line in lines {
            let state = self.lines.entry(*line).or_insert(State::Perhaps);
            if *state == State::Gone {
                *state = State::Perhaps;
            }
        }
        self.deletions
    }

    /// These lines were acknowledged; the ingestion began when the ledger said `began`.
    pub(crate) fn acknowledge(&mut self, lines: &[i64], began: u64) {
        if began == self.deletions && self.deleting == 0 {
            self.lines.extend(lines.iter().map(|line| (*line, State::Sure)));
        }
    }

    /// A deletion begins: what there is may go from now on.
    pub(crate) fn begin_deletion(&mut self) {
        self.deleting += 1;
        self.may_be_gone();
    }

    /// A deletion ends, however it went: what came meanwhile may be gone.
    pub(crate) fn end_deletion(&mut self) {
        self.deleting -= 1;
        self.may_be_gone();
    }

    fn may_be_gone(&mut self) {
        self.deletions += 1;
        self.ids.clear();
        for state in self.lines.values_mut().filter(|state| **state == State::Sure) {
            *state = State::Perhaps;
        }
    }

    /// A deletion succeeded while nobody else was at work on the index.
    pub(crate) fn deleted_alone(&mut self) {
        self.lines.values_mut().for_each(|state| *state = State::Gone);
    }

    /// The lines that are there for sure.
    pub(crate) fn moment(&self) -> Moment {
        let sure = self.lines.iter().filter(|(_, state)| **state == State::Sure);
        Moment { sure: sure.map(|(line, _)| *line).collect(), deletions: self.deletions }
    }

    /// What is wrong with an answer that was given since `moment`: lines lost, doubled, or never written.
    pub(crate) fn faults(&self, moment: &Moment, answer: &[i64]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut seen = BTreeSet::new();
        for line in answer {
            if !seen.insert(*line) {
                faults.push(format!("line {line} is there twice"));
            }
            match self.lines.get(line) {
                None => faults.push(format!("line {line} was never written")),
                Some(State::Gone) => faults.push(format!("line {line} was deleted")),
                Some(_) => {}
            }
        }
        if self.is_same_index(moment) {
            let lost = moment.sure.difference(&seen);
            faults.extend(lost.map(|line| format!("line {line} was acknowledged and is lost")));
        }
        faults
    }

    /// What is wrong with the `_id`s of lines, which never change.
    pub(crate) fn faults_of_ids(&mut self, found: &[(i64, String)]) -> Vec<String> {
        let mut faults = Vec::new();
        for (line, id) in found.iter().filter(|_| self.deleting == 0) {
            let known = self.ids.entry(*line).or_insert_with(|| id.clone());
            if known != id {
                faults.push(format!("line {line} was {known} and is {id}"));
            }
        }
        faults
    }

    /// The `_id`s that clients were told since the ledger said `began`.
    pub(crate) fn tell_ids(&mut self, ids: Vec<(i64, String)>, began: u64) {
        if began == self.deletions && self.deleting == 0 {
            self.ids.extend(ids);
        }
    }

    /// The lines whose `_id` is known.
    pub(crate) fn ids(&self) -> Vec<(i64, String)> {
        self.ids.iter().map(|(line, id)| (*line, id.clone())).collect()
    }

    /// How many lines there are for sure.
    pub(crate) fn sure(&self) -> usize {
        self.lines.values().filter(|state| **state == State::Sure).count()
    }
}

impl Ledger {
    /// What is wrong with the pages of one version. It may hold lines that were deleted later.
    pub(crate) fn faults_of_pages(&self, moment: &Moment, seen: &[i64]) -> Vec<String> {
        let deleted_since = |fault: &String| fault.ends_with("was deleted") && !self.is_same_index(moment);
        self.faults(moment, seen).into_iter().filter(|fault| !deleted_since(fault)).collect()
    }

    /// Whether no deletion began or ended since, and none is under way.
    pub(crate) fn is_same_index(&self, moment: &Moment) -> bool {
        moment.deletions == self.deletions && self.deleting == 0
    }
}
