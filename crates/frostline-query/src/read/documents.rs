//! Documents in place of columns.
//!
//! A search reads the documents that it shows, and a document has what the columns were made of. So a few candidates
//! are verified on their documents, and hits are ordered by the times in them: each saves the request for a page of a
//! column in every split that has a hit. Where a document cannot tell, the column does.

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use frostline_split::{
    Bounds, Document, FieldType, Limits, Mapping, Moment, SOURCE_COLUMN, SplitField, TIME_COLUMN, TextAs,
    Value, Wanted, parse_document,
};
use roaring::RoaringBitmap;

use crate::Result;
use crate::read::fields;
use crate::read::merge::arrow_error;
use crate::read::shown::Shown;
use crate::read::view::View;

impl View<'_> {
    /// Reads the documents of these rows, but for those that were read, where the search keeps them.
    pub(crate) async fn learn_documents(self, rows: &RoaringBitmap) -> Result<()> {
        let Some(shown) = self.shown else { return Ok(()) };
        let split = self.open.entry.id;
        let left = rows - shown.rows(split);
        if left.is_empty() {
            return Ok(());
        }
        let mut rows = left.iter();
        for batch in fields::read_documents(self, &left).await? {
            let texts = cast(batch.column(0), &DataType::Utf8).map_err(arrow_error)?;
            let texts = texts.as_string::<i32>();
            // What is not text stays unknown.
            let read = rows.by_ref().take(texts.len()).zip(texts.iter());
            shown.extend(split, read.filter_map(|(row, text)| Some((row, text?.to_owned()))));
        }
        Ok(())
    }

    /// The documents of these rows. What is no text has no values.
    pub(crate) async fn documents(self, rows: &RoaringBitmap) -> Result<Vec<String>> {
        let mut documents = Vec::new();
        for batch in fields::read_documents(self, rows).await? {
            let texts = cast(batch.column(0), &DataType::Utf8).map_err(arrow_error)?;
            documents.extend(texts.as_string::<i32>().iter().map(|text| text.unwrap_or("{}").to_owned()));
        }
        Ok(documents)
    }

    /// How many documents are held at a time where all that match are taken apart.
    pub(crate) fn documents_at_once(self) -> usize {
        let unpacked = self.split().document_bytes().saturating_mul(self.source_packed());
        let of_row = (unpacked / u64::from(self.split().rows().max(1))).max(1);
        usize::try_from((HELD_BYTES / of_row).clamp(1, 65_536)).unwrap_or(1)
    }

    /// The documents of these rows, if all of them were read.
    pub(crate) fn known_documents(self, rows: &RoaringBitmap) -> Option<Vec<String>> {
        self.shown?.of(self.open.entry.id, rows)
    }

    /// The times of these rows in their documents, if all of these were read and none has a time that the split has not
    /// where it is.
    pub(crate) fn times_in_documents(self, rows: &RoaringBitmap) -> Option<Vec<Option<Moment>>> {
        let mapping = Mapping::dynamic().with_time_field(&self.shown?.time_field);
        let (pages, timed) = (self.split().page_bounds(TIME_COLUMN), self.rows_with_time());
        let fits = |row: u32, time_us: i64| {
            let page = pages.get(pages.partition_point(|page| page.rows.end <= row));
            matches!(page.and_then(|page| page.values), Some(Bounds::Long(min, max)) if min <= time_us && time_us <= max)
        };
        let mut document = Document::new();
        let texts = self.known_documents(rows)?;
        let times = rows.iter().zip(&texts).map(|(row, text)| {
            parse_document(text.as_bytes(), &mapping, &LIMITS, &mut document).ok()?;
            let time = document.time;
            let fits = time.map_or(row >= timed, |time| row < timed && fits(row, time.time_us));
            fits.then_some(time)
        });
        times.collect()
    }

    /// Those of `candidates` whose documents have a text in the field for which `holds`. None where the column has to
    /// tell: where documents are not shown or take more requests, or the field has values of other types in this split,
    /// which a document does not tell apart.
    pub(crate) async fn verify_on_documents(
        self,
        field: &SplitField,
        candidates: &RoaringBitmap,
        holds: &mut (impl FnMut(&str) -> bool + Send),
    ) -> Result<Option<RoaringBitmap>> {
        let few = |shown: &&Shown| candidates.len() <= shown.candidates_max;
        let Some(shown) = self.shown.filter(few) else { return Ok(None) };
        if field.path == shown.time_field
            || !self.has_one_reading(field)?
            || !self.documents_are_near(field, candidates).await?
        {
            return Ok(None);
        }
        self.learn_documents(candidates).await?;
        let Some(texts) = self.known_documents(candidates) else { return Ok(None) };
        // So every value of the field is text as it was written.
        let mut mapping = Mapping::dynamic().with_time_field(&shown.time_field);
        mapping.declare(&field.path, FieldType::Keyword)?;
        let (mut document, mut found) = (Document::new(), RoaringBitmap::new());
        for (row, text) in candidates.iter().zip(&texts) {
            if parse_document(text.as_bytes(), &mapping, &LIMITS, &mut document).is_err() {
                return Ok(None);
            }
            let mut values = document.values().filter(|(path, _)| document.path(*path) == field.path);
            if values.any(|(_, value)| matches!(value, Value::Text(text) if holds(text))) {
                found.insert(row);
            }
        }
        Ok(Some(found))
    }

    fn has_one_reading(self, field: &SplitField) -> Result<bool> {
        let wanted = Wanted::Path(&field.path);
        Ok(self.split().unread_fields(wanted).is_empty() && self.split().find(wanted)?.len() == 1)
    }

    /// Whether the documents of these rows take no more requests than the values of a field.
    async fn documents_are_near(self, field: &SplitField, rows: &RoaringBitmap) -> Result<bool> {
        let columns = fields::columns_of(field);
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        self.know_pages(&[&columns[..], &[SOURCE_COLUMN]].concat()).await?;
        let documents = self.split().documents(Some(rows))?;
        let values = self.split().columns(&columns, Some(rows), TextAs::Plain)?;
        Ok(documents.ranges().len() <= values.ranges().len())
    }
}

/// About how much memory documents take that are held at a time.
const HELD_BYTES: u64 = 8 << 20;

/// No document that a split has is beyond these.
pub(crate) const LIMITS: Limits = Limits {
    document_bytes_max: usize::MAX,
    depth_max: usize::MAX,
    fields_max: usize::MAX,
    values_max: usize::MAX,
    path_bytes_max: usize::MAX,
};

#[cfg(test)]
mod tests;
