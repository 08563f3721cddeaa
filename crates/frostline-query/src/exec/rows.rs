//! Reads the columns of matching rows, for DataFusion's operators.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::execution::TaskContext;
use frostline_base::Meter;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::exec::report::Told;
use crate::exec::scan::{Local, Reading, Scan};
use crate::exec::splits::Splits;
use crate::exec::top::TimeTop;
use crate::filter::Filter;
use crate::read::output::{Of, Output};
use crate::{Error, Result};

/// The matching rows of some splits, column by column.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rows {
    pub(crate) splits: Splits,
    pub(crate) filter: Filter,
    pub(crate) outputs: Vec<Output>,
    /// Which rows suffice.
    pub(crate) enough: Enough,
    streams: usize,
    /// The field that documents have their times in.
    time_field: String,
}

/// Which of the matching rows of each split suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Enough {
    All,
    /// Any rows, this many.
    Any(usize),
    /// This many rows, the best by time: others are read only if they may be among these.
    ByTime {
        wanted: usize,
        descending: bool,
    },
}

/// More streams do not help.
const STREAMS_MAX: usize = 1_024;

impl Rows {
    pub(crate) fn new(
        splits: Splits,
        filter: Filter,
        outputs: Vec<Output>,
        streams: usize,
        time_field: &str,
    ) -> Rows {
        let streams = streams.clamp(1, splits.len().clamp(1, STREAMS_MAX));
        Rows { splits, filter, outputs, enough: Enough::All, streams, time_field: time_field.to_owned() }
    }

    /// The same rows, of which `enough` suffice.
    pub(crate) fn enough(mut self, enough: Enough) -> Rows {
        // Several streams would each read as much as suffices.
        if enough != Enough::All {
            self.streams = 1;
        }
        self.enough = enough;
        self
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.outputs.iter().map(Output::field).collect::<Vec<Field>>()))
    }

    pub(crate) fn streams(&self) -> usize {
        self.streams
    }

    pub(crate) fn describe(&self) -> String {
        let names: Vec<&str> = self.outputs.iter().map(|output| output.name.as_str()).collect();
        let enough = match self.enough {
            Enough::All => String::new(),
            Enough::Any(rows) => format!(" limit={rows}"),
            Enough::ByTime { wanted, descending: true } => format!(" newest={wanted}"),
            Enough::ByTime { wanted, descending: false } => format!(" oldest={wanted}"),
        };
        format!("columns=[{}]{enough}", names.join(", "))
    }

    pub(crate) fn check(&self) -> Result<()> {
        let is_one = self.enough != Enough::All;
        if self.streams == 0 || self.streams > STREAMS_MAX || (is_one && self.streams > 1) {
            return Err(Error::corrupt(format!("a plan of {} streams", self.streams)));
        }
        Ok(())
    }

    pub(crate) fn run(
        &self,
        stream: usize,
        context: &Arc<TaskContext>,
    ) -> Result<(BoxStream<'static, Result<RecordBatch>>, Told)> {
        let mut groups = self.splits.groups(self.streams);
        let none = || self.splits.only(std::iter::empty());
        let splits = if stream < groups.len() { groups.swap_remove(stream) } else { none() };
        let local = Local::of(context)?;
        let scan = Scan::new(local, &splits, &self.filter, Arc::new(Meter::default()), false);
        let has_documents = self.outputs.iter().any(|output| matches!(output.of, Of::Source));
        let scan = Arc::new(match self.enough {
            Enough::ByTime { wanted, .. } if has_documents => scan.showing(wanted, &self.time_field),
            _ => scan,
        });
        let outputs: Arc<[Output]> = self.outputs.clone().into();
        let batches = match self.enough {
            Enough::ByTime { wanted, descending } => {
                let (scan, count_up_to) = (Arc::clone(&scan), 0);
                let top = TimeTop { scan, outputs, documents: None, descending, wanted, count_up_to };
                stream::once(top.run())
                    .map_ok(|(batches, _memory)| stream::iter(batches.into_iter().map(Ok)))
                    .try_flatten()
                    .boxed()
            }
            Enough::All | Enough::Any(_) => {
                let limit = match self.enough {
                    Enough::Any(rows) => Some(rows),
                    _ => None,
                };
                Reading { scan: Arc::clone(&scan), outputs, limit }.batches(self.streams)
            }
        };
        Ok((batches, Box::new(move || scan.report(&splits))))
    }
}
