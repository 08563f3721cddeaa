//! The lab: experiments that choose volumes, file systems, mount options and virtual machine settings by
//! measurement and price.
//!
//! A *study* is a TOML file of factors, levels and a workload ([`study`]). A *run* executes its cells in
//! randomised interleaved blocks ([`run`]) on real devices, on emulated volumes ([`emulate`]), in emulated
//! guests ([`guest`]), on restored databases ([`restore`]) or in virtual time ([`simulate`]), and leaves a folder of records ([`record`]) that
//! [`report`] turns into pages. Without a study, [`measure`] finds what volumes can do that are there already.
//! Everything that a run creates on the host is in a ledger first ([`host::ledger`]), so that it can be undone
//! after a kill.
//!
//! The lab links no engine crate: it measures the built binary from outside, like everything else.

pub mod cli;
pub mod crash;
pub mod decide;
pub mod emulate;
pub mod guest;
pub mod host;
pub mod measure;
mod names;
pub mod need;
pub mod place;
pub mod record;
pub mod report;
pub mod restore;
pub mod run;
pub mod simulate;
pub mod stats;
pub mod study;
pub mod workload;
