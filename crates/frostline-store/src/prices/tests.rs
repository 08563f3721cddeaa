use super::*;

#[test]
fn every_list_says_where_it_is_from() {
    let all = Prices::all().unwrap();
    assert!(all.len() >= 6);
    for (name, prices) in all {
        assert!(!prices.source.is_empty() && !prices.checked.is_empty(), "{name}");
    }
}

#[test]
fn a_bill_adds_up() {
    let prices = Prices::named("s3-standard-us-east-1").unwrap();
    let cost = Cost {
        gets: 1_000_000,
        puts: 1_000,
        lists: 1_000,
        deletes: 5,
        bytes_read: 1 << 40,
        ..Cost::default()
    };
    assert!((prices.usd(&cost) - 0.41).abs() < 1e-9);
    assert!((prices.usd_month(1_000_000_000_000) - 23.0).abs() < 1e-9);
    // The provider's own worked example, without its storage: 1.13 + 0.27 + 0.03 + 0.05.
    let express = Prices::named("s3-express-us-east-1").unwrap();
    let cost = Cost {
        gets: 9_000_000,
        puts: 1_000_000,
        bytes_read: 9_000_000 * 10_000,
        bytes_written: 1_000_000 * 10_000,
        ..Cost::default()
    };
    assert!((express.usd(&cost) - 1.486).abs() < 1e-9);
    assert!(Prices::named("moon").unwrap_err().to_string().contains("s3-standard-us-east-1"));
}
