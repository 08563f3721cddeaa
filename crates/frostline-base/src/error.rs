//! The error of every Frostline library crate.

use std::fmt;
use std::sync::Arc;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and what the caller should do next.
///
/// `Display` prints the sentence and the facts, never the source: the code that handles the error prints the
/// chain once.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    what: String,
    facts: Vec<(&'static str, String)>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The named thing does not exist. Check the name.
    NotFound,
    /// Another writer was first. Read again, then decide.
    Conflict,
    /// It may work later. Retry with backoff.
    Unavailable,
    /// The request can never work as it is. Fix it.
    Invalid,
    /// Stored bytes are not what was written. Ask for repair; other data still answers.
    Corrupt,
    /// The caller may not do this with these credentials.
    Denied,
    /// A store or file system permanently rejected a request of ours. The repository or its settings must change; no
    /// document, query or option of the caller is at fault.
    Refused,
    /// A stated limit of memory, disk or time was reached. Ask for less, or raise the limit.
    Exhausted,
    /// Ctrl-C or another signal asked for the end before the work was done. Run it again.
    Stopped,
    /// Our bug.
    Internal,
}

impl Error {
    /// An error of `kind`; `what` is a sentence without a full stop that names the thing.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Error { kind, what: what.into(), facts: Vec::new(), source: None }
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

    /// See [`ErrorKind::Refused`].
    pub fn refused(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, what)
    }

    /// See [`ErrorKind::Exhausted`].
    pub fn exhausted(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Exhausted, what)
    }

    /// See [`ErrorKind::Stopped`].
    pub fn stopped(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Stopped, what)
    }

    /// See [`ErrorKind::Internal`].
    pub fn internal(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, what)
    }

    /// The same error with its cause attached.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into().into());
        self
    }

    /// The same error with another fact, such as `object`, `range` or `version`. It is printed as `key=value` after the
    /// sentence.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.facts.push((key, value.to_string()));
        self
    }

    /// Wraps this error: the new sentence comes first, this error becomes its source, and the kind stays.
    #[must_use]
    pub fn context(self, what: impl Into<String>) -> Self {
        Error { kind: self.kind, what: what.into(), facts: Vec::new(), source: Some(Arc::new(self)) }
    }

    /// What the caller does next.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The sentence alone, without the facts.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The fact with this key; the last one if there are several. Facts of the source are not included.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts.iter().rev().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }
}

/// Facts that say where something is, in the order of a sentence.
const PLACES: [&str; 8] = ["range", "at", "byte", "line", "object", "file", "path", "split"];

impl Error {
    /// The sentence with its facts in words, for people. What the sentence names is not named again.
    fn told(&self) -> String {
        let is_new = |value: &str| !value.contains(char::is_alphabetic) || !has_word(&self.what, value);
        let is_place = |key: &str| PLACES.contains(&key);
        let of =
            |place: &&str| self.fact(place).filter(|value| is_new(value)).map(|value| in_words(place, value));
        let place: Vec<String> = PLACES.iter().filter_map(of).collect();
        let others = self.facts.iter().filter(|(key, value)| !is_place(key) && is_new(value));
        let others = others.map(|(key, value)| in_words(key, value));
        let place = (!place.is_empty()).then(|| place.join(" of "));
        let all: Vec<String> = place.into_iter().chain(others).collect();
        if all.is_empty() { self.what.clone() } else { format!("{} ({})", self.what, all.join(", ")) }
    }
}

/// Whether a text has this, and not as a part of a word.
fn has_word(text: &str, word: &str) -> bool {
    let is_end = |rest: Option<char>| !rest.is_some_and(char::is_alphanumeric);
    let is_word = |(at, _): (usize, &str)| {
        is_end(text[..at].chars().next_back()) && is_end(text[at + word.len()..].chars().next())
    };
    text.match_indices(word).any(is_word)
}

fn in_words(key: &str, value: &str) -> String {
    match (key, value.split_once("..")) {
        ("range", Some((start, end))) => format!("bytes {start} to {end}"),
        ("at" | "byte", _) => format!("byte {value}"),
        ("bytes", _) => format!("{value} bytes"),
        ("object_bytes", _) => format!("the object has {value} bytes"),
        ("path", _) => value.to_owned(),
        ("object" | "file" | "split" | "index", _) => format!("the {key} {value}"),
        _ => format!("{} {value}", key.replace('_', " ")),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for (at, (key, value)) in self.facts.iter().enumerate() {
            write!(f, "{}{key}={value}", if at == 0 { " [" } else { " " })?;
        }
        f.write_str(if self.facts.is_empty() { "" } else { "]" })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)?;
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

/// An error and its causes, in one line.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The same for people, with the facts of [`Error`] in words.
pub fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let told = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<Error>() {
        Some(error) => error.told(),
        None => cause.to_string(),
    };
    causes.map(told).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
