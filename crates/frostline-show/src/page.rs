//! The common frame and style of HTML pages: self-contained files, readable on a phone, with a light and a dark theme.

use super::escape_html;

/// The style of all pages: colours of both themes, text, tables and boxes.
const STYLE: &str = include_str!("page.css");

/// The beginning of a page, up to the content of its body. `language` is a code such as `en`, `title` is text and is escaped,
/// `style` is CSS that follows that of all pages.
pub fn page_head(language: &str, title: &str, style: &str) -> String {
    format!(
        "<!doctype html>\n<html lang={language}><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}{style}</style></head><body>",
        escape_html(title)
    )
}

/// Closes `<main>` and the page.
pub const PAGE_TAIL: &str = "</main></body></html>\n";

#[cfg(test)]
mod tests;
