//! `_analyze`: the tokens of a text.

use frostline_split::{Analysis, Definitions, FieldType, Mapping, Placed, Steps, ValueType, Word, analyze};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::document;
use crate::error::{ApiError, Result};
use crate::state::Call;

/// As many as Elasticsearch answers.
const TOKENS_MAX: usize = 10_000;
/// What is between the values of a field: positions, and characters.
const GAPS: (usize, usize) = (100, 1);

/// `POST /{index}/_analyze`.
pub(crate) async fn of_text(call: Call) -> Result<Answer> {
    let body = call.object()?;
    if let Some(other) = body.keys().find(|member| !MEMBERS.contains(&member.as_str())) {
        return Err(ApiError::invalid(format!("[{other}] is not supported")));
    }
    let explain = match body.get("explain") {
        None => false,
        Some(Value::Bool(explain)) => *explain,
        Some(other) => return Err(ApiError::unparsed(format!("[explain] is {other}, not true or false"))),
    };
    let texts = texts(&body)?;
    let text = |name: &str| match body.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(ApiError::unparsed(format!("[{name}] is {other}, not text"))),
    };
    let index = match call.part("index") {
        Some(index) => Some(call.state.node.index(&document::holder(&call, index).await?).await?),
        None => None,
    };
    let mapping = index.as_ref().map(|index| index.mapping());
    let definitions = mapping.map_or_else(Definitions::default, |mapping| mapping.definitions().clone());
    let normalizer = text("normalizer")?;
    if ["char_filter", "filter", "tokenizer"].iter().any(|key| body.contains_key(*key)) {
        if ["analyzer", "field", "normalizer"].iter().any(|key| body.contains_key(*key)) {
            return Err(ApiError::invalid(
                "[tokenizer], [filter] and [char_filter] do not go with [analyzer], [field] or [normalizer]",
            ));
        }
        let described = definitions.described(&body, mapping.is_none())?;
        return Answer::json(&answer(&Analyzer::Other(described), &texts, explain, true)?);
    }
    let analyzer = match (text("analyzer")?, normalizer, text("field")?, mapping) {
        (Some(_), Some(_), ..) => {
            return Err(ApiError::invalid("[normalizer] does not go with [analyzer]"));
        }
        (Some(name), None, ..) => Analyzer::named(name, &definitions)?,
        (None, Some(name), ..) => {
            let normalizer = definitions.normalizer(name).filter(|_| mapping.is_some());
            Analyzer::Other(normalizer.ok_or_else(|| match mapping {
                Some(_) => ApiError::invalid(format!("failed to find normalizer under [{name}]")),
                None => ApiError::invalid("analysis based on a normalizer requires an index"),
            })?)
        }
        (None, None, Some(_), None) => {
            return Err(ApiError::invalid("[field] needs an index: name one in the path"));
        }
        (None, None, Some(field), Some(mapping)) => Analyzer::of_name(mapping, field).ok_or_else(|| {
            ApiError::invalid(format!(
                "Can't process field [{field}], Analysis requests are only supported on tokenized fields"
            ))
        })?,
        (None, None, None, _) => Analyzer::named("default", &definitions)?,
    };
    let is_custom = matches!(&analyzer, Analyzer::Other(analysis) if analysis.is_custom());
    Answer::json(&answer(&analyzer, &texts, explain, is_custom)?)
}

/// The tokens of texts; where they are to be explained, after each step, which only some analyzers have several of.
fn answer(analyzer: &Analyzer, texts: &[&str], explain: bool, has_steps: bool) -> Result<Value> {
    let all = || -> Result<Value> { Ok(shown(&analyzer.tokens(texts, TOKENS_MAX).ok_or_else(too_many)?)) };
    let analysis = match analyzer {
        _ if !explain => return Ok(json!({ "tokens": all()? })),
        Analyzer::Other(analysis) if has_steps => analysis,
        _ => {
            let analyzer = json!({ "name": analyzer.name(), "tokens": all()? });
            return Ok(json!({ "detail": { "custom_analyzer": false, "analyzer": analyzer } }));
        }
    };
    let steps = texts.iter().map(|text| Some((*text, analysis.steps(text, TOKENS_MAX)?)));
    let steps: Vec<(&str, Steps)> = steps.collect::<Option<_>>().ok_or_else(too_many)?;
    let Some((_, first)) = steps.first() else { return Ok(json!({})) };
    let step = |words_of: &dyn Fn(&Steps) -> &[Word<'static>]| -> Result<Value> {
        let mut steps = steps.iter();
        let of_text = |_: &str, most: usize| match steps.next() {
            Some((text, step)) => placed(text, words_of(step), most),
            None => Vec::new(),
        };
        Ok(shown(&tokens_of(texts, TOKENS_MAX, of_text).ok_or_else(too_many)?))
    };
    let char_filters = first.char_filters.iter().enumerate().map(|(at, (name, _))| {
        let texts = steps.iter().filter_map(|(_, step)| step.char_filters.get(at));
        json!({ "name": name, "filtered_text": texts.map(|(_, text)| text).collect::<Vec<_>>() })
    });
    let filters = first.filters.iter().enumerate().map(|(at, (name, _))| {
        let tokens = step(&|step| step.filters.get(at).map_or(&[], |(_, words)| words.as_slice()))?;
        Ok(json!({ "name": name, "tokens": tokens }))
    });
    let tokenizer = json!({ "name": first.tokenizer.0, "tokens": step(&|step| &step.tokenizer.1)? });
    Ok(json!({ "detail": {
        "custom_analyzer": true,
        "charfilters": char_filters.collect::<Vec<_>>(),
        "tokenizer": tokenizer,
        "tokenfilters": filters.collect::<Result<Vec<_>>>()?,
    } }))
}

const MEMBERS: [&str; 8] =
    ["analyzer", "char_filter", "explain", "field", "filter", "normalizer", "text", "tokenizer"];

fn texts(body: &Map<String, Value>) -> Result<Vec<&str>> {
    let wrong = || ApiError::unparsed("[text] is a text, or a list of texts");
    let texts = match body.get("text") {
        Some(Value::String(text)) => vec![text.as_str()],
        Some(Value::Array(texts)) => {
            texts.iter().map(Value::as_str).collect::<Option<Vec<&str>>>().ok_or_else(wrong)?
        }
        None => Vec::new(),
        Some(_) => return Err(wrong()),
    };
    match texts.is_empty() {
        true => Err(ApiError::invalid("Validation Failed: 1: text is missing;")
            .named("action_request_validation_exception")),
        false => Ok(texts),
    }
}

/// How a text is taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Analyzer {
    /// Into the tokens that text has.
    Standard,
    /// As some fields are compared.
    Other(Analysis),
}

impl Analyzer {
    /// The one of a name, of an index whose settings define this.
    pub(crate) fn named(name: &str, definitions: &Definitions) -> Result<Analyzer> {
        let is_usual = matches!(name, "default" | "standard");
        match definitions.analyzer(name).filter(|_| !is_usual || definitions.defines_analyzer(name)) {
            Some(analysis) => Ok(Analyzer::Other(analysis)),
            None if is_usual => Ok(Analyzer::Standard),
            None => Err(ApiError::invalid(format!(
                "failed to find analyzer [{name}]: {}",
                definitions.analyzers()
            ))),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Analyzer::Standard => "standard",
            Analyzer::Other(analysis) => analysis.name(),
        }
    }

    /// How the text that a name means is searched; none where it means no text. One that is not known yet has text.
    pub(crate) fn of_name(mapping: &Mapping, name: &str) -> Option<Analyzer> {
        if let Some(analysis) = mapping.analysis_of(name) {
            return Some(Analyzer::Other(analysis));
        }
        let resolved = mapping.resolve(name);
        let is_text = |path: &str| match mapping.field(path) {
            Some(field) => match field.ty() {
                Some(ty) => matches!(ty, FieldType::Text | FieldType::MatchOnlyText),
                None => field.readings.is_empty() || field.readings.contains_key(&ValueType::Text),
            },
            None => true,
        };
        match resolved.paths.as_slice() {
            [] if resolved.is_time => None,
            [] => Some(Analyzer::Standard),
            paths if paths.iter().any(|(path, is_exact)| !is_exact && is_text(path)) => {
                Some(Analyzer::Standard)
            }
            paths if paths.iter().any(|(_, is_exact)| *is_exact) => Some(whole()),
            _ => None,
        }
    }

    /// The tokens of the values of a field. None where there are more than `tokens_max`.
    pub(crate) fn tokens(&self, texts: &[&str], tokens_max: usize) -> Option<Vec<Placed>> {
        tokens_of(texts, tokens_max, |text, most| match self {
            Analyzer::Standard => analyze(text, most),
            Analyzer::Other(analysis) => placed(text, &analysis.words(text), most),
        })
    }
}

/// What takes a text as one word, as it is written.
fn whole() -> Analyzer {
    Analysis::analyzer("keyword").map_or(Analyzer::Standard, Analyzer::Other)
}

/// The tokens of texts, as if they were values of a field, by a function that gives so many of one. None where there are
/// more than `tokens_max`.
fn tokens_of(
    texts: &[&str],
    tokens_max: usize,
    mut of: impl FnMut(&str, usize) -> Vec<Placed>,
) -> Option<Vec<Placed>> {
    let (mut tokens, mut next, mut offset) = (Vec::new(), 0, 0);
    for text in texts {
        let first = next;
        for token in of(text, tokens_max + 1) {
            next = next.max(first + token.position + token.words);
            let (start, end) = (offset + token.start, offset + token.end);
            tokens.push(Placed { start, end, position: first + token.position, ..token });
        }
        if tokens.len() > tokens_max {
            return None;
        }
        next += GAPS.0;
        offset += text.encode_utf16().count() + GAPS.1;
    }
    Some(tokens)
}

fn too_many() -> ApiError {
    ApiError::invalid(format!(
        "The number of tokens produced by calling _analyze has exceeded the allowed maximum of [{TOKENS_MAX}]."
    ))
}

fn shown(tokens: &[Placed]) -> Value {
    let one = |token: &Placed| {
        let mut shown = json!({
            "token": token.text,
            "start_offset": token.start,
            "end_offset": token.end,
            "type": kind(token),
            "position": token.position,
        });
        if token.words > 1 {
            shown["positionLength"] = json!(token.words);
        }
        shown
    };
    tokens.iter().map(one).collect()
}

/// At most so many words of a text, as tokens.
fn placed(text: &str, words: &[Word<'_>], most: usize) -> Vec<Placed> {
    // Of each character: where it begins in bytes, and in UTF-16 code units.
    let mut units = 0;
    let begins = text.char_indices().map(|(at, c)| {
        units += c.len_utf16();
        (at, units - c.len_utf16())
    });
    let begins: Vec<(usize, usize)> = begins.collect();
    let all = text.encode_utf16().count();
    let unit = |at: usize| match begins.binary_search_by_key(&at, |(begin, _)| *begin) {
        Ok(found) => begins.get(found).map_or(all, |(_, unit)| *unit),
        Err(_) => all,
    };
    let words = words.iter().take(most).map(|word| Placed {
        text: word.text.to_string(),
        start: unit(word.place.start),
        end: unit(word.place.end),
        position: word.at,
        words: 1,
        is_compound: false,
    });
    words.collect()
}

fn kind(token: &Placed) -> &'static str {
    match (token.words, token.is_compound) {
        (1, _) => "word",
        (_, true) => "compound",
        (_, false) => "whole",
    }
}

#[cfg(test)]
mod tests;
