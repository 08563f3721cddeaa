//! Opens needle segments and splits, and reads columns of the selected rows.

pub(crate) mod documents;
pub(crate) mod fields;
pub(crate) mod memory;
pub(crate) mod merge;
pub(crate) mod mixed;
pub(crate) mod numbered;
pub(crate) mod objects;
pub(crate) mod once;
pub(crate) mod open;
mod origins;
pub(crate) mod output;
pub(crate) mod packs;
pub(crate) mod per_row;
pub(crate) mod points;
pub(crate) mod ranges;
pub(crate) mod segments;
pub(crate) mod shown;
pub(crate) mod unpacked;
pub(crate) mod view;
