//! An ingest pipeline and, as text, a condition, a script, a file of patterns and a document. What is read runs over a document
//! without a panic, and a document that nothing changes is written as it was.
#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use frostline_pipeline::{Agents, Condition, Document, Edited, Original, Pipeline, Script, run};
use serde_json::{Value, json};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = (Condition::parse(text), Agents::parse(text));
    let source = json!({
        "a": { "b": [1, "x", null, { "c": -0.5 }] }, "message": "10.0.0.1 - k=v [2024-05-06T07:08:09Z] \"é\"", "n": 7,
    });
    if let Ok((original, members)) = Original::read(text.as_bytes()) {
        let written = original.write(&members.into());
        assert_eq!(written, text.trim_ascii().as_bytes());
    }
    let written = source.to_string();
    let Value::Object(source) = source else { return };
    if let Ok(script) = Script::parse(&text.into()) {
        let (index, id, op) = ("logs".to_owned(), "7".to_owned(), "index".to_owned());
        let mut edited = Edited { index, id, version: Some(1), op };
        let _ =
            script.update(&mut edited, written.as_bytes(), 1_714_979_289_000_000, 1 << 17, &mut (1 << 29));
    }
    let Ok(json) = frostline_pipeline::Value::read(text.as_bytes()) else { return };
    let Ok(pipeline) = Pipeline::parse(&json) else { return };
    let mut document = Document::new("logs", None, source, 1_714_979_289_000_000);
    let pipeline = Arc::new(pipeline);
    let pipelines = BTreeMap::from([("p".to_owned(), Arc::clone(&pipeline))]);
    run(&pipelines, "p", &pipeline, &mut document, Some(&mut Vec::new()));
    assert!(document.source().is_object());
});
