//! What the server is, and whether it runs.

use std::sync::atomic::Ordering;

use http::StatusCode;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::error::Result;
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
