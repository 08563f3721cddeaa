//! Patterns of names.

/// Whether a text matches a pattern, in which `*` stands for any text (also none, also dots).
pub fn wildcard_matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    // Taking the first match of a middle piece leaves the most text for the pieces after it.
    for piece in middle.split('*') {
        match left.split_once(piece) {
            Some((_, after)) => left = after,
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Slow and plain.
    fn matches_by_trying(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => (0..=text.len()).any(|at| matches_by_trying(rest, &text[at..])),
            (Some((p, rest)), Some((t, after))) => p == t && matches_by_trying(rest, after),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn wildcards_match_as_by_trying(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
            let expected = matches_by_trying(pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(wildcard_matches(&pattern, &text), expected);
        }
    }
}
