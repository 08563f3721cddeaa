//! The words of texts that are compared by an analysis, and what is asked for among them.

use std::collections::BTreeSet;
use std::ops::Range;

use frostline_split::{Analysis, Asked, Word};

use super::pattern::Pattern;

/// Whether a word of a text is one of those that are asked for, or begins with one.
pub(crate) fn is_one_of(own: &Word<'_>, words: &BTreeSet<String>, is_start: bool) -> bool {
    match is_start {
        true => words.iter().any(|word| own.text.starts_with(word.as_str())),
        false => words.contains(own.text.as_ref()),
    }
}

/// Where in a text there is what a phrase asks for, as far from one another.
pub(crate) fn phrases<'w>(
    own: &'w [Word<'_>],
    phrase: &'w [Asked],
    prefix_last: bool,
) -> impl Iterator<Item = Range<usize>> + 'w {
    let places = own.last().map_or(0, |last| last.at + 1);
    let first = phrase.first().map_or(usize::MAX, |first| first.at);
    // Of each place, where its words begin: several may be at one.
    let mut begins = vec![own.len(); places];
    for (number, word) in own.iter().enumerate().rev() {
        begins[word.at] = number;
    }
    let word_at = move |place: usize, asked: &Asked, is_start: bool| {
        let words = own.get(*begins.get(place)?..)?;
        let mut words = words.iter().take_while(|word| word.at == place);
        words.find(|word| is_one_of(word, &asked.words, is_start))
    };
    let starts = if phrase.is_empty() { 0 } else { places };
    (0..starts).filter_map(move |start| {
        let mut whole: Option<Range<usize>> = None;
        for (number, asked) in phrase.iter().enumerate() {
            let is_start = prefix_last && number + 1 == phrase.len();
            let word = word_at(start + asked.at - first, asked, is_start)?;
            let known = whole.unwrap_or_else(|| word.place.clone());
            whole = Some(known.start.min(word.place.start)..known.end.max(word.place.end));
        }
        whole
    })
}

/// A pattern of words that an analysis makes: what it does to characters is done to those of the pattern, too. A regular
/// expression says itself which they are.
pub(crate) fn folded(pattern: &Pattern, analysis: &Analysis) -> Pattern {
    match pattern {
        Pattern::Prefix(start) => Pattern::Prefix(analysis.fold(start).into_owned()),
        Pattern::Regex(regex) => Pattern::Regex(regex.clone()),
        Pattern::Wildcard(wildcard) => {
            let (mut written, mut literal) = (String::new(), String::new());
            let mut characters = wildcard.chars();
            while let Some(c) = characters.next() {
                if !matches!(c, '*' | '?' | '\\') {
                    literal.push(c);
                    continue;
                }
                written.push_str(&analysis.fold(&literal));
                literal.clear();
                written.push(c);
                written.extend((c == '\\').then(|| characters.next()).flatten());
            }
            written.push_str(&analysis.fold(&literal));
            Pattern::Wildcard(written)
        }
    }
}

#[cfg(test)]
mod tests;
