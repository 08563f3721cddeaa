//! Random questions over random documents, asked in every way.
//!
//! A [`Scene`] is a mapping and documents; a question is a search body or a description of an SQL query,
//! as JSON. The [`Oracle`] answers both by a look at every value of every document. [`Places`] holds the same
//! documents in one split, in many, merged, with few or no columns, with needle segments of all splits, of half of them
//! and damaged ones, with their hot footers in a pack, with partial answers kept while the index grew; each is asked, with size 0 and size n, in one page
//! and in many, by DSL and by SQL. What disagrees is made as small as it can be and printed. `several` asks two indices
//! at once that declare fields differently.
//!
//! `FROSTLINE_WAYS_SEED` is the first seed, `FROSTLINE_WAYS_QUESTIONS` the number of questions.

mod aggregations;
mod ask;
mod documents;
mod oracle;
mod places;
mod questions;
mod several;
mod shrink;
mod sql;
mod text;
mod values;

mod tests;

pub(crate) use ask::disagreement;
pub(crate) use documents::Scene;
pub(crate) use oracle::Oracle;
pub(crate) use places::{Place, Places};
