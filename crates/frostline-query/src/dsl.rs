//! The Elasticsearch query DSL and request body.
