//! Elasticsearch's HTTP API over a [`frostline_node::Node`].
//!
//! The modules in the order in which a request passes through them: `server` accepts connections, `service` turns a
//! request into a response, `routes` finds the API that it is for, `auth` and
//! `scope` say who asks and what that may be, `body` and `params` read it, `api` answers it, where it reads documents on
//! the threads of `searches`, and `answer` and `media` give the answer the form that was asked for. `limits` refuse who asks too much, `metrics` counts, `slow` logs and `traces` shows the time of what was asked. Whatever fails is an `error::ApiError`.
//!
//! What comes in by other ways than Elasticsearch's is in `doors`.
//!
//! Without authentication a [`Server`] listens on loopback alone.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod api;
mod auth;
mod body;
mod counts;
mod doors;
mod error;
mod filter_path;
mod find;
mod host;
mod jobs;
mod jwt;
mod limits;
mod lookups;
mod media;
mod metrics;
mod mustache;
mod params;
mod patience;
mod rehearsal;
mod routes;
mod scope;
mod searches;
mod server;
mod service;
mod settings;
mod slow;
mod state;
#[cfg(test)]
mod testing;
mod tls;
mod traces;
mod yaml;

pub use api::names::birth_of;
pub use api::snapshot::{Chosen, check_name as check_snapshot_name, chosen as chosen_of_snapshot};
pub use jwt::JwtSettings;
pub use server::{Reload, Server};
pub use settings::Settings;
pub use tls::Tls;
pub use traces::Traces;
