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
    /// The joiners behind the last word of a run.
    tail: String,
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
            close(runs, joiner);
            runs.push(Vec::new());
        }
        if let Some(run) = runs.last_mut() {
            let (text, joiner) = (std::mem::take(letters), std::mem::take(joiner));
            run.push(Word { text, joiner, tail: String::new(), single });
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
                close(&mut runs, &joiner);
                joiner.clear();
                runs.push(Vec::new());
            }
        }
    }
    end(&mut runs, &mut letters, &mut joiner, false);
    close(&mut runs, &joiner);
    runs.retain(|run| !run.is_empty());
    runs
}

fn close(runs: &mut [Vec<Word>], joiner: &str) {
    if let Some(last) = runs.last_mut().and_then(|run| run.last_mut()) {
        last.tail = joiner.to_owned();
    }
}

fn level(joiner: char) -> u8 {
    match joiner {
        '.' | '-' | '+' | '~' | '$' | '%' => 1,
        '@' | '#' => 2,
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
        for word in &run {
            tokens.insert(word.text.clone());
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

/// What a pattern is compared with: tokens, and wholes with the joiners around them.
pub(crate) fn forms(text: &str) -> BTreeSet<String> {
    let mut forms = tokens(text);
    for run in runs(text) {
        if let (Some(first), Some(last)) = (run.first(), run.last()) {
            forms.insert(format!("{}{}{}", first.joiner, joined(&run), last.tail));
        }
    }
    forms
}

/// Whether a piece stands in a text where words begin and end; with `open_ended` something that starts with it.
pub(crate) fn has_piece(text: &str, piece: &str, open_ended: bool) -> bool {
    runs(text).iter().any(|run| {
        (0..run.len()).any(|start| match open_ended {
            true => joined(&run[start..]).starts_with(piece),
            false => (start..run.len()).any(|end| joined(&run[start..=end]) == piece),
        })
    })
}

/// Whether a text has characters that are words by themselves.
pub(crate) fn has_singles(text: &str) -> bool {
    text.chars().any(is_single)
}

/// The pieces of a query text, each once, with what is written there for values that are not text.
pub(crate) fn written(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for part in text.split_whitespace() {
        let of_part = pieces(part);
        let bare = part.trim_matches(|c| "\"'`()[]{}<>,;!|*^".contains(c)).to_owned();
        let is_one = runs(part)
            .iter()
            .map(|run| if run.iter().any(|word| word.single) { run.len() } else { 1 })
            .sum::<usize>()
            == 1;
        for piece in of_part {
            let written = if is_one { bare.clone() } else { piece.clone() };
            if all.iter().all(|(known, _)| *known != piece) {
                all.push((piece, written));
            }
        }
    }
    all
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
