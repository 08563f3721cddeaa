//! Documents as lines, tables and CSV.

use std::collections::{HashMap, HashSet};
use std::io::{IsTerminal, Write};

use anyhow::{Context, Result};
use frostline_query::{Hit, Json};
use frostline_show::{Table, printable};

/// Table cells are truncated to this width.
const CELL_CHARACTERS_MAX: usize = 60;

/// Columns of documents: dotted paths, in the order in which they are shown.
pub(crate) struct Columns(Vec<String>);

impl Columns {
    /// The columns that were named.
    pub(crate) fn named(names: &[String]) -> Option<Columns> {
        let plain = !names.is_empty() && !names.iter().any(|name| name.contains('*'));
        plain.then(|| Columns(names.to_vec()))
    }

    /// All columns of these documents, in order of first appearance.
    pub(crate) fn of(hits: &[Hit]) -> Result<Columns> {
        let (mut columns, mut known) = (Vec::new(), HashSet::new());
        for hit in hits {
            for (path, _) in flat(hit)? {
                if known.insert(path.clone()) {
                    columns.push(path);
                }
            }
        }
        Ok(Columns(columns))
    }

    /// These columns, without duplicates.
    pub(crate) fn all<'a>(paths: impl Iterator<Item = &'a str>) -> Columns {
        let mut known = HashSet::new();
        Columns(paths.filter(|path| known.insert(*path)).map(str::to_owned).collect())
    }

    /// The documents as a table for people.
    pub(crate) fn table(&self, hits: &[Hit]) -> Result<Table> {
        let mut table = Table::new(&self.0.iter().map(String::as_str).collect::<Vec<&str>>());
        for hit in hits {
            table.row(self.cells(hit)?.into_iter().map(|cell| cut(&printable(&cell))).collect());
        }
        Ok(table)
    }

    /// The names of the columns as a line of CSV.
    pub(crate) fn write_header(&self, out: &mut csv::Writer<impl Write>) -> Result<()> {
        if !self.0.is_empty() {
            out.write_record(&self.0)?;
        }
        Ok(out.flush()?)
    }

    /// Documents as lines of CSV.
    pub(crate) fn write(&self, hits: &[Hit], out: &mut csv::Writer<impl Write>) -> Result<()> {
        let is_terminal = std::io::stdout().is_terminal();
        for hit in hits {
            let cells = self.cells(hit)?.into_iter();
            out.write_record(cells.map(|cell| if is_terminal { printable(&cell) } else { cell }))?;
        }
        // Dropping a writer would discard its errors.
        Ok(out.flush()?)
    }

    fn cells(&self, hit: &Hit) -> Result<Vec<String>> {
        // A path that is written dotted as well as nested has several values.
        let mut values: HashMap<String, Vec<Json>> = HashMap::new();
        for (path, value) in flat(hit)?.into_iter().filter(|(_, value)| !value.is_null()) {
            values.entry(path).or_default().push(value);
        }
        let cell = |path: &String| match values.get(path).map(Vec::as_slice) {
            None => Ok(String::new()),
            Some([value]) => value.as_text().map_or_else(|| serde_json::to_string(value), Ok),
            Some(several) => {
                serde_json::to_string(&several.iter().flat_map(Json::items).collect::<Vec<&Json>>())
            }
        };
        Ok(self.0.iter().map(cell).collect::<serde_json::Result<_>>()?)
    }
}

/// The values of a document by dotted path, and of the fields that were requested: objects are flattened, lists are JSON.
fn flat(hit: &Hit) -> Result<Vec<(String, Json)>> {
    let mut values = Vec::new();
    if let Some(source) = &hit.source {
        let document =
            serde_json::from_str(source.get()).with_context(|| format!("document {} is not JSON", hit.id))?;
        flatten(String::new(), document, &mut values);
    }
    if let Some(Json::Object(fields)) = &hit.fields {
        for (name, list) in fields {
            if values.iter().all(|(path, _)| path != name) {
                let value = if let [one] = list.items() { one } else { list };
                values.push((name.clone(), value.clone()));
            }
        }
    }
    Ok(values)
}

fn flatten(path: String, value: Json, values: &mut Vec<(String, Json)>) {
    match value {
        Json::Object(members) => {
            for (name, value) in members {
                let below = if path.is_empty() { name } else { format!("{path}.{name}") };
                flatten(below, value, values);
            }
        }
        other => values.push((path, other)),
    }
}

fn cut(cell: &str) -> String {
    match cell.char_indices().nth(CELL_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &cell[..end]),
        None => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(source: &str, fields: Option<Json>) -> Hit {
        Hit {
            index: "logs".to_owned(),
            id: "1".to_owned(),
            version: None,
            seq_no: None,
            primary_term: None,
            score: None,
            source: Some(serde_json::from_str(source).unwrap()),
            fields,
            highlight: None,
            inner_hits: None,
            ignored_field_values: None,
            matched_queries: Vec::new(),
            sort: None,
        }
    }

    #[test]
    fn documents_are_taken_apart_by_dotted_path() {
        let source = r#"{"a":{"b":1e400,"c":{"d":null}},"e":[1.10,"x"],"f":"t","a.b":[2,"y"]}"#;
        let hit = hit(source, None);
        let columns = Columns::of(std::slice::from_ref(&hit)).unwrap();
        assert_eq!(columns.0, ["a.b", "a.c.d", "e", "f"]);
        assert_eq!(columns.cells(&hit).unwrap(), ["[1e400,2,\"y\"]", "", "[1.10,\"x\"]", "t"]);
    }

    #[test]
    fn requested_fields_are_columns_where_the_document_has_none() {
        let fields: Json = serde_json::from_str(r#"{"a":[1],"b":["x","y"]}"#).unwrap();
        let hit = hit(r#"{"a":2}"#, Some(fields));
        let columns = Columns::of(std::slice::from_ref(&hit)).unwrap();
        assert_eq!(columns.0, ["a", "b"]);
        assert_eq!(columns.cells(&hit).unwrap(), ["2", "[\"x\",\"y\"]"]);
    }

    #[test]
    fn long_cells_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }
}
