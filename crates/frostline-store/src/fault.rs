//! What a failed request means: whether it may be asked again, and what the caller is told.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use frostline_base::{Error, ErrorKind};
use object_store::client::{HttpError, HttpErrorKind};

/// A failure that our own decorators make or notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The store asks for patience (HTTP 503 SlowDown): nothing was done.
    SlowDown,
    /// No answer came: the request may or may not have been done.
    Timeout,
    /// The connection broke: the request may or may not have been done.
    Broken,
    /// Fewer bytes came than were promised.
    Short,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::SlowDown => "the store answered 503 SlowDown",
            Fault::Timeout => "the store did not answer in time",
            Fault::Broken => "the connection broke",
            Fault::Short => "fewer bytes came than were promised",
        })
    }
}

impl StdError for Fault {}

impl From<Fault> for object_store::Error {
    fn from(fault: Fault) -> Self {
        object_store::Error::Generic { store: "frostline", source: Box::new(fault) }
    }
}

/// Whether a failed request may be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It was not done: ask again.
    NotDone,
    /// It may have been done: ask again only if twice is the same as once.
    Unknown,
    /// Asking again gives the same answer.
    Final,
}

/// Classifies a failure of any of the stores below.
pub(crate) fn trouble(error: &object_store::Error) -> Trouble {
    if without_credentials(error) {
        return Trouble::Final;
    }
    match error {
        object_store::Error::Generic { .. } | object_store::Error::JoinError { .. } => {
            chain(error).find_map(trouble_of_cause).unwrap_or(Trouble::Final)
        }
        // S3 answers 409 while another conditional write of the key is under way; nobody has won yet.
        object_store::Error::AlreadyExists { .. }
            if mentions(error, &["ConditionalRequestConflict", "OperationAborted"]) =>
        {
            Trouble::Unknown
        }
        _ => Trouble::Final,
    }
}

fn trouble_of_cause(cause: &(dyn StdError + 'static)) -> Option<Trouble> {
    if let Some(fault) = cause.downcast_ref::<Fault>() {
        return Some(if *fault == Fault::SlowDown { Trouble::NotDone } else { Trouble::Unknown });
    }
    if let Some(http) = cause.downcast_ref::<HttpError>() {
        return Some(if http.kind() == HttpErrorKind::Connect { Trouble::NotDone } else { Trouble::Unknown });
    }
    if let Some(io) = cause.downcast_ref::<io::Error>() {
        use io::ErrorKind::{
            ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, TimedOut, UnexpectedEof,
        };
        return match io.kind() {
            ConnectionRefused => Some(Trouble::NotDone),
            ConnectionAborted | ConnectionReset | Interrupted | TimedOut | UnexpectedEof => {
                Some(Trouble::Unknown)
            }
            _ => None,
        };
    }
    match status_of_cause(cause)? {
        429 | 503 => Some(Trouble::NotDone),
        408 | 500..=599 => Some(Trouble::Unknown),
        _ => None,
    }
}

/// Whether the last resort for credentials, the machine's own metadata service, did not answer at all: then there
/// are none, and waiting does not make any.
fn without_credentials(error: &object_store::Error) -> bool {
    status(error).is_none()
        && mentions(error, &["//169.254.169.254/", "//169.254.170.2/", "//metadata.google.internal/"])
}

/// The HTTP status of a failure, where there is one.
fn status(error: &object_store::Error) -> Option<u16> {
    chain(error).find_map(status_of_cause)
}

/// `object_store` keeps its request error private, so its sentence is what can be read.
fn status_of_cause(cause: &(dyn StdError + 'static)) -> Option<u16> {
    let text = cause.to_string();
    let (_, after) = text.split_once("Server returned non-2xx status code: ")?;
    after.get(..3)?.parse().ok()
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |e: &&'a (dyn StdError + 'static)| (*e).source())
}

fn mentions(error: &object_store::Error, words: &[&str]) -> bool {
    chain(error).any(|cause| {
        let text = cause.to_string();
        words.iter().any(|word| text.contains(word))
    })
}

/// Whether a request failed because the whole bucket is not there, which stores also answer as "not found".
pub fn is_bucket_missing(error: &object_store::Error) -> bool {
    mentions(error, &["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"])
}

/// Our error for a failed `verb` of `key` in the repository at `url`: its kind, and a sentence that says what to do.
pub fn explain(url: &str, verb: &str, key: &str, error: object_store::Error) -> Error {
    let (kind, why) = kind_and_advice(&error);
    let what = if why.is_empty() {
        format!("cannot {verb} {key:?} in {url}")
    } else {
        format!("cannot {verb} {key:?} in {url}: {why}")
    };
    Error::new(kind, what).with_source(error)
}

fn kind_and_advice(error: &object_store::Error) -> (ErrorKind, String) {
    use object_store::Error as E;
    if is_bucket_missing(error) {
        return (
            ErrorKind::NotFound,
            "the bucket does not exist: create it, or check the URL and the endpoint".into(),
        );
    }
    if without_credentials(error) {
        return (ErrorKind::Denied, "no credentials were found: set the variables of your cloud (docs/storage.md), or choose a profile".into());
    }
    if mentions(error, &["ObjectParentIsFile"]) {
        return (
            ErrorKind::Invalid,
            "a part of the key is an object already, and this server keeps objects as files".into(),
        );
    }
    let io = chain(error).find_map(|cause| cause.downcast_ref::<io::Error>());
    if let Some(said) = io.and_then(io_advice) {
        return said;
    }
    if trouble(error) != Trouble::Final {
        return (ErrorKind::Unavailable, format!("{}: try again later", root_cause(error)));
    }
    match error {
        E::NotFound { .. } => (ErrorKind::NotFound, "there is no such object".into()),
        E::AlreadyExists { .. } => (ErrorKind::Conflict, "it exists already".into()),
        E::Precondition { .. } | E::NotModified { .. } => {
            (ErrorKind::Conflict, "it was changed meanwhile".into())
        }
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => refused(error),
        E::InvalidPath { .. } => (ErrorKind::Invalid, "this is not a usable object key".into()),
        E::NotImplemented { .. } | E::NotSupported { .. } => {
            (ErrorKind::Invalid, "this store cannot do that".into())
        }
        E::UnknownConfigurationKey { .. } => (ErrorKind::Invalid, "a setting is not known".into()),
        E::JoinError { .. } => (ErrorKind::Internal, String::new()),
        _ => other_advice(error),
    }
}

/// A request that the store understood and did not allow.
fn refused(error: &object_store::Error) -> (ErrorKind, String) {
    let unknown = ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "RequestTimeTooSkewed"];
    let is_unknown =
        matches!(error, object_store::Error::Unauthenticated { .. }) || mentions(error, &unknown);
    let advice = if is_unknown {
        "the credentials were refused: check them, and the clock of this machine"
    } else {
        "access denied: check that these credentials may GetObject, PutObject, DeleteObject and ListBucket in this bucket"
    };
    (ErrorKind::Denied, advice.into())
}

fn other_advice(error: &object_store::Error) -> (ErrorKind, String) {
    let redirected = "answered with a redirect: set the bucket's region (AWS_REGION)";
    match status(error) {
        Some(301 | 307 | 308) => (ErrorKind::Invalid, redirected.into()),
        Some(401 | 403) => refused(error),
        Some(416) => (ErrorKind::Corrupt, "the range reaches past the end of the object".into()),
        Some(400..=499) => (ErrorKind::Invalid, root_cause(error)),
        _ if mentions(error, &["Received redirect without LOCATION"]) => {
            (ErrorKind::Invalid, redirected.into())
        }
        _ if mentions(
            error,
            &["Requested range was invalid", "Wanted range starting at", "Out of range", "Requested "],
        ) =>
        {
            (ErrorKind::Corrupt, "the range reaches past the end of the object".into())
        }
        _ => (ErrorKind::Unavailable, root_cause(error)),
    }
}

fn io_advice(error: &io::Error) -> Option<(ErrorKind, String)> {
    use io::ErrorKind as K;
    Some(match error.kind() {
        K::PermissionDenied => {
            (ErrorKind::Denied, "access denied: check the owner and mode of the directory".into())
        }
        K::ReadOnlyFilesystem => (ErrorKind::Denied, "the file system is mounted read-only".into()),
        K::StorageFull | K::QuotaExceeded => {
            (ErrorKind::Exhausted, "no space left: free some, or move the repository".into())
        }
        K::IsADirectory | K::NotADirectory => {
            (ErrorKind::Invalid, "a part of the key is a file and another needs it to be a directory".into())
        }
        K::InvalidFilename => (ErrorKind::Invalid, "a part of the key is too long for a file name".into()),
        _ => return None,
    })
}

fn root_cause(error: &object_store::Error) -> String {
    let text = chain(error).last().map(ToString::to_string).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(300).collect()
}

#[cfg(test)]
mod tests;
