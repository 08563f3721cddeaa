//! A server on this machine that answers as a store does when something is wrong.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use frostline_base::{ErrorKind, Meter};
use frostline_store::{OpenOptions, Put, Repository, RetryOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers the first requests with these, one each, and all others with 200; keeps the first line of each request.
struct StandIn {
    endpoint: String,
    asked: Arc<Mutex<Vec<String>>>,
}

async fn stand_in(answers: &[(u16, &str)]) -> StandIn {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut answers: Vec<String> = answers.iter().map(|(status, code)| answer(*status, code)).collect();
    answers.reverse();
    let (answers, heard) = (Arc::new(Mutex::new(answers)), Arc::clone(&asked));
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, Arc::clone(&answers), Arc::clone(&heard)));
        }
    });
    StandIn { endpoint, asked }
}

fn answer(status: u16, code: &str) -> String {
    let body =
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as it was told</Message></Error>");
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

async fn serve(mut connection: TcpStream, answers: Arc<Mutex<Vec<String>>>, asked: Arc<Mutex<Vec<String>>>) {
    let mut held = Vec::new();
    loop {
        if held.first() == Some(&0x16) {
            // What is not HTTP is told so, as servers do that are sent a TLS greeting.
            let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
            return;
        }
        let Some(end) = held.windows(4).position(|w| w == b"\r\n\r\n") else {
            let mut more = [0; 4096];
            match connection.read(&mut more).await {
                Ok(n) if n > 0 => held.extend_from_slice(&more[..n]),
                _ => return,
            }
            continue;
        };
        let head = String::from_utf8_lossy(&held[..end]).into_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        while held.len() < end + 4 + length.unwrap_or(0) {
            let mut more = [0; 4096];
            let n = connection.read(&mut more).await.unwrap_or(0);
            if n == 0 {
                return;
            }
            held.extend_from_slice(&more[..n]);
        }
        held.drain(..end + 4 + length.unwrap_or(0));
        asked.lock().unwrap().push(head.lines().next().unwrap_or_default().to_owned());
        let fine = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n".to_owned();
        let answer = answers.lock().unwrap().pop().unwrap_or(fine);
        if connection.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn open(endpoint: &str) -> Repository {
    let environment = [
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", endpoint),
    ];
    let environment: BTreeMap<_, _> =
        environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let retry = RetryOptions { backoff_ms: 2, attempts_max: 3, seed: 1, ..RetryOptions::default() };
    let options = OpenOptions { environment: Some(environment), retry, ..OpenOptions::default() };
    Repository::open("s3://bucket/logs", &options).unwrap()
}

#[tokio::test]
async fn an_upload_that_timed_out_is_sent_again() {
    for code in ["RequestTimeout", "IncompleteBody", "BadDigest"] {
        let server = stand_in(&[(400, code), (400, code)]).await;
        open(&server.endpoint).put("web/00/split", Bytes::from_static(b"a split")).await.unwrap();
        assert_eq!(server.asked.lock().unwrap().len(), 3, "{code}");
        let server = stand_in(&[(400, code); 3]).await;
        let error = open(&server.endpoint).put("web/00/split", Bytes::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
    let server = stand_in(&[(409, "OperationAborted"), (404, "NoSuchKey")]).await;
    let put = open(&server.endpoint).put_new("web/_delta_log/1", Bytes::from_static(b"{}")).await;
    assert_eq!(put.unwrap(), Put::Created);
}

#[tokio::test]
async fn what_a_store_refuses_for_good_is_never_invalid_and_said_once() {
    for (status, code, kind) in [
        (400, "InvalidRequest", ErrorKind::Refused),
        (400, "KeyTooLongError", ErrorKind::Refused),
        (400, "AuthorizationHeaderMalformed", ErrorKind::Refused),
        (400, "ExpiredToken", ErrorKind::Denied),
        (403, "AccessDenied", ErrorKind::Denied),
        (403, "SignatureDoesNotMatch", ErrorKind::Denied),
        (405, "MethodNotAllowed", ErrorKind::Refused),
        (501, "NotImplemented", ErrorKind::Refused),
        (507, "XMinioStorageFull", ErrorKind::Exhausted),
        (404, "NoSuchBucket", ErrorKind::Unavailable),
    ] {
        let server = stand_in(&[(status, code)]).await;
        let error = open(&server.endpoint).put("web/00/split", Bytes::new()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert_eq!(server.asked.lock().unwrap().len(), 1, "{code} is not repeated");
        let (said, whole) = (error.to_string(), format!("{error:?}"));
        assert!(said.starts_with("cannot write \"web/00/split\" in s3://bucket/logs: "), "{said}");
        assert!(!whole.contains('<') && whole.len() < 300, "{whole}");
    }
}

#[tokio::test]
async fn a_bucket_that_is_gone_is_no_absent_object() {
    for code in ["NoSuchBucket", "ContainerNotFound"] {
        let server = stand_in(&[(404, code), (404, code), (404, "NoSuchKey"), (404, "NoSuchKey")]).await;
        let repository = open(&server.endpoint);
        let read = async || repository.get("k", &Meter::default()).await.map(drop);
        let delete = async || repository.delete(["k"]).await;
        for gone in [read().await, delete().await] {
            let error = gone.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
            assert!(error.what().contains("the bucket does not exist"), "{error}");
        }
        assert_eq!(read().await.unwrap_err().kind(), ErrorKind::NotFound);
        delete().await.unwrap();
        assert_eq!(server.asked.lock().unwrap().len(), 4, "nothing is repeated");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let error = open(&format!("http://{address}")).get("k", &Meter::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let said = error.to_string();
    assert!(said.contains(&format!("cannot connect to http://{address} (Connection refused")), "{said}");
    assert!(said.ends_with("check the endpoint, and that its server is running"), "{said}");
    let plain = stand_in(&[]).await;
    let tls = plain.endpoint.replace("http://", "https://");
    let error = open(&tls).get("k", &Meter::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    assert!(error.to_string().contains("does not speak TLS: use an endpoint with http://"), "{error}");
}

#[tokio::test]
async fn a_read_that_is_dropped_asks_for_nothing_more() {
    let server = stand_in(&[(503, "SlowDown"); 100]).await;
    let repository = open(&server.endpoint);
    let meter = Meter::default();
    {
        let mut read = std::pin::pin!(repository.get("k", &meter));
        while server.asked.lock().unwrap().is_empty() {
            tokio::select! {
                biased;
                _ = &mut read => panic!("the first answer is not final"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    let asked = server.asked.lock().unwrap().len();
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.asked.lock().unwrap().len(), asked);
}
