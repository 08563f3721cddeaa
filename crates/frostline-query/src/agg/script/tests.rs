use serde_json::json;

use super::*;

fn parse(source: &str, bare: bool) -> Result<(Script, Type)> {
    let variables = ["a".to_owned(), "b c".to_owned(), "_value".to_owned()];
    let constants = json!({"ten": 10, "far": 3_000_000_000_i64, "odd": 9_007_199_254_740_993_i64, "half": 0.5, "yes": true, "text": "x"});
    Script::parse(source, &Names { variables: &variables, constants: constants.as_object().unwrap(), bare })
}

/// With `a` 6, `b c` 4 and `_value` missing.
#[track_caller]
fn number(source: &str, expected: impl Into<Option<f64>>) {
    let (script, _) = parse(source, false).unwrap();
    assert_eq!(script.number(&[6.0, 4.0, f64::NAN]), expected.into(), "{source}");
}

#[track_caller]
fn holds(source: &str, expected: bool) {
    let (script, ty) = parse(source, false).unwrap();
    assert_eq!((script.holds(&[6.0, 4.0, f64::NAN]), ty), (expected, Type::Boolean), "{source}");
}

#[track_caller]
fn refused(source: &str, words: &str) {
    let error = parse(source, false).unwrap_err();
    assert!(error.what().contains(words), "{source}: {}", error.what());
}

#[test]
fn numbers_are_computed_as_in_painless() {
    number("params.a / params['b c'] * 100", 150.0);
    number("return params.a - -params[\"b c\"] ;", 10.0);
    number("1 + 2 * 3 - 4 % 3.0", 6.0);
    number("1000000L * 1000000", 1e12);
    number("2147483647 + 0L + 1", 2_147_483_648.0);
    number("params.far - 1", 3e9 - 1.0);
    number("1.0 / (0 * -5)", f64::INFINITY);
    number("1.0 / -0", f64::INFINITY);
    number("(1 + 2) * 3", 9.0);
    number("10 - 4 - 3", 3.0);
    number("params.a / 0", f64::INFINITY);
    number("1.5e2 + .5 + 2d + 3L", 155.5);
    number("params.ten / params.half", 20.0);
    number("params.a > 5 ? params.a : null", 6.0);
    number("params.a > 6 ? params.a : null", None);
    number("params.a > 6 ? 1 : params.a > 5 ? 2 : 3", 2.0);
    number("Math.max(Math.abs(-params.a), Math.pow(2, 3)) + Math.floor(1.5)", 9.0);
    number("-params.a + +1", -5.0);
}

#[test]
fn conditions_bind_as_in_painless() {
    holds("params.a > 5 && params.a <= 6", true);
    holds("params.a < 5 || params['b c'] == 4 && params.yes", true);
    holds("!(params.a != 6)", true);
    holds("params.a > 5 == true", true);
    holds("params.a == null", false);
    holds("params.a != null", true);
    // What is missing compares as what is no number.
    holds("params._value > 0 || params._value <= 0", false);
    holds("params._value == params._value", false);
    holds("params._value != 1", true);
}

#[test]
fn an_expression_names_its_variables_alone() {
    let (script, _) = parse("a / 4 > half", true).unwrap();
    assert!(script.holds(&[6.0, 4.0, 0.0]));
    assert!(parse("1 / 2", true).is_ok());
}

#[test]
fn what_is_not_understood_is_refused_with_its_position() {
    refused("", "ends too early");
    refused("params.a +", "ends too early");
    refused("params.a 1", "unexpected `1` at character 10");
    refused("params.x > 1", "[x] is neither in [buckets_path] nor in the script's [params] at character 1");
    refused("a > 1", "[a] is not supported");
    refused("doc['a'].value", "[doc] is not supported");
    refused("params.text", "neither a number nor a boolean at character 1");
    refused("params.a && true", "a number where a boolean must be at character 1");
    refused("1 + true", "a boolean where a number must be at character 5");
    refused("true == 1", "a number where a boolean must be at character 9");
    refused("1 / 2", "divided without a fraction");
    refused("1 % 2", "divided without a fraction in Painless");
    // What 32 bits, or a double, do not hold would be another number in Painless.
    refused(
        "1000000 * 1000000",
        "larger than 2147483647, or with an L than 2^53: write one as 2.0; at character 9",
    );
    refused("3000000000", "larger than 2147483647");
    refused("2147483647 + (params.yes ? 1 : 0)", "larger than 2147483647");
    refused("params.ten * 300000000", "larger than 2147483647");
    refused("9007199254740993L", "larger than 2^53");
    refused("params.odd", "larger than 2^53");
    refused("99999999999999999999L", "larger than 2^53");
    refused("--params.a", "`--`, which is not supported, at character 1");
    refused("1 --params.a", "`--`, which is not supported, at character 3");
    refused("params.a+++1", "`++`, which is not supported, at character 9");
    refused("params.a - -010", "an octal number, which is not supported, at character 13");
    assert!(parse("- -params.a + 0 + 0.5", false).is_ok());
    refused("params.a ? 1 : 2", "a number where a boolean must be");
    refused("true ? 1 : false", "unexpected boolean");
    refused("Math.sin(1)", "[Math.sin] is not supported at character 6");
    refused("Math.max(1)", "unexpected `)`");
    refused("params[a]", "unexpected `a` at character 8");
    refused("1x", "unexpected `x`");
    refused("1e", "[1e] is not a number");
    refused("1e999", "not a number");
    refused("!1", "a number where a boolean must be");
    refused("(1", "ends too early");
    refused("é", "unexpected `é` at character 1");
    refused(&"(".repeat(200), "levels of nesting");
    refused(&"- ".repeat(200), "levels of nesting");
    refused(&"1+".repeat(1_001), "at most 2000 bytes");
}

#[test]
fn a_script_that_was_stored_computes_the_same() {
    let (script, _) = parse("params.a > 5 ? Math.sqrt(params['b c']) : 1", false).unwrap();
    let read: Script = postcard::from_bytes(&postcard::to_allocvec(&script).unwrap()).unwrap();
    assert_eq!(read.number(&[6.0, 4.0, 0.0]), Some(2.0));
    // Steps that no parser makes fail nothing.
    let odd = Script { steps: vec![Step::Two(Operator::Add), Step::Call(Function::Max), Step::Choose] };
    assert!(odd.number(&[]).is_none_or(f64::is_nan));
}
