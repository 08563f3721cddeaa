//! The host a run uses: what it made there ([`ledger`]), what it is ([`facts`]), what it can do
//! ([`probe`]), its tools ([`tools`]), and how they are run so that Ctrl-C ends them ([`process`]).

pub mod facts;
pub mod ledger;
pub mod probe;
pub mod process;
pub mod tools;
