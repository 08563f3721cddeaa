use serde_json::Value;

use super::*;
use crate::testing::Tested;

fn peer() -> SocketAddr {
    "192.0.2.7:514".parse().unwrap()
}

fn message(text: &str) -> Message {
    Message { bytes: text.as_bytes().to_vec(), is_cut: false }
}

fn waiting(storer: &mut Storer) -> Vec<Value> {
    let mut documents = Vec::new();
    while let Ok(waiting) = storer.documents.try_recv() {
        documents.push(serde_json::from_slice(&waiting.document).unwrap());
    }
    documents
}

/// What a connection brings that sends `pieces` and then nothing more, and how it ends.
async fn received(settings: Settings, pieces: &[&str], ends: bool) -> (Vec<Value>, Option<String>) {
    let server = Tested::with(settings);
    let (queue, mut storer) = queue(&server.state);
    let (mut client, stream) = tokio::io::duplex(1 << 20);
    let (stopping, stopped) = watch::channel(());
    let settings = server.state.settings.clone();
    let receiving = tokio::spawn(async move { receive(stream, peer(), queue, stopped, &settings).await });
    for piece in pieces {
        client.write_all(piece.as_bytes()).await.unwrap();
    }
    if ends {
        client.shutdown().await.unwrap();
    }
    let ended = receiving.await.unwrap();
    drop(stopping);
    (waiting(&mut storer), ended.err().map(|error| error.to_string()))
}

#[tokio::test]
async fn a_connection_brings_messages_of_both_framings() {
    let pieces = ["<13>May 31 22:14:15 web-1 su: a\n1", "0 <14>1 - - -", " - - - b\n", "<13>c"];
    let (documents, error) = received(Settings::default(), &pieces, true).await;
    let texts: Vec<&str> = documents.iter().map(|document| document["message"].as_str().unwrap()).collect();
    // The second was announced with 10 bytes.
    assert_eq!(texts, ["a", "<14>1 - -", "- - - - b", "<13>c"]);
    assert_eq!((error, documents[0]["source.ip"].as_str()), (None, Some("192.0.2.7")));
}

#[tokio::test]
async fn what_came_of_a_message_is_kept_where_its_client_dies() {
    let (documents, _) = received(Settings::default(), &["100 <13>1 - - - - - - half"], true).await;
    assert_eq!(documents.len(), 1);
    assert_eq!((&documents[0]["message"], &documents[0]["syslog.truncated"]), (&"half".into(), &true.into()));
}

#[tokio::test]
async fn a_forged_length_ends_a_connection() {
    let (documents, error) = received(Settings::default(), &["<13>a\n999999999 x"], false).await;
    assert_eq!(documents.len(), 1);
    assert!(error.is_some_and(|error| error.contains("is longer than")));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_never_ends_is_not_waited_for() {
    let settings = Settings { syslog_message_bytes_max: 1_000, ..Settings::default() };
    let long = "x".repeat(2_000);
    let (documents, error) = received(settings, &["<13>", &long], false).await;
    assert_eq!(documents[0]["message"].as_str().map(str::len), Some(1_000));
    assert_eq!(documents[0]["syslog.truncated"], true);
    assert!(error.is_some_and(|error| error.contains("sent nothing for too long")));
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_has_the_time_of_one_message() {
    let server = Tested::new();
    let (queue, _storer) = queue(&server.state);
    let (mut client, stream) = tokio::io::duplex(64);
    let (_stopping, stopped) = watch::channel(());
    let settings = server.state.settings.clone();
    let (begun, time_max) = (Instant::now(), settings.body_pause_max);
    let receiving = tokio::spawn(async move { receive(stream, peer(), queue, stopped, &settings).await });
    // A byte every ten seconds, for as long as the server takes them.
    let mut pace = tokio::time::interval(Duration::from_secs(10));
    loop {
        pace.tick().await;
        if client.write_all(b"x").await.is_err() {
            break;
        }
    }
    assert!(receiving.await.unwrap().is_err());
    assert!(begun.elapsed() <= time_max + Duration::from_secs(10));
}

#[tokio::test]
async fn a_connection_waits_where_datagrams_are_dropped() {
    let server = Tested::with(Settings { syslog_held_bytes_max: 1_000, ..Settings::default() });
    let (queue, mut storer) = queue(&server.state);
    queue.offer(&message("<13>a"), peer().ip());
    for _ in 0..5 {
        queue.offer(&message("<13>b"), peer().ip());
    }
    let dropped = queue.dropped.load(Ordering::Relaxed);
    assert!((3..=5).contains(&dropped), "{dropped}");
    let (put, ip) = (message("<13>c"), peer().ip());
    let mut putting = Box::pin(queue.put(&put, ip));
    assert!(futures::poll!(putting.as_mut()).is_pending());
    assert_eq!(waiting(&mut storer).len() as u64, 6 - dropped);
    assert!(futures::poll!(putting.as_mut()).is_ready());
    drop(putting);
    assert_eq!(waiting(&mut storer).len(), 1);
}

/// Stores these messages, and returns what the index has then.
async fn stored(server: &Tested, messages: &[&str]) -> Vec<String> {
    let (queue, storer) = queue(&server.state);
    for text in messages {
        queue.put(&message(text), peer().ip()).await;
    }
    drop(queue);
    storer.run().await;
    let found = server.ok("GET", "/logs-syslog/_search?size=100&sort=message", "").await;
    let hits = found["hits"]["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["_source"]["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn messages_are_stored_before_the_server_ends() {
    let server = Tested::new();
    let messages = ["<13>May 31 22:14:15 h p: a", "<13>1 - - - - - - b", "nonsense"];
    assert_eq!(stored(&server, &messages).await, ["a", "b", "nonsense"]);
    let query = r#"{"query":{"exists":{"field":"syslog.unparsed"}}}"#;
    assert_eq!(server.ok("GET", "/logs-syslog/_count", query).await["count"], 1);
}

#[tokio::test]
async fn what_the_index_refuses_is_dropped_alone() {
    let server = Tested::new();
    let mapping = r#"{"mappings":{"dynamic":"strict","properties":{"@timestamp":{"type":"date"},"message":{"type":"text"},
        "source":{"properties":{"ip":{"type":"ip"}}},"syslog":{"properties":{"priority":{"type":"long"},
        "facility":{"type":"keyword"},"severity":{"type":"keyword"}}}}}}"#;
    server.ok("PUT", "/logs-syslog", mapping).await;
    let messages = ["<13>1 - - - - - - good", "<13>1 - - program - - - bad", "<13>1 - - - - - - also good"];
    assert_eq!(stored(&server, &messages).await, ["also good", "good"]);
}

#[tokio::test]
async fn messages_wait_while_the_index_takes_none() {
    let server = Tested::new();
    for index in ["a", "b"] {
        server.ok("PUT", &format!("/{index}"), "").await;
    }
    // An alias of two indices of which none takes documents.
    let alias = |index: &str, more: &str| {
        format!(r#"{{"actions":[{{"add":{{"index":"{index}","alias":"logs-syslog"{more}}}}}]}}"#)
    };
    server.ok("POST", "/_aliases", &alias("a", "")).await;
    server.ok("POST", "/_aliases", &alias("b", "")).await;
    let (queue, storer) = queue(&server.state);
    queue.put(&message("<13>1 - - - - - - a"), peer().ip()).await;
    drop(queue);
    let client = Client { scope: Client::anonymous().scope.to(Privilege::Write), ..Client::anonymous() };
    let call = call(&server.state, client, HeaderMap::new());
    let mut left = vec![Bytes::from_static(b"{}")];
    assert!(try_store(&call, &mut left).await.is_err());
    assert_eq!(left.len(), 1);
    let storing = tokio::spawn(storer.run());
    server.ok("POST", "/_aliases", &alias("b", r#","is_write_index":true"#)).await;
    storing.await.unwrap();
    assert_eq!(server.ok("GET", "/b/_count", "").await["count"], 1);
}
