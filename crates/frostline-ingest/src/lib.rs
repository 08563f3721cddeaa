//! The only writer: turns files and streams into documents, documents into splits, and
//! splits into commits.
//!
//! [`Inputs`] says what is read, [`Format`] how its lines are written, [`Ingest`] takes it into an index, once or
//! as files grow: every document lands exactly once, whenever a run is stopped and started again, in bounded memory.
//! [`Merge`] makes few large splits of many small ones. User guide: `docs/ingest.md`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod blocks;
mod content;
mod decompress;
mod identity;
mod inputs;
mod json;
mod lines;
mod merge;
mod pipeline;
mod rejects;
mod times;

pub use decompress::{Compression, decompress};
pub use frostline_base::{Error, Result};
pub use inputs::{Input, Inputs, Skipped};
pub use lines::{CsvHeader, Format, LineParser, Multiline, Refusal};
pub use merge::{Merge, MergePolicy, MergeReport};
pub use pipeline::{Cancel, Ingest, IngestOptions, IngestReport, Pause, Progress, Random};
