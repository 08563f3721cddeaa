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
    check_explained(absent("<Code>NoSuchBucket</Code>"), ErrorKind::NotFound, "create it");
    check_explained(
        object_store::Error::PermissionDenied {
            path: "k".into(),
            source: answered("403 Forbidden", "").into(),
        },
        ErrorKind::Denied,
        "credentials",
    );
    check_explained(generic(answered("301 Moved Permanently", "")), ErrorKind::Invalid, "AWS_REGION");
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
        generic("Error performing PUT http://169.254.169.254/latest/api/token in 1s - error sending request")
    };
    assert_eq!(trouble(&silent()), Trouble::Final);
    check_explained(silent(), ErrorKind::Denied, "no credentials were found");
    let busy = generic(format!(
        "Error performing PUT http://169.254.169.254/latest/api/token - {}",
        answered("503 Service Unavailable", "")
    ));
    assert_eq!(trouble(&busy), Trouble::NotDone);
}
