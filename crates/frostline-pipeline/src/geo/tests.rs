use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Addresses, mmdb};
use crate::{Document, Outcome, Pipeline, Pipelines, run};

/// Databases by their files, and no other pipeline.
struct Files(BTreeMap<&'static str, Arc<Addresses>>);

impl Pipelines for Files {
    fn get(&self, _: &str) -> Option<Arc<Pipeline>> {
        None
    }

    fn addresses(&self, file: &str) -> Option<Arc<Addresses>> {
        self.0.get(file).cloned()
    }
}

fn city() -> Vec<u8> {
    let berlin = json!({
        "city": { "names": { "de": "Berlin", "en": "Berlin" } },
        "continent": { "code": "EU", "names": { "en": "Europe" } },
        "country": { "iso_code": "DE", "is_in_european_union": true, "names": { "en": "Germany" } },
        "location": { "accuracy_radius": 20, "latitude": 52.5, "longitude": 13.25, "time_zone": "Europe/Berlin" },
        "postal": { "code": "10117" },
        "registered_country": { "iso_code": "DE", "names": { "en": "Germany" } },
        "subdivisions": [{ "iso_code": "BE", "names": { "en": "State of Berlin" } }],
    });
    let nowhere = json!({ "country": { "iso_code": "PT", "names": { "en": "Portugal" } } });
    mmdb::write("Test-City", &[("85.181.0.0/16", berlin), ("2a03::/16", nowhere)])
}

fn asn() -> Vec<u8> {
    let record = json!({ "autonomous_system_number": 6805, "autonomous_system_organization": "Telefonica" });
    mmdb::write("GeoLite2-ASN", &[("85.181.0.0/17", record)])
}

fn files() -> Files {
    let read = |bytes| Arc::new(Addresses::read(bytes).unwrap());
    let other = mmdb::write("Else", &[("85.181.0.0/16", json!({ "x": 1 }))]);
    Files(BTreeMap::from([
        ("GeoLite2-City.mmdb", read(city())),
        ("GeoLite2-ASN.mmdb", read(asn())),
        ("other.mmdb", read(other)),
    ]))
}

/// What a processor makes of a document, or why that fails.
fn ran(files: &Files, processor: Value, source: Value) -> Result<Value, String> {
    let pipeline = Pipeline::parse(&json!({ "processors": [processor] }).into()).unwrap();
    let mut document = Document::new("logs", None, source.as_object().unwrap().clone(), 0);
    match run(files, "p", &pipeline, &mut document, None) {
        Outcome::Done => Ok(crate::tests::shown(&document)),
        Outcome::Failed(failure) => Err(failure.reason),
        other => panic!("{other:?}"),
    }
}

fn located(options: Value, ip: Value) -> Result<Value, String> {
    let mut options = options;
    options["field"] = json!("ip");
    ran(&files(), json!({ "geoip": options }), json!({ "ip": ip })).map(|mut source| source["geoip"].take())
}

#[test]
fn an_address_gets_what_its_database_tells() {
    let berlin = json!({
        "city_name": "Berlin", "continent_name": "Europe", "country_iso_code": "DE", "country_name": "Germany",
        "location": { "lat": 52.5, "lon": 13.25 }, "region_iso_code": "DE-BE", "region_name": "State of Berlin",
    });
    assert_eq!(located(json!({}), json!("85.181.35.98")), Ok(berlin));
    assert_eq!(
        located(json!({}), json!("2a03:0000:10ff::8000")),
        Ok(json!({ "country_iso_code": "PT", "country_name": "Portugal" }))
    );
    assert_eq!(located(json!({}), json!("10.0.0.1")), Ok(Value::Null));
    let asked = [
        "IP",
        "accuracy_radius",
        "continent_code",
        "country_in_european_union",
        "postal_code",
        "registered_country_iso_code",
        "registered_country_in_european_union",
        "timezone",
    ];
    assert_eq!(
        located(json!({ "properties": asked }), json!("85.181.35.98")),
        Ok(json!({
            "ip": "85.181.35.98", "accuracy_radius": 20, "continent_code": "EU", "country_in_european_union": true,
            "postal_code": "10117", "registered_country_iso_code": "DE",
            "registered_country_in_european_union": false, "timezone": "Europe/Berlin",
        }))
    );
    assert_eq!(
        located(json!({ "database_file": "GeoLite2-ASN.mmdb" }), json!("85.181.35.98")),
        Ok(json!({
            "asn": 6805, "ip": "85.181.35.98", "network": "85.181.0.0/17", "organization_name": "Telefonica",
        }))
    );
}

#[test]
fn of_a_list_the_first_or_all_are_told() {
    let list = json!(["10.0.0.1", "2a03::1", "85.181.35.98"]);
    let code = json!({ "properties": ["country_iso_code"] });
    assert_eq!(located(code.clone(), list.clone()), Ok(json!({ "country_iso_code": "PT" })));
    let mut all = code.clone();
    all["first_only"] = json!(false);
    let told = json!([null, { "country_iso_code": "PT" }, { "country_iso_code": "DE" }]);
    assert_eq!(located(all.clone(), list), Ok(told));
    assert_eq!(located(all, json!(["10.0.0.1"])), Ok(Value::Null));
    assert_eq!(located(code, json!([1])), Err("array in field [ip] should only contain strings".to_owned()));
}

#[test]
fn what_cannot_be_looked_up_fails() {
    for (options, ip, why) in [
        (json!({}), json!("x.y"), "'x.y' is not an IP string literal."),
        (json!({}), json!(7), "field [ip] of type [number] should contain only string or array of strings"),
        (json!({}), json!(null), "field [ip] is null, cannot process it."),
        (
            json!({ "database_file": "other.mmdb" }),
            json!("85.181.35.98"),
            "Unsupported database type [Else] for file [other.mmdb]",
        ),
        (
            json!({ "properties": ["asn"] }),
            json!("85.181.35.98"),
            "illegal property value [asn]. valid values are [accuracy_radius, ",
        ),
    ] {
        let failed = located(options, ip).unwrap_err();
        assert!(failed.starts_with(why), "{failed}");
    }
    assert_eq!(located(json!({ "ignore_missing": true }), json!(null)), Ok(Value::Null));
    for (options, what) in [
        (json!({ "field": "ip", "properties": ["color"] }), "[properties] has [color]"),
        (json!({ "field": "ip", "database_file": "../x.mmdb" }), "[database_file] is the name of a file"),
        (json!({ "field": "ip", "database_file": "x.zip" }), "[database_file] is the name of a file"),
        (json!({}), "[field] required property is missing"),
    ] {
        let error = Pipeline::parse(&json!({ "processors": [{ "geoip": options }] }).into()).unwrap_err();
        assert!(error.what().starts_with(what), "{error}");
    }
}

#[test]
fn a_document_without_its_database_is_tagged() {
    let none = Files(BTreeMap::new());
    let processor = json!({ "geoip": { "field": "ip", "ignore_missing": true } });
    assert_eq!(
        ran(&none, processor, json!({ "tags": ["a"] })),
        Ok(json!({ "tags": ["a", "_geoip_database_unavailable_GeoLite2-City.mmdb"] }))
    );
    let processor = json!({ "ip_location": { "field": "ip", "database_file": "mine.mmdb" } });
    assert_eq!(
        ran(&none, processor, json!({ "ip": "10.0.0.1" })),
        Ok(json!({ "ip": "10.0.0.1", "tags": ["_ip_location_database_unavailable_mine.mmdb"] }))
    );
    let processor = json!({ "ip_location": { "field": "ip", "properties": ["city_name"] } });
    assert_eq!(
        ran(&files(), processor, json!({ "ip": "85.181.1.1" })),
        Ok(json!({ "ip": "85.181.1.1", "ip_location": { "city_name": "Berlin" } }))
    );
}

proptest! {
    #[test]
    fn a_damaged_database_fails_documents_at_most(
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = city();
        for (at, byte) in damages {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(read) = Addresses::read(bytes) {
            let files = Files(BTreeMap::from([("GeoLite2-City.mmdb", Arc::new(read))]));
            let all: Vec<&str> = super::CITY.iter().map(|property| property.name).collect();
            for ip in ["85.181.35.98", "2a03::1", "10.0.0.1"] {
                let processor = json!({ "geoip": { "field": "ip", "properties": all } });
                let _ = ran(&files, processor, json!({ "ip": ip }));
            }
        }
    }
}
