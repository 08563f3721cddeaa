//! Which tokens a text has, by the table in the tokenizer's documentation.

use std::collections::BTreeSet;

/// Lower case, letter by letter.
pub(crate) fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// A word, and how loosely it is joined to the word before it.
struct Word {
    text: String,
    /// What stands between it and the word before.
    joiner: String,
    single: bool,
}

/// Runs of words with only joiners between them.
fn runs(text: &str) -> Vec<Vec<Word>> {
    let mut runs: Vec<Vec<Word>> = vec![Vec::new()];
    let (mut joiner, mut letters) = (String::new(), String::new());
    let end = |runs: &mut Vec<Vec<Word>>, letters: &mut String, joiner: &mut String, single: bool| {
        if letters.is_empty() {
            return;
        }
        let level = joiner.chars().map(level).max().unwrap_or(0);
        let too_far = joiner.chars().count() > if level >= 4 { 5 } else { 2 };
        if too_far && runs.last().is_some_and(|run| !run.is_empty()) {
            runs.push(Vec::new());
        }
        if let Some(run) = runs.last_mut() {
            run.push(Word { text: std::mem::take(letters), joiner: std::mem::take(joiner), single });
        }
    };
    for c in lower(text).chars() {
        if is_single(c) {
            end(&mut runs, &mut letters, &mut joiner, false);
            letters.push(c);
            end(&mut runs, &mut letters, &mut joiner, true);
        } else if is_letter(c) {
            letters.push(c);
        } else {
            end(&mut runs, &mut letters, &mut joiner, false);
            if level(c) > 0 {
                joiner.push(c);
            } else {
                joiner.clear();
                runs.push(Vec::new());
            }
        }
    }
    end(&mut runs, &mut letters, &mut joiner, false);
    runs.retain(|run| !run.is_empty());
    runs
}

fn level(joiner: char) -> u8 {
    match joiner {
        '.' | '-' | '+' | '~' | '$' | '%' | '#' => 1,
        '@' => 2,
        ':' => 3,
        '/' | '\\' => 4,
        '=' => 5,
        '&' | '?' => 6,
        _ => 0,
    }
}

fn is_single(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{30FA}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' | '\u{1F300}'..='\u{1FAFF}')
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || ('\u{300}'..='\u{36F}').contains(&c)
}

fn joined(words: &[Word]) -> String {
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            text.push_str(&word.joiner);
        }
        text.push_str(&word.text);
    }
    text
}

/// Every token of a text: words, and at each level of joiners what they hold together.
pub(crate) fn tokens(text: &str) -> BTreeSet<String> {
    let mut tokens = BTreeSet::new();
    for run in runs(text) {
        let levels: Vec<u8> =
            run.iter().map(|word| word.joiner.chars().map(level).max().unwrap_or(0)).collect();
        for at in 0..run.len() {
            tokens.insert(run[at].text.clone());
        }
        for level in 0..=6 {
            let mut start = 0;
            for at in 1..=run.len() {
                if at == run.len() || levels[at] > level {
                    if levels[start + 1..at].contains(&level) {
                        tokens.insert(joined(&run[start..at]));
                    }
                    start = at;
                }
            }
        }
    }
    tokens
}

/// The tokens that a query text asks for, each once.
pub(crate) fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for run in runs(text) {
        let own: Vec<String> = match run.iter().any(|word| word.single) {
            true => run.into_iter().map(|word| word.text).collect(),
            false => vec![joined(&run)],
        };
        pieces.extend(own);
    }
    let mut seen = BTreeSet::new();
    pieces.retain(|piece| seen.insert(piece.clone()));
    pieces
}

/// The words of a text.
pub(crate) fn words(text: &str) -> Vec<String> {
    runs(text).into_iter().flatten().map(|word| word.text).collect()
}

/// Whether the words of a phrase stand one after another in a text.
pub(crate) fn has_phrase(text: &str, phrase: &str, prefix_last: bool) -> bool {
    let (text, phrase) = (words(text), words(phrase));
    let Some((last, head)) = phrase.split_last() else { return false };
    text.windows(phrase.len()).any(|window| {
        let end = &window[head.len()];
        window[..head.len()] == *head && (end == last || (prefix_last && end.starts_with(last.as_str())))
    })
}

/// Whether a text is as a pattern of `*` and `?` says.
pub(crate) fn is_like(text: &str, pattern: &str, any: char, one: char) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    // For each place of the text, whether the pattern read so far ends there.
    let mut ends = vec![false; text.len() + 1];
    ends[0] = true;
    for p in pattern {
        let mut next = vec![false; text.len() + 1];
        if p == any {
            let first = ends.iter().position(|end| *end).unwrap_or(ends.len());
            next.iter_mut().skip(first).for_each(|end| *end = true);
        } else {
            for at in 0..text.len() {
                next[at + 1] = ends[at] && (p == one || p == text[at]);
            }
        }
        ends = next;
    }
    ends[text.len()]
}
