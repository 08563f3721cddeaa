//! Demonstration and measurement of the engine: `frostline demo` and `frostline bench`.
//!
//! [`demo::run`] goes from log lines to answers on data that every machine has; [`tiers::run`] measures the
//! published frozen-tier study row by row; [`petabyte::run`] asks hundreds of thousands of splits. All use a [`frostline_node::Node`], like every other user of the
//! engine, and print the published figures beside ours.
#![cfg_attr(test, allow(clippy::unwrap_used))]
// `println!` panics when a pipe is closed: use `say!` and `note!`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod demo;
mod page;
pub mod petabyte;
mod report;
mod study;
pub mod tiers;
mod trial;

use std::path::Path;

pub use frostline_ingest::Random;
use frostline_node::Settings;

/// What a run may use, and how it answers.
#[derive(Clone)]
pub struct Limits {
    /// Memory of ingest, and of the queries.
    pub memory_bytes_max: u64,
    /// One JSON document on standard output, and nothing else there.
    pub json: bool,
    /// Where the names of splits come from.
    pub random: Random,
}

impl Limits {
    /// A node of the repository at `repo`, with caches below `data`.
    fn settings(&self, repo: String, data: &Path) -> Settings {
        Settings { memory_bytes_max: self.memory_bytes_max, ..Settings::new(repo, data) }
    }
}
