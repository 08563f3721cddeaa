//! The span of a request.

use frostline_base::STAGE;
use http::{HeaderMap, StatusCode};
use tracing::field::Empty;
use tracing::{Span, info_span};

use super::Traces;
use super::context::Outer;
use super::layer::{FAILED, NAME, PARENT, STATE};
use crate::slow::Searched;

/// A request's span, in which its stages are. It is nothing where the request has no trace that is sent.
pub(crate) struct Traced {
    span: Span,
    id: Option<String>,
}

/// How a request ended.
pub(crate) struct Ended<'a> {
    pub(crate) user: Option<&'a str>,
    pub(crate) status: StatusCode,
    /// The kind of the error that it was answered with.
    pub(crate) error: Option<&'static str>,
    pub(crate) sent_bytes: usize,
    pub(crate) searched: Option<&'a Searched>,
}

impl Traced {
    /// Begins the span of a request, in the trace that its headers name or in a new one. `path` is as logs have it.
    pub(crate) fn begin(
        traces: Option<&Traces>,
        method: &str,
        path: impl FnOnce() -> String,
        headers: &HeaderMap,
    ) -> Traced {
        let Some(Traces(traces)) = traces else { return Traced { span: Span::none(), id: None } };
        let outer = Outer::of(headers);
        // An identity is not zero.
        let trace = outer.as_ref().map_or_else(|| (traces.random)().max(1), |outer| outer.trace);
        let is_sampled = traces.sampler.samples(trace, outer.as_ref());
        // Nobody else knows a trace that begins here and is not sent.
        let id = (is_sampled || outer.is_some()).then(|| format!("{trace:032x}"));
        if !is_sampled {
            return Traced { span: Span::none(), id };
        }
        let span = info_span!(
            target: STAGE,
            parent: None,
            "request",
            trace.id = trace,
            trace.parent = Empty,
            trace.state = Empty,
            trace.name = Empty,
            trace.failed = Empty,
            http.request.method = method,
            url.path = path(),
            http.response.status_code = Empty,
            http.response.body.size = Empty,
            error.type = Empty,
            user = Empty,
            frostline.searches = Empty,
            frostline.gets = Empty,
            frostline.bytes = Empty,
            frostline.usd = Empty,
            frostline.splits = Empty,
            frostline.splits_opened = Empty,
            frostline.splits_pruned = Empty,
        );
        if let Some(outer) = outer {
            span.record(PARENT, outer.span).record(STATE, outer.state.as_deref());
        }
        Traced { span, id }
    }

    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// The trace, as logs have it.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Says what became of the request.
    pub(crate) fn end(&self, ended: &Ended<'_>) {
        // The reason of an error may have values of the query.
        self.span
            .record("http.response.status_code", ended.status.as_u16())
            .record("http.response.body.size", ended.sent_bytes)
            .record("user", ended.user)
            .record("error.type", ended.error)
            .record(FAILED, ended.status.is_server_error());
        if let Some(searched) = ended.searched {
            self.span
                .record("frostline.searches", searched.searches)
                .record("frostline.gets", searched.gets)
                .record("frostline.bytes", searched.bytes)
                .record("frostline.usd", searched.usd)
                .record("frostline.splits", searched.splits)
                .record("frostline.splits_opened", searched.splits_opened)
                .record("frostline.splits_pruned", searched.splits_pruned);
        }
    }
}

/// Names the span of the request that runs here: the API is known once the request was looked at.
pub(crate) fn name(api: &'static str) {
    Span::current().record(NAME, api);
}
