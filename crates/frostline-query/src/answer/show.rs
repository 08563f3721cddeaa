//! The `fields` of a hit: leaf values of its source by the names of their fields.
//!
//! - A value is shown as the type of its field has it, however the document spells it. One that the type cannot hold is
//!   told apart.
//! - What no search finds is shown where that is asked for, as it is written.
//! - Objects that are asked by themselves stay apart, each with its own fields.

use std::collections::{BTreeSet, HashMap};

use frostline_split::{
    Document, Field, FieldType, Limits, Mapping, Moment, RangeType, Value, parse_document, parse_moment_field,
};
use serde_json::json;

use crate::Result;
use crate::answer::standard::Standard;
use crate::geo::Point;
use crate::json::Json;
use crate::language::{FieldFormat, SearchRequest, ValueForm};
use crate::read::objects::alone;

/// Which fields hits show of documents that are read by one mapping.
pub(crate) struct Fields<'a> {
    wanted: Vec<Wanted>,
    mapping: &'a Mapping,
    /// Where a path is not the name of what it has: the names that are asked for, each with the place of what asks.
    named: HashMap<&'a str, Vec<(String, usize)>>,
    /// The path of the objects of which documents have one alone; empty where they are whole.
    object: &'a str,
    /// Those that are asked for as parts of documents, where an index does not show all of these.
    of_parts: Option<Box<Fields<'a>>>,
}

/// What a request asks of one name.
struct Wanted {
    field: FieldFormat,
    form: Option<ValueForm>,
    /// The field is asked for as a column, which knows no objects and nothing that its type cannot hold.
    is_column: bool,
}

/// What a hit shows of the fields that were asked for; none where it has nothing to show.
#[derive(Default)]
pub(crate) struct ShownFields {
    /// Each an array of its values.
    pub(crate) fields: Option<Json>,
    /// The values that the types of their fields cannot hold, as they are written.
    pub(crate) ignored: Option<Json>,
}

impl<'a> Fields<'a> {
    /// None where a request asks for none.
    pub(crate) fn of_request(request: &SearchRequest, mapping: &'a Mapping) -> Result<Option<Fields<'a>>> {
        Fields::of_object(request, mapping, "")
    }

    /// The same for documents that have one object of this path alone.
    pub(crate) fn of_object(
        request: &SearchRequest,
        mapping: &'a Mapping,
        object: &'a str,
    ) -> Result<Option<Fields<'a>>> {
        if !request.shows_fields() {
            return Ok(None);
        }
        let (columns, parts) = (request.docvalue_fields.as_slice(), request.fields.as_slice());
        if mapping.source().is_whole() {
            return Fields::wanting_these(columns, parts, mapping, object).map(Some);
        }
        let of_parts = Some(Box::new(Fields::wanting_these(&[], parts, mapping, object)?));
        Ok(Some(Fields { of_parts, ..Fields::wanting_these(columns, &[], mapping, object)? }))
    }

    fn wanting_these(
        columns: &[FieldFormat],
        parts: &[FieldFormat],
        mapping: &'a Mapping,
        object: &'a str,
    ) -> Result<Fields<'a>> {
        let columns = columns.iter().map(|field| (field, true));
        let wanted = columns.chain(parts.iter().map(|field| (field, false)));
        let wanted = wanted
            .map(|(field, is_column)| Ok(Wanted { field: field.clone(), form: field.form()?, is_column }));
        let wanted = wanted.collect::<Result<Vec<_>>>()?;
        let has_patterns = wanted.iter().any(|wanted| wanted.field.is_pattern());
        let mut names = if has_patterns { mapping.other_names() } else { BTreeSet::new() };
        let asked = wanted.iter().map(|wanted| &wanted.field);
        names.extend(asked.filter(|field| !field.is_pattern()).map(|field| field.field.clone()));
        let mut fields = Fields { wanted, mapping, named: HashMap::new(), object, of_parts: None };
        for name in names {
            let Some(place) = fields.wanting(&name) else { continue };
            for path in mapping.places_of(&name).into_iter().filter(|path| *path != name) {
                fields.named.entry(path).or_default().push((name.clone(), place));
            }
        }
        Ok(fields)
    }

    /// Every field that the request asks for and the document has; `part` is what its index shows of it.
    pub(crate) fn of(&self, source: &Json, part: Option<&Json>) -> ShownFields {
        let mut shown = self.of_one(source);
        if let (Some(fields), Some(part)) = (&self.of_parts, part) {
            let own = fields.of_one(part);
            for (shown, own) in [(&mut shown.fields, own.fields), (&mut shown.ignored, own.ignored)] {
                match (shown, own) {
                    (Some(Json::Object(shown)), Some(Json::Object(own))) => {
                        shown.retain(|(name, _)| own.iter().all(|(other, _)| other != name));
                        shown.extend(own);
                    }
                    (shown, own) => *shown = shown.take().or(own),
                }
            }
        }
        shown
    }

    fn of_one(&self, source: &Json) -> ShownFields {
        let mut walk = Walk {
            fields: self,
            document: Document::new(),
            types: HashMap::new(),
            scopes: vec![Scope::default()],
            ignored: Group::default(),
        };
        walk.value(source, "");
        let shown = walk.scopes.pop().unwrap_or_default();
        ShownFields { fields: shown.group.into_json(), ignored: walk.ignored.into_json() }
    }

    /// The place of what asks for the field of this name last.
    fn wanting(&self, name: &str) -> Option<usize> {
        self.wanted.iter().rposition(|wanted| wanted.field.matches(name))
    }

    /// Whether what the mapping does not know at this path is wanted.
    fn wants_unmapped(&self, path: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted.field.include_unmapped && wanted.field.matches(path))
    }

    /// Whether objects of this path are shown apart.
    fn is_apart(&self, path: &str) -> bool {
        let is_inside = self.object.is_empty() || rest_below(path, self.object).is_some();
        is_inside && self.mapping.is_nested(path)
    }

    /// A value of a document as its field is read; none where no search finds it.
    fn read<'d>(&self, path: &str, value: &Json, document: &'d mut Document) -> Option<Value<'d>> {
        // The document that has it was taken.
        let limits = Limits {
            document_bytes_max: usize::MAX,
            depth_max: usize::MAX,
            path_bytes_max: usize::MAX,
            ..Limits::default()
        };
        let text = alone(path, value.clone()).ok()?;
        // What a strict mapping does not have is not known to it.
        parse_document(text.as_bytes(), self.mapping, &limits, document).ok()?;
        let time: Option<Moment> = document.time;
        time.map(Value::Date).or_else(|| document.values().next().map(|(_, value)| value))
    }
}

/// One document, from its first value to its last.
struct Walk<'f> {
    fields: &'f Fields<'f>,
    document: Document,
    types: HashMap<String, Option<FieldType>>,
    /// The document, and the objects that are shown apart and have what is looked at.
    scopes: Vec<Scope>,
    ignored: Group,
}

/// The fields of a document, or of an object that is shown apart.
#[derive(Default)]
struct Scope {
    path: String,
    group: Group,
}

/// The values of each name, at the place of its first.
#[derive(Default)]
struct Group {
    members: Vec<(String, Vec<Json>)>,
    places: HashMap<String, usize>,
}

impl Group {
    fn add(&mut self, name: &str, value: Json) {
        let place = *self.places.entry(name.to_owned()).or_insert_with(|| {
            self.members.push((name.to_owned(), Vec::new()));
            self.members.len() - 1
        });
        self.members[place].1.push(value);
    }

    fn into_json(self) -> Option<Json> {
        let members = self.members.into_iter().map(|(name, values)| (name, Json::Array(values)));
        let members: Vec<(String, Json)> = members.collect();
        (!members.is_empty()).then_some(Json::Object(members))
    }
}

impl Walk<'_> {
    fn value(&mut self, value: &Json, path: &str) {
        let ty = self.fields.mapping.field(path).and_then(Field::ty);
        if ty == Some(FieldType::GeoPoint) && self.points(value, path) {
            return;
        }
        if let Some(ty) = ty.and_then(RangeType::of)
            && self.ranges(value, path, ty)
        {
            return;
        }
        match value {
            Json::Object(members) => {
                let is_apart = self.fields.is_apart(path);
                if is_apart {
                    self.open(path);
                }
                members.iter().for_each(|(name, value)| self.member(path, name, value));
                if is_apart {
                    self.close();
                }
            }
            Json::Array(items) => items.iter().for_each(|item| self.value(item, path)),
            null if null.is_null() => {}
            leaf => self.leaf(leaf, path),
        }
    }

    /// The points that a value is, if their field is asked for by its name.
    fn points(&mut self, value: &Json, path: &str) -> bool {
        let Walk { fields, scopes, .. } = self;
        let own = fields.wanting(path).map(|wanting| (path, wanting));
        let named = fields.named.get(path).into_iter().flatten();
        let wanted: Vec<(&str, usize)> =
            own.into_iter().chain(named.map(|(name, wanting)| (name.as_str(), *wanting))).collect();
        if wanted.is_empty() {
            return false;
        }
        for point in Point::all_of(&value.to_value()) {
            for (name, wanting) in &wanted {
                let Some(Wanted { form, is_column, .. }) = fields.wanted.get(*wanting) else { continue };
                let (lat, lon) = (point.lat, point.lon);
                let shown = match form {
                    Some(form) if form.is_wkt => Json::text(&format!("POINT ({lon:?} {lat:?})")),
                    None if *is_column => Json::text(&format!("{lat:?}, {lon:?}")),
                    _ => Json::of(&json!({ "coordinates": [lon, lat], "type": "Point" })),
                };
                add(scopes, name, shown, *is_column);
            }
        }
        true
    }

    /// The ranges that a value is, if their field is asked for by its name.
    fn ranges(&mut self, value: &Json, path: &str, ty: RangeType) -> bool {
        let own = self.fields.wanting(path).map(|wanting| (path.to_owned(), wanting));
        let named = self.fields.named.get(path).into_iter().flatten().cloned();
        let wanted: Vec<(String, usize)> = own.into_iter().chain(named).collect();
        for (name, wanting) in &wanted {
            let Some(Wanted { form, is_column, .. }) = self.fields.wanted.get(*wanting) else { continue };
            // Ranges have no column that is shown.
            if *is_column {
                continue;
            }
            let field = self.fields.mapping.field(path);
            let standard = Standard { ty: Some(ty.value_type()), field, form: form.as_ref() };
            for range in value.items().iter().filter(|range| !range.is_null()) {
                let shown = match range {
                    Json::Object(ends) => {
                        let ends = ends.iter().map(|(end, value)| {
                            let place = format!("{path}.{end}");
                            let read = self.fields.read(&place, value, &mut self.document);
                            let read = read.map(|value| match ty {
                                RangeType::Date => parse_moment_field(&value).map_or(value, Value::Date),
                                _ => value,
                            });
                            let shown = read.and_then(|read| standard.of(&read, value));
                            (end.clone(), shown.unwrap_or_else(|| value.clone()))
                        });
                        Json::Object(ends.collect())
                    }
                    other => other.clone(),
                };
                add(&mut self.scopes, name, shown, false);
            }
        }
        !wanted.is_empty()
    }

    fn member(&mut self, parent: &str, name: &str, value: &Json) {
        let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
        // A name with dots is an object in an object.
        let start = path.len() - name.len();
        let inside = name.match_indices('.').map(|(at, _)| &path[..start + at]);
        let apart: Vec<&str> = inside.filter(|inside| self.fields.is_apart(inside)).collect();
        apart.iter().for_each(|apart| self.open(apart));
        self.value(value, &path);
        apart.iter().for_each(|_| self.close());
    }

    fn leaf(&mut self, leaf: &Json, path: &str) {
        let Walk { fields, document, types, scopes, ignored } = self;
        let own = fields.wanting(path).map(|wanting| (path, wanting));
        let named =
            fields.named.get(path).into_iter().flatten().map(|(name, wanting)| (name.as_str(), *wanting));
        let mut wanted = own.into_iter().chain(named).peekable();
        if wanted.peek().is_none() {
            return;
        }
        let Some(value) = fields.read(path, leaf, document) else {
            if fields.wants_unmapped(path) {
                add(scopes, path, leaf.clone(), false);
            }
            return;
        };
        let field = fields.mapping.field(path);
        for (name, wanting) in wanted {
            let Some(Wanted { form, is_column, .. }) = fields.wanted.get(wanting) else { continue };
            let ty = match types.get(name) {
                Some(known) => *known,
                None => *types.entry(name.to_owned()).or_insert(fields.mapping.type_of(name)),
            };
            let standard = Standard { ty, field, form: form.as_ref() };
            match standard.of(&value, leaf) {
                Some(shown) => add(scopes, name, shown, *is_column),
                None if *is_column => {}
                None => ignored.add(name, leaf.clone()),
            }
        }
    }

    fn open(&mut self, path: &str) {
        self.scopes.push(Scope { path: path.to_owned(), group: Group::default() });
    }

    fn close(&mut self) {
        let Some(Scope { path, group }) = self.scopes.pop() else { return };
        if let Some(object) = group.into_json() {
            add(&mut self.scopes, &path, object, false);
        }
    }
}

/// Adds a value to the innermost object in which its name is; of a column, to the document.
fn add(scopes: &mut [Scope], name: &str, value: Json, is_column: bool) {
    let (document, inner) = match scopes.split_first_mut() {
        Some(scopes) => scopes,
        None => return,
    };
    let inner = inner.iter_mut().rev().filter(|_| !is_column);
    let found = { inner }.find_map(|scope| Some((rest_below(name, &scope.path)?, &mut scope.group)));
    let (name, group) = found.unwrap_or((name, &mut document.group));
    group.add(name, value);
}

/// A path as seen from the object at `parent`.
fn rest_below<'p>(path: &'p str, parent: &str) -> Option<&'p str> {
    path.strip_prefix(parent)?.strip_prefix('.')
}
