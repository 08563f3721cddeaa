//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use frostline_base::IndexName;
use frostline_ingest::{Edits, Live, LiveOptions, MergeCounts, Random, UpkeepCounts};
use frostline_node::Node;
use frostline_pipeline::Map as Written;
use http::HeaderMap;
use http::header::HOST;
use http::uri::Authority;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::answer::Unread;
use crate::api::async_search::AsyncSearches;
use crate::api::info::Readiness;
use crate::api::pipeline::Compiled;
use crate::api::pit::Pits;
use crate::api::scroll::Scrolls;
use crate::auth::{Auth, Client};
use crate::body::Bodies;
use crate::counts::{Count, Doing, IndexCounts};
use crate::error::{ApiError, Result};
use crate::find::Finder;
use crate::jobs::Jobs;
use crate::jwt::Jwt;
use crate::limits::ClientLimits;
use crate::lookups::Lookups;
use crate::metrics::{Metrics, Refusal};
use crate::params::Params;
use crate::routes::Captures;
use crate::searches::Searches;
use crate::settings::Settings;

/// What all requests share.
pub(crate) struct State {
    pub(crate) node: Arc<Node>,
    /// What clients send is written by it.
    pub(crate) live: Live,
    /// What draws names of what is written.
    pub(crate) random: Random,
    /// The same for documents with `_id`s.
    pub(crate) edits: Edits,
    pub(crate) settings: Settings,
    /// Where the server listens.
    pub(crate) address: String,
    pub(crate) bodies: Bodies,
    pub(crate) unread: Unread,
    pub(crate) requests: Semaphore,
    /// Requests of OpenTelemetry that become documents at the same time: as many as there are cores.
    pub(crate) converting: Semaphore,
    pub(crate) searches: Searches,
    pub(crate) jobs: Jobs,
    pub(crate) auth: Auth,
    pub(crate) limits: ClientLimits,
    pub(crate) readiness: Readiness,
    pub(crate) scrolls: Scrolls,
    pub(crate) pits: Pits,
    pub(crate) async_searches: AsyncSearches,
    pub(crate) pipelines: Compiled,
    /// What pipelines look things up in.
    pub(crate) lookups: Arc<Lookups>,
    pub(crate) metrics: Metrics,
    /// What was done to each index.
    pub(crate) counts: IndexCounts,
    /// What was merged in each.
    pub(crate) merges: Arc<MergeCounts>,
    /// What upkeep does is counted there; none where there is no upkeep.
    pub(crate) upkeep: Option<Arc<UpkeepCounts>>,
    /// Set once the server is told to stop.
    pub(crate) draining: AtomicBool,
}

impl State {
    pub(crate) fn new(
        node: Node,
        random: Random,
        settings: Settings,
        address: String,
    ) -> frostline_base::Result<State> {
        let live = LiveOptions { held_bytes_max: settings.live_bytes_max, ..LiveOptions::default() };
        let live = Live::new(node.repository(), node.catalog(), Arc::clone(&random), live);
        let jwt = settings.jwt.as_ref().map(Jwt::new).transpose()?;
        let node = Arc::new(node);
        Ok(State {
            edits: Edits::new(&live, Arc::new(Finder(Arc::clone(&node))), Arc::clone(node.clock())),
            live,
            bodies: Bodies::new(&settings),
            unread: Unread::new(&settings),
            requests: Semaphore::new(settings.requests_max),
            converting: Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)),
            searches: Searches::new(&settings)?,
            jobs: Jobs::default(),
            auth: Auth::new(settings.auth, jwt, &random),
            limits: ClientLimits::new(&settings),
            readiness: Readiness::default(),
            scrolls: Scrolls::default(),
            pits: Pits::default(),
            async_searches: AsyncSearches::default(),
            pipelines: Compiled::default(),
            lookups: Arc::new(Lookups::open(settings.ingest_files.clone())?),
            metrics: Metrics::new(node.clock().now_us()),
            counts: IndexCounts::default(),
            merges: Arc::default(),
            upkeep: None,
            draining: AtomicBool::new(false),
            node,
            random,
            settings,
            address,
        })
    }

    /// Begins something with an index, which counts until what is returned is dropped.
    pub(crate) fn begin(&self, index: &IndexName, now: &[(Count, u64)]) -> Doing {
        self.counts.begin(self.node.catalog().seen_records().as_ref(), index, now)
    }

    /// Counts what was done with an index.
    pub(crate) fn count(&self, index: &IndexName, done: &[(Count, u64)]) {
        self.counts.add(self.node.catalog().seen_records().as_ref(), index, done);
    }

    /// A place among the requests that are being answered. An error of status 429 where there is none.
    pub(crate) fn begin_request(&self) -> Result<SemaphorePermit<'_>> {
        self.requests.try_acquire().map_err(|_| {
            self.metrics.refused(Refusal::Requests);
            let requests_max = self.settings.requests_max;
            ApiError::busy(format!("{requests_max} requests are being answered: try again"))
        })
    }
}

/// One request, as its handler sees it.
pub(crate) struct Call {
    pub(crate) state: Arc<State>,
    /// Who asks, and what the request may touch.
    pub(crate) client: Client,
    /// Parts of the path, by name.
    pub(crate) captures: Captures,
    pub(crate) params: Params,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// Where clients reach the server: as its settings say, else where this one says that it has.
    pub(crate) fn published_address(&self) -> String {
        if let Some(address) = &self.state.settings.publish {
            return address.clone();
        }
        let asked = self.headers.get(HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
        let usual_port = if self.state.settings.tls.is_some() { 443 } else { 80 };
        asked.map_or(self.state.address.clone(), |asked| {
            format!("{}:{}", asked.host(), asked.port_u16().unwrap_or(usual_port))
        })
    }

    /// A part of the path.
    pub(crate) fn part(&self, name: &str) -> Option<&str> {
        self.captures.get(name)
    }

    /// The part of the path that names indices; none means all.
    pub(crate) fn index(&self) -> &str {
        self.part("index").unwrap_or("_all")
    }

    /// The body as JSON; none where it is empty.
    pub(crate) fn json(&self) -> Result<Option<serde_json::Value>> {
        if self.body.trim_ascii().is_empty() {
            return Ok(None);
        }
        let parsed = frostline_split::check_unique_keys(&self.body);
        parsed.and_then(|()| serde_json::from_slice(&self.body)).map(Some).map_err(no_json)
    }

    /// The same; empty where the body is.
    pub(crate) fn object(&self) -> Result<serde_json::Map<String, serde_json::Value>> {
        match self.json()? {
            None => Ok(serde_json::Map::new()),
            Some(serde_json::Value::Object(object)) => Ok(object),
            Some(_) => Err(ApiError::unparsed(NO_OBJECT)),
        }
    }

    /// The same, with numbers that keep their spelling.
    pub(crate) fn written_object(&self) -> Result<Written> {
        if self.body.trim_ascii().is_empty() {
            return Ok(Written::new());
        }
        frostline_split::check_unique_keys(&self.body).map_err(no_json)?;
        match frostline_pipeline::Value::read(&self.body).map_err(|e| no_json(e.what()))? {
            frostline_pipeline::Value::Object(object) => Ok(object),
            _ => Err(ApiError::unparsed(NO_OBJECT)),
        }
    }
}

const NO_OBJECT: &str = "the body is not a JSON object";

fn no_json(error: impl std::fmt::Display) -> ApiError {
    ApiError::unparsed(format!("the body is not valid JSON: {error}"))
}

/// Refuses the members of a body that an API does not know.
pub(crate) fn only<'a, V: 'a>(
    object: impl IntoIterator<Item = (&'a String, &'a V)>,
    known: &[&str],
) -> Result<()> {
    only_of(object, known, "at the top of the body")
}

/// Refuses the members of an object in a body, such as that of `[docs]`, that an API does not know.
pub(crate) fn only_in<'a, V: 'a>(
    name: &str,
    object: impl IntoIterator<Item = (&'a String, &'a V)>,
    known: &[&str],
) -> Result<()> {
    only_of(object, known, &format!("in [{name}]"))
}

fn only_of<'a, V: 'a>(
    object: impl IntoIterator<Item = (&'a String, &'a V)>,
    known: &[&str],
    place: &str,
) -> Result<()> {
    match object.into_iter().map(|(key, _)| key).find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            let meant = frostline_show::nearest(key, known.iter().copied());
            let meant = meant.map_or(String::new(), |known| format!(" -> did you mean [{known}]?"));
            Err(ApiError::unparsed(format!("unknown key [{key}] {place}{meant}")))
        }
        None => Ok(()),
    }
}
