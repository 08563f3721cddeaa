//! Ingest pipelines, as Elasticsearch writes them: read from JSON, and run over a document before it is stored.
//!
//! What this crate guarantees:
//!
//! - **Pure.** A run depends on the pipelines, the document and the time that it is given, and on nothing else.
//! - **Nothing is ignored.** A processor, an option, a template or a condition that is not understood is `Invalid` when
//!   the pipeline is read, with its place. What was read can be run.
//! - **No input causes a panic**, and none runs for long: see [`limits`]. A document that reaches one of them fails, and
//!   no `on_failure` or `ignore_failure` hides that.
//! - **A document that fails may be half changed.** Whoever runs a pipeline drops it.
//!
//! The modules: `document` is what processors work on, `value` what it has, `original` its text, `options`, `template`, `regular`, `painless` and `condition` read
//! what a processor says, `pipeline` runs it, and each other module is a family of processors.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod agents;
mod condition;
mod date;
mod decode;
mod dissect;
mod document;
mod fields;
mod fingerprint;
mod flow;
mod geo;
mod grok;
mod network;
mod options;
mod original;
mod painless;
mod pipeline;
mod records;
mod redact;
mod regular;
mod reroute;
mod script;
mod template;
#[cfg(test)]
mod tests;
mod text;
mod value;

pub use agents::Agents;
pub use condition::Condition;
pub use document::{Document, Failure};
pub use geo::Addresses;
pub use grok::grok_patterns;
pub use original::Original;
pub use painless::{Edited, Script, Unfinished};
pub use pipeline::{Outcome, Pipeline, Pipelines, Status, Trace, processors, run};
pub use value::{Map, Value};

/// What bounds a pipeline or a script, and what it does to one document.
pub mod limits {
    /// Processors of a pipeline, with those inside others.
    pub const PROCESSORS_MAX: usize = 1_000;
    /// Patterns of a pipeline that are compiled.
    pub const PATTERNS_MAX: usize = 100;
    /// Memory of a compiled pattern.
    pub const PATTERN_BYTES_MAX: usize = 2 << 20;
    /// Processors inside processors, and pipelines that call pipelines.
    pub const NESTING_MAX: usize = 16;
    /// The longest script or `if`.
    pub const SCRIPT_BYTES_MAX: usize = 64 << 10;
    /// Parentheses, blocks and the like inside each other in a script.
    pub const SCRIPT_DEPTH_MAX: usize = 64;
    /// Steps of a script that are inside each other when it runs.
    pub const SCRIPT_CALLS_MAX: usize = 640;
    /// Turns of the loops of a script in one run.
    pub const SCRIPT_TURNS_MAX: usize = 1_000_000;
    /// Objects and arrays inside each other in a document.
    pub const DEPTH_MAX: usize = 100;
    /// Processors that run over one document, with those of `foreach` and of other pipelines.
    pub const STEPS_MAX: usize = 10_000;
    /// What processors write, besides four times the document.
    pub const WRITTEN_BYTES_MAX: usize = 64 << 20;
    /// What processors and conditions look at.
    pub const READ_BYTES_MAX: u64 = 1 << 32;
    /// What the script of an update looks at: others wait for it.
    pub const UPDATE_READ_BYTES_MAX: u64 = 1 << 28;
    /// What the scripts of a request look at together, besides what each may for itself.
    pub const UPDATES_READ_BYTES_MAX: u64 = 1 << 29;
    /// What each may for itself.
    pub const UPDATE_OWN_BYTES: u64 = 128 << 10;
    /// The same where nothing waits for them.
    pub const QUERY_OWN_BYTES: u64 = 4 << 20;
}
