//! Sends log files to a server: [`Ship`] follows them as `ingest` does and delivers their documents to Elasticsearch's
//! `_bulk` or to OpenTelemetry's `/v1/logs`.
//!
//! Nothing is lost: how far each file was delivered is recorded in a file, after the server has acknowledged it. What
//! was sent and not acknowledged is sent again. Of `_bulk` every document has an `_id` made of its file and its offset,
//! so that a server stores it once. User guide: `docs/shippers.md`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bulk;
mod http;
mod ledger;
mod otlp;
mod sender;
mod ship;

pub use frostline_base::{Error, Result};
pub use http::{Access, Credentials, Http, Method, NoAnswer, Post, Reply, Request, TOO_LONG};
pub use ship::{Api, Ship, ShipOptions, ShipProgress, ShipReport};
