//! The part of YAML that files of patterns are written in: lists of members with texts.
//!
//! ```text
//! user_agent_parsers:
//!   - regex: 'curl/(\d+)'
//!     family_replacement: curl
//! ```
//!
//! Texts are plain or in quotes, and on one line. Anything else is Invalid with its line.

use std::collections::BTreeMap;

use frostline_base::{Error, Result};

/// An item of a list.
pub(super) struct Item {
    /// The name of the list.
    pub(super) section: String,
    pub(super) line: usize,
    pub(super) members: BTreeMap<String, String>,
}

pub(super) fn wrong(what: &str, line: usize) -> Error {
    Error::invalid(format!("{what} is not understood in line {line}"))
}

/// The items of all lists, in their order.
pub(super) fn items(text: &str) -> Result<Vec<Item>> {
    let mut items: Vec<Item> = Vec::new();
    let mut section = None;
    for (line, number) in text.lines().zip(1..) {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') || line.trim_end() == "---" {
            continue;
        }
        let is_indented = line.len() > content.len();
        let (is_first, member) = match content.strip_prefix("- ") {
            Some(member) => (true, member.trim_start()),
            None => (false, content),
        };
        let Some((name, value)) = member.split_once(':') else {
            return Err(wrong("a line without a name and a colon", number));
        };
        let value = text_of(value.trim()).ok_or_else(|| wrong("a text", number))?;
        match (is_indented || is_first, value) {
            (false, None) => section = Some(name.to_owned()),
            (true, Some(value)) => {
                let Some(section) = &section else { return Err(wrong("an item of no list", number)) };
                if is_first {
                    items.push(Item { section: section.clone(), line: number, members: BTreeMap::new() });
                }
                let Some(item) = items.last_mut().filter(|item| item.section == *section) else {
                    return Err(wrong("a member of no item", number));
                };
                if item.members.insert(name.to_owned(), value).is_some() {
                    return Err(wrong("a member that comes twice", number));
                }
            }
            _ => return Err(wrong("a list inside a list, or a text beside none", number)),
        }
    }
    Ok(items)
}

/// The text of a scalar; none inside where there is none, and none outside where it is not understood.
fn text_of(scalar: &str) -> Option<Option<String>> {
    let ends = |rest: &str| rest.trim_start().is_empty() || rest.trim_start().starts_with('#');
    let mut text = String::new();
    let mut chars = scalar.chars();
    match chars.next() {
        None | Some('#') => Some(None),
        Some('\'') => loop {
            match chars.next()? {
                '\'' if chars.as_str().starts_with('\'') => {
                    chars.next();
                    text.push('\'');
                }
                '\'' => return ends(chars.as_str()).then_some(Some(text)),
                c => text.push(c),
            }
        },
        Some('"') => loop {
            match chars.next()? {
                '\\' => match chars.next()? {
                    c @ ('\\' | '"' | '/') => text.push(c),
                    't' => text.push('\t'),
                    'n' => text.push('\n'),
                    _ => return None,
                },
                '"' => return ends(chars.as_str()).then_some(Some(text)),
                c => text.push(c),
            }
        },
        // What begins anything but a plain text.
        Some('[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '%' | '@' | '`' | ',' | '?' | '-') => None,
        Some(_) if scalar.contains(": ") => None,
        Some(_) => Some(Some(scalar.split(" #").next().unwrap_or_default().trim_end().to_owned())),
    }
}
