use frostline_base::ErrorKind;
use frostline_split::Mapping;
use serde_json::json;

use super::*;
use crate::testing::{Faulty, catalog, name, spent};
use crate::{Catalog, Resolve, Settings};

async fn make(catalog: &Catalog, index: &str) {
    catalog.create(&name(index), Mapping::dynamic(), Settings::default()).await.unwrap();
}

fn alias(of: &[&str], write: Option<&str>) -> Option<Alias> {
    Some(Alias::new(of.iter().map(|index| name(index)).collect(), write.map(name)))
}

async fn change(catalog: &Catalog, changes: Vec<RecordChange>) -> Result<Records> {
    catalog.change_records("test", |_| Ok(changes.clone())).await
}

#[tokio::test]
async fn an_alias_is_seen_by_every_process_and_means_its_indices() {
    let store = Faulty::sound();
    let (here, there) = (catalog(&store), catalog(&store));
    for index in ["web-1", "web-2", "app"] {
        make(&here, index).await;
    }
    let web = RecordChange::Alias(name("web"), alias(&["web-1", "web-2"], Some("web-2")));
    let changed = change(&here, vec![web]).await.unwrap();
    assert_eq!(changed.aliases()[&name("web")].write_index(), Some(&name("web-2")));
    let (named, requests) = spent(&store, there.resolve("web,app", Resolve::default())).await;
    assert_eq!(named.unwrap(), [name("app"), name("web-1"), name("web-2")]);
    // The first read of the log.
    assert_eq!(requests.lists, 0, "{requests:?}");
    assert!(there.stands_for_others(&name("web")) && !there.stands_for_others(&name("app")));
    let opened = there.open_all("web", Resolve::default(), |_| None).await.unwrap();
    assert_eq!(opened.len(), 2);
    assert_eq!(there.list().await.unwrap().len(), 3);
}

#[tokio::test]
async fn an_alias_with_a_filter_is_not_taken_for_its_indices() {
    let store = Faulty::sound();
    let (here, there) = (catalog(&store), catalog(&store));
    for index in ["web", "app"] {
        make(&here, index).await;
    }
    let mut some = alias(&["web", "app"], None).unwrap();
    some.filters.insert(name("web"), json!({ "term": { "n": 1 } }));
    change(&here, vec![RecordChange::Alias(name("some"), Some(some.clone()))]).await.unwrap();
    for expression in ["some", "app,some"] {
        let error = there.resolve(expression, Resolve::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{expression}: {error}");
        assert!(there.open_all(expression, Resolve::default(), |_| None).await.is_err());
    }
    assert_eq!(there.resolve("s*", Resolve::default()).await.unwrap(), []);
    assert_eq!(there.records().await.unwrap().aliases()[&name("some")].filters, some.filters);
    here.delete(&name("web")).await.unwrap();
    assert_eq!(there.resolve("some", Resolve::default()).await.unwrap(), [name("app")]);
}

#[tokio::test]
async fn a_name_means_one_thing() {
    let store = Faulty::sound();
    let catalog = catalog(&store);
    make(&catalog, "web").await;
    let stream = || DataStream::new(name("web"), "template".to_owned());
    let conflict = async |change_of: RecordChange| {
        change(&catalog, vec![change_of]).await.map(drop).unwrap_err().kind() == ErrorKind::Conflict
    };
    assert!(conflict(RecordChange::Alias(name("web"), alias(&["web"], None))).await);
    assert!(conflict(RecordChange::DataStream(name("web"), Some(stream()))).await);
    change(&catalog, vec![RecordChange::Alias(name("all"), alias(&["web"], None))]).await.unwrap();
    assert!(conflict(RecordChange::DataStream(name("all"), Some(stream()))).await);
    let made = catalog.create(&name("all"), Mapping::dynamic(), Settings::default()).await;
    assert_eq!(made.unwrap_err().kind(), ErrorKind::Conflict);
    // An index and the alias of its own name, at once.
    let also = |_: &Records| Ok(vec![RecordChange::Alias(name("new"), alias(&["new"], None))]);
    let made = catalog.create_with(&name("new"), Mapping::dynamic(), Settings::default(), also).await;
    assert_eq!(made.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(catalog.list().await.unwrap(), [name("web")]);
}

#[tokio::test]
async fn a_name_that_is_removed_is_free_for_the_next_change() {
    let store = Faulty::sound();
    let (here, there) = (catalog(&store), catalog(&store));
    make(&here, "web").await;
    let stream = Some(DataStream::new(name("web"), "template".to_owned()));
    let (all, none) = (|| name("all"), || RecordChange::Alias(name("all"), None));
    change(&here, vec![RecordChange::Alias(all(), alias(&["web"], None))]).await.unwrap();
    let after = vec![RecordChange::DataStream(all(), stream.clone()), none()];
    assert_eq!(change(&here, after).await.unwrap_err().kind(), ErrorKind::Conflict);
    change(&here, vec![none(), RecordChange::DataStream(all(), stream)]).await.unwrap();
    for catalog in [&here, &there] {
        let records = catalog.records().await.unwrap();
        assert!(records.aliases().is_empty() && records.data_streams().contains_key(&all()));
    }
    let again =
        vec![RecordChange::DataStream(all(), None), RecordChange::Alias(all(), alias(&["web"], None))];
    let records = change(&here, again).await.unwrap();
    assert!(records.aliases().contains_key(&all()) && records.data_streams().is_empty());
    // Two of one name at once.
    let stream = Some(DataStream::new(name("web"), "template".to_owned()));
    for both in [
        vec![
            RecordChange::Alias(name("x"), alias(&["web"], None)),
            RecordChange::DataStream(name("x"), stream.clone()),
        ],
        vec![
            RecordChange::DataStream(name("x"), stream.clone()),
            RecordChange::Alias(name("x"), alias(&["web"], None)),
        ],
    ] {
        assert_eq!(change(&here, both).await.unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[tokio::test]
async fn a_deleted_index_is_in_no_alias_and_has_no_settings_even_if_it_is_made_again() {
    let store = Faulty::sound();
    let catalog = catalog(&store);
    for index in ["web-1", "web-2"] {
        make(&catalog, index).await;
    }
    let both = RecordChange::Alias(name("web"), alias(&["web-1", "web-2"], Some("web-1")));
    let one = RecordChange::Alias(name("one"), alias(&["web-1"], None));
    let mut stream = DataStream::new(name("web-1"), "template".to_owned());
    stream.indices.push(name("web-2"));
    let stream = RecordChange::DataStream(name("stream"), Some(stream));
    let settings = |index: &str| RecordChange::Other {
        kind: INDEX_SETTINGS,
        name: index.to_owned(),
        value: Some(json!({ "x": 1 })),
    };
    change(&catalog, vec![both, one, stream, settings("web-1"), settings("web-2")]).await.unwrap();
    catalog.delete(&name("web-1")).await.unwrap();
    make(&catalog, "web-1").await;
    let records = catalog.records().await.unwrap();
    assert_eq!(records.other(INDEX_SETTINGS, "web-1"), None);
    assert!(records.other(INDEX_SETTINGS, "web-2").is_some());
    assert_eq!(records.aliases().keys().collect::<Vec<_>>(), [&name("web")]);
    assert_eq!(records.aliases()[&name("web")].write_index(), Some(&name("web-2")));
    assert_eq!(records.data_streams()[&name("stream")].indices, [name("web-2")]);
}

#[tokio::test]
async fn an_index_and_what_stands_for_it_are_made_at_once() {
    let store = Faulty::sound();
    let catalog = catalog(&store);
    let also = |records: &Records| {
        assert!(!records.has_index(&name("first")));
        let stream = DataStream::new(name("first"), "template".to_owned());
        Ok(vec![RecordChange::DataStream(name("stream"), Some(stream))])
    };
    let before = catalog.list().await.unwrap();
    assert!(before.is_empty());
    catalog.create_with(&name("first"), Mapping::dynamic(), Settings::default(), also).await.unwrap();
    assert_eq!(catalog.resolve("stream", Resolve::default()).await.unwrap(), [name("first")]);
    let refuses = |_: &Records| Err(Error::invalid("no"));
    let made = catalog.create_with(&name("second"), Mapping::dynamic(), Settings::default(), refuses).await;
    assert_eq!(made.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(catalog.list().await.unwrap(), [name("first")]);
}

#[tokio::test]
async fn who_sees_some_names_is_told_of_no_others() {
    let store = Faulty::sound();
    let catalog = catalog(&store);
    for index in ["web-1", "web-2", "app"] {
        make(&catalog, index).await;
    }
    let aliases = [("front", ["web-1", "app"]), ("hidden", ["web-1", "web-2"])];
    let aliases = aliases.map(|(name_of, of)| RecordChange::Alias(name(name_of), alias(&of, None)));
    let records = change(&catalog, aliases.into()).await.unwrap();
    let resolve = |expression: &str, how: Resolve| {
        let sees = |name: &IndexName| ["web-1", "web-2", "front"].contains(&name.as_str());
        let named = records.resolve(expression, 0, how, sees);
        named.map(|names| names.iter().map(IndexName::to_string).collect::<Vec<_>>().join(","))
    };
    let named = |expression: &str| resolve(expression, Resolve::default()).unwrap();
    for (expression, expected) in [
        ("*", "app,web-1,web-2"),
        ("app", "app"),
        ("front", "app,web-1"),
        ("h*", ""),
        ("*,-hidden", "app,web-1,web-2"),
        ("*,-h*", "app,web-1,web-2"),
        ("*,-front", "web-2"),
    ] {
        assert_eq!(named(expression), expected, "{expression}");
    }
    let strict = Resolve { allow_no_indices: false, ..Resolve::default() };
    let error = |expression: &str| resolve(expression, strict).unwrap_err().to_string();
    assert_eq!(error("h*"), error("z*").replace('z', "h"));
    for unseen in ["hidden", "hiddem"] {
        assert_eq!(error(unseen), format!("there is no index {unseen}"));
    }
    assert!(error("web-3").contains("did you mean web-"));
}

/// Two writers count up one record, each from what it has read: none is lost.
#[tokio::test]
async fn writers_that_change_the_same_record_lose_nothing() {
    let store = Faulty::sound();
    make(&catalog(&store), "web").await;
    let counted =
        |records: &Records| records.other("counter", "n").and_then(Value::as_u64).unwrap_or_default();
    let writers = (0..4).map(|_| {
        let catalog = catalog(&store);
        tokio::spawn(async move {
            for _ in 0..5 {
                let plan = |records: &Records| {
                    let value = Some(json!(counted(records) + 1));
                    Ok(vec![RecordChange::Other { kind: "counter", name: "n".to_owned(), value }])
                };
                catalog.change_records("count", plan).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let records = catalog(&store).records().await.unwrap();
    assert_eq!(counted(&records), 20);
    assert_eq!(records.others("counter").count(), 1);
    assert_eq!(records.others("count").count(), 0);
    let own = RecordChange::Other { kind: "index", name: "x".to_owned(), value: None };
    assert_eq!(change(&catalog(&store), vec![own]).await.unwrap_err().kind(), ErrorKind::Internal);
}
