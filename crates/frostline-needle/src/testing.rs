//! Segments in memory, and the model that they are compared with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{ByteRange, Result, SplitId};

use crate::{
    Input, Kinds, Lookup, MergeOptions, RunWriter, Scope, Segment, SplitSet, Term, TermKey, Written,
    directory_range, merge,
};

pub(crate) fn scope() -> Scope {
    Scope { table: "logs".to_owned(), analyser: 3 }
}

pub(crate) fn key() -> TermKey {
    TermKey::from_random([7; 16])
}

pub(crate) fn id(number: usize) -> SplitId {
    SplitId::from_random(number as u128 + 1_000)
}

/// A file in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored(pub(crate) Bytes);

impl Stored {
    pub(crate) fn of(written: &Written, bytes: Vec<u8>) -> Stored {
        assert_eq!(written.bytes, bytes.len() as u64);
        let stored = Stored(bytes.into());
        assert_eq!(stored.directory_range(), written.directory);
        stored
    }

    pub(crate) fn directory_range(&self) -> ByteRange {
        directory_range(&self.0, self.0.len() as u64).unwrap()
    }

    pub(crate) fn read(&self, range: &ByteRange) -> Bytes {
        self.0.slice(range.start as usize..range.end as usize)
    }

    pub(crate) fn open(&self) -> Arc<Segment> {
        let directory = self.read(&self.directory_range());
        Arc::new(Segment::open(&directory, &scope(), &key()).unwrap())
    }

    pub(crate) fn input(&self) -> Input<impl FnMut(ByteRange) -> Result<Bytes> + use<>> {
        let stored = self.clone();
        Input { segment: self.open(), read: move |range| Ok(stored.read(&range)) }
    }

    pub(crate) fn ask(&self, term: Term<'_>, field: Option<&str>, kinds: Kinds) -> SplitSet {
        let (segment, lookup) = (self.open(), Lookup { term: key().hash(term), field, kinds });
        let page = segment.page(lookup.term).map_or(Bytes::new(), |range| self.read(&range));
        segment.answer(&lookup, &page).unwrap()
    }
}

/// What a split has: for each field its tokens.
pub(crate) type Fields = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn run(number: usize, fields: &Fields) -> Stored {
    let mut writer = RunWriter::new(scope(), key(), id(number));
    for (field, tokens) in fields {
        let field = writer.field(field);
        tokens.iter().for_each(|token| writer.add(field, Term::Token(token)));
    }
    let mut bytes = Vec::new();
    Stored::of(&writer.seal(&mut bytes).unwrap(), bytes)
}

pub(crate) fn merged(inputs: &[Stored], grows_to: usize) -> Stored {
    let mut bytes = Vec::new();
    // Small reads, so that pages come in several.
    let options = MergeOptions { grows_to, read_bytes: 100_000 };
    let inputs = inputs.iter().map(Stored::input).collect();
    Stored::of(&merge(inputs, |_| true, options, &mut bytes).unwrap(), bytes)
}

/// A small pseudorandom number generator: the same numbers in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ self.0 >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ mixed >> 33
    }
}
