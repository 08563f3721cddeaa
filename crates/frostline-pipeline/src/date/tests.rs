use serde_json::{Value, json};

use crate::tests::{Pipelines, document};
use crate::{Outcome, Pipeline, run};

fn date(options: Value, value: Value) -> Option<String> {
    let mut date = json!({ "field": "f" });
    date.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let pipeline = Pipeline::parse(&json!({ "processors": [{ "date": date }] }).into()).unwrap();
    let mut document = document(json!({ "f": value, "zone": "Europe/Amsterdam" }));
    let outcome = run(&Pipelines::new(), "p", &pipeline, &mut document, None);
    (outcome == Outcome::Done)
        .then(|| crate::tests::shown(&document)["@timestamp"].as_str().unwrap().to_owned())
}

fn reads(format: &str, value: Value, expected: &str) {
    assert_eq!(date(json!({ "formats": [format] }), value).as_deref(), Some(expected), "{format}");
}

#[test]
fn times_are_read_by_their_format() {
    reads("ISO8601", json!("2024-05-06T07:08:09.1239+02:00"), "2024-05-06T05:08:09.123Z");
    reads("ISO8601", json!("2024-05-06"), "2024-05-06T00:00:00.000Z");
    reads("ISO8601", json!("2024-05-06T07:08:09,5Z"), "2024-05-06T07:08:09.500Z");
    reads("UNIX", json!("1714979289.25"), "2024-05-06T07:08:09.250Z");
    reads("UNIX", json!(1_714_979_289), "2024-05-06T07:08:09.000Z");
    reads("UNIX_MS", json!(1_714_979_289_007_i64), "2024-05-06T07:08:09.007Z");
    reads("TAI64N", json!("400000005050e2d7189080f0"), "2012-09-12T19:30:21.412Z");
    reads("dd/MMM/yyyy:HH:mm:ss Z", json!("06/May/2024:07:08:09 -0230"), "2024-05-06T09:38:09.000Z");
    reads("yyyy-MM-dd HH:mm:ss,SSS", json!("2024-05-06 07:08:09,045"), "2024-05-06T07:08:09.045Z");
    reads("yyyyMMddHHmmss", json!("20240506070809"), "2024-05-06T07:08:09.000Z");
    reads("EEE, d MMM yyyy h:mm a z", json!("Mon, 6 May 2024 12:08 AM EST"), "2024-05-06T05:08:00.000Z");
    reads("MMMM d, yy", json!("May 6, 24"), "2024-05-06T00:00:00.000Z");
    // Without a year it is this one.
    reads("MMM d HH:mm:ss", json!("Jan 2 03:04:05"), "2024-01-02T03:04:05.000Z");
    reads("MMM  d HH:mm:ss", json!("Jan  2 03:04:05"), "2024-01-02T03:04:05.000Z");
    reads("yyyy-MM-dd'T'HH:mm[:ss[.SSS]]XXX", json!("2024-05-06T07:08Z"), "2024-05-06T07:08:00.000Z");
    reads("8yyyy-MM-dd", json!("2024-05-06"), "2024-05-06T00:00:00.000Z");
    reads("yyyy-DDD", json!("2024-366"), "2024-12-31T00:00:00.000Z");
}

#[test]
fn zones_and_forms_are_obeyed() {
    let local = json!({ "formats": ["dd.MM.yyyy HH:mm"], "timezone": "Europe/Amsterdam" });
    assert_eq!(date(local, json!("06.05.2024 07:08")).as_deref(), Some("2024-05-06T07:08:00.000+02:00"));
    let by_field =
        json!({ "formats": ["UNIX"], "timezone": "{{zone}}", "output_format": "yyyy/MM/dd h a VV" });
    assert_eq!(date(by_field, json!(1_714_979_289)).as_deref(), Some("2024/05/06 9 AM Europe/Amsterdam"));
    let fixed = json!({ "formats": ["ISO8601"], "timezone": "+05:30", "output_format": "HH:mm xx EEEE" });
    assert_eq!(date(fixed, json!("2024-05-06T00:00:00Z")).as_deref(), Some("05:30 +0530 Monday"));
    let several = json!({ "formats": ["UNIX_MS", "ISO8601"] });
    assert_eq!(date(several, json!("2024-05-06")).as_deref(), Some("2024-05-06T00:00:00.000Z"));
}

#[test]
fn what_is_no_time_fails() {
    for (format, value) in [
        ("ISO8601", json!("yesterday")),
        ("ISO8601", json!("2024-02-30")),
        ("UNIX", json!("NaN")),
        ("UNIX", json!(1e300)),
        ("UNIX_MS", json!("9223372036854775807")),
        ("TAI64N", json!("é")),
        ("HH:mm", json!("25:00")),
        ("ISO8601", json!(null)),
        ("ISO8601", json!({})),
    ] {
        assert_eq!(date(json!({ "formats": [format] }), value.clone()), None, "{format} {value}");
    }
}

#[test]
fn a_time_names_the_index() {
    let name = |options: serde_json::Value, time: &str| {
        let mut processor =
            json!({ "field": "t", "index_name_prefix": "{{app}}-", "date_formats": ["ISO8601"] });
        processor.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let pipeline = json!({ "processors": [{ "date_index_name": processor }] });
        let (outcome, document) = crate::tests::run_all(pipeline, json!({ "t": time, "app": "web" }));
        assert_eq!(outcome, crate::Outcome::Done);
        document.index().to_owned()
    };
    let time = "2016-04-22T16:32:14.968Z";
    assert_eq!(name(json!({ "date_rounding": "d" }), time), "web-2016-04-22");
    assert_eq!(name(json!({ "date_rounding": "w" }), time), "web-2016-04-18");
    assert_eq!(name(json!({ "date_rounding": "M" }), time), "web-2016-04-01");
    assert_eq!(name(json!({ "date_rounding": "y", "index_name_format": "yyyy" }), time), "web-2016");
    let hour = json!({ "date_rounding": "h", "index_name_format": "yyyy-MM-dd-HHmm", "timezone": "+09:00" });
    assert_eq!(name(hour, time), "web-2016-04-23-0100");
    let minute = json!({ "date_rounding": "m", "index_name_format": "HHmmss" });
    assert_eq!(name(minute, time), "web-163200");
    crate::tests::fails(
        json!({ "date_index_name": { "field": "t", "date_rounding": "d" } }),
        json!({ "t": "yesterday" }),
        "unable to parse date [yesterday]",
    );
}
