//! The physical plans, what they share, and the partial answers that are kept.

pub(crate) mod aggregate;
pub(crate) mod leaf;
pub(crate) mod nulls;
pub(crate) mod odd_columns;
pub(crate) mod order;
pub(crate) mod results;
pub(crate) mod scan;
pub(crate) mod table;
pub(crate) mod top;
pub(crate) mod whole_sum;
