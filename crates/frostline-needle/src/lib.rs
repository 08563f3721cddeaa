//! The needle index: which of all splits may hold a term, from one page for each 1,024 splits.
//!
//! A [`RunWriter`] collects the terms of one split while it is sealed. [`merge`] joins runs into segments, and
//! segments into larger ones. A [`Needle`] says which [`Segment`]s answer for which splits, which of their pages some
//! [`Lookup`]s need, and reads the answers from these.
//!
//! **Advisory.** An answer may name splits that do not hold the term, never the reverse. Without segments every
//! split has to be opened, and no answer changes.
//!
//! No network, no files, no clock: bytes in, bytes out. `docs/format/needle.md` is the byte map.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod about;
mod directory;
mod field_table;
#[doc(hidden)]
pub mod fuzzing;
mod merge;
mod needle;
mod page;
mod range_coder;
mod run;
mod segment;
mod split_set;
mod split_terms;
mod term;
#[cfg(test)]
mod testing;
mod writer;

pub use about::{About, KIND};
pub use directory::{FORMAT_VERSION, Scope};
pub use field_table::Kinds;
pub use frostline_base::{Error, Result};
pub use merge::{Input, Lost, MergeOptions, compare, merge};
pub use needle::{Covering, Needle};
pub use run::{FieldNumber, RunWriter};
pub use segment::{Lookup, Segment, directory_range};
pub use split_set::{SPLITS_MAX, SplitSet};
pub use term::{Term, TermHash, TermKey};
pub use writer::Written;
