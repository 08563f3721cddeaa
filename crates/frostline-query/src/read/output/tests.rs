use arrow::array::StringViewArray;
use frostline_base::ErrorKind;

use super::*;

#[test]
fn what_is_shown_as_a_document_is_json() {
    let check = |texts: &[Option<&str>]| {
        let texts: ArrayRef = Arc::new(texts.iter().copied().collect::<StringViewArray>());
        check_json(&texts).map_err(|e| e.kind())
    };
    assert_eq!(check(&[Some(" {\"a\":1e400} "), None, Some("{}")]), Ok(()));
    for damaged in ["", "{", "{}{}", "{\"a\":1,}", "{\"a\":\"\n\"}"] {
        assert_eq!(check(&[Some("{}"), Some(damaged)]), Err(ErrorKind::Corrupt), "{damaged}");
    }
}
