//! The objects at a path of some documents, each a row of a split of its own, in memory.
//!
//! - Whatever can be asked of a split can be asked of them, and means of an object what it means of a document that
//!   has nothing else.
//! - An object without a value is none, as `{}` is no value of a document.
//! - A name with dots is objects in objects, one for each name: `{"a.x": 1, "a.y": 2}` has two objects at `a`.
//! - Objects are numbered in the order of their documents and, in one, of the document.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{ByteRange, Caches, Error, Meter, ObjectRef, ReadRanges, Reading, Share, SplitId};
use frostline_catalog::SplitEntry;
use frostline_split::{Mapping, Split, SplitWriter, WriterOptions};

use crate::Result;
use crate::json::Json;
use crate::read::documents::LIMITS;
use crate::read::memory::Permits;
use crate::read::open::OpenSplit;
use crate::read::unpacked::UnpackedOfSplit;
use crate::read::view::View;

/// Objects of some documents.
#[derive(Debug)]
pub(crate) struct Objects {
    /// None without any.
    written: Option<Written>,
    /// By the numbers of the documents.
    of_documents: Vec<Range<u32>>,
    meter: Meter,
}

#[derive(Debug)]
struct Written {
    open: OpenSplit,
    bytes: InMemory,
    /// The object that each row is.
    objects: Vec<u32>,
}

/// An object of a document.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) json: Json,
    /// Which one it is of those at each of the paths that lead to it.
    pub(crate) offsets: Vec<usize>,
}

impl Objects {
    /// Those of documents that [`objects_at`] finds, with their values as `mapping` reads them.
    pub(crate) fn new<'t>(
        documents: impl Iterator<Item = &'t str>,
        paths: &[&str],
        mapping: &Mapping,
    ) -> Result<Objects> {
        let mut writer = writer(mapping);
        let path = paths.last().copied().unwrap_or_default();
        let mut of_documents = Vec::new();
        for document in documents {
            let start = writer.rows();
            for object in objects_at(parsed(document)?, paths) {
                writer.add(alone(path, object.json)?.as_bytes())?;
            }
            of_documents.push(start..writer.rows());
        }
        Ok(Objects { written: Written::new(writer)?, of_documents, meter: Meter::default() })
    }

    /// The documents themselves, each as the one object that it has.
    pub(crate) fn whole<'t>(documents: impl Iterator<Item = &'t str>, mapping: &Mapping) -> Result<Objects> {
        let mut writer = writer(mapping);
        for document in documents {
            writer.add(document.as_bytes())?;
        }
        let of_documents = (0..writer.rows()).map(|row| row..row + 1).collect();
        Ok(Objects { written: Written::new(writer)?, of_documents, meter: Meter::default() })
    }

    /// Those of each document.
    pub(crate) fn of_documents(&self) -> &[Range<u32>] {
        &self.of_documents
    }

    /// The document that has the object of each row.
    pub(crate) fn documents_of_rows(&self) -> Vec<u32> {
        let documents = (0..).zip(&self.of_documents);
        let of_objects: Vec<u32> =
            documents.flat_map(|(document, objects)| objects.clone().map(move |_| document)).collect();
        let rows = self.written.iter().flat_map(|written| &written.objects);
        rows.filter_map(|object| of_objects.get(*object as usize).copied()).collect()
    }

    /// Which the object of each row is of those of its document.
    pub(crate) fn numbers_of_rows(&self) -> Vec<u32> {
        let of_objects: Vec<u32> = self
            .of_documents
            .iter()
            .flat_map(|objects| 0..objects.end.saturating_sub(objects.start))
            .collect();
        let rows = self.written.iter().flat_map(|written| &written.objects);
        rows.filter_map(|object| of_objects.get(*object as usize).copied()).collect()
    }

    /// Documents that have one of them each, by its row.
    pub(crate) async fn texts(&self, reads: &Permits) -> Result<Vec<String>> {
        match self.view(reads) {
            Some((view, _)) => view.documents(&(0..view.split().rows()).collect()).await,
            None => Ok(Vec::new()),
        }
    }

    /// Them as a split, and the object that each of its rows is; none without any.
    pub(crate) fn view<'a>(&'a self, reads: &'a Permits) -> Option<(View<'a>, &'a [u32])> {
        let written = self.written.as_ref()?;
        let view =
            View { open: &written.open, reader: &written.bytes, reads, meter: &self.meter, shown: None };
        Some((view, &written.objects))
    }
}

fn writer(mapping: &Mapping) -> SplitWriter {
    // They are read once, so packing them well would cost more than it saves.
    let options = WriterOptions {
        limits: LIMITS,
        zstd_level: 1,
        column_zstd_level: 1,
        source_zstd_level: 1,
        ..WriterOptions::default()
    };
    SplitWriter::new(mapping.clone(), options)
}

impl Written {
    fn new(writer: SplitWriter) -> Result<Option<Written>> {
        if writer.rows() == 0 {
            return Ok(None);
        }
        let (id, mut bytes) = (SplitId::from_random(0), Vec::new());
        let sealed = writer.seal(id, &mut bytes)?;
        let bytes = InMemory(bytes.into());
        let split = Split::open(&bytes.range(&sealed.footer)?)?;
        let entry = Arc::new(SplitEntry::new(id, String::new(), &sealed));
        let open = OpenSplit { entry, split, unpacked: UnpackedOfSplit::none() };
        Ok(Some(Written { open, bytes, objects: sealed.order }))
    }
}

/// The bytes of a split that is in no store.
#[derive(Debug)]
struct InMemory(Bytes);

impl InMemory {
    fn range(&self, range: &ByteRange) -> Result<Bytes> {
        let place = |at: u64| usize::try_from(at).ok().filter(|at| *at <= self.0.len());
        match (place(range.start), place(range.end)) {
            (Some(start), Some(end)) if start <= end => Ok(self.0.slice(start..end)),
            _ => Err(Error::internal("a read past the end of a split in memory")),
        }
    }
}

impl ReadRanges for InMemory {
    fn read_by<'a>(
        &'a self,
        _: Caches,
        _: &'a ObjectRef,
        ranges: &'a [ByteRange],
        _: Share,
        _: &'a Meter,
    ) -> Reading<'a> {
        let bytes: Result<Vec<Bytes>> = ranges.iter().map(|range| self.range(range)).collect();
        Box::pin(std::future::ready(bytes))
    }
}

/// A document, taken apart.
pub(crate) fn parsed(document: &str) -> Result<Json> {
    serde_json::from_str(document).map_err(|e| Error::corrupt("a document is not JSON").with_source(e))
}

/// A document that has this object and nothing else.
pub(crate) fn alone(path: &str, object: Json) -> Result<String> {
    let document = Json::Object(vec![(path.to_owned(), object)]);
    serde_json::to_string(&document)
        .map_err(|e| Error::internal("an object cannot be written").with_source(e))
}

/// A document that has some of the objects at a path of another, by their numbers, and nothing else.
pub(crate) fn several(path: &str, document: &str, is_kept: impl Fn(usize) -> bool) -> Result<String> {
    let objects = objects_at(parsed(document)?, &[path]).into_iter().enumerate();
    let kept = objects.filter(|(number, _)| is_kept(*number)).map(|(_, object)| object.json).collect();
    alone(path, Json::Array(kept))
}

/// The objects with a value at the last of `paths`, each of which is inside of the one before. Each says which one it is
/// of those at each path, in that of the path before.
pub(crate) fn objects_at(document: Json, paths: &[&str]) -> Vec<Object> {
    let mut found = Vec::new();
    let Some((first, inner)) = paths.split_first() else { return found };
    // What is left of the paths, as seen from these objects.
    let below: Vec<&str> = inner.iter().filter_map(|path| rest(path, first)).collect();
    let mut all = Vec::new();
    add_all_at(document, first, &mut all);
    for (offset, json) in all.into_iter().enumerate() {
        if below.is_empty() {
            found.extend(has_value(&json).then(|| Object { json, offsets: vec![offset] }));
            continue;
        }
        found.extend(objects_at(json, &below).into_iter().map(|Object { json, mut offsets }| {
            offsets.insert(0, offset);
            Object { json, offsets }
        }));
    }
    found
}

/// Adds all objects at a path.
fn add_all_at(json: Json, path: &str, all: &mut Vec<Json>) {
    let members = match json {
        Json::Scalar(_) => return,
        Json::Array(items) => return items.into_iter().for_each(|item| add_all_at(item, path, all)),
        object if path.is_empty() => return all.push(object),
        Json::Object(members) => members,
    };
    for (name, inner) in members {
        if name == path {
            add_all_at(inner, "", all);
        } else if let Some(path) = rest(path, &name) {
            add_all_at(inner, path, all);
        } else if let Some(name) = rest(&name, path) {
            all.push(Json::Object(vec![(name.to_owned(), inner)]));
        }
    }
}

/// A path as seen from the object at `parent`.
fn rest<'p>(path: &'p str, parent: &str) -> Option<&'p str> {
    path.strip_prefix(parent)?.strip_prefix('.')
}

fn has_value(json: &Json) -> bool {
    match json {
        Json::Object(members) => members.iter().any(|(_, json)| has_value(json)),
        Json::Array(items) => items.iter().any(has_value),
        scalar => !scalar.is_null(),
    }
}

#[cfg(test)]
mod tests;
