//! `frostline bench`.

use anyhow::Result;

use crate::Outcome;
use crate::args;
use crate::config::Config;

pub(crate) async fn tiers(_config: &Config, _given: args::BenchTiers) -> Result<Outcome> {
    anyhow::bail!("being built")
}
