//! Objects and ranges of objects, from wherever a repository lives: S3, GCS, Azure, a directory, memory.
//!
//! [`Repository`] is the door. Below it stand decorators, each named by what it adds, in this order:
//! [`Retrying`] repeats what failed for a reason that passes, [`Hedged`] asks late reads twice,
//! [`Metered`] counts what the provider bills, [`Simulated`] (for `sim+` URLs) takes a cloud's time.
//! All forward every method of `ObjectStore`, so other libraries can be handed the same stack.
//!
//! Guarantees: [`Repository::put_new`] has one winner, whatever is lost on the way; a finished put is
//! durable as far as the store is (a directory is synced); a listing is in the order of the keys' bytes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod directory;
mod failing;
mod fault;
mod hedged;
mod metered;
mod open;
mod plan;
mod prices;
mod profile;
mod repository;
mod retrying;
mod simulated;

pub use failing::{Failing, Mishap};
pub use fault::{Fault, explain, is_bucket_missing};
pub use frostline_base::{Error, Result};
pub use hedged::{HedgeOptions, Hedged};
pub use metered::Metered;
pub use open::OpenOptions;
pub use plan::PlanOptions;
pub use prices::Prices;
pub use repository::{Listed, Put, Repository};
pub use retrying::{OnRetry, Retry, RetryOptions, Retrying};
pub use simulated::{Profile, Simulated, Simulation, SimulationOptions};
