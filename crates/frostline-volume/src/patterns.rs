//! Patterns for names and paths, as in restic's `--exclude`.

use frostline_base::{Error, Result};
use glob::{MatchOptions, Pattern};

/// `Invalid` where a pattern means something else here than in restic.
pub(crate) fn check<'a>(patterns: impl IntoIterator<Item = &'a Pattern>) -> Result<()> {
    let is_other = |pattern: &&Pattern| ["\\", "[^", "[!"].iter().any(|part| pattern.as_str().contains(part));
    match patterns.into_iter().find(is_other) {
        None => Ok(()),
        Some(pattern) => Err(Error::invalid(format!(
            "the pattern {} has a backslash, [^ or [!: write [*] for a star, and ? for any character",
            pattern.as_str()
        ))),
    }
}

/// Whether a pattern matches a path below a directory: at any depth, or from the directory on if it begins with `/`.
pub(crate) fn matches(pattern: &Pattern, path: &[u8]) -> bool {
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    let path = format!("/{}", String::from_utf8_lossy(path));
    match pattern.as_str().starts_with('/') {
        true => pattern.matches_with(&path, options),
        false => path.match_indices('/').any(|(at, _)| pattern.matches_with(&path[at + 1..], options)),
    }
}

#[cfg(test)]
mod tests;
