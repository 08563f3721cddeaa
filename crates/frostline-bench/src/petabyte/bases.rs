//! The splits that are really there: generated logs, each split of its own days, some with planted identities.

use std::io::{Cursor, Read};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use frostline_base::{Meter, ReadRanges, Share};
use frostline_catalog::{Index, SplitEntry};
use frostline_corpus::{Generator, GeneratorOptions};
use frostline_ingest::{IngestOptions, Input, Inputs};
use frostline_node::Node;
use frostline_query::Search;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Map, Value};

use super::footer::Footer;
use crate::Limits;
use crate::study::Study;
use crate::trial::take_in_with;

/// Splits that are really there; each has a day of its own.
pub(super) const BASES: usize = 36;
/// How many bases are taken in at a time, with one thread each.
const AT_A_TIME: usize = 2;
pub(super) const DAY_US: i64 = 86_400_000_000;

/// What one document of a base has in addition to what is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plant {
    /// The identity of a request that is nowhere else.
    Request(&'static str),
    /// The same, and both values of the question that asks for two.
    Both(&'static str),
    /// The same, and the session of that question.
    Session(&'static str),
    /// The user of that question.
    User,
}

pub(super) const SESSION: &str = "5e55104a7c0ffee1";
pub(super) const USER: &str = "u77319402";

/// The bases that have something planted, by day.
pub(super) const PLANTED: [(usize, Plant); 4] =
    [(4, Plant::Request(ONE)), (12, Plant::Session(MANY)), (20, Plant::User), (30, Plant::Both(FIVE))];
pub(super) const ONE: &str = "00000000000000010123456789abcdef";
pub(super) const FIVE: &str = "00000000000000050123456789abcdef";
pub(super) const MANY: &str = "00000000000050000123456789abcdef";

/// One split that is really there.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) index: Arc<Index>,
    pub(super) entry: Arc<SplitEntry>,
    pub(super) footer: Footer,
}

/// What the bases are made from.
pub(super) struct Recipe {
    /// Documents of one base.
    pub(super) documents: u64,
    pub(super) seed: u64,
}

impl Recipe {
    /// The study over all days.
    pub(super) fn study(&self) -> Study {
        let mut study = Study::new(self.documents * BASES as u64, self.seed);
        study.generator.days = BASES as u32;
        study
    }

    /// Generates and ingests every base into an index of its own.
    pub(super) async fn take_in(&self, node: &Node, limits: &Limits) -> Result<Vec<Base>> {
        stream::iter(0..BASES).map(|day| self.base(node, limits, day)).buffered(AT_A_TIME).try_collect().await
    }

    async fn base(&self, node: &Node, limits: &Limits, day: usize) -> Result<Base> {
        let name = format!("base-{day:02}");
        let options = IngestOptions {
            memory_bytes_max: limits.memory_bytes_max / AT_A_TIME as u64,
            threads: 1,
            ..IngestOptions::default()
        };
        let inputs = Inputs::of(self.input(day));
        take_in_with(node, inputs, &name, limits, None, options).await?;
        let index = node.index(&name.parse()?).await?;
        let [entry] = index.splits() else {
            bail!(
                "{} documents are {} splits and not one: ask for fewer",
                self.documents,
                index.splits().len()
            );
        };
        let range = std::slice::from_ref(&entry.footer);
        let read =
            node.repository().read_ranges(&entry.object, range, Share::Footer, &Meter::default()).await?;
        let footer = Footer::new(read.first().context("a read of one range returned none")?, entry.id)?;
        let entry = Arc::clone(entry);
        Ok(Base { index, entry, footer })
    }

    fn input(&self, day: usize) -> Input {
        let Study { generator } = self.study();
        let options = GeneratorOptions {
            documents: self.documents,
            seed: self.seed.wrapping_mul(BASES as u64).wrapping_add(day as u64),
            start_us: generator.start_us + day as i64 * DAY_US,
            days: 1,
        };
        let plant = PLANTED.iter().find(|(planted, _)| *planted == day).map(|(_, plant)| *plant);
        let identity = format!("petabyte-{}-{plant:?}", options.identity());
        let bytes = options.bytes_expected();
        Input::documents(&identity, &identity, Some(bytes), Planted::new(options, plant))
    }
}

/// Generated lines, the one in the middle with something planted.
struct Planted {
    generator: Generator,
    before: u64,
    plant: Option<Plant>,
    line: Cursor<Vec<u8>>,
}

impl Planted {
    fn new(options: GeneratorOptions, plant: Option<Plant>) -> Planted {
        let before = options.documents / 2;
        Planted { generator: Generator::new(options), before, plant, line: Cursor::default() }
    }

    fn next_line(&mut self) -> std::io::Result<Vec<u8>> {
        let mut line = Vec::new();
        if !self.generator.next_document(&mut line) {
            return Ok(line);
        }
        if self.before == 0
            && let Some(plant) = self.plant.take()
        {
            let mut document: Map<String, Value> = serde_json::from_slice(&line)?;
            document.extend(plant.fields().map(|(field, value)| (field.to_owned(), value.into())));
            line = serde_json::to_vec(&document)?;
        }
        self.before = self.before.saturating_sub(1);
        line.push(b'\n');
        Ok(line)
    }
}

impl Read for Planted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let count = self.line.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let line = self.next_line()?;
            if line.is_empty() {
                return Ok(0);
            }
            self.line = Cursor::new(line);
        }
    }
}

impl Plant {
    fn fields(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let (request, session, user) = match self {
            Plant::Request(id) => (Some(id), None, None),
            Plant::Session(id) => (Some(id), Some(SESSION), None),
            Plant::Both(id) => (Some(id), Some(SESSION), Some(USER)),
            Plant::User => (None, None, Some(USER)),
        };
        [("request_id", request), ("session", session), ("user", user)]
            .into_iter()
            .filter_map(|(field, value)| Some((field, value?)))
    }
}

impl Base {
    /// How many documents a search finds here.
    pub(super) async fn count(&self, node: &Node, body: &str) -> Result<u64> {
        let searcher = node.searcher().await?;
        let options = node.search_options(false, true).await;
        let asked = Search::new(&searcher, std::slice::from_ref(&self.index), body.as_bytes(), &options)?;
        let total = asked.run().await?.hits.total.context("a search did not count")?;
        Ok(total.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_in_the_middle_has_what_is_planted() {
        let options = GeneratorOptions { documents: 40, days: 1, ..GeneratorOptions::default() };
        let lines = |plant| {
            let mut text = String::new();
            Planted::new(options.clone(), plant).read_to_string(&mut text).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Map<_, _>>>()
        };
        let (plain, planted) = (lines(None), lines(Some(Plant::Both(FIVE))));
        let differing: Vec<usize> = (0..40).filter(|at| plain[*at] != planted[*at]).collect();
        assert_eq!((plain.len(), planted.len(), differing), (40, 40, vec![20]));
        let document = &planted[20];
        assert_eq!([&document["request_id"], &document["session"], &document["user"]], [FIVE, SESSION, USER]);
        assert_eq!(document["path"], plain[20]["path"]);
    }
}
