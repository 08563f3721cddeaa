//! `frostline lab`: a library with its own command line, which blocks and needs no async runtime.

use std::io::Write;

use anyhow::Result;
use frostline_lab::cli::{self, Context, Lab};

use crate::Outcome;
use crate::config::Config;

pub(crate) fn run(config: &Config, given: Lab) -> Result<Outcome> {
    let context = Context { data: config.data.clone(), json: config.json };
    let ended = tokio::task::block_in_place(|| cli::run(given, &context))?;
    std::io::stdout().write_all(ended.stdout.as_bytes())?;
    Ok(Outcome::of(ended.interrupted, !ended.partial))
}
