use frostline_base::SplitId;
use frostline_split::{Mapping, SplitWriter, WriterOptions};

use super::*;
use crate::testing::key;

#[test]
fn a_sealed_split_and_its_documents_make_the_same_run() {
    let writer = || {
        let mut writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
        for n in 0..300 {
            let document = format!(
                r#"{{"@timestamp":{},"ip":"10.0.{}.7","text":"v1.2.{n} at 10:{}:7 word{n}","n":{n},"d":{}.5,"deep":{{"when":"2024-05-30","long":"{}"}}}}"#,
                1_700_000_000_000_u64 + n,
                n % 7,
                n % 60,
                n,
                "word.".repeat(n as usize % 40)
            );
            writer.add(document.as_bytes()).unwrap();
        }
        writer
    };
    let id = SplitId::from_random(7);
    let run = || RunWriter::new(Scope::of_splits("logs"), key(), id);
    let seal = |run: RunWriter| {
        let mut bytes = Vec::new();
        run.seal(&mut bytes).unwrap();
        bytes
    };
    let (mut at_sealing, mut of_documents) = (run(), run());
    writer().seal_with_terms(id, &mut Vec::new(), &mut at_sealing).unwrap();
    writer().each_term(&mut of_documents);
    assert_eq!(seal(at_sealing), seal(of_documents));
}

#[test]
fn a_file_of_another_kind_or_rule_is_no_segment_of_splits() {
    let about = About::new(&Scope::of_splits("logs"), &[], &(0..7));
    assert_eq!(About::of_splits(KIND, &about.to_json()), Some(about.clone()));
    assert_eq!(About::of_splits("other", &about.to_json()), None);
    let older = About { analyser: TERMS_VERSION - 1, ..about };
    assert_eq!(About::of_splits(KIND, &older.to_json()), None);
}

#[test]
fn values_without_terms_are_fractions_and_dates() {
    assert_eq!(Kinds::without_terms(ValueType::Double), Kinds::FRACTION);
    assert_eq!(Kinds::without_terms(ValueType::Date), Kinds::DATE);
    assert_eq!(Kinds::without_terms(ValueType::Text), Kinds::ALL);
}
