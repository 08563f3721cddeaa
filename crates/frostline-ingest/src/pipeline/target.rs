//! The index of a run: the one that is there, or the one that is created for the first split.
//!
//! A run that lands no document creates nothing.

use std::sync::Arc;

use frostline_base::{Error, ErrorKind, IndexName, Result};
use frostline_catalog::{Catalog, Index, RecordChange, Records, Settings};
use frostline_split::Mapping;
use frostline_store::Repository;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::{Ingest, IngestOptions, Random};
use crate::needle::Terms;
use crate::seal::Output;
use crate::settings;

/// What an index is created with.
#[derive(Clone)]
pub struct Birth {
    /// Its fields and rules.
    pub mapping: Mapping,
    /// The records that are there from the same moment, such as its settings and its aliases.
    pub also: Also,
}

/// What to change with a creation, by the records at that time.
pub type Also = Arc<dyn Fn(&Records) -> Result<Vec<RecordChange>> + Send + Sync>;

/// What an index of that name would be created with now.
pub(super) type Births = dyn Fn(&Records, &IndexName) -> Result<Birth> + Send + Sync;

impl std::fmt::Debug for Birth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Birth").field("mapping", &self.mapping).finish_non_exhaustive()
    }
}

pub(super) struct Target {
    /// The index as it was when the run began.
    pub(super) before: Option<Index>,
    /// The fields that lines are parsed with, and that the index is created with.
    pub(super) mapping: Mapping,
    /// What is created with the index.
    also: Also,
    births: Option<Arc<Births>>,
    name: IndexName,
    repository: Repository,
    catalog: Catalog,
    random: Random,
    runtime: Handle,
    needle: bool,
    stored_source: Option<bool>,
    output: OnceCell<Output>,
}

impl Target {
    pub(super) fn new(ingest: &Ingest, name: &IndexName, options: &IngestOptions) -> Target {
        Target {
            before: None,
            mapping: options.mapping.clone().unwrap_or_default(),
            also: Arc::new(|_| Ok(Vec::new())),
            births: ingest.births.clone(),
            name: name.clone(),
            repository: ingest.repository.clone(),
            catalog: ingest.catalog.clone(),
            random: Arc::clone(&ingest.random),
            runtime: Handle::current(),
            needle: options.needle,
            stored_source: options.stored_source,
            output: OnceCell::new(),
        }
    }

    /// Looks for the index.
    pub(super) async fn find(mut self, options: &IngestOptions) -> Result<Target> {
        let index = match self.catalog.open_to_write(&self.name).await {
            Ok(index) => index,
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Err(_) if self.catalog.stands_for_others(&self.name) => {
                let name = &self.name;
                return Err(Error::invalid(format!(
                    "{name} is an alias or a data stream: name the index to ingest into"
                )));
            }
            Err(_) => {
                if let Some(birth) = self.birth()? {
                    (self.mapping, self.also) = (birth.mapping, birth.also);
                }
                if let Some(field) = &options.time_field {
                    self.mapping = self.mapping.with_time_field(field.as_str());
                    self.mapping.check_time_field()?;
                }
                return Ok(self);
            }
        };
        self.mapping = self.kept(&index, options)?;
        let output = self.output_into(index).await?;
        self.before = Some(output.index.clone());
        self.output = OnceCell::new_with(Some(output));
        Ok(self)
    }

    /// `Invalid` where somebody has closed or blocked the index by now.
    pub(super) async fn check_writable(&self) -> Result<()> {
        self.catalog.check_writable(&self.name).await
    }

    /// Where splits are written. Creates the index if there is none. Blocks: not for a thread of the runtime.
    pub(super) fn output(&self) -> Result<&Output> {
        self.runtime.block_on(self.output.get_or_try_init(|| self.create()))
    }

    /// The same, if the index is there as far as this run knows.
    pub(super) fn known_output(&self) -> Option<&Output> {
        self.output.get()
    }

    async fn create(&self) -> Result<Output> {
        let settings = Settings::default();
        let mapping = self.mapping.clone();
        let index = self.catalog.open_or_create_with(&self.name, mapping, settings, &*self.also).await?;
        let (here, parsed) = (index.mapping(), &self.mapping);
        let first = |what: String| {
            let name = &self.name;
            Error::conflict(format!("another writer has just created the index {name}, {what}: try again"))
        };
        if here.time_field() != parsed.time_field() {
            let (theirs, ours) = (here.time_field(), parsed.time_field());
            return Err(first(format!(
                "which takes its time from the field {theirs:?} and not from {ours:?}"
            )));
        }
        if here.declarations() != parsed.declarations() {
            return Err(first("with another mapping".to_owned()));
        }
        self.output_into(index).await
    }

    /// What the index would be created with, by the records that were read to look for it.
    fn birth(&self) -> Result<Option<Birth>> {
        let records = self.catalog.seen_records();
        let asked = self.births.as_ref().zip(records);
        asked.map(|(births, records)| births(&records, &self.name)).transpose()
    }

    /// The mapping of an index that is there. `Invalid` where the options say otherwise.
    fn kept(&self, index: &Index, options: &IngestOptions) -> Result<Mapping> {
        let here = index.mapping();
        let time_field = here.time_field();
        if let Some(other) = options.time_field.as_deref().filter(|field| *field != time_field) {
            return Err(Error::invalid(format!(
                "the time field of the index is {time_field:?} and cannot be changed to {other:?}: leave \
                 --time-field out, or use another index"
            )));
        }
        let is_it =
            |other: &Mapping| other.clone().with_time_field(time_field).declarations() == here.declarations();
        // The same command may have created it, with what templates say.
        let may_create = || Ok(self.birth()?.is_some_and(|birth| is_it(&birth.mapping)));
        match &options.mapping {
            Some(given) if !is_it(given) && !may_create()? => Err(Error::invalid(
                "the index exists and keeps its mapping, which is another one: omit --mapping, or ingest into a new index",
            )),
            _ => Ok(here.clone()),
        }
    }

    async fn output_into(&self, index: Index) -> Result<Output> {
        let index = match self.stored_source {
            Some(stored) => settings::change(index, |set| set.stored_source = stored).await?,
            None => index,
        };
        let terms = match self.needle {
            true => Terms::of(&self.catalog, &index, &self.random).await?,
            false => None,
        };
        Ok(Output {
            index,
            repository: self.repository.clone(),
            random: Arc::clone(&self.random),
            runtime: self.runtime.clone(),
            terms,
        })
    }
}

#[cfg(test)]
mod tests;
