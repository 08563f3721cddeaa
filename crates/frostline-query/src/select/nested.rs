//! Documents in which one object of those at a path matches a filter by itself.
//!
//! A split has the values of all objects of a document together, which say which documents may match. These are read, and
//! their objects are asked. So the answer is exact, and costs the documents that may match.

use roaring::RoaringBitmap;

use crate::Result;
use crate::filter::{Filter, Nested};
use crate::read::memory::Permits;
use crate::read::objects::Objects;
use crate::read::view::View;
use crate::select::Rows;

impl View<'_> {
    /// The rows that match; with `among`, those of them that are in it.
    pub(super) async fn nested(self, nested: &Nested, among: Option<&RoaringBitmap>) -> Result<Rows> {
        let view = View { ..self };
        let candidates = view.select(&nested.candidates, among).await?.bitmap(self.split().rows());
        let mut found = RoaringBitmap::new();
        let mut left = candidates.iter().peekable();
        while left.peek().is_some() {
            let part: RoaringBitmap = left.by_ref().take(self.documents_at_once()).collect();
            let objects = {
                let texts = self.documents(&part).await?;
                Objects::new(texts.iter().map(String::as_str), &[&nested.path], &nested.mapping)?
            };
            let matching = objects.matching(&nested.filter, self.reads).await?;
            let rows = part.iter().zip(objects.of_documents());
            let rows = rows.filter(|(_, objects)| matching.range_cardinality((*objects).clone()) > 0);
            found.extend(rows.map(|(row, _)| row));
        }
        Ok(Rows::Some(found))
    }
}

impl Objects {
    /// Those that match.
    pub(crate) async fn matching(&self, filter: &Filter, reads: &Permits) -> Result<RoaringBitmap> {
        let Some((view, objects)) = self.view(reads) else { return Ok(RoaringBitmap::new()) };
        let rows = view.select(filter, None).await?.bitmap(view.split().rows());
        Ok(rows.iter().filter_map(|row| objects.get(row as usize).copied()).collect())
    }
}
