//! Ways in for logs besides Elasticsearch's API: [`otlp`] over HTTP and [`grpc`], and [`syslog`]. What they bring is
//! stored as documents of `_bulk` are: through the pipelines of its index, and with the same limits.

pub(crate) mod grpc;
pub(crate) mod otlp;
pub(crate) mod syslog;
