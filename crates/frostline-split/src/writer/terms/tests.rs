use std::collections::BTreeSet;

use super::*;
use crate::document::{Document, Limits, parse_document};
use crate::mapping::Mapping;
use crate::writer::WriterOptions;

type Found = BTreeSet<(String, ValueType, Option<Term<'static>>)>;

#[test]
fn a_writer_has_the_terms_of_its_documents() {
    let documents = [
        r#"{"@timestamp":"2024-05-30T10:00:00Z","ip":"10.0.0.1","n":1,"s":"GET /a","deep":{"x":[0.5,2.0,"two"]}}"#,
        r#"{"@timestamp":"no time","ip":"10.0.0.1","n":1.0,"s":"GET /a","big":98765432109876543210,"d":"2024-05-30"}"#,
    ];
    let mut writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
    let (mut expected, mut document) = (Found::new(), Document::new());
    for source in documents {
        writer.add(source.as_bytes()).unwrap();
        parse_document(source.as_bytes(), &Mapping::dynamic(), &Limits::default(), &mut document).unwrap();
        for (path, value) in document.values() {
            let mut insert = |term: Option<Term<'_>>| {
                let (path, ty) = (document.path(path).to_owned(), crate::writer::type_of(&value));
                expected.insert((path, ty, term.map(Term::into_owned)));
            };
            if !each_term(&mut Tokenizer::new(), &value, |term| insert(Some(term))) {
                insert(None);
            }
        }
    }
    writer.add(b"{\"refused\":").unwrap_err();
    let mut found = Found::new();
    let readings: Vec<(String, ValueType)> =
        writer.readings().map(|(path, ty)| (path.to_owned(), ty)).collect();
    writer.each_term(|reading, term| {
        let (path, ty) = readings[reading].clone();
        found.insert((path, ty, term.map(Term::into_owned)));
    });
    assert_eq!(found, expected);
    assert_eq!(readings.len(), found.iter().map(|(path, ty, _)| (path, ty)).collect::<BTreeSet<_>>().len());
}
