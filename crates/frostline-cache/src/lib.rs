//! (being written)
#![cfg_attr(test, allow(clippy::unwrap_used))]
