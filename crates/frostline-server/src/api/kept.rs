//! What clients keep in the repository by a name of their own, such as pipelines.

use std::collections::BTreeMap;

use frostline_base::wildcard_matches;
use frostline_catalog::{RecordChange, Records};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::error::{ApiError, Result};
use crate::state::Call;

/// The longest body, which every server holds.
const BYTES_MAX: usize = 1 << 20;

/// A kind of what is kept.
pub(crate) struct Kind {
    /// Of the records.
    pub(crate) record: &'static str,
    /// What one is called.
    pub(crate) name: &'static str,
}

impl Kind {
    /// The name in the path of a request that keeps one.
    pub(crate) fn named<'a>(&self, call: &'a Call) -> Result<&'a str> {
        let (id, what) = (call.part("id").unwrap_or_default(), self.name);
        if id.is_empty() || id.contains(['*', ',', ' ']) || id.starts_with('_') || id.len() > 200 {
            return Err(ApiError::invalid(format!("[{id}] is not the name of a {what}")));
        }
        if call.body.len() > BYTES_MAX {
            return Err(ApiError::invalid(format!("a {what} has at most {BYTES_MAX} bytes")));
        }
        Ok(id)
    }

    /// Keeps one.
    pub(crate) async fn put(&self, call: &Call, id: &str, body: &Value) -> Result<Answer> {
        let plan = |records: &Records| {
            let name = id.to_owned();
            let put = RecordChange::Other { kind: self.record, name, value: Some(body.clone()) };
            Ok(if records.other(self.record, id) == Some(body) { Vec::new() } else { vec![put] })
        };
        call.state.node.catalog().change_records(self.name, plan).await?;
        Answer::json(&json!({ "acknowledged": true }))
    }

    /// Those of these names or patterns.
    pub(crate) fn matching<'a>(&self, records: &'a Records, wanted: &str) -> Vec<(&'a str, &'a Value)> {
        let is_wanted = |name: &str| wanted.split(',').any(|pattern| wildcard_matches(pattern, name));
        records.others(self.record).filter(|(name, _)| is_wanted(name)).collect()
    }

    /// Shows those that the path names, each as `show` does.
    pub(crate) async fn get<T: Serialize>(
        &self,
        call: &Call,
        show: impl Fn(&Value) -> Result<T> + Send,
    ) -> Result<Answer> {
        let records = call.state.node.records().await?;
        let wanted = call.part("id").unwrap_or("*");
        let found = self.matching(&records, wanted);
        let is_missing = found.is_empty() && !wanted.contains('*');
        let shown = found.into_iter().map(|(id, body)| Ok((id, show(body)?)));
        let answer = Answer::json(&shown.collect::<Result<BTreeMap<_, _>>>()?)?;
        Ok(if is_missing { answer.with_status(StatusCode::NOT_FOUND) } else { answer })
    }

    /// Deletes those that the path names, unless something uses one.
    pub(crate) async fn delete(
        &self,
        call: &Call,
        user_of: impl Fn(&Records, &str) -> Option<String> + Send + Sync,
    ) -> Result<Answer> {
        let wanted = call.part("id").unwrap_or_default();
        let catalog = call.state.node.catalog();
        if self.matching(&catalog.records().await?, wanted).is_empty() && wanted != "*" {
            let reason = format!("{} [{wanted}] is missing", self.name);
            return Err(ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", reason));
        }
        let plan = |records: &Records| {
            let found = self.matching(records, wanted);
            if let Some(reason) = found.iter().find_map(|(id, _)| user_of(records, id)) {
                return Err(frostline_base::Error::invalid(reason));
            }
            let gone = |(id, _): (&str, &Value)| {
                let name = id.to_owned();
                RecordChange::Other { kind: self.record, name, value: None }
            };
            Ok(found.into_iter().map(gone).collect())
        };
        catalog.change_records(&format!("delete {}", self.name), plan).await?;
        Answer::json(&json!({ "acknowledged": true }))
    }
}
