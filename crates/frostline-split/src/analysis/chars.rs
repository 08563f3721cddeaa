//! What is done to the characters of a text before it is taken apart.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::pattern::Pattern;

/// A text grows by no more bytes. What would make it longer stays as it was.
pub(super) const GROWTH_BYTES_MAX: usize = 4 << 20;

/// A change of characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum CharFilter {
    /// Without the tags of HTML but for these, and with what its entities stand for.
    Html {
        kept: BTreeSet<String>,
    },
    /// Each text by the one that it stands for; the longest that fits counts.
    Mapping(BTreeMap<String, String>),
    Replace {
        pattern: Pattern,
        by: String,
    },
}

/// A text, and where each of its bytes comes from in the one that it was made of.
pub(super) struct Filtered {
    text: String,
    /// None where it is as it was written.
    places: Option<Vec<(usize, usize)>>,
    written: usize,
}

impl Filtered {
    pub(super) fn of(text: &str) -> Filtered {
        Filtered { text: text.to_owned(), places: None, written: text.len() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Where a part of it is in the text as it was written.
    pub(super) fn place(&self, part: &Range<usize>) -> Range<usize> {
        let Some(places) = &self.places else { return part.clone() };
        let start = places.get(part.start).map_or(self.written, |(start, _)| *start);
        let last = part.end.checked_sub(1).filter(|last| *last >= part.start);
        let end = last.and_then(|last| places.get(last)).map_or(start, |(_, end)| *end);
        start..end.max(start)
    }

    /// What is made of it by what is to be put in place of some of its parts, in order.
    fn with(&self, changes: impl Iterator<Item = (Range<usize>, String)>) -> Filtered {
        let (mut text, mut places, mut at) = (String::with_capacity(self.text.len()), Vec::new(), 0);
        let keep = |text: &mut String, places: &mut Vec<(usize, usize)>, part: Range<usize>| {
            let own = self.text.get(part.clone()).unwrap_or_default();
            for (offset, c) in own.char_indices() {
                let start = part.start + offset;
                let place = self.place(&(start..start + c.len_utf8()));
                places.extend(std::iter::repeat_n((place.start, place.end), c.len_utf8()));
            }
            text.push_str(own);
        };
        for (part, by) in changes {
            keep(&mut text, &mut places, at..part.start);
            let place = self.place(&part);
            places.extend(std::iter::repeat_n((place.start, place.end), by.len()));
            text.push_str(&by);
            at = part.end;
        }
        keep(&mut text, &mut places, at..self.text.len());
        Filtered { text, places: Some(places), written: self.written }
    }
}

impl CharFilter {
    pub(super) fn apply(&self, to: &Filtered) -> Filtered {
        let text = to.text();
        let most = (to.written + GROWTH_BYTES_MAX).saturating_sub(text.len());
        match self {
            CharFilter::Html { kept } => to.with(markup(text, kept).into_iter()),
            CharFilter::Mapping(all) => to.with(mapped(text, all, most).into_iter()),
            CharFilter::Replace { pattern, by } => to.with(pattern.changes(text, by, most)),
        }
    }

    /// Whether it is also done to what is compared whole, and to patterns.
    pub(super) fn is_normalizing(&self) -> bool {
        !matches!(self, CharFilter::Html { .. })
    }
}

fn mapped(text: &str, all: &BTreeMap<String, String>, most: usize) -> Vec<(Range<usize>, String)> {
    let mut left = most;
    let longest = all.keys().map(String::len).max().unwrap_or(0);
    let (mut changes, mut at) = (Vec::new(), 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let fits = (1..=longest.min(rest.len())).rev();
        let found = { fits }.find_map(|bytes| all.get_key_value(rest.get(..bytes)?));
        at += match found {
            Some((written, by)) => {
                let Some(less) = left.checked_sub(by.len()) else { return changes };
                left = less;
                changes.push((at..at + written.len(), by.clone()));
                written.len()
            }
            None => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    changes
}

/// Elements that words go on through.
const INLINE: [&str; 40] = [
    "a", "abbr", "acronym", "b", "basefont", "bdo", "big", "button", "cite", "code", "del", "dfn", "em",
    "font", "i", "img", "input", "ins", "kbd", "label", "map", "mark", "q", "s", "samp", "select", "small",
    "span", "strike", "strong", "sub", "sup", "textarea", "tt", "u", "var", "time", "wbr", "data", "bdi",
];

/// What is markup in a text, and what is to be in its place.
fn markup(text: &str, kept: &BTreeSet<String>) -> Vec<(Range<usize>, String)> {
    let (mut changes, mut at) = (Vec::new(), 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find(['<', '&'])) {
        let start = at + found;
        let rest = text.get(start..).unwrap_or_default();
        let change = if rest.starts_with('<') { tag(rest, kept) } else { entity(rest) };
        at = start + change.as_ref().map_or(1, |(bytes, _)| *bytes);
        if let Some((bytes, Some(by))) = change {
            changes.push((start..start + bytes, by));
        }
    }
    changes
}

/// How long the tag, the comment or the script is that a text begins with, and what is in its place; none where it stays.
fn tag(text: &str, kept: &BTreeSet<String>) -> Option<(usize, Option<String>)> {
    if text.starts_with("<!--") {
        return Some((text.find("-->").map_or(text.len(), |at| at + 3), Some(String::new())));
    }
    if text.starts_with("<!") || text.starts_with("<?") {
        return Some((text.find('>').map_or(text.len(), |at| at + 1), Some(String::new())));
    }
    let is_end = text.starts_with("</");
    let name = text.get(if is_end { 2 } else { 1 }..)?;
    let name = name.get(..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len()))?;
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let (mut quote, mut end) = (None, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '>') => {
                end = Some(at + 1);
                break;
            }
            (None, '<') if at > 0 => return None,
            (None, _) => {}
        }
    }
    let (end, name) = (end?, name.to_ascii_lowercase());
    if kept.contains(&name) {
        return Some((end, None));
    }
    if !is_end && matches!(name.as_str(), "script" | "style") {
        let close = format!("</{name}");
        let rest = text.get(end..)?.to_ascii_lowercase();
        let end = match rest.find(&close) {
            Some(at) => end + at + rest.get(at..)?.find('>').map_or(rest.len() - at, |at| at + 1),
            None => text.len(),
        };
        return Some((end, Some("\n".to_owned())));
    }
    let by = if INLINE.contains(&name.as_str()) { "" } else { "\n" };
    Some((end, Some(by.to_owned())))
}

/// The same of an entity.
fn entity(text: &str) -> Option<(usize, Option<String>)> {
    const NAMED: [(&str, &str); 6] =
        [("amp", "&"), ("apos", "'"), ("gt", ">"), ("lt", "<"), ("nbsp", " "), ("quot", "\"")];
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    let name = text.get(1..end)?;
    let by = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => number.parse().ok(),
            };
            char::from_u32(code?)?.to_string()
        }
        None => NAMED.iter().find(|(known, _)| *known == name).map(|(_, by)| (*by).to_owned())?,
    };
    Some((end + 1, Some(by)))
}
