//! Which of the named clauses of a query match the documents that are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use frostline_base::Meter;
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::Result;
use crate::agg::HitAddress;
use crate::exec::order::Row;
use crate::exec::report::Report;
use crate::exec::scan::{Local, Scan, spawned};
use crate::exec::splits::Splits;
use crate::filter::Filter;
use crate::select::Rows;

/// The names of the clauses that match each of some documents, in the order of the query.
pub(super) type Named = BTreeMap<HitAddress, Vec<String>>;

/// Asks each named clause alone, of the splits that have these hits.
pub(super) async fn named_of(
    clauses: impl Iterator<Item = (&Splits, &[(String, Filter)])>,
    rows: &[Row],
    local: &Arc<Local>,
    partial: bool,
    report: &mut Report,
) -> Result<Named> {
    let mut matched = Named::new();
    let clauses: Vec<_> = clauses.filter(|(_, named)| !named.is_empty()).collect();
    if clauses.is_empty() {
        return Ok(matched);
    }
    let addresses: BTreeSet<HitAddress> = rows.iter().map(|row| row.address).collect();
    let mut ordinals: Vec<u32> = addresses.iter().map(|address| address.split).collect();
    ordinals.dedup();
    for (splits, named) in clauses {
        let splits = splits.only(ordinals.iter().copied());
        for (name, filter) in named {
            let (matching, told) = ask(Arc::clone(local), &splits, filter, &addresses, partial).await?;
            for address in matching {
                let names = matched.entry(address).or_default();
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            let Report { mut failed, cost, .. } = told;
            report.answered.retain(|ordinal| failed.iter().all(|failure| failure.ordinal != *ordinal));
            failed.retain(|new| report.failed.iter().all(|known| known.ordinal != new.ordinal));
            report.add(Report { failed, cost, ..Report::default() });
        }
    }
    Ok(matched)
}

/// Those of some documents that a filter matches.
async fn ask(
    local: Arc<Local>,
    splits: &Splits,
    filter: &Filter,
    addresses: &BTreeSet<HitAddress>,
    partial: bool,
) -> Result<(Vec<HitAddress>, Report)> {
    let scan = Arc::new(Scan::new(local, splits, filter, Arc::new(Meter::default()), partial));
    let asked = scan.targets.iter().map(|target| {
        let (scan, number, ordinal) = (Arc::clone(&scan), target.number, target.ordinal);
        let first = HitAddress { split: ordinal, row: 0 };
        let own = addresses.range(first..=HitAddress { row: u32::MAX, ..first });
        let own: Vec<HitAddress> = own.copied().collect();
        spawned(async move {
            let target = &scan.targets[number];
            if *target.filter == Filter::All {
                return Ok(own);
            }
            let read = async {
                let open = scan.open(target).await?;
                Ok(match scan.select(target, &open).await? {
                    Rows::All => own,
                    Rows::Some(rows) => {
                        own.into_iter().filter(|address| rows.contains(address.row)).collect()
                    }
                })
            };
            Ok(scan.tolerate(target, read.await)?.unwrap_or_default())
        })
    });
    let asked = stream::iter(asked.collect::<Vec<_>>()).buffered(scan.in_flight());
    let matching: Vec<Vec<HitAddress>> = asked.try_collect().await?;
    Ok((matching.concat(), scan.report(splits)))
}
