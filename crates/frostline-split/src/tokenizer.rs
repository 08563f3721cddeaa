//! The text analysis "default": the tokens of a text, and the pieces of a query.
//!
//! Text is lower-cased. A *word* is a maximal run of letters, digits, `_` and combining marks. Adjacent
//! words with only joiners between them form larger tokens, by the loosest joiner between
//! them, from tight to loose:
//!
//! | joiners         | example                            | level    |
//! |-----------------|------------------------------------|----------|
//! | `. - + ~ $ %`   | `powershell.exe`, `10.0.0.1`       | compound |
//! | `@ #`           | `alice@example.com`                | compound |
//! | `:`             | `10.0.0.1:443`, `fe80::1`          | compound |
//! | `/ \`           | `c:\windows\system32`, `10.0.0.0/8`| whole    |
//! | `=`             | `user=alice`, `path=c:\windows`    | whole    |
//! | `& ?`           | `https://h/p?user=alice&x=1`       | whole    |
//!
//! A text has the tokens of every level, so the last example has `https://h/p`, `user=alice` and `alice`.
//! Two joiners in a row still join (`fe80::1`), five from the first of `/ \ = & ?` on (`c:\\windows`). Everything
//! else (white space, quotes, brackets, `, ; | < > ! * ^`) separates, and so does leading and trailing
//! punctuation.
//!
//! A query text is split into [`Piece`]s at the same separators. A piece matches a text that contains it
//! between word boundaries: `powershell.exe` in `v1.0-powershell.exe`, never `10.0.0.1`
//! in `10.0.0.12`.
//!
//! Guarantees:
//!
//! - Every piece of a text is in the text, and so is every token.
//! - A text that [`contains_phrase`] has every one of [`phrase_words`].
//! - Chinese, Japanese and Korean characters and emoji are words of one character each, and a query
//!   that has any is split into its words. So any part of such a text finds it; texts with the same
//!   characters elsewhere are found too, which a phrase excludes.
//!
//! Not supported: Unicode normalisation (a composed and a decomposed `é` differ), stemming, and word
//! boundaries of languages that write none, such as Thai.

mod places;

use std::ops::Range;

pub use places::{Places, each_place};

/// Joiners up to this level make compounds.
pub(crate) const COMPOUND: u8 = 3;
/// How many words a window has; see [`Chunk::each_part`].
const WINDOW_WORDS: [usize; 2] = [4, 2];
/// The words of a window are no longer.
const WINDOW_WORD_BYTES_MAX: usize = 3;

/// Calls `emit` with every token of a text, at every level; a token that occurs twice comes twice.
pub fn tokenize(text: &str, emit: impl FnMut(&str)) {
    Tokenizer::new().tokenize(text, emit);
}

/// A token of a text, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// In lower case.
    pub text: String,
    /// Where it begins in the text as it is written, in UTF-16 code units,
    pub start: usize,
    /// and where it ends.
    pub end: usize,
    /// How many words are before it.
    pub position: usize,
    /// How many words it has.
    pub words: usize,
    /// Whether joiners of compounds hold its words together, if it has several.
    pub is_compound: bool,
}

/// The tokens of a text in their order, at every level; where there are more than `tokens_max`, as many of them.
pub fn analyze(text: &str, tokens_max: usize) -> Vec<Placed> {
    let offsets = Offsets::of(text, char::len_utf16);
    let (mut tokens, mut position) = (Vec::new(), 0);
    Tokenizer::new().each_chunk(text, |chunk| {
        let begun = tokens.len();
        chunk.each_token(|token, level, words| {
            if let ([first, ..], [.., last], true) = (words, words, tokens.len() < tokens_max) {
                tokens.push(Placed {
                    text: token.to_owned(),
                    start: offsets.start(first.start),
                    end: offsets.end(last.end),
                    position: position + chunk.words.partition_point(|word| word.start < first.start),
                    words: words.len(),
                    is_compound: level <= COMPOUND,
                });
            }
        });
        if let Some(of_chunk) = tokens.get_mut(begun..) {
            of_chunk.sort_by_key(|token| (token.position, token.words));
        }
        position += chunk.words.len();
    });
    tokens
}

/// Where the characters of a text are in lower case, and where they are as they are written. Ends with the end of both.
struct Offsets(Vec<(usize, usize)>);

impl Offsets {
    /// `length` is that of a character as it is written.
    fn of(text: &str, length: impl Fn(char) -> usize) -> Offsets {
        let (mut lower, mut written, mut all) = (0, 0, Vec::new());
        for c in text.chars() {
            all.push((lower, written));
            lower += c.to_lowercase().map(char::len_utf8).sum::<usize>();
            written += length(c);
        }
        all.push((lower, written));
        Offsets(all)
    }

    /// Of the character that has this place in lower case.
    fn start(&self, lower: usize) -> usize {
        let after = self.0.partition_point(|(start, _)| *start <= lower);
        after.checked_sub(1).and_then(|at| self.0.get(at)).map_or(0, |(_, written)| *written)
    }

    /// Of the first character that begins there or after it.
    fn end(&self, lower: usize) -> usize {
        let at = self.0.partition_point(|(start, _)| *start < lower);
        self.0.get(at).or(self.0.last()).map_or(0, |(_, written)| *written)
    }
}

/// Text as it is compared: in lower case, each character by itself, so that a word's neighbours never
/// change how it is written.
pub fn lower(text: &str) -> String {
    let mut lower = String::new();
    lower_into(text, &mut lower);
    lower
}

/// The texts of [`query_pieces`].
pub fn query_tokens(text: &str) -> Vec<String> {
    query_pieces(text).into_iter().map(|piece| piece.text).collect()
}

/// What a query text is looked up by, each piece once, in the order of the text: what stands between
/// separators, or its words where it has characters that are words by themselves. Empty where the text is
/// only punctuation.
pub fn query_pieces(text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut tokenizer = Tokenizer::new();
    for part in text.split_whitespace() {
        let mut of_part = Vec::new();
        tokenizer.each_chunk(part, |chunk| {
            if chunk.has_singles() {
                of_part.extend(chunk.words.iter().map(|word| chunk.piece(word, word)));
            } else if let [first, ..] = chunk.words {
                of_part.push(chunk.piece(first, chunk.words.last().unwrap_or(first)));
            }
        });
        if let [only] = of_part.as_mut_slice() {
            only.written = part.trim_matches(is_around_values).to_owned();
        }
        for piece in of_part {
            if pieces.iter().all(|known| known.text != piece.text) {
                pieces.push(piece);
            }
        }
    }
    pieces
}

/// Whether the words of `phrase` stand one after the other among the words of `text`, whatever the
/// case and whatever stands between the words. A phrase without words is in no text.
pub fn contains_phrase(text: &str, phrase: &str) -> bool {
    Phrase::new(phrase).is_in(text)
}

/// The words of a phrase, each once: every text that contains the phrase has them.
pub fn phrase_words(phrase: &str) -> Vec<Piece> {
    let mut words: Vec<Piece> = Vec::new();
    Tokenizer::new().each_chunk(phrase, |chunk| {
        for word in chunk.words {
            let piece = chunk.piece(word, word);
            if words.iter().all(|known| known.text != piece.text) {
                words.push(piece);
            }
        }
    });
    words
}

/// A part of a query text, in lower case, that begins and ends where words do.
#[derive(Clone, Debug)]
pub struct Piece {
    text: String,
    /// What is in the query, with the signs around it that a number may have.
    written: String,
    words: Vec<Word>,
}

impl Piece {
    /// What texts start with a word that `prefix` is the start of; none where no token can start so, or
    /// where its start is more than one chunk.
    pub fn start(prefix: &str) -> Option<Piece> {
        let text = lower(prefix);
        let mut words = Vec::new();
        let (end, _) = next_chunk(&text, 0, &mut words)?;
        let begins = words.first().is_some_and(|word| word.start == 0);
        let is_one = end == text.len() && !words.iter().any(|word| word.is_single);
        (begins && is_one).then(|| Piece { written: text.clone(), text, words })
    }

    /// In lower case.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As the query has it.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Whether it is in the text.
    pub fn is_in(&self, text: &str, tokenizer: &mut Tokenizer) -> bool {
        self.find(text, tokenizer, false)
    }

    /// Whether something is in the text that starts with it.
    pub fn starts_in(&self, text: &str, tokenizer: &mut Tokenizer) -> bool {
        self.find(text, tokenizer, true)
    }

    fn find(&self, text: &str, tokenizer: &mut Tokenizer, open_ended: bool) -> bool {
        let mut found = false;
        tokenizer.each_chunk(text, |chunk| found = found || chunk.has(&self.text, open_ended));
        found
    }

    /// The loosest joiner in it; joiners at its end count.
    pub(crate) fn loosest(&self) -> u8 {
        let inner = self.words.iter().skip(1).map(|word| word.before).max().unwrap_or(ADJACENT);
        let end = self.words.last().map_or(0, |word| word.end);
        let tail = self.text.get(end..).unwrap_or_default().bytes().map(|byte| KINDS[usize::from(byte)]);
        tail.fold(inner, u8::max)
    }

    /// See [`Chunk::each_part`].
    pub(crate) fn each_part<'a>(&'a self, emit: impl FnMut(&'a str)) {
        self.chunk().each_part(emit);
    }

    fn chunk(&self) -> Chunk<'_> {
        Chunk { text: &self.text, words: &self.words, levels: 0 }
    }

    /// Its parts that joiners up to `level` hold together.
    pub(crate) fn groups(&self, level: u8) -> Vec<Piece> {
        let chunk = self.chunk();
        let groups = self.words.chunk_by(|_, next| next.before <= level);
        groups.filter_map(|group| Some(chunk.piece(group.first()?, group.last()?))).collect()
    }
}

/// Whether `rest`, which follows a word's start in a token, continues with the same word.
pub(crate) fn continues_word(rest: &str) -> bool {
    kind_at(rest, 0).is_some_and(|(kind, _)| kind == WORD)
}

/// Whether a byte joins words that stand on both sides of it.
pub fn is_joiner(byte: u8) -> bool {
    (1..=LOOSEST).contains(&KINDS[usize::from(byte)])
}

fn is_around_values(c: char) -> bool {
    "\"'`()[]{}<>,;!|*^".contains(c)
}

/// [`tokenize`] with buffers that are used again for the next text.
#[derive(Debug, Default)]
pub struct Tokenizer {
    lower: String,
    words: Vec<Word>,
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
        self.each_chunk(text, |chunk| chunk.each_token(|token, _, _| emit(token)));
    }

    /// Every token of a text, and every whole with the joiners around it where there are any: what a pattern
    /// is compared with.
    pub fn each_form(&mut self, text: &str, mut emit: impl FnMut(&str)) {
        self.each_chunk(text, |chunk| {
            chunk.each_token(|token, _, _| emit(token));
            if let Some(whole) = chunk.with_edges() {
                emit(whole);
            }
        });
    }

    /// All of a text but for what is around its words, in lower case: empty where it has none. None where a
    /// separator is between its words.
    pub(crate) fn only_chunk(&mut self, text: &str) -> Option<&str> {
        lower_into(text, &mut self.lower);
        let Some((end, _)) = next_chunk(&self.lower, 0, &mut self.words) else { return Some("") };
        let (start, last) = (self.words.first()?.start, self.words.last()?.end);
        match next_chunk(&self.lower, end, &mut self.words) {
            Some(_) => None,
            None => self.lower.get(start..last),
        }
    }

    pub(crate) fn each_chunk(&mut self, text: &str, mut visit: impl FnMut(&Chunk<'_>)) {
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

    /// Its words in order, without a last one that may be only the start of one.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Its last word.
    pub fn last_word(&self) -> Option<String> {
        self.tail.as_ref().or(self.words.last()).cloned()
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
pub(crate) struct Word {
    start: usize,
    end: usize,
    /// The loosest joiner between it and the word before, [`ADJACENT`] where nothing is between.
    before: u8,
    /// A character that is a word by itself.
    is_single: bool,
}

/// Words that only joiners stand between.
pub(crate) struct Chunk<'a> {
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

    fn has_singles(&self) -> bool {
        self.words.iter().any(|word| word.is_single)
    }

    fn piece(&self, first: &Word, last: &Word) -> Piece {
        let text = between(self.text, first, last).to_owned();
        let inside = self.words.iter().filter(|word| first.start <= word.start && word.end <= last.end);
        let moved =
            |word: &Word| Word { start: word.start - first.start, end: word.end - first.start, ..*word };
        Piece { written: text.clone(), text, words: inside.map(moved).collect() }
    }

    /// All of it with the joiners before and behind it; none where there are none.
    fn with_edges(&self) -> Option<&'a str> {
        self.edges().and_then(|range| self.text.get(range))
    }

    /// Where that is.
    fn edges(&self) -> Option<Range<usize>> {
        let (first, last) = (self.words.first()?, self.words.last()?);
        let (before, rest) = self.text.as_bytes().split_at_checked(first.start)?;
        let behind = rest.get(last.end - first.start..)?;
        let start = first.start - before.iter().rev().take_while(|byte| is_joiner(**byte)).count();
        let end = last.end + behind.iter().take_while(|byte| is_joiner(**byte)).count();
        (start < first.start || end > last.end).then_some(start..end)
    }

    /// Whether `piece` is where a word starts, and ends where one ends unless it is open-ended.
    fn has(&self, piece: &str, open_ended: bool) -> bool {
        let Some(last) = self.words.last() else { return false };
        self.words.iter().any(|word| {
            let rest = self.text.get(word.start..last.end).unwrap_or_default();
            let end = word.start + piece.len();
            rest.starts_with(piece)
                && (open_ended || self.words.binary_search_by_key(&end, |word| word.end).is_ok())
        })
    }

    /// Every word in order, and then at every level every group of words that a joiner of that level holds together;
    /// each with its level, zero for words, and its words.
    pub(crate) fn each_token(&self, mut emit: impl FnMut(&'a str, u8, &'a [Word])) {
        for word in self.words.chunks(1) {
            if let [only] = word {
                emit(between(self.text, only, only), ADJACENT, word);
            }
        }
        self.each_group(0..=LOOSEST, |level, group, _| {
            if let [first, .., last] = group {
                emit(between(self.text, first, last), level, group);
            }
        });
    }

    /// What a compound has from each of its words on, but for what is a token by itself.
    pub(crate) fn each_inner(&self, mut emit: impl FnMut(&'a str)) {
        self.each_group(1..=COMPOUND, |_, group, joined| {
            let Some(last) = group.last() else { return };
            // From the last joiner of this level on, what is left is a group of a tighter one.
            let starts = group.iter().take(joined).skip(1).filter(|word| !word.is_single);
            starts.for_each(|first| emit(between(self.text, first, last)));
        });
    }

    /// Every word, and every *window*: short words in a row that a compound's joiners hold together. Which parts a
    /// piece has depends on nothing around it, so a text has the parts of all its pieces.
    pub(crate) fn each_part(&self, mut emit: impl FnMut(&'a str)) {
        self.words().for_each(&mut emit);
        self.each_window(self.words, emit);
    }

    /// Every window of some of its words.
    pub(crate) fn each_window(&self, words: &'a [Word], mut emit: impl FnMut(&'a str)) {
        for run in words.chunk_by(is_in_window) {
            for window in WINDOW_WORDS.into_iter().flat_map(|words| run.windows(words)) {
                if let [first, .., last] = window {
                    emit(between(self.text, first, last));
                }
            }
        }
    }

    /// All of it, where it is one word or one window.
    pub(crate) fn only_part(&self) -> Option<&'a str> {
        let is_run = || self.words.chunk_by(is_in_window).count() == 1;
        let is_part = self.words.len() == 1 || (WINDOW_WORDS.contains(&self.words.len()) && is_run());
        let (first, last) = (self.words.first()?, self.words.last()?);
        is_part.then(|| between(self.text, first, last))
    }

    /// Every group that a joiner of its level holds together, with the last word that such a joiner is before.
    fn each_group(&self, levels: std::ops::RangeInclusive<u8>, mut visit: impl FnMut(u8, &'a [Word], usize)) {
        for level in levels.filter(|level| self.levels & 1 << level != 0) {
            for group in self.words.chunk_by(|_, next| next.before <= level) {
                let joined = group.iter().skip(1).rposition(|word| word.before == level);
                if let Some(at) = joined {
                    visit(level, group, at + 1);
                }
            }
        }
    }
}

/// What a byte of lower-cased text is: a joiner's level, or one of the kinds below.
const ADJACENT: u8 = 0;
const SLASH: u8 = 4;
const LOOSEST: u8 = 6;
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
            b'.' | b'-' | b'+' | b'~' | b'$' | b'%' => 1,
            b'@' | b'#' => 2,
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
        lower.extend(text.chars().flat_map(char::to_lowercase));
    }
}

/// Whether two words in a row can be in one window.
fn is_in_window(word: &Word, next: &Word) -> bool {
    let is_short = |word: &Word| word.end - word.start <= WINDOW_WORD_BYTES_MAX;
    is_short(word) && is_short(next) && (1..=COMPOUND).contains(&next.before)
}

fn between<'a>(text: &'a str, first: &Word, last: &Word) -> &'a str {
    // Words start and end at characters, so the range is always there.
    text.get(first.start..last.end).unwrap_or_default()
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

/// Takes one more word of a text in; returns whether the phrase ends with it.
fn step(words: &[String], borders: &[usize], matched: &mut usize, word: &str) -> bool {
    while *matched > 0 && words.get(*matched).is_none_or(|wanted| wanted != word) {
        *matched = borders[*matched - 1];
    }
    *matched += usize::from(words.get(*matched).is_some_and(|wanted| wanted == word));
    !words.is_empty() && *matched == words.len()
}

#[cfg(test)]
pub(crate) mod tests;
