//! The frame and the look of pages: self-contained files, readable on a phone, with light and dark themes.

use super::escape_html;

/// Colours of both themes, text, tables and boxes.
const STYLE: &str = include_str!("page.css");

/// A page up to the content of its body, in a language such as `en`. `title` is text; `style` is CSS beside that of all
/// pages.
pub fn page_head(language: &str, title: &str, style: &str) -> String {
    format!(
        "<!doctype html>\n<html lang={language}><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}{style}</style></head><body>",
        escape_html(title)
    )
}

/// What closes the main part of a page, and the page.
pub const PAGE_TAIL: &str = "</main></body></html>\n";

#[cfg(test)]
mod tests;
