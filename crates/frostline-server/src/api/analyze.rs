//! `_analyze`: the tokens of a text.

use std::collections::BTreeSet;

use frostline_split::{Analysis, FieldType, Mapping, Placed, STOP_WORDS, ValueType, analyze};
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
    if let Some(chain) = Chain::of(&body)? {
        if let Some(index) = call.part("index") {
            document::holder(&call, index).await?;
        }
        return Answer::json(&chain.answer(&texts, explain)?);
    }
    let analyzer = match (text("analyzer")?, text("field")?, call.part("index")) {
        (Some(name), _, index) => {
            if let Some(index) = index {
                document::holder(&call, index).await?;
            }
            Analyzer::named(name)?
        }
        (None, Some(_), None) => {
            return Err(ApiError::invalid("[field] is a field of an index: the path names none"));
        }
        (None, Some(field), Some(index)) => Analyzer::of_field(&call, index, field).await?,
        (None, None, index) => {
            if let Some(index) = index {
                document::holder(&call, index).await?;
            }
            Analyzer::Standard
        }
    };
    let tokens = shown(&analyzer.tokens(&texts, TOKENS_MAX).ok_or_else(too_many)?);
    Answer::json(&match explain {
        true => {
            let analyzer = json!({ "name": analyzer.name(), "tokens": tokens });
            json!({ "detail": { "custom_analyzer": false, "analyzer": analyzer } })
        }
        false => json!({ "tokens": tokens }),
    })
}

const MEMBERS: [&str; 7] = ["analyzer", "char_filter", "explain", "field", "filter", "text", "tokenizer"];

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Analyzer {
    /// Into the tokens that text has.
    Standard,
    /// As some fields are compared.
    Other(Analysis),
}

impl Analyzer {
    pub(crate) fn named(name: &str) -> Result<Analyzer> {
        match name {
            "default" | "standard" => Ok(Analyzer::Standard),
            other => Analysis::analyzer(other).map(Analyzer::Other).ok_or_else(|| {
                ApiError::invalid(format!(
                    "failed to find analyzer [{other}]: there are [standard], which is how all text is analysed, [keyword], \
                     [simple], [stop] and [whitespace]"
                ))
            }),
        }
    }

    pub(crate) fn name(self) -> &'static str {
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
            paths if paths.iter().any(|(_, is_exact)| *is_exact) => Some(Analyzer::Other(Analysis::Keyword)),
            _ => None,
        }
    }

    /// The same of a field of an index.
    async fn of_field(call: &Call, index: &str, name: &str) -> Result<Analyzer> {
        let index = call.state.node.index(&document::holder(call, index).await?).await?;
        Analyzer::of_name(index.mapping(), name).ok_or_else(|| {
            ApiError::invalid(format!(
                "Can't process field [{name}], Analysis requests are only supported on tokenized fields"
            ))
        })
    }

    /// The tokens of the values of a field. None where there are more than `tokens_max`.
    pub(crate) fn tokens(self, texts: &[&str], tokens_max: usize) -> Option<Vec<Placed>> {
        tokens_of(texts, tokens_max, |text, most| match self {
            Analyzer::Standard => analyze(text, most),
            Analyzer::Other(analysis) => placed(text, analysis, most),
        })
    }
}

/// The tokens of texts, as if they were values of a field, by a function that gives so many of one. None where there are
/// more than `tokens_max`.
fn tokens_of(
    texts: &[&str],
    tokens_max: usize,
    of: impl Fn(&str, usize) -> Vec<Placed>,
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

/// At most so many words of a text by an analysis.
fn placed(text: &str, analysis: Analysis, most: usize) -> Vec<Placed> {
    // Words come one after another, so each part of the text is counted once.
    let (mut at, mut units) = (0, 0);
    let mut upto = |end: usize| {
        units += text.get(at..end).unwrap_or_default().encode_utf16().count();
        at = end;
        units
    };
    let words = analysis.places(text).into_iter().take(most);
    let words = words.map(|(position, place)| {
        let own = text.get(place.clone()).unwrap_or_default();
        let (start, end) = (upto(place.start), upto(place.end));
        Placed { text: analysis.fold(own).into_owned(), start, end, position, words: 1, is_compound: false }
    });
    words.collect()
}

/// A tokenizer and what becomes of its tokens.
struct Chain {
    tokenizer: &'static str,
    filters: Vec<(String, TokenFilter)>,
}

enum TokenFilter {
    Lowercase,
    Uppercase,
    Trim,
    /// These words are left out; by whatever case they have, if it is not regarded.
    Stop(BTreeSet<String>, bool),
}

const TOKENIZERS: [&str; 5] = ["standard", "keyword", "letter", "lowercase", "whitespace"];

impl Chain {
    /// The one that a request describes; none where it names an analyzer or a field.
    fn of(body: &Map<String, Value>) -> Result<Option<Chain>> {
        let filters = |key: &str| -> Vec<Value> {
            match body.get(key) {
                None => Vec::new(),
                Some(Value::Array(all)) => all.clone(),
                Some(one) => vec![one.clone()],
            }
        };
        let tokenizer = match body.get("tokenizer") {
            // A normalizer made of filters alone.
            None if body.contains_key("filter") || body.contains_key("char_filter") => "keyword",
            None => return Ok(None),
            Some(Value::String(name)) => {
                let known = TOKENIZERS.iter().find(|known| *known == name);
                known.copied().ok_or_else(|| {
                    let known = TOKENIZERS.join("], [");
                    ApiError::invalid(format!(
                        "failed to find global tokenizer under [{name}]: there are [{known}]"
                    ))
                })?
            }
            Some(_) => return Err(ApiError::invalid("[tokenizer] is the name of one: no other is made")),
        };
        if ["analyzer", "field"].iter().any(|key| body.contains_key(*key)) {
            return Err(ApiError::invalid("[tokenizer] and [filter] do not go with [analyzer] or [field]"));
        }
        if !filters("char_filter").is_empty() {
            return Err(ApiError::invalid("[char_filter] is not supported"));
        }
        let filters = filters("filter").iter().map(TokenFilter::of).collect::<Result<_>>()?;
        Ok(Some(Chain { tokenizer, filters }))
    }

    fn tokens(&self, text: &str, most: usize) -> Vec<Placed> {
        match self.tokenizer {
            "standard" => {
                let units: Vec<u16> = text.encode_utf16().collect();
                // A word is in a few tokens.
                let words = analyze(text, 8 * most).into_iter().filter(|token| token.words == 1);
                let as_written = words.map(|token| {
                    let own = units.get(token.start..token.end).unwrap_or_default();
                    Placed { text: String::from_utf16_lossy(own), ..token }
                });
                as_written.take(most).collect()
            }
            "letter" => {
                let units: Vec<u16> = text.encode_utf16().collect();
                let as_written = placed(text, Analysis::Simple, most).into_iter().map(|token| {
                    let own = units.get(token.start..token.end).unwrap_or_default();
                    Placed { text: String::from_utf16_lossy(own), ..token }
                });
                as_written.collect()
            }
            "lowercase" => placed(text, Analysis::Simple, most),
            "whitespace" => placed(text, Analysis::Whitespace, most),
            _ => placed(text, Analysis::Keyword, most),
        }
    }

    fn answer(&self, texts: &[&str], explain: bool) -> Result<Value> {
        let mut tokens =
            tokens_of(texts, TOKENS_MAX, |text, most| self.tokens(text, most)).ok_or_else(too_many)?;
        let tokenizer = json!({ "name": self.tokenizer, "tokens": shown(&tokens) });
        let mut filters = Vec::new();
        for (name, filter) in &self.filters {
            tokens = filter.apply(tokens);
            filters.push(json!({ "name": name, "tokens": shown(&tokens) }));
        }
        Ok(match explain {
            true => json!({ "detail": {
                "custom_analyzer": true, "charfilters": [], "tokenizer": tokenizer, "tokenfilters": filters,
            } }),
            false => json!({ "tokens": shown(&tokens) }),
        })
    }
}

impl TokenFilter {
    /// A filter by its name, or as it is described, with its name.
    fn of(value: &Value) -> Result<(String, TokenFilter)> {
        let (name, options) = match value {
            Value::String(name) => (name.as_str(), Map::new()),
            Value::Object(options) => {
                let name = options.get("type").and_then(Value::as_str);
                (name.ok_or_else(|| ApiError::invalid("a filter has its [type]"))?, options.clone())
            }
            other => return Err(ApiError::unparsed(format!("[filter] has {other}, no name of a filter"))),
        };
        let is_known =
            |key: &str| key == "type" || name == "stop" && matches!(key, "stopwords" | "ignore_case");
        if let Some(other) = options.keys().find(|key| !is_known(key)) {
            return Err(ApiError::invalid(format!("[{other}] of the filter [{name}] is not supported")));
        }
        let filter = match name {
            "lowercase" => TokenFilter::Lowercase,
            "uppercase" => TokenFilter::Uppercase,
            "trim" => TokenFilter::Trim,
            "stop" => {
                let ignores_case = options.get("ignore_case") == Some(&Value::Bool(true));
                let words: Option<Vec<&str>> = match options.get("stopwords") {
                    None => Some(STOP_WORDS.to_vec()),
                    Some(Value::String(name)) if name == "_english_" => Some(STOP_WORDS.to_vec()),
                    Some(Value::String(name)) if name == "_none_" => Some(Vec::new()),
                    Some(Value::Array(words)) => words.iter().map(Value::as_str).collect(),
                    Some(_) => None,
                };
                let words = words.ok_or_else(|| {
                    ApiError::invalid("[stopwords] is a list of words, or [_english_], or [_none_]")
                })?;
                let word = |word: &str| if ignores_case { word.to_lowercase() } else { word.to_owned() };
                TokenFilter::Stop(words.into_iter().map(word).collect(), ignores_case)
            }
            other => {
                return Err(ApiError::invalid(format!(
                    "failed to find global token filter under [{other}]: there are [lowercase], [uppercase], [trim] and [stop]"
                )));
            }
        };
        // What is described in the request has no name of its own.
        let shown = if value.is_string() { name.to_owned() } else { format!("__anonymous__{name}") };
        Ok((shown, filter))
    }

    fn apply(&self, mut tokens: Vec<Placed>) -> Vec<Placed> {
        match self {
            TokenFilter::Stop(words, ignores_case) => tokens.retain(|token| match ignores_case {
                true => !words.contains(&token.text.to_lowercase()),
                false => !words.contains(&token.text),
            }),
            other => {
                for token in &mut tokens {
                    token.text = match other {
                        TokenFilter::Uppercase => token.text.to_uppercase(),
                        TokenFilter::Trim => token.text.trim().to_owned(),
                        _ => token.text.to_lowercase(),
                    };
                }
            }
        }
        tokens
    }
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
