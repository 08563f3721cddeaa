//! Answers of handlers, and the form that a request wants them in.

use std::sync::Arc;

use bytes::Bytes;
use frostline_query::Json;
use http::StatusCode;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, Result};
use crate::filter_path::FilterPath;
use crate::params::Params;
use crate::settings::Settings;
use crate::slow::Searched;

/// What a handler answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content: Content,
    /// What the client may want to know, for `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// The methods that the path allows, where that was asked or the method was another one.
    pub(crate) allow: Option<String>,
    /// After how many seconds the same request may do.
    pub(crate) try_again_s: Option<u16>,
    /// What its searches cost, if it made any.
    pub(crate) searched: Option<Box<Searched>>,
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Json(Vec<u8>),
    Text { media: &'static str, text: String },
    Bytes { media: &'static str, bytes: Vec<u8> },
    Nothing,
}

impl Answer {
    /// An answer of 200.
    pub(crate) fn json(value: &impl Serialize) -> Result<Answer> {
        Answer::written(|bytes| Ok(serde_json::to_writer(bytes, value)?))
    }

    /// The same of JSON that `write` writes.
    pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Result<Answer> {
        let mut bytes = Vec::new();
        write(&mut bytes).map_err(|e| {
            frostline_base::Error::internal("an answer cannot be written as JSON").with_source(e)
        })?;
        Ok(Answer::of(StatusCode::OK, Content::Json(bytes)))
    }

    /// Lines for people.
    pub(crate) fn text(text: String) -> Answer {
        Answer::of(StatusCode::OK, Content::Text { media: "text/plain; charset=UTF-8", text })
    }

    pub(crate) fn empty(status: StatusCode) -> Answer {
        Answer::of(status, Content::Nothing)
    }

    fn of(status: StatusCode, content: Content) -> Answer {
        Answer { status, content, warnings: Vec::new(), allow: None, try_again_s: None, searched: None }
    }

    pub(crate) fn allowing(self, methods: String) -> Answer {
        Answer { allow: Some(methods), ..self }
    }

    pub(crate) fn with_status(self, status: StatusCode) -> Answer {
        Answer { status, ..self }
    }

    /// The same, with what the searches for it cost.
    pub(crate) fn that_searched(self, searched: Searched) -> Answer {
        Answer { searched: Some(Box::new(searched)), ..self }
    }

    pub(crate) fn with_warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Answer {
        self.warnings.extend(warnings);
        self
    }
}

impl From<ApiError> for Answer {
    fn from(error: ApiError) -> Answer {
        let content = Content::Json(error.body().to_string().into_bytes());
        let ApiError { status, allow, try_again_s, .. } = error;
        Answer { allow, try_again_s, ..Answer::of(status, content) }
    }
}

/// Memory of answers is counted in pieces of so many bytes; shorter ones are not counted.
const PIECE: usize = 4_096;

/// The memory of answers that clients have not read yet.
#[derive(Clone, Debug)]
pub(crate) struct Unread {
    pieces: Arc<Semaphore>,
    pieces_max: usize,
}

impl Unread {
    pub(crate) fn new(settings: &Settings) -> Unread {
        Unread::of(settings.answers_bytes_max)
    }

    /// Memory of that many bytes.
    pub(crate) fn of(bytes_max: usize) -> Unread {
        let pieces_max = bytes_max / PIECE;
        Unread { pieces: Arc::new(Semaphore::new(pieces_max)), pieces_max }
    }

    /// The same bytes with their share of the memory, until the last of them is sent. One answer alone may be larger than
    /// all may be together.
    pub(crate) fn hold(&self, bytes: &Bytes) -> Result<Bytes> {
        struct Held {
            bytes: Bytes,
            _held: OwnedSemaphorePermit,
        }
        impl AsRef<[u8]> for Held {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }
        let wanted = (bytes.len() / PIECE).min(self.pieces_max);
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let held = Arc::clone(&self.pieces).try_acquire_many_owned(wanted);
        let held =
            held.map_err(|_| ApiError::busy("answers that were not read yet hold all memory: try again"))?;
        Ok(Bytes::from_owner(Held { bytes: bytes.clone(), _held: held }))
    }
}

/// How JSON is to look.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pretty: bool,
    filter: Option<FilterPath>,
}

impl Look {
    pub(crate) fn of(params: &Params) -> Result<Look> {
        let filter = params.list("filter_path").filter(|paths| !paths.is_empty());
        Ok(Look {
            pretty: params.flag("pretty")?.unwrap_or(false),
            filter: filter.map(|paths| FilterPath::new(&paths)).transpose()?,
        })
    }

    pub(crate) fn unfiltered(&self) -> Look {
        Look { pretty: self.pretty, filter: None }
    }

    /// The same JSON as it is to look.
    pub(crate) fn apply(&self, json: Vec<u8>) -> Vec<u8> {
        if !self.pretty && self.filter.is_none() {
            return json;
        }
        // What is deeper than any request stays as it is.
        let Ok(mut tree) = serde_json::from_slice::<Json>(&json) else { return json };
        if let Some(filter) = &self.filter {
            tree = filter.apply(tree);
        }
        let written = if self.pretty { serde_json::to_vec_pretty(&tree) } else { serde_json::to_vec(&tree) };
        let mut written = written.unwrap_or(json);
        if self.pretty {
            written.push(b'\n');
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pretty_json_keeps_every_number_as_it_was_written() {
        let look = Look::of(&Params::parse("pretty=true")).unwrap();
        let written = look.apply(br#"{"a":[1.10,{"b":null}]}"#.to_vec());
        let text = String::from_utf8(written).unwrap();
        assert_eq!(text, "{\n  \"a\": [\n    1.10,\n    {\n      \"b\": null\n    }\n  ]\n}\n");
        let plain = Look::of(&Params::parse("pretty=false")).unwrap();
        assert_eq!(plain.apply(b"{\"a\":1.10}".to_vec()), b"{\"a\":1.10}");
    }
}
