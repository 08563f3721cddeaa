//! Documents by the ranges of a field.
//!
//! The index has no order of ranges: all that are among the rows that are asked are compared.

use frostline_split::Span;
use roaring::RoaringBitmap;

use crate::Result;
use crate::filter::FieldRef;
use crate::ranges::Relation;
use crate::read::ranges;
use crate::read::view::View;
use crate::select::{Rows, narrow};

impl View<'_> {
    /// The rows with a range that is so to `span`.
    pub(super) async fn ranges(
        self,
        field: &FieldRef,
        span: &Span,
        relation: Relation,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let Some(of) = field.of_ranges() else { return Ok(Rows::none()) };
        let with_value = self.exists(field).await?.bitmap(self.split().rows());
        let rows = narrow(with_value, among);
        let ranges = ranges::ranges(self, field, of, &rows).await?;
        let holds = |spans: &[Span]| spans.iter().any(|own| relation.holds(own, span));
        let found = rows.iter().zip(ranges.rows()).filter(|(_, spans)| holds(spans));
        Ok(Rows::Some(found.map(|(row, _)| row).collect()))
    }
}
