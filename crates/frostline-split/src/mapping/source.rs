//! Which part of its documents an index shows, as `_source` in its mapping says it.
//!
//! Documents are stored whole, and fields are searched by what these have: what is left out is not shown, and is still there.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Mapping;
use super::analyses::unchangeable;
use crate::{Error, Result};

/// The part that is shown. It is said when an index is made, and stays so.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ShownSource {
    is_hidden: bool,
    includes: Vec<String>,
    excludes: Vec<String>,
}

impl Mapping {
    /// Which part of its documents the index shows.
    pub fn source(&self) -> &ShownSource {
        &self.source
    }
}

impl ShownSource {
    /// Whether documents are shown as they are.
    pub fn is_whole(&self) -> bool {
        *self == ShownSource::default()
    }

    /// Whether nothing of them is shown.
    pub fn is_hidden(&self) -> bool {
        self.is_hidden
    }

    /// The paths that are shown, with `*`; all of them, if there are none.
    pub fn includes(&self) -> &[String] {
        &self.includes
    }

    /// The paths that are not.
    pub fn excludes(&self) -> &[String] {
        &self.excludes
    }

    pub(super) fn read(value: &Value) -> Result<ShownSource> {
        let wrong = |key: &str, value: &Value, what: &str| {
            Err(Error::invalid(format!("the mapping's [_source.{key}] is {value}, not {what}")))
        };
        let members =
            value.as_object().ok_or_else(|| Error::invalid("the mapping's [_source] is an object"))?;
        let mut shown = ShownSource::default();
        for (key, value) in members {
            let paths = || match value {
                Value::String(path) => Some(vec![path.clone()]),
                Value::Array(all) => all.iter().map(|path| path.as_str().map(str::to_owned)).collect(),
                _ => None,
            };
            match (key.as_str(), value) {
                ("enabled", Value::Bool(is_shown)) => shown.is_hidden |= !is_shown,
                ("enabled", Value::String(text)) if text == "true" => {}
                ("enabled", Value::String(text)) if text == "false" => shown.is_hidden = true,
                ("mode", Value::String(mode)) if mode == "disabled" => shown.is_hidden = true,
                ("mode", Value::String(mode)) if mode == "stored" || mode == "synthetic" => {}
                ("mode", other) => return wrong(key, other, "[stored], [synthetic] or [disabled]"),
                ("enabled", other) => return wrong(key, other, "true or false"),
                ("includes" | "excludes", other) => {
                    let Some(paths) = paths() else { return wrong(key, other, "a list of paths") };
                    *(if key == "includes" { &mut shown.includes } else { &mut shown.excludes }) = paths;
                }
                _ => {
                    return Err(Error::invalid(format!(
                        "the mapping's parameter [_source.{key}] is not supported: there are enabled, excludes, includes and mode"
                    )));
                }
            }
        }
        Ok(shown)
    }

    pub(super) fn to_json(&self) -> Value {
        let mut shown = json!({});
        if self.is_hidden {
            shown["enabled"] = json!(false);
        }
        for (name, paths) in [("includes", &self.includes), ("excludes", &self.excludes)] {
            if !paths.is_empty() {
                shown[name] = json!(paths);
            }
        }
        shown
    }

    /// `Invalid` where an author now says another part than this.
    pub(super) fn check_change(&self, wanted: &ShownSource) -> Result<()> {
        let names = [
            ("enabled", json!(!self.is_hidden), json!(!wanted.is_hidden)),
            ("includes", json!(self.includes), json!(wanted.includes)),
            ("excludes", json!(self.excludes), json!(wanted.excludes)),
        ];
        match names.into_iter().find(|(_, ours, theirs)| ours != theirs) {
            Some((name, ours, theirs)) => {
                Err(unchangeable("_source", name, &ours.to_string(), &theirs.to_string()))
            }
            None => Ok(()),
        }
    }
}
