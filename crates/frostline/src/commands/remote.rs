//! Searches through a server.

use anyhow::{Context, Result, anyhow, bail};
use frostline_query::Response;
use frostline_ship::{Http, NoAnswer, Reply, Request};
use serde_json::Value;

use crate::args;

/// How long a server keeps the version that is exported after each page.
pub(crate) const KEEP_ALIVE: &str = "5m";

/// A server that is asked.
pub(crate) struct Remote {
    http: Http,
    url: String,
    index: Option<String>,
    parameters: &'static str,
}

impl Remote {
    /// The server at `url`, for the indices and the options of a search.
    pub(crate) async fn of(url: &str, given: &args::Search) -> Result<Remote> {
        let access = super::ship::access(url, &given.access).await?;
        // The other characters that a path cannot have are encoded with the URL.
        let index = given.index.as_ref();
        let index = index.map(|index| index.replace('%', "%25").replace('/', "%2F").replace('?', "%3F"));
        let parameters = match (given.strict, given.no_result_cache) {
            (false, false) => "",
            (true, false) => "?allow_partial_search_results=false",
            (false, true) => "?request_cache=false",
            (true, true) => "?allow_partial_search_results=false&request_cache=false",
        };
        Ok(Remote { http: Http::new(&access)?, url: url.to_owned(), index, parameters })
    }

    /// What the server answers. The next page starts after the last hit.
    pub(crate) async fn search(&self, body: &[u8]) -> Result<Response> {
        // A point in time says itself of what it is.
        let is_held = serde_json::from_slice::<Value>(body).is_ok_and(|body| body.get("pit").is_some());
        let of = self.index.as_ref().filter(|_| !is_held).map_or(String::new(), |index| format!("/{index}"));
        let reply = self.post(format!("{of}/_search{}", self.parameters), body.to_vec()).await?;
        let mut response: Response = serde_json::from_slice(&reply)
            .with_context(|| format!("{} answers otherwise than a server of Frostline", self.url))?;
        response.next = response.hits.hits.last().and_then(|hit| hit.sort.clone());
        Ok(response)
    }

    /// Has the server keep the newest versions of the indices.
    pub(crate) async fn point_in_time(&self) -> Result<String> {
        let index = self.index.as_deref().unwrap_or_default();
        let reply = self.post(format!("/{index}/_pit?keep_alive={KEEP_ALIVE}"), Vec::new()).await?;
        let kept: Value = serde_json::from_slice(&reply).unwrap_or_default();
        let id = kept.get("id").and_then(Value::as_str);
        Ok(id.with_context(|| format!("{} keeps no point in time", self.url))?.to_owned())
    }

    async fn post(&self, path: String, body: Vec<u8>) -> Result<Vec<u8>> {
        let request = Request { path, content_type: "application/json", header: None, body };
        let sent = self.http.send(&request).await;
        let Reply { status, body, .. } = sent.map_err(|NoAnswer { why, lasting }| {
            let what_to_do = lasting.map_or(String::new(), |what_to_do| format!(": {what_to_do}"));
            anyhow!("cannot ask {}: {why}{what_to_do}", self.url)
        })?;
        if status < 300 {
            return Ok(body);
        }
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let reason = said.pointer("/error/reason").and_then(Value::as_str);
        let reason = reason.map_or_else(|| format!("it answers {status}"), str::to_owned);
        match status {
            401 => bail!(
                "{} does not know who asks ({reason}): pass --api-key-file FILE or set FROSTLINE_API_KEY",
                self.url
            ),
            _ => bail!("{}: {reason}", self.url),
        }
    }
}
