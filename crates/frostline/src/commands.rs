//! One module a command.

mod bench;
mod cache;
mod demo;
mod doctor;
mod index;
mod ingest;
mod lab;
mod mount;
mod page;
mod report;
mod search;
mod sql;
mod study;
mod trial;
mod vacuum;

use anyhow::Result;
use clap::CommandFactory;

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
        Command::Cache(Cache::Stats) => cache::stats(&config),
        Command::Cache(Cache::Clear) => cache::clear(&config).await,
        Command::Vacuum(given) => vacuum::run(&config, given).await,
        Command::Demo(given) => demo::run(&config, given).await,
        Command::Bench(Bench::Tiers(given)) => bench::tiers(&config, given).await,
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
