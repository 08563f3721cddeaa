//! What a query matched in the texts of a hit, by the same rules by which it matches documents.
//!
//! - A clause marks what it asks for wherever it is in a value: a piece between word boundaries, a phrase as a whole, the
//!   shortest tokens that a pattern matches, and whole values where whole values are compared.
//! - Clauses under a negation mark nothing, and neither do ranges, `exists` and `ids`.
//! - Only text is marked.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use frostline_split::{Analysis, Asked, Phrase, Piece, Places, each_place, is_joiner, query_pieces};

use crate::filter::pattern::{Matcher, TokenPattern};
use crate::filter::words::{folded, is_one_of, phrases};
use crate::filter::{FieldRef, Filter, Pattern, Scalar};
use crate::json::Json;
use crate::language::{Highlight, HighlightManner as Manner};
use crate::{Error, Result};

/// Each compiled pattern takes memory, as long as the search takes.
const PATTERNS_MAX: usize = 100;

/// The bytes of all fragments of a search.
const BYTES_MAX: usize = 64 << 20;

/// The documents' texts of one search, with what its query matched in them marked.
#[derive(Debug)]
pub(crate) struct Highlighter {
    highlight: Highlight,
    /// Of each query.
    clauses: Vec<Clauses>,
}

/// How much more may be done for one search, whatever it asks for.
#[derive(Debug)]
pub(crate) struct Effort {
    /// Comparisons, about a byte each.
    steps: u64,
    /// Bytes of fragments, of [`BYTES_MAX`].
    bytes: usize,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { steps: 1 << 30, bytes: BYTES_MAX }
    }
}

impl Effort {
    /// The bytes of all fragments.
    pub(crate) fn bytes(&self) -> usize {
        BYTES_MAX - self.bytes
    }

    fn take(&mut self, steps: usize) -> Result<()> {
        self.steps = self.steps.checked_sub(steps as u64).ok_or_else(too_much)?;
        Ok(())
    }
}

fn too_much() -> Error {
    Error::exhausted(
        "highlighting compares too much: ask for fewer hits or fewer fields, or set max_analyzed_offset",
    )
}

/// What clauses look for, by the field that they ask.
#[derive(Debug, Default)]
struct Clauses {
    groups: Vec<Group>,
    /// The groups that ask for a path, and whether for whole values.
    by_path: HashMap<String, Vec<(usize, bool)>>,
    /// The group of what asks for every field.
    everywhere: Option<usize>,
}

/// What is looked for in the values of one field.
#[derive(Debug, Default)]
struct Group {
    /// Whole values, however the field is asked for.
    equal: BTreeSet<String>,
    words: Places,
    tokens: Vec<TokenPattern>,
    /// Whole values, where the field is asked for these.
    whole: BTreeSet<String>,
    whole_starts: BTreeSet<String>,
    whole_patterns: Vec<Matcher>,
    /// How the text of the field is compared, where it is not as all text is,
    analysis: Option<Analysis>,
    /// and what is looked for among its words by that.
    asked: BTreeSet<(BTreeSet<String>, bool)>,
    phrases: Vec<(Vec<Asked>, bool)>,
    patterns: Vec<Matcher>,
}

/// Which part of a group is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Words,
    Whole,
    Both,
}

impl Highlighter {
    pub(crate) fn new(highlight: Highlight) -> Result<Highlighter> {
        let clauses = highlight.queries.iter().map(Clauses::new).collect::<Result<_>>()?;
        Ok(Highlighter { highlight, clauses })
    }

    /// The fragments of a document by the names of their fields; none where there are none.
    pub(crate) fn of(&self, source: &Json, effort: &mut Effort) -> Result<Option<Json>> {
        let mut values = Values::default();
        values.collect(source, "");
        let (mut shown, mut done) = (Vec::new(), BTreeSet::new());
        for field in &self.highlight.fields {
            effort.take(1)?;
            let Some(clauses) = self.clauses.get(field.how.query) else { continue };
            if let Some(fields) = &field.fields {
                if done.insert(field.name.as_str())
                    && let Some(own) = fields.first()
                {
                    let asked = clauses.of_fields(fields, &field.how);
                    let own = values.of_field(own);
                    let fragments = fragments(&own, &field.how, &asked, self.highlight.html, effort)?;
                    shown.extend(fragments.map(|fragments| (field.name.clone(), fragments)));
                }
                continue;
            }
            for (path, own) in &values.all {
                effort.take(1 + field.name.len())?;
                if field.matches(path) && done.insert(path.as_str()) {
                    let asked = clauses.of_path(path, &field.how);
                    let fragments = fragments(own, &field.how, &asked, self.highlight.html, effort)?;
                    shown.extend(fragments.map(|fragments| (path.clone(), fragments)));
                }
            }
        }
        Ok((!shown.is_empty()).then_some(Json::Object(shown)))
    }
}

/// The values of a document by path, in the order of the document.
#[derive(Default)]
struct Values<'a> {
    all: Vec<(String, Vec<&'a Json>)>,
    places: HashMap<String, usize>,
}

impl<'a> Values<'a> {
    fn collect(&mut self, value: &'a Json, path: &str) {
        match value {
            Json::Object(members) => {
                for (name, value) in members {
                    match path {
                        "" => self.collect(value, name),
                        path => self.collect(value, &format!("{path}.{name}")),
                    }
                }
            }
            Json::Array(items) => items.iter().for_each(|item| self.collect(item, path)),
            leaf => {
                let place = *self.places.entry(path.to_owned()).or_insert_with_key(|path| {
                    self.all.push((path.clone(), Vec::new()));
                    self.all.len() - 1
                });
                self.all[place].1.push(leaf);
            }
        }
    }

    fn of_field(&self, field: &FieldRef) -> Vec<&'a Json> {
        let places = field.paths().iter().filter_map(|path| self.places.get(&path.path));
        places.flat_map(|place| &self.all[*place].1).copied().collect()
    }
}

impl Clauses {
    fn new(filter: &Filter) -> Result<Clauses> {
        let mut reader = Reader::default();
        reader.read(filter)?;
        let Reader { groups, fields, .. } = reader;
        let mut clauses = Clauses { groups, ..Clauses::default() };
        for (field, group) in fields {
            match field {
                None => clauses.everywhere = Some(group),
                Some(field) => {
                    for path in field.paths() {
                        clauses.by_path.entry(path.path.clone()).or_default().push((group, path.exact));
                    }
                }
            }
        }
        Ok(clauses)
    }

    /// What is looked for in a field of documents, whole and by its words.
    fn of_path(&self, path: &str, how: &Manner) -> Vec<(&Group, Part)> {
        self.asked(how, self.by_path.get(path).into_iter().flatten().copied())
    }

    /// What is looked for in what the first of some names means. A name of whole values is not asked for words.
    fn of_fields(&self, fields: &[FieldRef], how: &Manner) -> Vec<(&Group, Part)> {
        let asking = fields.iter().flat_map(FieldRef::paths).flat_map(|path| {
            let asking = self.by_path.get(&path.path).into_iter().flatten();
            asking.copied().filter(|(_, whole)| *whole || !path.exact)
        });
        self.asked(how, asking.collect::<BTreeSet<(usize, bool)>>().into_iter())
    }

    fn asked(&self, how: &Manner, own: impl Iterator<Item = (usize, bool)>) -> Vec<(&Group, Part)> {
        if !how.own_clauses {
            return self.groups.iter().map(|group| (group, Part::Both)).collect();
        }
        let own = own.map(|(group, whole)| (group, if whole { Part::Whole } else { Part::Words }));
        let everywhere = self.everywhere.map(|group| (group, Part::Words));
        own.chain(everywhere).filter_map(|(group, part)| Some((self.groups.get(group)?, part))).collect()
    }
}

/// Takes a query apart.
#[derive(Default)]
struct Reader<'a> {
    groups: Vec<Group>,
    fields: BTreeMap<Option<&'a FieldRef>, usize>,
    patterns: usize,
}

impl<'a> Reader<'a> {
    fn read(&mut self, filter: &'a Filter) -> Result<()> {
        match filter {
            Filter::And(parts) | Filter::AtLeast { parts, .. } => {
                parts.iter().try_for_each(|part| self.read(part))?;
            }
            Filter::Equals { field, values } => {
                let texts = values.iter().filter_map(|value| match value {
                    Scalar::Text(text) => Some(text.clone()),
                    Scalar::Long(number) => Some(number.to_string()),
                    Scalar::Boolean(truth) => Some(truth.to_string()),
                    Scalar::Double(_) => None,
                });
                let group = self.group(Some(field));
                let texts: Vec<String> = texts.map(|text| group.whole(&text).into_owned()).collect();
                group.equal.extend(texts);
            }
            Filter::Match { field, text, prefix_last, .. } => {
                let group = self.group(field.as_ref());
                if let Some(analysis) = group.analyzed() {
                    let asked = analysis.asked_once(text, *prefix_last);
                    group.asked.extend(asked);
                }
                let pieces = query_pieces(text);
                for (at, piece) in pieces.iter().enumerate() {
                    group.words.add_piece(piece, *prefix_last && at + 1 == pieces.len());
                }
                group.whole.insert(group.whole(text).into_owned());
            }
            Filter::Phrase { field, text, prefix_last } => {
                let phrase = if *prefix_last { Phrase::with_prefix(text) } else { Phrase::new(text) };
                let group = self.group(field.as_ref());
                if let Some(analysis) = group.analyzed() {
                    let asked = analysis.asked(text);
                    group.phrases.push((asked, *prefix_last));
                }
                group.words.add_phrase(phrase);
                let whole = group.whole(text).into_owned();
                if *prefix_last && !text.is_empty() {
                    group.whole_starts.insert(whole.clone());
                }
                group.whole.insert(whole);
            }
            Filter::Pattern { field, pattern, case_insensitive } => {
                self.patterns += 1;
                if self.patterns > PATTERNS_MAX {
                    return Err(Error::invalid(format!(
                        "highlighting takes at most {PATTERNS_MAX} prefixes, wildcards and regular expressions; give a \
                         highlight_query with fewer"
                    )));
                }
                self.group(field.as_ref()).add_pattern(pattern, *case_insensitive)?;
            }
            Filter::Nested(nested) => self.read(&nested.filter)?,
            Filter::All
            | Filter::None
            | Filter::Range { .. }
            | Filter::Exists { .. }
            | Filter::Points { .. }
            | Filter::Ranges { .. }
            // Its words are asked for beside it.
            | Filter::Intervals { .. }
            | Filter::Ids(_)
            | Filter::Not(_) => {}
        }
        Ok(())
    }

    fn group(&mut self, field: Option<&'a FieldRef>) -> &mut Group {
        let groups = &mut self.groups;
        let at = *self.fields.entry(field).or_insert_with(|| {
            let analysis = field.and_then(FieldRef::analysis).cloned();
            groups.push(Group { analysis, ..Group::default() });
            groups.len() - 1
        });
        &mut groups[at]
    }
}

impl Group {
    /// By what the words of the field are compared, if it is not as all text is.
    fn analyzed(&self) -> Option<&Analysis> {
        self.analysis.as_ref().filter(|analysis| !analysis.is_normalizer())
    }

    /// A value as it is compared as a whole.
    fn whole<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let normalizer = self.analysis.as_ref().filter(|analysis| analysis.is_normalizer());
        normalizer.map_or(Cow::Borrowed(text), |normalizer| normalizer.fold(text))
    }

    /// Adds where in a text it is, by words that are not those of all text.
    fn mark_words(
        &self,
        text: &str,
        analysis: &Analysis,
        marks: &mut Vec<Range<usize>>,
        effort: &mut Effort,
    ) -> Result<()> {
        effort.take(TOKENS_BYTES * text.len())?;
        let words = analysis.words(text);
        effort.take(words.len() * (self.asked.len() + self.patterns.len()))?;
        for word in &words {
            let is_it = self.asked.iter().any(|(asked, is_start)| is_one_of(word, asked, *is_start))
                || self.patterns.iter().any(|pattern| pattern.is_match(&word.text));
            marks.extend(is_it.then(|| word.place.clone()));
        }
        for (phrase, prefix_last) in &self.phrases {
            effort.take(words.len() * phrase.len())?;
            marks.extend(phrases(&words, phrase, *prefix_last));
        }
        Ok(())
    }

    fn add_pattern(&mut self, pattern: &Pattern, case_insensitive: bool) -> Result<()> {
        let own = self.analysis.as_ref().map(|analysis| folded(pattern, analysis));
        if let Some(own) = own.as_ref().filter(|_| self.analyzed().is_some()) {
            self.patterns.push(Matcher::new(own, case_insensitive)?);
        }
        let pattern = own.as_ref().unwrap_or(pattern);
        let start = match pattern {
            Pattern::Prefix(prefix) => Piece::start(prefix),
            _ => None,
        };
        if let Some(piece) = &start {
            self.words.add_piece(piece, true);
        }
        if start.is_none_or(|piece| piece.text().bytes().last().is_some_and(is_joiner)) {
            self.tokens.push(TokenPattern::new(pattern, case_insensitive)?);
        }
        self.whole_patterns.push(Matcher::new(pattern, case_insensitive)?);
        Ok(())
    }

    /// Adds where in a text it is.
    fn mark(&self, text: &str, part: Part, marks: &mut Vec<Range<usize>>, effort: &mut Effort) -> Result<()> {
        effort.take(1 + text.len())?;
        let own = self.whole(text);
        let mut is_whole = self.equal.contains(own.as_ref());
        if part != Part::Words {
            effort.take(self.whole_starts.len() + self.whole_patterns.len() * text.len())?;
            is_whole |= self.whole.contains(own.as_ref())
                || self.whole_starts.iter().any(|start| own.starts_with(start))
                || self.whole_patterns.iter().any(|pattern| pattern.is_match(&own));
        }
        if is_whole {
            marks.push(0..text.len());
            return Ok(());
        }
        if part == Part::Whole {
            return Ok(());
        }
        if let Some(analysis) = self.analyzed() {
            return self.mark_words(text, analysis, marks, effort);
        }
        if !self.words.is_empty() && !self.words.find(text, &mut effort.steps, |range| marks.push(range)) {
            return Err(too_much());
        }
        for pattern in &self.tokens {
            effort.take(TOKENS_BYTES * text.len())?;
            let mut matching = Vec::new();
            each_place(text, |token, range| {
                if pattern.is_match(token) {
                    matching.push(range);
                }
            });
            marks.extend(shortest(matching));
        }
        Ok(())
    }
}

/// About how many bytes the tokens of all levels have for each of a text.
const TOKENS_BYTES: usize = 8;

/// The ranges that no other is in.
fn shortest(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| (std::cmp::Reverse(range.start), range.end));
    let mut end = usize::MAX;
    ranges.retain(|range| {
        let is_shorter = range.end < end;
        end = end.min(range.end);
        is_shorter
    });
    ranges
}

/// Where a text is marked, in order; what overlaps is one mark.
fn marks(text: &str, asked: &[(&Group, Part)], effort: &mut Effort) -> Result<Vec<Range<usize>>> {
    let mut marks = Vec::new();
    for (group, part) in asked {
        group.mark(text, *part, &mut marks, effort)?;
    }
    marks.retain(|mark| !mark.is_empty());
    marks.sort_unstable_by_key(|mark| (mark.start, mark.end));
    marks.dedup_by(|next, mark| {
        let overlaps = next.start < mark.end;
        if overlaps {
            mark.end = mark.end.max(next.end);
        }
        overlaps
    });
    Ok(marks)
}

/// A part of a value, with its marks.
struct Fragment {
    value: usize,
    range: Range<usize>,
    marks: Vec<Range<usize>>,
}

/// The fragments of the values of a field that are shown; none where none is.
fn fragments(
    values: &[&Json],
    how: &Manner,
    asked: &[(&Group, Part)],
    html: bool,
    effort: &mut Effort,
) -> Result<Option<Json>> {
    if asked.is_empty() && how.no_match_size == 0 {
        return Ok(None);
    }
    let (mut texts, mut all, mut first) = (Vec::new(), Vec::new(), None);
    for text in values.iter().filter_map(|value| value.as_text()) {
        let looked_at = how.looked_at_max.map_or(text.len(), |characters| after(&text, 0, characters));
        let marks = marks(text.get(..looked_at).unwrap_or_default(), asked, effort)?;
        if !marks.is_empty() {
            cut(&text, marks, texts.len(), how, &mut all);
            texts.push(text);
        } else if first.is_none() && how.no_match_size > 0 {
            first = Some(text);
        }
    }
    if all.is_empty() {
        let Some(text) = first else { return Ok(None) };
        let end = before_word(&text, 0, after(&text, 0, how.no_match_size));
        let fragment = Fragment { value: 0, range: 0..end, marks: Vec::new() };
        return Ok(Some(Json::Array(vec![fragment.write(&text, how, html, effort)?])));
    }
    if how.best_first || (how.fragments_max > 0 && all.len() > how.fragments_max) {
        all.sort_by_key(|fragment| std::cmp::Reverse(fragment.marks.len()));
        if how.fragments_max > 0 {
            all.truncate(how.fragments_max);
        }
        if !how.best_first {
            all.sort_by_key(|fragment| (fragment.value, fragment.range.start));
        }
    }
    let written = all.iter().map(|fragment| fragment.write(&texts[fragment.value], how, html, effort));
    written.collect::<Result<Vec<Json>>>().map(|fragments| Some(Json::Array(fragments)))
}

/// Cuts a text into fragments around its marks. They do not overlap, and none ends in a word unless that is longer than
/// the fragment.
fn cut(text: &str, marks: Vec<Range<usize>>, value: usize, how: &Manner, all: &mut Vec<Fragment>) {
    if how.fragments_max == 0 || how.fragment_size == 0 {
        all.push(Fragment { value, range: 0..text.len(), marks });
        return;
    }
    let (mut left, mut floor) = (marks.as_slice(), 0);
    while let Some(first) = left.first() {
        let limit = after(text, first.start, how.fragment_size);
        let count = left.iter().take_while(|mark| mark.end <= limit).count().max(1);
        let (own, rest) = left.split_at(count);
        let marked = first.start..own.last().unwrap_or(first).end;
        let room = how.fragment_size.saturating_sub(characters(text, marked.clone()));
        let ceiling = rest.first().map_or(text.len(), |next| next.start);
        let half = before(text, marked.start, room / 2).max(floor);
        let behind = room - characters(text, half..marked.start);
        let end = after(text, marked.end, behind).min(ceiling);
        let ahead = room - characters(text, marked.end..end);
        let start = before(text, marked.start, ahead).max(floor);
        let range = after_word(text, start, marked.start)..before_word(text, marked.end, end);
        floor = range.end;
        all.push(Fragment { value, range, marks: own.to_vec() });
        left = rest;
    }
}

/// The place that many characters after `at`.
fn after(text: &str, at: usize, count: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.char_indices().nth(count).map_or(text.len(), |(end, _)| at + end)
}

/// The place that many characters before `at`.
fn before(text: &str, at: usize, count: usize) -> usize {
    let head = text.get(..at).unwrap_or_default();
    let Some(count) = count.checked_sub(1) else { return at };
    head.char_indices().rev().nth(count).map_or(0, |(start, _)| start)
}

fn characters(text: &str, range: Range<usize>) -> usize {
    text.get(range).unwrap_or_default().chars().count()
}

/// The first place from `start` on, and before `end`, at which no word is cut.
fn after_word(text: &str, start: usize, end: usize) -> usize {
    let head = text.get(..start).unwrap_or_default();
    if head.chars().next_back().is_none_or(char::is_whitespace) {
        return start;
    }
    let within = text.get(start..end).unwrap_or_default();
    within.char_indices().find(|(_, c)| c.is_whitespace()).map_or(start, |(at, c)| start + at + c.len_utf8())
}

/// The last place up to `end`, and after `start`, at which no word is cut.
fn before_word(text: &str, start: usize, end: usize) -> usize {
    let rest = text.get(end..).unwrap_or_default();
    if rest.chars().next().is_none_or(char::is_whitespace) {
        return end;
    }
    let within = text.get(start..end).unwrap_or_default();
    within.char_indices().rev().find(|(_, c)| c.is_whitespace()).map_or(end, |(at, _)| start + at)
}

impl Fragment {
    fn write(&self, text: &str, how: &Manner, html: bool, effort: &mut Effort) -> Result<Json> {
        let mut written = String::new();
        let mut at = self.range.start;
        let add = |written: &mut String, part: Range<usize>| {
            let part = text.get(part).unwrap_or_default();
            match html {
                true => part.chars().for_each(|c| escape(c, written)),
                false => written.push_str(part),
            }
        };
        for mark in &self.marks {
            add(&mut written, at..mark.start);
            written.push_str(&how.before);
            add(&mut written, mark.clone());
            written.push_str(&how.after);
            at = mark.end;
            if written.len() > effort.bytes {
                return Err(too_long());
            }
        }
        add(&mut written, at..self.range.end);
        effort.bytes = effort.bytes.checked_sub(written.len()).ok_or_else(too_long)?;
        Ok(Json::text(&written))
    }
}

fn too_long() -> Error {
    Error::exhausted(
        "highlighted fragments are too long together: ask for fewer hits, or for fewer or shorter fragments",
    )
}

/// A character as HTML has it in text and in quotes.
fn escape(c: char, written: &mut String) {
    match c {
        '&' => written.push_str("&amp;"),
        '<' => written.push_str("&lt;"),
        '>' => written.push_str("&gt;"),
        '"' => written.push_str("&quot;"),
        '\'' => written.push_str("&#x27;"),
        '/' => written.push_str("&#x2F;"),
        other => written.push(other),
    }
}

#[cfg(test)]
mod tests;
