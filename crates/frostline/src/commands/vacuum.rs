//! `frostline vacuum`.

use anyhow::{Result, bail};
use frostline_base::IndexName;
use frostline_catalog::{Vacuum, Vacuumed};
use frostline_show::{Table, say, say_json, show_bytes, show_count};
use serde::Serialize;

use crate::Outcome;
use crate::args;
use crate::config::Config;

const HOUR_MS: f64 = 3_600_000.0;

pub(crate) async fn run(config: &Config, given: args::Vacuum) -> Result<Outcome> {
    let node = config.node()?;
    let wanted = Vacuum {
        retain_ms: milliseconds(given.retain_hours)?,
        orphan_grace_ms: milliseconds(given.orphan_hours)?,
        dry_run: given.dry_run,
        ..Vacuum::default()
    };
    let mut done = Vacuumed::default();
    let names = super::names_of(&node, &given.name, super::NAMED).await?;
    for name in &names {
        let index = node.index(name).await?;
        let hours_max = index.settings().file_retention_ms as f64 / HOUR_MS;
        if given.retain_hours > hours_max {
            let hours = given.retain_hours;
            bail!(
                "--retain-hours {hours}: at most {hours_max}, because the log of {name} does not record removed splits for longer"
            );
        }
        let of_index = index.vacuum(&wanted).await?;
        done = Vacuumed { version: of_index.version, dry_run: of_index.dry_run, ..done };
        done.merge(of_index);
    }
    done.merge(node.catalog().vacuum_deleted(&wanted).await?);
    if config.json {
        say_json(&Document { indices: &names, done: &done })?;
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&["object", "bytes>", "why"]);
    for deleted in &done.deleted {
        let why = format!("{:?}", deleted.reason).to_lowercase();
        table.row(vec![deleted.key.clone(), deleted.bytes.to_string(), why]);
    }
    if !done.deleted.is_empty() {
        say!("{table}")?;
    }
    let verb = if done.dry_run { "would be deleted" } else { "deleted" };
    let objects = show_count(done.deleted.len() as u64, "object");
    say!("{objects} ({}) {verb}; {} too young", show_bytes(done.bytes), done.kept)?;
    Ok(Outcome::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    indices: &'a [IndexName],
    #[serde(flatten)]
    done: &'a Vacuumed,
}

fn milliseconds(hours: f64) -> Result<i64> {
    if !(0.0..=1e6).contains(&hours) {
        bail!("{hours} is not a number of hours");
    }
    Ok((hours * HOUR_MS) as i64)
}
