//! A request of OpenTelemetry: what becomes a document is JSON with a time, without a key twice. The first byte names the
//! encoding.
#![no_main]

use frostline_fuzz::NOW_US;
use frostline_ingest::otlp::{Encoding, documents};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, request)) = bytes.split_first() else { return };
    let encoding = if first % 2 == 0 { Encoding::Protobuf } else { Encoding::Json };
    let _ = documents(request, encoding, NOW_US, &mut |document| {
        if let Ok(document) = document {
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
        Ok(())
    });
});
