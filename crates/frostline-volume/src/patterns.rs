//! Patterns for names and paths, as in restic's `--exclude`.

use glob::{MatchOptions, Pattern};

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
