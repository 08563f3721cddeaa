//! The only writer: turns files, streams and generated logs into documents, documents into splits, and
//! splits into commits.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod blocks;
mod decompress;
mod generator;
mod git_log;
mod inputs;
mod json;
mod lines;
mod times;

pub use decompress::{Compression, decompress};
pub use frostline_base::{Error, Result};
pub use generator::{Generator, GeneratorOptions, Needle};
pub use git_log::GitLog;
pub use inputs::{Input, Inputs, Skipped};
pub use lines::{CsvHeader, Format, LineParser};
