//! Object stores: S3, GCS, Azure, a directory or memory.
//!
//! [`Repository`] is the entry point. Below it are decorators, each named by what it adds, in this order:
//! [`Retrying`] retries transient failures, [`Hedged`] sends late reads twice,
//! [`Metered`] counts what the provider bills, [`Simulated`] (for `sim+` URLs) adds a cloud's latency, and for
//! measurements [`Aliases`] show objects under more names.
//! All forward every method of `ObjectStore`, so the same stack can be passed to other libraries.
//!
//! Guarantees: [`Repository::put_new`] has one winner, whatever requests are lost; a finished put is
//! as durable as the store makes it (a directory is synced); a listing is in the byte order of the keys.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod aliased;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod directory;
mod failing;
mod fault;
mod fill;
mod hedged;
mod metered;
mod open;
mod outage;
mod plan;
mod prices;
mod profile;
mod ranges;
mod repository;
mod retrying;
mod simulated;

pub use aliased::Aliases;
pub use failing::{Failing, Mishap};
pub use fault::{Fault, explain};
pub use fill::{Fills, Pace, Speed, fill, pause_filling};
pub use frostline_base::{Error, Result};
pub use hedged::{HedgeOptions, Hedged};
pub use metered::Metered;
pub use open::{OpenOptions, local_directory};
pub use plan::PlanOptions;
pub use prices::Prices;
pub use repository::{Listed, Put, Repository};
pub use retrying::{OnRetry, Retry, RetryOptions, Retrying};
pub use simulated::{Profile, Simulated, Simulation, SimulationOptions};
