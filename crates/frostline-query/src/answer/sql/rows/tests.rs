use std::sync::Arc;

use arrow::array::{Decimal128Array, Float32Array, NullArray, UInt64Array};
use arrow::datatypes::Int32Type;
use serde_json::json;

use super::*;

fn values(array: impl Array + 'static) -> Vec<Value> {
    let array: ArrayRef = Arc::new(array);
    let column = Column::new(&array).unwrap();
    (0..array.len()).map(|at| column.value(at)).collect()
}

#[test]
fn values_are_json_of_their_kind() {
    assert_eq!(values(BooleanArray::from(vec![Some(true), None])), [json!(true), json!(null)]);
    assert_eq!(values(Int64Array::from(vec![Some(i64::MIN), None])), [json!(i64::MIN), json!(null)]);
    assert_eq!(values(UInt64Array::from(vec![u64::MAX])), [json!(u64::MAX)]);
    assert_eq!(values(Float32Array::from(vec![0.5, f32::NAN])), [json!(0.5), json!(null)]);
    assert_eq!(values(StringArray::from(vec![Some("a"), None])), [json!("a"), json!(null)]);
    assert_eq!(values(NullArray::new(1)), [json!(null)]);
    let big = Decimal128Array::from(vec![1, i128::from(u64::MAX), i128::from(u64::MAX) + 1]);
    let big = big.with_precision_and_scale(38, 0).unwrap();
    assert_eq!(values(big), [json!(1), json!(u64::MAX), json!("18446744073709551616")]);
}

#[test]
fn what_json_has_no_type_for_is_text() {
    let times =
        arrow::array::TimestampMicrosecondArray::from(vec![1_700_000_000_000_001]).with_timezone("UTC");
    assert_eq!(values(times), [json!("2023-11-14T22:13:20.000001Z")]);
    let fixed = Decimal128Array::from(vec![12_345]).with_precision_and_scale(38, 3).unwrap();
    assert_eq!(values(fixed), [json!("12.345")]);
    let keys = vec![Some("a"), None, Some("a")];
    let dictionary = keys.into_iter().collect::<arrow::array::DictionaryArray<Int32Type>>();
    assert_eq!(values(dictionary), [json!("a"), json!(null), json!("a")]);
}

#[test]
fn lists_have_their_items_also_in_a_slice() {
    let lists = vec![Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(2)])];
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
    assert_eq!(values(lists.slice(0, 3)), [json!([1, null]), json!(null), json!([])]);
    assert_eq!(values(lists.slice(2, 2)), [json!([]), json!([2])]);
}
