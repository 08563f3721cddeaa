//! From spans of `tracing` to spans that are sent.
//!
//! A span is kept if it says which trace it is in, or is in one that is kept.

use std::fmt;
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::Shared;
use super::wire::{Attribute, ERROR, INTERNAL, SERVER, Span, Status, Value};

/// Fields of spans that are no attributes: of the span of a request.
pub(super) const TRACE: &str = "trace.id";
pub(super) const PARENT: &str = "trace.parent";
pub(super) const STATE: &str = "trace.state";
pub(super) const NAME: &str = "trace.name";
pub(super) const FAILED: &str = "trace.failed";

/// Makes spans, and hands over those that have ended.
pub(super) struct Spans(pub(super) Arc<Shared>);

/// A span that has not ended.
struct Open(Span);

impl Spans {
    fn now_ns(&self) -> u64 {
        self.0.clock.now_us().max(0).unsigned_abs() * 1_000
    }

    fn begin(&self, metadata: &Metadata<'_>, within: Span) -> Span {
        let now_ns = self.now_ns();
        Span {
            // An identity is not zero.
            span_id: (((self.0.random)() as u64).max(1)).to_be_bytes().to_vec(),
            name: metadata.name().to_owned(),
            kind: INTERNAL,
            start_time_unix_nano: now_ns,
            end_time_unix_nano: now_ns,
            ..within
        }
    }
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(own) = context.span(id) else { return };
        let outer = match attributes.parent() {
            Some(parent) => context.span(parent),
            None if attributes.is_contextual() => context.lookup_current(),
            None => None,
        };
        let within = outer.and_then(|outer| {
            let outer = outer.extensions();
            let Open(outer) = outer.get::<Open>()?;
            let (trace_id, trace_state) = (outer.trace_id.clone(), outer.trace_state.clone());
            Some(Span { trace_id, trace_state, parent_span_id: outer.span_id.clone(), ..Span::default() })
        });
        let is_request = || attributes.metadata().fields().field(TRACE).is_some();
        let Some(within) = within.or_else(|| is_request().then(Span::default)) else { return };
        let mut span = self.begin(attributes.metadata(), within);
        attributes.record(&mut Fields(&mut span));
        own.extensions_mut().insert(Open(span));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(Open(span)) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut Fields(span));
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        // What was entered ends there, also where somebody holds it for longer.
        if let Some(Open(span)) = span.extensions_mut().get_mut::<Open>() {
            span.end_time_unix_nano = self.now_ns();
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(Open(mut span)) = span.extensions_mut().remove::<Open>() else { return };
        if span.end_time_unix_nano == span.start_time_unix_nano {
            span.end_time_unix_nano = self.now_ns();
        }
        if self.0.ended.try_send(span).is_err() {
            self.0.counts.overflowed();
        }
    }
}

/// Puts fields into a span.
struct Fields<'a>(&'a mut Span);

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        let attributes = &mut self.0.attributes;
        let new = Attribute::new(field.name(), value);
        match attributes.iter_mut().find(|attribute| attribute.key == new.key) {
            Some(there) => *there = new,
            None => attributes.push(new),
        }
    }
}

impl Visit for Fields<'_> {
    fn record_u128(&mut self, field: &Field, value: u128) {
        if field.name() == TRACE {
            self.0.trace_id = value.to_be_bytes().to_vec();
            self.0.kind = SERVER;
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            PARENT => self.0.parent_span_id = value.to_be_bytes().to_vec(),
            _ => self.put(field, Value::Whole(i64::try_from(value).unwrap_or(i64::MAX))),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Whole(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Real(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            FAILED => self.0.status = value.then_some(Status { code: ERROR }),
            _ => self.put(field, Value::Flag(value)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            NAME => value.clone_into(&mut self.0.name),
            STATE => value.clone_into(&mut self.0.trace_state),
            _ => self.put(field, Value::Text(value.to_owned())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::Text(format!("{value:?}")));
    }
}
