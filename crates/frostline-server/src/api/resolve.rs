//! `_resolve/index`.

use serde_json::json;

use crate::answer::Answer;
use crate::api::indices;
use crate::error::Result;
use crate::state::Call;

/// `GET /_resolve/index/{name}`.
pub(crate) async fn index(call: Call) -> Result<Answer> {
    let expression = call.part("name").unwrap_or("_all");
    let names = indices::names(&call.state, expression, indices::how(&call.params)?).await?;
    let each: Vec<_> = names.iter().map(|name| json!({ "name": name, "attributes": ["open"] })).collect();
    Answer::json(&json!({ "indices": each, "aliases": [], "data_streams": [] }))
}
