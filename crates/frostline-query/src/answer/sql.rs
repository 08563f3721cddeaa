//! SQL over indices.

mod precedence;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{ScalarValue, TableReference};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use frostline_base::Meter;
use frostline_catalog::Index;
use frostline_split::{Piece, Tokenizer, contains_phrase, query_pieces};

use crate::Result;
use crate::answer::response::QueryCost;
use crate::answer::search::session;
use crate::answer::sql_error::worded;
use crate::exec::nulls::KeepNulls;
use crate::exec::odd_columns::OddColumns;
use crate::exec::scan::{Scan, internal};
use crate::exec::table::IndexTable;
use crate::exec::whole_sum::WholeSum;
use crate::read::open::Searcher;

/// The function that searches text.
pub(crate) const MATCH: &str = "match";

/// A session of SQL over some indices.
pub struct Sql {
    session: SessionContext,
    searcher: Arc<Searcher>,
    meter: Arc<Meter>,
    scans: Arc<Mutex<Vec<Arc<Scan>>>>,
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
}

impl Sql {
    /// The names of the tables that a query reads.
    pub fn tables(query: &str) -> Result<Vec<String>> {
        let session = SessionContext::new();
        let state = session.state();
        let dialect = state.config_options().sql_parser.dialect;
        let statement = state.sql_to_statement(query, &dialect).map_err(|e| worded(query, e))?;
        let tables = state.resolve_table_references(&statement).map_err(|e| worded(query, e))?;
        let own = tables.into_iter().filter(|table| table.schema() != Some("information_schema"));
        Ok(own.map(|table| table.table().to_owned()).collect())
    }

    /// A session in which each index is a table of its name.
    pub fn new(searcher: &Arc<Searcher>, indices: &[Arc<Index>]) -> Result<Sql> {
        let mut session = session(searcher.settings.memory_bytes_max)?;
        session.register_expr_planner(Arc::new(OddColumns)).map_err(internal)?;
        session.register_udf(ScalarUDF::from(Match::new()));
        let keep_nulls = KeepNulls::new();
        session.register_udf(keep_nulls.function());
        session.add_analyzer_rule(Arc::new(keep_nulls));
        session.register_udaf(AggregateUDF::from(WholeSum::default()));
        let meter = Arc::new(Meter::default());
        let scans = Arc::default();
        for index in indices {
            let table = IndexTable::new(
                Arc::clone(searcher),
                Arc::clone(index),
                Arc::clone(&meter),
                Arc::clone(&scans),
            );
            let name = TableReference::bare(index.name().as_str());
            session.register_table(name, Arc::new(table)).map_err(internal)?;
        }
        Ok(Sql { session, searcher: Arc::clone(searcher), meter, scans })
    }

    /// Runs one query. Statements that change anything are refused.
    pub async fn run(&self, query: &str) -> Result<SqlAnswer> {
        let started = Instant::now();
        let only_queries =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let state = self.session.state();
        let dialect = state.config_options().sql_parser.dialect;
        let mut statement = state.sql_to_statement(query, &dialect).map_err(|e| worded(query, e))?;
        let mut inner = &mut statement;
        while let Statement::Explain(explain) = inner {
            inner = &mut explain.statement;
        }
        if let Statement::Statement(statement) = inner {
            precedence::check_numbers(statement)?;
            precedence::restore(statement)?;
        }
        let plan = state.statement_to_plan(statement).await.map_err(|e| worded(query, e))?;
        only_queries.verify_plan(&plan).map_err(|e| worded(query, e))?;
        let frame = self.session.execute_logical_plan(plan).await.map_err(|e| worded(query, e))?;
        let schema: SchemaRef = Arc::clone(frame.schema().inner());
        let batches = frame.collect().await.map_err(internal)?;
        let scans = self.scans.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let cost = QueryCost::new(
            &self.searcher,
            started.elapsed(),
            self.meter.cost(),
            scans.iter().map(AsRef::as_ref),
        );
        Ok(SqlAnswer { schema, batches, cost })
    }
}

/// `match(field, 'text'[, 'and'|'or'|'phrase'])`: whether the field's text has all tokens of `text`, any,
/// or its words one after another. False where the field has no value. A predicate of a scan is answered
/// by the index; here the same is computed from the value, wherever else the function stands.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Match {
    signature: Signature,
}

impl Match {
    fn new() -> Match {
        let shapes = vec![TypeSignature::Any(2), TypeSignature::Any(3)];
        Match { signature: Signature::one_of(shapes, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Match {
    fn name(&self) -> &str {
        MATCH
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let literal = |at: usize| match args.args.get(at) {
            Some(ColumnarValue::Scalar(value)) => value.try_as_str().flatten().map(str::to_owned),
            _ => None,
        };
        let wrong = |what: &str| DataFusionError::Plan(format!("{MATCH}: {what}"));
        let text =
            literal(1).ok_or_else(|| wrong("the second argument is a text to find, written as a literal"))?;
        let mode = if args.args.len() > 2 { literal(2) } else { Some("and".to_owned()) };
        let test =
            Test::new(&text, mode.as_deref()).ok_or_else(|| wrong("the mode is 'and', 'or' or 'phrase'"))?;
        let values =
            args.args.first().ok_or_else(|| wrong("a field is missing"))?.to_array(args.number_rows)?;
        let found = texts(&values)?.into_iter().map(|texts| Some(test.holds(&texts)));
        Ok(ColumnarValue::Array(Arc::new(found.collect::<BooleanArray>())))
    }
}

enum Test {
    Pieces { wanted: Vec<Piece>, all: bool },
    Phrase(String),
}

impl Test {
    fn new(text: &str, mode: Option<&str>) -> Option<Test> {
        match mode? {
            "and" => Some(Test::Pieces { wanted: query_pieces(text), all: true }),
            "or" => Some(Test::Pieces { wanted: query_pieces(text), all: false }),
            "phrase" => Some(Test::Phrase(text.to_owned())),
            _ => None,
        }
    }

    /// Whether the values of one row pass.
    fn holds(&self, values: &[String]) -> bool {
        match self {
            Test::Phrase(phrase) => values.iter().any(|value| contains_phrase(value, phrase)),
            Test::Pieces { wanted, all } => {
                let mut tokenizer = Tokenizer::new();
                let mut has =
                    wanted.iter().map(|piece| values.iter().any(|value| piece.is_in(value, &mut tokenizer)));
                if *all { !wanted.is_empty() && has.all(|has| has) } else { has.any(|has| has) }
            }
        }
    }
}

/// The values of each row as text.
fn texts(values: &ArrayRef) -> DataFusionResult<Vec<Vec<String>>> {
    let own = |array: &ArrayRef| -> DataFusionResult<Vec<String>> {
        let array = cast(array, &DataType::Utf8)?;
        Ok(array.as_string::<i32>().iter().flatten().map(str::to_owned).collect())
    };
    match values.as_list_opt::<i32>() {
        Some(lists) => (0..lists.len()).map(|row| own(&lists.value(row))).collect(),
        None => {
            let array = cast(values, &DataType::Utf8)?;
            Ok(array
                .as_string::<i32>()
                .iter()
                .map(|text| text.map(str::to_owned).into_iter().collect())
                .collect())
        }
    }
}

/// A value of an answer as JSON.
pub fn json_value(array: &ArrayRef, at: usize) -> Result<serde_json::Value> {
    use serde_json::Value;
    if array.is_null(at) {
        return Ok(Value::Null);
    }
    if let Some(lists) = array.as_list_opt::<i32>() {
        let items = lists.value(at);
        return (0..items.len())
            .map(|item| json_value(&items, item))
            .collect::<Result<Vec<_>>>()
            .map(Value::from);
    }
    let scalar = ScalarValue::try_from_array(array, at).map_err(internal)?;
    Ok(match scalar {
        ScalarValue::Boolean(Some(b)) => Value::from(b),
        ScalarValue::Int8(Some(n)) => Value::from(n),
        ScalarValue::Int16(Some(n)) => Value::from(n),
        ScalarValue::Int32(Some(n)) => Value::from(n),
        ScalarValue::Int64(Some(n)) => Value::from(n),
        ScalarValue::UInt8(Some(n)) => Value::from(n),
        ScalarValue::UInt16(Some(n)) => Value::from(n),
        ScalarValue::UInt32(Some(n)) => Value::from(n),
        ScalarValue::UInt64(Some(n)) => Value::from(n),
        ScalarValue::Decimal128(Some(n), _, 0) => crate::read::merge::whole_value(n),
        ScalarValue::Float32(Some(n)) => Value::from(n),
        ScalarValue::Float64(Some(n)) => Value::from(n),
        _ => {
            let text = cast(&array.slice(at, 1), &DataType::Utf8).map_err(crate::read::merge::arrow_error)?;
            Value::from(text.as_string::<i32>().value(0))
        }
    })
}
