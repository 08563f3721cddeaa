//! A field reference in a query: a name, resolved once.
//!
//! - [`FieldRef::resolve`] resolves a name against the mapping when a query is parsed, and
//!   [`FieldRef::column`] does so for SQL columns. All later steps take a [`FieldRef`] and never a name.
//! - A reference means the values of one path, or of several: `level.raw` may be another name of
//!   `level` as well as a field of its own. A split looks up the readings that it has of these paths.
//! - It is plain data: serialized and read in another process it means the same.

use std::fmt;
use std::sync::Arc;

use frostline_base::IndexName;
use frostline_split::{Analysis, FieldType, Mapping, Split, SplitField, ValueType, Wanted};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::geo::PointsAs;
use crate::ranges::RangesOf;

/// A field reference of a query. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FieldRef(Arc<Meaning>);

/// The field that has the name of the index of every document.
pub const INDEX: &str = "_index";

/// Whether a field of that name has the name of the index.
pub(crate) fn is_index(name: &str) -> bool {
    name.strip_suffix(".keyword").unwrap_or(name) == INDEX
}

#[derive(Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
struct Meaning {
    name: String,
    /// The documents' time is one of the values.
    time: bool,
    paths: Vec<FieldPath>,
    readings: Vec<TypedReading>,
    /// Fields are below the name, and a document that has one of them has this field.
    object: bool,
    /// The one value that every document has.
    constant: Option<String>,
    /// The values are made of what is written at and below the paths.
    made: Option<Made>,
    /// How the text is compared, where it is not as all text is.
    analysis: Option<Analysis>,
}

/// What the values of a field are made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
enum Made {
    /// Of points.
    Points(PointsAs),
    /// They are ranges, as texts.
    Ranges(RangesOf),
}

/// A path whose values are meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FieldPath {
    /// The path in the documents.
    pub path: String,
    /// Text is compared whole and as written, not by its tokens.
    pub exact: bool,
}

/// What is measured of a field whose values are of several types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Its numbers.
    Numbers,
    /// Its times.
    Times,
    /// Its booleans.
    Booleans,
}

/// A type that values of the field have or are declared to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TypedReading {
    /// The type.
    pub ty: ValueType,
    /// Some documents have several values.
    pub list: bool,
    /// These values have a column.
    pub column: bool,
}

impl TypedReading {
    /// Adds it to those of other values of the field.
    fn add_to(self, readings: &mut Vec<TypedReading>) {
        match readings.iter_mut().find(|known| known.ty == self.ty) {
            Some(known) => {
                (known.list, known.column) = (known.list || self.list, known.column || self.column);
            }
            None => readings.push(self),
        }
    }
}

impl FieldRef {
    /// The meaning of `name` in a query, an aggregation or a sort.
    pub fn resolve(mapping: &Mapping, name: &str) -> FieldRef {
        if is_index(name) {
            let readings = vec![TypedReading { ty: ValueType::Text, list: false, column: false }];
            return FieldRef(Arc::new(Meaning { name: name.to_owned(), readings, ..Meaning::default() }));
        }
        let resolved = mapping.resolve(name);
        // Where some are hidden, whether a document has one below the name tells of those, too.
        let object = mapping.has_children(name) && !mapping.hides_below(name);
        let field = FieldRef::new(mapping, name, resolved.is_time, resolved.paths, object);
        field.analyzed(mapping.analysis_of(name))
    }

    /// The same with its text compared so.
    fn analyzed(mut self, analysis: Option<Analysis>) -> FieldRef {
        if let Some(meaning) = Arc::get_mut(&mut self.0) {
            meaning.analysis = analysis;
        }
        self
    }

    /// How its text is compared, where it is not as all text is.
    pub(crate) fn analysis(&self) -> Option<&Analysis> {
        self.0.analysis.as_ref()
    }

    /// The same, asked by an analysis of its own: where it has one itself.
    pub(crate) fn asked_by(&self, queries: &Analysis) -> Option<FieldRef> {
        let analysis = self.0.analysis.as_ref().filter(|own| !own.is_normalizer())?.asked_by(queries);
        let Meaning { name, time, paths, readings, object, constant, made, .. } = &*self.0;
        let (name, paths, readings) = (name.clone(), paths.clone(), readings.clone());
        let (constant, made, analysis) = (constant.clone(), made.clone(), Some(analysis));
        let (time, object) = (*time, *object);
        Some(FieldRef(Arc::new(Meaning { name, time, paths, readings, object, constant, made, analysis })))
    }

    /// The same, asked by words as its values have them: where its text is compared by an analysis.
    pub(crate) fn asked_as_written(&self) -> FieldRef {
        let asked = Analysis::analyzer("keyword").and_then(|queries| self.asked_by(&queries));
        asked.unwrap_or_else(|| self.clone())
    }

    /// What is made of its values before they are compared, counted and sorted.
    pub(crate) fn normalizer(&self) -> Option<&Analysis> {
        self.0.analysis.as_ref().filter(|analysis| analysis.is_normalizer())
    }

    /// What `name` means in any of these mappings: all that it means in one of them.
    pub(crate) fn in_any(mappings: &[&Mapping], name: &str) -> FieldRef {
        let mut all = Meaning { name: name.to_owned(), ..Meaning::default() };
        for field in mappings.iter().map(|mapping| FieldRef::resolve(mapping, name)) {
            let own = &*field.0;
            (all.time, all.object) = (all.time || own.time, all.object || own.object);
            all.analysis = all.analysis.max(own.analysis.clone());
            for path in &own.paths {
                if all.paths.iter().all(|known| known.path != path.path) {
                    all.paths.push(path.clone());
                }
            }
            own.readings.iter().for_each(|reading| reading.add_to(&mut all.readings));
        }
        all.readings.sort_unstable();
        FieldRef(Arc::new(all))
    }

    /// The column `path` of a table: the values of exactly this path, or of the field that it is an alias of, compared as
    /// written.
    pub fn column(mapping: &Mapping, path: &str) -> FieldRef {
        FieldRef::own(mapping, path, true)
    }

    /// The words of the column `path` of a table.
    pub fn words(mapping: &Mapping, path: &str) -> FieldRef {
        FieldRef::own(mapping, path, false)
    }

    /// All fields that are seen, by their words.
    pub(crate) fn all_seen(mapping: &Mapping) -> FieldRef {
        let paths = mapping.fields().keys().map(|path| (path.as_str(), false)).collect();
        FieldRef::new(mapping, "*", false, paths, false)
    }

    /// The documents' time only, by one of its names.
    pub fn time(name: &str) -> FieldRef {
        FieldRef(Arc::new(Meaning { name: name.to_owned(), time: true, ..Meaning::default() }))
    }

    /// The column of the time has the documents' times alone, not what else is in that field.
    fn own(mapping: &Mapping, path: &str, exact: bool) -> FieldRef {
        let of = mapping.field_of_alias(path);
        let time = mapping.is_time(path) || of.is_some_and(|of| mapping.is_time(of));
        let paths = [Some(path), of].into_iter().flatten();
        let own = paths.filter(|path| !time && mapping.field(path).is_some()).map(|path| (path, exact));
        FieldRef::new(mapping, path, time, own.collect(), false)
    }

    fn new(mapping: &Mapping, name: &str, time: bool, paths: Vec<(&str, bool)>, object: bool) -> FieldRef {
        let mut readings: Vec<TypedReading> = Vec::new();
        for field in paths.iter().filter_map(|(path, _)| mapping.field(path)) {
            for (ty, reading) in &field.readings {
                let list = reading.list || reading.dynamic_list || field.mixed_list;
                TypedReading { ty: *ty, list, column: reading.has_column() }.add_to(&mut readings);
            }
            let declared = field.ty().and_then(FieldType::value_type);
            if let Some(ty) = declared.filter(|ty| !time && readings.iter().all(|known| known.ty != *ty)) {
                readings.push(TypedReading { ty, list: false, column: false });
            }
        }
        readings.sort_unstable();
        let paths =
            paths.into_iter().map(|(path, exact)| FieldPath { path: path.to_owned(), exact }).collect();
        FieldRef(Arc::new(Meaning {
            name: name.to_owned(),
            time,
            paths,
            readings,
            object,
            ..Meaning::default()
        }))
    }

    /// The points of the field of this name in any of these mappings, or what is made of each of them. None where a part
    /// of what they are written with is not seen.
    pub(crate) fn points(mappings: &[&Mapping], name: &str, of: PointsAs) -> FieldRef {
        let field = FieldRef::in_any(mappings, name);
        let mut paths = field.0.paths.clone();
        if paths.is_empty() && field.0.object {
            paths.push(FieldPath { path: name.to_owned(), exact: false });
        }
        FieldRef::made(mappings, name, paths, of.value_type(), Made::Points(of))
    }

    /// The ranges of the field of this name, where a mapping declares that it has such. None where a part of what they are
    /// written with is not seen.
    pub(crate) fn ranges(mappings: &[&Mapping], name: &str) -> Option<FieldRef> {
        let ty = mappings.iter().find_map(|mapping| mapping.range_type_of(name))?;
        let paths = FieldRef::in_any(mappings, name).0.paths.clone();
        let has_several = |path: &FieldPath| mappings.iter().any(|of| of.has_several_ranges(&path.path));
        let of = RangesOf { ty, are_single: !paths.iter().any(has_several) };
        Some(FieldRef::made(mappings, name, paths, ValueType::Text, Made::Ranges(of)))
    }

    /// Values that are made of what is at and below these paths, if all of it is seen.
    fn made(mappings: &[&Mapping], name: &str, paths: Vec<FieldPath>, ty: ValueType, of: Made) -> FieldRef {
        let mut paths = paths;
        paths.retain(|path| !mappings.iter().any(|mapping| mapping.hides_some_of(&path.path)));
        let readings = vec![TypedReading { ty, list: true, column: false }];
        let (name, made) = (name.to_owned(), Some(of));
        FieldRef(Arc::new(Meaning { name, paths, readings, made, ..Meaning::default() }))
    }

    /// What the field means in any of these mappings.
    pub(crate) fn joined(&self, mappings: &[&Mapping]) -> FieldRef {
        match &self.0.made {
            Some(Made::Points(of)) => FieldRef::points(mappings, self.name(), of.clone()),
            Some(Made::Ranges(_)) => FieldRef::ranges(mappings, self.name()).unwrap_or_else(|| self.clone()),
            None => FieldRef::in_any(mappings, self.name()),
        }
    }

    /// What is made of the points that are its values; none where its values are as they are.
    pub(crate) fn of_points(&self) -> Option<&PointsAs> {
        match &self.0.made {
            Some(Made::Points(of)) => Some(of),
            _ => None,
        }
    }

    /// What its values are, where these are ranges.
    pub(crate) fn of_ranges(&self) -> Option<&RangesOf> {
        match &self.0.made {
            Some(Made::Ranges(of)) => Some(of),
            _ => None,
        }
    }

    /// Whether its values are made of what documents have, and are not as they are.
    pub(crate) fn is_made(&self) -> bool {
        self.0.made.is_some()
    }

    /// The name, as written in the query.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether the documents' time is one of the values.
    pub fn is_time(&self) -> bool {
        self.0.time
    }

    /// Whether it is the name of the index, which is whole anyway.
    pub fn is_index(&self) -> bool {
        is_index(&self.0.name)
    }

    /// Whether whole values are requested in one of the paths, so that letters keep their case.
    pub fn is_exact(&self) -> bool {
        self.0.paths.iter().any(|path| path.exact)
    }

    /// Whether letters keep the case that a query gives them until it is known how the field's text is compared.
    pub(crate) fn keeps_case(&self) -> bool {
        self.is_exact() || self.analysis().is_some()
    }

    /// Whether it has text that can be asked for by its words.
    pub(crate) fn has_words(&self) -> bool {
        !self.is_exact()
            && !self.is_index()
            && self.0.readings.iter().any(|reading| reading.ty == ValueType::Text)
    }

    /// The same field, with whole values requested.
    pub fn whole(&self) -> FieldRef {
        let meaning = &*self.0;
        if meaning.paths.iter().all(|path| path.exact) && self.is_known() {
            return self.clone();
        }
        let paths = meaning.paths.iter().map(|path| FieldPath { path: path.path.clone(), exact: true });
        FieldRef(Arc::new(Meaning {
            name: format!("{}.keyword", meaning.name),
            time: meaning.time,
            paths: paths.collect(),
            readings: meaning.readings.clone(),
            object: false,
            constant: meaning.constant.clone(),
            ..Meaning::default()
        }))
    }

    /// The same where it is the time of the documents of some indices and another field of others: its values.
    pub(crate) fn of_several_times(&self) -> FieldRef {
        if self.is_made() {
            return self.clone();
        }
        let mut readings = self.0.readings.clone();
        if self.types().any(|ty| ty == ValueType::Date)
            && readings.iter().all(|own| own.ty != ValueType::Date)
        {
            readings.push(TypedReading { ty: ValueType::Date, list: false, column: false });
            readings.sort_unstable();
        }
        let paths = self.0.paths.clone();
        FieldRef(Arc::new(Meaning { name: self.0.name.clone(), paths, readings, ..Meaning::default() }))
    }

    /// The same field as indices with these declarations alone mean its name. It keeps the types that its values have in
    /// all indices that are asked, so that the answers of these go together. The name of the index is that of `index`.
    pub(crate) fn within(&self, mapping: &Mapping, index: &IndexName) -> FieldRef {
        if self.is_index() {
            let (name, readings) = (self.0.name.clone(), self.0.readings.clone());
            let constant = Some(index.to_string());
            return FieldRef(Arc::new(Meaning { name, readings, constant, ..Meaning::default() }));
        }
        match &self.0.made {
            // What is hidden in these indices alone hides all that is made of it.
            Some(Made::Points(_)) => return self.joined(&[mapping]),
            Some(Made::Ranges(of)) => {
                // Under that name these indices may have something else.
                let own = FieldRef::ranges(&[mapping], self.name());
                let own = own.filter(|own| own.of_ranges().is_some_and(|own| own.ty == of.ty));
                return own.unwrap_or_else(|| {
                    FieldRef::made(&[], self.name(), Vec::new(), ValueType::Text, Made::Ranges(of.clone()))
                });
            }
            None => {}
        }
        let resolved = mapping.resolve(self.name());
        let own = |(path, exact): (&str, bool)| FieldPath { path: path.to_owned(), exact };
        // Where they have none of the paths they need not be told apart from others: no document has a value there.
        let has_none =
            resolved.paths.is_empty() && self.0.paths.iter().all(|path| mapping.field(&path.path).is_none());
        let paths = match has_none {
            true => self.0.paths.clone(),
            false => resolved.paths.into_iter().map(own).collect(),
        };
        FieldRef(Arc::new(Meaning {
            name: self.0.name.clone(),
            time: self.0.time && resolved.is_time,
            paths,
            readings: self.0.readings.clone(),
            object: self.0.object && !mapping.hides_below(self.name()),
            constant: None,
            made: None,
            analysis: mapping.analysis_of(self.name()),
        }))
    }

    /// The same field for whoever looks for values of it, and for none of a type: beside the documents' time alone it
    /// matters what other values there are.
    pub(crate) fn untyped(&self) -> FieldRef {
        let Meaning { name, time, paths, readings, object, constant, made, analysis } = &*self.0;
        if made.is_some() {
            return self.clone();
        }
        let types = readings.iter().filter(|_| *time).map(|reading| reading.ty);
        let readings = types.map(|ty| TypedReading { ty, list: false, column: false }).collect();
        let (name, paths, constant) = (name.clone(), paths.clone(), constant.clone());
        let (object, analysis) = (*object, analysis.clone());
        let time = *time;
        FieldRef(Arc::new(Meaning { name, time, paths, readings, object, constant, made: None, analysis }))
    }

    /// The one value that every document has.
    pub(crate) fn constant(&self) -> Option<&str> {
        self.0.constant.as_deref()
    }

    /// Whether both mean the same values, whole or by words.
    pub(crate) fn has_values_of(&self, other: &FieldRef) -> bool {
        let paths = |field: &FieldRef| field.0.paths.iter().map(|path| path.path.clone()).collect::<Vec<_>>();
        self.0.time == other.0.time
            && self.0.made == other.0.made
            && self.normalizer() == other.normalizer()
            && paths(self) == paths(other)
    }

    /// Whether the mapping has the field, or fields below it.
    pub fn is_known(&self) -> bool {
        self.0.time || self.0.object || !self.0.paths.is_empty() || self.is_index()
    }

    /// The paths whose values are meant.
    pub fn paths(&self) -> &[FieldPath] {
        &self.0.paths
    }

    /// The types of the values, each once, without the documents' time.
    pub fn readings(&self) -> &[TypedReading] {
        &self.0.readings
    }

    /// The types of all values, including the documents' time.
    pub fn types(&self) -> impl Iterator<Item = ValueType> + '_ {
        let time = self.0.time && self.0.readings.iter().all(|reading| reading.ty != ValueType::Date);
        self.0.readings.iter().map(|reading| reading.ty).chain(time.then_some(ValueType::Date))
    }

    /// Whether its values are addresses and nothing else, which are compared as such.
    pub(crate) fn has_addresses_alone(&self) -> bool {
        self.types().next().is_some() && self.types().all(|ty| ty == ValueType::Ip)
    }

    /// What bounds, metrics and histograms take of the field: the documents' times, else numbers, else
    /// other times, else booleans. `None`: no value can be measured, or none is known.
    pub(crate) fn measure(&self) -> Option<Measure> {
        let has = |wanted: &[ValueType]| self.types().any(|ty| wanted.contains(&ty));
        if self.is_time() {
            Some(Measure::Times)
        } else if has(&[ValueType::Long, ValueType::Double, ValueType::Big]) {
            Some(Measure::Numbers)
        } else if has(&[ValueType::Date]) {
            Some(Measure::Times)
        } else {
            has(&[ValueType::Boolean]).then_some(Measure::Booleans)
        }
    }

    /// What a split is asked for the readings of this field.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = Wanted<'_>> {
        let below = self.0.paths.iter().filter(|_| self.is_made());
        let below = below.map(|path| Wanted::Below(&path.path));
        self.0.paths.iter().map(|path| Wanted::Path(&path.path)).chain(below)
    }

    /// The readings that a split has of this field, by number, and whether whole values are asked for. Their blocks
    /// must have been read.
    pub(crate) fn in_split<'s>(&self, split: &'s Split) -> Result<Vec<(&'s SplitField, bool)>> {
        let mut readings: Vec<(&SplitField, bool)> = Vec::new();
        for path in &self.0.paths {
            let below = self.is_made().then_some(Wanted::Below(&path.path));
            for wanted in [Wanted::Path(&path.path)].into_iter().chain(below) {
                readings.extend(split.find(wanted)?.into_iter().map(|field| (field, path.exact)));
            }
        }
        // Of two that name one path, the first says how it is compared.
        readings.sort_by_key(|(field, _)| field.number);
        readings.dedup_by_key(|(field, _)| field.number);
        Ok(readings)
    }

    /// What a split is asked for the readings without which no row has this field.
    pub(crate) fn exists_by(&self) -> impl Iterator<Item = Wanted<'_>> {
        self.wanted().chain(self.0.object.then_some(Wanted::Below(&self.0.name)))
    }
}

impl fmt::Display for FieldRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

impl fmt::Debug for FieldRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Meaning { name, time, paths, readings, object, constant, made, analysis } = &*self.0;
        let mut shown = f.debug_struct("FieldRef");
        shown.field("name", name).field("time", time).field("paths", paths);
        shown
            .field("readings", readings)
            .field("object", object)
            .field("constant", constant)
            .field("made", made)
            .field("analysis", analysis)
            .finish()
    }
}

#[cfg(test)]
mod tests;
