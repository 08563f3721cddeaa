//! Errors in Elasticsearch's shape: `{"error": {"type", "reason", …}, "status"}`.

use frostline_base::{Error, ErrorKind, chain};
use frostline_catalog::{BLOCKED_INDEX, Block, CLOSED_INDEX};
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::api::blocks;

/// What a handler returns.
pub(crate) type Result<T> = std::result::Result<T, ApiError>;

/// An answer that is an error.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// Elasticsearch's name of it.
    pub(crate) kind: &'static str,
    pub(crate) reason: String,
    /// What it is about, such as `index`.
    pub(crate) about: Vec<(&'static str, Value)>,
    /// What we say of it in our own words.
    pub(crate) caused_by: Option<String>,
    /// Methods that are allowed instead.
    pub(crate) allow: Option<String>,
    /// After how many seconds the same request may do.
    pub(crate) try_again_s: Option<u16>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, kind: &'static str, reason: impl Into<String>) -> ApiError {
        let reason = reason.into();
        ApiError { status, kind, reason, about: Vec::new(), caused_by: None, allow: None, try_again_s: None }
    }

    /// What the client can correct.
    pub(crate) fn invalid(reason: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "illegal_argument_exception", reason)
    }

    /// A body that cannot be read.
    pub(crate) fn unparsed(reason: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "parsing_exception", reason)
    }

    /// What Elasticsearch does and Frostline does not.
    pub(crate) fn unsupported(reason: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_IMPLEMENTED, "unsupported_operation_exception", reason)
    }

    /// More than the server takes on now: trying again later may do.
    pub(crate) fn busy(reason: impl Into<String>) -> ApiError {
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "es_rejected_execution_exception", reason);
        ApiError { try_again_s: Some(1), ..error }
    }

    /// More than a client may ask for so many microseconds.
    pub(crate) fn busy_for(reason: String, wait_us: i64) -> ApiError {
        let wait_s = wait_us.max(0).unsigned_abs().div_ceil(1_000_000).max(1);
        let wait_s = u16::try_from(wait_s).unwrap_or(u16::MAX);
        ApiError { try_again_s: Some(wait_s), ..ApiError::busy(reason) }
    }

    pub(crate) fn no_such_index(name: &str) -> ApiError {
        let reason = format!("no such index [{name}]");
        ApiError::new(StatusCode::NOT_FOUND, "index_not_found_exception", reason)
            .about("resource.type", "index_or_alias")
            .about("resource.id", name)
            .about("index", name)
    }

    pub(crate) fn about(mut self, key: &'static str, value: impl Into<Value>) -> ApiError {
        self.about.push((key, value.into()));
        self
    }

    pub(crate) fn caused_by(self, error: &Error) -> ApiError {
        ApiError { caused_by: Some(chain(error)), ..self }
    }

    /// The same under another name of Elasticsearch's, where what was wrong is the request.
    pub(crate) fn named(self, kind: &'static str) -> ApiError {
        match self.status {
            StatusCode::BAD_REQUEST => ApiError { kind, ..self },
            _ => self,
        }
    }

    /// What is below `error` in the body; in answers to several requests, one of them.
    pub(crate) fn to_json(&self) -> Value {
        let mut own = Map::from_iter([
            ("type".to_owned(), json!(self.kind)),
            ("reason".to_owned(), json!(self.reason)),
        ]);
        own.extend(self.about.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        let mut error = Map::from_iter([("root_cause".to_owned(), json!([own]))]);
        error.extend(own);
        if let Some(reason) = &self.caused_by {
            error.insert("caused_by".to_owned(), json!({ "type": "exception", "reason": reason }));
        }
        Value::Object(error)
    }

    /// The body.
    pub(crate) fn body(&self) -> Value {
        json!({ "error": self.to_json(), "status": self.status.as_u16() })
    }
}

/// A fact of an error or of what caused it.
fn fact<'a>(error: &'a Error, key: &str) -> Option<&'a str> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(value) = error.fact(key) {
            return Some(value);
        }
        at = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    }
    None
}

/// The error of an index that is closed or blocked.
fn of_access(error: &Error) -> Option<ApiError> {
    if let Some(index) = fact(error, CLOSED_INDEX) {
        let closed = ApiError::new(StatusCode::BAD_REQUEST, "index_closed_exception", "closed");
        let table = fact(error, "table").unwrap_or("_na_");
        return Some(closed.about("index", index).about("index_uuid", table));
    }
    let (index, name) = (fact(error, BLOCKED_INDEX)?, fact(error, "block")?);
    let (number, what) = blocks::described(Block::ALL.into_iter().find(|block| block.name() == name)?);
    let reason = format!("index [{index}] blocked by: [FORBIDDEN/{number}/{what}];");
    Some(ApiError::new(StatusCode::FORBIDDEN, "cluster_block_exception", reason))
}

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        if let Some(refused) = of_access(&error) {
            return refused;
        }
        let (status, kind) = status_of(error.kind());
        if status.is_server_error() {
            tracing::warn!(?error, "a request failed");
        }
        let try_again_s = (error.kind() == ErrorKind::Unavailable).then_some(1);
        ApiError { try_again_s, ..ApiError::new(status, kind, chain(&error)) }
    }
}

/// The status of each kind of error, and Elasticsearch's name of it.
fn status_of(kind: ErrorKind) -> (StatusCode, &'static str) {
    match kind {
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, "resource_not_found_exception"),
        ErrorKind::Conflict => (StatusCode::CONFLICT, "version_conflict_engine_exception"),
        ErrorKind::Unavailable | ErrorKind::Stopped => {
            (StatusCode::SERVICE_UNAVAILABLE, "unavailable_exception")
        }
        ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "illegal_argument_exception"),
        ErrorKind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "corrupt_data_exception"),
        // The server's own credentials, not those of the client.
        ErrorKind::Denied | ErrorKind::Refused => (StatusCode::INTERNAL_SERVER_ERROR, "repository_exception"),
        ErrorKind::Exhausted => (StatusCode::TOO_MANY_REQUESTS, "circuit_breaking_exception"),
        ErrorKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "exception"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_elasticsearchs_shape_and_keeps_its_causes() {
        let error = Error::invalid("unknown key [siez]").context("the body cannot be read");
        let body = ApiError::from(error).body();
        assert_eq!(body["status"], 400);
        assert_eq!(body["error"]["type"], "illegal_argument_exception");
        assert_eq!(body["error"]["reason"], "the body cannot be read: unknown key [siez]");
        assert_eq!(body["error"]["root_cause"][0]["type"], "illegal_argument_exception");
        let body = ApiError::no_such_index("web").body();
        assert_eq!((&body["status"], &body["error"]["index"]), (&json!(404), &json!("web")));
        assert_eq!(body["error"]["reason"], "no such index [web]");
    }

    #[test]
    fn what_can_be_tried_again_is_told_from_what_cannot() {
        let of = |error: Error| ApiError::from(error).status.as_u16();
        assert_eq!(of(Error::unavailable("down")), 503);
        assert_eq!(of(Error::exhausted("memory")), 429);
        assert_eq!(of(Error::denied("keys")), 500);
        assert_eq!(ApiError::from(Error::unavailable("down")).try_again_s, Some(1));
        assert_eq!(ApiError::from(Error::invalid("x")).named("parsing_exception").kind, "parsing_exception");
        assert_eq!(ApiError::from(Error::internal("x")).named("parsing_exception").kind, "exception");
    }
}
