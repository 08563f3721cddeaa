//! A stream of syslog: its messages do not depend on the pieces that it comes in, and each becomes a document. The first
//! byte is the size of the pieces.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use frostline_fuzz::NOW_US;
use frostline_ingest::syslog::{Framer, Message, document};

const BYTES_MAX: usize = 1_024;

fn messages(stream: &[u8], size: usize) -> Vec<Message> {
    let (mut framer, mut found) = (Framer::new(BYTES_MAX), Vec::new());
    for piece in stream.chunks(size) {
        if framer.push(piece, &mut |message| found.push(message)).is_err() {
            return found;
        }
    }
    found.extend(framer.finish());
    found
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, stream)) = bytes.split_first() else { return };
    let found = messages(stream, usize::from(*first).max(1));
    assert_eq!(found, messages(stream, stream.len().max(1)));
    for message in found {
        assert!(!message.bytes.is_empty() && message.bytes.len() <= BYTES_MAX);
        if let Some(document) = document(&message, IpAddr::V4(Ipv4Addr::LOCALHOST), NOW_US) {
            assert!(
                frostline_split::check_unique_keys(&document).is_ok(),
                "{:?}",
                String::from_utf8_lossy(&document)
            );
            let json = serde_json::from_slice::<serde_json::Value>(&document);
            assert!(
                json.is_ok_and(|json| json["@timestamp"].is_string()),
                "{:?}",
                String::from_utf8_lossy(&document)
            );
        }
    }
});
