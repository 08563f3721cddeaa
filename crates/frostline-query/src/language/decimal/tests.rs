use super::Decimal;

#[track_caller]
fn check(pattern: &str, value: f64, expected: &str) {
    assert_eq!(Decimal::parse(pattern).unwrap().text(value), expected, "{pattern}");
}

#[test]
fn numbers_are_written_by_patterns() {
    check("0.00", 1.005, "1.00");
    check("0.00", 0.125, "0.12");
    check("0.00", 0.375, "0.38");
    check("$0.00", f64::INFINITY, "$\u{221e}");
    check("0.00%", -1e308, "-\u{221e}%");
    check("0.00", f64::NAN, "NaN");
    check("0.00", -12.5, "-12.50");
    check("0", 2.5, "2");
    check("000", 7.0, "007");
    check("#,##0.00", 1_234_567.891, "1,234,567.89");
    check("#,##0", 999.0, "999");
    check("$#,##0.0", 1000.0, "$1,000.0");
    check("0.##", 3.0, "3");
    check("0.##", 3.1, "3.1");
    check("#.##", 0.5, "0.5");
    check("#.00", 0.5, ".50");
    check(".##", 0.5, ".5");
    check("#", 0.0, "0");
    check("0%", 0.256, "26%");
    check("0.0 'ms #'", 1.25, "1.2 ms #");
    check("0 o''clock", 3.0, "3 o'clock");
}

#[test]
fn patterns_that_are_not_understood_are_refused() {
    for (pattern, words) in [
        ("", "not a pattern"),
        ("yyyy", "not a pattern"),
        ("0#", "not a pattern"),
        ("0.#0", "not a pattern"),
        ("0.0.0", "not a pattern"),
        ("0,", "not a pattern"),
        (".", "not a pattern"),
        ("0.00;(0.00)", "`;` at character 5"),
        ("0E0", "`E` at character 2"),
        ("0 0", "`0` at character 3"),
        ("'0", "quote without an end"),
        (&"0".repeat(31), "more than 30 digits"),
        (&"x".repeat(201), "at most 200 characters"),
    ] {
        let error = Decimal::parse(pattern).unwrap_err();
        assert!(error.what().contains(words), "{pattern}: {}", error.what());
    }
}
