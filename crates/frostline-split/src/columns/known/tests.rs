use std::sync::Arc;

use arrow::array::{DictionaryArray, Int32Array};

use super::*;

fn array(keys: Vec<Option<i32>>, texts: &Arc<StringArray>) -> ArrayRef {
    Arc::new(DictionaryArray::new(Int32Array::from(keys), Arc::clone(texts) as ArrayRef))
}

#[test]
fn each_text_of_a_dictionary_is_looked_at_once() {
    let texts = Arc::new(StringArray::from(vec![Some("a"), Some("bc"), None, Some("never")]));
    let (mut known, mut looked) = (KnownTexts::default(), Vec::new());
    let mut of = |array: &ArrayRef| -> Option<Vec<Option<usize>>> {
        let mut look = |text: &str| {
            looked.push(text.to_owned());
            text.len()
        };
        Some(known.of(array, &mut look)?.collect())
    };
    let first = array(vec![Some(1), None, Some(0), Some(2), Some(1)], &texts);
    assert_eq!(of(&first), Some(vec![Some(2), None, Some(1), None, Some(2)]));
    assert_eq!(of(&first.slice(2, 2)), Some(vec![Some(1), None]));
    // The same places of another dictionary are other texts.
    let other = Arc::new(StringArray::from(vec!["def"]));
    assert_eq!(of(&array(vec![Some(0)], &other)), Some(vec![Some(3)]));
    assert_eq!(of(&(Arc::new(Int32Array::from(vec![1])) as ArrayRef)), None);
    assert_eq!(looked, ["bc", "a", "def"]);
}
