//! `frostline doctor`: a library with its own command line, which blocks and needs no async runtime.

use anyhow::Result;
use frostline_doctor::cli::{self, Doctor};

use crate::Outcome;
use crate::config::Config;

pub(crate) fn run(config: &Config, given: &Doctor) -> Result<Outcome> {
    let status = tokio::task::block_in_place(|| cli::run(given, config.json, &mut std::io::stdout()))?;
    Ok(if status == 0 { Outcome::Done } else { Outcome::Found })
}
