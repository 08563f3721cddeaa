//! From a request to its response.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use frostline_base::STAGE;
use frostline_ingest::otlp::Encoding;
use frostline_node::seen_will_do;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN, RETRY_AFTER,
    VARY, WARNING, WWW_AUTHENTICATE,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Body;
use tracing::{Instrument, info_span};

use crate::answer::{Answer, Content, Look};
use crate::auth::Client;
use crate::doors::otlp;
use crate::error::{ApiError, Result};
use crate::limits::Place;
use crate::media::{self, Form};
use crate::metrics::Refusal;
use crate::params::Params;
use crate::routes::{Action, Api, Routed, route};
use crate::searches::Task;
use crate::slow::{Shown, Watched};
use crate::state::{Call, State};
use crate::traces::{self, Ended, Traced};
use crate::yaml;

/// Clients accept only a server that says so.
const PRODUCT: HeaderName = HeaderName::from_static("x-elastic-product");
/// A name that a client gives to a request, and finds again with its answer.
const OPAQUE_ID: HeaderName = HeaderName::from_static("x-opaque-id");
/// Shorter answers are sent as they are.
const GZIP_BYTES_MIN: usize = 1_024;
/// Longer answers are packed where they keep no other request waiting.
const GZIP_BYTES_INLINE: usize = 256 << 10;
/// The longest path that is logged.
const LOGGED_MAX: usize = 1_000;

/// Answers requests; connections share it.
#[derive(Clone)]
pub(crate) struct Service {
    state: Arc<State>,
}

/// How an answer is to be sent, as far as the request was understood.
#[derive(Default)]
struct Wanted {
    form: Form,
    look: Look,
    api: &'static str,
    /// Of a request of OpenTelemetry: how it is written, and its answer.
    otlp: Option<Encoding>,
    /// Whether who is not known may send a token of the issuer.
    tokens: bool,
    /// Who asked.
    user: Option<String>,
    /// The search that it is, and when it began.
    watched: Option<(Watched, Instant)>,
}

impl Service {
    pub(crate) fn new(state: Arc<State>) -> Service {
        Service { state }
    }

    /// The response of a request, whatever it is.
    pub(crate) async fn respond<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (head, body) = request.into_parts();
        let traces = self.state.settings.traces.as_ref();
        let traced = Traced::begin(traces, head.method.as_str(), || logged(&head), &head.headers);
        self.respond_in(&traced, &head, body).instrument(traced.span()).await
    }

    async fn respond_in<B>(
        &self,
        traced: &Traced,
        head: &http::request::Parts,
        body: B,
    ) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let started = Instant::now();
        let begun = self.state.metrics.begin();
        let mut wanted = Wanted { tokens: self.state.auth.jwt.is_some(), ..Wanted::default() };
        let time_max = self.state.settings.request_time_max;
        let answered = tokio::time::timeout(time_max, self.answer(head, body, &mut wanted)).await;
        let answered = answered.unwrap_or_else(|_| {
            let reason = format!("the request took longer than {} s", time_max.as_secs_f64());
            Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, "timeout_exception", reason))
        });
        if let Err(error) = &answered {
            let (method, user) = (head.method.as_str(), wanted.user.as_deref());
            audit(&self.state, error, head, method, wanted.api, user);
        }
        if let Some((watched, since)) = wanted.watched.take() {
            self.tell_if_slow(&watched, since, &answered, &wanted, head, traced);
        }
        let mut error = answered.as_ref().err().map(|error| error.kind);
        let searched = answered.as_ref().ok().and_then(|answer| answer.searched.as_deref().copied());
        let mut response = response(answered, &wanted, &head.headers).await;
        match self.state.unread.hold(response.body()) {
            Ok(held) => *response.body_mut() = held,
            Err(busy) => {
                error = Some(busy.kind);
                response = self::response(Err(busy), &wanted, &head.headers).await;
            }
        }
        let bytes = response.body().len();
        tracing::info!(
            target: "frostline_server::access",
            method = %head.method,
            path = logged(head),
            api = wanted.api,
            user = wanted.user,
            status = response.status().as_u16(),
            took_ms = started.elapsed().as_millis() as u64,
            bytes,
            opaque_id = head.headers.get(OPAQUE_ID).and_then(|id| id.to_str().ok()),
            trace_id = traced.id(),
        );
        traced.end(&Ended {
            user: wanted.user.as_deref(),
            status: response.status(),
            error,
            sent_bytes: bytes,
            searched: searched.as_ref(),
        });
        begun.end(wanted.api, response.status(), started.elapsed(), bytes);
        response.map(Full::new)
    }

    /// Logs a search that took long.
    fn tell_if_slow(
        &self,
        watched: &Watched,
        since: Instant,
        answered: &Result<Answer>,
        wanted: &Wanted,
        head: &http::request::Parts,
        traced: &Traced,
    ) {
        let (settings, took) = (&self.state.settings, since.elapsed());
        if settings.slow_query.is_none_or(|slow| took < slow) {
            return;
        }
        self.state.metrics.search_slow();
        let Shown { index, shape, body } = watched.show(settings.slow_query_body);
        let (status, searched) = match answered {
            Ok(answer) => (answer.status, answer.searched.as_deref()),
            Err(error) => (error.status, None),
        };
        tracing::warn!(
            target: "frostline_server::slow",
            api = watched.api,
            index,
            user = wanted.user,
            status = status.as_u16(),
            took_ms = took.as_millis() as u64,
            searches = searched.map(|searched| searched.searches),
            gets = searched.map(|searched| searched.gets),
            bytes = searched.map(|searched| searched.bytes),
            usd = searched.map(|searched| searched.usd),
            splits = searched.map(|searched| searched.splits),
            splits_opened = searched.map(|searched| searched.splits_opened),
            splits_pruned = searched.map(|searched| searched.splits_pruned),
            shape,
            body,
            opaque_id = head.headers.get(OPAQUE_ID).and_then(|id| id.to_str().ok()),
            trace_id = traced.id(),
            "slow search",
        );
    }

    async fn answer<B>(&self, head: &http::request::Parts, body: B, wanted: &mut Wanted) -> Result<Answer>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (path, headers) = (head.uri.path(), &head.headers);
        let auth = &self.state.auth;
        if !auth.is_required {
            check_site(headers)?;
        }
        let mut params = Params::parse(head.uri.query().unwrap_or_default());
        wanted.look = Look::of(&params)?;
        wanted.form = Form::of(headers, &params)?;
        let routed = route(&head.method, path);
        if matches!(&routed, Ok(Routed::Api(api, _)) if api.name == otlp::API) {
            // Also what is neither has an answer.
            wanted.otlp = Some(otlp::encoding(headers).unwrap_or(Encoding::Json));
        }
        let is_probe = matches!(&routed, Ok(Routed::Api(api, _)) if api.action == Action::Probe);
        let (mut client, _place) = match is_probe {
            true => (Client::anonymous(), None),
            false => admit(&self.state, head, &mut wanted.user).await?,
        };
        let (api, captures) = match routed? {
            Routed::Options(allowed) => return Ok(Answer::empty(StatusCode::OK).allowing(allowed)),
            Routed::Api(api, captures) => (api, captures),
        };
        wanted.api = api.name;
        traces::name(api.name);
        client.scope = client.scope.for_api(api, &client.describe())?;
        if let Some(format) = wanted.form.accepted.filter(|_| api.name.starts_with("cat.")) {
            params.set_default("format", format);
        }
        let ignored = params.check(api, path)?;
        let ignored = ignored.into_iter().map(|name| format!("the parameter [{name}] has no effect"));
        let warnings: Vec<String> = ignored.collect();
        let state = Arc::clone(&self.state);
        let reading = info_span!(target: STAGE, "read body");
        let received = state.bodies.read(headers, body, api.weight(headers)).instrument(reading).await;
        let mut received = received?;
        state.metrics.received(received.bytes.len());
        if received.bytes.is_empty() {
            // What browsers send, which cannot put a body into a GET.
            if let Some(source) = params.get("source") {
                if !matches!(head.method, Method::GET | Method::HEAD) {
                    return Err(ApiError::invalid("[source] in the URL is for GET: send a body"));
                }
                received.bytes = Bytes::from(source.to_owned());
            }
        } else if wanted.otlp.is_none() {
            media::check_body(headers)?;
        }
        // A request that is still being sent keeps no other from being answered.
        let is_counted = !matches!(api.action, Action::Probe | Action::Observe);
        let _permit = is_counted.then(|| self.state.begin_request()).transpose()?;
        let (state, body) = (Arc::clone(&state), received.bytes.clone());
        if api.action == Action::Read && state.settings.slow_query.is_some() {
            let index = captures.get("index").map(str::to_owned);
            let query = params.get("q").map(str::to_owned);
            let watched = Watched { api: api.name, index, query, body: std::mem::take(&mut received) };
            wanted.watched = Some((watched, Instant::now()));
        }
        let call = Call { state, client, captures, params, headers: headers.clone(), body };
        let answer = given_what_was_seen(api, (api.answer)(call));
        let answer = match api.action {
            // It holds its thread for long.
            Action::Read if !api.begins_search() => {
                self.state.searches.run(self.task(api, head), answer).await?
            }
            _ => answer.await?,
        };
        Ok(answer.with_warnings(warnings))
    }

    fn task(&self, api: &'static Api, head: &http::request::Parts) -> Task {
        let opaque_id = head.headers.get(OPAQUE_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let about = format!("{} {}", head.method, logged(head));
        let begun_us = self.state.node.clock().now_us();
        Task { number: 0, api: api.name, about, opaque_id, begun_us, begun: Instant::now() }
    }
}

/// Answers a request that only reads by what the server has seen, where the repository does not answer, and says so.
async fn given_what_was_seen(api: &Api, answer: impl Future<Output = Result<Answer>>) -> Result<Answer> {
    if !matches!(api.action, Action::Monitor | Action::Read | Action::ViewIndex) {
        return answer.await;
    }
    let (answer, is_outdated) = seen_will_do(answer).await;
    Ok(answer?.with_warnings(is_outdated.then(|| OUTDATED.to_owned())))
}

/// What a client of an answer should know that may be outdated.
pub(crate) const OUTDATED: &str =
    "the repository does not answer: this is what the server had read of it before";

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The address that a request comes from. Those of which none is known are one.
fn address_of(head: &http::request::Parts) -> IpAddr {
    head.extensions.get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0)
}

/// Who sends a request, whose name becomes `user` where clients are asked, and its place among the requests of that client.
pub(crate) async fn admit<'a>(
    state: &'a State,
    head: &http::request::Parts,
    user: &mut Option<String>,
) -> Result<(Client, Option<Place<'a>>)> {
    let client = state.auth.client(state, &head.headers, address_of(head)).await?;
    if !state.auth.is_required {
        return Ok((client, None));
    }
    let who = user.insert(client.describe());
    let place = state.limits.begin(who, state.node.clock().now_us());
    let place = place.inspect_err(|_| state.metrics.refused(Refusal::Client))?;
    Ok((client, place))
}

/// Counts and logs a request that was refused for who sent it.
pub(crate) fn audit(
    state: &State,
    error: &ApiError,
    head: &http::request::Parts,
    method: &str,
    api: &str,
    user: Option<&str>,
) {
    state.metrics.refused(match error.status {
        StatusCode::UNAUTHORIZED => Refusal::Unauthenticated,
        StatusCode::FORBIDDEN => Refusal::Forbidden,
        _ => return,
    });
    tracing::warn!(
        target: "frostline_server::audit",
        method,
        path = logged(head),
        api,
        user,
        reason = error.reason,
        "refused",
    );
}

/// The path, as it is shown to people.
pub(crate) fn logged(head: &http::request::Parts) -> String {
    head.uri.path().chars().take(LOGGED_MAX).collect()
}

/// Refuses a request that a page of another site may have sent: the name of that site leads to loopback, or the page says
/// where it is from.
pub(crate) fn check_site(headers: &HeaderMap) -> Result<()> {
    for header in [HOST, ORIGIN] {
        let Some(site) = headers.get(&header) else { continue };
        let site = site.to_str().unwrap_or_default();
        let host = site.split_once("://").map_or(site, |(_, host)| host);
        let name = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            Some((address, _)) => address,
            None => host.split(':').next().unwrap_or_default(),
        };
        // No name leads to the server where it is asked by address, but a page may be from any.
        let is_ours = |address: IpAddr| header == HOST || address.is_loopback();
        if !name.eq_ignore_ascii_case("localhost") && !name.parse().is_ok_and(is_ours) {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "security_exception",
                format!("the {header} [{name}] is not this server: it is asked by address, or as localhost"),
            ));
        }
    }
    Ok(())
}

async fn response(answered: Result<Answer>, wanted: &Wanted, request: &HeaderMap) -> Response<Bytes> {
    let mut headers = HeaderMap::new();
    headers.insert(PRODUCT, HeaderValue::from_static("Elasticsearch"));
    if let Some(id) = request.get(OPAQUE_ID) {
        headers.insert(OPAQUE_ID, id.clone());
    }
    // Who asks for a part of the answer needs all of an error.
    let unfiltered = wanted.look.unfiltered();
    let look = if answered.is_ok() { &wanted.look } else { &unfiltered };
    let answer = answered.unwrap_or_else(|error| match wanted.otlp {
        Some(encoding) => otlp::failure(error, encoding),
        None => Answer::from(error),
    });
    if let Some(allow) = answer.allow.and_then(|allow| HeaderValue::from_str(&allow).ok()) {
        headers.insert(ALLOW, allow);
    }
    if let Some(seconds) = answer.try_again_s {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if answer.status == StatusCode::UNAUTHORIZED {
        for way in ["Basic realm=\"security\", charset=\"UTF-8\"", "ApiKey"] {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(way));
        }
        if wanted.tokens {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"security\""));
        }
    }
    for warning in warnings(&answer.warnings) {
        headers.append(WARNING, warning);
    }
    let mut body = Bytes::from(match answer.content {
        Content::Json(json) => {
            let json = look.apply(json);
            match wanted.form.is_yaml.then(|| yaml::of_json(&json)).flatten() {
                Some(yaml) => {
                    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
                    yaml.into_bytes()
                }
                None => {
                    headers.insert(CONTENT_TYPE, wanted.form.json.clone());
                    json
                }
            }
        }
        Content::Text { media, text } => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
            text.into_bytes()
        }
        Content::Bytes { media, bytes } => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
            bytes
        }
        Content::Nothing => Vec::new(),
    });
    if body.len() >= GZIP_BYTES_MIN {
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if wants_gzip(request)
            && let Some(packed) = gzip(&body).await
        {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            body = Bytes::from(packed);
        }
    }
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = headers;
    response
}

fn wants_gzip(request: &HeaderMap) -> bool {
    let codings = request.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    codings.flat_map(|value| value.split(',')).any(|coding| {
        let mut pieces = coding.split(';').map(str::trim);
        let name = pieces.next().unwrap_or_default();
        let refused = pieces.any(|piece| matches!(piece, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        name.eq_ignore_ascii_case("gzip") && !refused
    })
}

/// The body packed; none where that fails.
async fn gzip(body: &Bytes) -> Option<Vec<u8>> {
    let pack = |body: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
        encoder.write_all(body).and_then(|()| encoder.finish()).ok()
    };
    if body.len() <= GZIP_BYTES_INLINE {
        return pack(body);
    }
    let body = body.clone();
    tokio::task::spawn_blocking(move || pack(&body)).await.ok().flatten()
}

/// The `Warning` headers of these texts, each of which is said once. Together they are no longer than clients read of all
/// headers.
fn warnings(texts: &[String]) -> Vec<HeaderValue> {
    const BYTES_MAX: usize = 4 * 1024;
    let mut said = BTreeSet::new();
    let once: Vec<_> = texts.iter().filter(|text| said.insert(text.as_str())).collect();
    let mut headers: Vec<HeaderValue> = Vec::new();
    let mut bytes = 0;
    for (at, header) in once.iter().enumerate().filter_map(|(at, text)| Some((at, warning(text)?))) {
        bytes += header.len();
        if bytes > BYTES_MAX {
            headers.extend(warning(&format!("and {} more warnings", once.len() - at)));
            break;
        }
        headers.push(header);
    }
    headers
}

/// A `Warning` header, as Elasticsearch writes them.
fn warning(text: &str) -> Option<HeaderValue> {
    let mut quoted = String::new();
    for c in text.chars() {
        match c {
            // The official clients end a warning at any double quote.
            '"' => quoted.push('\''),
            '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            _ => quoted.push('?'),
        }
    }
    let version = crate::api::info::VERSION;
    HeaderValue::from_str(&format!("299 Elasticsearch-{version}-frostline \"{quoted}\"")).ok()
}

#[cfg(test)]
mod tests;
