//! (being written)
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod document;
mod mapping;
mod tokenizer;
mod values;

pub use document::{Document, Limits, PathId, Value, parse_document};
pub use frostline_base::{Error, Result};
pub use mapping::{
    Conflict, DYNAMIC_COLUMN, Field, FieldType, Mapping, Mode, Placement, Reading, Resolved, SOURCE_COLUMN,
    TIME_COLUMN, TIME_FIELD, ValueType,
};
pub use tokenizer::{
    Phrase, TOKEN_BYTES_MAX, Tokenizer, contains_phrase, phrase_tokens, query_tokens, tokenize,
};
pub use values::{
    ip_address, ip_text, number_text, parse_cidr, parse_date, parse_ip, parse_time_field, value_token,
};
