//! Aggregations over a scan: one state per split, merged into one.
//!
//! For each split the cheapest exact source is used: a cached state (splits never change, so it
//! never expires), the split's digest, or the columns of the matching rows.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::execution::memory_pool::MemoryReservation;
use frostline_base::TimeRange;
use frostline_split::{TextAs, row_numbers};
use futures::future::{try_join, try_join_all};
use futures::stream::{self, StreamExt, TryStreamExt};
use roaring::RoaringBitmap;

use crate::agg::{AggState, AggTree, Batch, Collector, FieldColumn, LevelRows, Scope};
use crate::errors::internal;
use crate::exec::objects::OBJECTS_BYTES;
use crate::exec::results::shared::{Answers, Question, Shared};
use crate::exec::results::{Key, Results};
use crate::exec::scan::{Scan, Tally, apart};
use crate::filter::{FieldRef, Filter, Scalar};
use crate::prune::{self, Target, bounds, nanos_of};
use crate::read::memory::{Room, reservation};
use crate::read::objects::Objects;
use crate::read::once::Once;
use crate::read::open::OpenSplit;
use crate::read::output;
use crate::read::view::View;
use crate::select::scalar_text;
use crate::{Error, Result};

/// Some aggregations over a scan.
#[derive(Clone, Debug)]
pub(crate) struct Aggregation {
    scan: Arc<Scan>,
    tree: Arc<AggTree>,
    scope: Scope,
    /// The aggregations as part of the key of cached partial answers. None if there is no cache.
    name: Option<Arc<[u8]>>,
}

/// The state of one split, with the memory that it takes until it is merged.
struct Part {
    state: AggState,
    _room: Option<Room>,
}

/// The states that were merged so far, with their memory.
struct Merging {
    merged: AggState,
    memory: MemoryReservation,
}

impl Merging {
    fn add(&mut self, Part { state, _room }: Part, of: &Aggregation) -> Result<()> {
        let bytes_max = of.scan.local.searcher.settings.query_bytes_max;
        self.merged.merge(state, &of.tree, bytes_max)?;
        self.memory.try_resize(self.merged.memory_bytes()).map_err(internal)
    }
}

impl Aggregation {
    /// The aggregations of `tree` over the rows of a scan. With `keep`, partial answers are cached.
    pub(crate) fn new(scan: Arc<Scan>, tree: Arc<AggTree>, scope: Scope, keep: bool) -> Result<Aggregation> {
        let name = match keep && scan.local.results.is_some() {
            true => Some(tree.key()?.into()),
            false => None,
        };
        Ok(Aggregation { scan, tree, scope, name })
    }

    /// The merged state of all splits, with its memory.
    pub(crate) async fn run(self) -> Result<(AggState, MemoryReservation)> {
        let mut merging = Merging {
            merged: AggState::empty(&self.tree),
            memory: reservation(&self.scan.local.memory, "aggregations"),
        };
        let in_flight = self.scan.in_flight();
        let each =
            |numbers: Vec<usize>| stream::iter(numbers.into_iter().map(|number| (number, self.clone())));
        let all: Vec<usize> = (0..self.scan.targets.len()).collect();
        let (known, mut unknown) = if self.may_know() { (all, Vec::new()) } else { (Vec::new(), all) };
        let known = each(known);
        let known = known.map(|(number, of)| {
            let scan = Arc::clone(&of.scan);
            apart(scan, number, async move { Ok((number, of.known(&of.scan.targets[number]).await?)) })
        });
        let mut known = known.buffer_unordered(in_flight);
        while let Some((number, part)) = known.try_next().await? {
            match part {
                Some(part) => merging.add(part, &self)?,
                None => unknown.push(number),
            }
        }
        unknown.sort_unstable();
        let asked = self.ask_others(&mut unknown, &mut merging).await?;
        self.scan.expect(unknown.iter().copied()).await;
        let found = each(unknown).map(|(number, of)| {
            apart(Arc::clone(&of.scan), number, async move {
                let target = &of.scan.targets[number];
                of.scan.tolerate(target, of.find(target).await)
            })
        });
        let mut found = found.buffer_unordered(in_flight);
        while let Some(part) = found.try_next().await? {
            // None if the split could not be read and partial answers are allowed.
            part.map_or(Ok(()), |part| merging.add(part, &self))?;
        }
        self.tell_others(asked).await?;
        Ok((merging.merged, merging.memory))
    }

    /// Whether the states of some splits may be known without opening them.
    fn may_know(&self) -> bool {
        self.name.is_some() || self.tree.is_empty()
    }

    /// Merges what other machines have answered of these splits and keeps it, leaves the numbers of the others, and
    /// returns what was asked.
    async fn ask_others(&self, unknown: &mut Vec<usize>, merging: &mut Merging) -> Result<Vec<Asked>> {
        let (mut asked, mut answered) = (Vec::new(), BTreeSet::new());
        let Some((results, shared)) = self.shared() else { return Ok(asked) };
        for (question, numbers) in self.questions(unknown)? {
            let mut answers = shared.read(&question, &self.scan.meter).await;
            let memory = reservation(&self.scan.local.memory, "shared answers");
            // Without them the splits are read, which may take less.
            if memory.try_resize(answers.values().map(Vec::len).sum()).is_err() {
                continue;
            }
            for number in numbers {
                let target = &self.scan.targets[number];
                let Some((_, key)) = self.kept(target)? else { continue };
                let Some(bytes) = answers.remove(&key.bits()) else { continue };
                if let Some(part) = self.part(target, &bytes).await? {
                    results.put(&key, bytes).await;
                    merging.add(part, self)?;
                    answered.insert(number);
                }
            }
            asked.push(Asked { question, older: answers, memory });
        }
        unknown.retain(|number| !answered.contains(number));
        Ok(asked)
    }

    /// Where answers are kept and shared; none where they are not.
    fn shared(&self) -> Option<(&Results, &Shared)> {
        let results = self.scan.local.results.as_deref()?;
        Some((results, results.shared()?))
    }

    /// The questions to other machines about these splits, with the numbers of those that each is about. None where
    /// the splits are of so many indices that asking costs more than it saves.
    fn questions(&self, unknown: &[usize]) -> Result<BTreeMap<Question, Vec<usize>>> {
        let mut questions: BTreeMap<Question, Vec<usize>> = BTreeMap::new();
        let Some(name) = &self.name else { return Ok(questions) };
        for number in unknown {
            let target = &self.scan.targets[*number];
            // Whatever range of time is asked, most splits are inside of it.
            let filter = written(&without_times(&target.filter))?;
            let question = Question::new(&target.entry.object.key, &[name, &filter, &self.scope_name()]);
            questions.entry(question).or_default().push(*number);
        }
        if questions.len() > QUESTIONS_MAX {
            questions.clear();
        }
        Ok(questions)
    }

    /// Shares the answers to what was asked, if they took much to find.
    async fn tell_others(&self, asked: Vec<Asked>) -> Result<()> {
        let Some((results, shared)) = self.shared() else { return Ok(()) };
        let read = self.scan.meter.cost().bytes_read;
        if asked.is_empty() || read < shared.worth.read_bytes_min {
            return Ok(());
        }
        let all: Vec<usize> = (0..self.scan.targets.len()).collect();
        let mut questions = self.questions(&all)?;
        for Asked { question, older, memory } in asked {
            let mut answers = Answers::default();
            for number in questions.remove(&question).unwrap_or_default() {
                if let Some((_, key)) = self.kept(&self.scan.targets[number])?
                    && let Some(bytes) = results.get(&key).await
                {
                    if memory.try_grow(bytes.len()).is_err() {
                        return Ok(());
                    }
                    answers.insert(key.bits(), bytes);
                }
            }
            shared.write(&question, answers, older, read, &self.scan.meter).await;
        }
        Ok(())
    }

    /// A state from its bytes; none if they are of something else.
    async fn part(&self, target: &Target, bytes: &[u8]) -> Result<Option<Part>> {
        let room = self.scan.window.room(bytes.len() * (1 + STATE_UNPACKED)).await?;
        let Ok(mut state) = AggState::read(bytes, &self.tree) else { return Ok(None) };
        state.relabel_split(target.ordinal);
        room.resize(state.memory_bytes())?;
        Ok(Some(Part { state, _room: Some(room) }))
    }

    /// The state of one split that is known without opening it.
    async fn known(&self, target: &Target) -> Result<Option<Part>> {
        if let Some((results, key)) = self.kept(target)?
            && let Some(bytes) = results.get(&key).await
            && let Some(part) = self.part(target, &bytes).await?
        {
            return Ok(Some(part));
        }
        if self.tree.is_empty() && *target.filter == Filter::All {
            Tally::count(&self.scan.tally().answered_digest);
            return Ok(Some(Part { state: AggState::of_documents(target.entry.rows), _room: None }));
        }
        Ok(None)
    }

    /// The state of one split, from its digest or its columns.
    async fn find(&self, target: &Target) -> Result<Part> {
        let open = self.scan.open(target).await?;
        if self.scope == Scope::Matching
            && let Some(state) = self.by_digest(target, &open).await?
        {
            Tally::count(&self.scan.tally().answered_digest);
            return Ok(Part { state, _room: None });
        }
        let rows = self.scan.select(target, &open).await?.clone().bitmap(open.split.rows());
        let part = self.collect(target, &open, &rows).await?;
        if let Some((results, key)) = self.kept(target)? {
            let bytes = part.state.write()?;
            let memory = reservation(&self.scan.local.memory, "answers to keep");
            memory.try_resize(bytes.len()).map_err(internal)?;
            results.put(&key, bytes).await;
        }
        Ok(part)
    }

    async fn by_digest(&self, target: &Target, open: &OpenSplit) -> Result<Option<AggState>> {
        let question =
            DigestQuestion::of(&target.filter).filter(|_| self.scan.local.searcher.settings.use_digests);
        let answers = |question: &DigestQuestion| self.tree.may_be_in_digests(question.term.is_some());
        let Some(question) = question.filter(answers) else { return Ok(None) };
        let view = self.scan.view(open);
        let (time, term) = (question.time.as_ref(), question.term.as_ref());
        let asked: Vec<&FieldRef> = self.tree.fields().iter().chain(term.map(|(field, _)| field)).collect();
        let named: Vec<&FieldRef> = asked.iter().copied().chain(time.map(|(field, _)| field)).collect();
        view.know_fields(&named).await?;
        // A digest counts the documents' times, and a document may have further dates in that field.
        if let Some((field, _)) = time
            && !field.in_split(&open.split)?.is_empty()
        {
            return Ok(None);
        }
        let mut numbers = Vec::new();
        for field in asked {
            numbers.extend(field.in_split(&open.split)?.iter().map(|(field, _)| field.number));
        }
        // The times of rows with a value are said with the value, and those of all rows cost more than that.
        let with_times = term.is_none() || time.is_some();
        let Some(digest) = view.digest(&numbers, with_times).await? else { return Ok(None) };
        let term = term.map(|(field, value)| (field, value.as_str()));
        self.tree.from_digest(&open.split, &digest, time.map(|(_, range)| *range), term)
    }

    async fn collect(&self, target: &Target, open: &OpenSplit, rows: &RoaringBitmap) -> Result<Part> {
        let view = self.scan.view(open);
        let fields = self.tree.fields().iter().enumerate();
        let fields: Vec<&FieldRef> = fields
            .filter(|(at, _)| self.tree.level_of_field(*at).is_none())
            .map(|(_, field)| field)
            .collect();
        let bytes = output::column_bytes(view, &fields, rows).await?;
        let objects = if self.tree.levels().is_empty() { 0 } else { OBJECTS_BYTES };
        let room =
            self.scan.window.room(bytes.saturating_mul(1 + STATE_OF_COLUMNS).saturating_add(objects)).await?;
        let mut collector = Collector::new(&self.tree, self.scan.local.searcher.settings.query_bytes_max);
        if self.tree.levels().is_empty() {
            self.collect_rows(target, view, rows, &mut collector).await?;
        } else {
            let mut left = rows.iter().peekable();
            while left.peek().is_some() {
                let part: RoaringBitmap = left.by_ref().take(view.documents_at_once()).collect();
                self.collect_rows(target, view, &part, &mut collector).await?;
            }
        }
        let state = collector.finish();
        room.resize(state.memory_bytes())?;
        Ok(Part { state, _room: Some(room) })
    }

    /// Counts some rows of a split.
    async fn collect_rows(
        &self,
        target: &Target,
        view: View<'_>,
        rows: &RoaringBitmap,
        collector: &mut Collector<'_>,
    ) -> Result<()> {
        let levels = Levels::new(&self.tree, view, rows).await?;
        let once = Once::new(view);
        let filters = self.tree.filters().into_iter().enumerate().map(|(at, filter)| {
            let (levels, once) = (&levels, &once);
            async move {
                match self.tree.level_of_filter(at) {
                    Some(level) => levels.matching(level, filter, view).await,
                    None => Ok(once.view().select(filter, Some(rows)).await?.bitmap(view.split().rows())),
                }
            }
        });
        let columns = self.tree.fields().iter().enumerate().map(|(at, field)| {
            let levels = &levels;
            async move {
                let arrays = match self.tree.level_of_field(at) {
                    Some(level) => levels.readings(level, field, view).await?,
                    None => output::readings(view, field, rows, TextAs::Dictionary, false).await?,
                };
                FieldColumn::new(&arrays).map(|column| column.by(field.analysis().cloned()))
            }
        });
        let (filters, columns) = try_join(try_join_all(filters), try_join_all(columns)).await?;
        let numbers = row_numbers(rows);
        collector.collect(&Batch {
            split: target.ordinal,
            scope: self.scope,
            rows: &numbers,
            columns: &columns,
            filters: &filters,
            levels: &levels.rows,
        })
    }

    /// The cache for the state of a split, and its key.
    fn kept(&self, target: &Target) -> Result<Option<(&Results, Key)>> {
        let (Some(results), Some(name)) = (&self.scan.local.results, &self.name) else { return Ok(None) };
        if !results.keeps(target.entry.object.bytes) {
            return Ok(None);
        }
        let filter = written(&target.filter)?;
        Ok(Some((results, Key::new(target.entry.id, &[name, &filter, &self.scope_name()]))))
    }

    fn scope_name(&self) -> [u8; 1] {
        [u8::from(self.scope == Scope::Everything)]
    }
}

/// The objects of some rows that are counted by themselves, by the levels of the aggregations. They are numbered by their
/// rows in the splits that hold them.
#[derive(Default)]
struct Levels {
    objects: Vec<Objects>,
    rows: Vec<LevelRows>,
}

impl Levels {
    async fn new(tree: &AggTree, view: View<'_>, rows: &RoaringBitmap) -> Result<Levels> {
        let mut levels = Levels::default();
        if tree.levels().is_empty() {
            return Ok(levels);
        }
        let documents = view.documents(rows).await?;
        for level in tree.levels() {
            let above = match level.above.and_then(|above| levels.objects.get(above)) {
                Some(above) => Cow::Owned(above.texts(view.reads).await?),
                None => Cow::Borrowed(&documents),
            };
            let texts = above.iter().filter(|_| level.is_mapped).map(String::as_str);
            let objects = Objects::new(texts, &[&level.path], &level.mapping)?;
            let mut below = vec![Vec::new(); above.len()];
            let whole = objects.documents_of_rows();
            (0..).zip(&whole).for_each(|(row, above)| below[*above as usize].push(row));
            levels.rows.push(LevelRows { above: whole, below, numbers: objects.numbers_of_rows() });
            levels.objects.push(objects);
        }
        Ok(levels)
    }

    async fn matching(&self, level: usize, filter: &Filter, view: View<'_>) -> Result<RoaringBitmap> {
        let objects = self.objects.get(level).and_then(|objects| objects.view(view.reads));
        match objects {
            Some((view, _)) => Ok(view.select(filter, None).await?.bitmap(view.split().rows())),
            None => Ok(RoaringBitmap::new()),
        }
    }

    async fn readings(&self, level: usize, field: &FieldRef, view: View<'_>) -> Result<Vec<ArrayRef>> {
        let objects = self.objects.get(level).and_then(|objects| objects.view(view.reads));
        match objects {
            Some((view, _)) => {
                let all = (0..view.split().rows()).collect();
                output::readings(view, field, &all, TextAs::Dictionary, false).await
            }
            None => Ok(Vec::new()),
        }
    }
}

/// A question that other machines were asked.
struct Asked {
    question: Question,
    /// Their answers that were not needed now.
    older: Answers,
    memory: MemoryReservation,
}

fn written(filter: &Filter) -> Result<Vec<u8>> {
    postcard::to_allocvec(filter).map_err(|e| Error::internal("a filter cannot be written").with_source(e))
}

/// The filter without the ranges of time that all of it is restricted to.
fn without_times(filter: &Filter) -> Cow<'_, Filter> {
    let is_of_time = |part: &Filter| matches!(part, Filter::Range { field, .. } if field.is_time());
    match filter {
        Filter::And(parts) if parts.iter().any(is_of_time) => {
            Cow::Owned(prune::and(parts.iter().filter(|part| !is_of_time(part)).cloned()))
        }
        range if is_of_time(range) => Cow::Owned(Filter::All),
        other => Cow::Borrowed(other),
    }
}

/// A search of more indices than these asks no other machines.
const QUESTIONS_MAX: usize = 16;
/// Approximate ratio of a state's size in memory to its serialized size.
pub(crate) const STATE_UNPACKED: usize = 5;
/// Approximate ratio of a split's state to the columns it is made of, if each value is different.
const STATE_OF_COLUMNS: usize = 2;

/// A filter that a digest may be able to answer: a range of times and one value of one field, each
/// perhaps absent.
struct DigestQuestion {
    time: Option<(FieldRef, TimeRange)>,
    term: Option<(FieldRef, String)>,
}

impl DigestQuestion {
    fn of(filter: &Filter) -> Option<DigestQuestion> {
        let mut question = DigestQuestion { time: None, term: None };
        let parts = match filter {
            Filter::And(parts) => parts.as_slice(),
            Filter::All => &[],
            one => std::slice::from_ref(one),
        };
        for part in parts {
            question.add(part)?;
        }
        Some(question)
    }

    fn add(&mut self, part: &Filter) -> Option<()> {
        match part {
            Filter::Range { lower, upper, .. } if nanos_of(lower).or(nanos_of(upper)).is_some() => {
                return None;
            }
            Filter::Range { field, lower, upper } if field.is_time() && self.time.is_none() => {
                self.time = Some((field.clone(), bounds(lower, upper)));
            }
            Filter::Equals { field, values } if self.term.is_none() && field.analysis().is_none() => {
                let [value] = values.as_slice() else { return None };
                self.term = Some((field.clone(), term_text(value)?));
            }
            _ => return None,
        }
        Some(())
    }
}

fn term_text(value: &Scalar) -> Option<String> {
    match value {
        Scalar::Double(_) => None,
        other => Some(scalar_text(other)),
    }
}
