//! Serializes trees and states, and validates what is read back.

use super::parse::ADJACENCY_MAX;
use super::{Agg, AggState, AggTree, FieldIndex, Kind, Level, SortField};
use crate::{Error, Result};

impl AggTree {
    /// Whether every number in a tree that was read from bytes refers to something that is there.
    pub(crate) fn check(&self) -> Result<()> {
        let descend = |(at, level): (usize, &Level)| level.above.is_none_or(|above| above < at);
        if self.levels.iter().enumerate().all(descend) && self.aggs.iter().all(|agg| self.holds(agg)) {
            return Ok(());
        }
        Err(Error::corrupt("aggregations that name no field or filter of theirs"))
    }

    /// What its states depend on, in bytes. Pipelines are not in it: they are computed from the merged state.
    pub(crate) fn key(&self) -> Result<Vec<u8>> {
        postcard::to_allocvec(&(
            &self.aggs,
            (&self.fields, &self.field_levels),
            (&self.filters, &self.filter_levels),
            &self.levels,
        ))
        .map_err(|e| Error::internal("aggregations cannot be written").with_source(e))
    }

    fn holds(&self, agg: &Agg) -> bool {
        let field = |field: &FieldIndex| *field < self.fields.len();
        let filter = |filter: &usize| *filter < self.filters.len();
        let own = match &agg.kind {
            Kind::Terms(of) => field(&of.field),
            Kind::MultiTerms(of) => of.sources.iter().all(|source| field(&source.field)),
            Kind::DateHistogram(of) => field(&of.field),
            Kind::Histogram(of) => field(&of.field),
            Kind::Range(of) => field(&of.field),
            Kind::Filter(of) => filter(of),
            Kind::Filters(of) => of.filters.iter().all(filter),
            Kind::Missing(of) => field(&of.field),
            Kind::Global => true,
            Kind::Nested(step) | Kind::ReverseNested(step) => {
                [step.from, step.to].into_iter().flatten().all(|level| level < self.levels.len())
            }
            Kind::Composite(of) => of.sources.iter().all(|source| field(&source.field)),
            Kind::TopHits(of) => of.sort.iter().all(|sort| match &sort.field {
                SortField::Column(of) => field(of),
                SortField::Constant => true,
            }),
            Kind::Metric(of) => field(&of.field),
            Kind::Percentiles(of) => field(&of.field),
            Kind::Cardinality(of) => field(&of.field),
            Kind::WeightedAvg(of) => field(&of.value) && field(&of.weight),
            Kind::StringStats(of) => field(&of.field),
            Kind::MedianDeviation(of) => field(&of.field),
            Kind::TopMetrics(of) => {
                let sort = match &of.sort.field {
                    SortField::Column(of) => field(of),
                    SortField::Constant => true,
                };
                sort && of.metrics.iter().all(|(_, of, _)| field(of))
            }
            Kind::RareTerms(of) => field(&of.field),
            Kind::Significant(of) => field(&of.field),
            Kind::Adjacency(of) => {
                of.filters.len() <= ADJACENCY_MAX
                    && of.filters.len() == of.names.len()
                    && of.filters.iter().all(filter)
            }
            Kind::IpRange(of) => field(&of.field),
            Kind::AutoDate(of) => field(&of.field) && of.is_sound(),
            Kind::VariableWidth(of) => field(&of.field),
            Kind::IpPrefix(of) => field(&of.field) && of.length <= of.length_max(),
            Kind::Rate(of) => of.of.as_ref().is_none_or(|of| field(&of.field)),
            Kind::GeoDistance(of) => field(&of.field),
            Kind::Grid(of) => field(&of.field),
            Kind::OfPoints(of) => field(&of.field),
        };
        own && agg.children.iter().all(|child| self.holds(child))
    }
}

impl AggState {
    /// The state in bytes, which [`AggState::read`] reads.
    pub(crate) fn write(&self) -> Result<Vec<u8>> {
        postcard::to_allocvec(self)
            .map_err(|e| Error::internal("the state of an aggregation cannot be written").with_source(e))
    }

    /// The state of a tree that bytes hold. `Corrupt` where they hold none, or one of another tree.
    pub(crate) fn read(bytes: &[u8], tree: &AggTree) -> Result<AggState> {
        let state: AggState = postcard::from_bytes(bytes)
            .map_err(|e| Error::corrupt("the state of an aggregation cannot be read").with_source(e))?;
        state.check(tree)?;
        Ok(state)
    }
}
