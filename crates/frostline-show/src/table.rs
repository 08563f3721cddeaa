//! Tables for people: aligned columns of plain text.

use comfy_table::{CellAlignment, ContentArrangement, presets};

/// Rows of text under a header.
pub struct Table {
    rows: comfy_table::Table,
}

impl Table {
    /// A table with these columns; a name that ends in `>` is a right-aligned column of numbers.
    pub fn new(columns: &[&str]) -> Table {
        let mut rows = comfy_table::Table::new();
        rows.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        rows.set_header(columns.iter().map(|name| name.trim_end_matches('>')));
        for (column, name) in rows.column_iter_mut().zip(columns) {
            column.set_padding((0, 2));
            if name.ends_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Table { rows }
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.add_row(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, line) in self.rows.lines().enumerate() {
            let separator = if number > 0 { "\n" } else { "" };
            write!(f, "{separator}{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Text from logs without terminal control characters.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_on_a_terminal() {
        let mut table = Table::new(&["host", "documents>", "note"]);
        table.row(vec!["東京".into(), "7".into(), "".into()]);
        table.row(vec!["web-1".into(), "12345".into(), "x y".into()]);
        assert_eq!(table.to_string(), "host   documents  note\n東京           7\nweb-1      12345  x y");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\tc\n"), "a [31mb c ");
    }
}
