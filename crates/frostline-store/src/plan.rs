//! Plans which requests fetch a set of ranges: neighbours are merged, duplicates dropped, long runs split.
//!
//! Merging two ranges saves one request (its price, and a round trip when all slots are busy) and
//! costs the bytes of the gap. A request takes 30 to 100 ms to its first byte, and a connection carries 50 to
//! 90 MB/s, so a gap takes longer than a round trip only above 1.5 to 9 MB. But the
//! requests of one read run concurrently and hide each other's round trips, while a merged gap
//! costs network and memory that all readers share. The default is therefore far below break-even:
//! 128 KiB, 1.5 to 2.6 ms on one connection.
//!
//! Documents are wanted few at a time and from anywhere, and each costs a request for a few
//! kilobytes. One read of documents may therefore also spend up to 1 MiB (8 to 20 ms) on its smallest gaps. This
//! bound holds however many documents are wanted.

use std::collections::HashSet;

use bytes::Bytes;
use frostline_base::{ByteRange, Error, ObjectRef, Result, Share};

/// Limits of the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Ranges closer than this share a request.
    pub gap_bytes_max: u64,
    /// Ranges of documents further apart than that are joined, too, the nearest first, as long as the gaps
    /// of one read add up to no more than this.
    pub document_gaps_bytes_max: u64,
    /// A longer run of bytes is fetched by several concurrent requests …
    pub request_bytes_max: u64,
    /// … of about this length each.
    pub piece_bytes: u64,
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions {
            gap_bytes_max: 128 << 10,
            document_gaps_bytes_max: 1 << 20,
            request_bytes_max: 16 << 20,
            piece_bytes: 8 << 20,
        }
    }
}

/// Requests that together cover every wanted range: sorted, disjoint, none empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) requests: Vec<ByteRange>,
}

impl Plan {
    /// Plans the reading of `wanted`. `Corrupt` if a range ends after the object does: then the
    /// reference and the object do not belong together.
    pub(crate) fn new(
        object: &ObjectRef,
        wanted: &[ByteRange],
        share: Share,
        options: &PlanOptions,
    ) -> Result<Plan> {
        wanted.iter().try_for_each(|range| check(object, range))?;
        let mut sorted: Vec<ByteRange> = wanted.iter().filter(|range| !range.is_empty()).cloned().collect();
        sorted.sort_by_key(|range| (range.start, range.end));
        let mut runs = merge(sorted, options.gap_bytes_max);
        if share == Share::Source {
            runs = join_nearest(runs, options.document_gaps_bytes_max);
        }
        Ok(Plan { requests: runs.into_iter().flat_map(|run| split(run, options)).collect() })
    }

    /// Extracts the bytes of each wanted range from the responses to `requests`, in the order wanted. A range within
    /// one response is a slice of it; only a range that spans several is copied.
    pub(crate) fn assemble(&self, wanted: &[ByteRange], answers: &[Bytes]) -> Result<Vec<Bytes>> {
        wanted.iter().map(|range| self.slice(range, answers)).collect()
    }

    fn slice(&self, range: &ByteRange, answers: &[Bytes]) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let first = self.requests.partition_point(|request| request.end <= range.start);
        let mut parts = Vec::new();
        for (request, answer) in
            self.requests.iter().zip(answers).skip(first).take_while(|(request, _)| request.start < range.end)
        {
            let start = range.start.max(request.start) - request.start;
            let end = range.end.min(request.end) - request.start;
            if end > answer.len() as u64 {
                return Err(Error::internal("an answer is shorter than its request"));
            }
            parts.push(answer.slice(start as usize..end as usize));
        }
        Ok(match parts.len() {
            1 => parts.swap_remove(0),
            _ => parts.concat().into(),
        })
    }
}

fn check(object: &ObjectRef, range: &ByteRange) -> Result<()> {
    if range.start > range.end {
        return Err(Error::invalid(format!(
            "the range {}..{} of {:?} ends before it starts",
            range.start, range.end, object.key
        )));
    }
    if range.end > object.bytes {
        return Err(Error::corrupt("a range reaches past the end of its object")
            .with("object", &object.key)
            .with("range", format!("{}..{}", range.start, range.end))
            .with("object_bytes", object.bytes));
    }
    Ok(())
}

fn merge(sorted: Vec<ByteRange>, gap_bytes_max: u64) -> Vec<ByteRange> {
    let mut runs: Vec<ByteRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match runs.last_mut() {
            Some(run) if range.start <= run.end.saturating_add(gap_bytes_max) => {
                run.end = run.end.max(range.end)
            }
            _ => runs.push(range),
        }
    }
    runs
}

/// Joins the runs with the smallest gaps between them, as many as fit into `gaps_bytes_max` together.
fn join_nearest(runs: Vec<ByteRange>, gaps_bytes_max: u64) -> Vec<ByteRange> {
    let gaps = runs.iter().zip(runs.iter().skip(1)).map(|(run, next)| next.start.saturating_sub(run.end));
    let mut gaps: Vec<(u64, usize)> = gaps.enumerate().map(|(number, gap)| (gap, number)).collect();
    gaps.sort_unstable();
    let mut spent = 0u64;
    let spanned = gaps.into_iter().take_while(|(gap, _)| {
        spent = spent.saturating_add(*gap);
        spent <= gaps_bytes_max
    });
    let spanned: HashSet<usize> = spanned.map(|(_, number)| number).collect();
    let mut joined: Vec<ByteRange> = Vec::with_capacity(runs.len() - spanned.len());
    for (number, run) in runs.into_iter().enumerate() {
        match joined.last_mut() {
            Some(last) if number.checked_sub(1).is_some_and(|gap| spanned.contains(&gap)) => {
                last.end = run.end
            }
            _ => joined.push(run),
        }
    }
    joined
}

fn split(run: ByteRange, options: &PlanOptions) -> Vec<ByteRange> {
    let length = run.end - run.start;
    if length <= options.request_bytes_max {
        return vec![run];
    }
    let pieces = length.div_ceil(options.piece_bytes.max(1));
    // Equal pieces finish together; u128 because length times pieces may exceed u64.
    let cut = |i: u64| run.start + (u128::from(length) * u128::from(i) / u128::from(pieces)) as u64;
    (0..pieces).map(|i| cut(i)..cut(i + 1)).collect()
}

#[cfg(test)]
mod tests;
