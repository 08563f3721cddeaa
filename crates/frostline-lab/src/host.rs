//! The host a run uses: what it made there ([`ledger`]).

pub mod ledger;
