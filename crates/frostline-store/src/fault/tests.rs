use super::*;

fn generic(source: impl Into<Box<dyn StdError + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: source.into() }
}

/// An error that prints as the request errors of `object_store` do.
fn answered(status: &str, body: &str) -> String {
    format!("Server returned non-2xx status code: {status}: {body}")
}

#[test]
fn what_may_be_asked_again() {
    assert_eq!(trouble(&Fault::SlowDown.into()), Trouble::NotDone);
    assert_eq!(trouble(&Fault::Timeout.into()), Trouble::Unknown);
    assert_eq!(trouble(&generic(answered("503 Service Unavailable", "SlowDown"))), Trouble::NotDone);
    assert_eq!(trouble(&generic(answered("500 Internal Server Error", ""))), Trouble::Unknown);
    assert_eq!(trouble(&generic(answered("400 Bad Request", ""))), Trouble::Final);
    assert_eq!(trouble(&generic(io::Error::from(io::ErrorKind::ConnectionReset))), Trouble::Unknown);
    assert_eq!(trouble(&generic(io::Error::from(io::ErrorKind::StorageFull))), Trouble::Final);
    assert_eq!(trouble(&generic(answered("501 Not Implemented", ""))), Trouble::Final);
    let exists = |body: &str| object_store::Error::AlreadyExists {
        path: "k".into(),
        source: answered("409 Conflict", body).into(),
    };
    assert_eq!(trouble(&exists("BlobAlreadyExists")), Trouble::Final);
    assert_eq!(trouble(&exists("<Code>ConditionalRequestConflict</Code>")), Trouble::Unknown);
}

fn check_explained(error: object_store::Error, kind: ErrorKind, words: &str) {
    let said = explain("s3://b", "read", "k", error);
    assert_eq!(said.kind(), kind, "{said:?}");
    assert!(said.to_string().contains(words), "{said}");
    assert!(said.to_string().contains("cannot read \"k\" in s3://b"), "{said}");
}

#[test]
fn failures_say_what_to_do() {
    let absent = |body: &str| object_store::Error::NotFound {
        path: "k".into(),
        source: answered("404 Not Found", body).into(),
    };
    check_explained(absent("NoSuchKey"), ErrorKind::NotFound, "no such object");
    check_explained(absent("<Code>NoSuchBucket</Code>"), ErrorKind::Unavailable, "create it");
    check_explained(
        object_store::Error::PermissionDenied {
            path: "k".into(),
            source: answered("403 Forbidden", "").into(),
        },
        ErrorKind::Denied,
        "credentials",
    );
    check_explained(generic(answered("301 Moved Permanently", "")), ErrorKind::Refused, "AWS_REGION");
    check_explained(generic(answered("416 Range Not Satisfiable", "")), ErrorKind::Corrupt, "past the end");
    check_explained(generic(answered("503 Service Unavailable", "")), ErrorKind::Unavailable, "later");
    check_explained(generic(io::Error::from(io::ErrorKind::StorageFull)), ErrorKind::Exhausted, "no space");
    check_explained(
        generic(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)),
        ErrorKind::Denied,
        "read-only",
    );
}

#[test]
fn no_credentials_is_not_a_reason_to_wait() {
    let silent = || {
        generic("Error performing PUT http://169.254.169.254/latest/api/token in 1s  - error sending request")
    };
    assert_eq!(trouble(&silent()), Trouble::Final);
    check_explained(silent(), ErrorKind::Denied, "no credentials found: set AWS_ACCESS_KEY_ID");
    let busy = generic(format!(
        "Error performing PUT http://169.254.169.254/latest/api/token - {}",
        answered("503 Service Unavailable", "")
    ));
    assert_eq!(trouble(&busy), Trouble::NotDone);
}

#[test]
fn an_upload_that_was_cut_short_is_asked_again_and_never_taken_for_a_bad_document() {
    let body = |code: &str| format!("<Error><Code>{code}</Code><Message>m</Message></Error>");
    for (status, code, expected) in [
        ("400 Bad Request", "RequestTimeout", Trouble::Unknown),
        ("400 Bad Request", "IncompleteBody", Trouble::NotDone),
        ("400 Bad Request", "BadDigest", Trouble::NotDone),
        ("400 Bad Request", "XAmzContentSHA256Mismatch", Trouble::NotDone),
        ("500 Internal Server Error", "InternalError", Trouble::Unknown),
        ("503 Service Unavailable", "SlowDown", Trouble::NotDone),
        ("503 Service Unavailable", "ServerBusy", Trouble::NotDone),
    ] {
        let error = generic(answered(status, &body(code)));
        assert_eq!(trouble(&error), expected, "{code}");
        check_explained(error, ErrorKind::Unavailable, code);
    }
    let conflict = |code: &str| object_store::Error::AlreadyExists {
        path: "k".into(),
        source: answered("409 Conflict", &body(code)).into(),
    };
    assert_eq!(trouble(&conflict("OperationAborted")), Trouble::Unknown);
    check_explained(conflict("OperationAborted"), ErrorKind::Unavailable, "OperationAborted");
    check_explained(conflict("BlobAlreadyExists"), ErrorKind::Conflict, "exists");
    // Every other refusal of a request of ours is the store's, and no document's.
    for status in
        ["400 Bad Request", "405 Method Not Allowed", "411 Length Required", "413 Too Large", "418 Teapot"]
    {
        let error = generic(answered(status, &body("InvalidRequest")));
        assert_eq!(trouble(&error), Trouble::Final);
        check_explained(error, ErrorKind::Refused, "the store answered 4");
    }
    // A key that looks like a code is none.
    let named = generic(format!("logs/SlowDown: {}", answered("400 Bad Request", &body("InvalidRequest"))));
    assert_eq!(trouble(&named), Trouble::Final);
}

#[test]
fn one_sentence_says_it_once() {
    use std::error::Error as _;
    let xml =
        "<?xml version=\"1.0\"?><Error><Code>InvalidArgument</Code><Message>a part is odd</Message></Error>";
    let said = explain("s3://b", "write", "k", generic(answered("400 Bad Request", xml)));
    assert_eq!(
        said.to_string(),
        "cannot write \"k\" in s3://b: the store answered 400 InvalidArgument (a part is odd): check the URL, the endpoint and the region"
    );
    assert!(said.source().is_none(), "whoever prints the chain prints one sentence");
    let whole = explain("the repository", "reach", "", generic(answered("503 Service Unavailable", "")));
    assert_eq!(whole.to_string(), "cannot reach the repository: the store answered 503: try again later");
}

#[test]
fn tls_to_a_server_without_it_is_told_and_not_repeated() {
    let error = generic(
        "Error performing GET https://127.0.0.1:9000/b/k in 1ms - HTTP error: error sending request: received corrupt message of type InvalidContentType",
    );
    assert_eq!(trouble(&error), Trouble::Final);
    check_explained(
        error,
        ErrorKind::Refused,
        "https://127.0.0.1:9000 does not speak TLS: use an endpoint with http://",
    );
}
