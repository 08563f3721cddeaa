//! From a request to its answer: searches, SQL, responses and their costs.

pub(crate) mod matches;
pub(crate) mod response;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod sql;
mod sql_error;
