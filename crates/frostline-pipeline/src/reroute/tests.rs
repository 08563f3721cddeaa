use serde_json::{Value, json};

use crate::tests::{parse, refused};
use crate::{Document, Outcome, run};

fn sent(options: Value, index: &str, source: Value) -> (Outcome, Document) {
    let Value::Object(source) = source else { panic!("{source}") };
    let mut document = Document::new(index, None, source, 0);
    let pipeline = parse(json!({ "processors": [
        { "set": { "field": "before", "value": 1 } }, { "reroute": options }, { "set": { "field": "after", "value": 1 } },
    ] }));
    let outcome = run(&crate::tests::Pipelines::new(), "p", &pipeline, &mut document, None);
    (outcome, document)
}

#[test]
fn a_document_is_sent_to_another_stream() {
    let (outcome, document) =
        sent(json!({ "dataset": "nginx" }), "logs-router-default", json!({ "event": { "dataset": "x" } }));
    assert_eq!((outcome, document.index()), (Outcome::Rerouted, "logs-nginx-default"));
    let expected = json!({
        "event": { "dataset": "nginx" }, "before": 1,
        "data_stream": { "type": "logs", "dataset": "nginx", "namespace": "default" },
    });
    assert_eq!(crate::tests::shown(&document), expected);

    let of_fields =
        json!({ "dataset": ["{{service.name}}", "{{{app}}}", "generic"], "namespace": "{{env}}" });
    let to = |source: Value| sent(of_fields.clone(), "logs-a-b-c", source).1.index().to_owned();
    assert_eq!(to(json!({ "service": { "name": "My-Shop/1" }, "env": "eu-1" })), "logs-my_shop_1-eu-1");
    assert_eq!(to(json!({ "app": "x", "service": { "name": null } })), "logs-x-c");
    assert_eq!(to(json!({ "app": "", "env": "" })), "logs-generic-c");
    assert_eq!(to(json!({ "app": "é".repeat(90) })), format!("logs-{}-c", "é".repeat(50)));
    // Without options the fields of the stream say where it goes.
    let by_stream = json!({ "data_stream": { "dataset": "d", "type": "metrics" } });
    assert_eq!(sent(json!({}), "logs-a-b", by_stream).1.index(), "metrics-d-b");
    assert_eq!(sent(json!({ "destination": "archive" }), "any", json!({})).1.index(), "archive");
}

#[test]
fn what_is_no_name_of_a_stream_fails() {
    let failed = |options: Value, index: &str, source: Value| match sent(options, index, source).0 {
        Outcome::Failed(failure) => failure.reason,
        other => panic!("{other:?}"),
    };
    assert!(
        failed(json!({ "dataset": "x" }), "logs-x", json!({})).contains("invalid data stream name: [logs-x]")
    );
    assert!(failed(json!({ "dataset": "{{a}}" }), "l-o-g", json!({ "a": 1 })).contains("is not a string"));
    for (options, what) in [
        (json!({ "destination": "a", "dataset": "b" }), "can only be set if"),
        (json!({ "dataset": "No" }), "[No] cannot be a part"),
        (json!({ "namespace": "a b" }), "[a b] cannot be a part"),
    ] {
        refused(json!({ "processors": [{ "reroute": options }] }), "processors[0].reroute", what);
    }
}
