use arrow::array::{Array, Int64Array, StringArray};
use serde_json::json;

use super::*;

fn in_order(descending: bool) -> Vec<Value> {
    let values = [
        json!("n/a"),
        json!(9),
        json!(100),
        json!(-2.5),
        json!("10"),
        json!(9_007_199_254_740_993_i64),
        json!(9_007_199_254_740_992_i64),
        json!(1e300),
        json!(i64::MAX),
        json!(i64::MIN),
    ];
    let mut keys: Vec<Vec<u8>> = values.iter().map(|value| key(value, descending)).collect();
    keys.sort();
    if descending {
        keys.reverse();
    }
    keys.iter().map(|key| value(key, descending)).collect()
}

#[test]
fn numbers_are_in_the_order_of_numbers_and_come_first() {
    let numbers = [
        json!(i64::MIN),
        json!(-2.5),
        json!(9),
        json!(100),
        json!(9_007_199_254_740_992_i64),
        json!(9_007_199_254_740_993_i64),
        json!(i64::MAX),
        json!(1e300),
    ];
    let ascending: Vec<Value> = numbers.iter().cloned().chain([json!("10"), json!("n/a")]).collect();
    assert_eq!(in_order(false), ascending);
    let descending: Vec<Value> = numbers.into_iter().rev().chain([json!("n/a"), json!("10")]).collect();
    assert_eq!(in_order(true), descending);
}

#[test]
fn arrays_of_every_type_have_keys() {
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
    let of =
        |array: &ArrayRef, at: usize| value(keys(array, false).unwrap().as_binary::<i32>().value(at), false);
    assert_eq!([of(&longs, 0), of(&texts, 1)], [json!(5), json!("y")]);
    assert!(keys(&longs, false).unwrap().is_null(1));
    assert!(is_mixed([ValueType::Long, ValueType::Text]));
    assert!(!is_mixed([ValueType::Long, ValueType::Double]) && !is_mixed([ValueType::Date, ValueType::Text]));
}
