//! Text for and from people: sizes with units, counts with nouns, tables, progress, terminal output, output
//! files, the common frame and style of HTML pages, and suggestions for mistyped names.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod html;
mod nearest;
mod output;
mod page;
mod progress;
mod size;
mod table;
mod terminal;

pub use html::escape_html;
pub use nearest::{nearest, suggestion};
pub use output::{OutputFile, replace, sync_entry};
pub use page::{PAGE_TAIL, page_head};
pub use progress::{byte_progress, end_progress, is_in_background, item_progress, share_progress};
pub use size::{SizeError, grouped, parse_bytes, show_bytes, show_count};
pub use table::{Table, printable};
pub use terminal::{Notes, hangup_is_ignored, json_line, say_json, say_json_of, write_line, write_note};
