//! The query `intervals`: words that stand so to one another.

use frostline_split::{Analysis, Phrase, lower};
use serde_json::Value;

use super::asking::{Asking, check_words};
use super::json::{self, At, Object};
use super::text::words_in;
use super::{Context, regexp};
use crate::Result;
use crate::filter::words::folded;
use crate::filter::{Filter, Intervals, Order, Pattern, Relation};

/// More parts, words among them, are refused: each is looked for in each text.
const PARTS_MAX: usize = 256;

const RELATIONS: [(&str, Relation); 8] = [
    ("after", Relation::After),
    ("before", Relation::Before),
    ("contained_by", Relation::ContainedBy),
    ("containing", Relation::Containing),
    ("not_contained_by", Relation::NotContainedBy),
    ("not_containing", Relation::NotContaining),
    ("not_overlapping", Relation::NotOverlapping),
    ("overlapping", Relation::Overlapping),
];

/// Reads the body of `{"intervals": {FIELD: {RULE: …}}}`.
pub(crate) fn parse(field: &str, body: &Value, at: &At<'_>, context: &Context<'_>) -> Result<Filter> {
    let field = context.field(field);
    let mut reader = Reader { parts_left: PARTS_MAX, analysis: field.analysis(), context };
    let mut options = Object::new(body, at)?;
    options.ignore(&["boost", "_name"]);
    let rules = body.as_object().into_iter().flatten();
    let mut rules = rules.filter(|(name, _)| *name != "boost" && *name != "_name");
    let (Some((name, rule)), None) = (rules.next(), rules.next()) else {
        return Err(at.invalid("expected one rule: match, prefix, wildcard, regexp, all_of or any_of"));
    };
    let intervals = reader.rule(name, rule, &at.key(name))?;
    let words = words_in(&field, &intervals);
    Ok(Filter::And(vec![words, Filter::Intervals { field, intervals }]))
}

struct Reader<'f> {
    parts_left: usize,
    /// Of the field, if it is not that of all text.
    analysis: Option<&'f Analysis>,
    context: &'f Context<'f>,
}

impl Reader<'_> {
    /// How a rule is read, if not as all text is: by what it names, or else as the field.
    fn analysis(&self, options: &mut Object<'_>, at: &At<'_>) -> Result<Option<Analysis>> {
        Ok(match (self.analysis, Asking::named(options, "analyzer", at, self.context)?) {
            (Some(own), Some(asking)) => Some(asking.of_analysis(own)),
            (own, None) => own.cloned(),
            (None, Some(asking)) => asking.of_usual().cloned(),
        })
    }

    /// What a text asks for: a word, or one of several at its place.
    fn words(&mut self, text: &str, analysis: Option<&Analysis>, at: &At<'_>) -> Result<Vec<Intervals>> {
        let Some(analysis) = analysis else {
            let words = Phrase::new(text).words().to_vec();
            words.iter().try_for_each(|_| self.take_part(at))?;
            return Ok(words.into_iter().map(Intervals::Word).collect());
        };
        let each = analysis.asked(text).into_iter().map(|asked| {
            asked.words.iter().try_for_each(|_| self.take_part(at))?;
            let mut words: Vec<Intervals> = asked.words.into_iter().map(Intervals::Word).collect();
            Ok(match (words.len(), words.pop()) {
                (1, Some(only)) => only,
                (_, last) => {
                    words.extend(last);
                    Intervals::AnyOf(words)
                }
            })
        });
        each.collect()
    }

    fn rule(&mut self, name: &str, rule: &Value, at: &At<'_>) -> Result<Intervals> {
        at.check_depth()?;
        self.take_part(at)?;
        let mut options = Object::new(rule, at)?;
        check_words(&mut options, at)?;
        options.refuse(&[("use_field", "ask that field")])?;
        let read = match name {
            "match" => {
                let query = text(&mut options, at, "query")?;
                let analysis = self.analysis(&mut options, at)?;
                let parts = self.words(query, analysis.as_ref(), at)?;
                combined(parts, &mut options, at)?
            }
            "prefix" => {
                let prefix = Pattern::Prefix(text(&mut options, at, "prefix")?.to_owned());
                let analysis = self.analysis(&mut options, at)?;
                Intervals::Pattern { pattern: folded_by(prefix, analysis.as_ref()), case_insensitive: false }
            }
            "wildcard" => {
                options.ignore(&["max_expansions"]);
                let wildcard = Pattern::Wildcard(text(&mut options, at, "pattern")?.to_owned());
                let case_insensitive = options.boolean("case_insensitive")?.unwrap_or(false);
                let analysis = self.analysis(&mut options, at)?;
                Intervals::Pattern { pattern: folded_by(wildcard, analysis.as_ref()), case_insensitive }
            }
            "regexp" => {
                options.ignore(&["max_expansions"]);
                let (pattern, flags) = (text(&mut options, at, "pattern")?, options.string("flags")?);
                let pattern = regexp::translate(pattern, flags.unwrap_or("ALL"));
                let pattern =
                    pattern.map_err(|error| error.context(format!("the regexp at `{at}` is not valid")))?;
                let case_insensitive = options.boolean("case_insensitive")?.unwrap_or(false);
                Intervals::Pattern { pattern: Pattern::Regex(pattern), case_insensitive }
            }
            "all_of" => {
                let parts = self.parts(&mut options, at)?;
                combined(parts, &mut options, at)?
            }
            "any_of" => Intervals::AnyOf(self.parts(&mut options, at)?),
            "fuzzy" => {
                return Err(at.invalid(
                    "[fuzzy] is not supported: words are matched as written; use wildcard or regexp",
                ));
            }
            other => return Err(at.invalid(format_args!("[{other}] is not a rule of intervals"))),
        };
        let filter = options.take("filter");
        options.finish()?;
        match filter {
            Some(filter) => self.related(read, filter, &at.key("filter")),
            None => Ok(read),
        }
    }

    fn parts(&mut self, options: &mut Object<'_>, at: &At<'_>) -> Result<Vec<Intervals>> {
        let (Some(parts), at) = (options.take("intervals"), at.key("intervals")) else {
            return Err(at.invalid("[intervals] is missing"));
        };
        let mut read = Vec::new();
        json::each(parts, &at, |part, at| {
            let (name, rule) = json::only_entry(part, at, "one rule")?;
            read.push(self.rule(name, rule, &at.key(name))?);
            Ok(())
        })?;
        Ok(read)
    }

    fn related(&mut self, of: Intervals, filter: &Value, at: &At<'_>) -> Result<Intervals> {
        let (name, others) = json::only_entry(filter, at, "one of the filters of intervals")?;
        if name == "script" {
            return Err(at.unsupported("script", "scripts are not run"));
        }
        let Some((_, how)) = RELATIONS.iter().find(|(known, _)| *known == name) else {
            return Err(at.invalid(format_args!("[{name}] is not a filter of intervals")));
        };
        let at = at.key(name);
        let (name, rule) = json::only_entry(others, &at, "one rule")?;
        let others = self.rule(name, rule, &at.key(name))?;
        Ok(Intervals::Related { of: Box::new(of), how: *how, others: Box::new(others) })
    }

    fn take_part(&mut self, at: &At<'_>) -> Result<()> {
        let left = self.parts_left.checked_sub(1);
        self.parts_left =
            left.ok_or_else(|| at.invalid(format_args!("more than {PARTS_MAX} rules and words")))?;
        Ok(())
    }
}

/// A pattern of words as the texts of a field have them.
fn folded_by(pattern: Pattern, analysis: Option<&Analysis>) -> Pattern {
    match (analysis, pattern) {
        (Some(analysis), pattern) => folded(&pattern, analysis),
        (None, Pattern::Prefix(prefix)) => Pattern::Prefix(lower(&prefix)),
        (None, Pattern::Wildcard(wildcard)) => Pattern::Wildcard(lower(&wildcard)),
        (None, regex) => regex,
    }
}

/// All of the parts, as `mode` (or the older `ordered`) and `max_gaps` say.
fn combined(mut parts: Vec<Intervals>, options: &mut Object<'_>, at: &At<'_>) -> Result<Intervals> {
    let is_ordered = options.boolean("ordered")?.unwrap_or(false);
    let order = match options.string("mode")? {
        None if is_ordered => Order::Ordered,
        None | Some("unordered") => Order::Unordered,
        Some("ordered") => Order::Ordered,
        Some("unordered_no_overlap") => Order::NoOverlap,
        Some(other) => {
            let what = format_args!("[mode] is ordered, unordered or unordered_no_overlap, not [{other}]");
            return Err(at.key("mode").invalid(what));
        }
    };
    let gaps = match options.number("max_gaps")? {
        None | Some(-1.0) => None,
        Some(gaps) if gaps >= 0.0 && gaps.fract() == 0.0 => Some(gaps as u64),
        Some(_) => return Err(at.key("max_gaps").invalid("expected a whole number of at least -1")),
    };
    let whole = match (parts.len(), parts.pop()) {
        // No word, no interval.
        (_, None) => return Ok(Intervals::AnyOf(Vec::new())),
        (1, Some(only)) => only,
        (_, Some(last)) => {
            parts.push(last);
            Intervals::AllOf { parts, order }
        }
    };
    Ok(match gaps {
        Some(gaps) => Intervals::MaxGaps { gaps, of: Box::new(whole) },
        None => whole,
    })
}

fn text<'a>(options: &mut Object<'a>, at: &At<'_>, key: &'static str) -> Result<&'a str> {
    options.string(key)?.ok_or_else(|| at.invalid(format_args!("[{key}] is missing")))
}

#[cfg(test)]
mod tests;
