//! Which words of a text stand how to one another: the intervals of Lucene, made from the words of a value.
//!
//! An interval goes from one word to another. Of those that contain one another the shortest counts, as in Lucene's
//! minimal intervals, and what is said of gaps is said of these.

use frostline_split::Phrase;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::filter::pattern::{Matcher, Pattern};
use crate::nesting::deeper;

/// What intervals of a text are looked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Intervals {
    /// A word, in lower case.
    Word(String),
    /// A word that matches.
    Pattern {
        /// What it matches as a whole.
        pattern: Pattern,
        /// Whether in either case; words are in lower case.
        case_insensitive: bool,
    },
    /// What one of these has.
    AnyOf(#[serde(deserialize_with = "deeper")] Vec<Intervals>),
    /// What goes over one of each of these.
    AllOf {
        /// These.
        #[serde(deserialize_with = "deeper")]
        parts: Vec<Intervals>,
        /// How they follow one another.
        order: Order,
    },
    /// Those with at most so many words between their parts.
    MaxGaps {
        /// So many.
        gaps: u64,
        /// Of these.
        #[serde(deserialize_with = "deeper")]
        of: Box<Intervals>,
    },
    /// Those that stand so to one of the others.
    Related {
        /// Of these.
        #[serde(deserialize_with = "deeper")]
        of: Box<Intervals>,
        /// How.
        how: Relation,
        /// The others.
        #[serde(deserialize_with = "deeper")]
        others: Box<Intervals>,
    },
}

/// How parts follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// As they are given, none before the end of the one before it.
    Ordered,
    /// In any order. Different parts may be in one place.
    Unordered,
    /// In any order, and each outside of what the parts before it go over together.
    NoOverlap,
}

/// How an interval stands to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// It begins after the end of the other.
    After,
    /// It ends before the other begins.
    Before,
    /// It is inside of the other.
    ContainedBy,
    /// The other is inside of it.
    Containing,
    /// It is inside of none.
    NotContainedBy,
    /// None is inside of it.
    NotContaining,
    /// It has no word in common with any.
    NotOverlapping,
    /// It has a word in common with the other.
    Overlapping,
}

impl Relation {
    /// Whether there has to be another.
    pub(crate) fn needs_another(self) -> bool {
        !matches!(self, Relation::NotContainedBy | Relation::NotContaining | Relation::NotOverlapping)
    }

    /// The others are by their places, and none contains another: where one begins later, it ends later, too.
    fn holds(self, own: &Interval, others: &[Interval]) -> bool {
        match self {
            Relation::After => others.first().is_some_and(|first| first.end < own.start),
            Relation::Before => others.last().is_some_and(|last| own.end < last.start),
            Relation::ContainedBy => {
                let after = others.partition_point(|other| other.start <= own.start);
                others[..after].last().is_some_and(|other| own.end <= other.end)
            }
            Relation::Containing => {
                let from = others.partition_point(|other| other.start < own.start);
                others.get(from).is_some_and(|other| other.end <= own.end)
            }
            Relation::Overlapping => {
                let from = others.partition_point(|other| other.end < own.start);
                others.get(from).is_some_and(|other| other.start <= own.end)
            }
            Relation::NotContainedBy => !Relation::ContainedBy.holds(own, others),
            Relation::NotContaining => !Relation::Containing.holds(own, others),
            Relation::NotOverlapping => !Relation::Overlapping.holds(own, others),
        }
    }
}

/// From the word at one place to that at another, both inside, with the words in it that are of no part. A part is all from
/// its first word to its last. As in Lucene each part takes its words, so that parts which overlap make up for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    start: usize,
    end: usize,
    gaps: isize,
}

impl Interval {
    fn words(&self) -> isize {
        (self.end + 1 - self.start) as isize
    }

    /// As a part of another: nothing in it is a gap.
    fn as_part(self) -> Interval {
        Interval { gaps: 0, ..self }
    }
}

/// Looks for intervals in texts.
#[derive(Debug)]
pub(crate) struct Seeker<'i> {
    intervals: &'i Intervals,
    /// The patterns in the order in which they are reached.
    matchers: Vec<Matcher>,
}

impl<'i> Seeker<'i> {
    pub(crate) fn new(intervals: &'i Intervals) -> Result<Seeker<'i>> {
        let mut seeker = Seeker { intervals, matchers: Vec::new() };
        seeker.compile(intervals)?;
        Ok(seeker)
    }

    fn compile(&mut self, intervals: &Intervals) -> Result<()> {
        match intervals {
            Intervals::Word(_) => {}
            Intervals::Pattern { pattern, case_insensitive } => {
                self.matchers.push(Matcher::new(pattern, *case_insensitive)?);
            }
            Intervals::AnyOf(parts) | Intervals::AllOf { parts, .. } => {
                parts.iter().try_for_each(|part| self.compile(part))?;
            }
            Intervals::MaxGaps { of, .. } => self.compile(of)?,
            Intervals::Related { of, others, .. } => {
                self.compile(of)?;
                self.compile(others)?;
            }
        }
        Ok(())
    }

    /// Whether a text has one.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        let phrase = Phrase::new(text);
        let words: Vec<(usize, &str)> = phrase.words().iter().map(String::as_str).enumerate().collect();
        self.is_among(&words)
    }

    /// The same of a text that has these words, in the order of their places.
    pub(crate) fn is_among(&self, words: &[(usize, &str)]) -> bool {
        let mut matchers = self.matchers.iter();
        !found(self.intervals, words, &mut matchers).is_empty()
    }
}

/// The intervals, by their places; none contains another.
fn found<'m>(
    intervals: &Intervals,
    words: &[(usize, &str)],
    matchers: &mut impl Iterator<Item = &'m Matcher>,
) -> Vec<Interval> {
    let places = |holds: &dyn Fn(&str) -> bool| {
        let places = words.iter().filter(|(_, word)| holds(word));
        let mut places: Vec<usize> = places.map(|(at, _)| *at).collect();
        places.dedup();
        places.into_iter().map(|at| Interval { start: at, end: at, gaps: 0 }).collect()
    };
    match intervals {
        Intervals::Word(wanted) => places(&|word| word == wanted),
        Intervals::Pattern { .. } => match matchers.next() {
            Some(matcher) => places(&|word| matcher.is_match(word)),
            None => Vec::new(),
        },
        Intervals::AnyOf(parts) => {
            shortest(parts.iter().flat_map(|part| found(part, words, matchers)).collect())
        }
        Intervals::AllOf { parts, order } => {
            let mut part = |part| found(part, words, matchers).into_iter().map(Interval::as_part).collect();
            let of_parts: Vec<Vec<Interval>> = parts.iter().map(&mut part).collect();
            match order {
                Order::Ordered => ordered(&of_parts),
                Order::Unordered => unordered(parts, of_parts),
                Order::NoOverlap => {
                    let mut of_parts = of_parts.into_iter();
                    let first = of_parts.next().unwrap_or_default();
                    of_parts.fold(first, |before, next| {
                        let pair = [before, next];
                        let mut either = ordered(&pair);
                        let [before, next] = pair;
                        either.extend(ordered(&[next, before]));
                        shortest(either)
                    })
                }
            }
        }
        Intervals::MaxGaps { gaps, of } => {
            let mut all = found(of, words, matchers);
            all.retain(|interval| interval.gaps <= 0 || interval.gaps as u64 <= *gaps);
            all
        }
        Intervals::Related { of, how, others } => {
            let mut all = found(of, words, matchers);
            let others = found(others, words, matchers);
            all.retain(|interval| how.holds(interval, &others));
            all
        }
    }
}

/// Those that contain no other, by their places.
fn shortest(mut all: Vec<Interval>) -> Vec<Interval> {
    all.sort_unstable_by_key(|interval| (interval.start, std::cmp::Reverse(interval.end), interval.gaps));
    let mut shortest: Vec<Interval> = Vec::with_capacity(all.len());
    for interval in all.into_iter().rev() {
        match shortest.last() {
            // The same one with fewer gaps takes its place.
            Some(after) if (after.start, after.end) == (interval.start, interval.end) => {
                shortest.pop();
                shortest.push(interval);
            }
            Some(after) if after.end <= interval.end => {}
            _ => shortest.push(interval),
        }
    }
    shortest.reverse();
    shortest
}

/// The first of each part after the end of the one before it.
fn ordered(parts: &[Vec<Interval>]) -> Vec<Interval> {
    let Some((first, rest)) = parts.split_first() else { return Vec::new() };
    let mut all = Vec::new();
    for start in first {
        let mut whole = *start;
        let is_there = rest.iter().all(|part| {
            let at = part.partition_point(|next| next.start <= whole.end);
            part.get(at).is_some_and(|next| {
                whole.gaps += (next.start - whole.end - 1) as isize + next.gaps;
                whole.end = next.end;
                true
            })
        });
        if !is_there {
            break;
        }
        all.push(whole);
    }
    shortest(all)
}

/// So many of a list from one on, each after the end of the one before it.
fn following(list: &[Interval], from: usize, times: usize) -> Option<Vec<Interval>> {
    let mut found = vec![*list.get(from)?];
    while found.len() < times {
        let end = found.last()?.end;
        found.push(*list.get(list.partition_point(|next| next.start <= end))?);
    }
    Some(found)
}

/// What goes over one of each part, and over several of a part that is given several times.
fn unordered(parts: &[Intervals], of_parts: Vec<Vec<Interval>>) -> Vec<Interval> {
    let mut lists: Vec<Vec<Vec<Interval>>> = Vec::new();
    for (at, (part, list)) in parts.iter().zip(of_parts).enumerate() {
        if parts[..at].contains(part) {
            continue;
        }
        let times = parts.iter().filter(|other| *other == part).count();
        lists.push((0..list.len()).map_while(|from| following(&list, from, times)).collect());
    }
    let mut next = vec![0; lists.len()];
    let mut all = Vec::new();
    loop {
        let now: Option<Vec<&Vec<Interval>>> =
            lists.iter().zip(&next).map(|(list, at)| list.get(*at)).collect();
        let Some(now) = now.filter(|now| !now.is_empty()) else { break };
        let start = |at: &usize| now[*at].first().map(|first| first.start);
        let earliest = (0..now.len()).min_by_key(start).unwrap_or_default();
        let now: Vec<Interval> = now.into_iter().flatten().copied().collect();
        next[earliest] += 1;
        let whole = now.iter().copied().reduce(|whole, interval| Interval {
            start: whole.start.min(interval.start),
            end: whole.end.max(interval.end),
            gaps: 0,
        });
        let of_parts: isize = now.iter().map(Interval::words).sum();
        all.extend(whole.map(|whole| Interval { gaps: whole.words() - of_parts, ..whole }));
    }
    shortest(all)
}

#[cfg(test)]
mod tests;
