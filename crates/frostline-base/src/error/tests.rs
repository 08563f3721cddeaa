use super::*;
use std::error::Error as _;

#[test]
fn display_is_the_sentence_and_facts_without_the_source() {
    let io = std::io::Error::other("disk on fire");
    let error = Error::corrupt("page does not match its checksum")
        .with("object", "a/b.split")
        .with("range", "0..10")
        .with_source(io);
    assert_eq!(error.to_string(), "page does not match its checksum [object=a/b.split range=0..10]");
    assert_eq!(error.source().map(|s| s.to_string()).as_deref(), Some("disk on fire"));
}

#[test]
fn context_keeps_the_kind() {
    let error = Error::not_found("no such object").context("cannot open index logs");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), "cannot open index logs");
    assert_eq!(format!("{error:?}"), "NotFound: cannot open index logs: NotFound: no such object");
}

#[test]
fn facts_can_be_asked_for_and_are_no_part_of_the_sentence() {
    let error = Error::corrupt("cannot read [a, b]").with("object", "x]").with("range", "0..10");
    assert_eq!(error.to_string(), "cannot read [a, b] [object=x] range=0..10]");
    assert_eq!((error.what(), error.fact("object")), ("cannot read [a, b]", Some("x]")));
    assert_eq!((error.fact("range"), error.fact("version")), (Some("0..10"), None));
    assert_eq!(error.clone().context("a search failed").to_string(), "a search failed");
}

fn check_told(error: Error, expected: &str) {
    assert_eq!(told(&error), expected);
}

#[test]
fn people_are_told_facts_in_words() {
    check_told(Error::invalid("it is odd"), "it is odd");
    check_told(
        Error::corrupt("a checksum does not match").with("object", "a/b.parquet").with("range", "8..16"),
        "a checksum does not match (bytes 8 to 16 of the object a/b.parquet)",
    );
    check_told(
        Error::corrupt("a piece cannot be unpacked").with("form", 7).with("object", "p").with("at", 40),
        "a piece cannot be unpacked (byte 40 of the object p, form 7)",
    );
    check_told(
        Error::corrupt("it is too long").with("values_max", 5).with("bytes", 9),
        "it is too long (values max 5, 9 bytes)",
    );
    // What is said is not said again, and causes are told likewise.
    let read = Error::not_found("cannot read \"k/1\": there is no such object").with("object", "k/1");
    check_told(
        read.with("range", "0..5").context("cannot open logs"),
        "cannot open logs: cannot read \"k/1\": there is no such object (bytes 0 to 5)",
    );
    let io = std::io::Error::other("no route");
    check_told(Error::unavailable("it is far").with_source(io), "it is far: no route");
}
