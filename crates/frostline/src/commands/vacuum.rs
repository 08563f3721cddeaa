//! `frostline vacuum`.

use anyhow::{Result, bail};
use frostline_catalog::Vacuum;
use frostline_show::{Table, say, say_json, show_bytes, show_count};

use crate::Outcome;
use crate::args;
use crate::config::Config;

pub(crate) async fn run(config: &Config, given: args::Vacuum) -> Result<Outcome> {
    let node = config.node()?;
    let index = node.index(&given.name.parse()?).await?;
    let wanted = Vacuum {
        retain_ms: milliseconds(given.retain_hours)?,
        orphan_grace_ms: milliseconds(given.orphan_hours)?,
        dry_run: given.dry_run,
        ..Vacuum::default()
    };
    let mut done = index.vacuum(&wanted).await?;
    done.merge(node.catalog().vacuum_deleted(&wanted).await?);
    if config.json {
        say_json(&done)?;
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

fn milliseconds(hours: f64) -> Result<i64> {
    if !(0.0..=1e6).contains(&hours) {
        bail!("{hours} is not a number of hours");
    }
    Ok((hours * 3_600_000.0) as i64)
}
