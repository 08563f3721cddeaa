//! What is known of the texts of a dictionary.

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::Int32Type;

/// What is known of the texts of a dictionary, each of which is looked at once: the batches of a column have it in common.
#[derive(Debug)]
pub struct KnownTexts<T> {
    texts: Option<StringArray>,
    known: Vec<Option<T>>,
}

impl<T> Default for KnownTexts<T> {
    fn default() -> Self {
        KnownTexts { texts: None, known: Vec::new() }
    }
}

impl<T: Copy> KnownTexts<T> {
    /// What `look` says of the text at each place of `array`, none where there is no text. `None` where the array has no keys
    /// of a dictionary of texts.
    pub fn of<'a>(
        &'a mut self,
        array: &'a ArrayRef,
        look: &mut dyn FnMut(&str) -> T,
    ) -> Option<impl Iterator<Item = Option<T>> + use<'a, T>> {
        let keys = array.as_dictionary_opt::<Int32Type>()?;
        let texts = keys.values().as_string_opt::<i32>()?;
        if !self.texts.as_ref().is_some_and(|known| known.to_data().ptr_eq(&texts.to_data())) {
            *self = KnownTexts { texts: Some(texts.clone()), known: vec![None; texts.len()] };
        }
        let places = || keys.keys().iter().map(|key| key.and_then(|key| usize::try_from(key).ok()));
        for place in places().flatten() {
            if let Some(known @ None) = self.known.get_mut(place)
                && texts.is_valid(place)
            {
                *known = Some(look(texts.value(place)));
            }
        }
        Some(places().map(|place| *self.known.get(place?)?))
    }
}

#[cfg(test)]
mod tests;
