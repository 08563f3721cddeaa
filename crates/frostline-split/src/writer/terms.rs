//! The terms of a split that is not sealed.

use crate::mapping::ValueType;
use crate::term::{ID_FIELD, TakeTerms, Term, each_term};
use crate::tokenizer::Tokenizer;
use crate::writer::SplitWriter;

impl SplitWriter {
    /// Hands the terms of all values and of `_id`s to `to`. [`SplitWriter::seal_with_terms`] does it for less.
    pub fn each_term(&self, to: &mut dyn TakeTerms) {
        let (mut tokenizer, mut last) = (Tokenizer::new(), None);
        for number in 0..self.values.len() as u32 {
            let at = usize::from(self.values.reading(number));
            let Some(reading) = self.readings.get(at) else { continue };
            if last.replace(at) != Some(at) {
                to.reading(&reading.path, reading.ty);
            }
            let value = self.values.value(number, reading.ty);
            if !each_term(&mut tokenizer, &value, |term| to.term(Some(term))) {
                to.term(None);
            }
        }
        self.id_terms(to);
    }

    /// Hands the terms of the splits in which documents first landed to `to`, and those of identities from clients.
    pub(super) fn id_terms(&self, to: &mut dyn TakeTerms) {
        if !self.origins.splits().is_empty() || !self.identities.is_empty() {
            to.reading(ID_FIELD, ValueType::Text);
        }
        self.origins.splits().iter().for_each(|split| to.term(Some(Term::of_origin(*split))));
        self.identities.ids().for_each(|id| to.term(Some(Term::of_id(id))));
    }
}

#[cfg(test)]
mod tests;
