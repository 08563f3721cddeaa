//! The text analysis "default": which tokens a text is found by.
//!
//! Text is lower-cased. A *word* is a maximal run of letters, digits, `_` and combining marks. Words
//! next to each other with only joiners between them form larger tokens, by the loosest joiner in
//! them, from tight to loose:
//!
//! | joiners           | example                            | level    |
//! |-------------------|------------------------------------|----------|
//! | `. - + ~ $ % #`   | `powershell.exe`, `10.0.0.1`       | compound |
//! | `@`               | `alice@example.com`                | compound |
//! | `:`               | `10.0.0.1:443`, `fe80::1`          | compound |
//! | `/ \`             | `c:\windows\system32`, `10.0.0.0/8`| whole    |
//! | `=`               | `user=alice`, `path=c:\windows`    | whole    |
//! | `& ?`             | `https://h/p?user=alice&x=1`       | whole    |
//!
//! Every level is indexed, so the last example is found by `https://h/p`, `user=alice` and `alice`.
//! Two joiners in a row still join (`fe80::1`), five where one is a slash (`c:\\windows`). Everything
//! else (white space, quotes, brackets, `, ; | < > ! * ^`) separates, and so does leading and trailing
//! punctuation.
//!
//! Guarantees:
//!
//! - A piece of a text between two white spaces, taken as a query ([`query_tokens`]), finds the text.
//! - A text that [`contains_phrase`] has every one of [`phrase_tokens`].
//! - Chinese, Japanese and Korean characters and emoji are words of one character each, and a query
//!   that has any is looked up by its words. So any part of such a text finds it; texts with the same
//!   characters elsewhere are found too, which a phrase rules out.
//! - A token has at most [`TOKEN_BYTES_MAX`] bytes; a longer one is cut and ends in its hash.
//!
//! Not done: Unicode normalisation (a composed and a decomposed `é` differ), stemming, and word
//! boundaries of languages that write none, such as Thai.

use xxhash_rust::xxh3::xxh3_64;

/// No token is longer.
pub const TOKEN_BYTES_MAX: usize = 64;

/// What is kept of a longer token, before the 16 hexadecimal digits of its hash.
const CUT_BYTES: usize = 48;

/// Calls `emit` with every token of a text, at every level; a token that occurs twice comes twice.
pub fn tokenize(text: &str, emit: impl FnMut(&str)) {
    Tokenizer::new().tokenize(text, emit);
}

/// The tokens that a query text is looked up by, all of which a text must have: each piece between
/// separators is one token, or its words where it has characters that are words by themselves. Empty
/// where the text is only punctuation.
pub fn query_tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut tokenizer = Tokenizer::new();
    tokenizer.each_chunk(text, |chunk| {
        if chunk.has_singles() {
            chunk.words().for_each(|word| add_capped(&mut tokens, word));
        } else {
            add_capped(&mut tokens, chunk.whole());
        }
    });
    tokens
}

/// Whether the words of `phrase` stand one after the other among the words of `text`, whatever the
/// case and whatever stands between the words. A phrase without words is in no text.
pub fn contains_phrase(text: &str, phrase: &str) -> bool {
    Phrase::new(phrase).is_in(text)
}

/// Tokens that every text has that contains the phrase: its words, each once.
pub fn phrase_tokens(phrase: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    Phrase::new(phrase).words.iter().for_each(|word| add_capped(&mut tokens, word));
    tokens
}

/// [`tokenize`] with buffers that are used again for the next text.
#[derive(Debug, Default)]
pub struct Tokenizer {
    lower: String,
    words: Vec<Word>,
    capped: String,
}

/// A phrase made ready to be looked for in many texts; see [`contains_phrase`].
#[derive(Debug)]
pub struct Phrase {
    words: Vec<String>,
    /// For each word, how many words before and with it are also the start of the phrase.
    borders: Vec<usize>,
    /// What the word after the last of `words` starts with.
    tail: Option<String>,
    tokenizer: Tokenizer,
}

impl Tokenizer {
    /// Empty buffers.
    pub fn new() -> Tokenizer {
        Tokenizer::default()
    }

    /// See [`tokenize`].
    pub fn tokenize(&mut self, text: &str, mut emit: impl FnMut(&str)) {
        let mut capped = std::mem::take(&mut self.capped);
        self.each_chunk(text, |chunk| chunk.each_token(|token| emit(cap(token, &mut capped))));
        self.capped = capped;
    }

    fn each_chunk(&mut self, text: &str, mut visit: impl FnMut(&Chunk<'_>)) {
        lower_into(text, &mut self.lower);
        let mut at = 0;
        while let Some((end, levels)) = next_chunk(&self.lower, at, &mut self.words) {
            visit(&Chunk { text: &self.lower, words: &self.words, levels });
            at = end;
        }
    }
}

impl Phrase {
    /// Splits the phrase into its words.
    pub fn new(phrase: &str) -> Phrase {
        let mut words = Vec::new();
        let mut tokenizer = Tokenizer::new();
        tokenizer.each_chunk(phrase, |chunk| words.extend(chunk.words().map(str::to_owned)));
        Phrase { borders: borders(&words), words, tail: None, tokenizer }
    }

    /// Splits a phrase whose last word may be only the start of one.
    pub fn with_prefix(phrase: &str) -> Phrase {
        let mut phrase = Phrase::new(phrase);
        phrase.tail = phrase.words.pop();
        phrase.borders = borders(&phrase.words);
        phrase
    }

    /// Whether it has no words, and so is in no text.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.tail.is_none()
    }

    /// Whether the text contains it, in time linear in the text.
    pub fn is_in(&mut self, text: &str) -> bool {
        let Phrase { words, borders, tail, tokenizer } = self;
        let (mut matched, mut found) = (0, false);
        // Whether the words just before are all of `words`.
        let mut led = words.is_empty();
        tokenizer.each_chunk(text, |chunk| {
            for word in chunk.words() {
                found |= led && tail.as_deref().is_some_and(|tail| word.starts_with(tail));
                led = words.is_empty() || step(words, borders, &mut matched, word);
                found |= led && tail.is_none() && !words.is_empty();
            }
        });
        found
    }
}

/// One word of a text.
#[derive(Clone, Copy, Debug)]
struct Word {
    start: usize,
    end: usize,
    /// The loosest joiner between it and the word before, [`ADJACENT`] where nothing is between.
    before: u8,
    /// A character that is a word by itself.
    is_single: bool,
}

/// Words that only joiners stand between.
struct Chunk<'a> {
    text: &'a str,
    words: &'a [Word],
    /// A bit for each level that joins two of the words.
    levels: u8,
}

impl<'a> Chunk<'a> {
    fn words(&self) -> impl Iterator<Item = &'a str> {
        let text = self.text;
        self.words.iter().map(move |word| between(text, word, word))
    }

    fn whole(&self) -> &'a str {
        match self.words {
            [first, .., last] => between(self.text, first, last),
            [only] => between(self.text, only, only),
            [] => "",
        }
    }

    fn has_singles(&self) -> bool {
        self.words.iter().any(|word| word.is_single)
    }

    /// Every word, and at every level every group of words that a joiner of that level holds together.
    fn each_token(&self, mut emit: impl FnMut(&'a str)) {
        self.words().for_each(&mut emit);
        let mut levels = self.levels;
        while levels != 0 {
            self.each_group(levels.trailing_zeros() as u8, &mut emit);
            levels &= levels - 1;
        }
    }

    fn each_group(&self, level: u8, mut emit: impl FnMut(&'a str)) {
        for group in self.words.chunk_by(|_, next| next.before <= level) {
            if let [first, rest @ ..] = group
                && let Some(last) = rest.last()
                && rest.iter().any(|word| word.before == level)
            {
                emit(between(self.text, first, last));
            }
        }
    }
}

/// What a byte of lower-cased text is: a joiner's level, or one of the kinds below.
const ADJACENT: u8 = 0;
const SLASH: u8 = 4;
const SEPARATOR: u8 = 7;
const WORD: u8 = 8;
const SINGLE: u8 = 9;
const BEYOND_ASCII: u8 = 10;

const KINDS: [u8; 256] = kinds();

const fn kinds() -> [u8; 256] {
    let mut kinds = [SEPARATOR; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => WORD,
            b'.' | b'-' | b'+' | b'~' | b'$' | b'%' | b'#' => 1,
            b'@' => 2,
            b':' => 3,
            b'/' | b'\\' => SLASH,
            b'=' => 5,
            b'&' | b'?' => 6,
            128.. => BEYOND_ASCII,
            _ => SEPARATOR,
        };
        byte += 1;
    }
    kinds
}

/// Finds the next chunk at or after `at`, its words into `words`; where it ends, and the levels in it.
fn next_chunk(text: &str, mut at: usize, words: &mut Vec<Word>) -> Option<(usize, u8)> {
    words.clear();
    let (mut joiner, mut joiners, mut levels) = (ADJACENT, 0, 0);
    while let Some((kind, bytes)) = kind_at(text, at) {
        match kind {
            WORD | SINGLE => {
                let end = if kind == WORD { word_end(text, at + bytes) } else { at + bytes };
                if !words.is_empty() {
                    levels |= 1 << joiner;
                }
                words.push(Word { start: at, end, before: joiner, is_single: kind == SINGLE });
                (joiner, joiners) = (ADJACENT, 0);
                at = end;
                continue;
            }
            _ if words.is_empty() => {}
            SEPARATOR => break,
            level => {
                joiner = joiner.max(level);
                joiners += 1;
                if joiners > if joiner >= SLASH { 5 } else { 2 } {
                    break;
                }
            }
        }
        at += bytes;
    }
    (!words.is_empty()).then_some((at, levels))
}

fn kind_at(text: &str, at: usize) -> Option<(u8, usize)> {
    match KINDS[usize::from(*text.as_bytes().get(at)?)] {
        BEYOND_ASCII => text.get(at..)?.chars().next().map(|c| (kind_beyond_ascii(c), c.len_utf8())),
        kind => Some((kind, 1)),
    }
}

fn word_end(text: &str, mut at: usize) -> usize {
    loop {
        let rest = text.as_bytes().get(at..).unwrap_or_default();
        at += rest.iter().take_while(|byte| KINDS[usize::from(**byte)] == WORD).count();
        match kind_at(text, at) {
            Some((WORD, bytes)) => at += bytes,
            _ => return at,
        }
    }
}

fn kind_beyond_ascii(c: char) -> u8 {
    if is_single(c) {
        SINGLE
    } else if c.is_alphanumeric() || is_mark(c) {
        WORD
    } else {
        SEPARATOR
    }
}

/// Han, Kana, Hangul syllables, and emoji with the symbols around them.
fn is_single(c: char) -> bool {
    matches!(u32::from(c),
        0x2190..=0x23FF | 0x2600..=0x27BF | 0x2B00..=0x2BFF
        | 0x3005..=0x3007 | 0x3041..=0x309F | 0x30A1..=0x30FA | 0x30FC..=0x312F | 0x31F0..=0x31FF
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFF66..=0xFF9F
        | 0x1F000..=0x1FAFF | 0x20000..=0x3FFFF)
}

/// Combining marks that Unicode does not count as letters: without them words would fall apart.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c),
        0x0300..=0x036F | 0x0483..=0x0487 | 0x0591..=0x05AF
        | 0x0900..=0x0963 | 0x0966..=0x096F | 0x0971..=0x0DFF
        | 0x0E31 | 0x0E34..=0x0E3A | 0x0E47..=0x0E4E
        | 0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x20D0..=0x20FF | 0xFE20..=0xFE2F)
}

fn lower_into(text: &str, lower: &mut String) {
    lower.clear();
    if text.is_ascii() {
        lower.push_str(text);
        lower.make_ascii_lowercase();
    } else {
        // Character by character, so that a word's neighbours never change how it is written.
        lower.extend(text.chars().flat_map(char::to_lowercase));
    }
}

fn between<'a>(text: &'a str, first: &Word, last: &Word) -> &'a str {
    // Words start and end at characters, so the range is always there.
    text.get(first.start..last.end).unwrap_or_default()
}

fn cap<'a>(token: &'a str, capped: &'a mut String) -> &'a str {
    if token.len() <= TOKEN_BYTES_MAX {
        return token;
    }
    capped.clear();
    capped.push_str(token.get(..token.floor_char_boundary(CUT_BYTES)).unwrap_or_default());
    let hash = xxh3_64(token.as_bytes());
    let digits = (0..16).rev().map(|digit| (hash >> (4 * digit) & 15) as u8);
    capped.extend(digits.map(|digit| char::from(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 })));
    capped
}

/// Adds a token that is not there yet.
fn add_capped(tokens: &mut Vec<String>, token: &str) {
    let mut capped = String::new();
    let token = cap(token, &mut capped);
    if !tokens.iter().any(|known| known == token) {
        tokens.push(token.to_owned());
    }
}

fn borders(words: &[String]) -> Vec<usize> {
    let mut borders = vec![0; words.len()];
    let mut matched = 0;
    for at in 1..words.len() {
        while matched > 0 && words[at] != words[matched] {
            matched = borders[matched - 1];
        }
        matched += usize::from(words[at] == words[matched]);
        borders[at] = matched;
    }
    borders
}

/// Takes one more word of a text in; says whether the phrase ends with it.
fn step(words: &[String], borders: &[usize], matched: &mut usize, word: &str) -> bool {
    while *matched > 0 && words.get(*matched).is_none_or(|wanted| wanted != word) {
        *matched = borders[*matched - 1];
    }
    *matched += usize::from(words.get(*matched).is_some_and(|wanted| wanted == word));
    !words.is_empty() && *matched == words.len()
}

#[cfg(test)]
mod tests;
