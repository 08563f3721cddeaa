use serde_json::json;

use super::*;
use crate::testing::{Faulty, catalog, name};
use crate::{CLOSED_INDEX, RecordChange, Resolve, Settings, Wildcards};
use frostline_split::Mapping;

#[tokio::test]
async fn a_closed_or_hidden_index_is_one_for_every_process() {
    let store = Faulty::sound();
    let (here, there) = (catalog(&store), catalog(&store));
    for index in ["web", "app", "shy"] {
        here.create(&name(index), Mapping::dynamic(), Settings::default()).await.unwrap();
    }
    let says = |index: &str, value: Value| RecordChange::Other {
        kind: INDEX_SETTINGS,
        name: index.to_owned(),
        value: Some(value),
    };
    let changes =
        vec![says("web", json!({ "closed": true, "later": 1 })), says("shy", json!({ "hidden": true }))];
    here.change_records("close", |_| Ok(changes.clone())).await.unwrap();
    assert_eq!(there.resolve("*", Resolve::default()).await.unwrap(), [name("app")]);
    let closed = Resolve { wildcards: Wildcards::SHOWN, closed: true, ..Resolve::default() };
    assert_eq!(there.resolve("*", closed).await.unwrap(), [name("app"), name("web")]);
    assert_eq!(there.resolve("shy", Resolve::default()).await.unwrap(), [name("shy")]);
    let error = there.resolve("web", Resolve::default()).await.unwrap_err();
    assert_eq!(error.fact(CLOSED_INDEX), Some("web"));
    for writer in [&here, &there] {
        let opened = writer.open_or_create(&name("web"), Mapping::dynamic(), Settings::default()).await;
        assert_eq!(opened.unwrap_err().fact(CLOSED_INDEX), Some("web"));
    }
    // Its settings are gone with it.
    here.delete(&name("web")).await.unwrap();
    here.create(&name("web"), Mapping::dynamic(), Settings::default()).await.unwrap();
    assert_eq!(there.resolve("web", Resolve::default()).await.unwrap(), [name("web")]);
}

#[tokio::test]
async fn a_block_keeps_from_what_it_is_for() {
    use Access::{Read, ReadMetadata, Write, WriteMetadata};
    let store = Faulty::sound();
    let catalog = catalog(&store);
    for (settings, allowed) in [
        (json!({}), vec![Read, Write, ReadMetadata, WriteMetadata]),
        (json!({ "blocks.write": true, "blocks.read": false }), vec![Read, ReadMetadata, WriteMetadata]),
        (json!({ "blocks.read": true }), vec![Write, ReadMetadata, WriteMetadata]),
        (json!({ "blocks.read_only": true }), vec![Read, ReadMetadata]),
        (json!({ "blocks.read_only_allow_delete": true }), vec![Read, ReadMetadata]),
        (json!({ "blocks.metadata": true }), vec![Read, Write]),
        (json!({ "closed": true }), vec![ReadMetadata, WriteMetadata]),
    ] {
        let value = Some(settings.clone());
        let change = RecordChange::Other { kind: INDEX_SETTINGS, name: "web".to_owned(), value };
        let records = catalog.change_records("test", |_| Ok(vec![change.clone()])).await.unwrap();
        let all = [Read, Write, ReadMetadata, WriteMetadata];
        let may: Vec<Access> =
            all.into_iter().filter(|access| records.check_access(&name("web"), *access).is_ok()).collect();
        assert_eq!(may, allowed, "{settings}");
        assert!(records.check_access(&name("app"), Write).is_ok());
    }
}
