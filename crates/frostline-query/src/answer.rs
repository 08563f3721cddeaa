//! From a request to its answer: searches, SQL, responses and their costs.

mod classes;
mod highlight;
mod inner_hits;
pub(crate) mod matches;
mod named;
pub(crate) mod response;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod sql;
mod sql_error;
mod standard;
