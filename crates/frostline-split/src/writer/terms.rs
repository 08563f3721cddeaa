//! The terms of a split while it is written.

use crate::mapping::ValueType;
use crate::term::{Term, each_term};
use crate::tokenizer::Tokenizer;
use crate::writer::SplitWriter;

impl SplitWriter {
    /// The path and the type of every reading that the split has, by number.
    pub fn readings(&self) -> impl Iterator<Item = (&str, ValueType)> {
        self.readings.iter().map(|reading| (&*reading.path, reading.ty))
    }

    /// Hands the terms of each distinct value to `visit` with the number of its reading, or no term for a value that
    /// has none. A term that several values have comes several times.
    pub fn each_term(&self, mut visit: impl FnMut(usize, Option<Term<'_>>)) {
        let mut tokenizer = Tokenizer::new();
        for number in 0..self.values.len() as u32 {
            let reading = usize::from(self.values.reading(number));
            let Some(ty) = self.readings.get(reading).map(|reading| reading.ty) else { continue };
            let value = self.values.value(number, ty);
            if !each_term(&mut tokenizer, &value, |term| visit(reading, Some(term))) {
                visit(reading, None);
            }
        }
    }
}

#[cfg(test)]
mod tests;
