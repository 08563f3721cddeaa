//! `_analyze`: the tokens of a text.

use frostline_split::{FieldType, Mapping, Placed, ValueType, analyze};
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
    if let Some(other) = body.keys().find(|member| !["analyzer", "field", "text"].contains(&member.as_str()))
    {
        return Err(ApiError::invalid(format!("[{other}] is not supported")));
    }
    let texts = texts(&body)?;
    let text = |name: &str| match body.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(ApiError::unparsed(format!("[{name}] is {other}, not text"))),
    };
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
    let tokens = analyzer.tokens(&texts, TOKENS_MAX).ok_or_else(|| {
        ApiError::invalid(format!(
            "The number of tokens produced by calling _analyze has exceeded the allowed maximum of [{TOKENS_MAX}]."
        ))
    })?;
    Answer::json(&json!({ "tokens": tokens.iter().map(shown).collect::<Vec<_>>() }))
}

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
    /// Not at all.
    Keyword,
}

/// A token of a list of texts.
pub(crate) struct Token {
    pub(crate) placed: Placed,
    /// Among the words of all texts.
    pub(crate) position: usize,
    /// In UTF-16 code units of all texts.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Analyzer {
    pub(crate) fn named(name: &str) -> Result<Analyzer> {
        match name {
            "default" | "standard" => Ok(Analyzer::Standard),
            "keyword" => Ok(Analyzer::Keyword),
            other => Err(ApiError::invalid(format!(
                "failed to find analyzer [{other}]: there are [standard], which is how all text is analysed, and [keyword]"
            ))),
        }
    }

    /// How the text that a name means is searched; none where it means no text. One that is not known yet has text.
    pub(crate) fn of_name(mapping: &Mapping, name: &str) -> Option<Analyzer> {
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
            paths if paths.iter().any(|(_, is_exact)| *is_exact) => Some(Analyzer::Keyword),
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
    pub(crate) fn tokens(self, texts: &[&str], tokens_max: usize) -> Option<Vec<Token>> {
        let (mut tokens, mut next, mut offset) = (Vec::new(), 0, 0);
        for text in texts {
            let placed = match self {
                Analyzer::Standard => analyze(text, tokens_max + 1),
                Analyzer::Keyword => vec![whole(text)],
            };
            if tokens.len() + placed.len() > tokens_max {
                return None;
            }
            let first = next;
            for placed in placed {
                next = next.max(first + placed.position + placed.words);
                let (position, start, end) =
                    (first + placed.position, offset + placed.start, offset + placed.end);
                tokens.push(Token { placed, position, start, end });
            }
            next += GAPS.0;
            offset += text.encode_utf16().count() + GAPS.1;
        }
        Some(tokens)
    }
}

fn shown(token: &Token) -> Value {
    let mut shown = json!({
        "token": token.placed.text,
        "start_offset": token.start,
        "end_offset": token.end,
        "type": kind(&token.placed),
        "position": token.position,
    });
    if token.placed.words > 1 {
        shown["positionLength"] = json!(token.placed.words);
    }
    shown
}

/// A text as the only token of it.
fn whole(text: &str) -> Placed {
    let end = text.encode_utf16().count();
    Placed { text: text.to_owned(), start: 0, end, position: 0, words: 1, is_compound: false }
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
