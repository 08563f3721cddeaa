//! The error of every Frostline library crate.

use std::fmt;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, said so that the caller knows what to do next.
///
/// `Display` prints `what` and the facts, never the source: whoever handles the error prints the
/// chain once.
pub struct Error {
    kind: ErrorKind,
    what: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The named thing does not exist. Check the name.
    NotFound,
    /// Somebody else was first. Read again, then decide.
    Conflict,
    /// It may work later. Retry, with patience.
    Unavailable,
    /// The request can never work as it is. Fix it.
    Invalid,
    /// Stored bytes are not what was written. Ask for repair; other data still answers.
    Corrupt,
    /// The caller may not do this with these credentials.
    Denied,
    /// A stated limit of memory, disk or time was reached. Ask for less or allow more.
    Exhausted,
    /// Our bug.
    Internal,
}

impl Error {
    /// An error of `kind`; `what` is a sentence without a full stop that names the thing.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Error { kind, what: what.into(), source: None }
    }

    /// See [`ErrorKind::NotFound`].
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, what)
    }

    /// See [`ErrorKind::Conflict`].
    pub fn conflict(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, what)
    }

    /// See [`ErrorKind::Unavailable`].
    pub fn unavailable(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, what)
    }

    /// See [`ErrorKind::Invalid`].
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, what)
    }

    /// See [`ErrorKind::Corrupt`].
    pub fn corrupt(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, what)
    }

    /// See [`ErrorKind::Denied`].
    pub fn denied(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, what)
    }

    /// See [`ErrorKind::Exhausted`].
    pub fn exhausted(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Exhausted, what)
    }

    /// See [`ErrorKind::Internal`].
    pub fn internal(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, what)
    }

    /// The same error with its cause attached.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error with one more fact, printed as `key=value` after the sentence.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        use fmt::Write as _;
        let separator = if self.what.ends_with(']') { "" } else { " []" };
        self.what.push_str(separator);
        self.what.pop();
        let space = if self.what.ends_with('[') { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = write!(self.what, "{space}{key}={value}]");
        self
    }

    /// Wraps this error: the new sentence comes first, this one becomes its source, the kind stays.
    #[must_use]
    pub fn context(self, what: impl Into<String>) -> Self {
        Error { kind: self.kind, what: what.into(), source: Some(Box::new(self)) }
    }

    /// What the caller does next.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The sentence alone.
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)?;
        match &self.source {
            Some(source) => write!(f, ": {source:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|s| s as _)
    }
}

#[cfg(test)]
mod tests;
