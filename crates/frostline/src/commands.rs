//! One module a command.

mod cache;
mod doctor;
mod index;
mod ingest;
mod lab;
mod mount;
mod search;
mod sql;
mod vacuum;

use anyhow::Result;
use clap::CommandFactory;

use frostline_bench::{Limits, demo, tiers};

use crate::Outcome;
use crate::args::{Arguments, Bench, Cache, Command};
use crate::config::Config;

pub(crate) async fn run(command: Command, config: Config) -> Result<Outcome> {
    match command {
        Command::Ingest(given) => ingest::run(&config, given).await,
        Command::Search(given) => search::run(&config, given).await,
        Command::Explain(given) => search::explain(&config, given).await,
        Command::Sql(given) => sql::run(&config, &given.query).await,
        Command::Index(given) => index::run(&config, given).await,
        Command::Mount(given) => mount::mount(&config, given).await,
        Command::Unmount(given) => mount::unmount(&config, &given.name).await,
        Command::Cache(Cache::Stats) => cache::stats(&config).await,
        Command::Cache(Cache::Clear) => cache::clear(&config).await,
        Command::Vacuum(given) => vacuum::run(&config, given).await,
        Command::Demo(given) => {
            demo::run(given, &limits(&config)).await?;
            Ok(Outcome::Done)
        }
        Command::Bench(Bench::Tiers(given)) => {
            tiers::run(given, &limits(&config)).await?;
            Ok(Outcome::Done)
        }
        Command::Doctor(given) => doctor::run(&config, &given),
        Command::Lab(given) => lab::run(&config, given),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "frostline", &mut std::io::stdout());
            Ok(Outcome::Done)
        }
        Command::Man => {
            clap_mangen::Man::new(Arguments::command()).render(&mut std::io::stdout())?;
            Ok(Outcome::Done)
        }
    }
}

/// What the demonstration and the study may use.
fn limits(config: &Config) -> Limits {
    Limits { memory_bytes_max: config.memory_bytes_max, json: config.json, random: ingest::random() }
}
