//! Logs for demonstrations, benchmarks and tests.
//!
//! [`Generator`] generates web server logs from a seed, [`GitLog`] reads the history of a clone. Both produce JSON
//! lines through [`std::io::Read`], and both have an identity that two runs share only if they produce the
//! same bytes. [`SecurityEvents`] generates events with the difficulties of real logs, [`Kubernetes`] the logs of a cluster.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod git_log;
mod kubernetes;
mod security_events;
mod web_logs;

pub use frostline_base::{Error, Result};
pub use git_log::GitLog;
pub use kubernetes::Kubernetes;
pub use security_events::SecurityEvents;
pub use web_logs::{Generator, GeneratorOptions, Needle};
