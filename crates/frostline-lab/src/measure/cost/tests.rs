use frostline_base::ErrorKind;

use super::*;

fn of(text: &str, load: Load) -> Result<Cost> {
    cost(&Catalogue::built_in("ebs-2025-09")?, "us-east-1", text, Path::new("/"), load)
}

#[test]
fn a_volume_has_its_price_and_its_promise() {
    let gp3 = of("gp3:500GiB,iops=4000", Load::Postgres).unwrap();
    assert_eq!((gp3.usd_per_month, gp3.promised_iops), (45.0, 4000.0));
    assert_eq!((gp3.promised_burst_iops, gp3.promised_bucket_requests), (None, None));
    let st1 = of("st1:2TiB", Load::Elasticsearch).unwrap();
    assert_eq!((st1.promised_iops, st1.promised_burst_iops), (80.0, Some(500.0)));
    assert_eq!(st1.promised_bucket_requests, Some(2_097_152.0));
    // Of a sequential stream 16 requests of 64 KiB are one credit.
    let log = of("st1:2TiB", Load::Log).unwrap();
    assert_eq!((log.promised_iops, log.promised_bucket_requests), (1280.0, Some(33_554_432.0)));
}

#[test]
fn a_class_alone_has_the_size_of_the_file_system() {
    let gib = gib(Path::new("/")).unwrap();
    assert_eq!(of("gp3", Load::Postgres).unwrap().usd_per_month, gib * 0.08);
}

#[test]
fn no_price_is_made_up() {
    assert!(of("gp4", Load::Postgres).unwrap_err().what().contains("did you mean `gp2`?"));
    let error = of("io2:100GiB,iops=1000", Load::Postgres).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.what().contains("no price per IOPS of io2 in us-east-1"), "{error}");
    let nowhere = cost(&Catalogue::latest(), "us-east-9", "gp3:1GiB", Path::new("/"), Load::Postgres);
    assert_eq!(nowhere.unwrap_err().kind(), ErrorKind::NotFound);
}
