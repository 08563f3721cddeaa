//! Lines of every format: a document that is made of a line is JSON. The first byte names the format.
#![no_main]

use frostline_fuzz::NOW_US;
use frostline_ingest::{Format, LineParser};

const FORMATS: [Format; 12] = [
    Format::Auto,
    Format::NdJson,
    Format::Nginx,
    Format::Combined,
    Format::Syslog,
    Format::Logfmt,
    Format::Csv,
    Format::Plain,
    Format::Bulk,
    Format::Docker,
    Format::Cri,
    Format::Journald,
];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, input)) = bytes.split_first() else { return };
    let format = FORMATS[usize::from(*first) % FORMATS.len()];
    let parser = LineParser::for_input(format, input, NOW_US);
    for mut parser in [parser.clone(), parser.with_time_field(Some("when".to_owned()), "@timestamp")] {
        // JSON lines are passed on as they are; what is wrong in them is found by who reads documents.
        let made = !matches!(parser.format(), Format::NdJson | Format::Nginx | Format::Bulk);
        // Of a bulk body, several lines are parsed together.
        for line in input.split(|byte| *byte == b'\n').chain([input]) {
            let _ = parser.parse(line, &mut |document, _| {
                let json = serde_json::from_slice::<serde_json::Value>(document);
                assert!(
                    !made || json.is_ok_and(|json| json.is_object()),
                    "{:?}",
                    String::from_utf8_lossy(document)
                );
            });
        }
    }
});
