//! `/metrics`.

use http::StatusCode;

use crate::answer::{Answer, Content};
use crate::error::Result;
use crate::metrics;
use crate::state::Call;

/// `GET /metrics`: figures for Prometheus.
pub(crate) async fn metrics(call: Call) -> Result<Answer> {
    let text = metrics::page(&call.state).await;
    let content = Content::Text { media: metrics::MEDIA, text };
    Ok(Answer { content, ..Answer::empty(StatusCode::OK) })
}
