use arrow::array::{BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder};

use super::*;

fn readings() -> Vec<ArrayRef> {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, None, Some(4)]));
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some("b"), Some("a")]);
    lists.append_null();
    lists.append_value([Some("c")]);
    lists.append_null();
    vec![numbers, Arc::new(lists.finish())]
}

#[test]
fn the_common_type_is_the_narrowest() {
    use ValueType::{Boolean, Date, Double, Ip, Long, Text};
    for (types, expected) in [
        (vec![Long], DataType::Int64),
        (vec![Long, Double], DataType::Float64),
        (vec![Boolean], DataType::Boolean),
        (vec![Date], time_type()),
        (vec![Date, Long], DataType::Utf8),
        (vec![Ip, Text], DataType::Utf8),
        (vec![], DataType::Utf8),
    ] {
        assert_eq!(common_type(types.clone()), expected, "{types:?}");
    }
}

#[test]
fn lists_hold_the_values_of_every_reading() {
    let lists = lists(&readings(), &DataType::Utf8, 4).unwrap();
    let rows: Vec<Option<Vec<String>>> = (0..4)
        .map(|row| {
            let texts =
                |row| lists.value(row).as_string::<i32>().iter().flatten().map(str::to_owned).collect();
            lists.is_valid(row).then(|| texts(row))
        })
        .collect();
    let text = |values: &[&str]| Some(values.iter().map(|v| (*v).to_owned()).collect::<Vec<String>>());
    assert_eq!(rows, [text(&["1", "b", "a"]), None, text(&["c"]), text(&["4"])]);
}

#[test]
fn scalars_take_the_picked_value() {
    let last = scalars(&readings(), &DataType::Utf8, 4, |_, range| range.end - 1).unwrap();
    let expected = StringArray::from(vec![Some("a"), None, Some("c"), Some("4")]);
    assert_eq!(last.as_string::<i32>(), &expected);
    let only: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None]));
    let same = scalars(std::slice::from_ref(&only), &DataType::Boolean, 2, |_, range| range.start).unwrap();
    assert_eq!(&same, &only);
}
