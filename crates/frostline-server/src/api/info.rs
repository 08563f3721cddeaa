//! What the server is, and whether it runs.

use std::sync::atomic::Ordering;

use frostline_catalog::Records;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::error::{ApiError, Result};
use crate::host::{Disk, Host};
use crate::state::{Call, State};

/// The version of Elasticsearch whose API this is: clients of another one warn, or refuse to talk.
pub(crate) const VERSION: &str = "8.19.0";
/// The name of the one node, and of its cluster.
pub(crate) const NAME: &str = "frostline";
/// How the program is packed, as far as it knows.
pub(crate) const BUILD_TYPE: &str = "frostline";
/// How often `/ready` asks the repository.
const ASK_EVERY_US: i64 = 1_000_000;

/// Tells one repository from another.
pub(crate) fn uuid(state: &State) -> String {
    state.node.settings().repo_key()
}

/// `GET /`.
pub(crate) async fn info(call: Call) -> Result<Answer> {
    Answer::json(&json!({
        "name": NAME,
        "cluster_name": NAME,
        "cluster_uuid": uuid(&call.state),
        "version": version(),
        "tagline": "You Know, for Search",
    }))
}

/// What is said of the version.
pub(crate) fn version() -> Value {
    json!({
        "number": VERSION,
        "build_flavor": "default",
        "build_type": BUILD_TYPE,
        "build_hash": "unknown",
        "build_date": "1970-01-01T00:00:00.000Z",
        "build_snapshot": false,
        "lucene_version": "9.12.2",
        "minimum_wire_compatibility_version": "7.17.0",
        "minimum_index_compatibility_version": "7.0.0",
    })
}

/// `GET /_license`: shippers of the default distribution send nothing to who has none that is active.
pub(crate) async fn license(call: Call) -> Result<Answer> {
    Answer::json(&json!({ "license": {
        "status": "active",
        "uid": uuid(&call.state),
        "type": "basic",
        "issued_to": NAME,
        "issuer": NAME,
    } }))
}

/// `GET /_license/basic_status`, `GET /_license/trial_status`: there is nothing to start.
pub(crate) async fn license_status(_: Call, kind: &str) -> Result<Answer> {
    let status = Map::from_iter([(format!("eligible_to_start_{kind}"), json!(false))]);
    Answer::json(&status)
}

/// The features that Elasticsearch lists, with whether there is such a thing here.
const FEATURES: [(&str, bool); 18] = [
    ("aggregate_metric", false),
    ("ccr", false),
    ("data_streams", true),
    ("data_tiers", false),
    ("enrich", false),
    ("eql", false),
    ("esql", false),
    ("graph", false),
    ("ilm", false),
    ("ml", false),
    ("monitoring", false),
    ("rollup", false),
    ("searchable_snapshots", true),
    ("security", true),
    ("slm", false),
    ("sql", true),
    ("transform", false),
    ("watcher", false),
];

/// Each feature, with what more `about` says of it.
async fn features(call: &Call, about: impl Fn(&str, &Records) -> Value) -> Result<Map<String, Value>> {
    let records = call.state.node.records().await?;
    let each = FEATURES.iter().map(|(name, is_there)| {
        let enabled = *is_there && (*name != "security" || call.state.auth.is_required);
        let mut shown = json!({ "available": is_there, "enabled": enabled });
        for (member, value) in about(name, &records).as_object().into_iter().flatten() {
            shown[member] = value.clone();
        }
        ((*name).to_owned(), shown)
    });
    Ok(each.collect())
}

/// `GET /_xpack`: which features there are.
pub(crate) async fn xpack(call: Call) -> Result<Answer> {
    let categories = call.params.list("categories").unwrap_or_else(|| vec!["build", "features", "license"]);
    let mut shown = Map::new();
    for category in categories {
        let value = match category {
            "build" => json!({ "hash": "unknown", "date": "1970-01-01T00:00:00.000Z" }),
            "features" => Value::Object(features(&call, |_, _| Value::Null).await?),
            "license" => {
                json!({ "uid": uuid(&call.state), "type": "basic", "mode": "basic", "status": "active" })
            }
            other => {
                return Err(ApiError::invalid(format!(
                    "[categories] are build, features and license, not [{other}]"
                )));
            }
        };
        shown.insert(category.to_owned(), value);
    }
    if call.params.flag("human")?.unwrap_or(true) {
        shown.insert("tagline".to_owned(), json!("You know, for X"));
    }
    Answer::json(&shown)
}

/// `GET /_xpack/usage`: the same, with how much there is of it.
pub(crate) async fn xpack_usage(call: Call) -> Result<Answer> {
    let about = |name: &str, records: &Records| match name {
        "data_streams" => {
            let indices: usize = records.data_streams().values().map(|stream| stream.indices.len()).sum();
            json!({ "data_streams": records.data_streams().len(), "indices_count": indices })
        }
        _ => Value::Null,
    };
    Answer::json(&features(&call, about).await?)
}

/// `GET /_health_report/{feature}`: what Elasticsearch looks at, as far as it is there.
pub(crate) async fn health_report(call: Call) -> Result<Answer> {
    const FEATURES: [&str; 4] = ["disk", "master_is_stable", "repository_integrity", "shards_availability"];
    let wanted = call.part("feature");
    if let Some(other) = wanted.filter(|wanted| !FEATURES.contains(wanted)) {
        let reason = format!("there is no health indicator [{other}]: there are {}", FEATURES.join(", "));
        return Err(ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", reason));
    }
    let mut indicators = Map::new();
    let mut worst = Health::Green;
    for feature in FEATURES.into_iter().filter(|feature| wanted.is_none_or(|wanted| wanted == *feature)) {
        let (health, symptom) = match feature {
            "disk" => disk_health(Host::read(&call.state).await.disk.as_ref()),
            "master_is_stable" => {
                (Health::Green, "There is one node, which every request reaches.".to_owned())
            }
            "repository_integrity" => match call.state.readiness.error(&call.state).await {
                None => (Health::Green, "The repository can be read.".to_owned()),
                Some(_) => (Health::Red, "The repository cannot be read: the log says why.".to_owned()),
            },
            _ => (Health::Green, "Each index is one shard, which is there.".to_owned()),
        };
        worst = worst.max(health);
        indicators.insert(feature.to_owned(), json!({ "status": health.name(), "symptom": symptom }));
    }
    Answer::json(&json!({ "status": worst.name(), "cluster_name": NAME, "indicators": indicators }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Green,
    Unknown,
    Yellow,
    Red,
}

impl Health {
    fn name(self) -> &'static str {
        match self {
            Health::Green => "green",
            Health::Unknown => "unknown",
            Health::Yellow => "yellow",
            Health::Red => "red",
        }
    }
}

/// The data directory is a cache: without room in it, searches only read more of the repository.
fn disk_health(disk: Option<&Disk>) -> (Health, String) {
    const FULL: u128 = 95;
    let Some(disk) = disk else {
        return (Health::Unknown, "How full the disk of the data directory is cannot be read.".to_owned());
    };
    match u128::from(disk.total - disk.free.min(disk.total)) * 100 >= u128::from(disk.total.max(1)) * FULL {
        true => (Health::Yellow, format!("The disk of the data directory is {FULL} % full, or fuller.")),
        false => (Health::Green, "The disk of the data directory has room.".to_owned()),
    }
}

/// `GET /health`: whether the process answers.
pub(crate) async fn health(_: Call) -> Result<Answer> {
    Answer::json(&json!({ "status": "ok" }))
}

/// Whether the repository can be read, which is asked at most once in a while however many ask.
#[derive(Default)]
pub(crate) struct Readiness(tokio::sync::Mutex<Option<Asked>>);

struct Asked {
    at_us: i64,
    /// Why not.
    error: Option<String>,
}

impl Readiness {
    /// Why the repository cannot be read; none where it can be.
    async fn error(&self, state: &State) -> Option<String> {
        let mut asked = self.0.lock().await;
        let now_us = state.node.clock().now_us();
        if let Some(known) = &*asked
            && (0..ASK_EVERY_US).contains(&now_us.saturating_sub(known.at_us))
        {
            return known.error.clone();
        }
        let error = state.node.catalog().list().await.err();
        let was_well = asked.as_ref().is_none_or(|known| known.error.is_none());
        match &error {
            Some(error) if was_well => tracing::warn!(?error, "not ready: the repository cannot be read"),
            None if !was_well => tracing::info!("ready again"),
            _ => {}
        }
        let error = error.map(|error| error.to_string());
        *asked = Some(Asked { at_us: now_us, error: error.clone() });
        error
    }
}

#[cfg(test)]
impl Readiness {
    /// Lets the repository be unreadable for this moment.
    pub(crate) async fn fail(&self, at_us: i64, error: &str) {
        *self.0.lock().await = Some(Asked { at_us, error: Some(error.to_owned()) });
    }
}

/// `GET /ready`: whether requests are welcome, which they are while the repository can be read and the server is not
/// told to stop.
pub(crate) async fn ready(call: Call) -> Result<Answer> {
    let unready = |why: String| {
        let answer = Answer::json(&json!({ "status": "unready", "reason": why }))?;
        Ok(answer.with_status(StatusCode::SERVICE_UNAVAILABLE))
    };
    if call.state.draining.load(Ordering::Relaxed) {
        return unready("the server stops".to_owned());
    }
    match call.state.readiness.error(&call.state).await {
        None => Answer::json(&json!({ "status": "ready" })),
        // It names the repository, which is no business of whoever asks: the log has it.
        Some(_) if call.state.auth.is_required => unready("the repository cannot be read".to_owned()),
        Some(error) => unready(error),
    }
}
