//! Suggestions for mistyped names.

/// The known name most similar to `word`, if it is similar enough to be a likely typo.
///
/// Letter case is ignored, and two swapped neighbouring letters are one mistake.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let mistakes_max = |name: &str| (word.chars().count().max(name.chars().count()) / 3).max(1);
    known
        .into_iter()
        .map(|name| (strsim::osa_distance(&word, &name.to_lowercase()), name))
        .filter(|(mistakes, name)| *mistakes <= mistakes_max(name) && *mistakes < name.chars().count())
        .min_by_key(|(mistakes, _)| *mistakes)
        .map(|(_, name)| name)
}

/// `` ; did you mean `x`? ``, or the list of known names if none is similar.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None if known.is_empty() => "; none is known".to_owned(),
        None => format!("; known: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_finds_the_one_that_was_meant() {
        let known = ["bytes", "response", "@timestamp", "user.id"];
        for (word, meant) in [
            ("byts", Some("bytes")),
            ("BYTES", Some("bytes")),
            ("repsonse", Some("response")),
            ("timestamp", Some("@timestamp")),
            ("userid", Some("user.id")),
            ("latitude", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }

    #[test]
    fn where_nothing_is_near_all_names_are_listed() {
        assert_eq!(suggestion("gp2", ["gp3", "st1"]), "; did you mean `gp3`?");
        assert_eq!(suggestion("quite-another", ["gp3", "st1"]), "; known: gp3, st1");
        assert_eq!(suggestion("x", []), "; none is known");
    }
}
