//! Tables for people: aligned columns on standard output.

use std::io::Write;

use anyhow::Result;

/// Rows of text under a header.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    numbers: Vec<bool>,
}

impl Table {
    /// A table with these columns; a name that ends in `>` is a column of numbers, aligned right.
    pub(crate) fn new(columns: &[&str]) -> Table {
        let numbers = columns.iter().map(|name| name.ends_with('>')).collect();
        let header = columns.iter().map(|name| name.trim_end_matches('>').to_owned()).collect();
        Table { rows: vec![header], numbers }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn print(&self) -> Result<()> {
        let widths: Vec<usize> = (0..self.numbers.len())
            .map(|at| {
                self.rows
                    .iter()
                    .filter_map(|row| row.get(at))
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut out = std::io::stdout().lock();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.numbers) {
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                if *right {
                    line.push_str(&padding);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&padding);
                }
                line.push_str("  ");
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Prints one JSON document.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Text from logs without the characters that steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
