//! Where an index has the answers that machines share: objects below its folder that no version names.
//!
//! They may be missing, damaged or old, and are written again by whoever needs them. A vacuum deletes old ones.

use object_store::ObjectMeta;

const FOLDER: &str = "_answers/";
/// So long after it was written an object of shared answers stays. What is asked often is written again.
const KEEP_MS: i64 = 7 * 24 * 3_600_000;

/// The key of the answers to a question, in the index that has the split with this key.
pub fn answers_key(split_key: &str, question: u128) -> String {
    // A split is two folders below its index: the beginning of its identity, and the index.
    let index = split_key.rsplitn(3, '/').nth(2).unwrap_or_default();
    format!("{index}/{FOLDER}{question:032x}")
}

/// Whether a path below an index is of shared answers.
pub(crate) fn is_path(below: &str) -> bool {
    let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    below.strip_prefix(FOLDER).is_some_and(|name| name.len() == 32 && name.bytes().all(is_digit))
}

/// Whether they are old.
pub(crate) fn are_old(object: &ObjectMeta, now_ms: i64) -> bool {
    now_ms.saturating_sub(object.last_modified.timestamp_millis()) >= KEEP_MS
}
