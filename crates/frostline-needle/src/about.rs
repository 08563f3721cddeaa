//! What a catalog says about a segment: enough to read its directory at once, and to know which files are dead.

use frostline_base::{ByteRange, SplitId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::directory::{FORMAT_VERSION, MAGIC, Scope, TAIL_BYTES};

/// The kind of file that a segment is for the catalog, and the ending of its name.
pub const KIND: &str = "needle";

/// As many splits are named. Larger segments are few, and their directories name them.
const NAMED_MAX: usize = 64;

/// What the catalog says about a segment beside its object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// [`FORMAT_VERSION`] of its writer.
    pub format: u32,
    /// [`Scope::analyser`].
    pub analyser: u32,
    /// The length of the directory.
    pub directory_bytes: u64,
    /// How many splits it covers.
    pub splits: usize,
    /// These splits, where they are 64 or fewer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<SplitId>,
}

impl About {
    pub(crate) fn new(scope: &Scope, splits: &[SplitId], directory: &ByteRange) -> About {
        About {
            format: FORMAT_VERSION,
            analyser: scope.analyser,
            directory_bytes: directory.end - directory.start,
            splits: splits.len(),
            named: if splits.len() <= NAMED_MAX { splits.to_vec() } else { Vec::new() },
        }
    }

    /// What a catalog says. None where it is no segment that this version can read, made by the rule of terms `analyser`:
    /// such a file covers no split.
    pub fn read(about: &Value, analyser: u32) -> Option<About> {
        let about = About::deserialize(about).ok()?;
        (about.format == FORMAT_VERSION && about.analyser == analyser).then_some(about)
    }

    /// The same as a catalog keeps it.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Where the directory is in a file of so many bytes. None where the file cannot have it.
    pub fn directory(&self, bytes: u64) -> Option<ByteRange> {
        let end = bytes.checked_sub(TAIL_BYTES)?;
        let start = end.checked_sub(self.directory_bytes).filter(|start| *start >= MAGIC.len() as u64);
        start.map(|start| start..end)
    }

    /// Whether every split that it covers is gone, as far as it names them.
    pub fn is_dead(&self, is_live: impl Fn(SplitId) -> bool) -> bool {
        !self.named.is_empty() && !self.named.iter().any(|split| is_live(*split))
    }
}

#[cfg(test)]
mod tests;
