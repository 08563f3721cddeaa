//! The conformance suite against a real S3-compatible server.
//!
//! `FROSTLINE_TEST_S3_ENDPOINT` (and `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `FROSTLINE_TEST_S3_BUCKET`) say where it is;
//! `tests/s3_server.sh start DIR` starts one and prints them.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;

use frostline_base::{ErrorKind, Meter};
use frostline_store::conformance::{Scale, conformance};
use frostline_store::{OpenOptions, Repository};

/// The bucket's URL, or none, said visibly.
fn bucket() -> Option<String> {
    let endpoint = std::env::var("FROSTLINE_TEST_S3_ENDPOINT").ok();
    let bucket = std::env::var("FROSTLINE_TEST_S3_BUCKET").unwrap_or_else(|_| "frostline-test".into());
    if endpoint.is_none() {
        // Past the test harness, which would keep it to itself.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: FROSTLINE_TEST_S3_ENDPOINT is not set; eval \"$(tests/s3_server.sh start DIR)\" starts a server"
        );
    }
    endpoint.map(|endpoint| format!("s3://{bucket}/conformance?endpoint={endpoint}"))
}

fn scale() -> Scale {
    let listed = std::env::var("FROSTLINE_TEST_S3_LISTED").ok().and_then(|n| n.parse().ok());
    Scale { listed: listed.unwrap_or(1_100), races: 10 }
}

/// Two runs on one bucket stay apart.
fn root(test: &str) -> String {
    format!("{test}-{:016x}", rand::random::<u64>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_s3_server_conforms() {
    let Some(url) = bucket() else { return };
    let repository = Repository::open(&url, &OpenOptions::default()).unwrap();
    conformance(&repository, &root("s3"), scale()).await;
    let cost = repository.meter().cost();
    eprintln!("{cost:?}, ${:.4}", repository.prices().usd(&cost));
    assert!(cost.gets > 0 && cost.puts > 1_000 && cost.lists > 2);
}

#[tokio::test]
async fn what_is_missing_or_refused_is_named() {
    let Some(url) = bucket() else { return };
    let (_, rest) = url.split_once("/conformance").unwrap();
    let absent =
        Repository::open(&format!("s3://frostline-no-such-bucket/a{rest}"), &OpenOptions::default()).unwrap();
    let error = absent.put("k", "x".into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("the bucket does not exist"), "{error}");
    let error = absent.get("k", &Meter::default()).await.unwrap_err();
    assert!(error.to_string().contains("the bucket does not exist"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_down_is_unavailable() {
    let options = OpenOptions::default();
    let retry = frostline_store::RetryOptions { attempts_max: 2, backoff_ms: 2, ..options.retry };
    let environment = [
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
    ];
    let environment = environment.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let options = OpenOptions { retry, environment: Some(environment), ..options };
    let repository = Repository::open("s3://bucket/a", &options).unwrap();
    let error = repository.get("k", &Meter::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!((repository.meter().cost().gets, repository.meter().cost().retries), (2, 1));
}
