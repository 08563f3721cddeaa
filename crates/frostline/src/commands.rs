//! One module for each command.

mod cache;
mod doctor;
mod highlight;
mod hits;
mod index;
mod ingest;
mod lab;
mod mount;
mod needle;
mod pit;
mod remote;
mod search;
mod serve;
mod ship;
mod snapshot;
mod sql;
mod vacuum;
mod volume;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use frostline_base::IndexName;

use frostline_bench::{Limits, demo, petabyte, tiers};
use frostline_catalog::{Access, Index, Resolve, Wildcards};
use frostline_node::Node;
use frostline_show::{say_json, suggestion};
use serde_json::{Value, json};

pub(crate) use ingest::random;

use crate::Outcome;
use crate::args::{self, Bench, Cache, Command};
use crate::config::Config;

pub(crate) async fn run(command: Command, config: Config) -> Result<Outcome> {
    match command {
        Command::Ingest(given) => ingest::run(&config, given).await,
        Command::Ship(given) => ship::run(&config, given).await,
        Command::Search(given) => search::run(&config, given).await,
        Command::Explain(given) => search::explain(&config, given).await,
        Command::Sql(given) => sql::run(&config, &given).await,
        Command::Index(given) => index::run(&config, given).await,
        Command::Mount(given) => mount::mount(&config, given).await,
        Command::Unmount(given) => mount::unmount(&config, &given.name).await,
        Command::Cache(Cache::Stats) => cache::stats(&config).await,
        Command::Cache(Cache::Clear) => cache::clear(&config).await,
        Command::Pit(given) => pit::run(&config, given).await,
        Command::Snapshot(given) => snapshot::run(&config, given).await,
        Command::Needle(given) => needle::run(&config, given).await,
        Command::Vacuum(given) => vacuum::run(&config, given).await,
        Command::Volume(given) => volume::run(&config, given).await,
        Command::Demo(given) => {
            demo::run(given, &limits(&config)).await?;
            Ok(Outcome::Done)
        }
        Command::Bench(Bench::Tiers(given)) => {
            tiers::run(given, &limits(&config)).await?;
            Ok(Outcome::Done)
        }
        Command::Bench(Bench::Petabyte(given)) => {
            petabyte::run(given, &limits(&config)).await?;
            Ok(Outcome::Done)
        }
        Command::Doctor(given) if config.is_repo_typed && !given.host.has_command() => {
            index::check::run(&config, given.full).await
        }
        Command::Doctor(given) if given.full => bail!("--full reads a repository: name one with --repo"),
        Command::Doctor(given) => doctor::run(&config, &given.host),
        Command::Lab(given) => lab::run(&config, given),
        Command::Serve(given) => serve::run(&config, given).await,
        Command::Completions { shell } => {
            let mut completions = Vec::new();
            clap_complete::generate(shell, &mut args::command(), "frostline", &mut completions);
            std::io::stdout().write_all(&completions)?;
            Ok(Outcome::Done)
        }
        Command::Man { command, out } => manual(command.as_deref(), out.as_deref()),
    }
}

/// Prints the page of a command, or writes the pages of all, under the names by which pages refer to one another.
fn manual(command: Option<&str>, out: Option<&Path>) -> Result<Outcome> {
    let mut all = args::command().disable_help_subcommand(true);
    if let Some(folder) = out {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        clap_mangen::generate_to(all, folder)
            .with_context(|| format!("cannot write into {}", folder.display()))?;
        return Ok(Outcome::Done);
    }
    all.build();
    let shown = match command {
        None => all,
        Some(name) => {
            let names = all.get_subcommands().map(clap::Command::get_name);
            let suggestion = suggestion(name, names);
            let found = all.find_subcommand(name);
            found.with_context(|| format!("there is no command {name}{suggestion}"))?.clone()
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(shown).render(&mut page)?;
    std::io::stdout().write_all(&page)?;
    Ok(Outcome::Done)
}

/// No index at all is a mistake of whoever typed the expression.
pub(crate) const NAMED: Resolve = Resolve { allow_no_indices: false, ..Resolve::ALL };
/// To read documents, which a closed index has none of to show.
pub(crate) const READ: Resolve = Resolve { wildcards: Wildcards::OPEN, closed: false, ..NAMED };

/// The indices that an expression such as `web`, `web,app` or `logs-*` names; at least one. A single name is not looked
/// up: whoever opens the index finds out.
pub(crate) async fn names_of(node: &Node, expression: &str, how: Resolve) -> Result<Vec<IndexName>> {
    if let Ok(name) = expression.parse() {
        return Ok(vec![name]);
    }
    let names = node.catalog().resolve(expression, how).await;
    let names = names.with_context(|| format!("in {}", node.repository().url()))?;
    if names.is_empty() {
        bail!("{expression} names no index of {}", node.repository().url());
    }
    Ok(names)
}

/// The indices that an expression names, opened; at least one.
pub(crate) async fn indices_of(node: &Node, expression: &str) -> Result<Vec<Arc<Index>>> {
    let indices = node.indices(expression, READ).await?;
    if indices.is_empty() {
        bail!("{expression} names no index of {}", node.repository().url());
    }
    if let Some(records) = node.catalog().seen_records() {
        indices.iter().try_for_each(|index| records.check_access(index.name(), Access::Read))?;
    }
    Ok(indices)
}

/// Asks whoever is at the terminal to type the name of what is deleted. Elsewhere `--yes` says it.
pub(crate) fn confirm(what: &str, name: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        bail!("deleting {name} cannot be undone: add --yes to confirm");
    }
    write!(std::io::stderr(), "{what}? Type its name: ")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if answer.trim() != name {
        bail!("{name} was not deleted");
    }
    Ok(())
}

/// Prints the document of the one index that was named, or those of several.
pub(crate) fn say_each(expression: &str, mut documents: Vec<Value>) -> Result<()> {
    // An alias names several.
    let is_name = expression.parse::<IndexName>().is_ok() && documents.len() == 1;
    let document = documents.pop_if(|_| is_name);
    Ok(say_json(&document.unwrap_or_else(|| json!({ "indices": documents })))?)
}

/// What the demonstration and the study may use.
fn limits(config: &Config) -> Limits {
    Limits { memory_bytes_max: config.memory_bytes_max, json: config.json, random: ingest::random() }
}
