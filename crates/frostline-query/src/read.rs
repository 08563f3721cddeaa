//! Opening splits and reading columns of the rows that were selected.

pub(crate) mod fields;
pub(crate) mod merge;
pub(crate) mod mixed;
pub(crate) mod open;
pub(crate) mod output;
pub(crate) mod view;
