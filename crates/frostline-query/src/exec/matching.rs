//! The SQL function `match`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use frostline_split::{Piece, Tokenizer, contains_phrase, query_pieces};

/// Its name.
pub(crate) const MATCH: &str = "match";

/// The function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(Match::new())
}

/// `match(field, 'text'[, 'and'|'or'|'phrase'])`: whether the field's text has all tokens of `text`, any of them,
/// or its words in sequence. False if the field has no value. As a predicate of a scan it is answered
/// by the index; elsewhere it is computed from the value here.
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
        let field = args.args.first().ok_or_else(|| wrong("a field is missing"))?;
        if let ColumnarValue::Scalar(value) = field
            && let Some(name) = value.try_as_str().flatten()
        {
            let what = format!("the first argument is a column, not a text: write match({name}, …)");
            return Err(wrong(&what));
        }
        let values = field.to_array(args.number_rows)?;
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
