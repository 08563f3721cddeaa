//! The split: an immutable file of documents, an ordinary Parquet file with an index embedded between
//! its row group and its footer. Write one with [`SplitWriter`], open one with [`Split`].
//!
//! No network, no clock, no async runtime: reading states which byte ranges it needs and decodes what
//! it is given. `docs/format/split.md` is the byte map.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod analysis;
mod byte_counts;
mod column_lists;
mod columns;
#[doc(hidden)]
pub mod delta_lengths;
mod dictionary;
mod digest;
mod distribution;
mod document;
mod documents;
mod dynamic;
mod fields;
mod footer;
#[doc(hidden)]
pub mod fuzzing;
mod identities;
mod mapping;
mod origins;
mod pack;
#[doc(hidden)]
pub mod page_header;
mod page_streams;
mod pairs;
mod postings;
mod ranges;
mod reader;
mod render;
mod rows;
mod streams;
mod table;
mod term;
mod text_index;
#[doc(hidden)]
pub mod thrift;
mod tokenizer;
mod unique_keys;
mod unpack;
mod values;
mod writer;

pub(crate) use frostline_base::bytes_codec;

pub use analysis::{Analysis, Asked, DEFINITIONS_BYTES_MAX, Definitions, Steps, Word};
pub use byte_counts::{ByteCounts, FieldBytes, SplitBytes};
pub use column_lists::{ColumnList, ColumnListRead};
pub use columns::{ColumnRead, KnownTexts, TextAs};
pub use dictionary::{
    Dictionary, EXACT_BYTES_MAX, EXACT_PREFIX_BYTES, Entry, HeldText, TextKey, UnpackedBlock, exact_key,
    ip_key, is_hashed,
};
pub use digest::{BUCKET_US, Digest, DigestValue, MINUTE_US, Numbers, Squares, ValueCount, ValueCounts};
pub use distribution::{
    BucketCounts, DISTRIBUTION_COUNT_MIN, DISTRIBUTION_ERROR, Distribution, bucket, gamma_ln,
};
pub use document::{Document, Limits, PathId, Value, parse_document};
pub use documents::DocumentRead;
pub use dynamic::DynamicPairs;
pub use fields::Wanted;
pub use footer::{Bounds, FORMAT_VERSION, FORMAT_VERSION_OLDEST, PageBounds, SplitField};
pub use frostline_base::{Error, Result};
pub use identities::{ID_BYTES_MAX, Identity};
pub use mapping::{
    Analyses, Conflict, DYNAMIC_COLUMN, Field, FieldType, ID_COLUMN, Mapping, Mode, NANOS_COLUMN, Placement,
    RAW_COLUMN, RESIDUAL_COLUMN, Reading, Resolved, Rules, SEQ_NO_COLUMN, SHAPE_COLUMN, SOURCE_COLUMN,
    ShownSource, TIME_COLUMN, TIME_FIELD, Templated, VERSION_COLUMN, ValueType,
};
pub use origins::Origin;
pub use pack::{Pack, PackAbout, PackedFooter};
pub use pairs::PairKey;
pub use postings::{Postings, decode_postings};
pub use ranges::{RangeEnd, RangeEnds, RangeType, Span};
pub use reader::{Split, TimeRows};
pub use render::{DocumentRow, Parts, RENDERER_VERSION, Row, Shape, Shaper};
pub use rows::{RowBits, RowParts, row_numbers, row_parts, union};
pub use table::{Block, KeyRange, KeyRanges, Table};
pub use term::{ID_FIELD, TERMS_VERSION, TakeTerms, Term, each_term, phrase_terms, piece_terms};
pub use text_index::{
    CUT_START_BYTES, Form, Keys, PieceKeys, Says, TOKEN_BYTES_MAX, text_key, token_of_text, tokens_of_texts,
};
pub use tokenizer::{
    Phrase, Piece, Placed, Places, Tokenizer, analyze, contains_phrase, each_place, is_joiner, lower,
    phrase_words, query_pieces, query_tokens, tokenize,
};
pub use unique_keys::check_unique_keys;
pub use values::{
    Moment, epoch_unit_ns, ip_address, ip_text, number_text, parse_big, parse_cidr, parse_date, parse_ip,
    parse_moment, parse_moment_field, parse_time_field, value_token,
};
pub use writer::{ColumnStats, DocumentForm, PartBytes, Sealed, SplitWriter, StatValue, WriterOptions};
