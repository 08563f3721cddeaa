//! Highlights the words of a query in the documents that it found, on a terminal.

use std::collections::HashSet;
use std::io::IsTerminal;

const MARKED: &str = "\u{1b}[1;31m";
const PLAIN: &str = "\u{1b}[0m";

/// The words of a query string.
#[derive(Debug, Default)]
pub(crate) struct Highlight {
    words: HashSet<String>,
    prefixes: Vec<String>,
}

impl Highlight {
    /// Highlights the words of `query` if standard output is a terminal that may be coloured, else nothing.
    pub(crate) fn of(query: Option<&str>) -> Highlight {
        let coloured = std::io::stdout().is_terminal()
            && crate::allows_color(std::env::var_os("NO_COLOR"))
            && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb");
        query.filter(|_| coloured).map_or_else(Highlight::default, Highlight::words)
    }

    fn words(query: &str) -> Highlight {
        let mut highlight = Highlight::default();
        let mut negated = false;
        for clause in query.split_whitespace() {
            let is_negation = matches!(clause, "NOT" | "!");
            let value = clause.trim_start_matches(['(', '+']);
            if !negated
                && !is_negation
                && !value.starts_with(['-', '!'])
                && !matches!(value, "AND" | "OR" | "TO")
            {
                highlight.add(value.split_once(':').map_or(value, |(_, value)| value));
            }
            negated = is_negation;
        }
        highlight
    }

    fn add(&mut self, value: &str) {
        for (word, next) in words(value) {
            match next {
                Some('*') => self.prefixes.push(word.to_lowercase()),
                _ => {
                    self.words.insert(word.to_lowercase());
                }
            }
        }
    }

    /// The text of a document with the words highlighted.
    pub(crate) fn mark(&self, text: &str) -> String {
        if self.words.is_empty() && self.prefixes.is_empty() {
            return text.to_owned();
        }
        let mut marked = String::with_capacity(text.len() + 64);
        let mut end = 0;
        for (word, _) in words(text) {
            let start = word.as_ptr() as usize - text.as_ptr() as usize;
            marked.push_str(&text[end..start]);
            end = start + word.len();
            if self.finds(word) {
                marked.push_str(MARKED);
                marked.push_str(word);
                marked.push_str(PLAIN);
            } else {
                marked.push_str(word);
            }
        }
        marked.push_str(&text[end..]);
        marked
    }

    fn finds(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        self.words.contains(&word) || self.prefixes.iter().any(|prefix| word.starts_with(prefix))
    }
}

/// The runs of letters, digits and underscores of a text, each with the character after it. What follows a backslash,
/// as in the JSON text `\n`, belongs to no word.
fn words(text: &str) -> impl Iterator<Item = (&str, Option<char>)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        loop {
            let start = rest.find(|c| is_word(c) || c == '\\')?;
            let from = &rest[start..];
            if let Some(escaped) = from.strip_prefix('\\') {
                rest = escaped.strip_prefix(['n', 't', 'r', 'b', 'f', '"', '\\']).unwrap_or(escaped);
                continue;
            }
            let end = from.find(|c| !is_word(c)).unwrap_or(from.len());
            let (word, after) = from.split_at(end);
            rest = after;
            return Some((word, after.chars().next()));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_no_color_allows_colors() {
        for (value, allows) in [(None, true), (Some(""), true), (Some("0"), false), (Some("1"), false)] {
            assert_eq!(crate::allows_color(value.map(Into::into)), allows, "{value:?}");
        }
    }

    fn marked(query: &str, text: &str) -> String {
        Highlight::words(query).mark(text).replace(MARKED, "<").replace(PLAIN, ">")
    }

    #[test]
    fn words_of_the_query_are_marked_and_parts_of_words_are_not() {
        assert_eq!(marked("error", r#"{"m":"Error: terror\nerror"}"#), r#"{"m":"<Error>: terror\n<error>"}"#);
        assert_eq!(
            marked("level:warn* AND (code:7 OR x)", "AND warning 7 77 level"),
            "AND <warning> <7> 77 level"
        );
        assert_eq!(marked("a NOT b -c !d", "a b c d"), "<a> b c d");
        assert_eq!(marked("\"Grüße an\" alle", "grüße, an Ölle"), "<grüße>, <an> Ölle");
        assert_eq!(marked("", "nothing"), "nothing");
    }
}
