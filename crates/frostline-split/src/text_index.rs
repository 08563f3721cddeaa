//! How tokens are stored in the text dictionary, and which of its keys tell whether a text has a piece.
//!
//! | form  | what the key holds                                    | who has it                                  |
//! |-------|-------------------------------------------------------|---------------------------------------------|
//! | whole | a token                                               | every token of at most [`TOKEN_BYTES_MAX`]  |
//! | inner | a compound from one of its words on, or a long token; its first bytes | compounds of three words or more, long compounds |
//! | cut   | the first bytes of a longer token, and its hash       | every longer token                          |
//!
//! Because of inner keys, one range of keys finds `powershell.exe` inside `v1.0-powershell.exe`. Where keys
//! cannot decide (paths inside paths, very long pieces), they narrow the set; see [`PieceKeys`].
//!
//! A key of any form can be short: cut where no other key has the same start. Then its rows are candidates, to be
//! verified like those of necessary keys.
//!
//! Splits of format version 1 have whole keys only, in which a cut token looks like any other.

use xxhash_rust::xxh3::xxh3_64;

use crate::dictionary::{TextKey, is_hashed, put_text_key};
use crate::table::KeyRange;
use crate::tokenizer::{COMPOUND, Chunk, Piece, Tokenizer, continues_word};

/// No token is held longer.
pub const TOKEN_BYTES_MAX: usize = 64;
/// What is kept of a longer token before its hash, but for the rest of a character.
const CUT_BYTES: usize = 48;
/// The part of a cut token that is surely the token's own.
pub const CUT_START_BYTES: usize = CUT_BYTES - 3;
/// A piece of no more bytes is seen in an inner key with the character that follows.
const INNER_BYTES_MAX: usize = TOKEN_BYTES_MAX - 4;
/// The first version with inner and cut keys.
const VERSION_OF_FORMS: u32 = 2;
/// How many parts of a piece are requested at most where only its parts are known.
const PARTS_MAX: usize = 4;

/// What a key of the text dictionary holds of a token; the byte behind it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// All of it.
    Whole = 0,
    /// A compound from one of its words on.
    Inner = 1,
    /// Its start and its hash.
    Cut = 2,
}

impl Form {
    pub(crate) fn of(byte: u8) -> Option<Form> {
        [Form::Whole, Form::Inner, Form::Cut].into_iter().find(|form| *form as u8 == byte)
    }
}

/// Hands every key of a text to `emit`, which says whether it is new; one that occurs twice comes twice. Those of words
/// come in their order, and are marked. Hands the words and windows of the tokens that are new to `part`, so that of
/// texts of which all keys come to one `emit` all parts do. Says whether the text is one part.
pub(crate) fn each_key(
    tokenizer: &mut Tokenizer,
    text: &str,
    mut emit: impl FnMut(&str, Form, bool) -> bool,
    mut part: impl FnMut(&str),
) -> bool {
    let (mut cut, mut chunks, mut is_part) = (String::new(), 0, false);
    tokenizer.each_chunk(text, |chunk| {
        chunks += 1;
        is_part = chunks == 1 && chunk.only_part().is_some();
        each_key_of(chunk, &mut cut, &mut emit, &mut part);
    });
    is_part
}

fn each_key_of(
    chunk: &Chunk<'_>,
    cut: &mut String,
    emit: &mut impl FnMut(&str, Form, bool) -> bool,
    part: &mut impl FnMut(&str),
) {
    chunk.each_token(|token, level, words| {
        let is_word = words.len() == 1;
        let is_new = if token.len() <= TOKEN_BYTES_MAX {
            emit(token, Form::Whole, is_word)
        } else {
            cut_into(token, cut);
            emit(cut, Form::Cut, is_word);
            if level <= COMPOUND {
                emit(start(token, TOKEN_BYTES_MAX), Form::Inner, false);
            }
            // Another token may have its keys.
            true
        };
        if is_new && is_word {
            part(token);
        } else if is_new && level <= COMPOUND {
            // Every window is inside a compound.
            chunk.each_window(words, &mut *part);
        }
    });
    chunk.each_inner(|rest| {
        emit(start(rest, TOKEN_BYTES_MAX), Form::Inner, false);
    });
}

/// The token that all of a text is but for case and punctuation around it: with its entry the text can be held. None
/// where the text has an entry of its own.
pub fn token_of_text<'t>(tokenizer: &'t mut Tokenizer, text: &str) -> Option<&'t str> {
    if is_hashed(text) {
        return None;
    }
    tokenizer.only_chunk(text).filter(|token| !token.is_empty() && token.len() <= TOKEN_BYTES_MAX)
}

/// The keys of all tokens with which texts that start with `start` can be held; none where there is no such text.
pub fn tokens_of_texts(start: &str) -> Option<KeyRange> {
    let mut tokenizer = Tokenizer::new();
    let token = tokenizer.only_chunk(start).filter(|token| token.len() <= TOKEN_BYTES_MAX)?;
    Some(KeyRange::prefix(token.as_bytes().to_vec()))
}

/// The first bytes of a text, at most so many, whole characters.
fn start(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

fn cut_into(token: &str, cut: &mut String) {
    cut.clear();
    cut.push_str(start(token, CUT_BYTES));
    let hash = xxh3_64(token.as_bytes());
    let digits = (0..16).rev().map(|digit| (hash >> (4 * digit) & 15) as u8);
    cut.extend(digits.map(|digit| char::from(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 })));
}

/// What a key says of the rows that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Says {
    /// Nothing: it is none of the keys.
    Nothing,
    /// They may have what is tested for: the key is the start of one of the keys, and may be of others.
    Maybe,
    /// They have it.
    Yes,
}

/// The keys of the text dictionary that a test names.
#[derive(Clone, Debug)]
pub struct Keys {
    ranges: Vec<KeyRange>,
    text: String,
    test: Test,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Test {
    /// The key of the text.
    Is(Form),
    /// What stands where the text ends is not the same word.
    Bounded,
    /// The key starts with the text.
    Starts,
}

impl Keys {
    /// A whole token.
    pub fn token(token: &str) -> Keys {
        Keys::is(token.to_owned(), Form::Whole)
    }

    fn is(text: String, form: Form) -> Keys {
        let mut key = text.clone().into_bytes();
        key.push(form as u8);
        Keys { ranges: vec![KeyRange::prefix(key)], text, test: Test::Is(form) }
    }

    fn bounded(text: &str, loosest: u8) -> Keys {
        let from = |byte: u8| [text.as_bytes(), &[byte]].concat();
        // The forms, and the joiners in the order of their bytes: # $ % + - . then : @ and last ~ and
        // characters that are words by themselves.
        let mut ranges = vec![KeyRange::between(from(0), Some(from(b'/')))];
        if loosest > 1 {
            ranges.push(KeyRange::between(from(b':'), Some(from(b'A'))));
        }
        ranges.push(KeyRange::between(from(b'~'), Some(from(0xff))));
        Keys { ranges, text: text.to_owned(), test: Test::Bounded }
    }

    fn starts(text: &str) -> Keys {
        let ranges = vec![KeyRange::prefix(text.as_bytes().to_vec())];
        Keys { ranges, text: text.to_owned(), test: Test::Starts }
    }

    /// The token, where that is all that is named.
    pub fn whole(&self) -> Option<&str> {
        (self.test == Test::Is(Form::Whole)).then_some(self.text.as_str())
    }

    /// Where they are in the dictionary, among others.
    pub fn ranges(&self) -> &[KeyRange] {
        &self.ranges
    }

    /// Whether `key` is one of them.
    pub fn says(&self, key: &TextKey<'_>) -> Says {
        let rest = key.token.strip_prefix(self.text.as_str());
        let holds = match self.test {
            Test::Is(form) if key.form != form => return Says::Nothing,
            Test::Bounded if key.form == Form::Cut => return Says::Nothing,
            Test::Is(_) => rest == Some("") && !key.is_short,
            // How a short token goes on is not known.
            Test::Bounded if key.is_short && rest == Some("") => return Says::Maybe,
            Test::Bounded => rest.is_some_and(|rest| !continues_word(rest)),
            Test::Starts => rest.is_some(),
        };
        let may_be_start = key.is_short && key.token.len() < self.text.len();
        match holds {
            true => Says::Yes,
            false if may_be_start && self.text.starts_with(key.token) => Says::Maybe,
            false => Says::Nothing,
        }
    }
}

/// The keys by which texts that have a piece are found.
#[derive(Clone, Debug, Default)]
pub struct PieceKeys {
    /// Who has one of these has the piece.
    pub sure: Option<Keys>,
    /// Who has the piece has one of each of these. Where there are none, only those who are sure have it.
    pub needed: Vec<Keys>,
}

impl PieceKeys {
    /// For a split of format `version`; with `open_ended` for what only starts with the piece.
    pub fn of(piece: &Piece, version: u32, open_ended: bool) -> PieceKeys {
        let (text, loosest) = (piece.text(), piece.loosest());
        let has_forms = version >= VERSION_OF_FORMS;
        let has_inner = has_forms && loosest <= COMPOUND && text.len() <= INNER_BYTES_MAX;
        if open_ended {
            let decides = has_inner || (loosest == 0 && text.len() <= CUT_START_BYTES);
            let sure = (text.len() <= CUT_START_BYTES || has_inner).then(|| Keys::starts(text));
            return if decides {
                PieceKeys::decided(sure)
            } else {
                PieceKeys::narrowed(sure, piece, version, true)
            };
        }
        if loosest > 0 {
            if has_inner {
                return PieceKeys::decided(Some(Keys::bounded(text, loosest)));
            }
            let is_plain = text.len() <= TOKEN_BYTES_MAX && (has_forms || !may_be_cut(text));
            let sure = is_plain.then(|| Keys::is(text.to_owned(), Form::Whole));
            return PieceKeys::narrowed(sure, piece, version, false);
        }
        if text.len() > TOKEN_BYTES_MAX {
            let mut cut = String::new();
            cut_into(text, &mut cut);
            let form = if has_forms { Form::Cut } else { Form::Whole };
            return PieceKeys { sure: None, needed: vec![Keys::is(cut, form)] };
        }
        let whole = Keys::is(text.to_owned(), Form::Whole);
        if has_forms || !may_be_cut(text) {
            PieceKeys::decided(Some(whole))
        } else {
            PieceKeys { sure: None, needed: vec![whole] }
        }
    }

    fn decided(sure: Option<Keys>) -> PieceKeys {
        PieceKeys { sure, needed: Vec::new() }
    }

    /// By the piece's longest parts: its compounds, or its words where no more is known.
    fn narrowed(sure: Option<Keys>, piece: &Piece, version: u32, open_ended: bool) -> PieceKeys {
        let by_compounds = version >= VERSION_OF_FORMS && piece.loosest() > COMPOUND;
        let mut parts = piece.groups(if by_compounds { COMPOUND } else { 0 });
        let mut needed = Vec::new();
        // What follows a joiner at the end may be anything.
        let ends_open = open_ended && parts.last().is_some_and(|last| piece.text().ends_with(last.text()));
        if ends_open && let Some(last) = parts.pop() {
            if parts.is_empty() && last.text() == piece.text() {
                needed.push(Keys::starts(start(last.text(), CUT_START_BYTES)));
            } else {
                needed.extend(PieceKeys::of(&last, version, true).necessary());
            }
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.text().len()));
        let others = parts.iter().take(PARTS_MAX);
        needed.extend(others.flat_map(|part| PieceKeys::of(part, version, false).necessary()));
        PieceKeys { sure, needed }
    }

    /// Keys of which everybody who has the piece has one each.
    pub fn necessary(self) -> Vec<Keys> {
        if self.needed.is_empty() { self.sure.into_iter().collect() } else { self.needed }
    }
}

/// Whether a whole key of a split of version 1 may be that of a longer token.
fn may_be_cut(token: &str) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let tail = token.as_bytes().last_chunk::<16>();
    token.len() > CUT_START_BYTES + 15
        && token.len() <= TOKEN_BYTES_MAX
        && tail.is_some_and(|tail| tail.iter().all(is_digit))
}

impl TextKey<'_> {
    /// What every longer token whose key this may be starts with; none where the key holds its token whole.
    pub fn cut(&self, version: u32) -> Option<&str> {
        match self.form {
            Form::Cut => Some(start(self.token, CUT_START_BYTES)),
            Form::Whole if version < VERSION_OF_FORMS && may_be_cut(self.token) => {
                Some(start(self.token, CUT_START_BYTES))
            }
            Form::Whole | Form::Inner => self.is_short.then_some(self.token),
        }
    }
}

/// The text dictionary's key of a whole `token` in field number `field`.
pub fn text_key(token: &str, field: u16) -> Vec<u8> {
    let mut key = Vec::with_capacity(token.len() + 3);
    put_text_key(&mut key, token.as_bytes(), Form::Whole, field);
    key
}

#[cfg(test)]
mod tests;
