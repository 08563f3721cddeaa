//! A progress bar with the remaining time, on standard error.

use std::time::Duration;

use frostline_show::{item_progress, note, share_progress};
use indicatif::ProgressBar;

use crate::measure::Watching;
use crate::record::Sample;
use crate::run::Progress;

/// The progress bar of a run. If standard error is not a terminal, only warnings are printed.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// Of a run, which counts samples.
    pub(super) fn new() -> Bar {
        Bar::ticking(item_progress(Some(0), "samples"))
    }

    /// Of a measurement, whose steps have planned lengths.
    pub(super) fn of_seconds() -> Bar {
        Bar::ticking(share_progress())
    }

    fn ticking(bar: ProgressBar) -> Bar {
        bar.enable_steady_tick(Duration::from_millis(500));
        Bar(bar)
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn begin(&mut self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
        self.0.reset_eta();
    }

    fn taking(&mut self, cell: &str) {
        self.0.set_message(cell.to_owned());
    }

    fn taken(&mut self, sample: &Sample, left: u64) {
        self.0.inc(1);
        self.0.set_length(self.0.position() + left);
        for gate in sample.gates.iter().filter(|gate| !gate.passed) {
            Progress::say(
                self,
                &format!("VOID {} block {}: {}: {}", sample.cell, sample.block, gate.name, gate.what),
            );
        }
    }

    fn say(&mut self, what: &str) {
        note!("{what}");
    }
}

/// The bar counts milliseconds.
impl Watching for Bar {
    fn begin(&mut self, seconds: f64) {
        self.0.set_length((seconds * 1000.0) as u64);
        self.0.reset_eta();
    }

    fn passed(&mut self, seconds: f64) {
        self.0.inc((seconds.max(0.0) * 1000.0) as u64);
    }

    fn doing(&mut self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    fn say(&mut self, what: &str) {
        note!("{what}");
    }
}
