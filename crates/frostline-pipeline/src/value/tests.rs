use super::*;

fn number(text: &str) -> Value {
    Value::of_scalar(text).unwrap()
}

#[test]
fn a_number_is_written_as_it_was_read() {
    for text in [
        "0",
        "-7",
        "9223372036854775807",
        "18446744073709551615",
        "18446744073709551616",
        "-0",
        "1.50",
        "1E2",
        "1e400",
    ] {
        assert_eq!(number(text).to_string(), text);
    }
    assert!(["", "x", "NaN", "truer"].iter().all(|text| Value::of_scalar(text).is_none()));
}

#[test]
fn numbers_are_equal_by_what_they_are() {
    assert_eq!(number("1.50"), number("1.5"));
    assert_ne!(number("1"), number("1.0"));
    for (one, other) in
        [("12345678901234567890123", "12345678901234567890124"), ("1e400", "1e401"), ("1e400", "-1e400")]
    {
        assert_ne!(number(one), number(other));
        assert_eq!(number(one), number(one));
    }
}

#[test]
fn a_number_counts_with_its_text() {
    let long = format!("1.{}", "0".repeat(1_000));
    assert!(crate::document::weight(&number(&long)) > 1_000);
}
