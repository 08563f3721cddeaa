//! `if`: a [`Script`] that says whether a processor runs, and changes nothing.

use frostline_base::Result;

use crate::document::{Document, Done};
use crate::painless::Script;
use crate::value::Map;

/// A condition on a document.
#[derive(Debug)]
pub struct Condition {
    script: Script,
}

impl Condition {
    /// Reads a condition. `Invalid` with the position of what is not understood.
    pub fn parse(source: &str) -> Result<Condition> {
        Ok(Condition { script: Script::read(source, Map::new(), true)? })
    }

    pub(crate) fn source(&self) -> &str {
        self.script.source()
    }

    pub(crate) fn patterns(&self) -> usize {
        self.script.patterns()
    }

    pub(crate) fn holds(&self, document: &Document) -> Done<bool> {
        self.script.holds(document)
    }
}

#[cfg(test)]
mod tests;
