use super::*;
use crate::settings::Settings;
use crate::testing::Tested;

fn watched(body: &str, query: Option<&str>) -> Watched {
    let body = Received::of(body.as_bytes().to_vec());
    Watched { api: "search", index: Some("web".to_owned()), query: query.map(str::to_owned), body }
}

#[test]
fn a_body_is_shown_only_where_that_is_wanted() {
    let body = "{\"query\":{\"term\":{\"user\":\"jane\"}}}";
    let shown = watched(body, None).show(false);
    assert_eq!((shown.shape.as_str(), shown.body), ("{query:{term:{user:?}}}", None));
    assert_eq!(watched(body, None).show(true).body.as_deref(), Some(body));
    let shown = watched("", Some("user:jane")).show(true);
    assert_eq!((shown.shape.as_str(), shown.body.as_deref()), ("q=?", Some("q=user:jane")));
    let shown = watched("{\"size\":1}", Some("user:jane")).show(true);
    assert_eq!(
        (shown.shape.as_str(), shown.body.as_deref()),
        ("q=? {size:1}", Some("q=user:jane {\"size\":1}"))
    );
}

#[test]
fn what_is_shown_has_a_limit() {
    let mut long = watched(&"é".repeat(BODY_BYTES_MAX), Some(&"é".repeat(BODY_BYTES_MAX)));
    long.index = Some("é".repeat(INDEX_BYTES_MAX));
    let shown = long.show(true);
    assert_eq!(shown.index.len(), INDEX_BYTES_MAX);
    assert!(shown.body.unwrap().len() < 2 * BODY_BYTES_MAX + 10);
}

/// What this thread logs, as lines of JSON.
#[derive(Clone, Default)]
struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn begin() -> (Lines, tracing::subscriber::DefaultGuard) {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone());
        (lines, tracing::subscriber::set_default(subscriber.finish()))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn of(&self, target: &str) -> Vec<serde_json::Value> {
        let text = self.text();
        let all = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        all.filter(|line| line["target"] == target).collect()
    }
}

async fn searched(slow: Option<u64>, slow_query_body: bool) -> Vec<serde_json::Value> {
    let (lines, _guard) = Lines::begin();
    let slow_query = slow.map(std::time::Duration::from_micros);
    let tested = Tested::with(Settings { slow_query, slow_query_body, ..Settings::default() });
    tested.ingest("web", 30).await;
    tested.ok("POST", "/web/_search", "{\"size\":3,\"query\":{\"match\":{\"word\":\"w1\"}}}").await;
    tested.ok("GET", "/_count?q=word:w2", "").await;
    let two = "{\"index\":\"web\"}\n{\"query\":{\"match\":{\"word\":\"w1\"}}}\n{\"index\":\"web\"}\n{}\n";
    tested.ok("POST", "/_msearch", two).await;
    tested.ok("POST", "/_sql", "{\"query\":\"SELECT n FROM web WHERE word = 'w1' LIMIT 2\"}").await;
    assert_eq!(tested.send("POST", "/web/_search", "{\"query\":7}").await.status, 400);
    assert_eq!(tested.get("/web/_mapping").await.status, 200);
    lines.of("frostline_server::slow")
}

#[tokio::test]
async fn slow_searches_are_logged_with_their_cost() {
    let lines = searched(Some(0), false).await;
    let text = |line: usize, name: &str| lines[line][name].as_str().unwrap_or_default().to_owned();
    let number = |line: usize, name: &str| lines[line][name].as_u64();
    let apis: Vec<String> = (0..lines.len()).map(|line| text(line, "api")).collect();
    assert_eq!(apis, ["search", "count", "msearch", "sql.query", "search"]);
    assert_eq!(text(0, "index"), "web");
    assert_eq!(text(0, "shape"), "{size:3,query:{match:{word:?}}}");
    assert_eq!(
        (number(0, "status"), number(0, "splits"), number(0, "searches")),
        (Some(200), Some(1), Some(1))
    );
    assert!(number(0, "gets") > Some(0) && number(0, "bytes") > Some(0), "{}", lines[0]);
    assert!(
        lines[0]["usd"].is_f64() && number(0, "took_ms").is_some() && number(0, "splits_opened") == Some(1)
    );
    assert_eq!((text(1, "index"), text(1, "shape")), (String::new(), "q=?".to_owned()));
    assert_eq!(
        (text(2, "shape"), number(2, "searches")),
        ("{query:{match:{word:?}}} {}".to_owned(), Some(2))
    );
    assert_eq!(text(3, "shape"), "SELECT n FROM web WHERE word = ? LIMIT ?");
    assert_eq!((number(4, "status"), number(4, "gets")), (Some(400), None));
    assert!(lines.iter().all(|line| line["body"].is_null()), "{lines:?}");
}

#[tokio::test]
async fn the_query_itself_is_logged_where_that_is_wanted() {
    let lines = searched(Some(0), true).await;
    assert_eq!(lines[0]["body"], "{\"size\":3,\"query\":{\"match\":{\"word\":\"w1\"}}}");
    assert_eq!(lines[1]["body"], "q=word:w2");
}

#[tokio::test]
async fn quick_searches_are_not_logged() {
    assert!(searched(Some(600_000_000), true).await.is_empty());
    assert!(searched(None, true).await.is_empty());
}

/// Whatever is sent as a secret, right or wrong, is in no line of the log, not even of the most detailed.
#[tokio::test]
async fn no_secret_is_logged() {
    let (lines, _guard) = Lines::begin();
    let settings = Settings {
        auth: true,
        slow_query: Some(std::time::Duration::ZERO),
        key_rate: std::num::NonZeroU32::new(1_000),
        ..Settings::default()
    };
    let tested = Tested::with(settings);
    let first = crate::api::security::first_key(&tested.state).await.unwrap().unwrap();
    let send = async |method: &str, uri: &str, who: &str, body: &str| {
        let request = http::Request::builder().method(method).uri(uri).header("authorization", who);
        let request =
            request.header("content-type", "application/json").header("host", "user:s3cret-host@logs");
        let request = request.header("x-api-key", "s3cret-header");
        tested.request(request.body(http_body_util::Full::from(body.to_owned())).unwrap()).await
    };
    let encode = |text: &str| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, text);
    let admin = format!("ApiKey {first}");
    let made = send("POST", "/_security/api_key", &admin, "{\"name\":\"ship\"}").await.json();
    let put = send(
        "PUT",
        "/_security/user/ada",
        &admin,
        "{\"password\":\"s3cret-password\",\"roles\":[\"editor\"]}",
    );
    assert_eq!(put.await.status, 200);
    let put = send("PUT", "/_security/user/bob", &admin, "{\"password\":\"s3cret-unread\",\"roles\":7}");
    assert_eq!(put.await.status, 400);
    let (right, wrong) = (encode("ada:s3cret-password"), encode("ada:s3cret-guess"));
    for (who, status) in [
        (format!("Basic {right}"), 200),
        (format!("Basic {wrong}"), 401),
        (format!("ApiKey {}", encode("id:s3cret-key")), 401),
        ("Bearer s3cret-token".to_owned(), 401),
        ("s3cret-scheme".to_owned(), 401),
        (format!("ApiKey {}", made["encoded"].as_str().unwrap()), 200),
    ] {
        for uri in [
            "http://user:s3cret-url@logs:9200/_count",
            "/_count?api_key=s3cret-parameter&q=s3cret-query",
            "/_search?source=%7B%22query%22:%22s3cret-source%22%7D",
        ] {
            let answered = send("GET", uri, &who, "").await.status.as_u16();
            let is_refused = [400, 401].contains(&answered);
            assert!(if status == 200 { answered != 401 } else { is_refused }, "{uri} {who}: {answered}");
        }
    }
    let query = "{\"query\":{\"term\":{\"token\":\"s3cret-value\"}}}";
    assert_eq!(send("POST", "/_search", &admin, query).await.status, 200);
    let log = lines.text();
    assert!(!lines.of("frostline_server::slow").is_empty() && log.contains("refused"), "{log}");
    let secrets = [
        "s3cret",
        &first,
        &right,
        &wrong,
        made["api_key"].as_str().unwrap(),
        made["encoded"].as_str().unwrap(),
    ];
    for secret in secrets {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}
