use std::collections::BTreeSet;

use frostline_base::SplitId;
use proptest::prelude::*;

use super::*;
use crate::document::{Document, Limits, parse_document};
use crate::mapping::{FieldType, Mapping};
use crate::tokenizer::tests::texts;
use crate::writer::WriterOptions;

/// Every reading, and its terms.
#[derive(Debug, Default, PartialEq)]
struct Found {
    reading: Option<(String, ValueType)>,
    terms: BTreeSet<(String, ValueType, Option<Term<'static>>)>,
}

impl TakeTerms for Found {
    fn reading(&mut self, path: &str, ty: ValueType) {
        self.reading = Some((path.to_owned(), ty));
    }

    fn term(&mut self, term: Option<Term<'_>>) {
        let (path, ty) = self.reading.clone().unwrap();
        self.terms.insert((path, ty, term.map(Term::into_owned)));
    }
}

fn writer(documents: &[String]) -> SplitWriter {
    let mut mapping = Mapping::dynamic().with_column_budget(3);
    mapping.declare("declared", FieldType::Keyword).unwrap();
    let mut writer = SplitWriter::new(mapping, WriterOptions::default());
    for source in documents {
        writer.add(source.as_bytes()).unwrap();
    }
    writer
}

/// The terms that each value of each document has by itself.
fn expected(documents: &[String]) -> Found {
    let (mut found, mut document) = (Found::default(), Document::new());
    let mapping = writer(&[]).mapping().clone();
    for source in documents {
        parse_document(source.as_bytes(), &mapping, &Limits::default(), &mut document).unwrap();
        for (path, value) in document.values() {
            found.reading(document.path(path), value.ty());
            if !each_term(&mut Tokenizer::new(), &value, |term| found.term(Some(term))) {
                found.term(None);
            }
        }
    }
    found
}

fn check(documents: &[String]) {
    let expected = expected(documents).terms;
    let mut found = Found::default();
    writer(documents).each_term(&mut found);
    assert_eq!(found.terms, expected);
    let mut sealed = Found::default();
    writer(documents).seal_with_terms(SplitId::from_random(1), &mut Vec::new(), &mut sealed).unwrap();
    assert_eq!(sealed.terms, expected);
    let mut sealed = Found::default();
    unindexed(documents).seal_with_terms(SplitId::from_random(1), &mut Vec::new(), &mut sealed).unwrap();
    assert_eq!(sealed.terms, expected);
}

/// The same documents where the mapping wants no index of any field.
fn unindexed(documents: &[String]) -> SplitWriter {
    let mut mapping = serde_json::json!(writer(documents).mapping());
    let fields = mapping["fields"].as_object_mut().unwrap().values_mut();
    fields.for_each(|field| field["unindexed"] = true.into());
    let mut writer = SplitWriter::new(serde_json::from_value(mapping).unwrap(), WriterOptions::default());
    documents.iter().for_each(|source| writer.add(source.as_bytes()).unwrap());
    writer
}

#[test]
fn a_writer_has_the_terms_of_its_documents() {
    check(&[
        r#"{"@timestamp":"2024-05-30T10:00:00Z","ip":"10.0.0.1","n":1,"s":"GET /a","deep":{"x":[0.5,2.0,"two"]}}"#,
        r#"{"@timestamp":"no time","ip":"10.0.0.1","n":1.0,"s":"GET /a","big":98765432109876543210,"d":"2024-05-30"}"#,
    ].map(str::to_owned));
    let mut writer = writer(&[r#"{"a":"b"}"#.to_owned()]);
    writer.add(b"{\"refused\":").unwrap_err();
    let mut found = Found::default();
    writer.each_term(&mut found);
    assert_eq!(found.terms.len(), 1);
}

/// Tokens whose keys are cut alike, beside short ones inside them.
#[test]
fn terms_of_long_tokens_are_those_of_the_tokens() {
    let long = "w".repeat(60);
    check(&[
        serde_json::json!({"t": format!("{long}aaaa1"), "u": format!("{long}{long}.10.0.0.1")}).to_string(),
        serde_json::json!({"t": format!("{long}aaaa2 {long}"), "u": "10.0.0.1"}).to_string(),
        serde_json::json!({"t": format!("{}.x", ["1.2"; 40].join("-")), "u": format!("{long}{long}.10.0.0.2")}).to_string(),
        serde_json::json!({"t": ["1.2-1", "2-1.2", "1.2"], "u": format!("a=10.0/{long}=1.2.3.4")}).to_string(),
    ]);
}

fn values() -> impl Strategy<Value = serde_json::Value> {
    let long =
        (texts(), 1usize..30, "[.:/= ,-]").prop_map(|(text, times, joiner)| vec![text; times].join(&joiner));
    prop_oneof![
        3 => texts().prop_map(|text| text.into()),
        2 => long.prop_map(|text| text.into()),
        1 => "([a-z0-9]{1,4}[.:-]){0,6}[a-z0-9]{1,70}".prop_map(|text| text.into()),
        1 => any::<i64>().prop_map(|number| number.into()),
        1 => any::<f64>().prop_map(|number| number.into()),
        1 => any::<u64>().prop_map(|number| number.into()),
        1 => any::<bool>().prop_map(|truth| truth.into()),
        1 => "10\\.0\\.[0-3]\\.[0-9]".prop_map(|text| text.into()),
        1 => "2024-05-[0-3][0-9]".prop_map(|text| text.into()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn sealing_hands_out_the_terms_of_all_values(values in prop::collection::vec((0usize..6, values()), 1..40)) {
        let paths = ["declared", "a", "b.c", "d", "e", "f"];
        let documents: Vec<String> = values.chunks(3).map(|some| {
            let mut document = serde_json::Map::new();
            some.iter().for_each(|(path, value)| drop(document.insert(paths[*path].to_owned(), serde_json::json!([value, value]))));
            serde_json::Value::Object(document).to_string()
        }).collect();
        check(&documents);
    }
}
