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
