//! The objects that made documents match, which hits show with them.

use std::cmp::Ordering;

use frostline_split::{
    Document as Parsed, Limits, Mapping, Moment, Value as Typed, ip_text, parse_document, parse_ip,
};
use futures::future::{BoxFuture, FutureExt};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::Result;
use crate::answer::highlight::{Effort, Highlighter};
use crate::answer::response::{Hit, Shown};
use crate::answer::show::Fields;
use crate::exec::order::Document;
use crate::filter::Scalar;
use crate::json::Json;
use crate::language::date::Format;
use crate::language::{InnerHits, Missing, Sort, SortBy, SortMode, SourceFilter};
use crate::read::memory::Permits;
use crate::read::objects::{Objects, alone, objects_at, parsed};
use crate::source::Source;

/// A document of which objects are shown, or an object of one.
pub(super) struct Whole {
    /// The index that has the document.
    pub(super) index: String,
    /// The document; of an object it has only that.
    pub(super) document: Document,
    /// Which object it is, at each path that leads to it.
    pub(super) offsets: Vec<usize>,
}

/// What is shown of the objects of each of some documents, by the names that the request has for them.
pub(super) fn inner_hits_of<'a>(
    wanted: &'a [InnerHits],
    wholes: &'a [Whole],
    reads: &'a Permits,
    effort: &'a mut Effort,
) -> BoxFuture<'a, Result<Vec<Json>>> {
    async move {
        let mut shown: Vec<Vec<(String, Json)>> = wholes.iter().map(|_| Vec::new()).collect();
        for inner in wanted {
            let of_inner = shown_of(inner, wholes, reads, effort).await?;
            for (shown, json) in shown.iter_mut().zip(of_inner) {
                shown.push((inner.name.clone(), json));
            }
        }
        Ok(shown.into_iter().map(Json::Object).collect())
    }
    .boxed()
}

async fn shown_of(
    inner: &InnerHits,
    wholes: &[Whole],
    reads: &Permits,
    effort: &mut Effort,
) -> Result<Vec<Json>> {
    let (path, mapping) = (inner.nested.path.as_str(), &inner.nested.mapping);
    let levels: Vec<&str> = inner.levels.iter().map(String::as_str).collect();
    let texts = wholes.iter().map(|whole| whole.document.source.as_deref().unwrap_or("{}"));
    let objects = Objects::new(texts, &levels, mapping)?;
    let matching = objects.matching(&inner.nested.filter, reads).await?;
    let formats = inner.request.sort.iter().map(|sort| sort.format.as_deref().map(Format::parse).transpose());
    let formats = formats.collect::<Result<Vec<_>>>()?;
    let (mut pages, mut hits, mut sorts) = (Vec::new(), Vec::new(), Vec::new());
    for (whole, numbers) in wholes.iter().zip(objects.of_documents()) {
        let document = parsed(whole.document.source.as_deref().unwrap_or("{}"))?;
        let found = objects_at(document, &levels).into_iter().zip(numbers.clone());
        let mut found = found
            .filter(|(_, number)| matching.contains(*number))
            .map(|(object, _)| {
                let (text, mut offsets) = (alone(path, object.json)?, object.offsets);
                offsets.iter_mut().zip(&whole.offsets).for_each(|(offset, known)| *offset = *known);
                let keys = keys_of(&text, &offsets, &inner.request.sort, mapping)?;
                Ok((keys, offsets, text))
            })
            .collect::<Result<Vec<_>>>()?;
        found.sort_by(|a, b| compare(&a.0, &b.0, &inner.request.sort));
        let page = found.len();
        let first = hits.len();
        for (keys, offsets, text) in found.into_iter().skip(inner.request.from).take(inner.request.size) {
            let Document { id, numbers, .. } = &whole.document;
            let source = Some(Source::from(text.as_str()));
            let document = Document { id: id.clone(), source, numbers: *numbers };
            let shown = formats.iter().zip(&keys).map(|(format, key)| key.shown(format.as_ref()));
            sorts.push((!formats.is_empty()).then(|| shown.collect()));
            hits.push(Whole { index: whole.index.clone(), document, offsets });
        }
        pages.push((page, first..hits.len()));
    }
    let below = match inner.inner.as_slice() {
        [] => Vec::new(),
        inner => inner_hits_of(inner, &hits, reads, effort).await?,
    };
    let mut below = below.into_iter();
    let mut made = Vec::with_capacity(hits.len());
    let fields = Fields::of_object(&inner.request, mapping, path)?;
    let kept = SourceFilter::of_index(mapping.source());
    let highlighter = inner.request.highlight.clone().map(Highlighter::new).transpose()?;
    for (hit, sort) in hits.iter().zip(sorts) {
        let highlighter = highlighter.as_ref();
        let shown = Shown { request: &inner.request, highlighter, fields: fields.as_ref(), kept: &kept };
        let own = Hit::new(&shown, &hit.index, hit.document.clone(), sort, effort)?;
        made.push(as_object(own, &inner.levels, &hit.offsets, below.next())?);
    }
    let mut made = made.into_iter();
    let pages = pages.into_iter().map(|(total, page)| {
        let total = json!({ "value": total, "relation": "eq" });
        let hits = Json::Array(made.by_ref().take(page.len()).collect());
        Json::Object(vec![(
            "hits".to_owned(),
            Json::Object(vec![
                ("total".to_owned(), Json::of(&total)),
                ("max_score".to_owned(), Json::of(&Value::Null)),
                ("hits".to_owned(), hits),
            ]),
        )])
    });
    Ok(pages.collect())
}

/// A document that has one object of another alone, and which it is of those at each path: `numbers` are of those with a
/// value. None where the other has no such object.
pub(super) fn object_of(
    source: &str,
    paths: &[String],
    numbers: &[u32],
) -> Result<Option<(String, Vec<usize>)>> {
    let (mut text, mut offsets) = (source.to_owned(), Vec::new());
    for (path, number) in paths.iter().zip(numbers) {
        let mut objects = objects_at(parsed(&text)?, &[path]).into_iter();
        let Some(object) = objects.nth(*number as usize) else { return Ok(None) };
        text = alone(path, object.json)?;
        offsets.extend(object.offsets);
    }
    Ok(Some((text, offsets)))
}

/// A hit of a document that has one object alone, as the hit of the object.
pub(super) fn as_object(hit: Hit, levels: &[String], offsets: &[usize], below: Option<Json>) -> Result<Json> {
    let unread = |e| frostline_base::Error::internal("a hit cannot be read again").with_source(e);
    let written = serde_json::to_string(&hit).map_err(unread)?;
    let Json::Object(mut members) = serde_json::from_str(&written).map_err(unread)? else {
        return Err(frostline_base::Error::internal("a hit is no object"));
    };
    for (name, value) in &mut members {
        if name == "_source" {
            let object = match value {
                Json::Object(only) => only.pop().map(|(_, object)| object),
                _ => None,
            };
            *value = object.unwrap_or_else(|| Json::Object(Vec::new()));
        }
    }
    let at = members.iter().position(|(name, _)| name == "_id").map_or(0, |at| at + 1);
    members.insert(at, ("_nested".to_owned(), Json::of(&place(levels, offsets))));
    members.extend(below.map(|below| ("inner_hits".to_owned(), below)));
    Ok(Json::Object(members))
}

/// Where an object is in its document, from the outside.
fn place(levels: &[String], offsets: &[usize]) -> Value {
    let outer = [""].into_iter().chain(levels.iter().map(String::as_str));
    let names = levels.iter().zip(outer).map(|(level, outer)| {
        level.strip_prefix(outer).map_or(level.as_str(), |rest| rest.strip_prefix('.').unwrap_or(rest))
    });
    let names: Vec<&str> = names.collect();
    names.iter().zip(offsets).rev().fold(Value::Null, |inner, (field, offset)| match inner {
        Value::Null => json!({ "field": field, "offset": offset }),
        inner => json!({ "field": field, "offset": offset, "_nested": inner }),
    })
}

/// What an object is sorted by.
#[derive(Clone, Debug)]
enum Key {
    Missing,
    Boolean(bool),
    Number(f64),
    Long(i64),
    /// In microseconds.
    Time(i64),
    Text(String),
    Address([u8; 16]),
}

impl Key {
    fn of(value: &Typed<'_>) -> Key {
        match value {
            Typed::Boolean(truth) => Key::Boolean(*truth),
            Typed::Long(number) => Key::Long(*number),
            Typed::Double(number) => Key::Number(*number),
            Typed::Big(digits) => digits.parse().map_or(Key::Missing, Key::Number),
            Typed::Date(moment) => Key::Time(moment.time_us),
            Typed::Ip(text) | Typed::Text(text) => Key::Text((*text).to_owned()),
        }
    }

    fn of_scalar(scalar: &Scalar) -> Key {
        match scalar {
            Scalar::Boolean(truth) => Key::Boolean(*truth),
            Scalar::Long(number) => Key::Long(*number),
            Scalar::Double(number) => Key::Number(*number),
            Scalar::Text(text) => Key::Text(text.clone()),
        }
    }

    fn shown(&self, format: Option<&Format>) -> Value {
        match self {
            Key::Missing => Value::Null,
            Key::Boolean(truth) => json!(truth),
            Key::Long(number) => json!(number),
            Key::Number(number) => json!(number),
            Key::Time(us) => match format {
                Some(format) => json!(format.write(Moment::of_us(*us), &TimeZone::UTC)),
                None => json!(us.div_euclid(1_000)),
            },
            Key::Text(text) => json!(text),
            Key::Address(address) => json!(ip_text(address)),
        }
    }

    /// The same of a field that has addresses alone.
    fn address(self) -> Key {
        match self {
            Key::Text(text) => parse_ip(&text).map_or(Key::Text(text), Key::Address),
            other => other,
        }
    }

    /// Values of different types are sorted by their types.
    fn order(&self, other: &Key) -> Ordering {
        let rank = |key: &Key| match key {
            Key::Missing => 0,
            Key::Boolean(_) => 1,
            Key::Long(_) | Key::Number(_) => 2,
            Key::Time(_) => 3,
            Key::Address(_) => 4,
            Key::Text(_) => 5,
        };
        match (self, other) {
            (Key::Boolean(a), Key::Boolean(b)) => a.cmp(b),
            (Key::Long(a), Key::Long(b)) | (Key::Time(a), Key::Time(b)) => a.cmp(b),
            (Key::Number(a), Key::Number(b)) => a.total_cmp(b),
            (Key::Long(a), Key::Number(b)) => (*a as f64).total_cmp(b),
            (Key::Number(a), Key::Long(b)) => a.total_cmp(&(*b as f64)),
            (Key::Text(a), Key::Text(b)) => a.cmp(b),
            (Key::Address(a), Key::Address(b)) => a.cmp(b),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}

/// What a document that has one object is sorted by.
fn keys_of(text: &str, offsets: &[usize], sort: &[Sort], mapping: &Mapping) -> Result<Vec<Key>> {
    if sort.is_empty() {
        return Ok(Vec::new());
    }
    let mut document = Parsed::new();
    // The document that has it was taken.
    let limits = Limits { document_bytes_max: usize::MAX, depth_max: usize::MAX, ..Limits::default() };
    parse_document(text.as_bytes(), mapping, &limits, &mut document)?;
    let key = |sort: &Sort| {
        let field = match &sort.by {
            SortBy::Score => return Key::Missing,
            SortBy::Doc => return Key::Long(offsets.last().map_or(0, |offset| *offset as i64)),
            SortBy::Field(field) => field,
        };
        let is_of = |path: &str| field.paths().iter().any(|own| own.path == path);
        let values = document.values().filter(|(path, _)| is_of(document.path(*path)));
        let keys = values.map(|(_, value)| match (field.normalizer(), value) {
            (Some(normalizer), Typed::Text(text)) => Key::Text(normalizer.fold(text).into_owned()),
            (_, value) => Key::of(&value),
        });
        let are_addresses = field.has_addresses_alone();
        let placed = |key: Key| if are_addresses { key.address() } else { key };
        let keys = keys.map(placed);
        let largest = sort.mode.map_or(sort.descending, |mode| mode == SortMode::Max);
        let key = if largest { keys.max_by(Key::order) } else { keys.min_by(Key::order) };
        match (key, &sort.missing) {
            (Some(key), _) => key,
            (None, Missing::Value(scalar)) => placed(Key::of_scalar(scalar)),
            (None, _) => Key::Missing,
        }
    };
    Ok(sort.iter().map(key).collect())
}

fn compare(a: &[Key], b: &[Key], sort: &[Sort]) -> Ordering {
    let each = sort.iter().zip(a.iter().zip(b)).map(|(sort, (a, b))| match (a, b) {
        (Key::Missing, Key::Missing) => Ordering::Equal,
        (Key::Missing, _) | (_, Key::Missing) => {
            let is_first = (sort.missing == Missing::First) == matches!(a, Key::Missing);
            if is_first { Ordering::Less } else { Ordering::Greater }
        }
        (a, b) if sort.descending => b.order(a),
        (a, b) => a.order(b),
    });
    each.fold(Ordering::Equal, Ordering::then)
}
