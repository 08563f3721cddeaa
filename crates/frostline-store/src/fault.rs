//! Classification of failed requests: whether they may be retried, and what to tell the caller.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use frostline_base::{Error, ErrorKind};
use object_store::client::{HttpError, HttpErrorKind};

/// A failure that our own decorators inject or detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The store is throttling (HTTP 503 SlowDown): nothing was done.
    SlowDown,
    /// No response: the request may or may not have been executed.
    Timeout,
    /// The connection broke: the request may or may not have been executed.
    Broken,
    /// Fewer bytes arrived than announced.
    Short,
    /// The store has not answered for so long that it was not asked.
    Outage,
    /// The store answered with this status and code.
    Answered(u16, &'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::SlowDown => f.write_str("the store answered 503 SlowDown"),
            Fault::Timeout => f.write_str("the store did not answer in time"),
            Fault::Broken => f.write_str("the connection broke"),
            Fault::Short => f.write_str("fewer bytes came than were promised"),
            Fault::Outage => f.write_str("the store has not answered for a while"),
            Fault::Answered(status, code) => {
                write!(f, "{STATUS_FOLLOWS}{status}: <Error><Code>{code}</Code></Error>")
            }
        }
    }
}

impl StdError for Fault {}

impl From<Fault> for object_store::Error {
    fn from(fault: Fault) -> Self {
        let (path, source) = (String::new(), Box::new(fault));
        // The same classes as `object_store` uses for server responses.
        match fault {
            Fault::Answered(404, _) => object_store::Error::NotFound { path, source },
            Fault::Answered(409, _) => object_store::Error::AlreadyExists { path, source },
            Fault::Answered(412, _) => object_store::Error::Precondition { path, source },
            Fault::Answered(403, _) => object_store::Error::PermissionDenied { path, source },
            Fault::Answered(401, _) => object_store::Error::Unauthenticated { path, source },
            _ => object_store::Error::Generic { store: "frostline", source },
        }
    }
}

/// Whether a failed request may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It was not executed: retry.
    NotDone,
    /// It may have been executed: retry only if it is idempotent.
    Unknown,
    /// A retry would give the same result.
    Final,
}

/// Classifies a failure of any store below.
pub(crate) fn trouble(error: &object_store::Error) -> Trouble {
    use object_store::Error as E;
    let facts = Facts::of(error);
    let trouble = facts.trouble();
    match error {
        E::Generic { .. } | E::JoinError { .. } => trouble,
        // S3 answers 409 while another write of the key is in progress, and some stores answer 403 to too many
        // requests.
        E::AlreadyExists { .. } | E::PermissionDenied { .. } | E::NotFound { .. }
            if facts.code_passes().is_some() =>
        {
            trouble
        }
        _ => Trouble::Final,
    }
}

/// Error codes that mean, whatever the status: not executed, retry.
const CODES_NOT_DONE: &[&str] = &[
    "SlowDown",
    "SlowDownRead",
    "SlowDownWrite",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
    "RequestThrottled",
    "RequestLimitExceeded",
    "TooManyRequests",
    "BandwidthLimitExceeded",
    "ServerBusy",
    "rateLimitExceeded",
    "userRateLimitExceeded",
    "IncompleteBody",
    "BadDigest",
    "XAmzContentSHA256Mismatch",
    "XAmzContentChecksumMismatch",
    "Md5Mismatch",
    "Crc64Mismatch",
    // An upload that the store no longer knows is started again.
    "NoSuchUpload",
    "InvalidPart",
];

/// Error codes of failures in transit or in the server: retry.
const CODES_UNKNOWN: &[&str] = &[
    "RequestTimeout",
    "InternalError",
    "InternalServerError",
    "OperationAborted",
    "OperationTimedOut",
    "ConditionalRequestConflict",
    "backendError",
];

/// Error codes of rejected credentials, whatever the request.
const CODES_CREDENTIALS: &[&str] = &[
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "RequestTimeTooSkewed",
    "AuthenticationFailed",
];

/// Codes of a request that went to the wrong region.
const CODES_REGION: &[&str] = &[
    "PermanentRedirect",
    "TemporaryRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
];

const STATUS_FOLLOWS: &str = "Server returned non-2xx status code: ";

/// The information in the error chain of a failure, read once. `object_store` keeps its request error private, so its
/// messages have to be parsed.
#[derive(Debug, Default)]
struct Facts {
    /// The HTTP status, the store's code and its message.
    status: Option<u16>,
    code: Option<String>,
    message: Option<String>,
    /// Scheme and host of the request.
    server: Option<String>,
    fault: Option<Fault>,
    http: Option<HttpErrorKind>,
    io: Option<io::ErrorKind>,
    /// The innermost cause, and every cause.
    root: String,
    all: String,
}

impl Facts {
    fn of(error: &object_store::Error) -> Facts {
        let mut facts = Facts::default();
        let chain = std::iter::successors(Some(error as &(dyn StdError + 'static)), |e| (*e).source());
        for cause in chain {
            facts.fault = facts.fault.or(cause.downcast_ref::<Fault>().copied());
            facts.http = facts.http.or(cause.downcast_ref::<HttpError>().map(HttpError::kind));
            facts.io = facts.io.or(cause.downcast_ref::<io::Error>().map(io::Error::kind));
            facts.root = cause.to_string();
            let text = facts.root.clone();
            facts.read(&text);
            facts.all.push_str(&text);
            facts.all.push('\n');
        }
        facts
    }

    fn read(&mut self, text: &str) {
        let status = text.split_once(STATUS_FOLLOWS).and_then(|(_, after)| after.get(..3)?.parse().ok());
        self.status = self.status.or(status);
        let code = between(text, "<Code>", "</Code>").or_else(|| between(text, " (code: ", ")"));
        self.code = self.code.take().or(code);
        self.message = self.message.take().or_else(|| between(text, "<Message>", "</Message>"));
        if let Some((_, after)) = text.split_once("Error performing ") {
            let url = after.split(' ').nth(1).and_then(|url| url::Url::parse(url).ok());
            let server = url.filter(|url| url.has_host()).map(|url| url.origin().ascii_serialization());
            self.server = self.server.take().or(server);
        }
    }

    fn code_is(&self, codes: &[&str]) -> bool {
        self.code.as_deref().is_some_and(|code| codes.contains(&code))
    }

    /// The meaning of a transient error code; none for any other code.
    fn code_passes(&self) -> Option<Trouble> {
        let not_done = self.code_is(CODES_NOT_DONE).then_some(Trouble::NotDone);
        not_done.or_else(|| self.code_is(CODES_UNKNOWN).then_some(Trouble::Unknown))
    }

    fn trouble(&self) -> Trouble {
        if self.is_without_credentials() || self.is_tls_mismatch() {
            return Trouble::Final;
        }
        if let Some(trouble) = self.code_passes() {
            return trouble;
        }
        match self.fault {
            Some(Fault::Answered(..)) | None => {}
            Some(Fault::SlowDown | Fault::Outage) => return Trouble::NotDone,
            Some(Fault::Timeout | Fault::Broken | Fault::Short) => return Trouble::Unknown,
        }
        match self.status {
            Some(429 | 503) => return Trouble::NotDone,
            // Not implemented, an unsupported version, no space: a retry would not help.
            Some(501 | 505 | 507) => return Trouble::Final,
            Some(408 | 500..=599) => return Trouble::Unknown,
            Some(_) => return Trouble::Final,
            None => {}
        }
        match self.http {
            Some(HttpErrorKind::Connect) => return Trouble::NotDone,
            Some(_) => return Trouble::Unknown,
            None => {}
        }
        use io::ErrorKind as K;
        match self.io {
            Some(K::ConnectionRefused) => Trouble::NotDone,
            Some(
                K::ConnectionAborted | K::ConnectionReset | K::Interrupted | K::TimedOut | K::UnexpectedEof,
            ) => Trouble::Unknown,
            _ => Trouble::Final,
        }
    }

    /// Whether the machine's metadata service, the last resort for credentials, has none. Then there are none,
    /// and retrying does not help.
    fn is_without_credentials(&self) -> bool {
        let metadata = ["http://169.254.169.254", "http://169.254.170.2", "http://metadata.google.internal"];
        let asked = self.server.as_deref().is_some_and(|server| metadata.contains(&server));
        asked && self.status.is_none_or(|status| (400..500).contains(&status) && status != 429)
    }

    /// Whether one side used TLS and the other did not.
    fn is_tls_mismatch(&self) -> bool {
        self.all.contains("received corrupt message")
    }

    fn is_bucket_missing(&self) -> bool {
        self.code_is(&["NoSuchBucket", "ContainerNotFound"])
            || self.message.as_deref() == Some("The specified bucket does not exist")
    }

    /// What the store or the network reported, in a few words.
    fn said(&self) -> String {
        if let Some(status) = self.status {
            let code = self.code.as_ref().map(|code| format!(" {code}")).unwrap_or_default();
            return format!("the store answered {status}{code}");
        }
        if let Some(code) = &self.code {
            return format!("the store answered {code}");
        }
        match (&self.server, self.http) {
            (Some(server), Some(HttpErrorKind::Connect)) => {
                format!("cannot connect to {server} ({})", one_line(&self.root))
            }
            (Some(server), Some(HttpErrorKind::Timeout)) => format!("{server} did not answer in time"),
            (Some(server), Some(_)) => {
                format!("the connection to {server} broke ({})", one_line(&self.root))
            }
            _ => one_line(&self.root),
        }
    }
}

/// What the store or the network reported about a failure, in a few words.
pub(crate) fn said(error: &object_store::Error) -> String {
    Facts::of(error).said()
}

/// The same error, unless it is `NotFound` because the bucket does not exist: whoever asks for an object must not take that
/// for the absence of the object.
pub(crate) fn without_bucket(error: object_store::Error) -> object_store::Error {
    let is_bucket = Facts::of(&error).is_bucket_missing();
    match error {
        object_store::Error::NotFound { source, .. } if is_bucket => {
            object_store::Error::Generic { store: "frostline", source }
        }
        error => error,
    }
}

/// Our error for a failed `verb` of `key` in the repository at `url`: its kind, and one sentence that says what
/// happened,
/// where, and what to do. An empty key is the repository itself. The sentence has all known details, so the error has
/// no source.
pub fn explain(url: &str, verb: &str, key: &str, error: object_store::Error) -> Error {
    tracing::debug!(?error, verb, key, "a request failed");
    let (kind, why) = kind_and_advice(&error);
    let place = if key.is_empty() { url.to_owned() } else { format!("{key:?} in {url}") };
    Error::new(kind, format!("cannot {verb} {place}: {why}"))
}

/// Our error for a local file that cannot be read or written.
pub(crate) fn file_failed(verb: &str, file: &std::path::Path, error: &io::Error) -> Error {
    let (kind, why) = io_advice(error.kind()).unwrap_or((ErrorKind::Unavailable, String::new()));
    let why = if why.is_empty() { error.to_string() } else { why };
    Error::new(kind, format!("cannot {verb} {}: {why}", file.display()))
}

fn kind_and_advice(error: &object_store::Error) -> (ErrorKind, String) {
    use object_store::Error as E;
    let facts = Facts::of(error);
    if let Some(told) = general_advice(&facts) {
        return told;
    }
    if trouble(error) != Trouble::Final {
        let unreachable = facts.http == Some(HttpErrorKind::Connect);
        let advice = if unreachable {
            "check the endpoint, and that its server is running"
        } else {
            "try again later"
        };
        return (ErrorKind::Unavailable, format!("{}: {advice}", facts.said()));
    }
    match error {
        E::NotFound { .. } => (ErrorKind::NotFound, "there is no such object".into()),
        E::AlreadyExists { .. } => (ErrorKind::Conflict, "it exists already".into()),
        E::Precondition { .. } | E::NotModified { .. } => {
            (ErrorKind::Conflict, "it was changed in the meantime".into())
        }
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => denied(&facts),
        E::InvalidPath { .. } => (ErrorKind::Invalid, "this is not a valid object key".into()),
        E::NotImplemented { .. } => (ErrorKind::Refused, "this store cannot do that".into()),
        E::NotSupported { .. } => (ErrorKind::Refused, facts.root),
        E::UnknownConfigurationKey { .. } => (ErrorKind::Invalid, "a setting is not known".into()),
        E::JoinError { .. } => (ErrorKind::Internal, facts.root),
        _ => other_advice(&facts),
    }
}

/// What applies whatever the request was.
fn general_advice(facts: &Facts) -> Option<(ErrorKind, String)> {
    if facts.is_bucket_missing() {
        let why = "the bucket does not exist: create it, or check the URL and the endpoint";
        return Some((ErrorKind::Unavailable, why.into()));
    }
    if facts.is_without_credentials() {
        let google = facts.server.as_deref() == Some("http://metadata.google.internal");
        let variables = if google {
            "GOOGLE_APPLICATION_CREDENTIALS"
        } else {
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE (Azure: AZURE_STORAGE_ACCOUNT_KEY)"
        };
        return Some((ErrorKind::Denied, format!("no credentials found: set {variables}")));
    }
    if facts.is_tls_mismatch() {
        let server = facts.server.as_deref().unwrap_or("the server");
        return Some((
            ErrorKind::Refused,
            format!("{server} does not speak TLS: use an endpoint with http://"),
        ));
    }
    if facts.code_is(&["XMinioObjectParentIsFile", "ObjectParentIsFile"])
        || facts.all.contains("ObjectParentIsFile")
    {
        let why = "a part of the key is already an object, and this server stores objects as files";
        return Some((ErrorKind::Refused, why.into()));
    }
    if facts.status == Some(507)
        || facts.code_is(&["XMinioStorageFull", "QuotaExceeded", "InsufficientCapacity"])
    {
        return Some((ErrorKind::Exhausted, format!("{}: no space left", facts.said())));
    }
    facts.io.filter(|_| facts.http.is_none()).and_then(io_advice)
}

/// A request that the store understood and rejected.
fn denied(facts: &Facts) -> (ErrorKind, String) {
    let advice = if facts.status == Some(401) || facts.code_is(CODES_CREDENTIALS) {
        "the credentials were refused: check them, and the clock of this machine"
    } else {
        "access denied: check that these credentials may GetObject, PutObject, DeleteObject and ListBucket in this bucket"
    };
    let code = facts.code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
    (ErrorKind::Denied, advice.replacen(':', &format!("{code}:"), 1))
}

fn other_advice(facts: &Facts) -> (ErrorKind, String) {
    let redirected = "the bucket is in another region: set AWS_REGION";
    let range = "the range reaches past the end of the object";
    match facts.status {
        _ if facts.code_is(CODES_CREDENTIALS) => denied(facts),
        _ if facts.code_is(CODES_REGION) => (ErrorKind::Refused, redirected.into()),
        Some(301 | 307 | 308) => (ErrorKind::Refused, redirected.into()),
        Some(401 | 403) => denied(facts),
        Some(416) => (ErrorKind::Corrupt, range.into()),
        Some(400) if facts.all.contains("HTTP request to an HTTPS server") => {
            (ErrorKind::Refused, "the server speaks TLS: use an endpoint with https://".into())
        }
        Some(_) => {
            let message = facts.message.as_ref().map(|m| format!(" ({})", one_line(m))).unwrap_or_default();
            (
                ErrorKind::Refused,
                format!("{}{message}: check the URL, the endpoint and the region", facts.said()),
            )
        }
        None if facts.all.contains("Received redirect without LOCATION") => {
            (ErrorKind::Refused, redirected.into())
        }
        None if ["Requested range was invalid", "Wanted range starting at", "Out of range", "Requested "]
            .iter()
            .any(|words| facts.all.contains(words)) =>
        {
            (ErrorKind::Corrupt, range.into())
        }
        None => (ErrorKind::Unavailable, facts.said()),
    }
}

fn io_advice(kind: io::ErrorKind) -> Option<(ErrorKind, String)> {
    use io::ErrorKind as K;
    let (kind, why) = match kind {
        K::PermissionDenied => {
            (ErrorKind::Denied, "access denied: check the owner and mode of the directory")
        }
        K::ReadOnlyFilesystem => (ErrorKind::Denied, "the file system is mounted read-only"),
        K::StorageFull | K::QuotaExceeded => {
            (ErrorKind::Exhausted, "no space left: free some, or move the repository")
        }
        K::IsADirectory | K::NotADirectory => {
            (ErrorKind::Refused, "a part of the key is a file, but must be a directory")
        }
        K::InvalidFilename => (ErrorKind::Refused, "a part of the key is too long for a file name"),
        _ => return None,
    };
    Some((kind, why.to_owned()))
}

fn between(text: &str, before: &str, after: &str) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found.to_owned())
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(300).collect()
}

#[cfg(test)]
mod tests;
