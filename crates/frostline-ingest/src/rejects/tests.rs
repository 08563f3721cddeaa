use crate::lines::{Format, LineParser};

use super::{Reject, Rejects, base64, cut_short, kind_of};

#[test]
fn base64_as_everybody_writes_it() {
    for (bytes, text) in
        [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"foob\xff", "Zm9vYv8=")]
    {
        assert_eq!(base64(bytes), text);
    }
}

#[test]
fn reasons_of_one_kind_count_together() {
    assert_eq!(kind_of("the record has 12 fields, the header 5"), "the record has # fields, the header #");
    assert_eq!(kind_of("\"a b\" is not a key"), "… is not a key");
    assert_eq!(kind_of("invalid UTF-8 at byte 17 of the line"), "invalid UTF-8 at byte # of the line");
    assert_eq!(kind_of("deeper than 64 objects at byte 123"), "deeper than 64 objects at byte #");
    let mut bulk = LineParser::for_input(Format::Bulk, b"", 0);
    let change = bulk.parse(br#"{"delete":{"_id":"1"}}"#, &mut |_, _| {}).unwrap_err();
    assert_eq!(kind_of(change.reason()), "update and delete are refused: send them to the server");
    let mut rejects = Rejects::default();
    for line in 0..500 {
        let reason = format!("reason {}", "x".repeat(line));
        rejects.push(&Reject {
            source: "s",
            line: 1,
            offset: 0,
            reason: &reason,
            raw: b"\xff\"",
            cut: false,
        });
    }
    assert_eq!((rejects.total(), rejects.counts.len()), (500, 51));
    assert_eq!(rejects.counts["other reasons"], 450);
    assert_eq!(rejects.first_reason.as_deref(), Some("reason "));
    assert_eq!(cut_short(&"é".repeat(501)), format!("{}…", "é".repeat(500)));
    let first = rejects.lines.split(|byte| *byte == b'\n').next().unwrap();
    let first: serde_json::Value = serde_json::from_slice(first).unwrap();
    assert_eq!(first["raw_base64"], "/yI=");
}
