//! The session that plans run in: memory, and the context that leaves need.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{FunctionRegistry, SessionStateBuilder};
use datafusion::functions_aggregate::average::Avg;
use datafusion::logical_expr::AggregateUDF;
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::Result;
use crate::errors::internal;
use crate::exec::arithmetic::CheckedArithmetic;
use crate::exec::bounded::{self, Bounded};
use crate::exec::codec;
use crate::exec::joined::{self, BoundedJoins};
use crate::exec::matching;
use crate::exec::nulls::KeepNulls;
use crate::exec::odd_columns::OddColumns;
use crate::exec::odd_numbers::OddNumbers;
use crate::exec::rule::OwnNodes;
use crate::exec::scan::Local;
use crate::exec::whole_sum::WholeSum;
use crate::read::merge::arrow_error;
use crate::read::open::Searcher;

/// What plans run in whose expressions call no function, as those of searches do. What they hold is reserved in the
/// memory of `local`.
pub(crate) fn context(local: Local) -> Result<Arc<TaskContext>> {
    let runtime = runtime(&local)?;
    let config = SessionConfig::new().with_extension(Arc::new(local));
    let (scalar, higher, aggregate, window) = Default::default();
    Ok(Arc::new(TaskContext::new(None, String::new(), config, scalar, higher, aggregate, window, runtime)))
}

fn runtime(local: &Local) -> Result<Arc<RuntimeEnv>> {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&local.memory));
    runtime.build_arc().map_err(internal)
}

/// A session of SQL whose queries have one budget together, out of the searcher's memory.
pub(crate) fn session(local: Local) -> Result<SessionContext> {
    let (runtime, memory) = (runtime(&local)?, Arc::clone(&local.memory));
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> =
        vec![Arc::new(OwnNodes { groups: local.searcher.settings.groups })];
    rules.extend(PhysicalOptimizer::new().rules);
    let odd_columns = OddColumns::new();
    // Before types are made the same.
    let analyzer: Vec<Arc<dyn AnalyzerRule + Send + Sync>> =
        [Arc::new(odd_columns.clone()) as _].into_iter().chain(Analyzer::new().rules).collect();
    let config = SessionConfig::new().with_information_schema(true).with_extension(Arc::new(local));
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_analyzer_rules(analyzer)
        .with_physical_optimizer_rules(rules);
    let mut session = SessionContext::new_with_state(state.build());
    for name in bounded::NAMES {
        let function = session.udf(name).map_err(internal)?;
        session.register_udf(Bounded::over(&function, &memory));
    }
    let lists = joined::OF_LISTS.map(|name| session.udf(name));
    let lists = lists.into_iter().collect::<Result<Vec<_>, _>>().map_err(internal)?;
    let joins = BoundedJoins::new(lists.into_iter(), &memory);
    joins.functions().for_each(|function| session.register_udf(function));
    session.add_analyzer_rule(Arc::new(joins));
    session.register_udf(odd_columns.function());
    session.register_expr_planner(Arc::new(odd_columns)).map_err(internal)?;
    session.register_udf(matching::function());
    let keep_nulls = KeepNulls::new();
    session.register_udf(keep_nulls.function());
    session.add_analyzer_rule(Arc::new(keep_nulls));
    let arithmetic = CheckedArithmetic::new();
    arithmetic.functions().for_each(|function| session.register_udf(function));
    session.add_analyzer_rule(Arc::new(arithmetic));
    session.register_udaf(OddNumbers::over(AggregateUDF::from(WholeSum::default())));
    session.register_udaf(OddNumbers::over(AggregateUDF::from(Avg::default())));
    Ok(session)
}

/// The plan as it will run: serialized and deserialized, if that is required of all plans.
pub(crate) fn ready(
    plan: Arc<dyn ExecutionPlan>,
    context: &TaskContext,
    searcher: &Searcher,
) -> Result<Arc<dyn ExecutionPlan>> {
    match searcher.settings.through_bytes {
        true => codec::read(&codec::write(&plan)?, context),
        false => Ok(plan),
    }
}

/// The whole output of a plan as one batch.
pub(crate) async fn run(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<RecordBatch> {
    let schema = plan.schema();
    let plan: Arc<dyn ExecutionPlan> = match plan.properties().partitioning.partition_count() {
        1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    };
    let batches = collect(plan, context).await.map_err(internal)?;
    concat_batches(&schema, &batches).map_err(arrow_error)
}

/// Runs a plan that another process has serialized, over the same repository, and returns its answer.
pub async fn run_plan(searcher: &Arc<Searcher>, bytes: &[u8]) -> Result<RecordBatch> {
    let session = session(Local::new(searcher, None))?;
    let context = session.task_ctx();
    run(codec::read(bytes, &context)?, context).await
}
