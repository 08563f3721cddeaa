//! SQL over indices.

mod bounds;
mod precedence;
mod rows;

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::TableReference;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr, Ident, Statement as SqlStatement, TypedString, visit_expressions_mut,
};
use frostline_base::STAGE;
use frostline_catalog::Index;
use futures::stream::TryStreamExt;
use tracing::{Instrument, info_span};

use crate::answer::classes::read_filter;
use crate::answer::response::QueryCost;
use crate::answer::search::{SearchOptions, reading_splits, tell};
use crate::answer::sql_error::worded;
use crate::errors::internal;
use crate::exec::awaited::{Awaited, Ended};
use crate::exec::leaf::LeafExec;
use crate::exec::report::Report;
use crate::exec::results::Results;
use crate::exec::scan::Local;
use crate::exec::session::{self, session};
use crate::exec::splits::RuledOut;
use crate::exec::table::IndexTable;
use crate::exec::{codec, constants, stack};
use crate::read::memory::reservation;
use crate::read::open::Searcher;
use crate::{Error, Result};

pub use rows::SqlRows;

/// A session of SQL over some indices.
#[derive(Clone)]
pub struct Sql {
    session: SessionContext,
    searcher: Arc<Searcher>,
}

/// The answer of a query.
#[derive(Debug)]
pub struct SqlAnswer {
    /// Its columns.
    pub schema: SchemaRef,
    /// Its rows.
    pub batches: Vec<RecordBatch>,
    /// What it cost.
    pub cost: QueryCost,
    _memory: MemoryReservation,
}

impl Sql {
    /// The names of the tables that a query reads: of indices, or expressions that stand for several.
    pub fn tables(query: &str) -> Result<Vec<String>> {
        stack::on_own_now(|| {
            let (tables, _) = resolve_table_references(&parse(query)?, true).map_err(|e| worded(query, e))?;
            let own = tables.into_iter().filter(|table| table.schema() != Some("information_schema"));
            Ok(own.map(|table| table.table().to_owned()).collect())
        })
    }

    /// Whether a query is `show tables`, which the catalog answers.
    pub fn shows_tables(query: &str) -> bool {
        let words = query.trim().trim_end_matches(';').split_whitespace();
        words.map(str::to_lowercase).eq(["show", "tables"])
    }

    /// A session in which each index is a table of its name.
    pub fn new(searcher: &Arc<Searcher>, indices: &[Arc<Index>]) -> Result<Sql> {
        let tables = indices.iter().map(|index| (index.name().as_str().to_owned(), vec![Arc::clone(index)]));
        Sql::over(searcher, tables, None)
    }

    /// A session in which each name is a table of the documents of some indices. Partial answers are found and kept
    /// in `results`.
    pub fn over(
        searcher: &Arc<Searcher>,
        tables: impl IntoIterator<Item = (String, Vec<Arc<Index>>)>,
        results: Option<Arc<Results>>,
    ) -> Result<Sql> {
        let session = session(Local::new(searcher, results.clone()))?;
        for (name, indices) in tables {
            let table = IndexTable::new(searcher, results.clone(), &indices)?;
            session.register_table(TableReference::bare(name), Arc::new(table)).map_err(internal)?;
        }
        Ok(Sql { session, searcher: Arc::clone(searcher) })
    }

    /// The same with one more table, of what a query of the query DSL matches in some indices.
    pub fn with_filtered(
        self,
        name: &str,
        indices: &[Arc<Index>],
        filter: &serde_json::Value,
        options: &SearchOptions,
    ) -> Result<Sql> {
        let filters = read_filter(filter, indices, options.now_us)?;
        let table = IndexTable::filtered(&self.searcher, options.results.clone(), indices, &filters)?;
        self.session.register_table(TableReference::bare(name), Arc::new(table)).map_err(internal)?;
        Ok(self)
    }

    /// Runs one query. Statements that change anything are refused. It ends within a few batches where its future is
    /// dropped.
    pub async fn run(&self, query: &str) -> Result<SqlAnswer> {
        let started = Instant::now();
        let awaited = Awaited::default();
        let (sql, query, ended) = (self.clone(), query.to_owned(), awaited.ended());
        stack::on_own(async move { sql.answer(&query, &ended, started).await }).await
    }

    async fn answer(&self, query: &str, ended: &Ended, started: Instant) -> Result<SqlAnswer> {
        let plan = self.plan(query).instrument(info_span!(target: STAGE, "plan query")).await?;
        let plan = ended.plan(plan)?;
        let schema = plan.schema();
        rows::check(&schema)?;
        let reading = reading_splits();
        let rows = rows_of(Arc::clone(&plan), self.session.task_ctx()).instrument(reading.clone());
        let (batches, memory) = rows.await.map_err(|e| worded(query, e))?;
        let mut ran = Ran::default();
        ran.add(plan.as_ref());
        tell(&reading, &ran.report);
        let cost = QueryCost::new(&self.searcher, started.elapsed(), &ran.report, &ran.ruled_out, ran.asked);
        Ok(SqlAnswer { schema, batches, cost, _memory: memory })
    }

    /// An answer of texts that no query computes.
    pub fn texts<const N: usize>(&self, columns: [&str; N], rows: &[[String; N]]) -> Result<SqlAnswer> {
        let fields = columns.map(|name| Field::new(name, DataType::Utf8, false));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let column = |at: usize| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row[at])))
        };
        let batch = RecordBatch::try_new(Arc::clone(&schema), (0..N).map(column).collect());
        let batch = batch.map_err(crate::read::merge::arrow_error)?;
        let memory = reservation(self.session.task_ctx().memory_pool(), "rows of the answer");
        memory.try_grow(batch.get_array_memory_size()).map_err(internal)?;
        let (report, ruled_out) = (Report::default(), RuledOut::default());
        let cost = QueryCost::new(&self.searcher, Duration::ZERO, &report, &ruled_out, 0);
        Ok(SqlAnswer { schema, batches: vec![batch], cost, _memory: memory })
    }

    /// What plans of this session run in.
    #[cfg(test)]
    pub(crate) fn context(&self) -> Arc<datafusion::execution::TaskContext> {
        self.session.task_ctx()
    }

    /// The plan that would run, as text.
    pub async fn explain(&self, query: &str) -> Result<String> {
        let (sql, query) = (self.clone(), query.to_owned());
        let shown = async move {
            let plan = sql.plan(&query).await?;
            Ok(datafusion::physical_plan::displayable(plan.as_ref()).indent(true).to_string())
        };
        stack::on_own(shown).await
    }

    /// The plan in bytes, which [`crate::run_plan`] runs in any process over the same repository.
    pub async fn plan_bytes(&self, query: &str) -> Result<Vec<u8>> {
        let (sql, query) = (self.clone(), query.to_owned());
        stack::on_own(async move { codec::write(&sql.plan(&query).await?) }).await
    }

    async fn plan(&self, query: &str) -> Result<Arc<dyn ExecutionPlan>> {
        let mut statement = parse(query)?;
        let only_queries =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let state = self.session.state();
        let mut inner = &mut statement;
        while let Statement::Explain(explain) = inner {
            inner = &mut explain.statement;
        }
        if let Statement::Statement(statement) = inner {
            quote_names(statement);
            count_microseconds(statement);
            precedence::check_numbers(statement)?;
            precedence::restore(statement)?;
        }
        let only_reads = || {
            Error::invalid(format!(
                "SQL only reads: to delete an index, use `frostline index delete`\n  in: {query}"
            ))
        };
        if matches!(inner, Statement::CopyTo(_) | Statement::CreateExternalTable(_) | Statement::Reset(_)) {
            return Err(only_reads());
        }
        let plan = state.statement_to_plan(statement).await.map_err(|e| worded(query, e))?;
        bounds::check_plan(&plan)?;
        only_queries.verify_plan(&plan).map_err(|_| only_reads())?;
        let frame = self.session.execute_logical_plan(plan).await.map_err(|e| worded(query, e))?;
        let plan = frame.create_physical_plan().await.map_err(|e| worded(query, e))?;
        let batch_rows = state.config().batch_size();
        constants::check(&plan, batch_rows, self.searcher.settings.query_bytes_max)?;
        session::ready(plan, &self.session.task_ctx(), &self.searcher)
    }
}

/// All rows of a plan, and the memory that they take.
async fn rows_of(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> DataFusionResult<(Vec<RecordBatch>, MemoryReservation)> {
    let memory = reservation(context.memory_pool(), "rows of the answer");
    let mut batches = Vec::new();
    let mut stream = execute_stream(plan, context)?;
    while let Some(batch) = stream.try_next().await? {
        memory.try_grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    Ok((batches, memory))
}

/// The one statement of a query.
fn parse(query: &str) -> Result<Statement> {
    bounds::check_text(query)?;
    let parser = DFParserBuilder::new(query).build();
    let statements = parser.and_then(|mut parser| parser.parse_statements()).map_err(|e| worded(query, e))?;
    match <[Statement; 1]>::try_from(Vec::from(statements)) {
        Ok([statement]) => bounds::check(&statement).map(|()| statement),
        Err(none) if none.is_empty() => Err(Error::invalid("the query is empty")),
        Err(_) => Err(Error::invalid(format!("one statement is allowed at a time\n  in: {query}"))),
    }
}

/// Quotes the names that begin with `@`: there are no variables, and every index has a field `@timestamp`.
fn quote_names(statement: &mut SqlStatement) {
    let ControlFlow::Continue(()) = visit_expressions_mut(statement, |expr| {
        if let Expr::Identifier(name) = expr
            && name.quote_style.is_none()
            && name.value.starts_with('@')
        {
            *name = Ident::with_quote('"', name.value.to_lowercase());
        }
        ControlFlow::<Infallible>::Continue(())
    });
}

/// Makes a `timestamp` one of microseconds, as columns of times are. DataFusion's are of nanoseconds, which begin in 1677
/// and end in 2262.
fn count_microseconds(statement: &mut SqlStatement) {
    let ControlFlow::Continue(()) = visit_expressions_mut(statement, |expr| {
        if let Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) = expr
            && let SqlType::Timestamp(precision @ None, _) = data_type
        {
            *precision = Some(6);
        }
        ControlFlow::<Infallible>::Continue(())
    });
}

/// What the leaves of a plan have done.
#[derive(Default)]
struct Ran {
    report: Report,
    ruled_out: RuledOut,
    asked: u64,
}

impl Ran {
    fn add(&mut self, plan: &dyn ExecutionPlan) {
        if let Some(leaf) = plan.downcast_ref::<LeafExec>() {
            let splits = leaf.leaf().splits();
            self.report.add(leaf.report());
            self.ruled_out.add(splits.ruled_out());
            self.asked += splits.len() as u64;
        }
        plan.children().into_iter().for_each(|child| self.add(child.as_ref()));
    }
}

#[cfg(test)]
mod tests;
