//! `filter_path`: which parts of an answer are sent.

use frostline_base::wildcard_matches;
use frostline_query::Json;

use crate::error::{ApiError, Result};

/// The most names of all paths together.
const NAMES_MAX: usize = 1_000;

/// Paths of names with `*`, where `**` stands for any names; those that begin with `-` leave parts out.
#[derive(Debug)]
pub(crate) struct FilterPath {
    includes: Vec<Vec<String>>,
    excludes: Vec<Vec<String>>,
}

impl FilterPath {
    pub(crate) fn new(paths: &[&str]) -> Result<FilterPath> {
        if paths.iter().flat_map(|path| path.split('.')).nth(NAMES_MAX).is_some() {
            return Err(ApiError::invalid(format!("[filter_path] has more than {NAMES_MAX} names")));
        }
        let split = |path: &str| {
            let mut names: Vec<String> = path.split('.').map(str::to_owned).collect();
            // Any names and again any names are any names.
            names.dedup_by(|name, before| name == "**" && before == "**");
            names
        };
        let (excludes, includes): (Vec<&&str>, Vec<&&str>) =
            paths.iter().partition(|path| path.starts_with('-'));
        Ok(FilterPath {
            includes: includes.into_iter().map(|path| split(path)).collect(),
            excludes: excludes.into_iter().map(|path| split(&path[1..])).collect(),
        })
    }

    /// What is left; `{}` where nothing is.
    pub(crate) fn apply(&self, json: Json) -> Json {
        let included = match self.includes.as_slice() {
            [] => Some(json),
            paths => keep(json, &paths.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        };
        let left = match self.excludes.as_slice() {
            [] => included,
            paths => {
                let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
                included.and_then(|json| leave_out(json, &paths))
            }
        };
        left.unwrap_or_else(|| Json::Object(Vec::new()))
    }
}

/// What is left of each path below `name`, each once; an empty one means everything there.
fn below<'a>(paths: &[&'a [String]], name: &str) -> Vec<&'a [String]> {
    let mut left = Vec::new();
    for path in paths {
        let Some((first, rest)) = path.split_first() else { continue };
        if first == "**" {
            left.push(*path);
            // No names are any, too.
            left.extend(below(&[rest], name));
        } else if wildcard_matches(first, name) {
            left.push(rest);
        }
    }
    // The ends of one path have different lengths.
    left.sort_unstable_by_key(|path| (path.as_ptr(), path.len()));
    left.dedup_by_key(|path| (path.as_ptr(), path.len()));
    left
}

fn keep(json: Json, paths: &[&[String]]) -> Option<Json> {
    if paths.iter().any(|path| path.is_empty() || path.iter().all(|name| name == "**")) {
        return Some(json);
    }
    match json {
        Json::Object(members) => {
            let kept = members.into_iter().filter_map(|(name, value)| {
                let value = keep(value, &below(paths, &name))?;
                Some((name, value))
            });
            let kept: Vec<(String, Json)> = kept.collect();
            (!kept.is_empty()).then_some(Json::Object(kept))
        }
        Json::Array(items) => {
            let kept: Vec<Json> = items.into_iter().filter_map(|item| keep(item, paths)).collect();
            (!kept.is_empty()).then_some(Json::Array(kept))
        }
        Json::Scalar(_) => None,
    }
}

fn leave_out(json: Json, paths: &[&[String]]) -> Option<Json> {
    if paths.iter().any(|path| path.is_empty()) {
        return None;
    }
    Some(match json {
        Json::Object(members) => {
            let left = members.into_iter().filter_map(|(name, value)| {
                let value = leave_out(value, &below(paths, &name))?;
                Some((name, value))
            });
            Json::Object(left.collect())
        }
        Json::Array(items) => {
            Json::Array(items.into_iter().filter_map(|item| leave_out(item, paths)).collect())
        }
        scalar => scalar,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_kept_and_left_out_by_path() {
        let whole = r#"{"took":3,"hits":{"total":{"value":2},"hits":[{"_id":"a","_source":{"n":1.10}},{"_id":"b"}]}}"#;
        let check = |paths: &[&str], expected: &str| {
            let json = serde_json::from_str(whole).unwrap();
            let left = FilterPath::new(paths).unwrap().apply(json);
            assert_eq!(serde_json::to_string(&left).unwrap(), expected, "{paths:?}");
        };
        check(&["took"], r#"{"took":3}"#);
        check(&["hits.hits._id"], r#"{"hits":{"hits":[{"_id":"a"},{"_id":"b"}]}}"#);
        check(&["hits.hits._source"], r#"{"hits":{"hits":[{"_source":{"n":1.10}}]}}"#);
        check(&["**.value", "t*"], r#"{"took":3,"hits":{"total":{"value":2}}}"#);
        check(&["nothing"], "{}");
        check(&["hits.*", "-hits.hits"], r#"{"hits":{"total":{"value":2}}}"#);
        check(
            &["-**._source"],
            r#"{"took":3,"hits":{"total":{"value":2},"hits":[{"_id":"a"},{"_id":"b"}]}}"#,
        );
    }

    #[test]
    fn paths_that_fit_in_many_ways_are_followed_once() {
        let deep = (0..100).fold("1".to_owned(), |inner, _| format!("{{\"a\":{inner}}}"));
        let left = |path: &str| {
            let filter = FilterPath::new(&[path]).unwrap();
            serde_json::to_string(&filter.apply(serde_json::from_str(&deep).unwrap())).unwrap()
        };
        assert_eq!(left(&format!("{}x", "**.".repeat(900))), "{}");
        assert_eq!(left(&format!("{}x", "**.*.".repeat(400))), "{}");
        assert_eq!(left(&format!("{}a", "**.*.".repeat(30))), deep);
        let many = vec!["a.b"; NAMES_MAX / 2];
        assert!(FilterPath::new(&many).is_ok());
        assert!(FilterPath::new(&[&many[..], &["c"]].concat()).is_err());
    }
}
