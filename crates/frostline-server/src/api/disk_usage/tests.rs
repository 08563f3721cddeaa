use serde_json::{Value, json};

use crate::testing::Tested;

#[tokio::test]
async fn fields_take_what_the_files_have_of_them() {
    let tested = Tested::new();
    let lines: String = (0..500)
        .map(|n| {
            format!("{{\"create\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"line\":\"word{} of {n}\"}}\n", n % 7)
        })
        .collect();
    tested.ok("POST", "/web/_bulk", &lines).await;
    assert_eq!(tested.send("PUT", "/other/_doc/1", r#"{"a":1}"#).await.status, 201);
    let shown = tested.ok("POST", "/web/_disk_usage?run_expensive_tasks=true", "").await;
    assert_eq!(shown["_shards"], json!({ "total": 1, "successful": 1, "failed": 0 }));
    assert_eq!(shown.as_object().unwrap().len(), 2);
    let stats = tested.ok("GET", "/web/_stats/store", "").await;
    let web = &shown["web"];
    // `_stats` counts splits alone.
    let index = tested.state.node.index(&"web".parse().unwrap()).await.unwrap();
    let files: u64 = index.files().map(|file| file.object.bytes).sum();
    let splits = stats["_all"]["total"]["store"]["size_in_bytes"].as_u64().unwrap();
    assert_eq!(web["store_size_in_bytes"], splits + files);
    let fields = web["fields"].as_object().unwrap();
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["_id", "_source", "line", "n"]);
    let parts = |usage: &Value| {
        let number = |name: &str| usage[format!("{name}_in_bytes")].as_u64().unwrap();
        let inverted = usage["inverted_index"]["total_in_bytes"].as_u64().unwrap();
        let all = ["stored_fields", "doc_values", "points", "norms", "term_vectors", "knn_vectors", "digest"];
        (number("total"), [inverted, all.iter().map(|name| number(name)).sum()])
    };
    let (mut total, mut sums) = (0, [0, 0]);
    for (name, usage) in fields {
        let (of_field, [inverted, others]) = parts(usage);
        assert_eq!(of_field, inverted + others, "{name}");
        assert!(of_field > 0, "{name}");
        (total, sums) = (total + of_field, [sums[0] + inverted, sums[1] + others]);
    }
    assert_eq!(parts(&web["all_fields"]), (total, sums));
    assert!(total < web["store_size_in_bytes"].as_u64().unwrap());
    // Words are in the index, and documents in what is stored.
    assert!(parts(&fields["line"]).1[0] > 0);
    assert_eq!(fields["_source"]["stored_fields_in_bytes"], web["all_fields"]["stored_fields_in_bytes"]);
    assert_eq!(fields["_source"]["total_in_bytes"], fields["_source"]["stored_fields_in_bytes"]);
    assert!(web["all_fields"]["total"].as_str().unwrap().ends_with("kb"));
}

#[tokio::test]
async fn what_is_expensive_is_asked_for() {
    let tested = Tested::new();
    tested.ok("PUT", "/web", "").await;
    for uri in ["/web/_disk_usage", "/web/_disk_usage?run_expensive_tasks=false"] {
        let (status, kind, reason) = tested.error("POST", uri, "").await;
        assert_eq!((status, kind.as_str()), (400, "illegal_argument_exception"));
        assert!(reason.contains("[run_expensive_tasks] must be set to [true]"), "{reason}");
    }
    let empty = tested.ok("POST", "/web/_disk_usage?run_expensive_tasks=true", "").await;
    assert_eq!(empty["web"]["all_fields"]["total_in_bytes"], 0);
    assert_eq!(tested.error("POST", "/none/_disk_usage?run_expensive_tasks=true", "").await.0, 404);
}

#[tokio::test]
async fn what_is_not_to_be_read_is_not_counted() {
    let tested = Tested::new();
    tested.ok("PUT", "/web", "").await;
    tested.ok("PUT", "/web/_settings", r#"{"index.blocks.read":true}"#).await;
    let refused = tested.error("POST", "/web/_disk_usage?run_expensive_tasks=true", "").await;
    assert_eq!((refused.0, refused.1.as_str()), (403, "cluster_block_exception"));
}
