//! Documents that are shown, in the memory that they were read into.

use std::ops::Deref;
use std::sync::Arc;

use arrow::array::{Array, StringViewArray};
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

/// A document as JSON, byte for byte but for white space around it. Those that were read together share their memory.
#[derive(Clone, Debug)]
pub struct Source {
    texts: Arc<StringViewArray>,
    row: usize,
}

impl Source {
    /// The text in this row; none where there is none.
    pub(crate) fn at(texts: &Arc<StringViewArray>, row: usize) -> Option<Source> {
        texts.is_valid(row).then(|| Source { texts: Arc::clone(texts), row })
    }

    /// The JSON.
    pub fn get(&self) -> &str {
        self.texts.value(self.row).trim_matches([' ', '\t', '\n', '\r'])
    }
}

impl Deref for Source {
    type Target = str;

    fn deref(&self) -> &str {
        self.get()
    }
}

impl From<&str> for Source {
    fn from(json: &str) -> Source {
        Source { texts: Arc::new([Some(json)].into_iter().collect()), row: 0 }
    }
}

impl From<Box<RawValue>> for Source {
    fn from(json: Box<RawValue>) -> Source {
        Source::from(json.get())
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json: &RawValue = serde_json::from_str(self.get()).map_err(S::Error::custom)?;
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Source, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Source::from)
    }
}
