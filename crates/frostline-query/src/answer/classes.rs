//! What each of the indices that are asked together understands by a request.
//!
//! - An index reads the request, and the filter of its alias, by its own mapping and no other. Sorting and aggregations take
//!   a name for what it means in any of the indices, of the values that it means in the own one.
//! - Indices whose mappings are equal read it once. Those that understand the same are asked together, as one class.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use frostline_base::IndexName;
use frostline_catalog::Index;
use frostline_split::{Mapping, TIME_FIELD};
use serde_json::Value;

use crate::agg::{AggTree, ParseContext};
use crate::exec::order::Order;
use crate::exec::splits::{check_time, mapping};
use crate::filter::{FieldRef, Filter};
use crate::language::{self, Context, Highlight, InnerHits, SearchRequest, Sort, SortBy};
use crate::{Error, Result, prune};

/// Indices that understand the same by a request, by their positions among all that are asked.
pub(super) struct Class {
    pub(super) indices: Vec<usize>,
    pub(super) asked: Asked,
}

/// What is asked of the documents of some indices.
#[derive(Clone)]
pub(super) struct Asked {
    /// The field of the time of their documents.
    time: String,
    pub(super) filter: Filter,
    pub(super) post_filter: Option<Filter>,
    pub(super) tree: AggTree,
    pub(super) order: Order,
    pub(super) highlight: Option<Highlight>,
    pub(super) named: Vec<(String, Filter)>,
    pub(super) inner_hits: Vec<InnerHits>,
}

impl Asked {
    fn new(request: SearchRequest, time: &str, tree: AggTree, order: Order) -> Asked {
        let SearchRequest { filter, post_filter, highlight, named, inner_hits, sort, .. } = request;
        Asked {
            time: time.to_owned(),
            filter: untyped(filter),
            post_filter: post_filter.map(untyped),
            tree,
            order: order.as_read(&sort),
            highlight: highlight.map(|highlight| highlight.with_fields(&FieldRef::untyped)),
            named: named.into_iter().map(|(name, filter)| (name, untyped(filter))).collect(),
            inner_hits,
        }
    }

    fn is_same(&self, other: &Asked) -> bool {
        self.time == other.time
            && self.filter == other.filter
            && self.post_filter == other.post_filter
            && self.named == other.named
            && self.highlight == other.highlight
            && self.inner_hits == other.inner_hits
            && self.tree.asks_same(&other.tree)
            && self.order.compares_same(&other.order)
    }

    fn asks_index(&self) -> bool {
        let filters = [&self.filter].into_iter().chain(&self.post_filter);
        let filters = filters.chain(self.named.iter().map(|(_, filter)| filter)).chain(self.tree.filters());
        filters.into_iter().any(Filter::asks_index)
    }

    /// The same of the documents of this index, which read it.
    fn within(mut self, index: &Index) -> Result<Asked> {
        let (name, own) = (index.name(), index.mapping());
        let answered = |filter: &mut Filter| {
            *filter = prune::in_index(std::mem::replace(filter, Filter::All), name.as_str())?;
            Ok(())
        };
        answered(&mut self.filter)?;
        self.post_filter.iter_mut().try_for_each(answered)?;
        self.named.iter_mut().try_for_each(|(_, filter)| answered(filter))?;
        self.tree.filters_mut().try_for_each(answered)?;
        (self.tree, self.order) = (self.tree.within(own, name), self.order.within(own, name));
        Ok(self)
    }
}

/// Indices whose mappings are equal, with one of them that has documents, if any has.
struct Alike<'a> {
    head: &'a Arc<Index>,
    indices: Vec<usize>,
}

impl<'a> Alike<'a> {
    /// In the order of the indices.
    fn all(indices: &'a [Arc<Index>]) -> Vec<Alike<'a>> {
        let (mut places, mut all) = (HashMap::new(), Vec::<Alike<'_>>::new());
        for (position, index) in indices.iter().enumerate() {
            let place = *places.entry(index.mapping_digest()).or_insert(all.len());
            match all.get_mut(place) {
                Some(alike) => {
                    alike.indices.push(position);
                    if alike.head.splits().is_empty() {
                        alike.head = index;
                    }
                }
                None => all.push(Alike { head: index, indices: vec![position] }),
            }
        }
        all
    }

    /// Those with the same filter together.
    fn by_filter<'f>(
        &self,
        indices: &[Arc<Index>],
        filters: &'f BTreeMap<IndexName, Value>,
    ) -> Vec<(Option<&'f Value>, Vec<usize>)> {
        let mut parts: Vec<(Option<&Value>, Vec<usize>)> = Vec::new();
        for position in &self.indices {
            let own = indices.get(*position).and_then(|index| filters.get(index.name()));
            match parts.iter_mut().find(|(filter, _)| *filter == own) {
                Some((_, part)) => part.push(*position),
                None => parts.push((own, vec![*position])),
            }
        }
        parts
    }

    /// The same error, and in which index.
    fn told(&self, error: Error) -> Error {
        Error::new(error.kind(), format!("{} (in the index {})", error.what(), self.head.name()))
    }
}

/// A query in the aggregations of a request, and where it is.
pub(super) struct Clause {
    query: Value,
    position: String,
}

/// A request, and the indices of which it is asked.
pub(super) struct Together<'a> {
    now_us: i64,
    indices: &'a [Arc<Index>],
    alike: Vec<Alike<'a>>,
    /// One index of each mapping, and these mappings.
    heads: Vec<Arc<Index>>,
    mappings: Vec<&'a Mapping>,
}

/// What warnings tell of a request.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The fields that the query names, and whether some index has them.
    pub(super) fields: BTreeMap<String, bool>,
    /// The texts that a value of a field must be, where its words could be asked for.
    pub(super) whole_texts: BTreeSet<(String, String)>,
}

/// More texts are not noted.
const TEXTS_MAX: usize = 100;

impl Notes {
    fn add(&mut self, request: &SearchRequest) {
        let mut add = |field: &FieldRef| {
            *self.fields.entry(field.name().to_owned()).or_default() |= field.is_known();
        };
        let filters = [&request.filter].into_iter().chain(&request.post_filter);
        filters.for_each(|filter| filter.each_field(&mut add));
        request.highlight.iter().for_each(|highlight| highlight.each_field(&mut add));
        request.filter.each_whole_text(&mut |field, text| {
            if self.whole_texts.len() < TEXTS_MAX {
                self.whole_texts.insert((field.name().to_owned(), text.to_owned()));
            }
        });
    }
}

impl<'a> Together<'a> {
    pub(super) fn new(indices: &'a [Arc<Index>], now_us: i64) -> Together<'a> {
        let alike = Alike::all(indices);
        let heads = alike.iter().map(|alike| Arc::clone(alike.head)).collect();
        let mappings = alike.iter().map(|alike| alike.head.mapping()).collect();
        Together { now_us, indices, alike, heads, mappings }
    }

    /// The request as it is answered: its order is of what names mean in any of the indices.
    pub(super) fn request(&self, body: &Value) -> Result<SearchRequest> {
        let mut request = match self.alike.first() {
            Some(first) => self.read(body, first)?,
            None => {
                let none = Mapping::dynamic();
                let context =
                    Context { now_us: self.now_us, mapping: &none, all: &[], keeps_optional: false };
                SearchRequest::from_value(body, &context)?
            }
        };
        let joined = |field: &FieldRef| field.joined(&self.mappings);
        for Sort { by, .. } in &mut request.sort {
            if let SortBy::Field(field) = by {
                let is_clear = check_time(&self.heads, field.name()).is_ok();
                *field = if is_clear { joined(field) } else { joined(field).of_several_times() };
            }
        }
        request.collapse = request.collapse.as_ref().map(joined);
        Ok(request)
    }

    /// The aggregations of the request as they are answered, and the queries in them. `Invalid` where documents of some of the
    /// indices are counted by their time, and others by something else.
    pub(super) fn tree(&self, request: &SearchRequest) -> Result<(AggTree, Vec<Clause>)> {
        let clauses = RefCell::new(Vec::new());
        let mut tree = AggTree::empty();
        if let Some(aggs) = &request.aggs {
            let joined = mapping(&self.heads);
            let filter = |query: &Value, position: &str| {
                clauses.borrow_mut().push(Clause { query: query.clone(), position: position.to_owned() });
                let context = Context {
                    now_us: self.now_us,
                    mapping: &joined,
                    all: &self.mappings,
                    keeps_optional: false,
                };
                language::parse_query(query, position, &context)
            };
            let (now_us, all) = (self.now_us, self.mappings.as_slice());
            let context = ParseContext { now_us, mapping: &joined, all, filter: &filter };
            tree = AggTree::parse(&Value::Object(aggs.clone()), &context)?;
        }
        let counted = tree.fields().iter().chain(&request.collapse);
        counted.into_iter().try_for_each(|field| check_time(&self.heads, field.name()))?;
        Ok((tree, clauses.into_inner()))
    }

    /// The classes of the indices, each with what it is asked. Of indices in `filters` there is nothing but what these match.
    pub(super) fn classes(
        &self,
        (body, first): (&Value, &SearchRequest),
        (tree, clauses): (&AggTree, &[Clause]),
        order: &Order,
        filters: &BTreeMap<IndexName, Value>,
    ) -> Result<(Vec<Class>, Notes)> {
        let names_index = tree.fields().iter().any(FieldRef::is_index) || order.names_index();
        let (mut classes, mut notes) = (Vec::<Class>::new(), Notes::default());
        for (place, alike) in self.alike.iter().enumerate() {
            let request = if place == 0 { first.clone() } else { self.read(body, alike)? };
            notes.add(&request);
            let mut own = tree.clone();
            for (filter, clause) in own.filters_mut().zip(clauses) {
                *filter = self.filter(&clause.query, &clause.position, alike)?;
            }
            let all = Asked::new(request, alike.head.mapping().time_field(), own, order.clone());
            for (own, positions) in alike.by_filter(self.indices, filters) {
                let mut asked = all.clone();
                if let Some(own) = own {
                    let own = self.filter(own, "filter", alike)?;
                    asked.filter = prune::and([asked.filter, own].into_iter());
                }
                let is_each = names_index || asked.asks_index();
                for (first, part) in self.parts(&positions, is_each) {
                    let asked = asked.clone().within(first)?;
                    match classes.iter_mut().find(|class| class.asked.is_same(&asked)) {
                        Some(class) => class.indices.extend(part),
                        None => classes.push(Class { indices: part.to_vec(), asked }),
                    }
                }
            }
        }
        if classes.is_empty() {
            // Who asks no index is answered, too.
            let asked = Asked::new(first.clone(), TIME_FIELD, tree.clone(), order.clone());
            classes.push(Class { indices: Vec::new(), asked });
        }
        Ok((classes, notes))
    }

    /// Indices that understand the same, each by itself or all together: the first, and the positions of all.
    fn parts<'p>(
        &'p self,
        positions: &'p [usize],
        is_each: bool,
    ) -> impl Iterator<Item = (&'a Arc<Index>, &'p [usize])> {
        let parts = positions.chunks(if is_each { 1 } else { positions.len().max(1) });
        parts.filter_map(|part| Some((self.indices.get(*part.first()?)?, part)))
    }

    /// The request as indices read it.
    fn read(&self, body: &Value, alike: &Alike<'a>) -> Result<SearchRequest> {
        let read = |alike: &Alike<'a>| SearchRequest::from_value(body, &self.context(alike.head.mapping()));
        read(alike).map_err(|error| {
            let is_of_these = self.alike.iter().any(|other| read(other).is_ok());
            if is_of_these { alike.told(error) } else { error }
        })
    }

    /// A query that is no part of the request's as indices read it.
    fn filter(&self, query: &Value, position: &str, alike: &Alike<'a>) -> Result<Filter> {
        let filter = language::parse_query(query, position, &self.context(alike.head.mapping()));
        filter.map(untyped).map_err(|error| if self.alike.len() > 1 { alike.told(error) } else { error })
    }

    fn context(&self, mapping: &'a Mapping) -> Context<'_> {
        Context { now_us: self.now_us, mapping, all: &self.mappings, keeps_optional: false }
    }
}

/// The types of values served to read it; those that an index has are found by any.
fn untyped(filter: Filter) -> Filter {
    filter.with_fields(&FieldRef::untyped)
}

/// What a query asks of each of some indices, which are together where they understand the same by it.
pub(super) fn read_filter(
    query: &Value,
    indices: &[Arc<Index>],
    now_us: i64,
) -> Result<Vec<(Vec<usize>, Filter)>> {
    let together = Together::new(indices, now_us);
    let mut classes: Vec<(Vec<usize>, Filter)> = Vec::new();
    for alike in &together.alike {
        let filter = together.filter(query, "filter", alike)?;
        for (first, part) in together.parts(&alike.indices, filter.asks_index()) {
            let filter = prune::in_index(filter.clone(), first.name().as_str())?;
            match classes.iter_mut().find(|(_, known)| *known == filter) {
                Some((class, _)) => class.extend(part),
                None => classes.push((part.to_vec(), filter)),
            }
        }
    }
    Ok(classes)
}
