use bytes::Bytes;
use frostline_base::SplitId;
use proptest::prelude::*;

use super::*;
use crate::{DYNAMIC_COLUMN, Mapping, SplitWriter, TextAs, WriterOptions};

fn pairs(path: &str, ty: ValueType) -> DynamicPairs {
    DynamicPairs { prefix: prefix(path, ty), ty, guessed: None }
}

fn value() -> impl Strategy<Value = (ValueType, String, i64, f64)> {
    let ty = prop::sample::select(ValueType::ALL.to_vec());
    (ty, "[a-z0-9=:\\\\. -]{0,12}", any::<i64>(), prop::num::f64::NORMAL | prop::num::f64::ZERO)
}

proptest! {
    #[test]
    fn a_pair_gives_its_value_to_its_own_reading_alone(
        (ty, text, number, double) in value(),
        path in "[a-c=:\\\\.]{1,6}",
        other in "[a-c=:\\\\.]{1,6}",
    ) {
        let value = match ty {
            ValueType::Boolean => Value::Boolean(number % 2 == 0),
            ValueType::Long => Value::Long(number),
            ValueType::Big => Value::Big("18446744073709551616"),
            ValueType::Double => Value::Double(double),
            // Some are beyond the calendar.
            ValueType::Date => Value::Date(Moment { time_us: number, nanos: (number % 3).unsigned_abs() as u16 * 499 }),
            ValueType::Ip => Value::Ip("::1"),
            ValueType::Text => Value::Text(&text),
        };
        let pair = pair(&path, &value);
        for wanted in ValueType::ALL {
            let own = pairs(&path, wanted).value(&pair);
            prop_assert_eq!(own, (wanted == ty).then_some(value));
            if other != path {
                prop_assert_eq!(pairs(&other, wanted).value(&pair), None);
            }
        }
    }
}

#[test]
fn fields_beyond_the_column_budget_keep_their_types() {
    let mut writer = SplitWriter::new(Mapping::dynamic().with_column_budget(0), WriterOptions::default());
    for document in [r#"{"z":"123"}"#, r#"{"z":123}"#, r#"{"z":"true","z=b":1}"#, r#"{"z":[true,"nan",0.5]}"#]
    {
        writer.add(document.as_bytes()).unwrap();
    }
    let mut file = Vec::new();
    let sealed = writer.seal(SplitId::from_random(1), &mut file).unwrap();
    let file = Bytes::from(file);
    let cut = |range: &std::ops::Range<u64>| file.slice(range.start as usize..range.end as usize);
    let split = Split::open(&cut(&sealed.footer)).unwrap();
    let read = split.columns(&[DYNAMIC_COLUMN], None, TextAs::Plain).unwrap();
    let bytes = read.ranges().iter().map(&cut).collect();
    let batch = read.decode(bytes).unwrap().remove(0);
    let lists = arrow::array::AsArray::as_list::<i32>(batch.column(0)).clone();
    let texts = arrow::array::AsArray::as_string::<i32>(lists.values()).clone();
    let mut found = Vec::new();
    for reading in split.readings("z") {
        let pairs = split.dynamic_pairs(reading);
        found.extend(texts.iter().flatten().filter_map(|pair| pairs.value(pair)));
    }
    let text = |text| Value::Text(text);
    let expected = [Value::Boolean(true), Value::Long(123), Value::Double(0.5)];
    assert_eq!(found, [&expected[..], &[text("123"), text("true"), text("nan")]].concat());
}

#[test]
fn a_pair_of_an_old_split_belongs_to_the_first_type_that_it_reads_as() {
    let pairs =
        |ty, types: &[ValueType]| DynamicPairs { prefix: "z=".to_owned(), ty, guessed: Some(types.to_vec()) };
    let text = pairs(ValueType::Text, &[ValueType::Text]);
    assert_eq!(text.value("z=123"), Some(Value::Text("123")));
    assert_eq!(text.value("zz=123"), None);
    let both = [ValueType::Long, ValueType::Text];
    assert_eq!(pairs(ValueType::Long, &both).value("z=123"), Some(Value::Long(123)));
    assert_eq!(pairs(ValueType::Text, &both).value("z=123"), None);
    assert_eq!(pairs(ValueType::Text, &both).value("z=x9"), Some(Value::Text("x9")));
}
