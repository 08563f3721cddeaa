use frostline_base::ErrorKind;

use super::*;

fn question(size_gib: f64) -> RestoreQuestion {
    let region = "ap-northeast-2".to_owned();
    RestoreQuestion { size_gib, zones: 1, copies: 1, region, write_mib_per_s: None }
}

fn way(question: &RestoreQuestion, name: &str) -> RestoreWay {
    let plan = plan(question.clone()).unwrap();
    plan.options.into_iter().find(|way| way.name == name).unwrap()
}

fn fast_of(question: &RestoreQuestion) -> RestoreWay {
    way(question, "fast snapshot restore")
}

/// The worked examples of the vendor: minutes until the first volume, volumes at once, and dollars for one in Seoul.
#[test]
fn fast_snapshot_restore_is_as_published() {
    for (gib, minutes, at_once, usd, credits) in [
        (8.0, 6.0, 10, "0.86", "10.0000"),
        (128.0, 7.5, 8, "0.86", "8.0000"),
        (500.0, 29.3, 2, "0.86", "2.0480"),
        (1_024.0, 60.0, 1, "0.86", "1.0000"),
        (4_096.0, 240.0, 1, "3.42", "0.2500"),
        (16_384.0, 960.0, 1, "13.68", "0.0625"),
    ] {
        let fast = fast_of(&question(gib));
        assert_eq!(format!("{:.1}", fast.copies_s[0] / 60.0), format!("{minutes:.1}"), "{gib} GiB");
        assert_eq!(fast.at_once, Some(at_once), "{gib} GiB");
        assert_eq!(dollars(fast.usd.unwrap()), usd, "{gib} GiB");
        assert!(fast.note.starts_with(credits), "{gib} GiB: {}", fast.note);
    }
}

/// The study left it on for a day, at 24 times the price of what it needed.
#[test]
fn a_day_of_fast_snapshot_restore_is_not_its_price() {
    let fast = fast_of(&question(500.0));
    let published = ["0.86", "20.52"].map(str::to_owned);
    assert_eq!([fast.usd, fast.usd_per_day].map(|usd| dollars(usd.unwrap())), published);
}

#[test]
fn each_zone_has_a_bucket_of_its_own() {
    let fast = fast_of(&RestoreQuestion { zones: 2, copies: 4, ..question(500.0) });
    assert_eq!(
        fast.copies_s.iter().map(|s| format!("{:.1}", s / 60.0)).collect::<Vec<_>>(),
        ["29.3", "58.6"]
    );
    assert_eq!(dollars(fast.usd.unwrap()), "1.71");
    let many = fast_of(&RestoreQuestion { copies: 20, ..question(500.0) });
    assert_eq!(format!("{:.2}", many.full_speed_s.unwrap() / 3_600.0), "9.77");
    assert_eq!(dollars(many.usd.unwrap()), "8.35");
}

#[test]
fn the_other_ways_are_as_measured_or_published() {
    let of_500 = question(500.0);
    let hours = |name: &str| format!("{:.2}", way(&of_500, name).full_speed_s.unwrap() / 3_600.0);
    assert_eq!(hours("lazy"), "5.01", "the study: over 5 h");
    assert_eq!(hours("initialisation at 300 MiB/s"), "0.47", "28.4 minutes");
    assert_eq!(hours("initialisation at 100 MiB/s"), "1.42", "85 minutes");
    assert_eq!(way(&of_500, "lazy").usd, Some(0.0));
    let copy = way(&of_500, "copy of a volume");
    assert_eq!(
        (copy.ready_s, copy.full_speed_s, copy.usd),
        (Some(0.0), None, None),
        "what is not published is not guessed"
    );
    let of_four = RestoreQuestion { write_mib_per_s: Some(1_000.0), copies: 4, ..of_500 };
    for (name, ready_s) in [("frostline volume mount", 2.0), ("frostline volume restore", 512.0)] {
        let ours = way(&of_four, name);
        assert_eq!((ours.ready_s, ours.full_speed_s), (Some(ready_s), Some(512.0)), "{name}");
        assert_eq!(format!("{:.4}", ours.usd.unwrap()), "0.0896", "256,000 requests");
    }
}

#[test]
fn what_cannot_be_planned_is_told() {
    for (wrong, message) in [
        (question(0.0), "a volume must have 1 to 65536 GiB"),
        (question(500.0 / (1_u64 << 30) as f64), "not 500 B: write a size with its unit, such as 500GiB"),
        (question(f64::NAN), "a volume must have 1 to 65536 GiB"),
        (question(65_537.0), "a volume must have 1 to 65536 GiB"),
        (RestoreQuestion { zones: 0, ..question(8.0) }, "cannot be spread over 0 zones"),
        (RestoreQuestion { zones: 3, copies: 2, ..question(8.0) }, "2 volumes cannot be spread over 3 zones"),
        (RestoreQuestion { zones: 2, ..question(8.0) }, "1 volume cannot be spread over 2 zones"),
        (RestoreQuestion { region: "us-east-2".to_owned(), ..question(8.0) }, "did you mean `us-east-1`?"),
        (RestoreQuestion { write_mib_per_s: Some(0.0), ..question(8.0) }, "MiB/s"),
    ] {
        let error = plan(wrong.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.what().contains(message), "{wrong:?}: {error}");
    }
}

#[test]
fn a_way_that_a_volume_is_too_large_for_is_impossible() {
    let largest = question(65_536.0);
    let plan = plan(largest.clone()).unwrap();
    let impossible: Vec<&RestoreWay> = plan.options.iter().filter(|way| way.ready_s.is_none()).collect();
    let [fast] = impossible[..] else { panic!("{impossible:?}") };
    assert_eq!(*fast, fast_of(&largest));
    assert_eq!((fast.full_speed_s, fast.usd, fast.usd_per_day, fast.copies_s.len()), (None, None, None, 0));
    assert_eq!(fast.note, "impossible: only for volumes of at most 16384 GiB");
    let hours = way(&largest, "lazy").full_speed_s.unwrap() / 3_600.0;
    assert_eq!(format!("{hours:.0}"), "656");
    let page = page(&plan);
    assert_eq!(page.matches("<td>impossible<td><td><td>").count(), 1);
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
}

#[test]
fn a_duration_has_the_unit_that_suits_it() {
    let shown = [0.4, 2.0, 59.4, 59.6, 90.0, 5_399.0, 5_400.0].map(duration);
    assert_eq!(shown, ["at once", "2 s", "59 s", "1.0 min", "1.5 min", "90.0 min", "1.50 h"]);
}

#[test]
fn the_page_has_a_row_and_a_bar_for_each_way() {
    let plan = plan(question(500.0)).unwrap();
    let page = page(&plan);
    for option in &plan.options {
        assert_eq!(page.matches(&format!(">{}<", option.name)).count(), 2, "{}", option.name);
    }
    assert_eq!(page.matches("class=\"full\"").count(), plan.options.len());
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    assert!(page.contains("29.3 min") && page.contains("5.01 h"), "{page}");
}
