//! The only writer: parses files and streams into documents, writes documents to splits, and commits
//! splits.
//!
//! [`Inputs`] are what is read, [`Format`] is how its lines are parsed, and [`Ingest`] writes them to an index, once or
//! as files grow. Every document is ingested exactly once, however often a run is stopped and restarted, in bounded
//! memory.
//! [`Live`] appends what clients send and acknowledges it once it is stored, [`Edits`] replaces and deletes documents by `_id`, and [`Upkeep`] keeps the indices in shape meanwhile.
//! [`Forward`] reads files in the same way for who delivers their documents elsewhere.
//! [`otlp`] and [`syslog`] are what others send in protocols of their own.
//! [`Merge`] replaces many small splits with few large ones. [`Needles`] are the needle segments of an index, which are
//! written with its splits. User guide: `docs/ingest.md`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod blocks;
mod content;
mod decompress;
mod documents;
mod exchange;
mod identity;
mod inputs;
mod json;
mod lines;
mod live;
mod merge;
mod needle;
pub mod otlp;
mod packs;
mod pipeline;
mod rejects;
mod seal;
mod settings;
pub mod syslog;
mod times;

pub use decompress::{Compression, decompress};
pub use frostline_base::{Error, Result};
pub use inputs::{Input, Inputs, Own, Skipped};
pub use lines::{CsvHeader, Format, LineParser, Multiline, Refusal};
pub use live::{
    Action, Append, Appended, Changed, Edit, Edited, Edits, Expected, FindIds, Kept, Live, LiveFigures,
    LiveOptions, Make, Operation, Outcome, RESTORED_STAYS, Removal, Removed, Update, Upkeep, UpkeepCounts,
    UpkeepFigures, UpkeepOptions, expired, own_retention, retaining, retention, retention_ms, set_lifecycle,
    set_retention, set_stream_retention,
};
pub use merge::{Group, Merge, MergeCounts, MergeFigures, MergePolicy, MergeProgress, MergeReport, Merging};
pub use needle::{Needles, Rebuilt, SegmentState, SegmentStatus, Status, Unread, Verified};
pub use packs::PACK_SPLITS_MIN;
pub use pipeline::{
    Also, Batch, Birth, Cancel, Deliver, Delivery, Forward, ForwardOptions, ForwardReport, Ingest,
    IngestOptions, IngestReport, InputReport, KnownInput, Pause, Progress, Random, Reached,
};
pub use rejects::{Reject, Rejects};
