//! Actors at the same time over a store that fails, by seed.
//!
//! A run is some rounds. In each, some actors do one thing each at the same time: ingest a file, follow files that are
//! written and rotated, take what clients send, merge, vacuum, delete the index, search, or read the next page of a pinned version. Every
//! request to the store waits for its [`Turns`], and the seed decides whose is next, so delay is being passed over, and
//! time is a count of turns. What then becomes of the request is drawn by `Failing`: dropped, cut off, done twice,
//! refused by any status, or done and refused all the same. An actor may be killed at any request. Between rounds hours
//! or days pass.
//!
//! The [`Ledger`] knows every line: whether it must be there, may be, or must not. After each round a reader without
//! mishaps compares. A seed decides all but the order in which two threads of one ingest reach the store at once.

mod actors;
mod follow;
mod ledger;
mod live;
mod turns;
mod world;

mod tests;

pub(crate) use actors::{Actor, Job};
pub(crate) use follow::{Follow, Logs};
pub(crate) use ledger::Ledger;
pub(crate) use live::{Requests, Serve};
pub(crate) use turns::Turns;
pub(crate) use world::World;
