//! Pieces that several text queries share: wildcards in names, `minimum_should_match`, operators.

use std::collections::BTreeSet;

use frostline_base::wildcard_matches;
use frostline_split::{Analysis, TIME_FIELD, ValueType, parse_cidr, parse_ip, query_tokens};
use serde_json::Value;

use super::Context;
use super::asking::Asking;
use super::date::DateReader;
use super::json::At;
use super::ranges::Ranges;
use crate::filter::{
    Bound, Edge, FieldRef, Filter, Intervals, Minimum, Number, Order, Pattern, Scalar, time_nanos, time_span,
    words,
};
use crate::{Error, Result};

/// All parts together; one part stands for itself.
pub(crate) fn all(mut parts: Vec<Filter>) -> Filter {
    parts.retain(|part| *part != Filter::All);
    match parts.len() {
        0 => Filter::All,
        1 => parts.swap_remove(0),
        _ if parts.contains(&Filter::None) => Filter::None,
        _ => Filter::And(parts),
    }
}

/// Any of the parts; no part matches nothing.
pub(crate) fn any(parts: Vec<Filter>) -> Filter {
    at_least(1, parts)
}

/// At least `minimum` of the parts; more than there are matches nothing.
pub(crate) fn at_least(minimum: usize, mut parts: Vec<Filter>) -> Filter {
    match (minimum, parts.len()) {
        (0, _) => Filter::All,
        (minimum, count) if minimum > count => Filter::None,
        (1, 1) => parts.swap_remove(0),
        _ => Filter::AtLeast { minimum, parts },
    }
}

/// The fields that a name with `*` stands for.
pub(crate) fn expand_field(pattern: &str, context: &Context<'_>) -> Vec<FieldRef> {
    if !pattern.contains('*') {
        return vec![context.field(pattern)];
    }
    let mapping = context.mapping;
    let mut names = BTreeSet::new();
    for path in mapping.fields().keys() {
        let exact = format!("{path}.keyword");
        if wildcard_matches(pattern, path) {
            names.insert(path.clone());
        } else if wildcard_matches(pattern, &exact) && !mapping.resolve(&exact).paths.is_empty() {
            names.insert(exact);
        }
    }
    // The time is a field like others, and no column of the mapping.
    let time = [mapping.time_field(), TIME_FIELD].into_iter().find(|name| wildcard_matches(pattern, name));
    names.extend(time.map(str::to_owned));
    names.iter().map(|name| context.field(name)).collect()
}

/// Where a text is looked for: None is every field of the document.
pub(crate) type Target = Option<FieldRef>;

/// Reads `["title^2", "host.*"]`; boosts are dropped and wildcards expanded. `*` is every field.
pub(crate) fn targets(fields: &[String], context: &Context<'_>) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for field in fields {
        let name = without_boost(field)?;
        if name == "*" {
            return Ok(vec![None]);
        }
        targets.extend(expand_field(name, context).into_iter().map(Some));
    }
    targets.dedup();
    Ok(targets)
}

fn without_boost(field: &str) -> Result<&str> {
    match field.rsplit_once('^') {
        Some((name, boost)) if boost.parse::<f64>().is_ok_and(|boost| boost >= 0.0) => Ok(name),
        Some((_, boost)) => Err(Error::invalid(format!("[{boost}] is not a boost, in [{field}]"))),
        None => Ok(field),
    }
}

/// How many of `count` optional clauses must match by a `minimum_should_match` text: `2`, `-1`,
/// `75%`, `-25%`, `2<75%`, `2<-25% 9<-3`.
pub(crate) fn minimum_should_match(spec: &str, count: usize, at: &At<'_>) -> Result<usize> {
    let bad =
        || at.invalid(format_args!("[{spec}] is not a minimum_should_match such as 2, -1, 75% or 2<75%"));
    let total = i64::try_from(count).map_err(|_| bad())?;
    let mut needed = total;
    if !spec.contains('<') {
        needed = simple_minimum(spec.trim(), total).ok_or_else(bad)?;
        return Ok(usize::try_from(needed).unwrap_or(0));
    }
    for condition in spec.split_whitespace() {
        let (above, rule) = condition.split_once('<').ok_or_else(bad)?;
        let above: i64 = above.parse().map_err(|_| bad())?;
        let ruled = simple_minimum(rule, total).ok_or_else(bad)?;
        if total > above {
            needed = ruled;
        } else {
            break;
        }
    }
    Ok(usize::try_from(needed).unwrap_or(0))
}

fn simple_minimum(rule: &str, total: i64) -> Option<i64> {
    let needed = match rule.strip_suffix('%') {
        Some(percent) => total.checked_mul(percent.parse().ok()?)?.checked_div(100)?,
        None => rule.parse().ok()?,
    };
    Some(if needed < 0 { total.checked_add(needed)? } else { needed })
}

/// `operator`: whether all tokens are needed.
pub(crate) fn is_and(operator: &str, at: &At<'_>) -> Result<bool> {
    match operator.to_ascii_lowercase().as_str() {
        "and" => Ok(true),
        "or" => Ok(false),
        _ => Err(at.invalid(format_args!("the operator is and or or, not [{operator}]"))),
    }
}

/// What the mapping says about dates in a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dates {
    /// No value is a date, or the field is unknown.
    No,
    /// Some values are dates.
    Some,
    /// All values are dates: a text that is none is a mistake.
    Only,
}

pub(crate) fn dates_of(field: &FieldRef) -> Dates {
    let dates = field.types().any(|ty| ty == ValueType::Date);
    match (dates, field.types().any(|ty| ty != ValueType::Date)) {
        (false, _) => Dates::No,
        (true, true) => Dates::Some,
        (true, false) => Dates::Only,
    }
}

/// `filter`, which compares `field` with `text`, or the time that `text` stands for where the field
/// holds dates: `2020-01-01` is the whole day.
pub(crate) fn or_date(
    filter: Filter,
    field: &FieldRef,
    text: &str,
    reader: &DateReader,
    context: &Context<'_>,
) -> Result<Filter> {
    let dates = dates_of(field);
    if dates == Dates::No {
        return Ok(filter);
    }
    let read = |round_up| reader.read_exactly(text, round_up);
    let range = read(false).and_then(|from| Ok((from, read(true)?)));
    match (range, dates) {
        (Ok((from, to)), _) => {
            let edge = |(us, nanos)| Bound::Included(Edge { time_us: Some(us), nanos, ..Edge::default() });
            let range = Filter::Range { field: field.clone(), lower: edge(from), upper: edge(to) };
            Ok(if dates == Dates::Only { range } else { any(vec![filter, range]) })
        }
        (Err(error), Dates::Only) if context.is_of_dates(field) => {
            Err(error.context(format!("the field [{field}] holds dates")))
        }
        (Err(_), _) => Ok(filter),
    }
}

/// How a text is matched, apart from where.
#[derive(Clone, Debug, Default)]
pub(crate) struct MatchOptions {
    /// All tokens are needed.
    pub(crate) and: bool,
    /// `minimum_should_match`.
    pub(crate) minimum: Option<String>,
    /// A text without tokens matches everything, not nothing.
    pub(crate) zero_terms_all: bool,
    /// A text that cannot be read as the field's type matches nothing, instead of being an error.
    pub(crate) lenient: bool,
    /// The last token may be a prefix.
    pub(crate) prefix_last: bool,
    /// The tokens must follow one another.
    pub(crate) phrase: bool,
    /// How the text is taken apart, if not as the field is.
    pub(crate) asking: Option<Asking>,
    /// Of dates that name none; UTC without.
    pub(crate) zone: Option<jiff::tz::TimeZone>,
}

/// `text` in one target; none where its analysis leaves no word of it.
pub(crate) fn match_in(
    target: &Target,
    text: &str,
    options: &MatchOptions,
    at: &At<'_>,
    context: &Context<'_>,
) -> Result<Option<Filter>> {
    if target.as_ref().is_some_and(|field| field.name() == "_id") {
        return Ok(Some(Filter::Ids(vec![text.to_owned()])));
    }
    if let Some(mut ranges) = target.as_ref().and_then(|field| Ranges::of_name(field.name(), context)) {
        if let Some(zone) = &options.zone {
            ranges.reader.zone = zone.clone();
        }
        return match ranges.with_value(&Value::from(text), at) {
            Err(_) if options.lenient => Ok(Some(Filter::None)),
            read => read.map(Some),
        };
    }
    if let (Some(field), Some(asking)) = (target, &options.asking)
        && let Some(asked) = asking.of(field)
    {
        return match_in(&Some(asked), text, &MatchOptions { asking: None, ..options.clone() }, at, context);
    }
    let own = target.as_ref().and_then(FieldRef::analysis);
    let exact = target.as_ref().is_some_and(FieldRef::is_exact);
    // What is compared whole is so whatever is asked for.
    let asking = options.asking.as_ref().filter(|_| !target.as_ref().is_some_and(FieldRef::is_index));
    let by = asking.and_then(|asking| if exact { Some(&asking.by) } else { asking.of_usual() });
    // Each token once.
    let tokens = match by.or(own) {
        Some(analysis) => analysis.asked_once(text, options.prefix_last).len(),
        None => query_tokens(text).into_iter().collect::<BTreeSet<_>>().len(),
    };
    if tokens == 0 && (!exact || by.is_some()) {
        return Ok(options.zero_terms_all.then_some(Filter::All));
    }
    let filter = if let Some(by) = by {
        match options.phrase {
            true => phrase_by(target, by, text, options, at, context)?,
            false => match_words(std::slice::from_ref(target), by, text, options, at, context)?,
        }
    } else if options.phrase {
        Filter::Phrase { field: target.clone(), text: text.to_owned(), prefix_last: options.prefix_last }
    } else {
        let Some(minimum) = minimum_of(options, tokens, exact, at)? else { return Ok(Some(Filter::None)) };
        match_of(target, text, minimum, options.prefix_last)
    };
    let zone = options.zone.clone().unwrap_or(jiff::tz::TimeZone::UTC);
    let Some(field) = target else {
        let reader = DateReader { zone, ..DateReader::new(context.now_us) };
        return or_any_date(filter, text, &reader, context).map(Some);
    };
    let reader = DateReader { zone, ..context.dates_of(field) };
    match or_date(filter, field, text, &reader, context) {
        Err(_) if options.lenient => Ok(Some(Filter::None)),
        read => read.map(Some),
    }
}

/// The words of a text. A value that is compared whole may start with the text where its last word may be a prefix.
fn match_of(target: &Target, text: &str, minimum: Minimum, prefix_last: bool) -> Filter {
    let field = target.clone();
    let words = Filter::Match { field, text: text.to_owned(), minimum, prefix_last };
    let is_whole = |field: &&FieldRef| field.is_exact() && field.analysis().is_none();
    match target.as_ref().filter(is_whole) {
        Some(field) if prefix_last && !text.is_empty() => {
            let (field, pattern) = (Some(field.clone()), Pattern::Prefix(text.to_owned()));
            any(vec![words, Filter::Pattern { field, pattern, case_insensitive: false }])
        }
        _ => words,
    }
}

/// The words of a text by another analysis than that of the targets, each as it is in any of them.
fn match_words(
    targets: &[Target],
    by: &Analysis,
    text: &str,
    options: &MatchOptions,
    at: &At<'_>,
    context: &Context<'_>,
) -> Result<Filter> {
    let asked = by.asked_once(text, options.prefix_last);
    let needed = match minimum_of(options, asked.len(), false, at)? {
        None => return Ok(Filter::None),
        Some(Minimum::All) => asked.len(),
        Some(Minimum::Count(count)) => count,
    };
    let parts = asked.into_iter().map(|(words, prefix_last)| {
        let each = targets.iter().flat_map(|target| words.iter().map(move |word| (target, word)));
        let each = each.flat_map(|(target, word)| {
            // What the index would take apart, or write in lower case, is no word of a text.
            let is_word = target.as_ref().is_some_and(FieldRef::is_exact)
                || query_tokens(word).as_slice() == [word.as_str()];
            match is_word {
                true => vec![match_of(target, word, Minimum::All, prefix_last)],
                false => equal_values(target, word, context),
            }
        });
        let each: Vec<Filter> = each.collect();
        if each.is_empty() { Filter::None } else { any(each) }
    });
    let parts: Vec<Filter> = parts.filter(|part| *part != Filter::None).collect();
    Ok(match needed <= parts.len() && needed > 0 {
        true => at_least(needed, parts),
        false => Filter::None,
    })
}

/// The values that are not text and that a word stands for, such as `-5`.
fn equal_values(target: &Target, word: &str, context: &Context<'_>) -> Vec<Filter> {
    let number = Number::parse(word);
    let addresses = parse_ip(word).map(|address| (address, address)).or_else(|| parse_cidr(word));
    let written = Scalar::Text(word.to_owned());
    let times = time_span(&written);
    if number.is_none() && addresses.is_none() && times.is_none() {
        return Vec::new();
    }
    let nanos = time_nanos(&written);
    let lower = Edge {
        number,
        address: addresses.map(|(first, _)| first),
        time_us: times.map(|(start, _)| start),
        nanos: nanos.as_ref().map(|nanos| nanos.start),
        text: None,
    };
    let upper = Edge {
        address: addresses.map(|(_, last)| last),
        time_us: times.map(|(_, end)| end - 1),
        nanos: nanos.map(|nanos| nanos.end - 1),
        ..lower.clone()
    };
    let fields = target.as_ref().map_or_else(|| all_fields(context), |field| [field.clone()].into());
    let typed = fields.into_iter().filter(|field| field.types().any(|ty| ty != ValueType::Text));
    typed
        .map(|field| Filter::Range {
            field,
            lower: Bound::Included(lower.clone()),
            upper: Bound::Included(upper.clone()),
        })
        .collect()
}

/// Words of such a phrase.
const PHRASE_MAX: usize = 256;

/// The words of a phrase by another analysis than that of the target, which is not compared by one.
fn phrase_by(
    target: &Target,
    by: &Analysis,
    text: &str,
    options: &MatchOptions,
    at: &At<'_>,
    context: &Context<'_>,
) -> Result<Filter> {
    let asked = by.asked(text);
    if asked.len() <= 1 {
        return match_words(std::slice::from_ref(target), by, text, options, at, context);
    }
    let Some(field) = target.as_ref().filter(|field| !field.is_exact()) else {
        let why = "a phrase of several words is asked of a field of text";
        return Err(at.unsupported("analyzer", why));
    };
    let first = asked.first().map_or(0, |first| first.at);
    let last = asked.last().map_or(0, |last| last.at);
    if last - first >= PHRASE_MAX {
        return Err(at.invalid(format_args!("more than {PHRASE_MAX} words of a phrase by an analyzer")));
    }
    let parts = (first..=last).map(|place| match asked.iter().find(|asked| asked.at == place) {
        Some(asked) => {
            let is_start = options.prefix_last && place == last;
            Intervals::AnyOf(asked.words.iter().map(|word| interval(word, is_start)).collect())
        }
        // A word that was left out stands for any.
        None => Intervals::Pattern { pattern: Pattern::Wildcard("*".to_owned()), case_insensitive: false },
    });
    let parts = Intervals::AllOf { parts: parts.collect(), order: Order::Ordered };
    let intervals = Intervals::MaxGaps { gaps: 0, of: Box::new(parts) };
    let words = words_in(field, &intervals);
    Ok(all(vec![words, Filter::Intervals { field: field.clone(), intervals }]))
}

fn interval(word: &str, is_start: bool) -> Intervals {
    match is_start {
        true => Intervals::Pattern { pattern: Pattern::Prefix(word.to_owned()), case_insensitive: false },
        false => Intervals::Word(word.to_owned()),
    }
}

/// Refuses a pattern of which what is between wildcards is more than a word to the analysis of a field, where a query asks
/// for these words. All text has its compounds as words.
pub(crate) fn check_analyzed(pattern: &Pattern, field: &FieldRef) -> Result<()> {
    let Some(analysis) = field.analysis().filter(|own| !own.is_normalizer()) else { return Ok(()) };
    let parts: Vec<String> = match pattern {
        Pattern::Prefix(start) => vec![start.clone()],
        Pattern::Wildcard(wildcard) => literals(wildcard),
        Pattern::Regex(_) => Vec::new(),
    };
    let is_word = |part: &String| match analysis.asked(part).as_slice() {
        [only] => only.words.len() == 1 && only.words.contains(&*analysis.fold(part)),
        _ => part.is_empty(),
    };
    match parts.iter().find(|part| !is_word(part)) {
        None => Ok(()),
        Some(part) => Err(Error::invalid(format!(
            "[analyze_wildcard] is not supported here: [{part}] is not one word of [{field}]; leave the parameter out, or \
             ask for each word"
        ))),
    }
}

/// What is between the wildcards of a pattern.
fn literals(wildcard: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = wildcard.chars();
    while let Some(c) = characters.next() {
        match (c, parts.last_mut()) {
            ('*' | '?', _) => parts.push(String::new()),
            ('\\', Some(part)) => part.extend(characters.next()),
            (_, Some(part)) => part.push(c),
            (_, None) => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// A pattern of words as a field that has no analysis is asked for them.
pub(crate) fn folded_by(pattern: Pattern, target: &Target, asking: Option<&Asking>) -> Pattern {
    let is_analyzed = target.as_ref().is_some_and(|field| field.analysis().is_some());
    let is_exact = target.as_ref().is_some_and(FieldRef::is_exact);
    match asking {
        Some(_) if target.as_ref().is_some_and(FieldRef::is_index) => pattern,
        Some(asking) if is_exact && !is_analyzed => words::folded(&pattern, &asking.by),
        Some(asking) if !is_analyzed => {
            asking.of_usual().map_or_else(|| pattern.clone(), |by| words::folded(&pattern, by))
        }
        _ => pattern,
    }
}

/// `filter`, which looks for `text` in every field, or the time that `text` stands for in any field that
/// holds dates.
fn or_any_date(filter: Filter, text: &str, reader: &DateReader, context: &Context<'_>) -> Result<Filter> {
    if reader.read(text, false).is_err() {
        return Ok(filter);
    }
    let has_dates = |field: &&FieldRef| dates_of(field) != Dates::No;
    let mut parts = vec![filter];
    for field in all_fields(context).iter().filter(has_dates) {
        // What is no date in one field is none in any.
        parts.push(or_date(Filter::None, field, text, reader, context)?);
    }
    Ok(any(parts.into_iter().flat_map(flat).collect()))
}

/// Every field that is known.
fn all_fields(context: &Context<'_>) -> BTreeSet<FieldRef> {
    let mapping = context.mapping;
    let names = mapping.fields().keys().map(String::as_str).chain([mapping.time_field()]);
    names.map(|name| context.field(name)).collect()
}

/// The alternatives of a filter, but for those that nothing matches.
fn flat(filter: Filter) -> Vec<Filter> {
    match filter {
        Filter::AtLeast { minimum: 1, parts } => parts.into_iter().flat_map(flat).collect(),
        Filter::None => Vec::new(),
        other => vec![other],
    }
}

/// None: more tokens are wanted than there are.
fn minimum_of(options: &MatchOptions, tokens: usize, exact: bool, at: &At<'_>) -> Result<Option<Minimum>> {
    if options.and {
        return Ok(Some(Minimum::All));
    }
    let Some(spec) = &options.minimum else { return Ok(Some(Minimum::Count(1))) };
    let needed = minimum_should_match(spec, tokens, at)?.max(1);
    // One token is no list of clauses, so the rule does not apply to it.
    if tokens <= 1 || exact {
        return Ok(Some(Minimum::Count(1)));
    }
    Ok((needed <= tokens).then_some(Minimum::Count(needed)))
}

/// `text` in any of the targets; none where there are some and the analysis of each leaves no word of it.
pub(crate) fn match_any(
    targets: &[Target],
    text: &str,
    options: &MatchOptions,
    at: &At<'_>,
    context: &Context<'_>,
) -> Result<Option<Filter>> {
    // A date cannot be searched for in a text field and the reverse: with several fields that is not a mistake.
    let options = MatchOptions { lenient: options.lenient || targets.len() > 1, ..options.clone() };
    let parts = targets.iter().filter_map(|target| match_in(target, text, &options, at, context).transpose());
    let mut parts: Vec<Filter> = parts.collect::<Result<_>>()?;
    if parts.is_empty() && !targets.is_empty() {
        return Ok(None);
    }
    if parts.contains(&Filter::All) {
        return Ok(Some(Filter::All));
    }
    parts.retain(|part| *part != Filter::None);
    Ok(Some(if parts.is_empty() { Filter::None } else { any(parts) }))
}

/// Each token in any of the targets, as if the targets were one field.
pub(crate) fn match_across(
    targets: &[Target],
    text: &str,
    options: &MatchOptions,
    at: &At<'_>,
    context: &Context<'_>,
) -> Result<Filter> {
    // Those that take the text apart alike are as one field.
    let mut alike: Vec<(Option<&Analysis>, Vec<Target>)> = Vec::new();
    for target in targets {
        let analysis = target.as_ref().and_then(FieldRef::analysis);
        match alike.iter_mut().find(|(known, _)| *known == analysis) {
            Some((_, known)) => known.push(target.clone()),
            None => alike.push((analysis, vec![target.clone()])),
        }
    }
    if let ([(None, targets)], Some(by)) =
        (alike.as_slice(), options.asking.as_ref().and_then(Asking::of_usual))
    {
        return match_words(targets, by, text, options, at, context);
    }
    if let [(Some(analysis), targets)] = alike.as_slice() {
        return match_across_analyzed(targets, analysis, text, options, at, context);
    }
    if alike.len() > 1 {
        let options = MatchOptions { lenient: true, ..options.clone() };
        let each = alike.iter().map(|(_, targets)| match_across(targets, text, &options, at, context));
        let each = each.collect::<Result<Vec<Filter>>>()?;
        return Ok(any(each.into_iter().flat_map(flat).collect()));
    }
    let tokens: BTreeSet<String> = query_tokens(text).into_iter().collect();
    if targets.is_empty() || tokens.len() <= 1 {
        return Ok(match_any(targets, text, options, at, context)?.unwrap_or(Filter::None));
    }
    let needed = match minimum_of(options, tokens.len(), false, at)? {
        None => return Ok(Filter::None),
        Some(Minimum::All) => tokens.len(),
        Some(Minimum::Count(count)) => count,
    };
    let single = MatchOptions { and: true, minimum: None, ..options.clone() };
    let each = tokens.iter().map(|token| match_any(targets, token, &single, at, context));
    let parts = each.map(|part| Ok(part?.unwrap_or(Filter::None))).collect::<Result<Vec<Filter>>>()?;
    Ok(if needed == tokens.len() { all(parts) } else { at_least(needed, parts) })
}

/// The same where all targets compare their text by this analysis.
fn match_across_analyzed(
    targets: &[Target],
    analysis: &Analysis,
    text: &str,
    options: &MatchOptions,
    at: &At<'_>,
    context: &Context<'_>,
) -> Result<Filter> {
    let asking = options.asking.as_ref();
    let analysis = asking.map_or_else(|| analysis.clone(), |asking| asking.of_analysis(analysis));
    let asked = analysis.asked_once(text, options.prefix_last);
    if asked.len() <= 1 || analysis.is_normalizer() {
        return Ok(match_any(targets, text, options, at, context)?.unwrap_or(Filter::None));
    }
    let needed = match minimum_of(options, asked.len(), false, at)? {
        None => return Ok(Filter::None),
        Some(Minimum::All) => asked.len(),
        Some(Minimum::Count(count)) => count,
    };
    let parts = asked.into_iter().map(|(words, prefix_last)| {
        let each = words
            .iter()
            .flat_map(|word| targets.iter().flatten().map(|field| word_in(field, word.clone(), prefix_last)));
        any(each.collect())
    });
    let parts: Vec<Filter> = parts.collect();
    Ok(if needed == parts.len() { all(parts) } else { at_least(needed, parts) })
}

/// A word as the text of the field has it once it is taken apart.
pub(crate) fn word_in(field: &FieldRef, text: String, prefix_last: bool) -> Filter {
    Filter::Match { field: Some(field.asked_as_written()), text, minimum: Minimum::All, prefix_last }
}

/// What a document matches that has the words in the field, however they stand.
pub(crate) fn words_in(field: &FieldRef, intervals: &Intervals) -> Filter {
    let each = |parts: &[Intervals]| parts.iter().map(|part| words_in(field, part)).collect();
    match intervals {
        Intervals::Word(word) => word_in(field, word.clone(), false),
        Intervals::Pattern { pattern, case_insensitive } => Filter::Pattern {
            field: Some(field.asked_as_written()),
            pattern: pattern.clone(),
            case_insensitive: *case_insensitive,
        },
        Intervals::AnyOf(parts) => any(each(parts)),
        Intervals::AllOf { parts, .. } => all(each(parts)),
        Intervals::MaxGaps { of, .. } => words_in(field, of),
        Intervals::Related { of, how, others } if how.needs_another() => {
            all(vec![words_in(field, of), words_in(field, others)])
        }
        Intervals::Related { of, .. } => words_in(field, of),
    }
}
