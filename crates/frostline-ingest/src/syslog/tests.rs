use serde_json::{Value, json};

use super::*;

/// 2024-06-01T00:00:00Z.
const NOW_US: i64 = 1_717_200_000_000_000;
const MAX: usize = 64;

/// What a stream has, whichever pieces it comes in; `~` after what is cut.
fn messages(stream: &[u8]) -> Vec<String> {
    let of_pieces = |size: usize| {
        let mut found = Vec::new();
        let mut framer = Framer::new(MAX);
        for piece in stream.chunks(size) {
            framer.push(piece, &mut |message| found.push(message)).unwrap();
        }
        found.extend(framer.finish());
        found
    };
    let whole = of_pieces(stream.len().max(1));
    for size in 1..=stream.len() {
        assert_eq!(of_pieces(size), whole, "in pieces of {size}");
    }
    let shown = whole.into_iter().map(|message| {
        let end = if message.is_cut { "~" } else { "" };
        format!("{}{end}", String::from_utf8_lossy(&message.bytes))
    });
    shown.collect()
}

#[test]
fn messages_have_a_length_or_end_with_a_line_feed() {
    assert_eq!(messages(b"5 <1>ab6 <2>c\nd"), ["<1>ab", "<2>c\nd"]);
    assert_eq!(messages(b"<1>a\n\r\n\n<2>b\r\n<3>c"), ["<1>a", "<2>b\r", "<3>c"]);
    // Both in one stream, and a line feed after what is counted.
    assert_eq!(messages(b"4 <1>a\n<2>b\n4 <3>c"), ["<1>a", "<2>b", "<3>c"]);
    // What begins with digits is not always a length.
    assert_eq!(
        messages(b"2024-06-01T00:00:00Z a\n10:00 b\n12\n0 c\n1234567890 d\n"),
        ["2024-06-01T00:00:00Z a", "10:00 b", "12", "0 c", "1234567890 d",]
    );
    assert_eq!(messages(b""), Vec::<String>::new());
    assert_eq!(messages(b"\n\n\0"), Vec::<String>::new());
}

#[test]
fn a_message_that_is_cut_says_so() {
    assert_eq!(messages(b"9 <1>ab"), ["<1>ab~"]);
    assert_eq!(messages(b"9 "), Vec::<String>::new());
    assert_eq!(messages(b"77"), ["77"]);
    let long = "x".repeat(MAX + 10);
    let kept = format!("{}~", "x".repeat(MAX));
    assert_eq!(messages(format!("{} {long}4 <2>b", long.len()).as_bytes()), [kept.as_str(), "<2>b"]);
    assert_eq!(messages(format!("{long}\n<2>b\n").as_bytes()), [kept.as_str(), "<2>b"]);
}

#[test]
fn a_forged_length_ends_the_stream_and_takes_no_memory() {
    let mut framer = Framer::new(MAX);
    let error = framer.push(b"999999999 <1>", &mut |_| panic!("a message")).unwrap_err();
    assert!(error.to_string().contains("a message of 999999999 bytes is longer than"), "{error}");
    assert_eq!(framer.finish(), None);
    let mut framer = Framer::new(MAX);
    framer.push(format!("{COUNT_MAX} ").as_bytes(), &mut |_| panic!("a message")).unwrap();
    for _ in 0..1_000 {
        framer.push(&[b'x'; 1_000], &mut |_| panic!("a message")).unwrap();
    }
    assert!(framer.message.capacity() < 4 * MAX);
    assert!(!framer.is_between());
}

fn of(bytes: &[u8]) -> Value {
    let message = Message { bytes: bytes.to_vec(), is_cut: false };
    let document = document(&message, "192.0.2.7".parse().unwrap(), NOW_US).unwrap();
    frostline_split::check_unique_keys(&document).unwrap();
    serde_json::from_slice(&document).unwrap()
}

#[test]
fn a_message_of_rfc_5424_becomes_its_fields() {
    let message =
        "<165>1 2024-05-31T22:14:15.003Z web-1 shop 42 ID47 [a@1 x=\"1\" x=\"\\]\"] \u{feff}two\nlines";
    assert_eq!(
        of(message.as_bytes()),
        json!({
            "syslog.priority": 165, "syslog.facility": "local4", "syslog.severity": "notice",
            "@timestamp": "2024-05-31T22:14:15.003Z", "host.name": "web-1", "process.name": "shop", "process.pid": 42,
            "syslog.msgid": "ID47", "syslog.data.a@1.x": ["1", "]"], "message": "two\nlines", "source.ip": "192.0.2.7",
        })
    );
    let untimed = of(b"<13>1 - - - - - - hello");
    assert_eq!(untimed["@timestamp"], "2024-06-01T00:00:00.000Z");
    assert_eq!((&untimed["message"], untimed.get("syslog.unparsed")), (&json!("hello"), None));
}

#[test]
fn a_message_of_rfc_3164_becomes_its_fields() {
    assert_eq!(
        of(b"<34>May 31 22:14:15 web-1 su[77]: 'su root' failed\r\n\0"),
        json!({
            "@timestamp": "2024-05-31T22:14:15.000Z", "syslog.priority": 34, "syslog.facility": "auth",
            "syslog.severity": "crit", "host.name": "web-1", "process.name": "su", "process.pid": 77,
            "message": "'su root' failed", "source.ip": "192.0.2.7",
        })
    );
}

#[test]
fn what_is_not_syslog_is_kept_as_it_is() {
    assert_eq!(
        of(b"<13>hello"),
        json!({
            "@timestamp": "2024-06-01T00:00:00.000Z", "syslog.priority": 13, "syslog.facility": "user",
            "syslog.severity": "notice", "message": "<13>hello", "syslog.unparsed": "the line has no syslog time",
            "source.ip": "192.0.2.7",
        })
    );
    let broken = of(b"<13>1 2024-05-31T22:14:15Z h p 1 - [a b=] x");
    assert_eq!(broken["message"], "<13>1 2024-05-31T22:14:15Z h p 1 - [a b=] x");
    assert_eq!(broken["syslog.unparsed"], "the structured data of the syslog line is malformed");
    let latin = of(b"<13>May 31 22:14:15 h p: caf\xe9");
    assert_eq!(latin["message"], "caf\u{fffd}");
    assert_eq!(latin["syslog.raw"], BASE64_STANDARD.encode(b"<13>May 31 22:14:15 h p: caf\xe9"));
    assert_eq!(of(b"a\0b")["message"], "a\0b");
}

#[test]
fn more_parameters_than_a_document_may_have_are_kept_as_text() {
    let params: String = (0..5_000).map(|n| format!(" p{n}=\"\"")).collect();
    let message = format!("<13>1 - - - - - [id{params}] hello");
    let document = of(message.as_bytes());
    assert_eq!(document["message"], message);
    assert_eq!(document["syslog.unparsed"], "the structured data of the syslog line is too large");
    let long = of(format!("<13>1 - - - - - [id {}=\"\"]", "n".repeat(2_000)).as_bytes());
    assert!(long["syslog.unparsed"].is_string());
}

#[test]
fn a_blank_message_is_none_and_one_that_is_cut_says_so() {
    let peer = "::ffff:192.0.2.7".parse().unwrap();
    let read = |bytes: &[u8], is_cut| document(&Message { bytes: bytes.to_vec(), is_cut }, peer, NOW_US);
    assert_eq!(read(b" \r\n\0", false), None);
    let cut: Value = serde_json::from_slice(&read(b"<13>he", true).unwrap()).unwrap();
    assert_eq!((&cut["syslog.truncated"], &cut["source.ip"]), (&json!(true), &json!("192.0.2.7")));
}
