//! Paths from a pipeline aggregation to the numbers it reads: `a>b.value`, `a['key']>b`, `a._bucket_count`.

use serde::{Deserialize, Serialize};

use super::answer::{Answer, Body, Bucket};
use crate::{Error, Result};

/// Longest path.
const PATH_BYTES_MAX: usize = 4_000;

/// A path that was checked against the aggregations of its request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Path {
    /// To the buckets of a sibling; empty for a parent, whose buckets are those above.
    pub to_buckets: Vec<Step>,
    pub in_bucket: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Step {
    /// The aggregation of this name.
    Into(String),
    /// The bucket of this key.
    Bucket(String),
    /// Documents of the bucket.
    Count,
    /// The key of the bucket.
    Key,
    /// Buckets of the aggregation.
    BucketCount,
    /// The value of this name.
    Value(String),
}

/// A part of a path between `>`: a name and what is in brackets after it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub name: String,
    pub bracket: Option<Bracket>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bracket {
    pub text: String,
    pub quoted: bool,
}

/// Takes a path apart. `Invalid` with the position of what is not understood.
pub(super) fn parts(text: &str) -> Result<Vec<Part>> {
    if text.len() > PATH_BYTES_MAX {
        return Err(Error::invalid(format!("a path has at most {PATH_BYTES_MAX} bytes")));
    }
    let chars: Vec<char> = text.chars().collect();
    let error = |at: usize, what: &str| {
        Err(Error::invalid(format!("{what} at character {} of the path [{text}]", at + 1)))
    };
    let (mut parts, mut at) = (Vec::new(), 0);
    loop {
        let start = at;
        while chars.get(at).is_some_and(|c| !matches!(c, '>' | '[')) {
            at += 1;
        }
        let name: String = chars.get(start..at).unwrap_or_default().iter().collect();
        let name = name.trim().to_owned();
        if name.is_empty() {
            return error(start, "no name");
        }
        let mut bracket = None;
        if chars.get(at) == Some(&'[') {
            at += 1;
            let quote = chars.get(at).copied().filter(|c| matches!(c, '\'' | '"'));
            at += usize::from(quote.is_some());
            let start = at;
            let last = |at: usize| match quote {
                Some(quote) => chars.get(at) == Some(&quote) && chars.get(at + 1) == Some(&']'),
                None => chars.get(at) == Some(&']'),
            };
            while at < chars.len() && !last(at) {
                at += 1;
            }
            if at >= chars.len() {
                return error(start, "no `]` after the `[`");
            }
            let text: String = chars.get(start..at).unwrap_or_default().iter().collect();
            if text.is_empty() && quote.is_none() {
                return error(start, "nothing between `[` and `]`");
            }
            at += 1 + usize::from(quote.is_some());
            while chars.get(at) == Some(&' ') {
                at += 1;
            }
            bracket = Some(Bracket { text, quoted: quote.is_some() });
        }
        parts.push(Part { name, bracket });
        match chars.get(at) {
            None => return Ok(parts),
            Some('>') => at += 1,
            Some(_) => return error(at, "expected `>`"),
        }
    }
}

/// Where a path has led.
enum Place<'p, 'v> {
    Level(&'p [Answer<'v>]),
    Bucket(&'p Bucket<'v>),
    Body(&'p Body<'v>),
}

impl Path {
    /// Whether it is the count of the bucket itself.
    pub(super) fn is_count(&self) -> bool {
        self.in_bucket.as_slice() == [Step::Count]
    }

    /// About how many steps reading one number takes.
    pub(super) fn steps(&self) -> usize {
        4 * self.in_bucket.len()
    }

    /// The buckets that a sibling computes over.
    pub(super) fn buckets<'p, 'v>(&self, level: &'p [Answer<'v>]) -> &'p [Bucket<'v>] {
        let place = self.to_buckets.iter().try_fold(Place::Level(level), |place, step| place.step(step));
        match place {
            Some(Place::Body(Body::Buckets(buckets))) => &buckets.list,
            _ => &[],
        }
    }

    /// The finite number in a bucket.
    pub(super) fn number_in(&self, bucket: &Bucket<'_>) -> Option<f64> {
        let (last, way) = self.in_bucket.split_last()?;
        let place = way.iter().try_fold(Place::Bucket(bucket), |place, step| place.step(step))?;
        place.number(last).filter(|value| value.is_finite())
    }
}

impl<'p, 'v> Place<'p, 'v> {
    fn step(self, step: &Step) -> Option<Place<'p, 'v>> {
        match (self, step) {
            (Place::Level(level), Step::Into(name)) => named(level, name),
            (Place::Bucket(bucket), Step::Into(name)) => named(&bucket.below, name),
            (Place::Body(Body::Single(bucket)), Step::Into(name)) => named(&bucket.below, name),
            (Place::Body(Body::Buckets(buckets)), Step::Bucket(key)) => {
                buckets.list.iter().find(|bucket| bucket.text() == *key).map(Place::Bucket)
            }
            _ => None,
        }
    }

    fn number(self, last: &Step) -> Option<f64> {
        match (self, last) {
            (Place::Bucket(bucket) | Place::Body(Body::Single(bucket)), Step::Count) => {
                Some(bucket.count as f64)
            }
            (Place::Bucket(bucket), Step::Key) => bucket.key.as_ref()?.number(),
            (Place::Body(Body::Buckets(buckets)), Step::BucketCount) => Some(buckets.list.len() as f64),
            (Place::Body(Body::Leaf(leaf)), Step::Value(name)) => leaf.value(Some(name)),
            (place, step @ Step::Into(_)) => match place.step(step)? {
                Place::Body(Body::Leaf(leaf)) => leaf.value(None),
                _ => None,
            },
            _ => None,
        }
    }
}

fn named<'p, 'v>(level: &'p [Answer<'v>], name: &str) -> Option<Place<'p, 'v>> {
    level.iter().find(|answer| answer.name == name).map(|answer| Place::Body(&answer.body))
}
