//! SQL's `group by` as aggregations, so that digests and cached answers serve SQL as well.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::keys::{Common, Key};
use super::metric::Moments;
use super::state::{Keyed, Node};
use super::time::{DateFormat, Rounding};
use super::{
    Agg, AggState, AggTree, Composite, DateHistogram, Kind, Metric, MetricKind, Missing, OrderBy, OrderKey,
    Source, SourceBy, Terms,
};
use crate::filter::FieldRef;
use crate::{Error, Result};

pub(crate) use super::time::Unit;

/// What rows are grouped by, and what is computed for each group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GroupBy {
    pub(crate) keys: Vec<GroupKey>,
    pub(crate) values: Vec<GroupValue>,
}

/// One key of the groups. Rows without a value are a group of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum GroupKey {
    /// The value of a field that has one at most.
    Value(FieldRef),
    /// The time of the document, rounded down in UTC; the offset is in microseconds.
    Time { field: FieldRef, unit: Unit, offset_us: i64 },
}

/// What is computed for each group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum GroupValue {
    /// Rows.
    Rows,
    /// Rows with a value.
    Count(FieldRef),
    /// The sum of whole numbers.
    SumWhole(FieldRef),
    Sum(FieldRef),
    Avg(FieldRef),
    Min(FieldRef),
    Max(FieldRef),
}

/// One group of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) keys: Vec<GroupCell>,
    pub(crate) values: Vec<GroupCell>,
}

/// One value of a group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupCell {
    Null,
    Boolean(bool),
    Long(i64),
    Big(i128),
    Double(f64),
    Time(i64),
    Text(String),
}

impl GroupBy {
    /// The aggregations that find the groups.
    pub(crate) fn tree(&self) -> AggTree {
        let mut tree = AggTree::empty();
        let values: Vec<Agg> = self
            .values
            .iter()
            .filter_map(|value| value.kind(&mut tree))
            .map(|kind| agg(kind, Vec::new()))
            .collect();
        tree.aggs = match self.keys.as_slice() {
            [] => values,
            [one] => {
                let field = index(&mut tree, one.field());
                vec![
                    agg(one.kind(field), values.clone()),
                    agg(Kind::Missing(Missing { field, is_replaced: false }), values),
                ]
            }
            several => {
                let sources = several.iter().map(|key| key.source(&mut tree)).collect();
                let composite = Composite { sources, size: usize::MAX, after: None };
                vec![agg(Kind::Composite(composite), values)]
            }
        };
        tree
    }

    /// How many buckets of a state of [`GroupBy::tree`] may be groups.
    pub(crate) fn buckets(&self, state: &AggState) -> Result<usize> {
        match (self.keys.len(), state.nodes.as_slice()) {
            (0, _) => Ok(1),
            (1, [Node::Keyed(keyed), Node::Slots(_)]) => Ok(keyed.counts.len() + 1),
            (_, [Node::Keyed(keyed)]) => Ok(keyed.counts.len()),
            _ => Err(Error::corrupt("a stored aggregation does not fit its groups")),
        }
    }

    /// The groups among some buckets of a state of [`GroupBy::tree`].
    pub(crate) fn groups(&self, state: &AggState, buckets: Range<usize>) -> Result<Vec<Group>> {
        let wrong = || Error::corrupt("a stored aggregation does not fit its groups");
        match (self.keys.len(), state.nodes.as_slice()) {
            (0, values) => {
                Ok(vec![Group { keys: Vec::new(), values: self.values(state.documents, values, 0)? }])
            }
            (1, [Node::Keyed(keyed), Node::Slots(missing)]) => {
                let mut groups = self.keyed(keyed, buckets.clone(), |key| vec![cell(key)])?;
                let rows = missing.counts.first().copied().unwrap_or(0);
                // The last bucket is that of the rows without a value.
                if rows > 0 && buckets.contains(&keyed.counts.len()) {
                    let values = self.values(rows, &missing.children, 0)?;
                    groups.push(Group { keys: vec![GroupCell::Null], values });
                }
                Ok(groups)
            }
            (_, [Node::Keyed(keyed)]) => self.keyed(keyed, buckets, |key| match key {
                Key::Tuple(keys) => keys.iter().map(cell).collect(),
                one => vec![cell(one)],
            }),
            _ => Err(wrong()),
        }
    }

    fn keyed(
        &self,
        keyed: &Keyed,
        buckets: Range<usize>,
        cells: impl Fn(&Key) -> Vec<GroupCell>,
    ) -> Result<Vec<Group>> {
        let keys = keyed.keys.keys();
        let all = keyed.ids.iter().zip(&keyed.counts).enumerate();
        let groups = all.skip(buckets.start).take(buckets.len()).filter(|(_, (_, rows))| **rows > 0);
        groups
            .map(|(bucket, (id, rows))| {
                let key = keys.get(*id as usize).ok_or_else(|| Error::corrupt("a group without a key"))?;
                Ok(Group { keys: cells(key), values: self.values(*rows, &keyed.children, bucket)? })
            })
            .collect()
    }

    fn values(&self, rows: u64, nodes: &[Node], bucket: usize) -> Result<Vec<GroupCell>> {
        let mut moments = nodes.iter().map(|node| match node {
            Node::Moments(all) => all.get(bucket).copied().unwrap_or_default(),
            _ => Moments::default(),
        });
        let values = self.values.iter().map(|value| match value {
            GroupValue::Rows => Ok(GroupCell::Long(whole(rows.into())?)),
            value => value.cell(&moments.next().unwrap_or_default()),
        });
        values.collect()
    }
}

impl GroupKey {
    fn field(&self) -> &FieldRef {
        match self {
            GroupKey::Value(field) | GroupKey::Time { field, .. } => field,
        }
    }

    fn kind(&self, field: usize) -> Kind {
        match self {
            GroupKey::Value(of) => Kind::Terms(Terms::all(field, Common::of(of, None))),
            GroupKey::Time { unit, offset_us, .. } => Kind::DateHistogram(DateHistogram {
                field,
                rounding: rounding(*unit, *offset_us),
                format: DateFormat::iso(),
                min_doc_count: 1,
                extended: (None, None),
                hard: (None, None),
                missing_us: None,
                keyed: false,
                order: order(),
            }),
        }
    }

    fn source(&self, tree: &mut AggTree) -> Source {
        let by = match self {
            GroupKey::Value(_) => SourceBy::Terms,
            GroupKey::Time { unit, offset_us, .. } => SourceBy::Date(rounding(*unit, *offset_us)),
        };
        Source {
            name: String::new(),
            field: index(tree, self.field()),
            common: Common::of(self.field(), None),
            by,
            descending: false,
            missing_bucket: true,
            null_first: true,
            format: None,
        }
    }
}

impl GroupValue {
    fn kind(&self, tree: &mut AggTree) -> Option<Kind> {
        let (kind, field) = match self {
            GroupValue::Rows => return None,
            GroupValue::Count(field) => (MetricKind::ValueCount, field),
            GroupValue::SumWhole(field) | GroupValue::Sum(field) => (MetricKind::Sum, field),
            GroupValue::Avg(field) => (MetricKind::Avg, field),
            GroupValue::Min(field) => (MetricKind::Min, field),
            GroupValue::Max(field) => (MetricKind::Max, field),
        };
        let field = index(tree, field);
        Some(Kind::Metric(Metric { kind, field, missing: None, sigma: 2.0, format: None }))
    }

    fn cell(&self, moments: &Moments) -> Result<GroupCell> {
        if let GroupValue::Count(_) | GroupValue::Rows = self {
            return Ok(GroupCell::Long(whole(moments.count.into())?));
        }
        if moments.count == 0 {
            return Ok(GroupCell::Null);
        }
        Ok(match self {
            GroupValue::SumWhole(_) => GroupCell::Long(whole(moments.sum.whole())?),
            GroupValue::Sum(_) => GroupCell::Double(moments.sum.value()),
            GroupValue::Avg(_) => moments.avg().map_or(GroupCell::Null, GroupCell::Double),
            GroupValue::Max(_) => GroupCell::Double(moments.max),
            _ => GroupCell::Double(moments.min),
        })
    }
}

fn whole(value: i128) -> Result<i64> {
    let beyond = || {
        Error::invalid(format!(
            "the sum {value} is beyond 64 bits: sum double values, as in sum(cast(f as double))"
        ))
    };
    i64::try_from(value).map_err(|_| beyond())
}

fn cell(key: &Key) -> GroupCell {
    match key {
        Key::Null | Key::Tuple(_) => GroupCell::Null,
        Key::Boolean(value) => GroupCell::Boolean(*value),
        Key::Long(value) => GroupCell::Long(*value),
        Key::Big(value) => GroupCell::Big(*value),
        Key::Double(value) => GroupCell::Double(value.0),
        Key::Time(us) => GroupCell::Time(*us),
        Key::Text(_) | Key::Address(_) => GroupCell::Text(key.text()),
    }
}

fn agg(kind: Kind, children: Vec<Agg>) -> Agg {
    Agg { name: String::new(), kind, meta: None, children }
}

fn index(tree: &mut AggTree, field: &FieldRef) -> usize {
    let known = tree.fields.iter().position(|known| known == field);
    known.unwrap_or_else(|| {
        tree.fields.push(field.clone());
        tree.fields.len() - 1
    })
}

fn order() -> Vec<OrderBy> {
    vec![OrderBy { by: OrderKey::Key, descending: false }]
}

fn rounding(unit: Unit, offset_us: i64) -> Rounding {
    Rounding { unit, zone: jiff::tz::TimeZone::UTC, offset_us }
}
