//! What the server is, and whether it runs.

use std::sync::atomic::Ordering;

use http::StatusCode;
use serde_json::json;

use crate::answer::Answer;
use crate::error::Result;
use crate::state::{Call, State};

/// The version of Elasticsearch whose API this is: clients of another one warn, or refuse to talk.
pub(crate) const VERSION: &str = "8.19.0";
/// The name of the one node, and of its cluster.
pub(crate) const NAME: &str = "frostline";

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
        "version": {
            "number": VERSION,
            "build_flavor": "default",
            "build_type": "frostline",
            "build_hash": "unknown",
            "build_date": "1970-01-01T00:00:00.000Z",
            "build_snapshot": false,
            "lucene_version": "9.12.2",
            "minimum_wire_compatibility_version": "7.17.0",
            "minimum_index_compatibility_version": "7.0.0",
        },
        "tagline": "You Know, for Search",
    }))
}

/// `GET /health`: whether the process answers.
pub(crate) async fn health(_: Call) -> Result<Answer> {
    Answer::json(&json!({ "status": "ok" }))
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
    match call.state.node.catalog().list().await {
        Ok(_) => Answer::json(&json!({ "status": "ready" })),
        Err(error) => unready(error.to_string()),
    }
}
