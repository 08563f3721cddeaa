//! `_ilm`: lifecycle policies are kept for the clients that make them. What they ask for, others do: an index may be as
//! large as the bucket, upkeep merges, and a retention deletes.

use std::collections::BTreeMap;

use frostline_catalog::{RecordChange, Records, Wildcards};
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::{indices, settings};
use crate::error::{ApiError, Result};
use crate::params::duration;
use crate::state::{Call, only};

/// The kind of records that policies are.
const KIND: &str = "ilm_policy";
/// The longest policy, which every server holds.
const BYTES_MAX: usize = 256 << 10;
const PHASES: [&str; 5] = ["hot", "warm", "cold", "frozen", "delete"];

/// `PUT /_ilm/policy/{policy}`.
pub(crate) async fn put(call: Call) -> Result<Answer> {
    let name = call.part("policy").unwrap_or_default();
    if name.is_empty() || name.contains(['*', ',', ' ', '"']) || name.starts_with('_') || name.len() > 255 {
        return Err(ApiError::invalid(format!("invalid policy name [{name}]")));
    }
    if call.body.len() > BYTES_MAX {
        return Err(ApiError::invalid(format!("a policy has at most {BYTES_MAX} bytes")));
    }
    let body = call.object()?;
    only(&body, &["policy"])?;
    let policy = body.get("policy").and_then(Value::as_object);
    let policy = policy.ok_or_else(|| ApiError::unparsed("[policy] is an object"))?;
    check(policy)?;
    let modified_ms = call.state.node.clock().now_us() / 1_000;
    let plan = |records: &Records| {
        let version = records.other(KIND, name).and_then(|old| old["version"].as_u64()).unwrap_or_default();
        let value = json!({ "version": version + 1, "modified_ms": modified_ms, "policy": policy });
        Ok(vec![RecordChange::Other { kind: KIND, name: name.to_owned(), value: Some(value) }])
    };
    call.state.node.catalog().change_records("lifecycle policy", plan).await?;
    let warning = "the policy is kept and has no effect: `frostline index retain` deletes old documents, and nothing else \
                   has to be done";
    Ok(Answer::json(&json!({ "acknowledged": true }))?.with_warnings(Some(warning.to_owned())))
}

/// Refuses what no policy can say.
fn check(policy: &Map<String, Value>) -> Result<()> {
    if let Some(other) = policy.keys().find(|key| !["_meta", "deprecated", "phases"].contains(&key.as_str()))
    {
        return Err(ApiError::unparsed(format!("[policy] unknown field [{other}]")));
    }
    let phases = policy.get("phases").and_then(Value::as_object);
    for (name, phase) in phases.ok_or_else(|| ApiError::unparsed("[phases] is an object"))? {
        if !PHASES.contains(&name.as_str()) {
            return Err(ApiError::invalid(format!("Timeseries lifecycle does not support phase [{name}]")));
        }
        let phase = phase.as_object();
        let phase = phase.ok_or_else(|| ApiError::unparsed(format!("the phase [{name}] is an object")))?;
        for (member, value) in phase {
            match (member.as_str(), value) {
                ("min_age", Value::String(age)) => drop(duration(age, "min_age")?),
                ("actions", Value::Object(_)) => {}
                ("min_age" | "actions", _) => {
                    return Err(ApiError::unparsed(format!(
                        "the phase [{name}] cannot have [{member}] with the value {value}"
                    )));
                }
                _ => return Err(ApiError::unparsed(format!("[{name}] unknown field [{member}]"))),
            }
        }
    }
    Ok(())
}

/// The policies of these names or patterns; an error of status 404 where there is none of a name.
fn matching<'a>(records: &'a Records, wanted: &str) -> Result<Vec<(&'a str, &'a Value)>> {
    let parts: Vec<&str> = wanted.split(',').collect();
    match parts.iter().find(|name| !name.contains('*') && records.other(KIND, name).is_none()) {
        Some(name) => {
            let reason = format!("Lifecycle policy not found: {name}");
            Err(ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", reason))
        }
        None => {
            let is_wanted =
                |name: &str| parts.iter().any(|part| frostline_base::wildcard_matches(part, name));
            Ok(records.others(KIND).filter(|(name, _)| is_wanted(name)).collect())
        }
    }
}

/// `GET /_ilm/policy/{policy}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let records = call.state.node.records().await?;
    let found = matching(&records, call.part("policy").unwrap_or("*"))?;
    let each = found.into_iter().map(|(name, kept)| {
        let templates = records.others("index_template").filter(|(_, template)| {
            settings::lifecycle(template.pointer("/template/settings")) == Some(name)
        });
        let templates: Vec<&str> = templates.map(|(template, _)| template).collect();
        let shown = json!({
            "version": kept["version"],
            "modified_date": kept["modified_ms"],
            "policy": kept["policy"],
            "in_use_by": { "indices": [], "data_streams": [], "composable_templates": templates },
        });
        (name.to_owned(), shown)
    });
    Answer::json(&each.collect::<BTreeMap<_, _>>())
}

/// `DELETE /_ilm/policy/{policy}`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let name = call.part("policy").unwrap_or_default();
    if name.contains('*') {
        return Err(ApiError::invalid("a policy is deleted by its name, without wildcards"));
    }
    let catalog = call.state.node.catalog();
    matching(&catalog.records().await?, name)?;
    let plan = |records: &Records| {
        let found = matching(records, name).unwrap_or_default();
        let gone = |(name, _): (&str, &Value)| RecordChange::Other {
            kind: KIND,
            name: name.to_owned(),
            value: None,
        };
        Ok(found.into_iter().map(gone).collect())
    };
    catalog.change_records("delete lifecycle policy", plan).await?;
    Answer::json(&json!({ "acknowledged": true }))
}

/// `GET /_ilm/status`: no policy is carried out.
pub(crate) async fn status(_: Call) -> Result<Answer> {
    Answer::json(&json!({ "operation_mode": "STOPPED" }))
}

/// `GET /{index}/_ilm/explain`: no index is managed by a policy.
pub(crate) async fn explain(call: Call) -> Result<Answer> {
    let only_managed = call.params.flag("only_managed")?.unwrap_or(false);
    let only_errors = call.params.flag("only_errors")?.unwrap_or(false);
    let how = indices::how_of_any(&call.params, Wildcards::OPEN)?;
    let names = indices::names(&call.state, &call.client.scope, call.index(), how).await?;
    let shown = names.iter().filter(|_| !only_managed && !only_errors);
    let each = shown.map(|name| (name.to_string(), json!({ "index": name, "managed": false })));
    Answer::json(&json!({ "indices": each.collect::<Map<_, _>>() }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::Tested;

    #[tokio::test]
    async fn a_policy_is_kept_and_said_to_have_no_effect() {
        let tested = Tested::new();
        let policy = json!({
            "phases": {
                "hot": { "actions": { "rollover": { "max_age": "1d" } } },
                "delete": { "min_age": "30d", "actions": { "delete": {} } },
            },
            "_meta": { "by": "us" },
        });
        let body = json!({ "policy": policy }).to_string();
        for version in [1, 2] {
            let put = tested.send("PUT", "/_ilm/policy/logs", &body).await;
            assert_eq!(put.status, 200, "{put:?}");
            assert!(put.header("warning").contains("frostline index retain"), "{put:?}");
            let kept = tested.ok("GET", "/_ilm/policy/logs", "").await;
            assert_eq!((&kept["logs"]["version"], &kept["logs"]["policy"]), (&json!(version), &policy));
        }
        let template = json!({
            "index_patterns": ["logs-*"], "template": { "settings": { "index": { "lifecycle": { "name": "logs" } } } },
        });
        tested.ok("PUT", "/_index_template/logs", &template.to_string()).await;
        let kept = tested.ok("GET", "/_ilm/policy", "").await;
        assert_eq!(kept["logs"]["in_use_by"]["composable_templates"], json!(["logs"]));
        assert_eq!(tested.ok("GET", "/_ilm/status", "").await["operation_mode"], "STOPPED");
        tested.ingest("web", 1).await;
        let explained = tested.ok("GET", "/web/_ilm/explain", "").await;
        assert_eq!(explained, json!({ "indices": { "web": { "index": "web", "managed": false } } }));
        let managed = tested.ok("GET", "/_all/_ilm/explain?only_managed=true", "").await;
        assert_eq!(managed, json!({ "indices": {} }));
        tested.ok("DELETE", "/_ilm/policy/logs", "").await;
        for (method, path) in [("GET", "/_ilm/policy/logs"), ("DELETE", "/_ilm/policy/logs")] {
            let (status, kind, reason) = tested.error(method, path, "").await;
            assert_eq!((status, kind.as_str()), (404, "resource_not_found_exception"));
            assert_eq!(reason, "Lifecycle policy not found: logs");
        }
        assert_eq!(tested.ok("GET", "/_ilm/policy", "").await, json!({}));
        for wrong in [
            r#"{}"#,
            r#"{"policy":{}}"#,
            r#"{"policy":{"phases":{"tepid":{}}}}"#,
            r#"{"policy":{"phases":{"hot":{"min_age":"soon"}}}}"#,
            r#"{"policy":{"phases":{"hot":{"actions":[]}}}}"#,
            r#"{"policy":{"phases":{},"steps":1}}"#,
        ] {
            assert_eq!(tested.error("PUT", "/_ilm/policy/logs", wrong).await.0, 400, "{wrong}");
        }
    }
}
