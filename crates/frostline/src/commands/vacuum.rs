//! `frostline vacuum`.

use anyhow::{Result, bail};
use frostline_catalog::Vacuum;

use crate::Outcome;
use crate::args;
use crate::config::{Config, show_bytes};
use crate::node::Node;
use crate::table::{Table, print_json};

pub(crate) async fn run(config: &Config, given: args::Vacuum) -> Result<Outcome> {
    let node = Node::open(config)?;
    let index = node.index(&given.name).await?;
    let wanted = Vacuum {
        retain_ms: milliseconds(given.retain_hours)?,
        orphan_grace_ms: milliseconds(given.orphan_hours)?,
        dry_run: given.dry_run,
        ..Vacuum::default()
    };
    let mut done = index.vacuum(&wanted).await?;
    done.merge(node.catalog.vacuum_deleted(&wanted).await?);
    if config.json {
        print_json(&done)?;
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&["object", "bytes>", "why"]);
    for deleted in &done.deleted {
        let why = format!("{:?}", deleted.reason).to_lowercase();
        table.row(vec![deleted.key.clone(), deleted.bytes.to_string(), why]);
    }
    if !done.deleted.is_empty() {
        table.print()?;
    }
    let verb = if done.dry_run { "would be deleted" } else { "deleted" };
    println!(
        "{} objects ({}) {verb}; {} are too young",
        done.deleted.len(),
        show_bytes(done.bytes),
        done.kept
    );
    Ok(Outcome::Done)
}

fn milliseconds(hours: f64) -> Result<i64> {
    if !(0.0..=1e6).contains(&hours) {
        bail!("{hours} is not a number of hours");
    }
    Ok((hours * 3_600_000.0) as i64)
}
