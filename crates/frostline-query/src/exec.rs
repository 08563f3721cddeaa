//! The physical plans: leaves that search splits, the nodes that merge their answers, and their serialization.

pub(crate) mod aggregate;
pub(crate) mod arithmetic;
pub(crate) mod awaited;
pub(crate) mod bounded;
pub(crate) mod by_id;
pub(crate) mod codec;
pub(crate) mod constants;
pub(crate) mod fetch;
pub(crate) mod finish;
pub(crate) mod found;
pub(crate) mod groups;
mod joined;
pub(crate) mod leaf;
pub(crate) mod matching;
pub(crate) mod needle;
pub(crate) mod nulls;
pub(crate) mod objects;
pub(crate) mod odd_columns;
pub(crate) mod odd_numbers;
pub(crate) mod order;
pub(crate) mod report;
pub(crate) mod results;
pub(crate) mod rewrite;
pub(crate) mod rows;
pub(crate) mod rule;
pub(crate) mod scan;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod splits;
pub(crate) mod stack;
pub(crate) mod step;
pub(crate) mod table;
pub(crate) mod times;
pub(crate) mod top;
pub(crate) mod whole_sum;

#[cfg(test)]
mod tests;
