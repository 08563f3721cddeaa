//! The APIs, in modules of their own; the table of them is in [`crate::routes`].

pub(crate) mod alias;
pub(crate) mod analyze;
pub(crate) mod async_search;
pub(crate) mod blocks;
pub(crate) mod bulk;
pub(crate) mod by_query;
pub(crate) mod cat;
pub(crate) mod cluster;
pub(crate) mod data_stream;
pub(crate) mod document;
pub(crate) mod explain;
pub(crate) mod field_caps;
pub(crate) mod ilm;
pub(crate) mod index;
pub(crate) mod indices;
pub(crate) mod info;
pub(crate) mod ingest;
pub(crate) mod lifecycle;
pub(crate) mod lookup;
pub(crate) mod mapping;
pub(crate) mod metrics;
pub(crate) mod msearch;
pub(crate) mod names;
pub(crate) mod openapi;
pub(crate) mod pipeline;
pub(crate) mod pit;
pub(crate) mod resolve;
pub(crate) mod rewrite;
pub(crate) mod scroll;
pub(crate) mod search;
pub(crate) mod search_body;
pub(crate) mod search_template;
pub(crate) mod security;
pub(crate) mod settings;
pub(crate) mod shards;
pub(crate) mod shared_cache;
pub(crate) mod snapshot;
pub(crate) mod sql;
pub(crate) mod stats;
pub(crate) mod tasks;
pub(crate) mod template;
pub(crate) mod terms_enum;

#[cfg(test)]
mod tests;
