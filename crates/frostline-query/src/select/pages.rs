//! Values between bounds: from the times of a split, from dictionaries if they list all values, else
//! from the pages whose bounds do not decide it.

use frostline_base::TimeRange;
use frostline_split::{Bounds, Moment, RowBits, SplitField, ValueType};
use roaring::RoaringBitmap;

use crate::Result;
use crate::filter::{Bound, FieldRef, Scalar};
use crate::prune::{self, TimeBounds};
use crate::read::fields::{self, FieldValue};
use crate::read::view::View;
use crate::select::Rows;
use crate::select::lookup::Lookup;

/// A range of fewer numbers is answered by their postings, and by the column otherwise.
const EQUALITIES_MAX: u64 = 128;

impl View<'_> {
    pub(super) async fn range(
        self,
        field: &FieldRef,
        lower: &Bound,
        upper: &Bound,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let mut rows = match field.is_time() {
            true => self.rows_between(lower, upper).await?,
            false => RoaringBitmap::new(),
        };
        for (reading, _) in self.readings(field).await? {
            rows |= self.range_of(reading, lower, upper, among).await?;
        }
        Ok(Rows::Some(rows))
    }

    async fn range_of(
        self,
        field: &SplitField,
        lower: &Bound,
        upper: &Bound,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        match field.ty {
            ValueType::Long => {
                let Some(span) = LongSpan::new(lower, upper) else { return Ok(RoaringBitmap::new()) };
                if let Some(rows) = self.few_longs(field, &span).await? {
                    return Ok(rows);
                }
                self.scan_longs(field, among, &|n| span.contains(n), |low, high| span.overlaps(low, high))
                    .await
            }
            ValueType::Date => {
                let possible = TimeBounds::new(lower, upper).possible;
                if possible.is_empty() {
                    return Ok(RoaringBitmap::new());
                }
                let are_exact = [lower, upper].into_iter().any(|bound| prune::nanos_of(bound).is_some());
                let inside = |date: Moment| prune::is_between(date, lower, upper);
                let overlaps = |low: i64, high: i64| low < possible.end_us && high >= possible.start_us;
                self.scan_dates(field, among, are_exact, &inside, overlaps).await
            }
            ValueType::Double => {
                let Some((above, below)) = fields::double_tests(lower, upper) else {
                    return Ok(RoaringBitmap::new());
                };
                self.scan_doubles(field, among, &|n| above(n) && below(n), |low, high| {
                    above(high) && below(low)
                })
                .await
            }
            ValueType::Big => {
                let Some(inside) = fields::big_test(lower, upper) else { return Ok(RoaringBitmap::new()) };
                let rows = self.rows_with_value(field, among).await?;
                self.keep(field, &rows, |value| matches!(value, FieldValue::Big(n) if inside(*n))).await
            }
            ValueType::Boolean => {
                let truths = fields::truths_between(lower, upper).map(Scalar::Boolean);
                self.equal_in(&[field], &truths.collect::<Vec<_>>(), among).await
            }
            ValueType::Ip if !field.is_indexed => {
                let Some((first, last)) = fields::ip_bounds(lower, upper) else {
                    return Ok(RoaringBitmap::new());
                };
                self.addresses_where(field, among, |address| first <= *address && *address <= last).await
            }
            ValueType::Ip => {
                let Some(range) = fields::ip_key_range(field.number, lower, upper) else {
                    return Ok(RoaringBitmap::new());
                };
                self.rows_of(Lookup { exact: vec![range], ..Lookup::default() }).await
            }
            ValueType::Text => {
                let Some(inside) = fields::text_test(lower, upper) else { return Ok(RoaringBitmap::new()) };
                self.texts_where(field, "", among, inside).await
            }
        }
    }

    /// A range of numbers as a handful of equalities, where no more numbers are in it and between the bounds of the
    /// field's pages.
    async fn few_longs(self, field: &SplitField, span: &LongSpan) -> Result<Option<RoaringBitmap>> {
        let Some(span) = self.span_in_pages(field, span) else { return Ok(Some(RoaringBitmap::new())) };
        if !field.is_indexed || span.last.abs_diff(span.first) >= EQUALITIES_MAX {
            return Ok(None);
        }
        let mut lookup = Lookup::default();
        (span.first..=span.last).for_each(|n| lookup.add_token(n.to_string(), field.number));
        Ok(Some(self.rows_of(lookup).await?))
    }

    /// The part of a span in which the pages of a field may have numbers; none where they have none.
    fn span_in_pages(self, field: &SplitField, span: &LongSpan) -> Option<LongSpan> {
        let columns = fields::columns_of(field);
        let pages = || columns.iter().flat_map(|name| self.split().page_bounds(name));
        if columns.iter().any(|name| self.split().page_bounds(name).is_empty()) {
            return Some(LongSpan { ..*span });
        }
        let bounds = pages().filter_map(|page| match page.values {
            Some(Bounds::Long(min, max)) => Some((min, max)),
            _ => None,
        });
        let (min, max) = bounds.reduce(|(min, max), (low, high)| (min.min(low), max.max(high)))?;
        let (first, last) = (span.first.max(min), span.last.min(max));
        (first <= last).then_some(LongSpan { first, last })
    }

    /// The rows whose time is between two bounds.
    async fn rows_between(self, lower: &Bound, upper: &Bound) -> Result<RoaringBitmap> {
        let mut rows = self.rows_in_time(TimeBounds::new(lower, upper).possible).await?;
        for bound in [lower, upper] {
            let (Bound::Included(edge) | Bound::Excluded(edge)) = bound else { continue };
            let (Some(time_us), Some(_)) = (edge.time_us, edge.nanos) else { continue };
            let outside = |nanos| !prune::is_between(Moment { time_us, nanos }, lower, upper);
            rows -= self.rows_at(time_us, outside).await?;
        }
        Ok(rows)
    }

    /// The rows in a microsecond whose nanoseconds are such.
    pub(super) async fn rows_at(
        self,
        start_us: i64,
        are_such: impl Fn(u16) -> bool,
    ) -> Result<RoaringBitmap> {
        let rows = self.rows_in_time(TimeRange { start_us, end_us: start_us.saturating_add(1) }).await?;
        let nanos = fields::nanos(self, &rows).await?;
        Ok(rows.iter().zip(nanos).filter(|(_, of_row)| are_such(*of_row)).map(|(row, _)| row).collect())
    }

    pub(crate) async fn rows_in_time(self, range: TimeRange) -> Result<RoaringBitmap> {
        let mut rows = RoaringBitmap::new();
        if range.is_empty() {
            return Ok(rows);
        }
        let known = self.split().rows_in_time(range);
        rows.insert_range(known.certain);
        let mut unsure = RoaringBitmap::new();
        for part in known.unsure {
            unsure.insert_range(part);
        }
        if !unsure.is_empty() {
            let times = fields::times(self, &unsure).await?;
            let inside = unsure.iter().zip(times).filter(|(_, t)| t.is_some_and(|t| range.contains(t)));
            rows.extend(inside.map(|(row, _)| row));
        }
        Ok(rows)
    }

    pub(super) async fn scan_longs(
        self,
        field: &SplitField,
        among: Option<&RoaringBitmap>,
        inside: &(dyn Fn(i64) -> bool + Sync),
        overlaps: impl Fn(i64, i64) -> bool,
    ) -> Result<RoaringBitmap> {
        let rows = fields::rows_in_pages(self, field, among, overlaps, |_, _| false);
        self.keep(field, &rows, |value| matches!(value, FieldValue::Long(n) if inside(*n))).await
    }

    /// The rows with a date inside, compared to the nanosecond or by its microsecond alone.
    pub(super) async fn scan_dates(
        self,
        field: &SplitField,
        among: Option<&RoaringBitmap>,
        are_exact: bool,
        inside: &(dyn Fn(Moment) -> bool + Sync),
        overlaps: impl Fn(i64, i64) -> bool,
    ) -> Result<RoaringBitmap> {
        if !are_exact || !field.has_nanos {
            return self.scan_longs(field, among, &|us| inside(Moment::of_us(us)), overlaps).await;
        }
        let rows = fields::rows_in_pages(self, field, among, overlaps, |_, _| false);
        let mut found = RowBits::new(self.split().rows());
        fields::for_each_date(self, field, &rows, |row, date| {
            if inside(date) {
                found.insert(row);
            }
        })
        .await?;
        Ok(found.rows())
    }

    pub(super) async fn scan_doubles(
        self,
        field: &SplitField,
        among: Option<&RoaringBitmap>,
        inside: &(dyn Fn(f64) -> bool + Sync),
        overlaps: impl Fn(f64, f64) -> bool,
    ) -> Result<RoaringBitmap> {
        let rows = fields::rows_in_pages(self, field, among, |_, _| false, overlaps);
        self.keep(field, &rows, |value| matches!(value, FieldValue::Double(n) if inside(*n))).await
    }
}

/// Whole numbers between two bounds, both ends inside.
pub(crate) struct LongSpan {
    pub(super) first: i64,
    pub(super) last: i64,
}

impl LongSpan {
    /// None where no whole number can be inside.
    pub(super) fn new(lower: &Bound, upper: &Bound) -> Option<LongSpan> {
        let first = match lower {
            Bound::Open => i64::MIN,
            Bound::Included(edge) => fields::ceil(edge.number?)?,
            // A number below all whole numbers excludes none of them.
            Bound::Excluded(edge) => match fields::floor(edge.number?) {
                Some(whole) => whole.checked_add(1)?,
                None => i64::MIN,
            },
        };
        let last = match upper {
            Bound::Open => i64::MAX,
            Bound::Included(edge) => fields::floor(edge.number?)?,
            Bound::Excluded(edge) => match fields::ceil(edge.number?) {
                Some(whole) => whole.checked_sub(1)?,
                None => i64::MAX,
            },
        };
        (first <= last).then_some(LongSpan { first, last })
    }

    fn contains(&self, n: i64) -> bool {
        self.first <= n && n <= self.last
    }

    fn overlaps(&self, low: i64, high: i64) -> bool {
        low <= self.last && high >= self.first
    }
}
