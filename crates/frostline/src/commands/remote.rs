//! Searches through a server.

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow, bail};
use frostline_query::Response;
use frostline_ship::{Http, Method, NoAnswer, Reply, Request, TOO_LONG};
use frostline_show::{note, printable};
use serde_json::{Value, json};

use super::search::TIME;
use crate::args;

/// A wildcard that no index matches is a mistake of whoever typed it.
const NAMED: &str = "allow_no_indices=false";

/// How long a server keeps the version that is exported after each page.
pub(crate) const KEEP_ALIVE: &str = "5m";

/// A server that is asked.
pub(crate) struct Remote {
    http: Http,
    url: String,
    index: Option<String>,
    strict: bool,
}

impl Remote {
    /// The server at `url`, for the indices and the options of a search.
    pub(crate) async fn of(url: &str, given: &args::Search) -> Result<Remote> {
        let access = super::ship::access(url, &given.access).await?;
        let index = given.index.as_deref().map(in_path).transpose()?;
        Ok(Remote { http: Http::new(&access)?, url: url.to_owned(), index, strict: given.strict })
    }

    /// What the server answers.
    pub(crate) async fn search(&self, body: &[u8]) -> Result<Response> {
        self.found(body).await?.map_err(|Unread(why)| anyhow!("cannot ask {}: {why}", self.url))
    }

    /// The same of one page, with fewer documents where so many are too much for an answer.
    pub(crate) async fn page(&self, mut body: Value) -> Result<Response> {
        loop {
            let size = body["size"].as_u64().unwrap_or_default();
            match self.found(body.to_string().as_bytes()).await? {
                Err(Unread(TOO_LONG)) if size > 1 => body["size"] = json!(size / 2),
                Err(Unread(why)) => bail!("cannot ask {}: {why}", self.url),
                Ok(found) => return Ok(found),
            }
        }
    }

    async fn found(&self, body: &[u8]) -> Result<std::result::Result<Response, Unread>> {
        // A point in time says itself of what it is.
        let is_held = serde_json::from_slice::<Value>(body).is_ok_and(|body| body.get("pit").is_some());
        let path = match self.index.as_ref().filter(|_| !is_held) {
            Some(index) => format!("/{index}/_search?{NAMED}&"),
            None => "/_search?".to_owned(),
        };
        let path = format!("{path}allow_partial_search_results={}", !self.strict);
        let reply = match self.ask(Method::POST, path, body).await {
            Err(NoAnswer { why, .. }) if why == TOO_LONG => return Ok(Err(Unread(TOO_LONG))),
            asked => self.read(asked)?,
        };
        let mut response: Response = serde_json::from_slice(&reply.body)
            .with_context(|| format!("{} answers otherwise than a server of Frostline", self.url))?;
        // The next page starts after the last hit, also if that is not shown.
        let shown = response.hits.hits.last().and_then(|hit| hit.sort.clone());
        response.next = response.next_unseen.take().or(shown);
        let plain = |text: &str| text.replace(['"', '\''], "");
        let said: Vec<String> = response.warnings.iter().map(|said| plain(said)).collect();
        response.warnings.extend(reply.warnings.into_iter().filter(|text| !said.contains(&plain(text))));
        Ok(Ok(response))
    }

    /// The field that holds the documents' time, which `--since`, `--until` and `--all` are about.
    pub(crate) async fn time_field(&self) -> Result<Option<String>> {
        let index = self.index.as_deref().unwrap_or_default();
        let asked = self.ask(Method::GET, format!("/{index}/_settings?{NAMED}"), b"").await;
        if asked.as_ref().is_ok_and(|reply| reply.status == 403) {
            note!("this key may not read settings: the time of documents is taken to be in @timestamp");
            return Ok(None);
        }
        let settings: Value = serde_json::from_slice(&self.read(asked)?.body).unwrap_or_default();
        let time_of = |index: &Value| {
            let named = index.pointer("/settings/index/time_field").and_then(Value::as_str);
            named.unwrap_or(TIME).to_owned()
        };
        let times: BTreeSet<String> =
            settings.as_object().into_iter().flatten().map(|(_, index)| time_of(index)).collect();
        let is_one = times.len() == 1;
        if times.len() > 1 {
            let named: Vec<String> = times.iter().map(|time| printable(time)).collect();
            note!("documents have their time in {}: it is asked for as {TIME}", named.join(" and "));
        }
        Ok(times.into_iter().next().filter(|_| is_one))
    }

    /// Has the server keep the newest versions of the indices.
    pub(crate) async fn keep(&self) -> Result<String> {
        let index = self.index.as_deref().unwrap_or_default();
        let asked =
            self.ask(Method::POST, format!("/{index}/_pit?keep_alive={KEEP_ALIVE}&{NAMED}"), b"").await;
        let kept: Value = serde_json::from_slice(&self.read(asked)?.body).unwrap_or_default();
        let id = kept.get("id").and_then(Value::as_str);
        Ok(id.with_context(|| format!("{} keeps no point in time", self.url))?.to_owned())
    }

    /// Lets go of what it keeps, which ends by itself if this is lost.
    pub(crate) async fn release(&self, point_in_time: &str) {
        let body = json!({ "id": point_in_time }).to_string();
        let _ = self.ask(Method::DELETE, "/_pit".to_owned(), body.as_bytes()).await;
    }

    async fn ask(&self, method: Method, path: String, body: &[u8]) -> std::result::Result<Reply, NoAnswer> {
        let request = Request { path, content_type: "application/json", header: None, body: body.to_vec() };
        self.http.send(method, &request).await
    }

    /// The answer, if it is no refusal.
    fn read(&self, asked: std::result::Result<Reply, NoAnswer>) -> Result<Reply> {
        let reply = asked.map_err(|NoAnswer { why, lasting }| {
            let what_to_do = lasting.map_or(String::new(), |what_to_do| format!(": {what_to_do}"));
            anyhow!("cannot ask {}: {why}{what_to_do}", self.url)
        })?;
        if reply.status < 300 {
            return Ok(reply);
        }
        let said: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let reason = said.pointer("/error/reason").or(said.get("error")).and_then(Value::as_str);
        let reason = reason.map_or_else(|| format!("it answers {}", reply.status), printable_lines);
        match reply.status {
            401 => bail!(
                "{} does not know who asks ({reason}): pass --api-key-file FILE or set FROSTLINE_API_KEY",
                self.url
            ),
            _ => bail!("{}: {reason}", self.url),
        }
    }
}

/// Text of a server, of which lines stay lines: a caret is below what it points to.
fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<String>>().join("\n")
}

/// Why an answer was not read.
struct Unread(&'static str);

/// An expression as a part of a path. Characters that no path has are encoded with the URL.
fn in_path(index: &str) -> Result<String> {
    if matches!(index, "" | "." | "..") {
        bail!("no index is called [{index}]");
    }
    Ok(index
        .replace('%', "%25")
        .replace('/', "%2F")
        .replace('\\', "%5C")
        .replace('?', "%3F")
        .replace('#', "%23"))
}
